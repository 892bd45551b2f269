//! The implementations by name.

use ellwand_simd::isa::Isa;

/// The implementation to use. All give the same bits; they differ only in speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Wide integers, squared distances, one vector at a time; the others are compared with it.
    Reference,
    /// Plain per-vector code.
    Scalar,
    /// Vector lanes on one thread.
    Simd(Isa),
    /// Vector lanes on all processors available to this process.
    Parallel(Isa),
}
