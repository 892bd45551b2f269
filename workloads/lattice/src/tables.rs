//! The points of a level by index, so that decoding looks them up.

use std::sync::OnceLock;

use super::params::{Codec, Lattice};
use super::scalar::{self, Kind};

/// Largest table of a level's points in bytes: it shares the L2 cache with the data.
const TABLE_BYTES: u128 = 256 << 10;

/// Tables built when decoding is first used.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    points: OnceLock<Box<[f32]>>,
    bytes: OnceLock<Option<ByteTable>>,
}

impl Codec {
    /// The points of one level in lattice units by packed index, if the table is small. Bit patterns that are not an
    /// index (q not a power of two) hold zeros.
    pub(super) fn level_table(&self) -> Option<&[f32]> {
        let d = self.dimension();
        if (d as u128 * 4) << self.level_bits() > TABLE_BYTES {
            return None;
        }
        Some(self.tables().points.get_or_init(|| match self.lattice() {
            Lattice::Z2 => table::<scalar::Z2, 2>(self),
            Lattice::D4 => table::<scalar::D4, 4>(self),
            Lattice::E8 => table::<scalar::E8, 8>(self),
        }))
    }

    /// The points as bytes, if they fit.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AVX-512 VBMI looks up bytes"))]
    pub(super) fn byte_table(&self) -> Option<&ByteTable> {
        self.tables().bytes.get_or_init(|| ByteTable::new(self)).as_ref()
    }
}

/// The points of every level times its weight q^m as bytes, for lookups in registers: 256 bytes for each level and
/// coordinate.
#[derive(Debug, Clone)]
pub(super) struct ByteTable {
    rows: Vec<ByteRow>,
}

/// The values of one coordinate at one level by index, aligned to cache lines.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct ByteRow(pub(super) [i8; 256]);

impl ByteTable {
    /// The rows of each level, one per coordinate.
    pub(super) fn levels<const D: usize>(&self) -> &[[ByteRow; D]] {
        self.rows.as_chunks().0
    }

    /// `None` if an index has more than 8 bits, a vector more than 32, or a sum does not fit into a byte.
    fn new(codec: &Codec) -> Option<ByteTable> {
        if codec.level_bits() > 8 || codec.vector_bits() > 32 {
            return None;
        }
        let points = codec.level_table()?;
        let (d, scale) = (codec.dimension(), codec.lattice().scale() as f32);
        let largest = points.iter().fold(0.0f32, |largest, y| largest.max(y.abs())) * scale;
        let weights: Vec<f32> = (0..codec.levels() as i32).map(|m| (codec.q() as f32).powi(m)).collect();
        if largest * weights.iter().sum::<f32>() > 127.0 {
            return None;
        }
        let mut rows = Vec::with_capacity(codec.levels() * d);
        for weight in weights {
            for k in 0..d {
                let mut row = ByteRow([0; 256]);
                for (byte, y) in row.0.iter_mut().zip(points.iter().skip(k).step_by(d)) {
                    *byte = (weight * y * scale) as i8;
                }
                rows.push(row);
            }
        }
        Some(ByteTable { rows })
    }
}

fn table<K: Kind<D>, const D: usize>(codec: &Codec) -> Box<[f32]> {
    let mut points = vec![0.0; D << codec.level_bits()];
    let valid = points.as_chunks_mut::<D>().0.iter_mut().take(codec.level_points() as usize);
    for (index, point) in valid.enumerate() {
        let y = index_point::<K, D>(index as u64, codec.q());
        for (value, y) in point.iter_mut().zip(y) {
            *value = y as f32 / K::SCALE as f32;
        }
    }
    points.into_boxed_slice()
}

/// The point of a level index, doubled for E8.
#[inline(always)]
pub(super) fn index_point<K: Kind<D>, const D: usize>(index: u64, q: u32) -> [i32; D] {
    let mut digits = [0; D];
    let mut rest = index;
    for digit in digits.iter_mut().rev() {
        if q.is_power_of_two() {
            *digit = (rest & u64::from(q - 1)) as i32;
            rest >>= q.trailing_zeros();
        } else {
            *digit = (rest % u64::from(q)) as i32;
            rest /= u64::from(q);
        }
    }
    scalar::level_point::<K, D>(&digits, q as i32)
}
