//! What a page shows besides the profile.

use serde::Serialize;

use crate::document::Document;

/// What a page shows besides the profile itself.
#[derive(Debug, Default, Clone, Copy)]
pub struct Extras<'a> {
    /// Findings, in the order in which the page lists them.
    pub findings: &'a [Finding],
    /// The profile to compare with (A); the page's own profile is B.
    pub baseline: Option<&'a Document>,
    /// Measured limits of the machine, for the roofline: bytes and floating-point operations per second.
    pub ceilings: Option<(f64, f64)>,
}

/// A finding of a rule, with its evidence.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the rule, such as `launch-bound`.
    pub rule: String,
    /// One sentence: what was found.
    pub title: String,
    /// Numbers with their names and units, as text.
    pub evidence: Vec<(String, String)>,
    /// The limit that the numbers crossed, as text.
    pub threshold: String,
    /// `measured`, `derived` or `heuristic`.
    pub confidence: String,
    /// Largest share of wall time that a cure could save (Amdahl), from 0 to 1.
    pub saving_upper_bound: Option<f64>,
    /// The experiment that would confirm it.
    pub next_experiment: String,
    /// Names of the operations that are its evidence.
    pub operations: Vec<String>,
    /// The time that is its evidence, in nanoseconds from the start of the recording.
    pub range_ns: Option<(f64, f64)>,
}
