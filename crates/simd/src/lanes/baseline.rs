//! Vectors of four f32 in an array: plain code for every target, vectorised by the compiler.

use super::{Simd, half};

/// A token that every CPU may hold.
#[derive(Clone, Copy)]
pub(super) struct Baseline;

type Four = [f32; 4];

#[inline(always)]
fn map(a: Four, f: impl Fn(f32) -> f32) -> Four {
    std::array::from_fn(|i| f(a[i]))
}

#[inline(always)]
fn zip(a: Four, b: Four, f: impl Fn(f32, f32) -> f32) -> Four {
    std::array::from_fn(|i| f(a[i], b[i]))
}

#[inline(always)]
fn holds(a: Four, b: Four, f: impl Fn(f32, f32) -> bool) -> [bool; 4] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

#[allow(unsafe_code)]
impl Simd for Baseline {
    type F = Four;
    type I = [i32; 4];
    type M = [bool; 4];
    type Double = super::double::Baseline;
    const LANES: usize = 4;
    // Sixteen four-lane registers on the usual target.
    const REGISTERS: usize = 16;
    const QUICK_LOOK_UP: bool = false;

    methods! {
        fn double(self) -> Self::Double = super::double::Baseline;
        fn splat(self, x: f32) -> Four = [x; 4];
        fn load(self, x: &[f32]) -> Four = std::array::from_fn(|i| x[i]);
        fn load_part(self, x: &[f32], fill: f32) -> Four = std::array::from_fn(|i| x.get(i).copied().unwrap_or(fill));
        fn add(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a + b);
        fn sub(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a - b);
        fn mul(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a * b);
        fn div(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a / b);
        fn neg_mul_add(self, a: Four, b: Four, c: Four) -> Four = std::array::from_fn(|i| c[i] - a[i] * b[i]);
        fn min(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| if a < b { a } else { b });
        fn max(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| if a > b { a } else { b });
        fn abs(self, a: Four) -> Four = map(a, f32::abs);
        fn sqrt(self, a: Four) -> Four = map(a, f32::sqrt);
        fn round(self, a: Four) -> Four = map(a, f32::round_ties_even);
        fn copysign(self, a: Four, b: Four) -> Four = zip(a, b, f32::copysign);
        fn lt(self, a: Four, b: Four) -> [bool; 4] = holds(a, b, |a, b| a < b);
        fn eq(self, a: Four, b: Four) -> [bool; 4] = holds(a, b, |a, b| a == b);
        fn select(self, m: [bool; 4], yes: Four, no: Four) -> Four =
            std::array::from_fn(|i| if m[i] { yes[i] } else { no[i] });
        fn any(self, m: [bool; 4]) -> bool = m.contains(&true);
        fn to_int(self, a: Four) -> [i32; 4] = std::array::from_fn(|i| a[i].round_ties_even() as i32);
        fn int_to_float(self, a: [i32; 4]) -> Four = std::array::from_fn(|i| a[i] as f32);
        fn bits(self, a: Four) -> [i32; 4] = a.map(|x| x.to_bits() as i32);
        fn look_up(self, table: &[f32; 32], at: [i32; 4]) -> Four =
            std::array::from_fn(|i| table[(at[i] & 31) as usize]);
        fn largest(self, a: Four) -> f32 = a.into_iter().fold(f32::NEG_INFINITY, f32::max);
    }

    #[inline(always)]
    fn store(self, y: &mut [f32], v: Four) {
        y[..4].copy_from_slice(&v);
    }
    #[inline(always)]
    fn store_part(self, y: &mut [f32], v: Four) {
        for (y, v) in y.iter_mut().zip(v) {
            *y = v;
        }
    }
    #[inline(always)]
    fn stream(self, y: &mut [f32], v: Four) {
        self.store(y, v);
    }
    #[inline(always)]
    fn fence(self) {}
    #[inline(always)]
    unsafe fn load_at(self, x: *const f32) -> Four {
        // SAFETY: the caller's promise; an array of f32 has the alignment of f32.
        unsafe { x.cast::<Four>().read() }
    }
    #[inline(always)]
    unsafe fn store_at(self, y: *mut f32, v: Four) {
        // SAFETY: the caller's promise.
        unsafe { y.cast::<Four>().write(v) }
    }
    #[inline(always)]
    unsafe fn transpose_at(self, from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for i in 0..4 {
            for j in 0..4 {
                // SAFETY: the caller's promise covers row i of the source and row j of the target.
                unsafe { *to.add(j * to_stride + i) = *from.add(i * from_stride + j) };
            }
        }
    }
    #[inline(always)]
    unsafe fn widen_at(self, x: *const u16) -> Four {
        // SAFETY: the caller's promise; an array of u16 has the alignment of u16.
        unsafe { x.cast::<[u16; 4]>().read() }.map(half::widen)
    }
    #[inline(always)]
    unsafe fn narrow_at(self, y: *mut u16, v: Four) {
        // SAFETY: the caller's promise.
        unsafe { y.cast::<[u16; 4]>().write(v.map(half::narrow)) }
    }
    #[inline(always)]
    unsafe fn narrow_two_at(self, y: *mut u16, a: Four, b: Four) {
        // SAFETY: the caller's promise.
        unsafe {
            self.narrow_at(y, a);
            self.narrow_at(y.add(4), b);
        }
    }
    #[inline(always)]
    unsafe fn stream_narrow_two_at(self, y: *mut u16, a: Four, b: Four) {
        // SAFETY: the caller's promise.
        unsafe { self.narrow_two_at(y, a, b) }
    }
    #[inline(always)]
    fn mul_add(self, a: Four, b: Four, c: Four) -> Four {
        // f32::mul_add would be a library call on targets without the instruction.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn scale(self, a: Four, n: Four) -> Four {
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
    fn split(self, a: Four) -> (Four, Four) {
        let normal = map(a, |a| if a < f32::MIN_POSITIVE { a * 16_777_216.0 } else { a });
        let mantissa = map(normal, |a| f32::from_bits((a.to_bits() & 0x007f_ffff) | 0x3f80_0000));
        let exponent = zip(a, normal, |a, normal| {
            let exponent = (normal.to_bits() >> 23) as i32 - 127;
            (if a < f32::MIN_POSITIVE { exponent - 24 } else { exponent }) as f32
        });
        (mantissa, exponent)
    }
    #[inline(always)]
    fn sum(self, a: Four) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }
}
