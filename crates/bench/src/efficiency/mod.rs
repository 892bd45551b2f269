//! How long a decision takes, relative to an oracle that knows the variances, on synthetic and recorded noise. Test
//! code only.

mod noise;
mod oracle;

use std::path::Path;

use ellwand_core::stats::special::binomial_upper_tail;
use ellwand_core::stats::{Difference, quantile};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use self::noise::{Cost, Noise, Recorded, SHAPES, Shape};
use crate::compare::{Basis, BlockSamples, Call, Choice, NoDecision, Rounds, Spent, Terms, over_blocks};
use crate::worker::Limits;

/// The usual budget of a case.
const BUDGET_S: f64 = 20.0;
/// The longest budget that is simulated.
const LONGEST_S: f64 = 60.0;

/// One comparison: what was decided, its seconds, and the share of them inside slots.
struct Decided {
    call: Call,
    seconds: f64,
    timed: f64,
    blocks: f64,
}

/// Rounds of a usual block, as `arms.rs` counts them.
fn usual(cost: Cost) -> f64 {
    let fewest = if cost.timed_s >= 0.06 { 3.0 } else { 6.0 };
    (1.2 * cost.start_s / cost.gained_s).ceil().clamp(fewest, 24.0)
}

fn decide(noise: &Noise, theta: f64, seed: u64, budget_s: f64) -> Decided {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let cost = noise.cost();
    let long = cost.timed_s >= 0.06;
    let (mut seconds, mut timed) = (0.0, 0.0);
    let terms = Terms::new(0.01, 0.01, None, Limits::default(), seed).unwrap().within(budget_s);
    let usual = usual(cost);
    let fewest = if long { 3.0 } else { 6.0 };
    let decision = over_blocks(&terms, &mut |_, _| {}, &mut |_, ask| {
        let (rounds, limit) = match ask.rounds {
            Rounds::Usual => (usual, 0.06),
            Rounds::Many => ((8.0 * usual).min(96.0), 0.48),
            Rounds::About(rounds) => (rounds.floor().max(2.0), f64::INFINITY),
        };
        let rounds = rounds.min((limit / cost.round_s).ceil()).max(if limit < 1.0 { fewest } else { 2.0 });
        let samples = noise.block(theta, rounds as usize, &mut random);
        if cost.start_s + fewest * cost.round_s > ask.left_s {
            return Err(NoDecision::OutOfTime(None));
        }
        seconds += cost.start_s + rounds * cost.round_s;
        timed += rounds * cost.timed_s;
        let spent = Spent { start_s: cost.start_s, rounds_s: rounds * cost.round_s, gone_s: seconds, usual };
        Ok(BlockSamples { samples, basis: Choice::Fixed(Basis::Fastest, Basis::Cpu), spent })
    });
    let (call, blocks) = match decision {
        Ok(decision) => (decision.call, decision.blocks.len()),
        Err(NoDecision::OutOfTime(_)) => (Call::As(Difference::Undecided { blocks_needed: None }), 1),
        Err(error) => unreachable!("{error:?}"),
    };
    Decided { call, seconds, timed: timed / seconds, blocks: blocks as f64 }
}

/// The figures of a cell: a noise and a planted difference.
struct Cell {
    all: Vec<Decided>,
    right: usize,
    wrong: usize,
    oracle_s: f64,
    /// Seconds of the fewest usual blocks that the promised error rate needs.
    floor_s: f64,
    /// Median over decisions; one that is not right counts as infinite.
    took_s: f64,
}

impl Cell {
    fn new(noise: &Noise, deviations: [f64; 2], theta: f64, width: f64, decisions: u64) -> Self {
        let (cost, fewest) = (noise.cost(), if theta == 0.0 { 6.0 } else { 5.0 });
        let oracle_s = oracle::seconds(deviations, cost, theta, 0.01_f64.ln_1p(), width);
        let floor_s = fewest * (cost.start_s + usual(cost) * cost.round_s);
        // Enough time for a decision that takes twice as long as it must, if anybody would wait that long.
        let needed_s = 2.0 * oracle_s.max(floor_s);
        let budget_s = if needed_s <= LONGEST_S { BUDGET_S.max(needed_s) } else { BUDGET_S };
        let all: Vec<Decided> = (0..decisions).map(|seed| decide(noise, theta, seed, budget_s)).collect();
        let slower = |call: Call| matches!(call, Call::As(Difference::Slower) | Call::SlowerBeside(_));
        let same = |call: Call| call == Call::As(Difference::Same);
        let right = |one: &Decided| if theta == 0.0 { same(one.call) } else { slower(one.call) };
        let wrong = |one: &Decided| {
            let other = if theta == 0.0 { slower(one.call) } else { same(one.call) };
            other || one.call == Call::As(Difference::Faster)
        };
        let times: Vec<f64> = all.iter().map(|one| if right(one) { one.seconds } else { f64::INFINITY }).collect();
        Self {
            right: all.iter().filter(|one| right(one)).count(),
            wrong: all.iter().filter(|one| wrong(one)).count(),
            oracle_s,
            floor_s,
            took_s: quantile(&times, 0.5).filter(|seconds| seconds.is_finite()).unwrap_or(f64::INFINITY),
            all,
        }
    }

    /// The median time over that of the oracle or the floor, whichever is longer.
    fn ratio(&self) -> f64 {
        self.took_s / self.oracle_s.max(self.floor_s)
    }

    fn print(&self, name: &str, theta: f64) {
        let of = |what: fn(&Decided) -> f64, share: f64| {
            quantile(&self.all.iter().map(what).collect::<Vec<f64>>(), share).unwrap_or(f64::NAN)
        };
        let share = |count: usize| 100.0 * count as f64 / self.all.len() as f64;
        let ratio = if self.took_s.is_finite() { format!("{:.2}", self.ratio()) } else { "-".into() };
        println!(
            "| {name} | {:+.0} % | {:.0} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} | {ratio} | {:.0} | {:.0} |",
            100.0 * theta.exp_m1(),
            share(self.right),
            share(self.wrong),
            of(|one| one.seconds, 0.5),
            of(|one| one.seconds, 0.9),
            self.oracle_s,
            self.floor_s,
            100.0 * of(|one| one.timed, 0.5),
            of(|one| one.blocks, 0.5),
        );
    }
}

const HEAD: &str =
    "| noise | planted | right % | wrong % | median s | p90 s | oracle s | floor s | ratio | in slots % | blocks |
|---|---|---|---|---|---|---|---|---|---|---|";

/// Noise from processes, from scattered or disturbed rounds, and from neither; the limits leave room for chance in a
/// few decisions.
#[test]
fn a_decision_takes_a_small_multiple_of_the_time_of_an_oracle() {
    let width = oracle::width(0.01);
    for (process, round, shape, theta, limit) in [
        (0.0005, 0.003, Shape::Gaussian, 0.0, 1.2),
        (0.02, 0.003, Shape::Gaussian, 0.0, 2.0),
        (0.02, 0.003, Shape::Outliers, 0.0, 3.0),
        (0.003, 0.05, Shape::Gaussian, 0.0, 2.5),
        (0.003, 0.05, Shape::Gaussian, 0.02, 3.0),
    ] {
        let noise = Noise::Model { process, round, shape, iteration_s: 50e-6 };
        let cell = Cell::new(&noise, [process, round], theta, width, 15);
        assert_eq!(cell.wrong, 0, "{noise:?}");
        assert!(cell.ratio() < limit, "{noise:?}: {} of the oracle's time", cell.ratio());
    }
}

fn decisions_wanted(usual: u64) -> u64 {
    std::env::var("DECISIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Gaussian noise of slow iterations within short budgets, which cut the plan to the blocks that fit, and of short
/// iterations with every other shape. Comparisons of all cells count together, because a single cell is too small for a rate
/// of 1.5 %; it only must not contradict it. The seeds are fixed, so nothing here is left to chance.
#[test]
fn the_promised_error_rates_hold_over_the_mixed_model() {
    let short = |shape| (Noise::Model { process: 0.003, round: 0.05, shape, iteration_s: 50e-6 }, 5.0);
    let slow = |process, round, iteration_s, budget_s| {
        (Noise::Model { process, round, shape: Shape::Gaussian, iteration_s }, budget_s)
    };
    let cells = [
        slow(0.0005, 0.5, 20e-3, 20.0),
        slow(0.02, 0.05, 20e-3, 5.0),
        slow(0.02, 0.3, 0.5e-3, 1.0),
        short(Shape::Lognormal),
        short(Shape::Outliers),
        short(Shape::Drift),
    ];
    let trials = decisions_wanted(100);
    let count = |theta: f64, promised: f64, wrong: fn(Call) -> bool| -> u64 {
        let of_cell = |(noise, budget_s): &(Noise, f64)| {
            let count = (0..trials).filter(|seed| wrong(decide(noise, theta, *seed, *budget_s).call)).count() as u64;
            println!("{noise:?} within {budget_s} s, {:+.2} %: {count} of {trials}", 100.0 * theta.exp_m1());
            assert!(binomial_upper_tail(count, trials, promised) > 1e-4, "{noise:?}: {count} of {trials}");
            count
        };
        cells.iter().map(of_cell).sum()
    };
    let different = count(0.0, 0.015, |call| {
        matches!(call, Call::As(Difference::Slower | Difference::Faster) | Call::SlowerBeside(_))
    });
    let all = (trials * cells.len() as u64) as f64;
    assert!(different as f64 <= 0.015 * all, "{different} of {all} equal pairs called different");
    // The edge of the region, where "the same" is most often wrong.
    let same = count(0.0101_f64.ln_1p(), 0.01, |call| call == Call::As(Difference::Same));
    assert!(same as f64 <= 0.01 * all, "{same} of {all} differences of 1.01 % called the same");
}

/// `cargo test --release -p ellwand-bench efficiency -- --ignored --nocapture`
#[test]
#[ignore = "prints a table"]
fn table_of_the_mixed_model() {
    let width = oracle::width(0.01);
    println!("width of the oracle {width:.2}\n{HEAD}");
    let decisions = decisions_wanted(40);
    for iteration_s in [1e-6, 50e-6, 0.5e-3, 20e-3, 0.5] {
        for process in [0.0005, 0.003, 0.02] {
            for round in [0.003, 0.05, 0.5] {
                for shape in SHAPES {
                    if shape != Shape::Gaussian && iteration_s != 50e-6 {
                        continue;
                    }
                    let noise = Noise::Model { process, round, shape, iteration_s };
                    for theta in [0.0, 0.02_f64.ln_1p(), 0.05_f64.ln_1p()] {
                        let name =
                            format!("{iteration_s:.0e} s, {:.2} %, {:.1} %, {shape:?}", 100.0 * process, 100.0 * round);
                        Cell::new(&noise, [process, round], theta, width, decisions).print(&name, theta);
                    }
                }
            }
        }
    }
}

/// The same on the recordings in the folder given by ELLWAND_NOISE.
#[test]
#[ignore = "prints a table; needs recordings"]
fn table_of_recorded_noise() {
    let width = oracle::width(0.01);
    println!("{HEAD}");
    let folder = std::env::var("ELLWAND_NOISE").unwrap_or_else(|_| "../../results/noise".into());
    let mut files: Vec<_> = std::fs::read_dir(Path::new(&folder)).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.to_string_lossy().ends_with(".csv.gz")) {
        let recorded = Recorded::read(path).unwrap();
        let deviations = recorded.deviations();
        let name = format!("{} ({:.2} %, {:.1} %)", recorded.name, 100.0 * deviations[0], 100.0 * deviations[1]);
        for theta in [0.0, 0.02_f64.ln_1p(), 0.05_f64.ln_1p()] {
            let noise = Noise::Recorded(recorded.clone());
            Cell::new(&noise, deviations, theta, width, 100).print(&name, theta);
        }
    }
}
