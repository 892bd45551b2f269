//! Exponents of the normal distribution function, as printed by testdata/approximations/gelu_exponent.py: coefficients
//! of a^0, a^1, ..
#![allow(clippy::excessive_precision, reason = "the digits as the fit printed them")]

/// log2 of Phi(-a); the relative error of 2^z is at most 4.4e-07, and 1.1e-08 from a = 0.98 on.
pub(super) static EXACT: [f32; 9] = [
    -1.000000000e+00,
    -1.151113868e+00,
    -4.591369927e-01,
    -5.269500986e-02,
    7.328943349e-03,
    -3.269865701e-04,
    -1.117641368e-04,
    2.442058940e-05,
    -1.633066177e-06,
];

/// log2 of (1 - tanh(sqrt(2/pi) (a + 0.044715 a^3))) / 2; the relative error of 2^z is at most 1.4e-06, and 5.4e-08 from
/// a = 0.98 on.
pub(super) static TANH: [f32; 9] = [
    -1.000000000e+00,
    -1.151037812e+00,
    -4.599397480e-01,
    -4.883509502e-02,
    2.998731099e-03,
    4.424621351e-03,
    -2.728097606e-03,
    5.056096707e-04,
    -3.228224887e-05,
];
