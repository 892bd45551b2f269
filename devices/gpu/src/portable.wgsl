
// Functions shared by several kernels. WGSL leaves the last bits of exponentials, logarithms and roots to the driver,
// and has no erfc: they are implemented here, so that every adapter computes the same function.

fn larger(a: f32, b: f32) -> f32 {
    return select(a, b, b > a);
}

// True if a number is neither infinite nor NaN.
fn is_finite(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7f800000u) != 0x7f800000u;
}

fn is_nan(v: f32) -> bool {
    return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u;
}

// 2^k for -126 <= k <= 127.
fn power(k: i32) -> f32 {
    return bitcast<f32>(u32(k + 127) << 23u);
}

// e^v: v = k ln 2 + r with |r| <= ln 2 / 2; k ln 2 is subtracted in two parts, of which the first is exact.
fn exponential(v: f32) -> f32 {
    if is_nan(v) {
        return v;
    }
    let inside = clamp(v, -104.0, 89.0);
    let k = floor(inside * 1.44269504 + 0.5);
    let r = (inside - k * 0.693359375) + k * 2.12194440e-4;
    var p = 1.9875691500e-4;
    p = p * r + 1.3981999507e-3;
    p = p * r + 8.3334519073e-3;
    p = p * r + 4.1665795894e-2;
    p = p * r + 1.6666665459e-1;
    p = p * r + 5.0000001201e-1;
    let e = p * r * r + r + 1.0;
    // In two steps, since the extremes exceed the range of one.
    let half = i32(k) / 2;
    return e * power(half) * power(i32(k) - half);
}

// ln v for a positive v: v = 2^k m with m around 1, and ln m by the series of the area hyperbolic tangent.
fn logarithm(v: f32) -> f32 {
    if !is_finite(v) {
        return v;
    }
    let bits = bitcast<u32>(v);
    let k = i32(bits - 0x3f3504f3u) >> 23u;
    let m = bitcast<f32>(bits - (bitcast<u32>(k) << 23u));
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let tail = q * (0.6666666667 + q * (0.4 + q * (0.2857142857 + q * 0.2222222222)));
    return f32(k) * 0.693147182464 + (2.0 * s + s * tail);
}

// erfc for z >= 0: W. Press et al., Numerical Recipes, a Chebyshev fit with a relative error below 1.2e-7.
fn erfc(z: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.5 * z);
    var p = 0.17087277;
    p = p * t - 0.82215223;
    p = p * t + 1.48851587;
    p = p * t - 1.13520398;
    p = p * t + 0.27886807;
    p = p * t - 0.18628806;
    p = p * t + 0.09678418;
    p = p * t + 0.37409196;
    p = p * t + 1.00002368;
    p = p * t - 1.26551223;
    return t * exponential(p - z * z);
}

fn gelu_tanh(v: f32) -> f32 {
    let inner = 0.79788456 * (v + 0.044715 * v * v * v);
    // x (1 + tanh u) / 2 = x / (1 + e^-2u), without cancellation.
    return v / (1.0 + exponential(-2.0 * inner));
}

// sum + v, with the rounding error kept in the second component (D. Knuth's TwoSum). An infinite sum has none.
fn plus(sum: vec2<f32>, v: vec2<f32>) -> vec2<f32> {
    let s = sum.x + v.x;
    let b = s - sum.x;
    let off = (sum.x - (s - b)) + (v.x - b);
    return vec2<f32>(s, select(0.0, sum.y + v.y + off, is_finite(s)));
}
