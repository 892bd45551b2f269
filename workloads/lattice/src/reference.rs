//! The obvious way, one vector at a time: true squared distances in wide integers, division by `div_euclid`, and
//! coordinates by the inverse of the basis matrix.
//!
//! It shares with the fast implementations only the definition of the input (two f32 roundings and a residual on a grid
//! of 2^-25) and the tie rule; bits are written and read one at a time.

use ellwand_core::InputError;

use super::encode::CodesMut;
use super::params::{Codec, Lattice, Overload};

/// Fixed-point grid of the input: 2^25 steps per lattice unit.
const UNIT: i64 = 1 << 25;

/// A point, doubled for E8; the first `d` entries are used.
type Point = [i64; 8];

/// Basis vectors as columns; doubled for E8, like its points.
pub(super) fn basis(lattice: Lattice) -> Vec<Vec<i64>> {
    match lattice {
        Lattice::Z2 => vec![vec![1, 0], vec![0, 1]],
        Lattice::D4 => vec![vec![-1, -1, 0, 0], vec![1, -1, 0, 0], vec![0, 1, -1, 0], vec![0, 0, 1, -1]],
        Lattice::E8 => {
            let mut columns = vec![vec![4, 0, 0, 0, 0, 0, 0, 0]];
            for i in 1..=6 {
                let mut column = vec![0; 8];
                column[i - 1] = -2;
                column[i] = 2;
                columns.push(column);
            }
            columns.push(vec![1; 8]);
            columns
        }
    }
}

/// The inverse of a basis as integers over one denominator, by fraction-free elimination.
fn inverse(columns: &[Vec<i64>]) -> (Vec<Vec<i64>>, i64) {
    let n = columns.len();
    // Rows of [G | I].
    let mut rows: Vec<Vec<i64>> = (0..n)
        .map(|r| (0..2 * n).map(|c| if c < n { columns[c][r] } else { i64::from(c - n == r) }).collect())
        .collect();
    let mut previous = 1;
    for pivot in 0..n {
        let found = (pivot..n).find(|&r| rows[r][pivot] != 0).expect("a basis has full rank");
        rows.swap(pivot, found);
        let lead = rows[pivot].clone();
        for (r, row) in rows.iter_mut().enumerate() {
            if r != pivot {
                let factor = row[pivot];
                for (entry, &above) in row.iter_mut().zip(&lead) {
                    *entry = (*entry * lead[pivot] - factor * above) / previous;
                }
            }
        }
        previous = lead[pivot];
    }
    (rows.iter().map(|row| row[n..].to_vec()).collect(), previous)
}

/// Dn: rounds, and if the sum is odd re-rounds the first coordinate with the largest residual. Works on x / unit;
/// returns plain (not doubled) integers.
fn nearest_dn(x: &[i64], unit: i64) -> Vec<i64> {
    let mut point: Vec<i64> = x.iter().map(|&x| (2 * x + unit).div_euclid(2 * unit)).collect();
    if point.iter().sum::<i64>().rem_euclid(2) == 1 {
        let residual: Vec<i64> = x.iter().zip(&point).map(|(&x, &p)| x - p * unit).collect();
        let mut worst = 0;
        for k in 1..residual.len() {
            if residual[k].abs() > residual[worst].abs() {
                worst = k;
            }
        }
        point[worst] += if residual[worst] >= 0 { 1 } else { -1 };
    }
    point
}

/// The lattice point nearest to x / unit (lattice units); doubled for E8. `unit` is even for E8.
pub(super) fn nearest(lattice: Lattice, x: &[i64], unit: i64) -> Point {
    let mut out = [0; 8];
    match lattice {
        Lattice::Z2 => {
            for (o, &x) in out.iter_mut().zip(x) {
                *o = (2 * x + unit).div_euclid(2 * unit);
            }
        }
        Lattice::D4 => out[..4].copy_from_slice(&nearest_dn(x, unit)),
        Lattice::E8 => {
            let whole: Vec<i64> = nearest_dn(x, unit).iter().map(|p| 2 * p).collect();
            let moved: Vec<i64> = x.iter().map(|x| x - unit / 2).collect();
            let half: Vec<i64> = nearest_dn(&moved, unit).iter().map(|p| 2 * p + 1).collect();
            let distance =
                |p: &[i64]| -> i128 { x.iter().zip(p).map(|(&x, &p)| i128::from(2 * x - p * unit).pow(2)).sum() };
            let (a, b) = (distance(&whole), distance(&half));
            let keep_half = b < a || (a == b && half[0] < whole[0]);
            out.copy_from_slice(if keep_half { &half } else { &whole });
        }
    }
    out
}

/// The finest lattice point of a vector at one scale.
pub(super) fn finest(codec: &Codec, x: &[f32], inverse_scale: f32) -> Point {
    let limit = (1 << 22) as f32;
    let fixed: Vec<i64> = x
        .iter()
        .zip(codec.shift())
        .map(|(&x, &z)| {
            let scaled = x * inverse_scale;
            let moved = scaled + z;
            // NaN goes to the lower limit, as in the vector minimum and maximum.
            let t = if moved > -limit { moved } else { -limit };
            let t = f64::from(if t < limit { t } else { limit });
            let whole = (t + 0.5).floor();
            whole as i64 * UNIT + ((t - whole) * UNIT as f64).round_ties_even() as i64
        })
        .collect();
    nearest(codec.lattice(), &fixed, UNIT)
}

/// Inverse of the basis and divisors of one code.
struct Frame {
    basis: Vec<Vec<i64>>,
    inverse: Vec<Vec<i64>>,
    denominator: i64,
    lattice: Lattice,
    d: usize,
    q: i64,
}

impl Frame {
    fn new(codec: &Codec) -> Frame {
        let basis = basis(codec.lattice());
        let (inverse, denominator) = inverse(&basis);
        let q = i64::from(codec.q());
        Frame { basis, inverse, denominator, lattice: codec.lattice(), d: codec.dimension(), q }
    }

    /// The coarser point Q(g / q).
    fn coarser(&self, g: &Point) -> Point {
        nearest(self.lattice, &g[..self.d], self.q * i64::from(self.lattice.scale()))
    }

    /// G^-1 g mod q as a level index, with coordinate 0 most significant.
    fn index(&self, g: &Point) -> u64 {
        self.inverse.iter().fold(0u64, |index, row| {
            let z: i64 = row.iter().zip(g).map(|(a, g)| a * g).sum();
            assert_eq!(z % self.denominator, 0, "a lattice point has integer coordinates");
            let digit = (z / self.denominator).rem_euclid(self.q);
            // Cannot overflow: q^8 - 1 fits for q = 256.
            index * self.q as u64 + digit as u64
        })
    }

    /// The point G b - q Q(G b / q) of a level index.
    fn point(&self, index: u64) -> Point {
        let mut rest = index;
        let mut digits = vec![0i64; self.d];
        for digit in digits.iter_mut().rev() {
            *digit = (rest % self.q as u64) as i64;
            rest /= self.q as u64;
        }
        let mut g = [0; 8];
        for (column, digit) in self.basis.iter().zip(&digits) {
            for (g, c) in g.iter_mut().zip(column) {
                *g += c * digit;
            }
        }
        let coarse = self.coarser(&g);
        for (g, c) in g.iter_mut().zip(coarse) {
            *g -= self.q * c;
        }
        g
    }
}

/// Encodes whole vectors; see [`Codec::encode`] for the arguments, which are already checked.
pub(super) fn encode(codec: &Codec, x: &[f32], out: CodesMut<'_>) {
    let frame = Frame::new(codec);
    let cap = match codec.params().overload {
        Overload::Retry { cap, .. } => cap,
        _ => 0,
    };
    let (mut flags, mut retries) = (out.overload, out.retries);
    out.packed.fill(0);
    let mut bits = 0;
    for (v, vector) in x.chunks_exact(frame.d).enumerate() {
        let mut t = 0;
        let (indices, overloaded) = loop {
            let mut g = finest(codec, vector, codec.inverse_scales()[usize::from(t)]);
            let mut indices = Vec::new();
            for _ in 0..codec.levels() {
                indices.push(frame.index(&g));
                g = frame.coarser(&g);
            }
            let overloaded = g != [0; 8];
            if !overloaded || t == cap {
                break (indices, overloaded);
            }
            t += 1;
        };
        for index in indices {
            put(out.packed, &mut bits, index, codec.level_bits());
        }
        if let Some(flags) = flags.as_deref_mut() {
            flags[v] = u8::from(overloaded);
        }
        if let Some(retries) = retries.as_deref_mut() {
            retries[v] = t;
        }
    }
}

/// Sets the next bits of a stream of zeros, the least significant first.
fn put(to: &mut [u8], at: &mut usize, value: u64, bits: u32) {
    for bit in 0..bits {
        to[*at / 8] |= ((value >> bit & 1) as u8) << (*at % 8);
        *at += 1;
    }
}

/// The next bits of a stream, the least significant first; zeros past its end.
pub(super) fn get(from: &[u8], at: &mut usize, bits: u32) -> u64 {
    let mut value = 0;
    for bit in 0..bits {
        let byte = from.get(*at / 8).copied().unwrap_or(0);
        value |= u64::from(byte >> (*at % 8) & 1) << bit;
        *at += 1;
    }
    value
}

/// Decodes the `depth` coarsest levels; arguments are already checked.
pub(super) fn decode(
    codec: &Codec,
    packed: &[u8],
    retries: Option<&[u8]>,
    depth: usize,
    out: &mut [f32],
) -> Result<(), InputError> {
    let frame = Frame::new(codec);
    let dropped = codec.levels() - depth;
    let mut bits = 0;
    for (v, vector) in out.chunks_exact_mut(frame.d).enumerate() {
        let mut sum = [0i64; 8];
        let mut weight = 1;
        for level in 0..codec.levels() {
            let index = get(packed, &mut bits, codec.level_bits());
            if u128::from(index) >= codec.level_points() {
                return Err(codec.invalid_index(v, level, index));
            }
            if level >= dropped {
                for (s, y) in sum.iter_mut().zip(frame.point(index)) {
                    *s += weight * y;
                }
            }
            weight *= frame.q;
        }
        let scale = codec.scales()[usize::from(retries.map_or(0, |t| t[v]))];
        let half = if frame.lattice == Lattice::E8 { 0.5 } else { 1.0 };
        for ((x, s), z) in vector.iter_mut().zip(sum).zip(codec.shift()) {
            let moved = s as f32 * half - z;
            *x = moved * scale;
        }
    }
    Ok(())
}
