//! One offline HTML file that shows a profile or a record.
