//! Implementations that write into the caller's buffer.

use super::*;

#[test]
fn an_implementation_writes_into_the_buffer_that_the_suite_makes() {
    let sorted = |numbers: &Vec<u32>, out: &mut Vec<u32>| {
        out.copy_from_slice(numbers);
        out.sort_unstable();
    };
    let into = || numbers().implementation_into("into", sorted);
    let registry = Registry::from(into().output(|numbers| vec![0; numbers.len()]));
    assert!(outcome(&registry, "into").is_ok());
    let idle = numbers().implementation_into("idle", |_, _| ()).output(|numbers| vec![0; numbers.len()]);
    let adds = |numbers: &Vec<u32>, out: &mut Vec<u32>| {
        let mut right = numbers.clone();
        right.sort_unstable();
        out.iter_mut().zip(right).for_each(|(out, right)| *out = out.wrapping_add(right));
    };
    let adds = numbers().implementation_into("adds", adds).output(|numbers| vec![0; numbers.len()]);
    wrong(&Registry::from(adds), "adds");
    assert!(wrong(&Registry::from(idle), "idle").contains("did not write 50 of the 50 values of its buffer"));
    // Also where `.output` makes the answer, in every run.
    let once = AtomicBool::new(true);
    let equal = numbers()
        .implementation_into("into", sorted)
        .implementation_into("idle", |_, _| ())
        .implementation_into("once", move |numbers, out| {
            if once.swap(false, SeqCst) {
                sorted(numbers, out);
            }
        })
        .output(|numbers| sorted_copy(numbers));
    let registry = Registry::from(equal);
    assert!(outcome(&registry, "into").is_ok(), "what the buffer held does not matter");
    for name in ["idle", "once"] {
        assert!(wrong(&registry, name).contains("did not write 50 of the 50 values"), "{name}");
    }
    let registry = Registry::from(into());
    let message = registry.find("sort").unwrap().check(&case()).unwrap_err().to_string();
    assert!(message.contains(".output("), "{message}");
    // The same as the reference.
    let first = suite("sort")
        .axis(Axis::int("n", "numbers", 0, 10_000, 50))
        .input(|case, rng| (0..case.usize("n")).map(|_| rng.random()).collect::<Vec<u32>>())
        .implementation_into("into", sorted)
        .output(|numbers| vec![0; numbers.len()])
        .implementation_mut("std", |v| v.sort());
    assert!(outcome(&Registry::from(first), "std").is_ok());
}

#[test]
fn an_implementation_that_writes_only_part_of_its_buffer_is_wrong() {
    // The rest of the buffer is right because `.output` makes zeros, or a copy of the answer.
    let positive = || {
        suite("sort")
            .axis(Axis::int("n", "numbers", 0, 10_000, 50))
            .input(|case, rng| (0..case.usize("n")).map(|_| rng.random_range(-9..9_i32)).collect::<Vec<_>>())
            .implementation("std", |v| v.iter().map(|x| (*x).max(0)).collect::<Vec<i32>>())
            .implementation_into("some", |v, out| {
                v.iter().zip(out).filter(|(x, _)| **x > 0).for_each(|(x, out)| *out = *x);
            })
            .implementation_into("all", |v, out| v.iter().zip(out).for_each(|(x, out)| *out = (*x).max(0)))
    };
    for output in [|v: &Vec<i32>| vec![0; v.len()], |v: &Vec<i32>| v.iter().map(|x| (*x).max(0)).collect()] {
        let registry = Registry::from(positive().output(output));
        let detail = wrong(&registry, "some");
        assert!(
            detail.starts_with("it did not write ") && detail.contains(" of the 50 values of its buffer"),
            "{detail}"
        );
        assert_eq!(outcome(&registry, "all"), Ok(()));
        assert!(registry.find("sort").unwrap().remarks(&case()).is_empty());
        // Nor does a suite's own judge accept it.
        let registry = Registry::from(positive().output(output).judge(|_, _| Ok(())));
        assert!(wrong(&registry, "some").starts_with("it did not write "));
    }
}

#[test]
fn an_answer_that_equals_a_pattern_is_right() {
    type Answer = fn(usize) -> Vec<u8>;
    for answer in [(|n| vec![0xff; n]) as Answer, |n| vec![0x5a; n], |n| (0..n).map(|x| (x % 256) as u8).collect()] {
        let bytes = suite("sort")
            .axis(Axis::int("n", "numbers", 0, 10_000, 50))
            .input(|case, _| 6 * case.usize("n"))
            .implementation("std", move |n| answer(*n))
            .implementation_into("into", move |n, out| out.copy_from_slice(&answer(*n)))
            .implementation_into("part", move |n, out| out[..200].copy_from_slice(&answer(*n)[..200]))
            .output(|n| vec![0; *n]);
        let registry = Registry::from(bytes);
        assert_eq!(outcome(&registry, "into"), Ok(()));
        assert!(wrong(&registry, "part").contains("did not write 100 of the 300 values"));
    }
}

#[test]
fn a_buffer_that_cannot_be_overwritten_must_change_and_has_a_remark() {
    #[derive(Debug, PartialEq)]
    struct Own(Vec<u32>);
    let suite = |output: fn(&Vec<u32>) -> Vec<u32>| {
        suite("sort")
            .axis(Axis::int("n", "numbers", 0, 10_000, 50))
            .input(|case, rng| (0..case.usize("n")).map(|_| rng.random()).collect::<Vec<u32>>())
            .implementation("std", |numbers| Own(sorted_copy(numbers)))
            .implementation_into("into", |numbers, out| *out = Own(sorted_copy(numbers)))
            .implementation_into("idle", |_, _| ())
            .output(move |numbers| Own(output(numbers)))
    };
    let registry = Registry::from(suite(|numbers| vec![0; numbers.len()]));
    assert_eq!(outcome(&registry, "into"), Ok(()));
    assert!(wrong(&registry, "idle").contains("its buffer is unchanged"));
    let remarks = registry.find("sort").unwrap().remarks(&case());
    assert!(remarks[0].starts_with("Ellwand cannot overwrite the buffer of into, idle (type "), "{remarks:?}");
    assert!(remarks[0].contains("Own) before a run"), "{remarks:?}");
    let registry = Registry::from(suite(|numbers| sorted_copy(numbers)));
    for name in ["into", "idle"] {
        assert!(wrong(&registry, name).contains("let `.output` make contents that no answer has"), "{name}");
    }
}
