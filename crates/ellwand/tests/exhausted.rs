//! Memory that runs out on a device in the middle of a sweep. The adapter in software takes this process's own memory, of which
//! a limit leaves too little: what fails is the driver's allocation itself. Alone in its program, since the limit is of the
//! process.
#![cfg(all(target_os = "linux", feature = "vulkan"))]
#![allow(clippy::unwrap_used)]

use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;

/// What may be added to the memory of this process: less than what the case in the middle asks for, more than the others need.
const MARGIN: u64 = 100 << 20;

/// Bytes of memory of its own that this process has, which is what the limit counts.
fn held() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    1024 * line.trim().split(' ').next().unwrap().parse::<u64>().unwrap()
}

/// A sweep over bins with 10 000 encoding spikes of one electrode: the device needs 40 KB a bin, the host next to nothing.
fn sweep(bins: &str, to: &Path) -> Vec<Value> {
    let line = "ellwand run kde-predict --device wgpu:0 --skip off --in-process --no-ceilings --no-plot --effort quick";
    let sizes = "--electrodes 1 --enc-spikes 10000 --dec-spikes 3 --edges 10 --samples 500";
    let args = line.split(' ').chain(sizes.split(' ')).chain(["--bins", bins, "-o", to.to_str().unwrap()]);
    ellwand::run(args, &ellwand::registry());
    let record = std::fs::read_to_string(to.join("record.jsonl")).unwrap();
    let lines = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line.get("case").is_some()).collect()
}

#[test]
fn a_case_that_exhausts_the_device_fails_and_the_next_one_has_its_memory_again() {
    let Ok(found) = ellwand::kernels::device::find_wgpu() else {
        eprintln!("skipped: no Vulkan adapter is here");
        return;
    };
    if !found[0].about().contains("SOFTWARE") {
        eprintln!("skipped: the memory of {} is not this process's", found[0].about());
        return;
    }
    drop(found);
    let here = tempfile::tempdir().unwrap();
    // Drivers, threads and compiled kernels are there before the limit is.
    let warm = sweep("50", &here.path().join("warm"));
    assert_eq!(warm.len(), 1, "{warm:?}");
    let (before, hard) = getrlimit(Resource::RLIMIT_DATA).unwrap();
    setrlimit(Resource::RLIMIT_DATA, held() + MARGIN, hard).unwrap();
    // 4, 128 and 80 MB: the last fits only where nothing of what came before it is held.
    let rows = sweep("100,3200,2000", &here.path().join("out"));
    setrlimit(Resource::RLIMIT_DATA, before, hard).unwrap();
    let outcomes: Vec<String> = rows.iter().map(|row| row["outcome"].to_string()).collect();
    assert_eq!(outcomes.len(), 3, "{rows:?}");
    assert!(outcomes[0].contains("measured") && outcomes[2].contains("measured"), "{outcomes:?}");
    assert!(outcomes[1].contains("do not fit into the memory of the device"), "{outcomes:?}");
}
