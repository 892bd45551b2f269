//! Inner products of coded rows with a coded query, without storing decoded rows.
//!
//! With s = sum_m q^m y_m the integers of a block, a product is beta^2 sum s s'. With tables it is sum_{m,n} q^(m+n)
//! <y_m, y'_n>, looked up in one table for all pairs of points (two-sided, M^2 lookups per block), or in one table per
//! query block (one-sided, M lookups). Alternatively the row is converted back to i16 and multiplied as integers. All
//! integers are exact.

use ellwand_core::{InputError, PrepareError};

use super::params::{Codec, Overload, length};
use super::simd;
use super::{CodesMut, Method};
use ellwand_simd::isa::Isa;

/// Largest two-sided table, in entries.
const TWO_SIDED: u128 = 1 << 17;
/// Maximum number of points of a level for which tables are built.
const POINTS: u128 = 1 << 16;
/// Blocks converted to i16 at a time.
const CHUNK: usize = 32;

/// Level indices of coded rows, one array element per index, in the order row, block, level.
#[derive(Debug, Clone)]
pub struct CodedRows {
    codec: Codec,
    blocks: usize,
    indices: Vec<u16>,
}

impl CodedRows {
    /// Unpacks the codes of rows of `blocks` vectors each.
    ///
    /// # Errors
    /// If the code has no tables (q^d > 65536, centred, or with retries), or the packed codes are damaged or not a
    /// whole number of rows.
    pub fn new(codec: &Codec, packed: &[u8], rows: usize, blocks: usize) -> Result<CodedRows, PrepareError> {
        if codec.params().centred || codec.has_retries() {
            return Err(PrepareError::Unsupported(
                "dot products on codes need one scale and no centring; use centred=off and overload none or flag"
                    .into(),
            ));
        }
        if codec.level_points() > POINTS {
            return Err(PrepareError::Unsupported(format!(
                "q^d = {} points per level need too large a table; at most 65536 are supported",
                codec.level_points()
            )));
        }
        let digits = codec.digits(packed, rows * blocks)?;
        let q = codec.q() as u16;
        let index =
            |digits: &[u8]| digits.iter().fold(0u16, |index, &b| index.wrapping_mul(q).wrapping_add(u16::from(b)));
        let indices = digits.chunks_exact(codec.dimension()).map(index).collect();
        Ok(CodedRows { codec: codec.clone(), blocks, indices })
    }

    /// Encodes rows of f32 (a whole number of vectors each).
    ///
    /// # Errors
    /// As for [`CodedRows::new`], and if `x` is not a whole number of rows.
    pub fn encode(codec: &Codec, x: &[f32], rows: usize) -> Result<CodedRows, PrepareError> {
        let n = codec.vectors_in(x.len())?;
        let (mut packed, mut flags) = (vec![0; codec.packed_len(n)], vec![0; n]);
        let overload = (codec.params().overload != Overload::None).then_some(&mut flags[..]);
        if !codec.has_retries() {
            codec.encode(Method::Simd(Isa::best()), x, CodesMut { packed: &mut packed, overload, retries: None })?;
        }
        CodedRows::new(codec, &packed, rows, n / rows.max(1))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.indices.len() / (self.blocks * self.codec.levels()).max(1)
    }

    /// The indices of each row.
    fn each(&self) -> impl Iterator<Item = &[u16]> {
        self.indices.chunks_exact((self.blocks * self.codec.levels()).max(1))
    }

    /// The points of a level as integers (doubled for E8), by index.
    fn points(&self) -> Result<Vec<i16>, InputError> {
        let n = self.codec.level_points() as usize;
        let digits: Vec<u16> = (0..n).map(|index| index as u16).collect();
        let rows = CodedRows { codec: single(&self.codec)?, blocks: 1, indices: digits };
        let d = self.codec.dimension();
        let scale = self.codec.lattice().scale() as f32;
        let mut packed = vec![0; rows.codec.packed_len(n)];
        let mut writer = super::bits::BitWriter::new(&mut packed);
        (0..n).for_each(|index| writer.put(index as u64, rows.codec.level_bits()));
        writer.finish();
        let mut points = vec![0.0; n * d];
        rows.codec.decode(Method::Simd(Isa::best()), &packed, None, &mut points)?;
        Ok(points.into_iter().map(|y| (y * scale) as i16).collect())
    }
}

/// The one-level code at scale 1, whose decoded values are the points themselves.
fn single(codec: &Codec) -> Result<Codec, InputError> {
    let params = codec.params();
    Codec::new(super::Params { levels: 1, beta: 1.0, centred: false, overload: Overload::None, ..*params })
}

/// Factor that converts integer sums to products: beta^2 over the square of the integer scale.
pub(super) fn unit(codec: &Codec) -> f64 {
    (f64::from(codec.params().beta) / f64::from(codec.lattice().scale())).powi(2)
}

fn same(rows: usize, scores: &[f32]) -> Result<(), InputError> {
    length("scores", scores.len(), rows, "allocate one score per row")
}

/// Table of the products of all pairs of points of a level.
#[derive(Debug, Clone)]
pub struct TwoSided {
    /// `products[j * n + i]` is the product of points i and j.
    products: Vec<i32>,
    n: usize,
}

impl TwoSided {
    /// Builds the table for the code of `rows`.
    ///
    /// # Errors
    /// If it would have more than 2^17 entries.
    pub fn new(rows: &CodedRows) -> Result<TwoSided, PrepareError> {
        let entries = rows.codec.level_points().pow(2);
        if entries > TWO_SIDED {
            return Err(PrepareError::Unsupported(format!(
                "a two-sided table needs q^(2d) = {entries} entries, at most 131072 are supported; use one-sided or i8"
            )));
        }
        let (d, n) = (rows.codec.dimension(), rows.codec.level_points() as usize);
        let points = rows.points()?;
        let mut products = Vec::with_capacity(n * n);
        for a in points.chunks_exact(d) {
            products.extend(
                points
                    .chunks_exact(d)
                    .map(|b| a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum::<i32>()),
            );
        }
        Ok(TwoSided { products, n })
    }

    /// Scores all rows against a query of one coded row.
    ///
    /// # Errors
    /// If `scores` has the wrong length.
    pub fn scores(&self, rows: &CodedRows, query: &CodedRows, scores: &mut [f32]) -> Result<(), InputError> {
        same(rows.rows(), scores)?;
        let (levels, q) = (rows.codec.levels(), i64::from(rows.codec.q()));
        let unit = unit(&rows.codec);
        let weights: Vec<i64> = (0..2 * levels as u32).map(|m| q.pow(m)).collect();
        for (row, score) in rows.each().zip(scores) {
            let mut sum = 0i64;
            for (i, j) in row.chunks_exact(levels).zip(query.indices.chunks_exact(levels)) {
                for (n, &j) in j.iter().enumerate() {
                    let products = &self.products[usize::from(j) * self.n..][..self.n];
                    for (m, &i) in i.iter().enumerate() {
                        sum += weights[m + n] * i64::from(products[usize::from(i)]);
                    }
                }
            }
            *score = (sum as f64 * unit) as f32;
        }
        Ok(())
    }
}

/// One table of f32 products per query block, filled for each query.
#[derive(Debug, Clone)]
pub struct OneSided {
    points: Vec<f32>,
    tables: Vec<f32>,
    n: usize,
}

impl OneSided {
    /// Allocates the tables of a query as long as the rows.
    ///
    /// # Errors
    /// If the points have no table.
    pub fn new(rows: &CodedRows) -> Result<OneSided, PrepareError> {
        let n = rows.codec.level_points() as usize;
        // Coordinate by coordinate, so that whole lanes fill a table.
        let (d, by_point) = (rows.codec.dimension(), rows.points()?);
        let points = (0..d).flat_map(|k| by_point.iter().skip(k).step_by(d).map(|&y| f32::from(y))).collect();
        Ok(OneSided { points, tables: vec![0.0; rows.blocks * n], n })
    }

    /// Scores all rows against a query of f32 values, after building its tables.
    ///
    /// # Errors
    /// If `scores` or the query has the wrong length.
    pub fn scores(&mut self, rows: &CodedRows, query: &[f32], scores: &mut [f32]) -> Result<(), InputError> {
        same(rows.rows(), scores)?;
        let (levels, d) = (rows.codec.levels(), rows.codec.dimension());
        length("query", query.len(), rows.blocks * d, "pass a query as long as a row")?;
        let unit = rows.codec.params().beta / rows.codec.lattice().scale() as f32;
        for (table, x) in self.tables.chunks_exact_mut(self.n).zip(query.chunks_exact(d)) {
            table.fill(0.0);
            for (points, &x) in self.points.chunks_exact(self.n).zip(x) {
                let x = x * unit;
                table.iter_mut().zip(points).for_each(|(t, &y)| *t += x * y);
            }
        }
        let weights: Vec<f32> = (0..levels as i32).map(|m| (rows.codec.q() as f32).powi(m)).collect();
        for (row, score) in rows.each().zip(scores) {
            // Four sums, because a single one would wait for its own addition.
            let mut sums = [0.0f32; 4];
            let tables = self.tables.chunks_exact(self.n);
            for (b, (indices, table)) in row.chunks_exact(levels).zip(tables).enumerate() {
                for (&i, weight) in indices.iter().zip(&weights) {
                    sums[b % 4] += weight * table[usize::from(i)];
                }
            }
            *score = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
        Ok(())
    }
}

/// Points as i16, for converting rows back to integers.
#[derive(Debug, Clone)]
pub struct Integers {
    points: Vec<i16>,
    isa: Isa,
}

impl Integers {
    /// Builds the table for the code of `rows`.
    ///
    /// # Errors
    /// If decoded integers do not fit into 16 bits or their sums into 32.
    pub fn new(rows: &CodedRows, isa: Isa) -> Result<Integers, PrepareError> {
        // |y_m| <= q in each coordinate, so |s| <= q + .. + q^M < 2 q^M.
        let codec = &rows.codec;
        let largest = 2 * i64::from(codec.q()).pow(codec.levels() as u32) * i64::from(codec.lattice().scale());
        let sum = largest.pow(2) * (CHUNK * codec.dimension()) as i64;
        if largest > i64::from(i16::MAX) || sum > i64::from(i32::MAX) {
            return Err(PrepareError::Unsupported(format!(
                "decoded integers reach {largest}, too large for 16-bit products in 32-bit sums; use fewer levels or the f32 dot"
            )));
        }
        Ok(Integers { points: rows.points()?, isa })
    }

    /// The integers of one coded row.
    pub fn row(&self, rows: &CodedRows, row: usize) -> Vec<i16> {
        let codec = &rows.codec;
        let per_row = rows.blocks * codec.levels();
        let mut out = vec![0; rows.blocks * codec.dimension()];
        self.expand(codec, &rows.indices[row * per_row..][..per_row], &mut out);
        out
    }

    fn expand(&self, codec: &Codec, indices: &[u16], out: &mut [i16]) {
        match codec.dimension() {
            2 => self.blocks::<2>(codec, indices, out),
            4 => self.blocks::<4>(codec, indices, out),
            _ => self.blocks::<8>(codec, indices, out),
        }
    }

    fn blocks<const D: usize>(&self, codec: &Codec, indices: &[u16], out: &mut [i16]) {
        let (points, q) = (self.points.as_chunks::<D>().0, codec.q() as i16);
        for (indices, out) in indices.chunks_exact(codec.levels()).zip(out.as_chunks_mut::<D>().0) {
            let mut sum = [0i16; D];
            // Horner's rule from the coarsest level.
            for &index in indices.iter().rev() {
                let point = &points[usize::from(index)];
                (0..D).for_each(|k| sum[k] = sum[k] * q + point[k]);
            }
            *out = sum;
        }
    }

    /// Scores all rows against the integers of a query row.
    ///
    /// # Errors
    /// If `scores` or the query has the wrong length.
    pub fn scores(&self, rows: &CodedRows, query: &[i16], scores: &mut [f32]) -> Result<(), InputError> {
        same(rows.rows(), scores)?;
        let (levels, d) = (rows.codec.levels(), rows.codec.dimension());
        length("query", query.len(), rows.blocks * d, "pass a query as long as a row")?;
        let unit = unit(&rows.codec);
        let mut buffer = [0i16; CHUNK * super::MAX_DIMENSION];
        for (row, score) in rows.each().zip(scores) {
            let mut sum = 0i64;
            for (indices, query) in row.chunks(CHUNK * levels).zip(query.chunks(CHUNK * d)) {
                let values = &mut buffer[..query.len()];
                self.expand(&rows.codec, indices, values);
                sum += i64::from(simd::i16_dot(self.isa, values, query));
            }
            *score = (sum as f64 * unit) as f32;
        }
        Ok(())
    }
}

/// Scores decoded f32 rows against a decoded query: the baseline.
///
/// # Errors
/// If the number of rows differs from the number of scores.
pub fn f32_scores(isa: Isa, rows: &[f32], query: &[f32], scores: &mut [f32]) -> Result<(), InputError> {
    same(rows.len() / query.len().max(1), scores)?;
    for (row, score) in rows.chunks_exact(query.len().max(1)).zip(scores) {
        *score = simd::f32_dot(isa, row, query);
    }
    Ok(())
}
