//! The workload `lattice-dot`: scores of coded rows against one coded query.
//!
//! It shows when products on codes pay off: they read fewer bytes than a plain f32 dot product over decoded rows, but
//! do more work per byte.

use ellwand_core::tensor::Buffer;
use ellwand_core::{
    Axis, Better, Case, Description, DeviceError, HardSet, Implementation, InputError, Poison, PrepareError, Prepared,
    Reading, Registry, Size, Tensor, Tensors, Tolerance, Work, Workload,
};
use ellwand_simd::isa::Isa;

use super::dot::{CodedRows, Integers, OneSided, TwoSided, f32_scores, unit};
use super::params::{Codec, Overload, Params};
use super::workload as shared;
use super::{Method, workload_reference};

pub(super) const NAME: &str = "lattice-dot";

struct Dot(Description);

/// Registers the workload and its implementations.
pub(super) fn register(registry: &mut Registry) {
    let mut axes = shared::code_axes();
    axes.extend([
        Axis::int("rows", "coded rows scored per iteration", 1, 1 << 24, 1000).sweep([10_i64, 1000]).unit("rows"),
        Axis::int("dimension", "values in a row; a tail is padded to whole vectors", 8, 1 << 16, 1024).unit("values"),
    ]);
    let size = |name, rows| Size::new(name, [("rows", rows)]);
    let sizes = vec![size("tiny", 10), size("small", 100), size("medium", 10_000), size("large", 100_000)];
    let about = "inner products of lattice-coded rows with one coded query";
    registry.workload(Dot(Description::new(NAME, about).axes(axes).sizes(sizes).baseline("f32")));
    let row = |name: &'static str, about: &str| {
        Implementation::cpu(NAME, name, about, move |case, inputs, _| Ok(Box::new(Job::new(name, case, inputs)?)))
    };
    registry.implementation(row("reference", "decoded one value at a time, exact integers"));
    registry.implementation(row("two-sided", "table of the products of all pairs of points, M^2 look-ups per block"));
    registry.implementation(row("one-sided", "tables made from the query inside the run, M look-ups per block"));
    registry.implementation(row("i8", "rows converted to integers by table, then an integer dot product"));
    registry.implementation(row("f32", "dot product over rows decoded beforehand: reads 4 bytes per value"));
}

/// Number of rows, blocks per row, and the code.
pub(super) fn shape(case: &Case) -> Result<(usize, usize, Codec), InputError> {
    let spec = shared::spec(case)?;
    let codec = Codec::new(Params { centred: false, overload: Overload::None, ..spec.params })?;
    let blocks = case.count("dimension", 1024).div_ceil(codec.dimension());
    Ok((case.count("rows", 1000), blocks, codec))
}

impl Workload for Dot {
    fn description(&self) -> &Description {
        &self.0
    }

    fn check(&self, case: &Case) -> Result<(), InputError> {
        shape(case).map(drop)
    }

    fn footprint(&self, case: &Case) -> u64 {
        let Ok((rows, blocks, codec)) = shape(case) else { return 0 };
        // Values to encode, kept decoded for f32; indices and digits; packed codes.
        let values = (rows * blocks * codec.dimension()) as u64;
        values * 12 + 4 * codec.packed_len(rows * blocks) as u64 + (1 << 20)
    }

    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let (rows, blocks, codec) = shape(case)?;
        let d = codec.dimension();
        let spread = shared::spec(case)?.spread;
        let coded = |rows: usize, seed| -> Result<Tensor, InputError> {
            let mut x = shared::normal(rows, blocks * d, spread, seed)?;
            // The last block of a row may be partly padding.
            let length = case.count("dimension", blocks * d);
            x.f32_mut()?.chunks_exact_mut(blocks * d).for_each(|row| row[length..].fill(0.0));
            // Not by an encoder under test.
            Ok(Tensor::vector(&workload_reference::Encoded::of(&codec, x.f32()?).packed[..]))
        };
        Ok(Tensors::new().with("rows", coded(rows, seed)?).with("query", coded(1, seed ^ 0x9e37_79b9_7f4a_7c15)?))
    }

    fn hard_sets(&self, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
        // Rows and blocks that leave a remainder, a row padded within its block, and a block with one value and otherwise padding.
        let sizes = [("odd sizes", 7, 67), ("one row", 1, 8), ("padding", 3, 9)];
        let set = |(name, rows, dimension): (&str, i64, i64)| {
            let mut case = case.clone();
            case.set("rows", rows);
            case.set("dimension", dimension);
            let inputs = self.inputs(&case, seed ^ case.digest())?;
            Ok(HardSet::new(name, case, inputs))
        };
        sizes.into_iter().map(set).collect()
    }

    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let (rows, blocks, codec) = shape(case)?;
        let values = |name: &str, n: usize| integers(&codec, inputs.u8(name)?, n * blocks);
        let (all, query) = (values("rows", rows)?, values("query", 1)?);
        let dot = |row: &[i64]| row.iter().zip(&query).map(|(a, b)| i128::from(*a) * i128::from(*b)).sum::<i128>();
        let scale = f64::from(codec.params().beta) / f64::from(codec.lattice().scale());
        let scores: Vec<f32> =
            all.chunks(query.len().max(1)).map(|row| (dot(row) as f64 * scale * scale) as f32).collect();
        Ok(Tensors::new().with("scores", Tensor::vector(&scores[..])))
    }

    fn work(&self, case: &Case) -> Work {
        let Ok((rows, blocks, codec)) = shape(case) else { return Work::items("rows", 0) };
        let values = (rows * blocks * codec.dimension()) as f64;
        let read = codec.packed_len(rows * blocks) + codec.packed_len(blocks);
        Work::items("rows", rows as u64).flops(2.0 * values).bytes(read as u64, 4 * rows as u64)
    }

    fn tolerance(&self, case: &Case) -> Tolerance {
        // An f32 sum of n products of size spread^2 has an error of a few sqrt(n) units in the last place of its
        // partial sums, whose size is spread^2 sqrt(n).
        let spread = shared::spec(case).map_or(1.0, |spec| spec.spread);
        let n = case.count("dimension", 1024) as f64;
        Tolerance::Close { absolute: 8.0 * f64::from(f32::EPSILON) * n * spread * spread, relative: 1e-5 }
    }

    fn readings(&self, case: &Case, _: &Tensors, _: &Tensors) -> Vec<Reading> {
        let Ok((_, _, codec)) = shape(case) else { return Vec::new() };
        let rate = codec.vector_bits() as f64 / codec.dimension() as f64;
        vec![Reading::derived(
            "stored-rate",
            "stored",
            "bits/dim",
            Better::Lower,
            rate,
            "bits of a packed row per value",
        )]
    }
}

/// A method of scoring, with its data.
enum Way {
    Reference { rows: Vec<i64>, query: Vec<i64>, unit: f64 },
    TwoSided { table: TwoSided, rows: CodedRows, query: CodedRows },
    OneSided { tables: OneSided, rows: CodedRows, query: Vec<f32> },
    Integers { table: Integers, rows: CodedRows, query: Vec<i16> },
    Decoded { rows: Buffer<f32>, query: Buffer<f32> },
}

struct Job {
    way: Way,
    scores: Vec<f32>,
    done: Result<(), InputError>,
}

/// The integers represented by the packed codes of `n` vectors (doubled for E8): at scale 1 the decoded values are the
/// lattice points, which are integers or half-integers.
fn integers(codec: &Codec, packed: &[u8], n: usize) -> Result<Vec<i64>, InputError> {
    let plain = Codec::new(Params { beta: 1.0, ..*codec.params() })?;
    let scale = codec.lattice().scale() as f32;
    let mut x = vec![0.0; n * codec.dimension()];
    plain.decode(Method::Reference, packed, None, &mut x)?;
    Ok(x.iter().map(|&x| (x * scale) as i64).collect())
}

/// The integers of a query in the form that GPU kernels use.
pub(super) fn narrow_query(codec: &Codec, inputs: &Tensors, blocks: usize) -> Result<Vec<i32>, PrepareError> {
    let query = integers(codec, inputs.u8("query")?, blocks)?;
    Ok(query.iter().map(|&s| i32::try_from(s).unwrap_or(i32::MAX)).collect())
}

impl Job {
    fn new(name: &str, case: &Case, inputs: &Tensors) -> Result<Job, PrepareError> {
        let (rows, blocks, codec) = shape(case)?;
        let way = Job::way(name, inputs.u8("rows")?, inputs.u8("query")?, rows, blocks, &codec)?;
        Ok(Job { way, scores: vec![0.0; rows], done: Ok(()) })
    }

    fn way(
        name: &str,
        packed: &[u8],
        packed_query: &[u8],
        n: usize,
        blocks: usize,
        codec: &Codec,
    ) -> Result<Way, PrepareError> {
        let decode = |codec: &Codec, method, packed: &[u8], n: usize| {
            let mut x = Buffer::filled(n * blocks * codec.dimension(), 0.0);
            codec.decode(method, packed, None, &mut x).map(|()| x)
        };
        if name == "reference" {
            let integers = |packed, n| integers(codec, packed, n * blocks);
            let (rows, query) = (integers(packed, n)?, integers(packed_query, 1)?);
            return Ok(Way::Reference { rows, query, unit: unit(codec) });
        }
        let best = Method::Simd(Isa::best());
        if name == "f32" {
            let (rows, query) = (decode(codec, best, packed, n)?, decode(codec, best, packed_query, 1)?);
            return Ok(Way::Decoded { rows, query });
        }
        let rows = CodedRows::new(codec, packed, n, blocks)?;
        let query = CodedRows::new(codec, packed_query, 1, blocks)?;
        Ok(match name {
            "two-sided" => Way::TwoSided { table: TwoSided::new(&rows)?, rows, query },
            "one-sided" => {
                let query = decode(codec, best, packed_query, 1)?.to_vec();
                Way::OneSided { tables: OneSided::new(&rows)?, rows, query }
            }
            _ => {
                let table = Integers::new(&rows, Isa::best())?;
                let query = table.row(&query, 0);
                Way::Integers { table, rows, query }
            }
        })
    }
}

impl Prepared for Job {
    fn run(&mut self) {
        let scores = &mut self.scores;
        self.done = match &mut self.way {
            Way::Reference { rows, query, unit } => {
                for (row, score) in rows.chunks_exact(query.len()).zip(scores) {
                    let sum: i64 = row.iter().zip(&*query).map(|(a, b)| a * b).sum();
                    *score = (sum as f64 * *unit) as f32;
                }
                Ok(())
            }
            Way::TwoSided { table, rows, query } => table.scores(rows, query, scores),
            Way::OneSided { tables, rows, query } => tables.scores(rows, query, scores),
            Way::Integers { table, rows, query } => table.scores(rows, query, scores),
            Way::Decoded { rows, query } => f32_scores(Isa::best(), rows, query, scores),
        };
    }

    fn poison(&mut self, poison: Poison) {
        self.done = Ok(());
        poison.fill(&mut self.scores);
    }

    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.done.clone()?;
        Ok(Tensors::new().with("scores", Tensor::vector(&self.scores[..])))
    }

    fn what_ran(&self) -> String {
        match &self.way {
            Way::Reference { .. } => "64-bit integers".to_owned(),
            Way::TwoSided { .. } | Way::OneSided { .. } => "scalar look-ups".to_owned(),
            Way::Integers { .. } | Way::Decoded { .. } => Isa::best().name().to_owned(),
        }
    }
}
