//! Vectors of eight f32 in an array: plain code for every target, vectorised by the compiler.

use super::{Simd, half};

/// A token that every CPU may hold.
#[derive(Clone, Copy)]
pub(super) struct Baseline;

type Eight = [f32; 8];

#[inline(always)]
fn map(a: Eight, f: impl Fn(f32) -> f32) -> Eight {
    std::array::from_fn(|i| f(a[i]))
}

#[inline(always)]
fn zip(a: Eight, b: Eight, f: impl Fn(f32, f32) -> f32) -> Eight {
    std::array::from_fn(|i| f(a[i], b[i]))
}

#[inline(always)]
fn holds(a: Eight, b: Eight, f: impl Fn(f32, f32) -> bool) -> [bool; 8] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

#[allow(unsafe_code)]
impl Simd for Baseline {
    type F = Eight;
    type I = [i32; 8];
    type M = [bool; 8];
    type Double = super::double::Baseline;
    const LANES: usize = 8;
    // Sixteen four-lane registers on the usual target.
    const REGISTERS: usize = 8;
    const QUICK_LOOK_UP: bool = false;

    methods! {
        fn double(self) -> Self::Double = super::double::Baseline;
        fn splat(self, x: f32) -> Eight = [x; 8];
        fn load(self, x: &[f32]) -> Eight = std::array::from_fn(|i| x[i]);
        fn load_part(self, x: &[f32], fill: f32) -> Eight = std::array::from_fn(|i| x.get(i).copied().unwrap_or(fill));
        fn add(self, a: Eight, b: Eight) -> Eight = zip(a, b, |a, b| a + b);
        fn sub(self, a: Eight, b: Eight) -> Eight = zip(a, b, |a, b| a - b);
        fn mul(self, a: Eight, b: Eight) -> Eight = zip(a, b, |a, b| a * b);
        fn div(self, a: Eight, b: Eight) -> Eight = zip(a, b, |a, b| a / b);
        fn neg_mul_add(self, a: Eight, b: Eight, c: Eight) -> Eight = std::array::from_fn(|i| c[i] - a[i] * b[i]);
        fn min(self, a: Eight, b: Eight) -> Eight = zip(a, b, |a, b| if a < b { a } else { b });
        fn max(self, a: Eight, b: Eight) -> Eight = zip(a, b, |a, b| if a > b { a } else { b });
        fn abs(self, a: Eight) -> Eight = map(a, f32::abs);
        fn sqrt(self, a: Eight) -> Eight = map(a, f32::sqrt);
        fn round(self, a: Eight) -> Eight = map(a, f32::round_ties_even);
        fn copysign(self, a: Eight, b: Eight) -> Eight = zip(a, b, f32::copysign);
        fn lt(self, a: Eight, b: Eight) -> [bool; 8] = holds(a, b, |a, b| a < b);
        fn eq(self, a: Eight, b: Eight) -> [bool; 8] = holds(a, b, |a, b| a == b);
        fn select(self, m: [bool; 8], yes: Eight, no: Eight) -> Eight =
            std::array::from_fn(|i| if m[i] { yes[i] } else { no[i] });
        fn to_int(self, a: Eight) -> [i32; 8] = std::array::from_fn(|i| a[i].round_ties_even() as i32);
        fn int_to_float(self, a: [i32; 8]) -> Eight = std::array::from_fn(|i| a[i] as f32);
        fn bits(self, a: Eight) -> [i32; 8] = a.map(|x| x.to_bits() as i32);
        fn look_up(self, table: &[f32; 32], at: [i32; 8]) -> Eight =
            std::array::from_fn(|i| table[(at[i] & 31) as usize]);
        fn largest(self, a: Eight) -> f32 = a.into_iter().fold(f32::NEG_INFINITY, f32::max);
    }

    #[inline(always)]
    fn store(self, y: &mut [f32], v: Eight) {
        y[..8].copy_from_slice(&v);
    }
    #[inline(always)]
    fn store_part(self, y: &mut [f32], v: Eight) {
        for (y, v) in y.iter_mut().zip(v) {
            *y = v;
        }
    }
    #[inline(always)]
    fn stream(self, y: &mut [f32], v: Eight) {
        self.store(y, v);
    }
    #[inline(always)]
    fn fence(self) {}
    #[inline(always)]
    unsafe fn load_at(self, x: *const f32) -> Eight {
        // SAFETY: the caller's promise; an array of f32 has the alignment of f32.
        unsafe { x.cast::<Eight>().read() }
    }
    #[inline(always)]
    unsafe fn store_at(self, y: *mut f32, v: Eight) {
        // SAFETY: the caller's promise.
        unsafe { y.cast::<Eight>().write(v) }
    }
    #[inline(always)]
    unsafe fn transpose_at(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for i in 0..8 {
            for j in 0..8 {
                // SAFETY: the caller's promise covers row i of the source and row j of the target.
                unsafe { *to.add(j * to_stride + i) = *from.add(i * from_stride + j) };
            }
        }
    }
    #[inline(always)]
    unsafe fn widen_at(self, x: *const u16) -> Eight {
        // SAFETY: the caller's promise; an array of u16 has the alignment of u16.
        unsafe { x.cast::<[u16; 8]>().read() }.map(half::widen)
    }
    #[inline(always)]
    unsafe fn narrow_at(self, y: *mut u16, v: Eight) {
        // SAFETY: the caller's promise.
        unsafe { y.cast::<[u16; 8]>().write(v.map(half::narrow)) }
    }
    #[inline(always)]
    unsafe fn narrow_two_at(self, y: *mut u16, a: Eight, b: Eight) {
        // SAFETY: the caller's promise.
        unsafe {
            self.narrow_at(y, a);
            self.narrow_at(y.add(8), b);
        }
    }
    #[inline(always)]
    unsafe fn stream_narrow_two_at(self, y: *mut u16, a: Eight, b: Eight) {
        // SAFETY: the caller's promise.
        unsafe { self.narrow_two_at(y, a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: Eight, b: Eight, c: Eight) -> Eight {
        // f32::mul_add would be a library call on targets without the instruction.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn scale(self, a: Eight, n: Eight) -> Eight {
        let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
        zip(a, n, |a, n| {
            // Three factors, each a normal number, so that only the last product rounds a subnormal result.
            let n = n as i32;
            let first = n.clamp(-126, 127);
            let second = (n - first).clamp(-126, 127);
            let last = (n - first - second).clamp(-126, 127);
            a * power(last) * power(second) * power(first)
        })
    }
    #[inline(always)]
    fn split(self, a: Eight) -> (Eight, Eight) {
        let normal = map(a, |a| if a < f32::MIN_POSITIVE { a * 16_777_216.0 } else { a });
        let mantissa = map(normal, |a| f32::from_bits((a.to_bits() & 0x007f_ffff) | 0x3f80_0000));
        let exponent = zip(a, normal, |a, normal| {
            let exponent = (normal.to_bits() >> 23) as i32 - 127;
            (if a < f32::MIN_POSITIVE { exponent - 24 } else { exponent }) as f32
        });
        (mantissa, exponent)
    }
    #[inline(always)]
    fn sum(self, a: Eight) -> f32 {
        let [a, b, c, d] = [a[0] + a[4], a[1] + a[5], a[2] + a[6], a[3] + a[7]];
        (a + c) + (b + d)
    }
}
