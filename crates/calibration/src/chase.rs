//! `pointer-chase`: each load depends on the address from the previous load, so nothing can be prefetched.
//!
//! One cycle through all cache lines of the footprint, in random order (Sattolo 1986). The allocator chooses the page
//! size: for footprints beyond the reach of the TLB, its misses are part of the time.

use ellwand_core::{
    Axis, Case, Description, DeviceError, Dtype, Implementation, InputError, Poison, Prepared, Registry, Tensor,
    Tensors, Tolerance, Work, Workload,
};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Eight-byte words per cache line.
const LINE: usize = 8;

struct Chase(Description);

impl Chase {
    fn lines(case: &Case) -> usize {
        usize::try_from(case.int("bytes").unwrap_or(4096)).unwrap_or(4096) / (8 * LINE)
    }
}

impl Workload for Chase {
    fn description(&self) -> &Description {
        &self.0
    }
    fn footprint(&self, case: &Case) -> u64 {
        3 * case.int("bytes").unwrap_or(0).unsigned_abs()
    }
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let lines = Self::lines(case);
        let mut order: Vec<usize> = (0..lines).collect();
        // Swapping only with earlier positions leaves a single cycle.
        for last in (1..lines).rev() {
            order.swap(last, rng.random_range(0..last));
        }
        let mut next = Tensor::zeros(Dtype::U64, &[lines * LINE])?;
        let words = next.u64_mut()?;
        for (line, to) in order.into_iter().enumerate() {
            words[line * LINE] = (to * LINE) as u64;
        }
        Ok(Tensors::new().with("next", next))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        // The last line is the one that leads back to the first.
        let next = inputs.get("next")?.u64()?;
        let lines = Self::lines(case);
        let last = (0..lines).map(|line| line * LINE).find(|word| next[*word] == 0).unwrap_or(0);
        Ok(Tensors::new().with("last", Tensor::vector(&[last as u64][..])))
    }
    fn work(&self, case: &Case) -> Work {
        let lines = Self::lines(case) as u64;
        Work::items("loads", lines).bytes(lines * 8 * LINE as u64, 0).dependent(true)
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Exact
    }
}

struct Ready {
    next: Tensor,
    loads: usize,
    last: u64,
}

impl Prepared for Ready {
    fn run(&mut self) {
        let Ok(next) = self.next.u64() else { return };
        let mut at = 0;
        for _ in 1..self.loads {
            at = next[at] as usize;
        }
        self.last = at as u64;
    }
    fn poison(&mut self, poison: Poison) {
        self.last = poison.value();
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("last", Tensor::vector(&[self.last][..])))
    }
}

pub(super) fn register(registry: &mut Registry) {
    let bytes = Axis::int("bytes", "bytes of the lines on the way", 4096, 1 << 34, 64 << 20).unit("B");
    let bytes = bytes.sweep([16_i64 << 10, 512 << 10, 4 << 20, 128 << 20]);
    let about = "follows a random cycle through all cache lines of a footprint: memory latency";
    let description = Description::new("pointer-chase", about).group("calibration").axes(vec![bytes]);
    registry.workload(Chase(description.baseline("scalar")));
    let prepared = |case: &Case, inputs: &Tensors, _: &dyn ellwand_core::Device| {
        let next = inputs.get("next")?.clone();
        Ok(Box::new(Ready { next, loads: Chase::lines(case), last: 0 }) as Box<dyn Prepared>)
    };
    registry.implementation(Implementation::cpu(
        "pointer-chase",
        "scalar",
        "one dependent load after the other",
        prepared,
    ));
}
