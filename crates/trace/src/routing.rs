//! Chooses where to run an operation by its size: a small table from timings on CPU and GPU, which a program can load
//! and query.

use std::collections::{BTreeMap, HashMap};

use ellwand_profile::{LaneKind, Trace};
use serde::{Deserialize, Serialize};

/// Bootstrap resamples for the interval of the crossover.
const RESAMPLES: usize = 999;
/// Maximum number of timings per size and side; more hardly change a median.
const MAX_SAMPLES: usize = 1000;
/// Version of the JSON.
const VERSION: u32 = 1;

/// Time of one call at a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Size of the input, such as its number of items.
    pub size: u64,
    /// Elapsed nanoseconds, with copies and launches.
    pub ns: f64,
}

/// Timings of an operation on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Timings {
    /// Name of the operation.
    pub operation: String,
    /// Timings of calls that used no device.
    pub cpu: Vec<Timing>,
    /// Timings of calls that used a device.
    pub gpu: Vec<Timing>,
}

/// The side to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Processor {
    /// On the CPU.
    Cpu,
    /// On the GPU.
    Gpu,
}

/// One size of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Size at which the choice was made.
    pub size: u64,
    /// Median time on the CPU in nanoseconds.
    pub cpu_ns: f64,
    /// Median time on the GPU in nanoseconds.
    pub gpu_ns: f64,
    /// The faster side.
    pub side: Processor,
}

/// The size above which the GPU is faster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// The size, interpolated between measured ones.
    pub size: f64,
    /// Lower end of the 95 % bootstrap interval; `None` if the CPU may be slower at every measured size.
    pub low: Option<f64>,
    /// Upper end; `None` if the CPU may be faster at every measured size.
    pub high: Option<f64>,
}

/// The side to use for an operation, by size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Routing {
    version: u32,
    /// Name of the operation.
    pub operation: String,
    /// The size above which the GPU is faster; `None` if one side is faster at every measured size.
    pub crossover: Option<Crossover>,
    /// Sizes timed on both sides, ascending.
    pub routes: Vec<Route>,
}

/// Why there is no table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// Too few sizes were timed on both sides.
    #[error("{operation}: the number of sizes timed on both CPU and GPU is {common}; expected at least 2")]
    TooFewSizes {
        /// Name of the operation.
        operation: String,
        /// Sizes with timings on both sides.
        common: usize,
    },
    /// The text is not a table.
    #[error("not a routing table: {0}")]
    Json(String),
    /// A table of a later version.
    #[error("the routing table has version {0}; this program reads version {VERSION}: update Ellwand")]
    Version(u32),
}

impl Routing {
    /// The table of an operation from its timings. Ignores times that are not positive.
    ///
    /// # Errors
    /// Fewer than two sizes have timings on both sides.
    pub fn of(operation: &str, cpu: &[Timing], gpu: &[Timing]) -> Result<Self, RoutingError> {
        let (cpu, gpu) = (by_size(cpu), by_size(gpu));
        let both: Vec<(u64, &[f64], &[f64])> =
            cpu.iter().filter_map(|(size, cpu)| Some((*size, &cpu[..], &gpu.get(size)?[..]))).collect();
        if both.len() < 2 {
            return Err(RoutingError::TooFewSizes { operation: operation.to_string(), common: both.len() });
        }
        let median = |values: &[f64]| ellwand_stats::median(values).unwrap_or(f64::NAN);
        let routes: Vec<Route> = both
            .iter()
            .map(|(size, cpu, gpu)| {
                let (cpu_ns, gpu_ns) = (median(cpu), median(gpu));
                Route {
                    size: *size,
                    cpu_ns,
                    gpu_ns,
                    side: if gpu_ns < cpu_ns { Processor::Gpu } else { Processor::Cpu },
                }
            })
            .collect();
        let points: Vec<(f64, f64)> =
            routes.iter().map(|route| (route.size as f64, (route.cpu_ns / route.gpu_ns).ln())).collect();
        let size = Some(crossing(&points)).filter(|size| is_between(*size));
        let crossover = size.map(|size| interval(size, &both));
        Ok(Self { version: VERSION, operation: operation.to_string(), crossover, routes })
    }

    /// The side to use at a size.
    pub fn side(&self, size: u64) -> Processor {
        match &self.crossover {
            Some(crossover) if size as f64 >= crossover.size => Processor::Gpu,
            Some(_) => Processor::Cpu,
            None => self.routes.last().map_or(Processor::Cpu, |route| route.side),
        }
    }

    /// Estimated time on the CPU, interpolated between measured sizes; `None` outside them.
    pub fn cpu_ns(&self, size: u64) -> Option<f64> {
        let after = self.routes.iter().position(|route| route.size >= size)?;
        let (high, low) = (self.routes.get(after)?, self.routes.get(after.saturating_sub(1))?);
        if high.size == size {
            return Some(high.cpu_ns);
        }
        let share = ((size.max(1) as f64).ln() - (low.size.max(1) as f64).ln())
            / ((high.size as f64).ln() - (low.size.max(1) as f64).ln());
        (after > 0).then(|| low.cpu_ns.powf(1.0 - share) * high.cpu_ns.powf(share))
    }

    /// The table as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads the JSON of [`Routing::to_json`].
    ///
    /// # Errors
    /// The text is not a table, or is one of a later version.
    pub fn from_json(text: &str) -> Result<Self, RoutingError> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let of = |error: serde_json::Error| RoutingError::Json(error.to_string());
        let head: Head = serde_json::from_str(text).map_err(of)?;
        if head.version != VERSION {
            return Err(RoutingError::Version(head.version));
        }
        serde_json::from_str(text).map_err(of)
    }
}

fn by_size(timings: &[Timing]) -> BTreeMap<u64, Vec<f64>> {
    let mut sizes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for timing in timings.iter().filter(|timing| timing.ns.is_finite() && timing.ns > 0.0) {
        let known = sizes.entry(timing.size).or_default();
        if known.len() < MAX_SAMPLES {
            known.push(timing.ns);
        }
    }
    sizes
}

/// The size from which ln(CPU / GPU) stays positive, linear in the logarithm of the size: 0 if the GPU is faster at
/// every size, infinity if the CPU is faster at the largest.
fn crossing(points: &[(f64, f64)]) -> f64 {
    let Some(below) = points.iter().rposition(|point| point.1 <= 0.0) else { return 0.0 };
    let (Some(low), Some(high)) = (points.get(below), points.get(below + 1)) else { return f64::INFINITY };
    let (from, to) = (low.0.max(1.0).ln(), high.0.max(1.0).ln());
    (from + (to - from) * (-low.1 / (high.1 - low.1))).exp()
}

fn is_between(size: f64) -> bool {
    size > 0.0 && size.is_finite()
}

/// The crossover with its percentile bootstrap interval: timings of each size and side are resampled with replacement.
fn interval(size: f64, both: &[(u64, &[f64], &[f64])]) -> Crossover {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut drawn = Vec::new();
    let mut median = |values: &[f64]| {
        drawn.clear();
        for _ in values {
            // splitmix64: a fixed seed gives the same interval for the same timings.
            random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let index = ((bits ^ (bits >> 31)) % values.len().max(1) as u64) as usize;
            drawn.extend(values.get(index));
        }
        ellwand_stats::median(&drawn).unwrap_or(f64::NAN)
    };
    let mut sizes: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let points: Vec<(f64, f64)> =
                both.iter().map(|(size, cpu, gpu)| (*size as f64, (median(cpu) / median(gpu)).ln())).collect();
            crossing(&points)
        })
        .collect();
    sizes.sort_by(f64::total_cmp);
    let at = |rank: usize| sizes.get(rank).copied().filter(|size| is_between(*size));
    // The 25th and the 975th of 999 values.
    Crossover { size, low: at(24), high: at(974) }
}

/// Timings of every operation in a trace that declared its items and ran both with and without a device.
pub fn timings(trace: &Trace) -> Vec<Timings> {
    let mut operations: HashMap<&str, Timings> = HashMap::new();
    let devices = device_work(trace);
    for (number, lane) in trace.lanes.iter().enumerate().filter(|(_, lane)| lane.kind == LaneKind::Thread) {
        for (index, span) in lane.spans.iter().enumerate().filter(|(_, span)| !span.is_open()) {
            let Some(items) = lane.counters_of(span).map(|counters| counters.items).filter(|items| *items > 0) else {
                continue;
            };
            let name = trace.name(span);
            let known = operations.entry(name).or_insert_with(|| Timings {
                operation: name.to_string(),
                cpu: Vec::new(),
                gpu: Vec::new(),
            });
            let timing = Timing { size: items, ns: trace.duration_ns(span) };
            let used = devices.get(number).and_then(|lane| lane.get(index)).copied().unwrap_or(false);
            if used { known.gpu.push(timing) } else { known.cpu.push(timing) }
        }
    }
    let mut both: Vec<Timings> =
        operations.into_values().filter(|timings| !timings.cpu.is_empty() && !timings.gpu.is_empty()).collect();
    both.sort_by(|a, b| a.operation.cmp(&b.operation));
    both
}

/// For each span: true if it or a span inside it started work on a device.
fn device_work(trace: &Trace) -> Vec<Vec<bool>> {
    let streams = trace.lanes.iter().filter(|lane| matches!(lane.kind, LaneKind::Stream { .. }));
    let links: std::collections::HashSet<u32> =
        streams.flat_map(|lane| &lane.spans).map(|span| span.corr).filter(|corr| *corr != 0).collect();
    let of = |lane: &ellwand_profile::TraceLane| {
        let mut used: Vec<bool> = lane.spans.iter().map(|span| links.contains(&span.corr)).collect();
        for (index, span) in lane.spans.iter().enumerate().rev() {
            let inside = used.get(index).copied().unwrap_or(false);
            if let Some(parent) =
                used.get_mut(span.parent as usize).filter(|_| inside && (span.parent as usize) < index)
            {
                *parent = true;
            }
        }
        used
    };
    trace.lanes.iter().map(of).collect()
}
