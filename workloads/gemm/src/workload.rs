//! The workload `matmul`: products of the shapes that occur in attention.

use ellwand_core::verdict::compare;
use ellwand_core::{
    Axis, Case, Description, DeviceError, Domain, Dtype, Fit, HardSet, Implementation, InputError, Poison, Port, Ports,
    PrepareError, Prepared, Registry, Size, Tensor, Tensors, Tolerance, Value, Verdict, Work, Workload,
};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::panel::Source;
use super::plain::dot;
use super::product::{self, Product, product, products, scratch, streams};
use super::reference::reference;
use super::scratch::Scratch;
use super::{half, hard};
use ellwand_simd::isa::Isa;
use ellwand_simd::pool;
use ellwand_simd::precision::{self, Precision, narrowed, widened};

pub(super) const NAME: &str = "matmul";

struct Matmul(Description);

/// Rows, columns, length of the sums, and whether B is given as [n, k].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) transposed: bool,
}

impl Shape {
    pub(super) fn of(case: &Case) -> Result<Self, InputError> {
        let transposed = case.flag("transposed").unwrap_or(true);
        Ok(Self { m: case.size("m", 1)?, n: case.size("n", 1)?, k: case.size("k", 1)?, transposed })
    }

    pub(super) fn b(&self) -> [usize; 2] {
        if self.transposed { [self.n, self.k] } else { [self.k, self.n] }
    }

    /// An input, which must have the shape of the case.
    pub(super) fn input<'a>(&self, inputs: &'a Tensors, name: &str) -> Result<&'a Tensor, InputError> {
        let want = if name == "a" { [self.m, self.k] } else { self.b() };
        let array = inputs.get(name)?;
        if array.shape() == want {
            return Ok(array);
        }
        Err(InputError::new(name, format!("its shape is {:?}", array.shape()), format!("{want:?}")))
    }

    /// Number of elements of A, B and C together.
    fn values(&self) -> u64 {
        let [m, n, k] = [self.m, self.n, self.k].map(|size| size as u64);
        m.saturating_mul(k).saturating_add(k.saturating_mul(n)).saturating_add(m.saturating_mul(n))
    }
}

/// Normally distributed f32 values of a shape.
pub fn normal(shape: &[usize], spread: f64, rng: &mut ChaCha8Rng) -> Result<Tensor, InputError> {
    let mut x = Tensor::zeros(Dtype::F32, shape)?;
    for value in x.f32_mut()? {
        let normal: f64 = StandardNormal.sample(rng);
        *value = (normal * spread) as f32;
    }
    Ok(x)
}

impl Workload for Matmul {
    fn description(&self) -> &Description {
        &self.0
    }
    fn check(&self, case: &Case) -> Result<(), InputError> {
        Shape::of(case)?;
        Isa::of(case).map(drop)
    }
    fn footprint(&self, case: &Case) -> u64 {
        // Inputs, an implementation's copy (widened if bf16), and the reference's output.
        Shape::of(case).map_or(0, |shape| shape.values().saturating_mul(4 * 3))
    }
    fn ports(&self, case: &Case) -> Ports {
        let port = |name, shape, about| Port { name, dtype: Dtype::F32, shape, about, required: true };
        let ports = Ports {
            inputs: vec![
                port("a", "[m, k]", "left factor"),
                port("b", "[n, k], or [k, n] with transposed=off", "right factor"),
            ],
            outputs: vec![port("c", "[m, n]", "the product")],
        };
        if Precision::of(case) == Precision::Bf16 { precision::ports(ports, |_| true) } else { ports }
    }
    fn data_digest(&self, case: &Case) -> u64 {
        Isa::data_digest(case)
    }
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let shape = Shape::of(case)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let a = normal(&[shape.m, shape.k], 1.0, &mut rng)?;
        let wide = Tensors::new().with("a", a).with("b", normal(&shape.b(), 1.0, &mut rng)?);
        if Precision::of(case) == Precision::Bf16 { narrowed(wide, &half::INPUTS) } else { Ok(wide) }
    }
    fn hard_sets(&self, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
        hard::sets(self, case, seed, sums)
    }
    fn adopt(&self, case: &Case, given: Tensors, fit: Fit) -> Result<(Case, Tensors), InputError> {
        let mut case = case.clone();
        let transposed = Shape::of(&case)?.transposed;
        let matrix = |name: &str| -> Result<[usize; 2], InputError> {
            match Precision::of(&case) {
                Precision::F32 => given.f32(name).map(drop)?,
                Precision::Bf16 => precision::bits(&given, name).map(drop)?,
            }
            match given.get(name)?.shape() {
                [rows, columns] if *rows > 0 && *columns > 0 => Ok([*rows, *columns]),
                other => Err(InputError::new(name, format!("its shape is {other:?}"), "a matrix that is not empty")),
            }
        };
        let ([m, k], b) = (matrix("a")?, matrix("b")?);
        let (n, inner) = if transposed { (b[0], b[1]) } else { (b[1], b[0]) };
        if inner != k {
            let expected = if transposed { format!("[n, {k}]") } else { format!("[{k}, n]") };
            return Err(InputError::new("b", format!("its shape {b:?} does not fit a, which is [{m}, {k}]"), expected)
                .help("with transposed=on, b is [n, k]; with transposed=off, [k, n]"));
        }
        for (axis, size) in [("m", m), ("n", n), ("k", k)] {
            if fit == Fit::Case && case.int(axis) != Some(size as i64) {
                let asked = case.int(axis).unwrap_or(0);
                return Err(InputError::setting(
                    axis,
                    format!("the case asks for {asked}, the arrays give {size}"),
                    format!("{axis}={size}"),
                ));
            }
            case.set(axis, size as i64);
        }
        Ok((case, given.only(&["a", "b"])))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let shape = Shape::of(case)?;
        let mut c = Tensor::zeros(Dtype::F32, &[shape.m, shape.n])?;
        // The bf16 result is compared with an unrounded one.
        let wide =
            if Precision::of(case) == Precision::Bf16 { &widened(inputs.clone(), &half::INPUTS)? } else { inputs };
        reference(shape, wide.f32("a")?, wide.f32("b")?, c.f32_mut()?);
        Ok(Tensors::new().with("c", c))
    }
    fn work(&self, case: &Case) -> Work {
        let Ok(Shape { m, n, k, .. }) = Shape::of(case) else { return Work::items("elements of C", 0) };
        let precision = Precision::of(case);
        let bytes = |rows: usize, columns: usize| precision.bytes() as u64 * rows as u64 * columns as u64;
        Work::items("elements of C", m as u64 * n as u64)
            .flops(2.0 * m as f64 * n as f64 * k as f64)
            .bytes(bytes(m, k) + bytes(k, n), bytes(m, n))
            .bf16(precision == Precision::Bf16)
    }
    fn tolerance(&self, case: &Case) -> Tolerance {
        match Precision::of(case) {
            Precision::F32 => sums(case),
            Precision::Bf16 => precision::tolerance(sums(case)),
        }
    }
    fn judge(&self, case: &Case, _: &Tensors, expected: &Tensors, got: &Tensors) -> Verdict {
        self.judge_within(case, expected, got, sums(case))
    }
    fn judge_within(&self, case: &Case, expected: &Tensors, got: &Tensors, tolerance: Tolerance) -> Verdict {
        match Precision::of(case) {
            Precision::F32 => compare(expected, got, tolerance),
            Precision::Bf16 => precision::judge(tolerance, &self.ports(case), expected, got),
        }
    }
}

/// Tolerance of a sum.
fn sums(case: &Case) -> Tolerance {
    // Rounding errors of K successive partial sums of products of standard normal values: the walk of a typical sum
    // contributes 0.3 K u (root mean square, u = 2^-24), and growth to a sum s another 0.4 |s| u sqrt(K). Allows seven
    // and five times these values; one wrong product gives an error of about 1.
    let (k, epsilon) = (case.int("k").unwrap_or(1) as f64, f64::from(f32::EPSILON));
    let rounded = Tolerance::Close { absolute: 1e-6 + k * epsilon, relative: 1e-6 + k.sqrt() * epsilon };
    if Precision::of(case) == Precision::Bf16 { half::tolerance(k, rounded) } else { rounded }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Reference,
    Scalar,
    Crate,
    Simd(Isa),
    Parallel(Isa),
}

impl Way {
    /// How bf16 arrays are widened around this method: with which instructions, and on all threads or one.
    pub(super) fn widening(self) -> Result<(Isa, bool), PrepareError> {
        match self {
            Way::Crate => {
                Err(PrepareError::Unsupported("the crate multiplies f32 and f64, not bf16; use precision=f32".into()))
            }
            Way::Reference => Ok((Isa::best(), true)),
            Way::Scalar => Ok((Isa::BASELINE, false)),
            Way::Simd(isa) => Ok((isa, false)),
            Way::Parallel(isa) => Ok((isa, true)),
        }
    }
}

pub(super) struct Job {
    way: Way,
    shape: Shape,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    scratch: Scratch,
}

impl Job {
    pub(super) fn new(way: Way, case: &Case, inputs: &Tensors) -> Result<Self, InputError> {
        let shape = Shape::of(case)?;
        let given = |name: &str| {
            inputs.get(name)?.f32()?;
            shape.input(inputs, name).cloned()
        };
        let threads = match way {
            Way::Simd(_) => 1,
            Way::Parallel(_) => pool::threads(),
            _ => 0,
        };
        Ok(Self {
            way,
            shape,
            a: given("a")?,
            b: given("b")?,
            c: Tensor::zeros(Dtype::F32, &[shape.m, shape.n])?,
            scratch: if threads > 0 { scratch(threads, shape.n, shape.k) } else { Scratch::new(0, 0) },
        })
    }

    /// The job's own A and B.
    pub(super) fn inputs(&mut self) -> [&mut Tensor; 2] {
        [&mut self.a, &mut self.b]
    }

    /// The job's own C.
    pub(super) fn result(&self) -> Result<&[f32], InputError> {
        self.c.f32()
    }
}

/// Plain loops that the compiler may vectorise.
fn scalar(shape: Shape, a: &[f32], b: &[f32], c: &mut [f32]) {
    let Shape { n, k, transposed, .. } = shape;
    for (c, a) in c.chunks_exact_mut(n).zip(a.chunks_exact(k)) {
        if transposed {
            for (c, b) in c.iter_mut().zip(b.chunks_exact(k)) {
                *c = dot(a, b);
            }
        } else {
            c.fill(0.0);
            for (a, b) in a.iter().zip(b.chunks_exact(n)) {
                c.iter_mut().zip(b).for_each(|(c, b)| *c += a * b);
            }
        }
    }
}

/// The product by the crate `matrixmultiply`, on one thread.
#[allow(unsafe_code)]
fn library(shape: Shape, a: &[f32], b: &[f32], c: &mut [f32]) {
    let Shape { m, n, k, transposed } = shape;
    let (along, across) = if transposed { (1, k as isize) } else { (n as isize, 1) };
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    // SAFETY: the strides describe arrays of m k, k n and m n elements, as `Job::new` checked; C overlaps neither
    // input.
    unsafe { matrixmultiply::sgemm(m, k, n, 1.0, a, k as isize, 1, b, along, across, 0.0, c, n as isize, 1) };
}

#[allow(unsafe_code)]
impl Prepared for Job {
    fn run(&mut self) {
        let shape = self.shape;
        let (Ok(a), Ok(b), Ok(c)) = (self.a.f32(), self.b.f32(), self.c.f32_mut()) else { return };
        let Shape { m, n, k, transposed } = shape;
        let p = Product {
            m,
            n,
            k,
            a: a.as_ptr(),
            a_stride: k,
            b: Source { at: b.as_ptr(), stride: shape.b()[1], transposed },
            alpha: 1.0,
            bias: None,
            c: c.as_mut_ptr(),
            c_stride: n,
            stream: streams(m * n, matches!(self.way, Way::Parallel(_))),
        };
        match self.way {
            Way::Reference => reference(shape, a, b, c),
            Way::Scalar => scalar(shape, a, b, c),
            Way::Crate => library(shape, a, b, c),
            // SAFETY: `Job::new` checked the lengths; this job owns C.
            Way::Simd(isa) => unsafe { product(isa, &p, &self.scratch) },
            // SAFETY: as above.
            Way::Parallel(isa) => unsafe { products(isa, 1, |_| p, &self.scratch) },
        }
    }
    fn poison(&mut self, poison: Poison) {
        poison.fill_tensor(&mut self.c);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("c", self.c.clone()))
    }
    fn threads(&self) -> Option<usize> {
        let Shape { m, n, k, .. } = self.shape;
        matches!(self.way, Way::Parallel(_)).then(|| product::threads(m, n, k))
    }

    fn what_ran(&self) -> String {
        match self.way {
            Way::Reference => format!("f64, {}", pool::about(pool::threads(), "values")),
            Way::Scalar => "scalar".into(),
            Way::Crate => "matrixmultiply 0.3".into(),
            Way::Simd(isa) => isa.name().into(),
            Way::Parallel(isa) => {
                format!("{}, {}", isa.name(), pool::about(self.threads().unwrap_or(1), "values"))
            }
        }
    }
}

/// Registers the workload and its implementations.
pub(super) fn register(registry: &mut Registry) {
    let axis = |name, about, default: i64| Axis::int(name, about, 1, 1 << 20, default);
    let axes = vec![
        axis("m", "rows of A and C", 512).unit("rows"),
        axis("n", "columns of B and C", 768).sweep([64_i64, 768]).unit("columns"),
        axis("k", "columns of A, rows of B", 768).sweep([64_i64, 768]).unit("values"),
        Axis::new("transposed", "B as [n, k], the layout of weights and keys; off: [k, n]", Domain::Switch, true),
        Isa::axis(),
        Precision::axis("type of A, B and C, sums in f32; bf16 is stored as its bits in uint16"),
    ];
    let size = |name, m: &[i64], n: &[i64], k: &[i64]| {
        let values = |list: &[i64]| list.iter().map(|v| Value::Int(*v)).collect::<Vec<_>>();
        Size { name, values: vec![("m", values(m)), ("n", values(n)), ("k", values(k))] }
    };
    let sizes = vec![
        size("tiny", &[7, 64], &[16, 64], &[16, 64]),
        size("small", &[256], &[64, 256], &[64, 256]),
        size("medium", &[1024], &[64, 1024], &[64, 1024]),
        size("large", &[2048], &[2048], &[2048]),
        // The query, key and value projection of a model with dimension 768 and sequence length 512.
        size("realistic", &[512], &[2304], &[768]),
    ];
    let about = "matrix product C = A B, B as [k, n] or transposed [n, k], sums in f32: the shapes of projections, scores \
                 and sums";
    let description = Description::new(NAME, about).group("transformer").axes(axes);
    registry.workload(Matmul(description.sizes(sizes)));
    let row = |name: &str, about: &str, way: fn(Isa) -> Way| {
        Implementation::cpu(NAME, name, about, move |case, inputs, _| {
            let way = way(Isa::of(case)?);
            if Precision::of(case) == Precision::Bf16 {
                return half::prepared(way, case, inputs);
            }
            Ok::<Box<dyn Prepared>, PrepareError>(Box::new(Job::new(way, case, inputs)?))
        })
    };
    registry.implementation(row("reference", "row by row in f64", |_| Way::Reference).many_threads());
    registry.implementation(row("scalar", "plain loops on one thread", |_| Way::Scalar));
    registry.implementation(row("matrixmultiply", "the crate of that name, on one thread", |_| Way::Crate));
    registry.implementation(row("simd", "tiles in registers, B packed, on one thread", Way::Simd));
    registry.implementation(row("parallel", "the same on all threads", Way::Parallel).many_threads());
    for row in super::gpu::implementations() {
        registry.implementation(row);
    }
}
