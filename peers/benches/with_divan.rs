//! The kernels under Divan, which has no comparison: the script compares the medians that Divan prints.

fn main() {
    divan::main();
}

#[divan::bench(args = peers::KERNELS.map(|(name, _)| name))]
fn kernel(bencher: divan::Bencher, name: &str) {
    let workload = peers::KERNELS.iter().find(|(known, _)| *known == name).map(|(_, workload)| *workload);
    let kernel = std::cell::RefCell::new(peers::ready(workload.expect("one of the kernels"), peers::planted()));
    bencher.bench_local(|| kernel.borrow_mut().run());
}
