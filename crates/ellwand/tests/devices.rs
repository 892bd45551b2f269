//! What the commands say of devices that are not here. The driver, where there is one, is told to show no GPU.
#![allow(clippy::unwrap_used)]

mod common;

use common::Box;

#[test]
fn list_and_machine_say_why_a_device_is_missing() {
    let here = Box::default();
    let told = here.ok(&["list", "lattice-encode"]);
    let row = told.stdout.lines().find(|line| line.trim_start().starts_with("cuda ")).unwrap();
    assert!(row.contains("unavailable: no cuda device was found here"), "{row}");
    let device = told.stdout.lines().rfind(|line| line.trim_start().starts_with("cuda ")).unwrap();
    assert!(device.contains("unavailable: ") && device.contains("CUDA"), "{device}");
    let json: serde_json::Value = serde_json::from_str(&here.ok(&["list", "--format", "json"]).stdout).unwrap();
    assert_eq!(json["absent"][0]["kind"], "cuda");
    assert!(json["absent"][0]["unavailable"].as_str().unwrap().contains("CUDA"));
}

#[test]
fn a_device_that_is_asked_for_and_missing_is_a_row_with_the_reason() {
    let here = Box::default();
    for device in ["cuda", "cuda:3"] {
        let args = ["run", "copy", "--bytes", "4096", "--no-ceilings", "--effort", "quick", "--device", device];
        let told = here.run(&[&args[..], &["-o", device.split(':').next_back().unwrap()]].concat());
        assert_eq!(told.code, Some(6), "measured nothing: {}\n{}", told.stdout, told.stderr);
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(said.contains("unsupported") && said.contains("none was found here"), "{said}");
    }
    let told = here.run(&["check", "copy", "--device", "cuda", "--bytes", "4096"]);
    assert_eq!(told.code, Some(6), "{}", told.stderr);
    assert!(told.stdout.contains("CUDA"), "{}", told.stdout);
    here.refused(&["run", "copy", "--device", "cdua"], &["--device", "cuda"]);
}

#[test]
fn a_sweep_without_a_choice_leaves_it_out_and_says_so_once() {
    let here = Box::default();
    let told = here.ok(&["run", "null", "--no-ceilings", "--effort", "quick", "-o", "out"]);
    assert!(!told.stdout.contains("cuda"), "{}", told.stdout);
    assert_eq!(told.stderr.matches("left out cuda: ").count(), 1, "{}", told.stderr);
}
