//! What can be known about a program while it runs in production: memory accounting now, spans to come.
//!
//! Floor 1: light enough to link into any program; it depends on the vocabulary only.

pub mod alloc;
