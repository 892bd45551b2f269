//! The steps of a profiling session as functions that return values: time a function, find the bottleneck, measure
//! memory.

use std::fmt::Debug;

use ellwand_core::record::Counts;
use ellwand_profile::{MemoryUse, alloc};
use ellwand_report::Row;

use crate::{Effort, MeasureError, Results, measure, suite};

/// How [`benchmark_function`] measures.
#[derive(Debug, Clone, Copy, Default)]
pub struct BenchmarkOptions {
    /// How long it measures.
    pub effort: Effort,
    /// Untimed and timed calls in each slot, `[10, 100]` for example; with `None` Ellwand chooses both.
    pub calls: Option<[u64; 2]>,
}

/// The time of a function.
#[derive(Debug, Clone)]
pub struct Timing {
    /// Seconds per call: the median over slots, as reports print it.
    pub seconds: f64,
    /// Everything that was measured, with the raw samples.
    pub results: Results,
}

impl Timing {
    /// The row of the function: readings, warnings, limits.
    pub fn row(&self) -> Option<&Row> {
        self.results.rows().next()
    }
}

/// Measures a function in this process with the engine of [`measure()`]: warmed up, in slots of several calls. Calls before
/// and after the timed ones must return the same value.
///
/// ```
/// use ellwand::{BenchmarkOptions, Effort, benchmark_function, black_box};
/// let options = BenchmarkOptions { effort: Effort::Quick, ..BenchmarkOptions::default() };
/// let sum = benchmark_function("sum", || (0..1000_u64).map(black_box).sum::<u64>(), options)?;
/// println!("{:.3e} s a call", sum.seconds);
/// # Ok::<(), ellwand::MeasureError>(())
/// ```
///
/// # Errors
/// If the function panics, if two calls return different values, if a call is below the resolution, or if the counts have no timed call.
pub fn benchmark_function<O>(
    name: &str,
    f: impl Fn() -> O + Send + Sync + 'static,
    options: BenchmarkOptions,
) -> Result<Timing, MeasureError>
where
    O: PartialEq + Debug + Send + Sync + 'static,
{
    let one = suite(name).input(|_, _| ()).implementation("function", move |()| f());
    let mut measure = measure(one).effort(options.effort);
    if let Some([warm_up, iterations]) = options.calls {
        measure = measure.counts(Counts { warm_up, iterations });
    }
    let results = measure.run()?;
    let row = results.rows().next();
    match row.and_then(|row| row.median("time")) {
        Some(seconds) => Ok(Timing { seconds, results }),
        None => {
            if let Some(row) = row.filter(|row| row.below_resolution) {
                let below = ellwand_report::units::below_resolution(row.resolution_s);
                return Err(MeasureError::Unmeasured(format!("{name} is too short to measure: {below}")));
            }
            let why = row.map_or_else(String::new, |row| {
                format!("{}: {}", row.status.word, row.status.reason.as_deref().unwrap_or("no reason"))
            });
            Err(MeasureError::Unmeasured(format!("{name} was not measured: {why}")))
        }
    }
}

/// The row that takes longest among several results.
#[derive(Debug, Clone, Copy)]
pub struct Bottleneck<'a> {
    /// Its row, with [`Row::diagnosis`]: what limits it, and the changes that would help most.
    pub row: &'a Row,
    /// Seconds of an iteration.
    pub seconds: f64,
    /// Its share of the sum over all workloads and cases, from 0 to 1.
    pub share: f64,
}

/// The workload and case that takes longest, as if a program ran each once. Of several implementations only the fastest
/// counts. `None` if nothing was measured.
///
/// ```
/// use ellwand::{BenchmarkOptions, Effort, benchmark_function, black_box, identify_bottleneck};
/// let options = BenchmarkOptions { effort: Effort::Quick, ..BenchmarkOptions::default() };
/// let sum = benchmark_function("sum", || (0..1000_u64).map(black_box).sum::<u64>(), options)?;
/// let found = identify_bottleneck(&sum.results).expect("one row");
/// assert_eq!((found.row.implementation.as_str(), found.share), ("function", 1.0));
/// # Ok::<(), ellwand::MeasureError>(())
/// ```
pub fn identify_bottleneck(results: &Results) -> Option<Bottleneck<'_>> {
    let mut fastest: Vec<(&Row, f64)> = Vec::new();
    for row in results.rows() {
        let Some(seconds) = row.median("time") else { continue };
        match fastest.iter_mut().find(|(known, _)| known.case == row.case) {
            Some(known) if seconds < known.1 => *known = (row, seconds),
            Some(_) => {}
            None => fastest.push((row, seconds)),
        }
    }
    let sum: f64 = fastest.iter().map(|(_, seconds)| seconds).sum();
    let (row, seconds) = fastest.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Bottleneck { row, seconds, share: seconds / sum })
}

/// Calls a function once and returns its value, with the bytes that the calling thread allocated meanwhile. Memory
/// that other threads or foreign code allocate does not count.
///
/// # Errors
/// If the program does not use the counting allocator; the function is then not called.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: ellwand::profile::alloc::Counting = ellwand::profile::alloc::Counting;
///
/// let (numbers, memory) = ellwand::measure_memory_usage(|| vec![1_u8; 1 << 20])?;
/// assert!(memory.peak_bytes >= 1 << 20 && numbers.len() == 1 << 20);
/// # Ok::<(), ellwand::MeasureError>(())
/// ```
pub fn measure_memory_usage<T>(f: impl FnOnce() -> T) -> Result<(T, MemoryUse), MeasureError> {
    alloc::during(f).map_err(|_| {
        let why = "memory is unavailable: the counting allocator is not installed in this program; add `#[global_allocator] \
                   static ALLOCATOR: ellwand::profile::alloc::Counting = ellwand::profile::alloc::Counting;` to its main file";
        MeasureError::Unmeasured(why.into())
    })
}
