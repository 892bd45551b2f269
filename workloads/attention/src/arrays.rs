//! The arrays of each attention task: names, shapes, generation, and adoption of the user's arrays.

use ellwand_core::{Case, Dtype, Fit, InputError, Port, Ports, Tensor, Tensors};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::Task;
use super::shape::{Mask, Shape, set_keys};
use ellwand_gemm::normal;
use ellwand_simd::precision::Precision;

/// How an input is generated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fill {
    /// Normally distributed, with mean and standard deviation.
    Normal(f64, f64),
    /// Positive, about 1 / sequence, zero where masked: like softmax weights.
    Weights,
}

/// An f32 array.
pub(super) struct Array {
    pub(super) name: &'static str,
    pub(super) dims: Vec<usize>,
    pub(super) fill: Fill,
    shape: &'static str,
    about: &'static str,
}

fn array(name: &'static str, dims: &[usize], fill: Fill, shape: &'static str, about: &'static str) -> Array {
    Array { name, dims: dims.to_vec(), fill, shape, about }
}

const X: &str = "[batch, sequence, dimension]";
pub(super) const QUERIES: &str = "[batch, heads, sequence, head]";
pub(super) const KEYS: &str = "[batch, kv-heads, keys, head]";
const SQUARE: &str = "[batch, heads, sequence, sequence]";

/// The inputs of a task; the array that determines the sizes comes first.
pub(super) fn inputs(task: Task, s: &Shape) -> Vec<Array> {
    let Shape { batch: b, sequence: n, keys: m, dimension: d, heads: h, kv_heads: kv, .. } = *s;
    let (head, width) = (s.head(), s.projected());
    let unit = Fill::Normal(0.0, 1.0);
    // Keeps the outputs of a product about as large as its inputs.
    let weight = |columns: usize| Fill::Normal(0.0, 1.0 / (columns as f64).sqrt());
    let small = Fill::Normal(0.0, 0.1);
    let x = |name, about| array(name, &[b, n, d], unit, X, about);
    let qkv = || {
        [
            array(
                "w_qkv",
                &[width, d],
                weight(d),
                "[(heads + 2 kv-heads) head, dimension]",
                "weights of queries, keys, values",
            ),
            array("b_qkv", &[width], small, "[(heads + 2 kv-heads) head]", "bias of queries, keys, values"),
        ]
    };
    let out = || {
        [
            array("w_out", &[d, d], weight(d), "[dimension, heads head]", "weights of the output"),
            array("b_out", &[d], small, "[dimension]", "bias of the output"),
        ]
    };
    let q = || array("q", &[b, h, n, head], unit, QUERIES, "queries");
    let k = || array("k", &[b, kv, m, head], unit, KEYS, "keys");
    let v = || array("v", &[b, kv, m, head], unit, KEYS, "values");
    let mut list = Vec::new();
    match task {
        Task::Qkv => list.push(x("x", "positions")),
        Task::Scores => list.extend([q(), k()]),
        Task::Softmax => list.push(array("scores", &[b, h, n, n], Fill::Normal(0.0, 1.0), SQUARE, "scores")),
        Task::WeightedSum => list.extend([array("weights", &[b, h, n, n], Fill::Weights, SQUARE, "weights"), v()]),
        Task::Output => list.push(x("context", "outputs of all heads, concatenated")),
        Task::Core => list.extend([q(), k(), v()]),
        Task::Whole | Task::Layer => list.push(x("x", "positions")),
    }
    if matches!(task, Task::Qkv | Task::Whole | Task::Layer) {
        list.extend(qkv());
    }
    if matches!(task, Task::Output | Task::Whole | Task::Layer) {
        list.extend(out());
    }
    if task == Task::Layer {
        let (gain, hidden) = (Fill::Normal(1.0, 0.1), 4 * d);
        for (g, c) in [("gamma_1", "beta_1"), ("gamma_2", "beta_2")] {
            list.push(array(g, &[d], gain, "[dimension]", "gain of a layer norm"));
            list.push(array(c, &[d], small, "[dimension]", "shift of a layer norm"));
        }
        list.push(array("w_up", &[hidden, d], weight(d), "[4 dimension, dimension]", "weights of the hidden layer"));
        list.push(array("b_up", &[hidden], small, "[4 dimension]", "bias of the hidden layer"));
        list.push(array(
            "w_down",
            &[d, hidden],
            weight(hidden),
            "[dimension, 4 dimension]",
            "weights after the hidden layer",
        ));
        list.push(array("b_down", &[d], small, "[dimension]", "bias after the hidden layer"));
    }
    list
}

/// The output of a task.
pub(super) fn output(task: Task, s: &Shape) -> Array {
    let Shape { batch: b, sequence: n, dimension: d, heads: h, .. } = *s;
    let none = Fill::Normal(0.0, 0.0);
    match task {
        Task::Qkv => array(
            "qkv",
            &[b, n, s.projected()],
            none,
            "[batch, sequence, (heads + 2 kv-heads) head]",
            "queries, keys and values, concatenated",
        ),
        Task::Scores => array("scores", &[b, h, n, n], none, SQUARE, "q k / sqrt(head), -inf where masked"),
        Task::Softmax => {
            array("weights", &[b, h, n, n], none, SQUARE, "weights; 0 where masked, and in rows that see nothing")
        }
        Task::WeightedSum | Task::Core => {
            array("context", &[b, h, n, s.head()], none, QUERIES, "weighted sums of the values")
        }
        Task::Output | Task::Whole | Task::Layer => array("y", &[b, n, d], none, X, "positions"),
    }
}

/// True if a task uses the mask.
fn masked(task: Task) -> bool {
    !matches!(task, Task::Qkv | Task::Output)
}

/// Size of the inputs and of the output in bytes.
pub(super) fn bytes(task: Task, s: &Shape, precision: Precision) -> (u64, u64) {
    let one = precision.bytes() as u64;
    let read = inputs(task, s).iter().map(|array| size(array, one)).fold(0, u64::saturating_add);
    (read, size(&output(task, s), one))
}

/// Size of an array in bytes; a value takes `one`.
fn size(array: &Array, one: u64) -> u64 {
    array.dims.iter().fold(one, |bytes, extent| bytes.saturating_mul(*extent as u64))
}

/// Bytes of the inputs and of the output that a task must read and write: masked data need not be read.
pub(super) fn traffic(task: Task, s: &Shape, precision: Precision) -> (u64, u64) {
    let one = precision.bytes() as u64;
    let read = |array: &Array| match array.name {
        "k" | "v" => [s.seen_keys(), s.kv_heads, s.head()].iter().fold(one, |n, by| n.saturating_mul(*by as u64)),
        "scores" | "weights" => one.saturating_mul((s.pairs() * s.heads as f64) as u64),
        _ => size(array, one),
    };
    (inputs(task, s).iter().map(read).fold(0, u64::saturating_add), bytes(task, s, precision).1)
}

/// The ports of a task.
pub(super) fn ports(task: Task, s: &Shape) -> Ports {
    let port = |a: Array| Port { name: a.name, dtype: Dtype::F32, shape: a.shape, about: a.about, required: true };
    let mut list: Vec<Port> = inputs(task, s).into_iter().map(port).collect();
    if masked(task) && s.mask == Mask::Padding {
        let about = "number of keys in each sequence, for mask=padding";
        list.push(Port { name: "lengths", dtype: Dtype::I64, shape: "[batch]", about, required: true });
    }
    Ports { inputs: list, outputs: vec![port(output(task, s))] }
}

/// The inputs of a case.
pub(super) fn make(task: Task, s: &Shape, seed: u64) -> Result<Tensors, InputError> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let lengths: Vec<i64> = (0..s.batch).map(|b| s.length(b) as i64).collect();
    let mut made = Tensors::new();
    for array in inputs(task, s) {
        let mut tensor = match array.fill {
            Fill::Normal(_, spread) => normal(&array.dims, spread, &mut rng)?,
            Fill::Weights => normal(&array.dims, 1.25 / s.sequence as f64, &mut rng)?,
        };
        match array.fill {
            Fill::Normal(mean, _) if mean != 0.0 => tensor.f32_mut()?.iter_mut().for_each(|x| *x += mean as f32),
            Fill::Normal(..) => {}
            Fill::Weights => {
                for (at, row) in tensor.f32_mut()?.chunks_mut(s.sequence).enumerate() {
                    let visible = s.visible(&lengths, at / (s.heads * s.sequence), at % s.sequence);
                    let keep = |(j, w): (usize, &mut f32)| *w = if j < visible { w.abs() } else { 0.0 };
                    row.iter_mut().enumerate().for_each(keep);
                }
            }
        }
        made.insert(array.name, tensor);
    }
    if masked(task) && s.mask == Mask::Padding {
        made.insert("lengths", Tensor::vector(&lengths[..]));
    }
    Ok(made)
}

/// The sizes of a case with the lengths in the inputs.
pub(super) fn shape(case: &Case, inputs: &Tensors) -> Result<Shape, InputError> {
    let shape = Shape::of(case)?;
    Ok(shape.with_lengths(lengths(&shape, inputs)?))
}

/// The lengths in the inputs; empty if the mask needs none.
pub(super) fn lengths<'a>(s: &Shape, inputs: &'a Tensors) -> Result<&'a [i64], InputError> {
    match s.mask {
        Mask::Padding => inputs.get("lengths")?.i64().map_err(|e| InputError { argument: "lengths".into(), ..e }),
        _ => Ok(&[]),
    }
}

/// Checks that every array has the shape of the case.
pub(super) fn check(task: Task, s: &Shape, given: &Tensors) -> Result<(), InputError> {
    for array in inputs(task, s) {
        given.f32(array.name)?;
        let have = given.get(array.name)?.shape();
        if have != array.dims {
            return Err(InputError::new(
                array.name,
                format!("its shape is {have:?}"),
                format!("{:?}, {}", array.dims, array.shape),
            ));
        }
    }
    if masked(task) && s.mask == Mask::Padding {
        let lengths = lengths(s, given)?;
        if lengths.len() != s.batch {
            let problem = format!("the mask holds {} lengths", lengths.len());
            return Err(InputError::new("lengths", problem, format!("{}, one per sequence", s.batch)));
        }
        if let Some(at) = lengths.iter().position(|l| *l < 0 || *l > s.keys as i64) {
            let problem = format!("length {at} is {}", lengths[at]);
            return Err(InputError::new("lengths", problem, format!("0 to {}, the keys of a sequence", s.keys)));
        }
    }
    Ok(())
}

/// The sizes that the user's arrays imply, by axis.
fn sizes(task: Task, heads: usize, given: &Tensors, fit: Fit) -> Result<Vec<(&'static str, usize)>, InputError> {
    let mut sizes = Vec::new();
    let wants = |name: &str, have: &[usize], what: &str| {
        Err(InputError::new(name, format!("its shape is {have:?}"), what.to_owned()).help("none of them may be 0"))
    };
    match task {
        Task::Qkv | Task::Output | Task::Whole | Task::Layer => {
            let name = if task == Task::Output { "context" } else { "x" };
            match *given.get(name)?.shape() {
                [b, n, d] if b * n * d > 0 => {
                    sizes.extend([("batch", b), ("sequence", n), ("dimension", d)]);
                    // The widths of keys and values are what the weights have left besides the queries.
                    let width = given.find("w_qkv").and_then(|w| w.shape().first()).copied().unwrap_or(0);
                    let kv = heads * width.saturating_sub(d) / (2 * d);
                    if fit == Fit::Whole && kv > 0 && 2 * kv * d == heads * (width - d) {
                        sizes.push(("kv-heads", kv));
                    }
                }
                ref have => return wants(name, have, X),
            }
        }
        Task::Scores | Task::Core => {
            match *given.get("q")?.shape() {
                [b, h, n, e] if b * h * n * e > 0 => {
                    sizes.extend([("batch", b), ("heads", h), ("sequence", n), ("dimension", h * e)]);
                }
                ref have => return wants("q", have, QUERIES),
            }
            match *given.get("k")?.shape() {
                [_, kv, keys, _] if kv * keys > 0 => {
                    sizes.push(("kv-heads", kv));
                    if task == Task::Core {
                        sizes.push(("keys", keys));
                    }
                }
                ref have => return wants("k", have, KEYS),
            }
        }
        Task::Softmax | Task::WeightedSum => {
            let name = if task == Task::Softmax { "scores" } else { "weights" };
            let (b, h, n) = match *given.get(name)?.shape() {
                [b, h, n, m] if b * h * n > 0 && n == m => (b, h, n),
                ref have => return wants(name, have, SQUARE),
            };
            sizes.extend([("batch", b), ("heads", h), ("sequence", n)]);
            if task == Task::WeightedSum {
                match *given.get("v")?.shape() {
                    [_, kv, _, e] if kv * e > 0 => sizes.extend([("kv-heads", kv), ("dimension", h * e)]),
                    ref have => return wants("v", have, KEYS),
                }
            } else {
                sizes.push(("dimension", h));
            }
        }
    }
    Ok(sizes)
}

/// The case of the user's arrays, and the arrays that the task uses.
pub(super) fn adopt(task: Task, case: &Case, given: Tensors, fit: Fit) -> Result<(Case, Tensors), InputError> {
    let mut case = case.clone();
    let heads = case.count("heads", 0);
    for (axis, size) in sizes(task, heads, &given, fit)? {
        let asked = case.int(axis).unwrap_or(0);
        // 0 means as many as for the queries.
        let usual = match axis {
            "kv-heads" => case.int("heads"),
            "keys" => case.int("sequence"),
            _ => None,
        };
        let is_usual = usual == Some(size as i64);
        let same = asked == size as i64 || (asked == 0 && is_usual);
        if fit == Fit::Case && !same && !(task == Task::Softmax && axis == "dimension") {
            let problem = format!("the case asks for {asked}, the arrays give {size}");
            return Err(InputError::setting(axis, problem, format!("{axis}={size}")));
        }
        let size = if is_usual && asked != size as i64 { 0 } else { size };
        if axis == "keys" {
            set_keys(&mut case, size);
        } else {
            case.set(axis, size as i64);
        }
    }
    let shape = Shape::of(&case)?;
    check(task, &shape, &given)?;
    let names: Vec<&str> = ports(task, &shape).inputs.iter().map(|port| port.name).collect();
    Ok((case, given.only(&names)))
}
