//! Runs Ellwand and the plain loop alternately and prints the results of both.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the answer of a command")]

use std::process::{Child, Command, Stdio};

use ellwand::internals::bench::environment;
use ellwand::internals::core::stats::median;
use serde_json::Value;

use crate::kernels::{KERNELS, PLANTED};
use crate::waits::{CANDIDATES, LENGTHS};

/// Implementations measured in the same run as `plain`.
const COMPANY: [(&str, &str); 3] =
    [("alone", "plain"), ("beside 1", "plain,twin"), ("beside 3", "plain,twin,more5,more10")];

fn this(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "promise".into()));
    command.args(args).stderr(Stdio::null());
    command
}

fn output(args: &[&str]) -> Option<Value> {
    let output = this(args).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

/// Processes that spin until dropped.
struct Spinning(Vec<Child>);

impl Spinning {
    fn new(count: usize) -> Self {
        Self((0..count).filter_map(|_| this(&["spin"]).spawn().ok()).collect())
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Median times of the plain loop in one fresh process, in seconds; one per entry of `PLANTED`.
fn looped(kernel: &str) -> Option<[f64; 4]> {
    let times = output(&["loop", kernel])?;
    let mut found = [0.0; 4];
    for (found, time) in found.iter_mut().zip(times.as_array()?) {
        *found = time.as_f64()? * 1e-9;
    }
    Some(found)
}

/// Time that `run` reports for the plain implementation, in seconds.
fn stated(kernel: &str, implementations: &str) -> Option<f64> {
    let dir = std::env::temp_dir().join(format!("promise-{}", std::process::id()));
    let dir = dir.to_str()?;
    let report = output(&[
        "run",
        "promise",
        "--kernel",
        kernel,
        "-i",
        implementations,
        "--effort",
        "quick",
        "--no-ceilings",
        "--no-plot",
        "--format",
        "json",
        "-o",
        dir,
        "--overwrite",
    ]);
    let _ = std::fs::remove_dir_all(dir);
    report?["workloads"][0]["rows"][0]["metrics"]["time"]["median"].as_f64()
}

/// Result of comparing the plain implementation with another.
#[derive(Clone, Copy)]
struct Verdict {
    ratio: f64,
    low: f64,
    high: f64,
    seconds: f64,
    /// 0 slower, 1 same, 2 faster, 3 anything else.
    said: usize,
}

fn compared(suite: &str, axis: [&str; 2], sides: [&str; 2]) -> Option<(Verdict, String)> {
    let [baseline, candidate] = sides.map(|side| format!("{suite}:{side}"));
    let [flag, value] = axis;
    let answer = output(&["compare", &baseline, &candidate, flag, value, "--format", "json", "--fail-on", "never"])?;
    let row = &answer[0];
    let number = |key: &str| row[key].as_f64();
    let said = ["slower", "same", "faster"].iter().position(|word| row["verdict"] == *word).unwrap_or(3);
    let judged = row["judged_by"].as_str().unwrap_or("").to_string();
    let verdict = Verdict {
        ratio: number("ratio")?,
        low: number("low")?,
        high: number("high")?,
        seconds: number("elapsed_s")?,
        said,
    };
    Some((verdict, judged))
}

/// The ratio that the plain loop finds: median over its processes, and that median's 95 % interval from ranks (the
/// sign test; Conover, Practical Nonparametric Statistics, 3.2).
struct Truth {
    ratio: f64,
    low: f64,
    high: f64,
}

impl Truth {
    fn of(mut ratios: Vec<f64>) -> Self {
        ratios.sort_by(f64::total_cmp);
        let count = ratios.len() as f64;
        // Ranks below and above the median by 1.96 standard deviations of a fair coin's heads.
        let rank = ((count - 1.96 * count.sqrt()) / 2.0).floor().max(0.0) as usize;
        let at = |index: usize| ratios.get(index).copied().unwrap_or(f64::NAN);
        Self { ratio: middle(&ratios), low: at(rank), high: at(ratios.len().saturating_sub(rank + 1)) }
    }

    /// Whether the interval of a verdict and that of the loop have a ratio in common.
    fn agrees(&self, verdict: &Verdict) -> bool {
        verdict.low <= self.high && self.low <= verdict.high
    }
}

fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// `table [REPEATS [SPINNING [KERNEL..]]]`: measures these kernels while SPINNING processes spin.
pub(crate) fn print(args: &[String]) {
    let repeats: usize = args.first().and_then(|text| text.parse().ok()).unwrap_or(5);
    let kernels: Vec<&str> =
        KERNELS.into_iter().filter(|name| args.len() < 3 || args.iter().any(|arg| arg == name)).collect();
    let load: usize = args.get(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let facts = environment::facts();
    println!("{} · {} cores · {repeats} repeats\n", facts.cpu, facts.cores);
    println!("| kernel | spinning | loop | spread of processes | alone | beside 1 | beside 3 |");
    println!("|---|---|---|---|---|---|---|");
    let mut verdicts = Vec::new();
    {
        for kernel in &kernels {
            let spinning = Spinning::new(load);
            let mut loops: Vec<[f64; 4]> = Vec::new();
            let mut over = [const { Vec::new() }; 3];
            for _ in 0..repeats {
                for (over, (_, implementations)) in over.iter_mut().zip(COMPANY) {
                    // Between two loops, because the speed of a virtual machine's host varies.
                    let (before, time, after) = (looped(kernel), stated(kernel, implementations), looped(kernel));
                    loops.extend(before.iter().chain(&after));
                    if let (Some(before), Some(time), Some(after)) = (before, time, after) {
                        over.push(2.0 * time / (before[0] + after[0]));
                    }
                }
            }
            let plain: Vec<f64> = loops.iter().map(|loops| loops[0]).collect();
            let spread =
                plain.iter().copied().fold(0.0, f64::max) / plain.iter().copied().fold(f64::INFINITY, f64::min);
            let cells: Vec<String> = over.iter().map(|over| format!("{:.3}", middle(over))).collect();
            println!("| {kernel} | {load} | {:.1} us | {spread:.2} | {} |", middle(&plain) * 1e6, cells.join(" | "));
            for (index, percent) in PLANTED.into_iter().enumerate() {
                let candidate = if percent == 0 { "twin".to_string() } else { format!("more{percent}") };
                let all: Vec<Verdict> = (0..repeats)
                    .filter_map(|_| Some(compared("promise", ["--kernel", kernel], ["plain", &candidate])?.0))
                    .collect();
                let truth = Truth::of(loops.iter().map(|loops| loops[index] / loops[0]).collect());
                verdicts.push((*kernel, load, percent, truth, all));
            }
            drop(spinning);
        }
    }
    println!(
        "\n| kernel | spinning | planted | loop | ratio found (median, range) | slower, same, faster, open | intervals that agree with the loop's | seconds |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let (mut held, mut of) = (0, 0);
    for (kernel, load, percent, truth, all) in verdicts {
        if all.is_empty() {
            println!(
                "| {kernel} | {load} | +{percent} % | {:.4} ({:.4} to {:.4}) | no verdict | | | |",
                truth.ratio, truth.low, truth.high
            );
            continue;
        }
        let of_all = |get: fn(&Verdict) -> f64| all.iter().map(get).collect::<Vec<f64>>();
        let ratios = of_all(|verdict| verdict.ratio);
        let mut said = [0; 4];
        all.iter().for_each(|verdict| said[verdict.said] += 1);
        let covered = all.iter().filter(|verdict| truth.agrees(verdict)).count();
        (held, of) = (held + covered, of + all.len());
        println!(
            "| {kernel} | {load} | +{percent} % | {:.4} ({:.4} to {:.4}) | {:.4}, {:.4} to {:.4} | {}, {}, {}, {} | {covered} of {} | {:.1} |",
            truth.ratio,
            truth.low,
            truth.high,
            middle(&ratios),
            ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratios.iter().copied().fold(0.0, f64::max),
            said[0],
            said[1],
            said[2],
            said[3],
            all.len(),
            middle(&of_all(|verdict| verdict.seconds)),
        );
    }
    println!("\n{held} of {of} intervals agree with the loop's.");
}

/// `waits`: compares pairs whose elapsed and CPU times differ, in both directions.
pub(crate) fn print_waits() {
    println!("| iteration | baseline | candidate | elapsed, roughly | ratio found | verdict | judged by |");
    println!("|---|---|---|---|---|---|---|");
    let (mut wrong, mut open, mut all) = (0, 0, 0);
    for us in LENGTHS.map(|us| us.to_string()) {
        for (name, over) in CANDIDATES {
            for (sides, truth) in [(["plain", name], over), ([name, "plain"], 1.0 / over)] {
                let Some((verdict, judged)) = compared("waits", ["--us", &us], sides) else {
                    println!("| {us} us | {} | {} | {truth:.2} | failed | | |", sides[0], sides[1]);
                    continue;
                };
                let right = if truth > 1.0 { 0 } else { 2 };
                let word = ["slower", "same", "faster", "open"][verdict.said];
                all += 1;
                wrong += usize::from(![right, 3].contains(&verdict.said));
                open += usize::from(verdict.said == 3);
                println!(
                    "| {us} us | {} | {} | {truth:.2} | {:.3} ({:.3} to {:.3}) | {word} | {judged} |",
                    sides[0], sides[1], verdict.ratio, verdict.low, verdict.high
                );
            }
        }
    }
    println!("\n{all} comparisons: {wrong} in the wrong direction, {open} open.");
}
