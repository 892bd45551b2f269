//! What a page shows besides the profile.

use serde_json::Value;

use crate::document::Document;

/// What a page shows besides the profile itself.
#[derive(Debug, Default, Clone, Copy)]
pub struct Extras<'a> {
    /// Findings in the order in which the page lists them, as `ellwand_trace::ProfileFinding` serialises: `rule`, `title`,
    /// `evidence` (`name`, `value`, `unit`), `threshold`, `confidence`, `saving_upper_bound`, `next_experiment`,
    /// `operations`, `ranges` (pairs of nanoseconds).
    pub findings: &'a [Value],
    /// The profile to compare with (A); the page's own profile is B.
    pub baseline: Option<&'a Document>,
    /// How the page's own profile differs from the baseline, as `ellwand_trace::Diff` serialises.
    pub difference: Option<&'a Value>,
}
