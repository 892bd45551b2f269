//! Memory that runs out on a device in the middle of a sweep. The adapter in software takes this process's own memory, of which
//! a limit leaves too little while one case is made ready: what fails is the driver's own allocation. Alone in its program, since
//! the limit is of the process.
#![cfg(all(target_os = "linux", feature = "vulkan"))]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::sync::{Arc, Mutex};

use ellwand::internals::core::{Device, DeviceKind, Implementation, Registry};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;

/// What may be added to the memory of this process: less than the largest case asks of the device at once, and far more than the
/// host needs besides.
const MARGIN: u64 = 100 << 20;

/// Memory of its own that this process may have, until it is dropped.
struct Limit(u64, u64);

impl Limit {
    fn here() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
        let held = 1024 * held.trim().split(' ').next().unwrap().parse::<u64>().unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_DATA).unwrap();
        setrlimit(Resource::RLIMIT_DATA, held + MARGIN, hard).unwrap();
        Self(soft, hard)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        setrlimit(Resource::RLIMIT_DATA, self.0, self.1).unwrap();
    }
}

/// The adapter, where it is one in software.
fn software(registry: &mut Registry) -> Option<Arc<dyn Device>> {
    let required = std::env::var("ELLWAND_REQUIRE").is_ok_and(|what| what.contains("vulkan"));
    match ellwand_gpu::find_wgpu() {
        Ok(found) if found[0].about().contains("SOFTWARE") => {
            registry.device(found[0].clone());
            Some(found[0].clone())
        }
        Ok(found) => {
            eprintln!("skipped: the memory of {} is not this process's", found[0].about());
            None
        }
        Err(why) => {
            assert!(!required, "a Vulkan adapter is required: {why}");
            eprintln!("skipped: {why}");
            None
        }
    }
}

#[test]
fn a_case_that_exhausts_the_device_fails_and_the_next_one_has_its_memory_again() {
    let mut registry = ellwand_cli::registry();
    let Some(device) = software(&mut registry) else { return };
    let rows = registry.implementations("kde-predict");
    let row = rows.into_iter().find(|row| row.needs == DeviceKind::Wgpu).unwrap().clone();
    // What the device holds when a case begins.
    let held: Arc<Mutex<Vec<Option<u64>>>> = Arc::default();
    let (inner, seen) = (row.prepare.clone(), held.clone());
    let prepare = move |case: &_, inputs: &_, device: &dyn Device| {
        seen.lock().unwrap().push(device.state().device_bytes);
        let _limit = (ellwand::internals::core::Case::int(case, "bins") == Some(3200)).then(Limit::here);
        inner(case, inputs, device)
    };
    let about = "as wgpu, at bins=3200 with next to no memory";
    registry.implementation(Implementation {
        needs: DeviceKind::Wgpu,
        ..Implementation::cpu("kde-predict", "short", about, prepare)
    });
    let here = tempfile::tempdir().unwrap();
    let out = here.path().join("out");
    // The device needs 16 KB a bin for the result and 40 KB for the kernels of 10 000 encoding spikes: 180 MB in the middle.
    let line = "ellwand run kde-predict -i short --skip off --in-process --no-ceilings --no-plot --effort quick \
                --electrodes 1 --enc-spikes 10000 --dec-spikes 3 --edges 4000 --samples 500 --bins 100,3200,200 -o";
    let args = line.split_whitespace().chain([out.to_str().unwrap()]);
    ellwand::run(args, &registry);
    let record = std::fs::read_to_string(out.join("record.jsonl")).unwrap();
    let lines = record.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let outcomes: Vec<String> =
        lines.filter(|line| line.get("outcome").is_some()).map(|line| line["outcome"].to_string()).collect();
    assert_eq!(outcomes.len(), 3, "{record}");
    assert!(outcomes[0].contains("measured") && outcomes[2].contains("measured"), "{outcomes:?}");
    assert!(
        outcomes[1].contains("failed") && outcomes[1].contains("do not fit into the device memory"),
        "{outcomes:?}"
    );
    let held = held.lock().unwrap();
    assert!(held.len() == 3 && held[1].is_some(), "{held:?}");
    assert_eq!(held[1], held[2], "what the failed case had made is given back");
    assert_eq!(device.state().device_bytes, held[1], "and so is everything at the end");
}
