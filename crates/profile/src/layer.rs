//! A layer for programs that are instrumented with `tracing`.
