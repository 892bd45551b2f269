//! Prepared implementations of the coding workloads: buffers, padding, poison, outputs.

use std::sync::{Mutex, PoisonError};

use ellwand_core::tensor::Buffer;
use ellwand_core::{Case, DeviceError, Implementation, InputError, Poison, Prepared, Tensor, Tensors};
use ellwand_profile::span;
use ellwand_simd::isa::Isa;
use ellwand_simd::pool;

use super::layout::Layout;
use super::parallel;
use super::params::Codec;
use super::simd;
use super::workload as shared;
use super::workload_code::Task;
use super::{Codes, CodesMut, Method};

/// The CPU implementations of a task.
pub(super) fn implementations(task: Task) -> Vec<Implementation> {
    let row = |name: &str, about: &str, method: fn(Isa) -> Method| {
        Implementation::cpu(task.name(), name, about, move |case, inputs, _| {
            let mut job = Job::new(task, method(Isa::of(case)?), case, inputs)?;
            job.warm();
            Ok(Box::new(job))
        })
    };
    vec![
        row("reference", "wide integers and squared distances, one vector at a time", |_| Method::Reference),
        row("scalar", "plain per-vector code on one thread", |_| Method::Scalar),
        row("simd", "vector lanes on one thread: AVX-512, AVX2 or the baseline", Method::Simd),
        row("parallel", "the vector implementation on all threads", Method::Parallel).many_threads(),
    ]
}

/// One task at one case, with its buffers.
pub(super) struct Job {
    task: Task,
    method: Method,
    codec: Codec,
    layout: Layout,
    /// Padded whole vectors, the input itself where it needs no padding; empty when decoding.
    x: Tensor,
    packed: Buffer<u8>,
    overload: Buffer<u8>,
    retries: Buffer<u8>,
    /// Decoded vectors, padded; empty when only encoding.
    decoded: Buffer<f32>,
    done: Result<(), InputError>,
}

impl Job {
    /// Allocates the buffers of a case; for decoding, copies the codes.
    pub(super) fn new(task: Task, method: Method, case: &Case, inputs: &Tensors) -> Result<Job, InputError> {
        let codec = shared::codec(case, inputs)?;
        let d = codec.dimension();
        let (layout, x) = if task == Task::Decode {
            let shape = match inputs.find("shape") {
                Some(shape) => {
                    shape.u64()?.iter().map(|&extent| usize::try_from(extent).unwrap_or(usize::MAX)).collect()
                }
                None => vec![shared::spec(case)?.batch, d],
            };
            (Layout::new(&shape, d)?, Tensor::vector(&[0.0_f32; 0][..]))
        } else {
            let x = inputs.get("x")?;
            let layout = Layout::new(x.shape(), d)?;
            let values = x.f32()?;
            let padded = (!layout.is_exact()).then(|| layout.pad(values)).transpose()?;
            (layout, padded.map_or_else(|| x.clone(), |padded| Tensor::vector(&padded[..])))
        };
        let n = layout.vectors();
        let sized = |wanted: bool| if wanted { n } else { 0 };
        let mut job = Job {
            task,
            method,
            x,
            packed: Buffer::filled(codec.packed_len(n), 0),
            overload: Buffer::filled(sized(codec.has_overload() && task != Task::Decode), 0),
            retries: Buffer::filled(sized(codec.has_retries()), 0),
            decoded: Buffer::filled(if task == Task::Encode { 0 } else { n * d }, 0.0),
            done: Ok(()),
            layout,
            codec,
        };
        if task == Task::Decode {
            let packed = inputs.u8("packed")?;
            if packed.len() != job.packed.len() {
                let (got, expected) = (packed.len(), job.packed.len());
                return Err(InputError::new("packed", format!("it holds {got} bytes"), format!("{expected} bytes")));
            }
            job.packed.copy_from_slice(packed);
            if job.codec.has_retries() {
                let retries = inputs.u8("retries")?;
                if retries.len() != n {
                    return Err(InputError::new(
                        "retries",
                        format!("it holds {} values", retries.len()),
                        format!("{n}"),
                    ));
                }
                // Checked here, because kernels use them to look up scales.
                job.codec.check_retries(retries)?;
                job.retries.copy_from_slice(retries);
            }
        }
        Ok(job)
    }

    /// Builds the decoding table, as part of preparation.
    fn warm(&mut self) {
        if self.task != Task::Encode {
            self.codec.level_table();
            #[cfg(target_arch = "x86_64")]
            self.codec.byte_table();
        }
    }

    /// Computes once; stores an error for `outputs`.
    pub(super) fn compute(&mut self) {
        self.done = self.attempt();
    }

    fn attempt(&mut self) -> Result<(), InputError> {
        let vectors = self.layout.vectors();
        if self.task != Task::Decode {
            let _span = span!("encode", bytes = 4 * self.x.len() + self.packed.len(), items = vectors);
            let out = CodesMut {
                packed: &mut self.packed,
                overload: self.codec.has_overload().then_some(&mut self.overload),
                retries: self.codec.has_retries().then_some(&mut self.retries),
            };
            self.codec.encode(self.method, self.x.f32().unwrap_or_default(), out)?;
        }
        if self.task != Task::Encode {
            let _span = span!("decode", bytes = self.packed.len() + 4 * self.decoded.len(), items = vectors);
            let retries = self.codec.has_retries().then_some(&self.retries[..]);
            self.codec.decode(self.method, &self.packed, retries, &mut self.decoded)?;
        }
        Ok(())
    }

    /// Stores results computed elsewhere, for [`Job::outputs`].
    fn take(&mut self, computed: &Tensors) -> Result<(), InputError> {
        for (name, to) in
            [("packed", &mut self.packed), ("overload", &mut self.overload), ("retries", &mut self.retries)]
        {
            if let Some(bytes) = computed.find(name) {
                to.copy_from_slice(bytes.u8()?);
            }
        }
        if let Some(x) = computed.find("decoded") {
            self.decoded.copy_from_slice(x.f32()?);
        }
        Ok(())
    }

    /// Builds the outputs from arrays that a GPU computed. Kernels lower the bits of `bad` selected by `mask` to the first
    /// vector without a valid index; otherwise these bits keep the poison pattern.
    pub(super) fn back(self, mask: u64) -> impl Fn(Tensors) -> Result<Tensors, DeviceError> + Send + Sync + 'static {
        let host = Mutex::new(self);
        move |computed| {
            let mut host = host.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(bad) = computed.find("bad") {
                let first = bad.u64()?[0] & mask;
                if first < host.layout.vectors() as u64 {
                    return Err(DeviceError::new(format!("a level index of vector {first} is not below q^d")));
                }
            }
            host.take(&computed)?;
            host.outputs()
        }
    }

    /// The values to encode, in whole vectors.
    pub(super) fn vectors(&self) -> &[f32] {
        self.x.f32().unwrap_or_default()
    }

    /// The packed codes to decode, and the retries of each vector if the code has any.
    pub(super) fn codes(&self) -> (&[u8], &[u8]) {
        (&self.packed, &self.retries)
    }

    /// The code and the number of vectors.
    pub(super) fn code(&self) -> (&Codec, usize) {
        (&self.codec, self.layout.vectors())
    }

    /// The arrays of the workload's output ports.
    pub(super) fn outputs(&self) -> Result<Tensors, DeviceError> {
        self.done.clone()?;
        Ok(self.collect()?)
    }

    fn collect(&self) -> Result<Tensors, InputError> {
        let mut outputs = Tensors::new();
        let (n, d, levels) = (self.layout.vectors(), self.codec.dimension(), self.codec.levels());
        if self.task != Task::Encode {
            let x = if self.layout.is_exact() {
                Tensor::new(self.layout.shape(), &self.decoded[..])?
            } else {
                let trimmed = self.layout.trim(&self.decoded)?;
                Tensor::new(self.layout.shape(), &trimmed[..])?
            };
            outputs.insert("x", x);
        }
        if self.task != Task::Decode {
            let digits = self.codec.digits(&self.packed, n)?;
            outputs.insert("digits", Tensor::new(&[n, levels, d], &digits[..])?);
            outputs.insert("packed", Tensor::vector(&self.packed[..]));
            if self.codec.has_overload() {
                outputs.insert("overload", Tensor::vector(&self.overload[..]));
            }
            if self.codec.has_retries() {
                outputs.insert("retries", Tensor::vector(&self.retries[..]));
            }
            let overload = self.codec.has_overload().then_some(&self.overload[..]);
            let retries = self.codec.has_retries().then_some(&self.retries[..]);
            let codes = Codes::from_parts(&self.codec, &self.layout, &self.packed, overload, retries);
            outputs.insert("codes", Tensor::vector(&codes.to_bytes()[..]));
        }
        Ok(outputs)
    }
}

impl Prepared for Job {
    fn run(&mut self) {
        self.compute();
    }

    fn poison(&mut self, poison: Poison) {
        self.done = Ok(());
        poison.fill(&mut self.decoded);
        poison.fill(&mut self.overload);
        if self.task != Task::Decode {
            poison.fill(&mut self.packed);
            poison.fill(&mut self.retries);
        }
    }

    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.outputs()
    }

    fn threads(&self) -> Option<usize> {
        matches!(self.method, Method::Parallel(_)).then(|| parallel::threads(self.layout.vectors()))
    }

    fn what_ran(&self) -> String {
        let vectors = self.layout.vectors();
        let core = match self.method {
            Method::Reference => "wide integers".to_owned(),
            Method::Scalar => "scalar".to_owned(),
            Method::Simd(isa) | Method::Parallel(isa) if simd::too_few(isa, vectors) => {
                "scalar: too few vectors for lanes".to_owned()
            }
            Method::Simd(isa) => isa.name().to_owned(),
            Method::Parallel(isa) => {
                format!("{}, {}", isa.name(), pool::about(parallel::threads(vectors), "vectors"))
            }
        };
        match (self.task, self.method) {
            (Task::Encode, _) | (_, Method::Reference) => core,
            _ if self.codec.level_table().is_some() => format!("{core}, decoding by table"),
            _ => format!("{core}, decoding by arithmetic"),
        }
    }
}
