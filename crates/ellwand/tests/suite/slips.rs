//! Errors in a suite, which every command reports.

use super::*;

#[test]
fn mistakes_in_a_suite_are_errors_of_its_commands() {
    let axis = || Axis::int("n", "numbers", 0, 10_000, 50);
    let twofold =
        suite("sort").axis(axis()).axis(axis()).input(|_, _| vec![0_u32]).implementation_mut("std", |v| v.sort());
    let mut twice = Registry::from(numbers());
    numbers().register(&mut twice);
    let error = twice.find("sort").unwrap().check(&case()).unwrap_err().to_string();
    assert!(error.contains("of this name is registered twice"), "{error}");
    for (suite, message) in [
        (numbers().baseline("sdt"), "baseline 'sdt' is not implemented; expected one of std"),
        (numbers().implementation_mut("std", |v| v.sort_unstable()), "'std' is implemented twice"),
        (twofold, "two axes 'n'"),
    ] {
        let registry = Registry::from(suite);
        let error = registry.find("sort").unwrap().check(&case()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(ellwand::run(["mine", "check", "sort"], &registry), 2);
    }
}

#[test]
fn names_that_no_command_line_can_give_are_refused() {
    let named = |workload: &str, implementation: &str, axis: Axis| {
        Registry::from(suite(workload).axis(axis).input(|_, _| 0_u8).implementation(implementation, |x| *x))
    };
    let axis = |name: &'static str| Axis::int(name, "", 1, 9, 3);
    for (registry, part) in [
        (named("a:b", "x", axis("n")), "workload \"a:b\": its name contains ':'"),
        (named("w", "x,y", axis("n")), "implementation \"x,y\": its name contains ','"),
        (named("w", "*", axis("n")), "expected letters, digits and other characters than ':', ',', '*' and control"),
        (named("w", "-x", axis("n")), "its name begins with '-'"),
        (named("w", "", axis("n")), "its name is empty"),
        (named("w", "x", axis("a b")), "axis \"a b\": its name contains ' '"),
        (named("w", "x", axis("m").alias(&["a=b"])), "axis \"a=b\": its name contains '='"),
    ] {
        let error = registry.find_mistake().unwrap().to_string();
        assert!(error.contains(part), "{error}");
        assert_eq!(ellwand::run(["mine", "list"], &registry), 2);
    }
    assert_eq!(named("größe", "f32 (fast)", axis("n_1")).find_mistake(), None);
    for name in ["seed", "help", "output", "time", "workload"] {
        assert_eq!(ellwand::run(["mine", "check", "w"], &named("w", "x", axis(name))), 2, "{name}");
        assert_eq!(ellwand::run(["mine", "check", "w"], &named("w", "x", axis("n").alias(&[name]))), 2, "{name}");
    }
    assert_eq!(ellwand::run(["mine", "check", "w"], &named("w", "x", axis("n"))), 0);
}

#[test]
fn names_of_axes_and_sizes_that_lead_nowhere_are_refused() {
    let axis = |name: &'static str| Axis::int(name, "", 1, 9, 3);
    let size = |name: &'static str, axis: &'static str| Size { name, values: vec![(axis, vec![Value::Int(3)])] };
    for (sketch, part) in [
        (suite("w").axis(axis("n")).axis(axis("m").alias(&["n"])), "two of its axes are called 'n'"),
        (suite("w").axis(axis("n")).size(size("tiny", "n")).size(size("tiny", "n")), "two sizes 'tiny'"),
        (suite("w").axis(axis("n")).size(size("a,b", "n")), "its size 'a,b' cannot be selected"),
        (suite("w").axis(axis("n")).size(size("tiny", "m")), "its size 'tiny' sets 'm', which is not an axis"),
    ] {
        let registry = Registry::from(sketch.input(|_, _| 0_u8).implementation("x", |x| *x));
        let error = Plan::expand(&registry, &Selection { workloads: vec!["w".into()], ..Selection::default() });
        let error = error.err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn values_outside_the_domain_of_their_axis_are_refused() {
    let axis = || Axis::int("n", "", 1, 9, 3);
    let with = |axis: Axis| suite("w").axis(axis);
    let plan = |sketch: ellwand::suite::Sketch| {
        let registry = Registry::from(sketch.input(|_, _| 0_u8).implementation("x", |x| *x));
        Plan::expand(&registry, &Selection { workloads: vec!["w".into()], ..Selection::default() })
    };
    for axis in [axis().sweep([3, 20]), Axis::int("n", "", 1, 9, 20), axis().sweep(["much"]), axis().sweep(["3"])] {
        let error = plan(with(axis)).err().unwrap().to_string();
        assert!(error.starts_with("w: its axis 'n' has the value ") && error.contains("from 1 to 9"), "{error}");
    }
    let none = plan(with(axis().sweep([0_i64; 0]))).err().unwrap().to_string();
    assert!(none.contains("'n' has no value by default"), "{none}");
    let big = Size { name: "big", values: vec![("n", vec![Value::Int(10)])] };
    let error = plan(with(axis()).size(big)).err().unwrap().to_string();
    assert!(error.contains("its axis 'n' has the value 10"), "{error}");
    assert!(plan(with(axis())).is_ok());
}
