//! How long a decision takes against an oracle that knows the variances, on synthetic and recorded noise. Test code
//! only.

mod noise;
mod oracle;

use std::path::Path;

use ellwand_core::stats::{Difference, median, quantile};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use self::noise::{Noise, Recorded, SHAPES, Shape};
use crate::compare::{Basis, Call, Choice, NoDecision, Rounds, Spent, Taken, Terms, over_blocks};
use crate::worker::Limits;

/// The usual budget of a case.
const BUDGET_S: f64 = 20.0;

/// One comparison: what was decided, its seconds, and the share of them inside slots.
struct Decided {
    call: Call,
    seconds: f64,
    timed: f64,
    blocks: f64,
}

fn usual(start_s: f64, round_s: f64, long: bool) -> f64 {
    let fewest = if long { 3.0 } else { 6.0 };
    let gained = round_s;
    (1.2 * start_s / gained).ceil().clamp(fewest, 24.0)
}

fn decide(noise: &Noise, theta: f64, seed: u64) -> Decided {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let cost = noise.cost();
    let long = cost.timed_s >= 0.06;
    let (mut seconds, mut timed) = (0.0, 0.0);
    let terms = Terms::new(0.01, 0.01, None, Limits::default(), seed).unwrap().within(BUDGET_S);
    let usual = usual(cost.start_s, cost.round_s, long);
    let fewest = if long { 3.0 } else { 6.0 };
    let decision = over_blocks(&terms, &mut |_, _| {}, &mut |_, ask| {
        let (rounds, limit) = match ask.rounds {
            Rounds::Usual => (usual, 0.06),
            Rounds::Many => ((8.0 * usual).min(96.0), 0.48),
            Rounds::About(rounds) => (rounds.floor().max(3.0), f64::INFINITY),
        };
        let rounds = rounds.min((limit / cost.round_s).ceil()).max(if limit < 1.0 { fewest } else { 3.0 });
        let samples = noise.block(theta, rounds as usize, &mut random);
        if cost.start_s + fewest * cost.round_s > ask.left_s {
            return Err(NoDecision::OutOfTime(None));
        }
        seconds += cost.start_s + rounds * cost.round_s;
        timed += rounds * cost.timed_s;
        let spent = Spent { start_s: cost.start_s, rounds_s: rounds * cost.round_s, gone_s: seconds, usual };
        Ok(Taken { samples, basis: Choice::Fixed(Basis::Fastest, Basis::Cpu), spent })
    });
    let (call, blocks) = match decision {
        Ok(decision) => (decision.call, decision.blocks.len()),
        Err(NoDecision::OutOfTime(_)) => (Call::As(Difference::Undecided { blocks_needed: None }), 1),
        Err(error) => unreachable!("{error:?}"),
    };
    Decided { call, seconds, timed: timed / seconds, blocks: blocks as f64 }
}

/// The figures of one cell of the table.
fn cell(name: &str, noise: &Noise, deviations: [f64; 2], theta: f64, width: f64, decisions: u64) {
    let edge = 0.01_f64.ln_1p();
    let all: Vec<Decided> = (0..decisions).map(|seed| decide(noise, theta, seed)).collect();
    let of = |what: &dyn Fn(&Decided) -> f64| all.iter().map(what).collect::<Vec<f64>>();
    let right = all.iter().filter(|one| match one.call {
        Call::As(Difference::Same) => theta == 0.0,
        Call::As(Difference::Slower) | Call::SlowerBeside(_) => theta > 0.0,
        _ => false,
    });
    let right = right.count();
    let wrong = all.iter().filter(|one| match one.call {
        Call::As(Difference::Same) => theta > 0.0,
        Call::As(Difference::Slower | Difference::Faster) | Call::SlowerBeside(_) => theta == 0.0,
        _ => false,
    });
    let wrong = wrong.count();
    let cost = noise.cost();
    let fewest = if theta == 0.0 { 6.0 } else { 8.0 };
    let floor = fewest * (cost.start_s + usual(cost.start_s, cost.round_s, cost.timed_s >= 0.06) * cost.round_s);
    let oracle = oracle::seconds(deviations, cost, theta, edge, width);
    let took = median(&of(&|one| one.seconds)).unwrap();
    println!(
        "{name} {:+.0} % | {:5.1} {:5.1} | {took:8.2} {:8.2} | {oracle:8.2} {floor:8.2} {:6.2} | {:4.0} {:5.1}",
        100.0 * theta.exp_m1(),
        100.0 * right as f64 / decisions as f64,
        100.0 * wrong as f64 / decisions as f64,
        quantile(&of(&|one| one.seconds), 0.9).unwrap(),
        took / oracle.max(floor),
        100.0 * median(&of(&|one| one.timed)).unwrap(),
        median(&of(&|one| one.blocks)).unwrap(),
    );
}

const HEAD: &str = "noise planted | right %, wrong % | median s, p90 s | oracle s, floor s, ratio | in slots %, blocks";

/// `cargo test --release -p ellwand-bench efficiency -- --ignored --nocapture`
#[test]
#[ignore = "prints a table"]
fn table_of_the_mixed_model() {
    let width = oracle::width(0.01);
    println!("width of the oracle {width:.2}\n{HEAD}");
    let decisions = std::env::var("DECISIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
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
                            format!("{iteration_s:.0e} s, {:.2} % {:.1} % {shape:?}", 100.0 * process, 100.0 * round);
                        cell(&name, &noise, [process, round], theta, width, decisions);
                    }
                }
            }
        }
    }
}

/// The same on the recordings in the folder that ELLWAND_NOISE names.
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
            cell(&name, &Noise::Recorded(recorded.clone()), deviations, theta, width, 100);
        }
    }
}
