//! The kernels under Criterion: run it with `--save-baseline`, then with `--baseline`, and take its verdict.

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for (name, workload) in peers::KERNELS {
        let mut kernel = peers::ready(workload, peers::planted());
        criterion.bench_function(name, |bencher| bencher.iter(|| kernel.run()));
    }
    criterion.final_summary();
}
