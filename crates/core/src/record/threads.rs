//! The threads that took part in a measurement, whatever its implementation declares.

use super::basis::accounts_for_time;
use super::{Measurement, Sample};
use crate::implementation::Parallelism;
use crate::reading::Reading;

/// Share of the CPU time above which other threads took part. Housekeeping threads of a runtime use less.
const TOOK_PART: f64 = 0.05;

/// Share of the CPU time that other threads than the calling one used; `None` if it is small or unknown.
pub fn share_of_others(samples: &[Sample]) -> Option<f64> {
    let spent = |s: &Sample| Some((s.cpu_ns?, s.others_ns?));
    let (own, others) = samples.iter().filter_map(spent).fold((0, 0), |all, s| (all.0 + s.0, all.1 + s.1));
    Some(others as f64 / (own + others) as f64).filter(|share| *share >= TOOK_PART)
}

impl Measurement {
    /// Threads that took part in a run: the implementation's own reading for this case, or else its declaration, unless
    /// other threads worked that it did not declare.
    pub fn ran_on(&self) -> Parallelism {
        match self.reading(Reading::THREADS).and_then(|reading| reading.value) {
            _ if self.undeclared_threads().is_some() => Parallelism::Many,
            Some(threads) if threads <= 1.0 => Parallelism::Single,
            // Older records give the number of threads only in `what_ran`.
            None if self.what_ran.split(", ").any(|part| part.starts_with("1 thread")) => Parallelism::Single,
            _ => self.parallelism,
        }
    }

    /// True if the calling thread alone worked, whatever is declared: its CPU time accounts for the time that passed, except
    /// for what the scheduler gave to other programs. False if the record does not show it.
    pub fn used_one_thread(&self) -> bool {
        accounts_for_time(&[[&self.samples[..]]])
    }

    /// Share of the CPU time that other threads of the program used, although the implementation declares one thread; `None`
    /// if it is small or unknown.
    pub fn undeclared_threads(&self) -> Option<f64> {
        if self.parallelism == Parallelism::Many {
            return None;
        }
        share_of_others(&self.samples)
    }

    /// CPU seconds per iteration of all threads that took part.
    pub fn cpu_seconds(&self, sample: &Sample) -> Option<f64> {
        let others = if self.undeclared_threads().is_some() { sample.others_ns.unwrap_or(0) } else { 0 };
        Some((sample.cpu_ns? + others) as f64 * 1e-9 / sample.iterations.max(1) as f64)
    }
}
