//! `transfer`: bandwidth of the link between host and device memory.
//!
//! A transfer counts each byte once, as link ratings do. The gate checks the round trip: it reads back the bytes copied
//! in and compares the bytes copied out, one by one.

use ellwand_core::tensor::Data;
use ellwand_core::{
    Axis, Case, Description, Device, DeviceError, Dtype, Implementation, InputError, Poison, PrepareError, Prepared,
    Reading, Registry, Tensor, Tensors, Tolerance, Work, Workload,
};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::{Buffer, Gpu, GpuError, Host, carried_over, gpu, on_cuda};

const NAME: &str = "transfer";

struct Transfer(Description);

fn array_words(case: &Case) -> usize {
    case.count("bytes", 8) / 8
}

fn inwards(case: &Case) -> bool {
    case.text("direction") != Some("device-to-host")
}

fn pinned(case: &Case) -> bool {
    case.text("memory") != Some("pageable")
}

impl Workload for Transfer {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, case: &Case) -> u64 {
        // Inputs, reference output, host side of an implementation, and its output.
        4 * case.int("bytes").unwrap_or(0).unsigned_abs()
    }
    /// Both directions and both kinds of memory use the same bytes.
    fn data_digest(&self, case: &Case) -> u64 {
        Case::new(NAME, vec![("bytes".into(), case.int("bytes").unwrap_or(8).into())]).digest()
    }
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut x = Tensor::zeros(Dtype::U64, &[array_words(case)])?;
        x.u64_mut()?.iter_mut().for_each(|word| *word = rng.random());
        Ok(Tensors::new().with("x", x))
    }
    fn reference(&self, _: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        Ok(Tensors::new().with("y", inputs.get("x")?.clone()))
    }
    fn work(&self, case: &Case) -> Work {
        let bytes = 8 * array_words(case) as u64;
        Work::items("bytes", bytes).bytes(bytes, 0)
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Exact
    }
}

/// A prepared transfer.
struct Ready {
    gpu: Gpu,
    inwards: bool,
    pinned: bool,
    words: usize,
    host: Host,
    device: Buffer,
    problem: Option<GpuError>,
}

impl Prepared for Ready {
    fn run(&mut self) {
        let at = self.device.address();
        let copied = if self.inwards { self.host.bring_in(at) } else { self.host.bring_out(at) };
        if let Err(error) = copied {
            self.problem.get_or_insert(error);
        }
    }
    fn sync(&mut self) -> Result<(), DeviceError> {
        let waited = self.gpu.sync();
        Ok(self.problem.take().map_or(waited, Err)?)
    }
    fn poison(&mut self, poison: Poison) {
        let spoiled =
            if self.inwards { self.device.fill(poison.byte()) } else { self.host.with(|all| all.fill(poison.byte())) };
        if let Err(error) = spoiled {
            self.problem.get_or_insert(error);
        }
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        self.sync()?;
        let shape = [self.words];
        let y = if self.inwards {
            self.device.tensor(Dtype::U64, &shape)?
        } else {
            self.host.tensor(Dtype::U64, &shape)?
        };
        Ok(Tensors::new().with("y", y))
    }
    fn what_ran(&self) -> String {
        let memory = if self.pinned { "page-locked memory" } else { "pageable memory" };
        format!("{}: one copy, {memory}", self.gpu.about())
    }
    fn readings(&mut self) -> Vec<Reading> {
        let bytes = 8 * self.words as u64;
        let carried = if self.inwards { [bytes, 0] } else { [0, bytes] };
        carried_over(carried)
    }
}

fn prepare(case: &Case, inputs: &Tensors, device: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    let gpu = gpu(device)?;
    let (inwards, pinned) = (inwards(case), pinned(case));
    let x = inputs.get("x")?.u64()?;
    let bytes: Vec<u8> = x.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (host, device) = if inwards {
        (Host::of(gpu, &bytes, pinned)?, Buffer::new(gpu, bytes.len())?)
    } else {
        (Host::new(gpu, bytes.len(), pinned)?, Buffer::of(gpu, &bytes, 0)?)
    };
    Ok(Box::new(Ready { gpu: gpu.clone(), inwards, pinned, words: x.len(), host, device, problem: None }))
}

/// Host to host, without a device.
struct Memory {
    x: Tensor,
    y: Tensor,
}

impl Prepared for Memory {
    fn run(&mut self) {
        if let (Ok(x), Ok(y)) = (self.x.u64(), self.y.u64_mut()) {
            y.copy_from_slice(std::hint::black_box(x));
        }
    }
    fn poison(&mut self, poison: Poison) {
        poison.fill_tensor(&mut self.y);
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("y", self.y.clone()))
    }
}

fn memory(case: &Case, inputs: &Tensors, _: &dyn Device) -> Result<Box<dyn Prepared>, PrepareError> {
    if pinned(case) {
        let why = "page-locked memory is for copies to a device; use memory=pageable";
        return Err(PrepareError::Unsupported(why.into()));
    }
    let x = inputs.get("x")?.clone();
    let y = Tensor::vector(Data::from(&vec![0_u64; x.len()][..]));
    Ok(Box::new(Memory { x, y }))
}

pub(super) fn register(registry: &mut Registry) {
    let axes = vec![
        Axis::int("bytes", "bytes to transfer", 8, 1 << 34, 64 << 20)
            .sweep([64_i64 << 10, 1 << 20, 16 << 20, 256 << 20])
            .unit("B"),
        Axis::choice("direction", "direction of the transfer", &["host-to-device", "device-to-host"], "host-to-device")
            .sweep(["host-to-device", "device-to-host"]),
        Axis::choice(
            "memory",
            "host memory: page-locked, or pageable as the system allocates it",
            &["pageable", "pinned"],
            "pageable",
        )
        .sweep(["pageable", "pinned"]),
    ];
    let about = "copies an array between host and device memory: the rate of the link between them";
    // Page-locked memory: pageable memory cannot reach the link's bandwidth.
    let baseline = "memory";
    registry.workload(Transfer(Description::new(NAME, about).group("calibration").axes(axes).baseline(baseline)));
    let about = "from memory to memory by the processor: the upper bound for any link";
    registry.implementation(Implementation::cpu(NAME, "memory", about, memory));
    let about = "one driver copy on the stream";
    registry.implementation(on_cuda(Implementation::cpu(NAME, "cuda", about, prepare)));
}
