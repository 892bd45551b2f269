//! From the user's selection to the cells of the plan.

mod common;

use std::collections::BTreeMap;

use common::{Act, Bench};
use ellwand_bench::plan::{Plan, Selection, left_out};
use ellwand_core::DeviceKind;

fn bench() -> Bench {
    let mut bench = Bench::default();
    bench.add("steady", |_| Act::Right(1));
    bench.add("steady-fast", |_| Act::Right(1));
    bench
}

fn select(change: impl FnOnce(&mut Selection)) -> Result<Vec<String>, String> {
    let mut selection = Selection { workloads: vec!["add-one".into()], ..Selection::default() };
    change(&mut selection);
    let plan = Plan::expand(&bench().registry, &selection).map_err(|error| error.to_string())?;
    Ok(plan
        .cells
        .iter()
        .map(|cell| {
            let names: Vec<&str> = cell.implementations.iter().map(|i| i.name.as_str()).collect();
            format!("{} [{}]", cell.case.id(), names.join(" "))
        })
        .collect())
}

fn axes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn sweeps_keep_the_order_given() {
    assert_eq!(
        select(|s| s.axes = axes(&[("batch", "8,2")])).unwrap(),
        ["add-one/batch=8 [steady steady-fast]", "add-one/batch=2 [steady steady-fast]"]
    );
    assert_eq!(select(|s| s.workloads = vec!["toys".into()]).unwrap(), ["add-one/batch=4 [steady steady-fast]"]);
}

#[test]
fn implementations_are_chosen_by_pattern() {
    assert_eq!(select(|s| s.implementations = vec!["*-fast".into()]).unwrap(), ["add-one/batch=4 [steady-fast]"]);
    assert_eq!(select(|s| s.devices = vec!["cpu".into()]).unwrap().len(), 1);
    let none = select(|s| s.devices = vec!["cuda".into()]).unwrap_err();
    assert!(none.contains("device: no selected implementation runs on cuda"), "{none}");
}

#[test]
fn every_unknown_name_is_refused_with_the_nearest() {
    for (change, expected) in [
        (
            &(|s: &mut Selection| s.workloads = vec!["add-on".into()]) as &dyn Fn(&mut Selection),
            "did you mean add-one?",
        ),
        (
            &|s: &mut Selection| s.axes = axes(&[("batsh", "1")]),
            "batsh: add-one has no such axis; expected one of batch\n  hint: did you mean batch?",
        ),
        (&|s: &mut Selection| s.axes = axes(&[("batch", "0")]), "batch: 0 is too small"),
        (&|s: &mut Selection| s.axes = axes(&[("batch", "13")]), "13 is unlucky"),
        (&|s: &mut Selection| s.implementations = vec!["stedy".into()], "did you mean steady?"),
        (&|s: &mut Selection| s.size = Some("tiny".into()), "size: 'tiny' is unknown; expected no size"),
        (&|s: &mut Selection| s.devices = vec!["abacus".into()], "cpu, cuda or wgpu"),
    ] {
        let message = select(change).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn implementations_that_cannot_run_here_are_skipped_with_the_reason_unless_requested() {
    let mut bench = bench();
    let mut elsewhere = bench.registry.implementations("add-one")[0].clone();
    elsewhere.name = "cuda".into();
    elsewhere.needs = DeviceKind::Cuda;
    bench.registry.implementation(elsewhere);
    bench.registry.absent(DeviceKind::Cuda, "no driver is installed");
    let names = |selection: &Selection| {
        let plan = Plan::expand(&bench.registry, selection).unwrap();
        let names: Vec<String> = plan.cells[0].implementations.iter().map(|one| one.name.clone()).collect();
        (names.join(" "), left_out(&bench.registry, &plan, selection))
    };
    let all = Selection { workloads: vec!["add-one".into()], ..Selection::default() };
    let (kept, left) = names(&all);
    assert_eq!(kept, "steady steady-fast");
    let why = "no CUDA device (no driver is installed)".to_string();
    assert_eq!(left, [(vec!["cuda".to_string()], why)]);
    for asked in [
        Selection { devices: vec!["cuda".into()], ..all.clone() },
        Selection { devices: vec!["cuda:1".into()], ..all.clone() },
        Selection { implementations: vec!["cuda".into()], ..all.clone() },
    ] {
        assert_eq!(names(&asked), ("cuda".to_string(), Vec::new()));
    }
}
