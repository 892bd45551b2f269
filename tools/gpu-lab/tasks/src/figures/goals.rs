//! The goals, each with the rows that reach it or miss it.

use super::interval::{GIGABYTES, Goal, Median, PERCENT, SECONDS, TERABYTES, TERAFLOPS, TIMES};
use super::results::{Results, Row};
use super::{Line, line};

/// Operations limited by memory bandwidth; the script's parts and the peers use the same names.
const STREAMING: [&str; 9] = [
    "layer-norm",
    "gelu",
    "swish",
    "softmax",
    "mse-loss",
    "cross-entropy-loss",
    "residual-layer-norm",
    "swiglu",
    "bias-gelu",
];

/// Ellwand's GPU implementations, which are never a peer's baseline.
const OURS: [&str; 6] = ["cuda", "cuda-graph", "cuda-hopper", "cuda-transfers", "triton", "cublas"];

/// Of the fastest copy, or of the peak of a link.
const OF_PEAK: Goal = PERCENT.at_least(0.9);
/// bf16 attention, of the rate of products.
const OF_PRODUCTS: Goal = PERCENT.at_least(0.75);
/// Compared with all threads of the processor.
const OF_THREADS: Goal = TIMES.at_least(10.0);
/// One call of the clusterless decoder.
const DECODED: Goal = SECONDS.at_most(3e-3);
/// A case in which launches dominate.
const LAUNCHED: Goal = SECONDS.at_most(3e-6);

fn is_ours(row: &&Row) -> bool {
    OURS.contains(&row.who.as_str())
}

fn fastest(rates: impl IntoIterator<Item = Median>) -> Option<Median> {
    rates.into_iter().max_by(|a, b| a.value.total_cmp(&b.value))
}

/// Copies, Ellwand's and the peers'.
fn all_copies(results: &Results) -> impl Iterator<Item = &Row> {
    results.of("", "copy").filter(|row| row.part == "copy" || row.part == "peers")
}

/// Bandwidth of every copy.
pub(super) fn copies(results: &Results) -> Vec<Line> {
    let copy = |row: &Row| {
        line(format!("copy, {:.0} MB read and written, {}", row.bytes * 1e-6, row.who), TERABYTES, row.rate(row.bytes))
    };
    let lines: Vec<Line> = all_copies(results).map(copy).collect();
    if lines.is_empty() { vec![line("copy", TERABYTES, Err(results.why("copy")))] } else { lines }
}

/// Bandwidth of a row as a share of the fastest copy's, which limits all streaming operations.
fn share(results: &Results, row: &Row) -> Result<Median, String> {
    let copies = all_copies(results).filter(|row| row.who != "parallel");
    let copy = fastest(copies.filter_map(|row| row.rate(row.bytes).ok())).ok_or("no copy was measured")?;
    Ok(row.rate(row.bytes)?.over(copy))
}

/// Streaming operations relative to the fastest copy and to the peers.
pub(super) fn streaming(results: &Results) -> Vec<Line> {
    let mut lines = Vec::new();
    for what in STREAMING {
        let rows: Vec<&Row> = results.of(what, what).filter(is_ours).collect();
        if rows.is_empty() {
            lines.push(line(format!("{what} of the copy"), OF_PEAK, Err(results.why(what))));
        }
        for row in &rows {
            lines.push(line(format!("{what}, {} of the fastest copy", row.who), OF_PEAK, share(results, row)));
        }
        // Rivals: every peer, and Ellwand's Triton kernel.
        let Some(cuda) = rows.iter().find(|row| row.who == "cuda") else { continue };
        let others = results.of("peers", what).chain(rows.iter().copied().filter(|row| row.who == "triton"));
        lines.extend(others.map(|other| faster(&format!("{}, {}", cuda.what, cuda.who), cuda, other)));
    }
    lines
}

/// Speed-up of Ellwand's row over another.
fn faster(figure: &str, ours: &Row, other: &Row) -> Line {
    let ratio = || {
        let time = ours.time.clone()?;
        Ok(other.time.clone().map_err(|why| format!("{}: {why}", other.who))?.over(time))
    };
    // PyTorch without its compiler and JAX are shown, but are not goals.
    let goal = TIMES.at_least(1.0).only_if(other.who != "torch" && other.who != "jax");
    line(format!("{figure} as fast as {}, times", other.who), goal, ratio())
}

/// Batch size from which the GPU must beat the CPU tenfold.
const MANY_VECTORS: f64 = 1e6;

/// Lattice quantizer: the GPU relative to all CPU threads, and to the fastest copy.
pub(super) fn lattice(results: &Results) -> Vec<Line> {
    let mut lines = Vec::new();
    for what in ["lattice-encode", "lattice-decode", "lattice-quantize"] {
        let mut rows: Vec<&Row> = results.of(what, what).collect();
        rows.sort_by(|a, b| a.number("batch").total_cmp(&b.number("batch")));
        for ours in rows.iter().copied().filter(is_ours) {
            let case = |row: &Row| ["batch", "lattice", "levels", "q"].map(|name| row.param(name));
            let cpu = rows.iter().find(|row| row.who == "parallel" && case(row) == case(ours));
            let ratio = || {
                let time = ours.time.clone()?;
                Ok(cpu.ok_or("no CPU result to compare with")?.time.clone()?.over(time))
            };
            let [batch, lattice, ..] = case(ours);
            let figure = format!("{what}, {lattice}, {batch} vectors");
            let goal = OF_THREADS.only_if(ours.who == "cuda" && ours.number("batch") >= MANY_VECTORS);
            lines.push(line(format!("{figure}, {} as fast as all threads, times", ours.who), goal, ratio()));
            if ours.who == "cuda" && ours.bytes >= 64e6 {
                lines.push(line(format!("{figure}, of the fastest copy"), OF_PEAK, share(results, ours)));
            }
        }
        if rows.is_empty() {
            lines.push(line(format!("{what} against all threads"), OF_THREADS, Err(results.why(what))));
        }
    }
    lines
}

/// Rates of bf16 products, and the one that limits attention: the fastest product of large matrices, PyTorch's or
/// Ellwand's, or else the best rate of products without data movement.
fn products(results: &Results) -> (Vec<Line>, Result<Median, String>) {
    let peer = results.of("peers", "matmul-bf16").next().ok_or_else(|| results.why("peers"));
    let mut peak = peer.and_then(|row| row.rate(row.flops));
    let mut lines = vec![line("products in bf16, PyTorch", TERAFLOPS, peak.clone())];
    for (part, what, about) in [("matmul-bf16", "matmul", "of large matrices"), ("products", "products", "in place")] {
        let rows: Vec<&Row> = results.of(part, what).collect();
        if rows.is_empty() {
            lines.push(line(format!("products in bf16, {about}"), TERAFLOPS, Err(results.why(part))));
        }
        for row in &rows {
            let layout = if row.params["transposed"].as_bool() == Some(true) { ", B transposed" } else { "" };
            let figure = format!("products in bf16, {about}{layout}, {}", row.who);
            lines.push(line(figure, TERAFLOPS, row.rate(row.flops)));
        }
        if what == "matmul" || peak.is_err() {
            let rates = rows.iter().filter_map(|row| row.rate(row.flops).ok()).chain(peak.clone());
            peak = fastest(rates).map_or(peak, Ok);
        }
    }
    (lines, peak)
}

/// bf16 attention relative to the rate of products and to the peers.
pub(super) fn attention(results: &Results) -> Vec<Line> {
    let (mut lines, peak) = products(results);
    for positions in [4096_u64, 8192, 16384] {
        let part = format!("attention-bf16-{positions}");
        let rows: Vec<&Row> = results.of(&part, "attention-core").collect();
        let figure = format!("attention in bf16, {positions} positions");
        if rows.is_empty() {
            lines.push(line(format!("{figure}, of the rate of products"), OF_PRODUCTS, Err(results.why(&part))));
        }
        for row in &rows {
            let mask = row.param("mask");
            let figure = format!("{figure}, mask {mask}, {}", row.who);
            let rate = row.rate(row.flops);
            lines.push(line(&figure, TERAFLOPS, rate.clone()));
            if row.who != "cuda-hopper" {
                continue;
            }
            let share = rate.and_then(|rate| Ok(rate.over(peak.clone()?)));
            lines.push(line(format!("{figure}, of the rate of products"), OF_PRODUCTS, share));
            let same = |peer: &&Row| peer.params["shape"][1].as_u64() == Some(positions) && peer.param("mask") == mask;
            let triton = rows.iter().copied().filter(|row| row.who == "triton" && row.param("mask") == mask);
            let others = results.of("peers", "attention-core-bf16").filter(same).chain(triton);
            lines.extend(others.map(|other| faster(&format!("{figure},"), row, other)));
        }
    }
    lines
}

/// The KDE decoder at a realistic size.
pub(super) fn decoder(results: &Results) -> Vec<Line> {
    let figure = "KDE decoder, predict, realistic";
    let predict = |row: &Row| {
        let figure = format!("{figure}, skip {}, {}", row.param("skip"), row.who);
        line(figure, DECODED.only_if(is_ours(&row)), row.time.clone())
    };
    let lines: Vec<Line> = results.of("kde-predict", "kde-predict").map(predict).collect();
    if lines.is_empty() { vec![line(figure, DECODED, Err(results.why("kde-predict")))] } else { lines }
}

/// An empty kernel, and cases in which launches dominate.
pub(super) fn launches(results: &Results) -> Vec<Line> {
    let row = results.of("launches", "null").find(|row| row.who == "cuda");
    let time = row.map_or_else(|| Err(results.why("launches")), |row| row.time.clone());
    let mut empty = line("empty kernel, by the device's clock", SECONDS, time);
    if let Some(ends) = row.and_then(|row| row.spread) {
        let [low, high] = ends.map(SECONDS.show);
        empty.measured += &format!("; a tenth below {low}, a tenth above {high}");
    }
    let mut lines = vec![empty];
    for what in ["attention", "transformer-layer", "kde-fit"] {
        let part = format!("{what}-launches");
        let rows: Vec<&Row> = results.of(&part, what).collect();
        if rows.is_empty() {
            lines.push(line(format!("{what}, tiny, replayed"), LAUNCHED, Err(results.why(&part))));
        }
        for row in rows {
            let figure = format!("{what}, tiny, {}", row.who);
            let goal = LAUNCHED.only_if(row.who == "cuda-graph");
            lines.push(line(format!("{figure}, device"), goal, row.time.clone()));
            lines.extend(row.wall.map(|wall| line(format!("{figure}, on the wall"), SECONDS, Ok(wall))));
        }
    }
    lines
}

/// The link between host and device, and peers' transfers with the same kind of memory.
pub(super) fn transfers(results: &Results) -> Vec<Line> {
    let rate = |row: &Row| row.rate(row.number("bytes"));
    let all: Vec<&Row> = results.of("", "transfer").filter(|row| row.who != "memory").collect();
    let mut lines = Vec::new();
    for direction in ["host-to-device", "device-to-host"] {
        let there: Vec<&Row> = all.iter().copied().filter(|row| row.param("direction") == direction).collect();
        let link = fastest(there.iter().filter_map(|row| rate(row).ok()));
        let most = there.iter().map(|row| row.number("bytes")).fold(0.0, f64::max);
        let figure = format!("transfer, {direction}");
        if there.is_empty() {
            lines.push(line(format!("{figure}, of the link's peak"), OF_PEAK, Err(results.why("transfer"))));
        }
        for row in there {
            let case = |row: &Row| ["direction", "bytes", "memory"].map(|name| row.param(name));
            let [_, bytes, memory] = case(row);
            let figure = format!("{figure}, {bytes} bytes, {memory}, {}", row.who);
            lines.push(line(&figure, GIGABYTES, rate(row)));
            let largest = row.number("bytes") >= most;
            if row.who == "cuda" && memory == "pinned" && largest {
                let share = rate(row).and_then(|rate| Ok(rate.over(link.ok_or("nothing was carried")?)));
                lines.push(line(format!("{figure}, of the link's peak"), OF_PEAK, share));
            }
            if let Some(wall) = row.wall.filter(|_| largest) {
                lines.push(line(format!("{figure}, on the wall"), GIGABYTES, Ok(wall.rate(row.number("bytes")))));
            }
            let peers = results.of("peers", "transfer").filter(|peer| row.who == "cuda" && case(peer) == case(row));
            for peer in peers {
                let share = rate(row).and_then(|ours| Ok(ours.over(rate(peer)?)));
                lines.push(line(format!("{figure}, of what {} carries", peer.who), OF_PEAK, share));
            }
        }
    }
    lines
}

/// False positives of a kernel compared with itself.
pub(super) fn itself(results: &Results) -> Vec<Line> {
    let parts = results.verdicts.iter().filter(|(part, _)| part.starts_with("aa-"));
    let verdicts: Vec<&str> = parts.flat_map(|(_, verdicts)| verdicts.iter().map(String::as_str)).collect();
    let count = verdicts.len();
    let [same, undecided] =
        ["same", "undecided"].map(|word| verdicts.iter().filter(|verdict| **verdict == word).count());
    let red = count - same - undecided;
    let (measured, verdict) = match count {
        0 => (results.why("aa-1"), "open"),
        _ => (
            format!("{red} false alarms in {count}; {same} the same, {undecided} undecided"),
            match red {
                0 if count >= 100 => "reached",
                0 => "undecided",
                _ => "short",
            },
        ),
    };
    vec![Line { figure: "a kernel against itself".into(), goal: "0 false alarms in 100".into(), measured, verdict }]
}
