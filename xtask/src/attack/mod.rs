//! Hostile tries on the program, seeded: files in the way, limits, full disks, signals, kills, misbehaving implementations.
//!
//! Whatever happens, the program must report it and end in time, old results must stay until new ones are complete, finished
//! cells must be kept, and no process may be left.

mod coin;
mod files;
mod limits;
mod processes;
mod try_one;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};

use coin::Coin;
use try_one::{Lab, Try};

/// An area: its name, how many tries, and one try.
type Area = (&'static str, usize, fn(&Lab, &mut Coin) -> Try);

const AREAS: [Area; 9] = [
    ("results that are in the way", 60, files::in_the_way),
    ("limits on the size of files", 120, limits::file_size),
    ("limits on memory, files, processes", 90, limits::others),
    ("full disks", 60, limits::full),
    ("directories that vanish", 20, processes::vanish),
    ("signals", 120, processes::signals),
    ("hostile implementations", 52, processes::hostile),
    ("hostile commands", 40, processes::commands),
    ("random kills", 200, processes::kills),
];

/// Number of tries at the same time.
const AT_A_TIME: usize = 4;

/// Runs every area whose name contains `pattern` and prints its tries and failures.
pub(crate) fn attack(pattern: &str) -> Result<()> {
    let lab = Lab::new()?;
    println!("{:38} {:>6} {:>9} {:>8}", "area", "tries", "failures", "seconds");
    let (mut tries, mut failures) = (0, Vec::new());
    let begin = Instant::now();
    for (name, count, one) in AREAS.into_iter().filter(|(name, ..)| name.contains(pattern)) {
        let start = Instant::now();
        let failed = failures_of(&lab, name, count, one);
        println!("{name:38} {count:>6} {:>9} {:>8.0}", failed.len(), start.elapsed().as_secs_f64());
        tries += count;
        failures.extend(failed);
    }
    println!("{:38} {tries:>6} {:>9} {:>8.0}", "all", failures.len(), begin.elapsed().as_secs_f64());
    for failure in &failures {
        println!("\n{failure}");
    }
    if tries == 0 {
        bail!("no area has '{pattern}' in its name");
    }
    if failures.is_empty() { Ok(()) } else { bail!("{} of {tries} tries failed", failures.len()) }
}

/// Runs some tries at a time: most of them wait.
fn failures_of(lab: &Lab, name: &str, count: usize, one: fn(&Lab, &mut Coin) -> Try) -> Vec<String> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= count {
                        return;
                    }
                    let why = failure(lab, name, seed, one);
                    failed.lock().unwrap_or_else(PoisonError::into_inner).extend(why);
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn failure(lab: &Lab, name: &str, seed: usize, one: fn(&Lab, &mut Coin) -> Try) -> Option<String> {
    let mut coin = Coin::new(name, seed);
    one(lab, &mut coin).err().map(|why| format!("{name}, try {seed}: {why:#}"))
}
