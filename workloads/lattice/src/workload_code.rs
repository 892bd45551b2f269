//! The workloads `lattice-encode`, `lattice-decode` and `lattice-quantize` (group `lattice`).

use ellwand_core::{
    Case, Description, Dtype, Fit, HardSet, InputError, Port, Ports, Reading, Registry, Tensor, Tensors, Tolerance,
    Work, Workload,
};
use ellwand_simd::isa::Isa;

use super::layout::Layout;
use super::params::{Codec, Overload, Params};
use super::workload as shared;
use super::workload_given::{from_code_file, given_codes};
use super::workload_readings::readings;
use super::workload_reference;
use super::workload_run::implementations;

ellwand_core::words! {
    /// The direction of the coding.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Task {
        /// From values to codes.
        Encode = "lattice-encode",
        /// From codes to values.
        Decode = "lattice-decode",
        /// From values to codes and back to values.
        Quantize = "lattice-quantize",
    }
    /// The name of its workload.
    fn name;
}

impl Task {
    fn about(self) -> &'static str {
        match self {
            Task::Encode => "hierarchical nested-lattice encoding: f32 vectors to bit-packed codes",
            Task::Decode => "hierarchical nested-lattice decoding: bit-packed codes to f32 vectors",
            Task::Quantize => "nested-lattice encoding and decoding, one after the other",
        }
    }
}

/// One of the three workloads.
struct Code {
    task: Task,
    description: Description,
}

/// Registers the three workloads and their implementations.
pub(super) fn register(registry: &mut Registry) {
    for task in Task::ALL {
        let description = Description::new(task.name(), task.about()).group("lattice").axes(shared::axes());
        registry.workload(Code { task, description: description.sizes(shared::sizes()).baseline("scalar") });
        for implementation in implementations(task) {
            registry.implementation(implementation);
        }
    }
}

impl Workload for Code {
    fn description(&self) -> &Description {
        &self.description
    }

    fn check(&self, case: &Case) -> Result<(), InputError> {
        Isa::of(case)?;
        shared::check(case)
    }

    fn remarks(&self, case: &Case) -> Vec<String> {
        let Ok(spec) = shared::spec(case) else { return Vec::new() };
        let mut remarks = Vec::new();
        let p = &spec.params;
        if case.text("data") == Some("seed") && !spec.automatic && p.levels > 1 {
            // Within 3.5 standard deviations, the first coarser point is the origin.
            let reach = 3.5 * 0.5 / f64::from(p.beta);
            if reach < f64::from(p.q) * 0.5 {
                remarks.push(format!(
                    "data=seed (0.5 * normal) at beta = {} leaves level 1 and above unused: M = {} does the work of M = 1; \
                     use data=matched for a load that uses every level",
                    p.beta, p.levels
                ));
            }
        }
        if p.q == 2 && !p.centred {
            remarks.push("q = 2 wastes most of its range unless centred=on".to_owned());
        }
        if p.overload == Overload::None {
            remarks.push(
                "overload=none: vectors outside the codebook decode to a wrong point and are not marked".to_owned(),
            );
        }
        remarks
    }

    fn footprint(&self, case: &Case) -> u64 {
        let Ok(spec) = shared::spec(case) else { return 0 };
        let d = spec.params.lattice.dimension() as u64;
        let n = spec.batch as u64;
        // Values: inputs, reference output, an implementation's buffer and the copy it returns. Codes: packed, digits
        // and side information, three times each.
        let codes = (u64::from(spec.params.levels) * d * 2 + 2) * n;
        n.saturating_mul(d * 4 * 5).saturating_add(codes.saturating_mul(3))
    }

    fn ports(&self, case: &Case) -> Ports {
        let overload = case.text("overload").unwrap_or("none");
        let retry = overload == "retry";
        let x = |about| Port { name: "x", dtype: Dtype::F32, shape: "[N, d] or any shape", about, required: true };
        let u8s = |name, shape, about, required| Port { name, dtype: Dtype::U8, shape, about, required };
        let digits = |required| u8s("digits", "[N, M, d]", "digits of each vector, level 0 the finest", required);
        let packed = |required| u8s("packed", "[bytes]", "bit-packed level indices", required);
        let retries = u8s("retries", "[N]", "retries T of each vector: its scale is beta * 2^(T/3)", true);
        let file = |required| {
            u8s("codes", "[bytes]", "code file: header of about 80 bytes, packed, overload, retries", required)
        };
        let mut codes = vec![digits(true), packed(true), file(true)];
        if overload != "none" {
            let outside = match retry {
                true => "1 for vectors that are outside the codebook even after all retries",
                false => "1 for vectors outside the codebook",
            };
            codes.push(u8s("overload", "[N]", outside, true));
        }
        if retry {
            codes.push(retries.clone());
        }
        match self.task {
            Task::Encode => Ports { inputs: vec![x("values, rows cut into vectors of d")], outputs: codes },
            Task::Decode => {
                let mut inputs = vec![digits(false), packed(false), file(false)];
                // A code file holds its own.
                inputs.extend(retry.then_some(Port { required: false, ..retries }));
                Ports { inputs, outputs: vec![x("decoded values, [N, d]")] }
            }
            Task::Quantize => {
                codes.insert(0, x("decoded values, in the shape of the input"));
                Ports { inputs: vec![x("values, rows cut into vectors of d")], outputs: codes }
            }
        }
    }

    /// Cases that differ only in the code get the same data, so that their errors can be compared.
    fn data_digest(&self, case: &Case) -> u64 {
        Case::new("lattice-data", vec![("batch".into(), ellwand_core::Value::Int(case.int("batch").unwrap_or(0)))])
            .digest()
    }

    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let spec = shared::spec(case)?;
        let x = shared::normal(spec.batch, spec.params.lattice.dimension(), spec.spread, seed)?;
        self.complete(case, x)
    }

    fn hard_sets(&self, case: &Case, seed: u64) -> Result<Vec<HardSet>, InputError> {
        super::hard::sets(case, seed, |case, x| self.complete(case, x))
    }

    fn adopt(&self, case: &Case, mut given: Tensors, fit: Fit) -> Result<(Case, Tensors), InputError> {
        let spec = shared::spec(case)?;
        let d = spec.params.lattice.dimension();
        let mut case = case.clone();
        if let (Task::Decode, Some(_)) = (self.task, given.find("codes")) {
            if fit == Fit::Case {
                return Err(InputError::new(
                    "codes",
                    "a code file is decoded as a whole",
                    "packed or digits for a sweep",
                ));
            }
            return from_code_file(&case, given.u8("codes")?);
        }
        if self.task == Task::Decode {
            let codec = Codec::new(spec.params)?;
            if spec.automatic {
                return Err(InputError::setting(
                    "beta",
                    "auto needs the values that were encoded",
                    "the beta that encoding used",
                ));
            }
            let (packed, n) = given_codes(&codec, &given, spec.batch, fit)?;
            case.set("batch", n as i64);
            let mut inputs =
                Tensors::new().with("packed", packed).with("beta", Tensor::scalar(f64::from(spec.params.beta)));
            if codec.has_retries() {
                let retries = given.u8("retries")?;
                if retries.len() < n || (fit == Fit::Whole && retries.len() != n) {
                    return Err(InputError::new(
                        "retries",
                        format!("it holds {} values", retries.len()),
                        format!("{n}, one per vector"),
                    ));
                }
                inputs.insert("retries", Tensor::vector(&retries[..n]));
            }
            // Damaged codes are detected here, not in an implementation.
            codec.digits(inputs.u8("packed")?, n)?;
            return Ok((case, inputs));
        }
        given.get("x")?;
        case.set("data", "given");
        let mut x = given.take("x").unwrap_or_else(|| Tensor::scalar(0.0));
        shared::finite("x", &x)?;
        let layout = Layout::new(x.shape(), d)?;
        match fit {
            Fit::Whole => case.set("batch", layout.vectors() as i64),
            Fit::Case if layout.vectors() < spec.batch => {
                return Err(InputError::new(
                    "x",
                    format!("it holds {} vectors of {d}, the case asks for {}", layout.vectors(), spec.batch),
                    "at least as many",
                )
                .help("give a larger array or choose a smaller batch"));
            }
            Fit::Case => {
                let padded = layout.pad(x.f32()?)?;
                x = Tensor::new(&[spec.batch, d], &padded[..spec.batch * d])?;
            }
        }
        let inputs = self.complete(&case, x)?;
        Ok((case, inputs))
    }

    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        let codec = shared::codec(case, inputs)?;
        workload_reference::outputs(self.task, &codec, &workload_reference::shape(self.task, case, inputs)?, inputs)
    }

    fn work(&self, case: &Case) -> Work {
        let Ok(spec) = shared::spec(case) else { return Work::items("vectors", 0) };
        let Ok(codec) = Codec::new(Params { centred: false, ..spec.params }) else { return Work::items("vectors", 0) };
        let (n, d) = (spec.batch, codec.dimension());
        let values = (n * d) as u64;
        let retries = if codec.has_retries() { n as u64 } else { 0 };
        let packed = codec.packed_len(n) as u64 + retries;
        let flags = if codec.has_overload() { n as u64 } else { 0 };
        let work = Work::items("vectors", n as u64).in_order();
        // Only scaling and centring; the lattice search is integer work.
        match self.task {
            Task::Encode => work.flops(2.0 * values as f64).bytes(4 * values, packed + flags),
            Task::Decode => work.flops(2.0 * values as f64).bytes(packed, 4 * values),
            Task::Quantize => work.flops(4.0 * values as f64).bytes(4 * values, 4 * values + packed + flags),
        }
    }

    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Exact
    }

    fn readings(&self, case: &Case, inputs: &Tensors, outputs: &Tensors) -> Vec<Reading> {
        readings(self.task, case, inputs, outputs)
    }
}

impl Code {
    /// Builds the inputs from values: adds the resolved beta and, for decoding, the codes.
    fn complete(&self, case: &Case, x: Tensor) -> Result<Tensors, InputError> {
        let spec = shared::spec(case)?;
        let layout = Layout::new(x.shape(), spec.params.lattice.dimension())?;
        let padded = if layout.is_exact() { None } else { Some(layout.pad(x.f32()?)?) };
        let beta = shared::resolve_beta(&spec, padded.as_deref().unwrap_or(x.f32()?))?;
        let inputs = Tensors::new().with("beta", Tensor::scalar(f64::from(beta)));
        if self.task != Task::Decode {
            return Ok(inputs.with("x", x));
        }
        let codec = Codec::new(Params { beta, ..spec.params })?;
        // Not by an encoder under test.
        let codes = workload_reference::Encoded::of(&codec, x.f32()?);
        let mut inputs = inputs.with("packed", Tensor::vector(&codes.packed[..])).with("original", x);
        if codec.has_retries() {
            inputs.insert("retries", Tensor::vector(&codes.retries[..]));
        }
        Ok(inputs)
    }
}
