//! Profiles from and to the formats of other programs, what they mean, and how two of them differ.
