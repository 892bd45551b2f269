//! The kernels of `ellwand selfcheck`, made ready for another harness.

use ellwand_bench::{Cpu, selfcheck as kernels};
use ellwand_core::{Case, Prepared, Registry, Value};

/// Short names of the kernels, and their workloads.
pub const KERNELS: [(&str, &str); 3] =
    [("branches", kernels::BRANCHES), ("l2", kernels::L2), ("chain", kernels::CHAIN)];

/// Per cent of more work that the environment variable `PLANTED` asks for; 0 without it.
pub fn planted() -> i64 {
    std::env::var("PLANTED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The kernel of `workload` with `percent` more work, ready to run.
pub fn ready(workload: &str, percent: i64) -> Box<dyn Prepared> {
    let mut registry = Registry::new();
    kernels::register(&mut registry);
    let found = registry.find(workload).expect("the self-check has this workload");
    let case = Case::new(workload, vec![("percent".into(), Value::Int(percent)), ("passes".into(), Value::Int(1))]);
    let inputs = found.inputs(&case, 42).expect("the kernel has inputs");
    let name = if percent == 0 { kernels::PLAIN } else { kernels::SLOWED };
    let row = registry.implementations(workload).into_iter().find(|row| row.name == name).expect("the row is there");
    (row.prepare)(&case, &inputs, &Cpu::default()).expect("the kernel runs everywhere")
}
