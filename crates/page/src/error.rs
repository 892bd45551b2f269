//! What can go wrong between a profile and its page.

use std::io;

/// Why no page was written.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The text is not a profile.
    #[error("not a profile: {0}")]
    Format(String),
    /// The page could not be written.
    #[error("the page could not be written")]
    Write(#[from] io::Error),
}
