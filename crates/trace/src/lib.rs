//! Profiles from and to the formats of other programs, what they mean, and how two of them differ.

mod chrome;
mod read;

pub use read::{
    Imported, MOST_DETAILS, MOST_POINTS, MOST_SPANS, MOST_TEXT, Problem, ReadError, Source, read, read_from,
};
