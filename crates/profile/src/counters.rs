//! Work counters of a span: bytes moved, operations computed, items processed.

/// Work done inside a span, as declared by the code that did it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counters {
    /// Bytes that the work moved.
    pub bytes: u64,
    /// Items that the work processed.
    pub items: u64,
    /// Floating-point operations, as the caller counted them. Values that are not finite are ignored.
    pub flops: f64,
}

impl Counters {
    /// Adds to the bytes moved.
    #[must_use]
    pub fn bytes(mut self, bytes: impl Amount) -> Self {
        self.bytes = self.bytes.saturating_add(bytes.whole());
        self
    }

    /// Adds to the items processed.
    #[must_use]
    pub fn items(mut self, items: impl Amount) -> Self {
        self.items = self.items.saturating_add(items.whole());
        self
    }

    /// Adds to the floating-point operations.
    #[must_use]
    pub fn flops(self, flops: impl Amount) -> Self {
        self.plus(Self { flops: flops.real(), ..Self::default() })
    }

    /// The sum of both counters.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            items: self.items.saturating_add(more.items),
            flops: finite_sum(self.flops, more.flops),
        }
    }
}

/// The sum of both; if it is not finite, the finite one of the two. A single division by zero would otherwise erase all
/// work counted before.
pub(crate) fn finite_sum(a: f64, b: f64) -> f64 {
    let sums = [a + b, a, b];
    sums.into_iter().find(|sum| sum.is_finite()).unwrap_or(0.0)
}

/// A number accepted by a counter, so that `bytes = 4 * x.len()` needs no conversion.
pub trait Amount {
    /// As an integer, rounded, at least 0.
    fn whole(self) -> u64;
    /// As an `f64`.
    fn real(self) -> f64;
}

macro_rules! amount {
    ($($type:ty),*) => {$(
        impl Amount for $type {
            fn whole(self) -> u64 {
                u64::try_from(self).unwrap_or(0)
            }
            fn real(self) -> f64 {
                self as f64
            }
        }
    )*};
}
amount!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl Amount for f32 {
    fn whole(self) -> u64 {
        f64::from(self).whole()
    }
    fn real(self) -> f64 {
        self.into()
    }
}

impl Amount for f64 {
    fn whole(self) -> u64 {
        // `as` saturates at both ends of the range and converts NaN to 0.
        self.round() as u64
    }
    fn real(self) -> f64 {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_every_type_add_up() {
        let sum = Counters::default().bytes(8_usize).bytes(2.6).items(-3).items(7_u32).flops(2_u64).flops(0.5_f32);
        assert_eq!(sum, Counters { bytes: 11, items: 7, flops: 2.5 });
        assert_eq!(Counters::default().bytes(u64::MAX).bytes(1_u64).bytes, u64::MAX);
        assert_eq!(sum.plus(sum), Counters { bytes: 22, items: 14, flops: 5.0 });
        assert_eq!(sum.flops(f64::NAN).flops(f64::INFINITY), sum);
        assert_eq!(Counters::default().flops(f64::MAX).flops(f64::MAX).flops, f64::MAX);
        let unknown = Counters { flops: f64::NAN, ..Counters::default() };
        assert_eq!(unknown.plus(unknown).plus(sum), sum);
    }
}
