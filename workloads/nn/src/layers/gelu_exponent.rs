//! Exponents of the normal distribution function, as printed by testdata/approximations/gelu_exponent.py: coefficients
//! of a^0, a^1, ..
#![allow(clippy::excessive_precision, reason = "the digits as the fit printed them")]

/// log2 of Phi(-a); its error in a 2^z is at most 3.9e-07, and 2.9e-08 from a = 0.98 on.
pub(super) static EXACT: [f32; 8] = [
    -1.000000000e+00,
    -1.151204824e+00,
    -4.586718976e-01,
    -5.360808223e-02,
    8.240508847e-03,
    -8.323653019e-04,
    4.486267426e-05,
    -8.080689327e-07,
];

/// log2 of (1 - tanh(sqrt(2/pi) (a + 0.044715 a^3))) / 2; its error in a 2^z is at most 3.1e-07, and 2.3e-08 from a = 0.98 on.
pub(super) static TANH: [f32; 9] = [
    -1.000000000e+00,
    -1.150926352e+00,
    -4.606107175e-01,
    -4.734174535e-02,
    1.327007543e-03,
    5.464251153e-03,
    -3.091873135e-03,
    5.724762450e-04,
    -3.729288073e-05,
];
