//! A program whose implementations do what no benchmark should, for `cargo xtask attack`: `hostile run hostile -i NAME`.

use std::cell::Cell;
use std::process::Command;

use ellwand::{Axis, suite};

thread_local! {
    static RUNS: Cell<u32> = const { Cell::new(0) };
}

/// True from the fourth run on, which is the first that is timed.
fn late() -> bool {
    RUNS.set(RUNS.get() + 1);
    RUNS.get() >= 4
}

fn kill_this_process() {
    let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
}

#[allow(clippy::print_stdout, clippy::print_stderr)]
fn main() {
    // Each adds one, and then misbehaves.
    let acts: [(&str, fn()); 12] = [
        ("steady", || ()),
        ("panics", || panic!("\u{1b}[2Jout of luck")),
        ("aborts", || std::process::abort()),
        ("exits", || std::process::exit(0)),
        ("dies", kill_this_process),
        ("prints", || println!("{{\"answer\":\"none\"}}")),
        ("floods", || (0..20_000).for_each(|line| eprintln!("\u{1b}]0;complaint {line}\u{7}"))),
        ("closes", || drop(std::fs::remove_dir_all("gone"))),
        ("forks", || drop(Command::new("sleep").arg("1000").spawn())),
        ("daemon", || drop(Command::new("sh").args(["-c", "sleep 1000 & sleep 1000 &"]).status())),
        ("hangs", || std::thread::sleep(std::time::Duration::from_secs(1000))),
        ("recurses", || assert!(deep(0) > 0)),
    ];
    let mut suite = suite("hostile")
        .about("Add one, and misbehave")
        .axis(Axis::int("n", "", 0, 1 << 30, 1))
        .input(|case, _| case.usize("n") as u64)
        .reference(|n: &u64| n + 1)
        .implementation("wrong", |n: &u64| if late() { 0 } else { n + 1 });
    for (name, act) in acts {
        suite = suite.implementation(name, move |n: &u64| {
            std::thread::sleep(std::time::Duration::from_micros(30));
            if late() {
                act();
            }
            n + 1
        });
    }
    ellwand::main(suite)
}

/// Overflows the stack.
#[allow(unconditional_recursion)]
fn deep(n: u64) -> u64 {
    let room = std::hint::black_box([n; 64]);
    deep(n + 1) + room[0]
}
