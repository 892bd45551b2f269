//! Slots of processes, drawn from a mixed model or from recorded noise, and the time that they cost.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use ellwand_core::record::Sample;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

/// Seconds to start and end the processes of a block besides their first runs; and seconds of a turn besides its slot.
const START_S: f64 = 0.016;
const SWITCH_S: f64 = 1e-4;
/// Head and timed part of the slot of a short iteration, in seconds.
const HEAD_S: f64 = 1e-4;
const SLOT_S: f64 = 5e-4;
/// Head and timed part of the recorded slots, in seconds.
const RECORDED_S: [f64; 2] = [1e-3, 2e-3];

/// Standard normal (Box and Muller 1958).
pub(super) fn normal(random: &mut ChaCha8Rng) -> f64 {
    let [u, v] = [0; 2].map(|_| random.random_range(f64::EPSILON..1.0));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// How slots scatter around their process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Gaussian,
    /// Delays with a lognormal distribution on top of a floor.
    Lognormal,
    /// Gaussian, and one slot in a hundred takes ten times as long.
    Outliers,
    /// Gaussian, and every slot of a block is 0.05 % slower than the one before.
    Drift,
}

pub(super) const SHAPES: [Shape; 4] = [Shape::Gaussian, Shape::Lognormal, Shape::Outliers, Shape::Drift];

/// Where slots come from.
#[derive(Debug, Clone)]
pub(super) enum Noise {
    /// Standard deviation of the log ratio of two processes and of a round, and the seconds of an iteration.
    Model {
        process: f64,
        round: f64,
        shape: Shape,
        iteration_s: f64,
    },
    Recorded(Recorded),
}

/// Recorded blocks: for every block and arm, the logarithms of the nanoseconds per iteration, by round.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    pub(super) name: String,
    blocks: Vec<[Vec<f64>; 3]>,
    iteration_s: f64,
}

/// What a block costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Starting, checking and ending the processes.
    pub(super) start_s: f64,
    /// Seconds of a round, which has three turns.
    pub(super) round_s: f64,
    /// The timed part of a round, in seconds.
    pub(super) timed_s: f64,
    /// Seconds that a round contributes towards timing half of the block, as `arms.rs` counts them.
    pub(super) gained_s: f64,
}

impl Noise {
    pub(super) fn cost(&self) -> Cost {
        let (iteration_s, [head_s, slot_s]) = match self {
            Noise::Model { iteration_s, .. } => (*iteration_s, [HEAD_S, SLOT_S]),
            Noise::Recorded(recorded) => (recorded.iteration_s, RECORDED_S),
        };
        let long = iteration_s >= 0.02;
        let timed = iteration_s.max(slot_s);
        let head = if long { 0.0 } else { head_s };
        // The first run of each process, and one to judge it again; a long last slot also serves as the second.
        let runs = if long { 3.0 } else { 6.0 };
        Cost {
            start_s: START_S + runs * iteration_s,
            round_s: 3.0 * (head + timed + SWITCH_S),
            timed_s: 3.0 * timed,
            gained_s: 3.0 * (timed - 0.2 * head - SWITCH_S),
        }
    }

    /// The slots of a block: baseline, candidate (slower by the logarithm `theta`) and the baseline again.
    pub(super) fn block(&self, theta: f64, rounds: usize, random: &mut ChaCha8Rng) -> [Vec<Sample>; 3] {
        let logs = match self {
            Noise::Model { process, round, shape, iteration_s } => {
                model([*process, *round], *shape, iteration_s.ln(), rounds, random)
            }
            Noise::Recorded(recorded) => recorded.resample(rounds, random),
        };
        let mut arm = 0;
        logs.map(|logs| {
            arm += 1;
            let shift = if arm == 2 { theta } else { 0.0 };
            logs.iter().enumerate().map(|(round, log)| sample((log + shift).exp(), round)).collect()
        })
    }
}

/// A slot of iterations of `seconds`, at a resolution that does not matter.
fn sample(seconds: f64, round: usize) -> Sample {
    let iterations = (1.0 / seconds).ceil().max(1.0) as u64;
    let ns = (seconds * iterations as f64 * 1e9) as u64;
    let parts = (Some(1), Some(ns));
    let (round, position) = (round as u32, 0);
    Sample {
        iterations,
        wall_ns: ns,
        cpu_ns: Some(ns),
        parts: parts.0,
        fastest_ns: parts.1,
        round,
        position,
        ..Sample::default()
    }
}

fn model(
    [process, round]: [f64; 2],
    shape: Shape,
    level: f64,
    rounds: usize,
    random: &mut ChaCha8Rng,
) -> [Vec<f64>; 3] {
    let halved = std::f64::consts::FRAC_1_SQRT_2;
    let processes = [0; 3].map(|_| level + process * halved * normal(random));
    let mut logs: [Vec<f64>; 3] = Default::default();
    for slot in 0..rounds {
        let mut order = [0, 1, 2];
        order.shuffle(random);
        for (position, arm) in order.into_iter().enumerate() {
            let z = normal(random);
            let off = match shape {
                Shape::Gaussian => z,
                // A standard lognormal has a standard deviation of 2.161.
                Shape::Lognormal => z.exp() / 2.161,
                Shape::Outliers if random.random_bool(0.01) => z + 10.0_f64.ln() / (round * halved),
                Shape::Outliers => z,
                Shape::Drift => z + 0.0005 * (3 * slot + position) as f64 / (round * halved),
            };
            logs[arm].push(processes[arm] + round * halved * off);
        }
    }
    logs
}

impl Recorded {
    /// Reads rows with the columns of `turns.c` (block, round, place, arm, iterations, median_ns, mean_ns), gzipped.
    pub(super) fn read(path: &Path) -> std::io::Result<Self> {
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let wrong = |line: &str| std::io::Error::other(format!("{name}: not a row of recorded noise: {line}"));
        let mut blocks: BTreeMap<usize, [Vec<f64>; 3]> = BTreeMap::new();
        for line in text.lines().skip(1) {
            let columns: Vec<f64> = line.split(',').map_while(|column| column.parse().ok()).collect();
            let (Some(block), Some(arm), Some(ns)) = (columns.first(), columns.get(3), columns.get(5)) else {
                return Err(wrong(line));
            };
            blocks.entry(*block as usize).or_default()[*arm as usize % 3].push(ns.ln());
        }
        let blocks: Vec<[Vec<f64>; 3]> =
            blocks.into_values().filter(|arms| arms.iter().all(|arm| arm.len() > 2)).collect();
        let all: Vec<f64> = blocks.iter().flatten().flatten().copied().collect();
        let iteration_s = ellwand_core::stats::median(&all).ok_or_else(|| wrong("no rows"))?.exp() * 1e-9;
        Ok(Self { name: name.split('.').next().unwrap_or("").to_string(), blocks, iteration_s })
    }

    /// A recorded block, its arms in random order, from a random round on. Successive rounds keep their correlation; a
    /// block longer than the recording starts over in the same processes.
    fn resample(&self, rounds: usize, random: &mut ChaCha8Rng) -> [Vec<f64>; 3] {
        let block = &self.blocks[random.random_range(0..self.blocks.len())];
        let mut order = [0, 1, 2];
        order.shuffle(random);
        let length = block.iter().map(Vec::len).min().unwrap_or(1);
        let from = random.random_range(0..length);
        order.map(|arm| (0..rounds).map(|round| block[arm][(from + round) % length] - 1e9_f64.ln()).collect())
    }

    /// Standard deviations of block medians and of rounds (by MAD), as an oracle would know them. A block longer than
    /// its recording repeats its rounds, so its median scatters like that of the recording.
    pub(super) fn deviations(&self) -> [f64; 2] {
        let median = |values: &[f64]| ellwand_core::stats::median(values).unwrap_or(f64::NAN);
        let mad = |values: &[f64]| {
            let middle = median(values);
            1.4826 * median(&values.iter().map(|x| (x - middle).abs()).collect::<Vec<f64>>())
        };
        let ratios =
            |block: &[Vec<f64>; 3]| -> Vec<f64> { block[2].iter().zip(&block[0]).map(|(c, b)| c - b).collect() };
        let medians: Vec<f64> = self.blocks.iter().map(|block| median(&ratios(block))).collect();
        let rounds: Vec<f64> = self
            .blocks
            .iter()
            .zip(&medians)
            .flat_map(|(block, m)| ratios(block).into_iter().map(move |x| x - m))
            .collect();
        [mad(&medians).max(1e-4), mad(&rounds)]
    }
}
