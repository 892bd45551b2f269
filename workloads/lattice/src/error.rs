//! Errors of the lattice quantizer. Every message names the argument, what was expected, and what to do.

use ellwand_core::error::did_you_mean;

use crate::params::Lattice;

/// A rejected request. Nothing has been written when one of these is returned, except that decoding invalid codes may
/// have filled part of the output.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LatticeError {
    /// A lattice name that is not in the table.
    #[error("unknown lattice {given:?}: expected one of Z2, D4, E8{}", suggestion(.given))]
    UnknownLattice {
        /// The name given.
        given: String,
    },
    /// The nesting ratio is outside 2..=256.
    #[error("q = {given}: expected an integer from 2 to 256; choose q = 4 if unsure")]
    Q {
        /// The value given.
        given: u64,
    },
    /// No levels, or too many: q^M exceeds the exact range.
    #[error(
        "levels = {levels} with q = {q}: expected at least 1 level and q^levels <= 2^20 = 1048576; use at most {most} levels for this q"
    )]
    Levels {
        /// The nesting ratio q.
        q: u32,
        /// Number of levels given.
        levels: u64,
        /// Largest number of levels for this q.
        most: u32,
    },
    /// A scale that is not positive, finite and normal for all retries.
    #[error(
        "beta = {given}: expected a positive finite scale whose retries beta*2^(alpha*cap), and their inverses, are normal f32 numbers; use a beta between 1e-30 and 1e30, or `auto`"
    )]
    Beta {
        /// The value given.
        given: f64,
    },
    /// Data whose power leaves no scale in range.
    #[error(
        "the data have a root mean square of {rms:e}, for which no scale between 1e-30 and 1e30 fits; scale the data"
    )]
    Power {
        /// Root mean square of the data.
        rms: f64,
    },
    /// The retry ramp is out of range.
    #[error(
        "retry ramp alpha = {alpha}, cap = {cap}: expected 0 < alpha <= 4 and 1 <= cap <= 64; the usual choice is alpha = 1/3, cap = 16"
    )]
    Ramp {
        /// Exponent step given.
        alpha: f64,
        /// Largest number of retries given.
        cap: u32,
    },
    /// A slice whose length does not match the others.
    #[error("{what} has {got} elements, expected {expected}; {help}")]
    Length {
        /// Name of the argument.
        what: &'static str,
        /// Number of elements expected.
        expected: usize,
        /// Number of elements given.
        got: usize,
        /// What to do.
        help: &'static str,
    },
    /// An output required by the overload mode is missing, or one was passed that the mode does not have.
    #[error("{what} {problem}; {help}")]
    Output {
        /// Name of the argument.
        what: &'static str,
        /// What is wrong with it.
        problem: &'static str,
        /// What to do.
        help: &'static str,
    },
    /// A shape without axes, or whose element count overflows or does not match the data.
    #[error("shape {shape:?}: {problem}")]
    Shape {
        /// The shape given.
        shape: Vec<usize>,
        /// What is wrong with it.
        problem: String,
    },
    /// An invalid level index; only possible if q is not a power of two.
    #[error(
        "vector {vector}, level {level}: index {index} is not below q^d = {limit}; the packed codes are damaged or belong to another q or lattice"
    )]
    Index {
        /// Index of the vector.
        vector: usize,
        /// Index of the level; 0 is the finest.
        level: usize,
        /// The index found.
        index: u64,
        /// Number of points of a level.
        limit: u64,
    },
    /// A digit that is not below q.
    #[error("digit {digit} of vector {vector} is not below q = {q}; the digits belong to another q")]
    Digit {
        /// Index of the vector.
        vector: usize,
        /// The digit found.
        digit: u8,
        /// The nesting ratio q.
        q: u32,
    },
    /// A retry count above the cap of the ramp.
    #[error("retries of vector {vector} is {retries}, above the cap {cap}; the retries belong to another code")]
    Retries {
        /// Index of the vector.
        vector: usize,
        /// The value found.
        retries: u8,
        /// Largest value allowed.
        cap: u8,
    },
    /// Stored codes that cannot be read.
    #[error("codes: {0}")]
    Container(String),
    /// A combination without an implementation, with the reason.
    #[error("unsupported: {0}")]
    Unsupported(String),
}

/// Refuses a slice of another length.
pub(crate) fn length(what: &'static str, got: usize, expected: usize, help: &'static str) -> Result<(), LatticeError> {
    if got == expected { Ok(()) } else { Err(LatticeError::Length { what, expected, got, help }) }
}

fn suggestion(given: &str) -> String {
    did_you_mean(given, Lattice::ALL.map(Lattice::name)).map(|hint| format!("; {hint}")).unwrap_or_default()
}
