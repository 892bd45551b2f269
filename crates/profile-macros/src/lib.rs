//! The attribute `#[profile]` of `ellwand-profile`.
