//! The revision of the measured sources, which a history orders runs by.

use serde::{Deserialize, Serialize};

/// The last commit of the repository in which a command ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The commit, in full.
    pub commit: String,
    /// Date of the commit, in milliseconds since 1970-01-01 UTC.
    pub committed_unix_ms: u64,
    /// True if tracked files differed from the commit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
}

impl Revision {
    /// The commit in 10 digits, with `+` if files differed from it.
    pub fn short(&self) -> String {
        let digits: String = self.commit.chars().take(10).collect();
        if self.changed { format!("{digits}+") } else { digits }
    }
}
