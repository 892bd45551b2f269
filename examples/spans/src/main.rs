//! A program under the profiler: `cargo run --release -p example-spans -- [FILE]` prints where the time went and saves
//! the profile.
#![allow(clippy::print_stdout)]

use ellwand_profile::{Kind, Options, get_profiler, profile, span};

#[profile]
fn encode(x: &[f32]) -> f32 {
    let _span = span!("square and add", bytes = 4 * x.len(), flops = 2 * x.len(), n = x.len());
    x.iter().map(|x| x * x).sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    get_profiler().start(Options::default())?;
    let sum: f32 = (1..20).map(|k| encode(&vec![0.5; k << 12])).sum();
    let worker = std::thread::spawn(move || drop(span!("report", sum = sum)));
    let joined = {
        let _wait = span!("wait for the worker", kind = Kind::Wait);
        worker.join()
    };
    let trace = get_profiler().finish();
    println!("{}", trace.summary());
    assert!(joined.is_ok() && trace.dropped() == 0);
    if let Some(file) = std::env::args().nth(1) {
        trace.save(file)?;
    }
    Ok(())
}
