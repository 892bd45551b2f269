//! What can go wrong between a profile and its page.

use std::io;

/// Why no page was written.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The text is not a profile of a version that this crate reads.
    #[error("not a profile: {0}")]
    Format(String),
    /// An index or a length in the profile contradicts the rest.
    #[error("the profile is damaged: {0}")]
    Damaged(String),
    /// The page could not be written.
    #[error("the page could not be written")]
    Write(#[from] io::Error),
}
