//! What the commands say of devices that are not here. The driver, where there is one, shows no GPU.
#![allow(clippy::unwrap_used)]

mod common;

use common::Box;

#[test]
fn list_and_machine_say_why_a_device_is_missing() {
    let here = Box::default();
    let ran = here.ok(&["list", "lattice-encode"]);
    let row = ran.stdout.lines().find(|line| line.trim_start().starts_with("cuda ")).unwrap();
    assert!(row.contains("unavailable: no CUDA device"), "{row}");
    let device = ran.stdout.lines().rfind(|line| line.trim_start().starts_with("cuda ")).unwrap();
    assert!(device.contains("unavailable: ") && device.to_lowercase().rfind("cuda") > Some(4), "{device}");
    let json: serde_json::Value = serde_json::from_str(&here.ok(&["list", "--format", "json"]).stdout).unwrap();
    assert_eq!(json["absent"][0]["kind"], "cuda");
    assert!(json["absent"][0]["unavailable"].as_str().unwrap().to_lowercase().contains("cuda"));
}

#[test]
fn a_requested_device_that_is_missing_gives_a_row_with_the_reason() {
    let here = Box::default();
    for device in ["cuda", "cuda:3"] {
        let args = ["run", "copy", "--bytes", "4096", "--effort", "quick", "--device", device];
        let ran = here.run(&[&args[..], &["-o", device.split(':').next_back().unwrap()]].concat());
        assert_eq!(ran.code, Some(6), "measured nothing: {}\n{}", ran.stdout, ran.stderr);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("unsupported") && said.contains("no CUDA device"), "{said}");
        assert!(!said.contains("measuring the ceilings"), "nothing is measured that needs a bound: {said}");
    }
    let ran = here.run(&["check", "copy", "--device", "cuda", "--bytes", "4096"]);
    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    assert!(ran.stdout.contains("CUDA"), "{}", ran.stdout);
    for wrong in ["cdua", "cuda:first", "cuda:", "cuda:-1"] {
        here.refused(&["run", "copy", "--device", wrong], &["--device", wrong, "such as cuda:0"]);
    }
}

#[test]
fn a_sweep_without_a_choice_skips_a_missing_device_with_one_message() {
    let here = Box::default();
    let ran = here.ok(&["run", "null", "--no-ceilings", "--effort", "quick", "-o", "out"]);
    assert!(!ran.stdout.contains("cuda"), "{}", ran.stdout);
    assert_eq!(ran.stderr.matches("skipped `cuda`: no CUDA device (").count(), 1, "{}", ran.stderr);
}

#[test]
fn vulkan_is_searched_only_on_request() {
    let here = Box::default();
    let ran = here.ok(&["run", "null", "--no-ceilings", "--effort", "quick", "-o", "out"]);
    assert!(!ran.stderr.contains("wgpu"), "nobody asked for it: {}", ran.stderr);
    // No driver, wherever the tests run.
    let mut command = here.command(&["check", "copy", "--device", "wgpu", "--bytes", "4096"]);
    let output = command.env("VK_DRIVER_FILES", "/dev/null").env("VK_ICD_FILENAMES", "/dev/null").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(6), "{said}");
    let why =
        if cfg!(feature = "vulkan") { "no Vulkan adapter was found" } else { "build it with the feature `vulkan`" };
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_software_adapter_is_marked_and_measured_like_any_device() {
    let here = Box::default();
    let list = here.ok(&["list", "copy"]);
    let Some(device) = list.stdout.lines().find(|line| line.trim_start().starts_with("wgpu:0")) else {
        let required = std::env::var("ELLWAND_REQUIRE").is_ok_and(|what| what.contains("vulkan"))
            || std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!(required && cfg!(feature = "vulkan")), "an adapter is required: {}", list.stdout);
        eprintln!("skipped: no Vulkan adapter is here, or the program was built without the feature vulkan");
        return;
    };
    assert!(!device.contains("llvmpipe") || list.stdout.contains("SOFTWARE"), "{}", list.stdout);
    let args = ["run", "copy", "--bytes", "40960", "--no-ceilings", "--no-plot", "--effort", "quick"];
    let ran = here.run(&[&args[..], &["--device", "wgpu:0", "-o", "out"]].concat());
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let record = std::fs::read_to_string(here.path("out/record.jsonl")).unwrap();
    let row = record.lines().find(|line| line.contains("\"measurement\"")).unwrap();
    assert!(row.contains("\"wgpu:0\"") && row.contains("device_ns") && row.contains("compile-time"), "{row}");
    let args = ["run", "copy", "--device", "wgpu:77", "--bytes", "4096", "--no-ceilings"];
    here.refused(&args, &["--device", "wgpu:0"]);
}
