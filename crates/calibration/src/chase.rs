//! `pointer-chase`: each load depends on the address from the previous load, so prefetching cannot help.
//!
//! One cycle through all cache lines of the footprint, in random order (Sattolo 1986). An iteration continues where the
//! previous one ended, so even with few loads per iteration, every line is visited before any is visited again. The
//! allocator chooses the page size: for footprints beyond the reach of the TLB, its misses are part of the time.

use ellwand_core::{
    Axis, Case, Description, DeviceError, Dtype, Implementation, InputError, Poison, Prepared, Registry, Tensor,
    Tensors, Tolerance, Work, Workload,
};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Eight-byte words per cache line.
const LINE: usize = 8;

/// Default number of loads: microseconds in L1, a millisecond in main memory.
const LOADS: i64 = 4096;

struct Chase(Description);

impl Chase {
    fn lines(case: &Case) -> usize {
        case.count("bytes", 4096) / (8 * LINE)
    }
    /// Loads per iteration; `None` for one load per line, from the first to the last of the cycle.
    fn loads(case: &Case) -> Option<usize> {
        Some(case.count("loads", 0)).filter(|loads| *loads > 0)
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
        let next = inputs.get("next")?.u64()?;
        let lines = Self::lines(case);
        let last = match Self::loads(case) {
            Some(loads) => (0..loads % lines).fold(0, |word, _| next[word as usize]),
            // The last line is the one that points back to the first.
            None => (0..lines).map(|line| line * LINE).find(|word| next[*word] == 0).unwrap_or(0) as u64,
        };
        Ok(Tensors::new().with("last", Tensor::vector(&[last][..])))
    }
    fn work(&self, case: &Case) -> Work {
        let lines = Self::lines(case);
        let line = 8 * LINE as u64;
        let loads = Self::loads(case).unwrap_or(lines) as u64;
        Work::items("loads", loads).bytes(loads * line, 0).working_set(lines as u64 * line).dependent(true)
    }
    fn tolerance(&self, _: &Case) -> Tolerance {
        Tolerance::Exact
    }
}

struct Ready {
    next: Tensor,
    lines: usize,
    loads: Option<usize>,
    /// The word loaded last, where the next iteration begins.
    last: u64,
}

impl Prepared for Ready {
    fn run(&mut self) {
        let Ok(next) = self.next.u64() else { return };
        let (from, loads) = self.loads.map_or((0, self.lines - 1), |loads| (self.last as usize, loads));
        // A poisoned position is no line; the iteration then begins at the first.
        let from = if from < next.len() { from } else { 0 };
        self.last = (0..loads).fold(from, |at, _| next[at] as usize) as u64;
    }
    fn poison(&mut self, poison: Poison) {
        self.last = poison.value();
    }
    fn output(&mut self) -> Result<Tensors, DeviceError> {
        Ok(Tensors::new().with("last", Tensor::vector(&[self.last][..])))
    }
}

pub(super) fn register(registry: &mut Registry) {
    let bytes = Axis::int("bytes", "bytes of the cache lines in the cycle", 4096, 1 << 34, 64 << 20).unit("B");
    let bytes = bytes.sweep([16_i64 << 10, 512 << 10, 4 << 20, 128 << 20]);
    let mut loads = Axis::int("loads", "loads of one iteration; 0: one of each line", 0, 1 << 24, LOADS);
    loads.neutral = Some(0_i64.into());
    let about = "follows a random cycle through all cache lines of a footprint: memory latency";
    let description = Description::new("pointer-chase", about).group("calibration").axes(vec![bytes, loads]);
    registry.workload(Chase(description.baseline("scalar")));
    let prepared = |case: &Case, inputs: &Tensors, _: &dyn ellwand_core::Device| {
        let next = inputs.get("next")?.clone();
        let (lines, loads) = (Chase::lines(case), Chase::loads(case));
        Ok(Box::new(Ready { next, lines, loads, last: u64::MAX }) as Box<dyn Prepared>)
    };
    registry.implementation(Implementation::cpu(
        "pointer-chase",
        "scalar",
        "one dependent load after the other",
        prepared,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: usize = 64;

    fn ready(loads: Option<usize>) -> (Ready, u64) {
        let params = [("bytes", (LINES * 8 * LINE) as i64), ("loads", loads.unwrap_or(0) as i64)];
        let case = Case::new("pointer-chase", params.map(|(axis, value)| (axis.into(), value.into())).into());
        let workload = Chase(Description::new("pointer-chase", ""));
        let inputs = workload.inputs(&case, 1).unwrap();
        let reference = workload.reference(&case, &inputs).unwrap();
        let last = reference.get("last").unwrap().u64().unwrap()[0];
        let ready = Ready { next: inputs.get("next").unwrap().clone(), lines: LINES, loads, last: 0 };
        (ready, last)
    }

    #[test]
    fn a_poisoned_iteration_begins_at_the_first_line_and_the_next_goes_on() {
        for loads in [1, 7, LINES - 1, LINES, 3 * LINES + 5] {
            let (mut ready, answer) = ready(Some(loads));
            for poison in [Poison::Ones, Poison::Mixed] {
                ready.poison(poison);
                ready.run();
                assert_eq!(ready.last, answer, "{loads} loads");
            }
            // After as many iterations as there are lines, any number of loads ends at the first line.
            (1..LINES).for_each(|_| ready.run());
            assert_eq!(ready.last, 0, "{loads} loads");
        }
        let (mut all, answer) = ready(None);
        (0..2).for_each(|_| all.run());
        assert_eq!(all.last, answer, "each from the first line to the last");
    }
}
