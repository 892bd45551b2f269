//! The workloads: every implementation passes its check, poisoned outputs do not, and arrays are accepted.

use ellwand_core::{Case, DeviceKind, Fit, PrepareError, Registry, Tensor, Tensors, Value};

use super::*;
use ellwand_gpu_lab::testing::{Here, case};

fn registry() -> Registry {
    let mut registry = Registry::new();
    crate::register(&mut registry);
    registry
}

#[test]
fn hard_sets_are_for_every_instruction_set_and_the_code_heeds_it() {
    let registry = registry();
    for name in ["lattice-encode", "lattice-decode", "lattice-quantize"] {
        let workload = registry.find(name).unwrap();
        let usual = case(&registry, name, &[]);
        let sets = workload.hard_sets(&usual, 3).unwrap();
        let different: std::collections::BTreeSet<u64> = sets.iter().map(|set| set.inputs.digest()).collect();
        assert_eq!(different.len(), sets.len(), "{name}");
        for set in sets {
            let named: Vec<&str> = set.also.iter().map(|case| case.text("isa").unwrap()).collect();
            let others: Vec<&str> = Isa::available()[1..].iter().map(|isa| isa.name()).collect();
            assert_eq!(named, others, "{name}: {}", set.name);
        }
        let rows = registry.implementations(name);
        let simd = rows.iter().find(|row| row.name == "simd").unwrap();
        for isa in Isa::available() {
            for (batch, expected) in [(3, isa.name()), (1, "scalar: too few vectors for lanes")] {
                let on = case(&registry, name, &[("isa", isa.name().into()), ("batch", Value::Int(batch))]);
                let inputs = workload.inputs(&on, 3).unwrap();
                let ran = (simd.prepare)(&on, &inputs, &Here).unwrap().what_ran();
                assert!(ran.starts_with(expected), "{ran}");
            }
        }
    }
}

#[test]
fn every_implementation_passes_and_poison_fails() {
    let registry = registry();
    let mut passed = 0;
    for workload in registry.workloads() {
        for (lattice, q) in [("Z2", 3), ("D4", 4), ("E8", 4)] {
            for overload in ["none", "flag", "retry"] {
                for beta in [Value::Float(0.5), "auto".into()] {
                    let set = [
                        ("lattice", lattice.into()),
                        ("q", Value::Int(q)),
                        ("batch", Value::Int(777)),
                        ("overload", overload.into()),
                        ("beta", beta.clone()),
                        ("centred", (q == 4).into()),
                        ("dimension", Value::Int(100)),
                    ];
                    let case = case(&registry, workload.name(), &set);
                    workload.check(&case).unwrap();
                    let inputs = workload.inputs(&case, 5).unwrap();
                    let expected = workload.reference(&case, &inputs).unwrap();
                    let rows = registry.implementations(workload.name());
                    // Absent devices are emulated in separate tests.
                    for row in rows.iter().filter(|row| row.needs == DeviceKind::Cpu) {
                        let mut ready = match (row.prepare)(&case, &inputs, &Here) {
                            Ok(ready) => ready,
                            Err(PrepareError::Unsupported(_)) if row.name == "two-sided" => continue,
                            Err(error) => panic!("{row:?}: {error}"),
                        };
                        ready.poison(ellwand_core::Poison::Ones);
                        // Poisoned codes may not be valid codes; they are rejected too.
                        let spoiled =
                            ready.output().is_ok_and(|got| workload.judge(&case, &inputs, &expected, &got).passed);
                        assert!(!spoiled, "{row:?} passes poisoned");
                        ready.run();
                        let got = ready.output().unwrap();
                        let verdict = workload.judge(&case, &inputs, &expected, &got);
                        assert!(verdict.passed, "{row:?} {case}: {}", verdict.detail);
                        passed += 1;
                    }
                    let readings = workload.readings(&case, &inputs, &expected);
                    assert!(!readings.is_empty(), "{case}");
                    let work = workload.work(&case);
                    assert!(work.items > 0 && work.bytes_total() > 0, "{case}");
                }
            }
        }
    }
    assert!(passed > 250, "{passed} only");
}

#[test]
fn padding_is_no_value_of_the_error_inside_the_codebook() {
    let registry = registry();
    let workload = registry.find("lattice-encode").unwrap();
    let set = [("overload", "flag".into()), ("beta", Value::Float(4.0))];
    let case = case(&registry, "lattice-encode", &set);
    let values: Vec<f32> = (0..350).map(|i| (i as f32 * 0.73).sin()).collect();
    let given = Tensors::new().with("x", Tensor::new(&[50, 7], &values[..]).unwrap());
    let (case, inputs) = workload.adopt(&case, given, Fit::Whole).unwrap();
    let outputs = workload.reference(&case, &inputs).unwrap();
    let readings = workload.readings(&case, &inputs, &outputs);
    let value = |id: &str| readings.iter().find(|r| r.id == id).unwrap().value.unwrap();
    assert_eq!(value("overload-rate"), 0.0);
    assert!((value("mse-inside") / value("mse") - 1.0).abs() < 1e-9, "{} {}", value("mse-inside"), value("mse"));
}

#[test]
fn q_2_without_centred_codes_is_remarked_on_at_any_number_of_levels() {
    let registry = registry();
    let workload = registry.find("lattice-encode").unwrap();
    for (levels, centred, remarked) in [(1, "off", true), (2, "off", true), (1, "on", false)] {
        let set = [("q", Value::Int(2)), ("levels", Value::Int(levels)), ("centred", Value::Flag(centred == "on"))];
        let remarks = workload.remarks(&case(&registry, "lattice-encode", &set));
        assert_eq!(remarks.iter().any(|remark| remark.starts_with("q = 2 ")), remarked, "{levels} {centred}");
    }
}

#[test]
fn matched_data_uses_every_level_and_seed_data_at_beta_1_does_not() {
    let registry = registry();
    let workload = registry.find("lattice-encode").unwrap();
    let one = Value::Float(1.0);
    for (data, beta, used, remarks) in
        [("matched", one.clone(), true, 0), ("seed", one, false, 1), ("seed", "auto".into(), true, 0)]
    {
        let set = [("data", data.into()), ("batch", Value::Int(4000)), ("overload", "flag".into()), ("beta", beta)];
        let case = case(&registry, "lattice-encode", &set);
        let inputs = workload.inputs(&case, 1).unwrap();
        let outputs = workload.reference(&case, &inputs).unwrap();
        let readings = workload.readings(&case, &inputs, &outputs);
        let value = |id: &str| readings.iter().find(|r| r.id == id).unwrap().value.unwrap();
        assert_eq!(value("level-1-used") > 0.5, used, "{data}: {}", value("level-1-used"));
        assert!(value("overload-rate") < 0.05);
        assert_eq!(workload.remarks(&case).len(), remarks, "{:?}", workload.remarks(&case));
    }
}

#[test]
fn overload_is_read_at_the_first_scale_and_marked_after_all_retries() {
    let registry = registry();
    let workload = registry.find("lattice-encode").unwrap();
    let set = |overload: &'static str| {
        [
            ("data", "seed".into()),
            ("batch", Value::Int(500)),
            ("overload", overload.into()),
            ("beta", Value::Float(0.1)),
        ]
    };
    let case_of = |overload| case(&registry, "lattice-encode", &set(overload));
    let retry = case_of("retry");
    let inputs = workload.inputs(&retry, 1).unwrap();
    let outputs = workload.reference(&retry, &inputs).unwrap();
    let share = |name: &str| outputs.u8(name).unwrap().iter().filter(|&&v| v > 0).count() as f64 / 500.0;
    let readings = workload.readings(&retry, &inputs, &outputs);
    let reading = |id: &str| readings.iter().find(|r| r.id == id).unwrap();
    assert!(share("retries") > 0.1 && share("overload") == 0.0, "retries bring every vector in");
    assert_eq!(reading("overload-rate").value, Some(share("retries")));
    assert_eq!(reading("lost-rate").value, Some(share("overload")));
    assert!(reading("overload-rate").about.contains("at the first scale"));
    let about = |case: &Case| workload.ports(case).outputs.iter().find(|p| p.name == "overload").unwrap().about;
    assert_eq!(about(&retry), "1 for vectors that are outside the codebook even after all retries");
    assert_eq!(about(&case_of("flag")), "1 for vectors outside the codebook");
}

#[test]
fn the_axes_of_a_case_are_those_of_its_code() {
    let registry = registry();
    let axes = [
        ("lattice", "E8".into()),
        ("q", Value::Int(3)),
        ("levels", Value::Int(4)),
        ("beta", Value::Float(0.75)),
        ("centred", true.into()),
        ("overload", "retry".into()),
    ];
    let codec = Codec::new(crate::workload::spec(&case(&registry, "lattice-encode", &axes)).unwrap().params).unwrap();
    let overload = Overload::Retry { alpha: 1.0 / 3.0, cap: 16 };
    let params = Params { lattice: Lattice::E8, q: 3, levels: 4, beta: 0.75, centred: true, overload };
    assert_eq!(*codec.params(), params);
    // Three retries double the scale.
    assert_eq!([0, 3, 6].map(|t| codec.scales()[t]), [0.75, 1.5, 3.0]);
    assert_eq!([0, 3, 6].map(|t| codec.inverse_scales()[t]), [0.75, 1.5, 3.0].map(f32::recip));
}

#[test]
fn inputs_are_the_same_for_the_same_seed() {
    let registry = registry();
    for workload in registry.workloads() {
        let case = case(&registry, workload.name(), &[]);
        let digest = |seed| workload.inputs(&case, seed).unwrap().digest();
        assert_eq!(digest(1), digest(1));
        assert_ne!(digest(1), digest(2));
    }
}

#[test]
fn arrays_of_the_user_are_adopted_and_round_trip() {
    let registry = registry();
    let (encoder, decoder) = (registry.find("lattice-encode").unwrap(), registry.find("lattice-decode").unwrap());
    for overload in ["flag", "retry"] {
        let set = [("overload", overload.into()), ("beta", Value::Float(0.3)), ("q", Value::Int(3))];
        // Rows of 10 values are padded to three vectors of four.
        let x = Tensor::new(&[6, 10], &normal(60, 1.5, 9)[..]).unwrap();
        let asked = case(&registry, "lattice-encode", &set);
        let (found, inputs) = encoder.adopt(&asked, Tensors::new().with("x", x.clone()), Fit::Whole).unwrap();
        assert_eq!(found.int("batch"), Some(18));
        let codes = encoder.reference(&found, &inputs).unwrap();
        assert_eq!(codes.get("digits").unwrap().shape(), [18, 2, 4]);
        let asked = case(&registry, "lattice-decode", &set);
        let mut values = Vec::new();
        for name in ["digits", "packed"] {
            let mut given = Tensors::new().with(name, codes.get(name).unwrap().clone());
            if overload == "retry" {
                given.insert("retries", codes.get("retries").unwrap().clone());
            }
            let (found, inputs) = decoder.adopt(&asked, given, Fit::Whole).unwrap();
            assert_eq!(found.int("batch"), Some(18), "{name}");
            values.push(decoder.reference(&found, &inputs).unwrap());
        }
        assert_eq!(values[0].f32("x").unwrap(), values[1].f32("x").unwrap());
        let five = case(&registry, "lattice-decode", &[&set[..], &[("batch", Value::Int(5))]].concat());
        let given = ["digits", "retries"].into_iter().filter_map(|name| Some((name, codes.find(name)?.clone())));
        let given = given.fold(Tensors::new(), |given, (name, tensor)| given.with(name, tensor));
        let (_, few) = decoder.adopt(&five, given, Fit::Case).unwrap();
        assert_eq!(decoder.reference(&five, &few).unwrap().f32("x").unwrap(), &values[0].f32("x").unwrap()[..5 * 4]);
        let (found, inputs) = registry
            .find("lattice-quantize")
            .unwrap()
            .adopt(&case(&registry, "lattice-quantize", &set), Tensors::new().with("x", x), Fit::Whole)
            .unwrap();
        let both = registry.find("lattice-quantize").unwrap().reference(&found, &inputs).unwrap();
        assert_eq!(both.get("x").unwrap().shape(), [6, 10]);
        let file = Tensors::new().with("codes", codes.get("codes").unwrap().clone());
        let (found, inputs) = decoder.adopt(&asked, file, Fit::Whole).unwrap();
        let from_file = decoder.reference(&found, &inputs).unwrap();
        assert_eq!(from_file.f32("x").unwrap(), both.f32("x").unwrap());
        assert!(overload != "retry" || codes.u8("retries").unwrap().iter().any(|t| *t > 0), "a file with retries");
        let decoded = values[0].f32("x").unwrap();
        for (row, trimmed) in both.f32("x").unwrap().chunks(10).enumerate() {
            assert_eq!(trimmed, &decoded[row * 12..][..10]);
        }
    }
}

#[test]
fn bad_arrays_are_named() {
    let registry = registry();
    let refused = |workload: &str, fit, name: &str, tensor: Tensor| {
        let set = [("batch", Value::Int(100)), ("overload", "flag".into()), ("beta", Value::Float(1.0))];
        let case = case(&registry, workload, &set);
        let given = Tensors::new().with(name, tensor);
        registry.find(workload).unwrap().adopt(&case, given, fit).unwrap_err().to_string()
    };
    let floats = |v: &[f32]| Tensor::vector(v);
    assert!(refused("lattice-encode", Fit::Whole, "x", floats(&[1.0, f32::NAN])).contains("value 1 is NaN"));
    assert!(refused("lattice-encode", Fit::Whole, "x", floats(&[f32::INFINITY])).contains("value 0 is inf"));
    assert!(refused("lattice-encode", Fit::Whole, "x", floats(&[])).contains("at least one axis and one value"));
    assert!(refused("lattice-encode", Fit::Whole, "x", Tensor::scalar(1.0)).contains("shape is []"));
    assert!(refused("lattice-encode", Fit::Whole, "x", Tensor::vector(&[1.0f64][..])).contains("it holds float64"));
    assert!(refused("lattice-encode", Fit::Whole, "y", floats(&[1.0])).contains("missing"));
    assert!(
        refused("lattice-encode", Fit::Case, "x", floats(&[1.0; 8]))
            .contains("holds 2 vectors of 4, the case asks for 100")
    );
    let bytes = |v: &[u8]| Tensor::vector(v);
    assert!(
        refused("lattice-decode", Fit::Whole, "packed", bytes(&[1, 2, 3])).contains("not a whole number of vectors")
    );
    assert!(refused("lattice-decode", Fit::Whole, "digits", bytes(&[1; 8])).contains("[N, 2, 4]"));
    let digits = Tensor::new(&[1, 2, 4], &[9u8; 8][..]).unwrap();
    assert!(refused("lattice-decode", Fit::Whole, "digits", digits).contains("not below q = 4"));
    assert!(refused("lattice-decode", Fit::Whole, "x", floats(&[1.0])).contains("neither digits nor packed"));
}

#[test]
fn cases_that_make_no_sense_name_the_flag() {
    let registry = registry();
    let workload = registry.find("lattice-encode").unwrap();
    let refused = |axis: &str, value: Value| {
        workload.check(&case(&registry, "lattice-encode", &[(axis, value)])).unwrap_err().argument
    };
    assert_eq!(refused("q", Value::Int(1)), "q");
    assert_eq!(refused("levels", Value::Int(11)), "levels");
    assert_eq!(refused("beta", Value::Float(1e-45)), "beta");
    assert_eq!(refused("batch", Value::Int(0)), "batch");
    assert_eq!(refused("lattice", "A9".into()), "lattice");
}
