//! One offline HTML file that shows a profile or a report.
//!
//! [`profile_page`] writes the page of a profile in the format of `docs/profile-format.md`; [`run_page`] the page of
//! the model that `ellwand report --format json` prints; [`history_page`] the page of a value by commit. The file works
//! from `file:`, makes no network requests and allows only its own scripts (by hash).
//!
//! Floor 2. The script's modules are in `web/js`; `build.rs` joins them.

mod columns;
mod document;
mod page;

pub use document::{Document, PageError};
pub use page::{Extras, history_page, profile_page, run_page};
