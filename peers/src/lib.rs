//! The kernels of `ellwand selfcheck`, prepared for other harnesses.

use ellwand_bench::{Cpu, selfcheck as kernels};
use ellwand_core::{Case, Prepared, Registry, Value};

/// Short names of the kernels, with their workloads.
pub const KERNELS: [(&str, &str); 5] = [
    ("branches", kernels::BRANCHES),
    ("l2", kernels::L2),
    ("l3", kernels::L3),
    ("dram", kernels::DRAM),
    ("chain", kernels::CHAIN),
];

/// Extra work in per cent, from the environment variable `PLANTED`; 0 if unset.
pub fn planted() -> i64 {
    std::env::var("PLANTED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Prepares the kernel of `workload` with `percent` per cent of extra work.
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
