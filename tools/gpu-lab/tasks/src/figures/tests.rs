//! The table from made-up rows: which figures are judged, against which limit, and which stay undecided.

use serde_json::{Value, json};

use super::goals::{attention, itself, lattice, launches, streaming, transfers};
use super::interval::Median;
use super::results::{Results, Row};
use super::{Line, table};

fn row(part: &str, who: &str, what: &str, params: Value, time: f64, bytes: f64, flops: f64) -> Row {
    let time = Median { value: time, low: time * 0.99, high: time * 1.01 };
    let spread = Some([time.low, time.high]);
    let (part, who, what) = (part.into(), who.into(), what.into());
    Row { part, who, what, params, time: Ok(time), wall: None, spread, bytes, flops }
}

fn verdict(lines: &[Line], figure: &str) -> (String, &'static str) {
    let found: Vec<&Line> = lines.iter().filter(|line| line.figure.contains(figure)).collect();
    let [line] = found[..] else { panic!("{figure}: {found:?} of {lines:?}") };
    (line.measured.clone(), line.verdict)
}

#[test]
fn streaming_is_compared_with_the_fastest_copy_and_every_peer() {
    let mut results = Results::default();
    results.rows.push(row("copy", "cuda", "copy", json!({}), 1.0, 4.0e12, 0.0));
    results.rows.push(row("peers", "cupy", "copy", json!({}), 1.0, 4.3e12, 0.0));
    results.rows.push(row("gelu", "cuda", "gelu", json!({}), 1.0, 4.0e12, 0.0));
    results.rows.push(row("gelu", "triton", "gelu", json!({}), 1.2, 4.0e12, 0.0));
    results.rows.push(row("peers", "torch.compile", "gelu", json!({}), 1.5, 4.0e12, 0.0));
    results.rows.push(row("peers", "torch", "gelu", json!({}), 0.5, 4.0e12, 0.0));
    results.ended.insert("swish".into(), "timeout: no time was left".into());
    let lines = streaming(&results);
    assert_eq!(verdict(&lines, "gelu, cuda of"), ("93.0 % (91.2 % to 94.9 %)".into(), "reached"));
    assert_eq!(verdict(&lines, "gelu, triton of").1, "short");
    assert_eq!(verdict(&lines, "fast as torch.compile").1, "reached");
    assert_eq!(verdict(&lines, "fast as torch, ").1, "", "no goal");
    assert_eq!(verdict(&lines, "fast as triton").1, "reached");
    assert_eq!(verdict(&lines, "swish"), ("timeout: no time was left".into(), "open"));
}

#[test]
fn attention_is_compared_with_the_rate_of_products_and_peers_of_its_case() {
    let mut results = Results::default();
    results.rows.push(row("peers", "torch", "matmul-bf16", json!({}), 1.0, 0.0, 800e12));
    for (mask, time) in [("none", 1.0), ("causal", 1.6)] {
        let params = json!({"sequence": 4096, "mask": mask});
        results.rows.push(row("attention-bf16-4096", "cuda-hopper", "attention-core", params, time, 0.0, 640e12));
        let params = json!({"shape": [1, 4096, 2048, 16], "mask": mask});
        results.rows.push(row("peers", "torch sdpa", "attention-core-bf16", params, 1.2, 0.0, 640e12));
    }
    let lines = attention(&results);
    assert_eq!(verdict(&lines, "4096 positions, mask none, cuda-hopper, of the rate").1, "reached");
    assert_eq!(verdict(&lines, "4096 positions, mask causal, cuda-hopper, of the rate").1, "short");
    assert_eq!(verdict(&lines, "mask none, cuda-hopper, as fast as torch sdpa").1, "reached");
    assert_eq!(verdict(&lines, "mask causal, cuda-hopper, as fast as torch sdpa").1, "short");
    assert_eq!(verdict(&lines, "8192 positions").1, "open");
    assert_eq!(verdict(&lines, "products in bf16, in place"), ("not measured".into(), "open"));
    assert_eq!(verdict(&lines, "products in bf16, of large matrices"), ("not measured".into(), "open"));
}

#[test]
fn attention_is_compared_with_the_fastest_large_product_of_any_library() {
    let mut results = Results::default();
    results.rows.push(row("peers", "torch", "matmul-bf16", json!({}), 1.0, 0.0, 700e12));
    results.rows.push(row("products", "cuda-hopper", "products", json!({}), 1.0, 0.0, 1000e12));
    for (who, transposed, flops) in [("cublas", false, 750e12), ("cuda-hopper", true, 800e12), ("cuda", true, 500e12)] {
        let params = json!({"transposed": transposed});
        results.rows.push(row("matmul-bf16", who, "matmul", params, 1.0, 0.0, flops));
    }
    let params = json!({"sequence": 4096, "mask": "none"});
    results.rows.push(row("attention-bf16-4096", "cuda-hopper", "attention-core", params, 1.0, 0.0, 640e12));
    let lines = attention(&results);
    let share = verdict(&lines, "4096 positions, mask none, cuda-hopper, of the rate").0;
    assert!(share.starts_with("80.0 %"), "{share}");
    let message = verdict(&lines, "products in bf16, of large matrices, B transposed, cuda-hopper").0;
    assert!(message.starts_with("800 TFLOP/s"), "{message}");
    assert!(verdict(&lines, "products in bf16, of large matrices, cublas").0.starts_with("750 TFLOP/s"));
    // cuBLAS may have been the fastest.
    results.rows[0] = row("peers", "torch", "matmul-bf16", json!({}), 1.0, 0.0, 1280e12);
    let share = verdict(&attention(&results), "4096 positions, mask none, cuda-hopper, of the rate").0;
    assert!(share.starts_with("50.0 %"), "{share}");
}

#[test]
fn attention_is_compared_with_products_in_place_if_no_peer_multiplied() {
    let mut results = Results::default();
    for (who, flops) in [("cuda", 600e12), ("cuda-hopper", 1000e12)] {
        results.rows.push(row("products", who, "products", json!({}), 1.0, 0.0, flops));
    }
    let params = json!({"sequence": 4096, "mask": "none"});
    results.rows.push(row("attention-bf16-4096", "cuda-hopper", "attention-core", params, 1.0, 0.0, 640e12));
    let lines = attention(&results);
    assert_eq!(
        verdict(&lines, "products in bf16, in place, cuda-hopper").0,
        "1000 TFLOP/s (990 TFLOP/s to 1010 TFLOP/s)"
    );
    assert_eq!(verdict(&lines, "products in bf16, PyTorch").1, "open");
    let (share, reached) = verdict(&lines, "4096 positions, mask none, cuda-hopper, of the rate");
    assert!(share.starts_with("64.0 %") && reached == "short", "{share} {reached}");
    // If both exist, a product that also moves its data is the limit.
    results.rows.push(row("peers", "torch", "matmul-bf16", json!({}), 1.0, 0.0, 800e12));
    let share = verdict(&attention(&results), "4096 positions, mask none, cuda-hopper, of the rate").0;
    assert!(share.starts_with("80.0 %"), "{share}");
}

#[test]
fn the_lattice_is_compared_with_the_threads_at_the_same_case() {
    let mut results = Results::default();
    for (batch, cpu, gpu) in [(1000, 1e-5, 2e-5), (16_000_000, 1e-1, 5e-3)] {
        let params = json!({"batch": batch, "lattice": "D4", "levels": 2, "q": 4});
        results.rows.push(row("lattice-encode", "parallel", "lattice-encode", params.clone(), cpu, 0.0, 0.0));
        results.rows.push(row("lattice-encode", "cuda", "lattice-encode", params, gpu, 0.0, 0.0));
    }
    let lines = lattice(&results);
    assert_eq!(verdict(&lines, "16000000 vectors"), ("20.000 (19.604 to 20.404)".into(), "reached"));
    assert_eq!(verdict(&lines, ", 1000 vectors"), ("0.500 (0.490 to 0.510)".into(), ""));
}

#[test]
fn launches_transfers_and_false_positives_are_reported() {
    let mut results = Results::default();
    results.rows.push(row("launches", "cuda", "null", json!({}), 1.5e-6, 0.0, 0.0));
    results.rows.push(row("kde-fit-launches", "cuda-graph", "kde-fit", json!({}), 4e-6, 0.0, 0.0));
    for (bytes, seconds) in [(65536, 1e-5), (268_435_456, 5e-3)] {
        let params = json!({"bytes": bytes, "direction": "host-to-device", "memory": "pinned"});
        results.rows.push(row("transfer", "cuda", "transfer", params, seconds, 0.0, 0.0));
    }
    for (memory, seconds) in [("pinned", 4.6e-3), ("pageable", 1.0)] {
        let params = json!({"bytes": 268_435_456, "direction": "host-to-device", "memory": memory});
        let mut peer = row("peers", "torch", "transfer", params, seconds, 268_435_456.0, 0.0);
        peer.wall = Some(Median { value: 2.0, low: 2.0, high: 2.0 });
        results.rows.push(peer);
    }
    let lines = [launches(&results), transfers(&results)].concat();
    assert!(verdict(&lines, "empty kernel").0.contains("1.50 us (1.48 us to 1.52 us); a tenth below"));
    assert_eq!(verdict(&lines, "kde-fit, tiny, cuda-graph, device").1, "short");
    // The link's peak is the fastest transfer.
    let (share, reached) = verdict(&lines, "268435456 bytes, pinned, cuda, of the link");
    assert!(share.starts_with("92.0 %") && reached == "reached", "{share} {reached}");
    assert_eq!(verdict(&lines, "268435456 bytes, pinned, cuda, of what torch carries"), (share, reached));
    assert!(!lines.iter().any(|line| line.figure.contains("65536 bytes, pinned, cuda, of what")), "no peer carried it");
    assert!(verdict(&lines, "pageable, torch, on the wall").0.starts_with("0.13 GB/s"));
    assert_eq!(verdict(&lines, "transfer, device-to-host").1, "open");
    assert_eq!(itself(&results)[0].verdict, "open");
    results.verdicts.insert("aa-1".into(), vec!["same".into(); 60]);
    assert_eq!(itself(&results)[0].verdict, "undecided", "too few to say");
    results.verdicts.insert("aa-2".into(), vec!["undecided".into(); 40]);
    assert_eq!(itself(&results)[0].verdict, "reached");
    results.verdicts.insert("aa-3".into(), vec!["slower".into()]);
    assert_eq!(itself(&results)[0].verdict, "short");
}

#[test]
fn an_empty_folder_leaves_every_goal_open() {
    let table = table(&Results::default());
    assert!(table.lines().filter(|line| line.ends_with("| open |")).count() >= 20, "{table}");
    assert!(!table.contains("reached |"), "{table}");
}
