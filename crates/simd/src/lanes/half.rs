//! bf16, a 16-bit float: the upper half of an f32, so that widening is exact, with 8 significant bits. In memory it is
//! a u16.

/// Converts bf16 bits to f32, exactly.
#[inline(always)]
pub fn widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to the nearest bf16, ties to even, and returns its bits; NaN stays NaN.
#[inline(always)]
pub fn narrow(value: f32) -> u16 {
    if value.is_nan() {
        return 0x7fff;
    }
    let bits = value.to_bits();
    // The largest finite values round to infinity, as on a device.
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::lanes::{Kernel, Simd, dispatch};

    /// Converts whole vectors from bf16 and back, with or without non-temporal stores.
    struct There<'a>(&'a [u16], bool);

    impl Kernel for There<'_> {
        type Out = (Vec<f32>, Vec<u16>);
        #[inline(always)]
        #[allow(unsafe_code)]
        fn run<S: Simd>(self, s: S) -> Self::Out {
            let mut wide = vec![0.0; self.0.len()];
            let mut back = crate::buffer::Buffer::filled(self.0.len(), 0_u16, crate::buffer::Pages::Heap);
            for at in (0..self.0.len()).step_by(2 * S::LANES) {
                // SAFETY: the lengths are multiples of 32, and the buffer is aligned to a cache line.
                unsafe {
                    let (a, b) = (s.widen_at(self.0.as_ptr().add(at)), s.widen_at(self.0.as_ptr().add(at + S::LANES)));
                    s.store_at(wide.as_mut_ptr().add(at), a);
                    s.store_at(wide.as_mut_ptr().add(at + S::LANES), b);
                    let to = back.as_mut_ptr().add(at);
                    if self.1 { s.stream_narrow_two_at(to, a, b) } else { s.narrow_two_at(to, a, b) }
                }
            }
            s.fence();
            (wide, back.to_vec())
        }
    }

    struct Narrow<'a>(&'a [f32]);

    impl Kernel for Narrow<'_> {
        type Out = Vec<u16>;
        #[inline(always)]
        #[allow(unsafe_code)]
        fn run<S: Simd>(self, s: S) -> Vec<u16> {
            let mut y = vec![0; self.0.len()];
            for at in (0..y.len()).step_by(S::LANES) {
                // SAFETY: the lengths are multiples of 16.
                unsafe { s.narrow_at(y.as_mut_ptr().add(at), s.load_at(self.0.as_ptr().add(at))) };
            }
            y
        }
    }

    #[test]
    fn every_bf16_comes_back_from_f32() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for isa in Isa::available() {
            for stream in [false, true] {
                let (wide, back) = dispatch(isa, There(&all, stream));
                for ((bits, wide), back) in all.iter().zip(wide).zip(back) {
                    let same = if widen(*bits).is_nan() { widen(back).is_nan() } else { back == *bits };
                    assert!(wide.to_bits() >> 16 == u32::from(*bits) && same, "{} {bits:x} {back:x}", isa.name());
                }
            }
        }
    }

    #[test]
    fn rounding_is_to_the_nearest_and_the_even_of_two() {
        let mut values = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 0.0, -0.0, 1e-45];
        values.extend([f32::from_bits(0x7f80_0001), f32::from_bits(0xffc0_0000)]);
        // Around the ties of several exponents: halfway, one bit below, one above.
        for upper in (0x3f00..0x4100).chain(0x0000..0x0100).chain(0x7f00..0x7f80).chain(0xbf80..0xbfc0) {
            values.extend([0x7fff_u32, 0x8000, 0x8001, 1, 0xffff].map(|low| f32::from_bits(upper << 16 | low)));
        }
        values.truncate(values.len() / 16 * 16);
        for isa in Isa::available() {
            for (value, got) in values.iter().zip(dispatch(isa, Narrow(&values))) {
                assert_eq!(got, narrow(*value), "{} {value:e}", isa.name());
            }
        }
        for value in values.iter().filter(|value| value.is_finite()) {
            let near = widen(narrow(*value));
            let (above, below) = (widen(narrow(*value) + 1), widen(narrow(*value).saturating_sub(1)));
            let off = |other: f32| (f64::from(*value) - f64::from(other)).abs();
            // If the nearest value is infinity, the bound is half a step beyond the largest number.
            let far = if near.is_finite() { off(near) } else { 2.0_f64.powi(128) - f64::from(value.abs()) };
            assert!([above, below].iter().all(|other| other.is_nan() || far <= off(*other)), "{value:e} {near:e}");
        }
        // Ties round to even.
        assert_eq!([0x3f80_8000, 0x3f81_8000].map(|bits| narrow(f32::from_bits(bits))), [0x3f80, 0x3f82]);
    }
}
