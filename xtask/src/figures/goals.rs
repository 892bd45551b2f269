//! The goals, each with the rows that reach it or miss it.

use super::interval::{Median, Wanted};
use super::results::{Results, Row};
use super::{Line, gigabytes, line, percent, seconds, terabytes, teraflops, times};

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

/// The fastest copy, Ellwand's or a peer's: the bandwidth limit for all streaming operations.
fn best_copy(results: &Results) -> Option<(&Row, Median)> {
    let rate = |row: &'_ Row| row.time.as_ref().ok().map(|time| time.rate(row.bytes));
    let copies = results.of("", "copy").filter(|row| row.part == "copy" || row.part == "peers");
    let copies = copies.filter(|row| row.who != "parallel").filter_map(|row| Some((row, rate(row)?)));
    copies.max_by(|a, b| a.1.value.total_cmp(&b.1.value))
}

/// Bandwidth of every copy.
pub(super) fn copies(results: &Results) -> Vec<Line> {
    let all = results.of("", "copy").filter(|row| row.part == "copy" || row.part == "peers");
    let mut lines: Vec<Line> = all
        .map(|row| {
            let figure = format!("copy, {:.0} MB read and written, {}", row.bytes * 1e-6, row.who);
            line(figure, None, row.time.clone().map(|time| time.rate(row.bytes)), terabytes)
        })
        .collect();
    if lines.is_empty() {
        lines.push(line("copy".into(), None, Err(results.why("copy")), terabytes));
    }
    lines
}

/// Bandwidth of a row as a share of the fastest copy's.
fn share(results: &Results, row: &Row) -> Result<Median, String> {
    let (_, copy) = best_copy(results).ok_or("no copy was measured")?;
    Ok(row.time.clone()?.rate(row.bytes).over(copy))
}

/// Streaming operations relative to the fastest copy and to the peers.
pub(super) fn streaming(results: &Results) -> Vec<Line> {
    let mut lines = Vec::new();
    for what in STREAMING {
        let rows: Vec<&Row> = results.of(what, what).filter(|row| OURS.contains(&row.who.as_str())).collect();
        if rows.is_empty() {
            lines.push(line(
                format!("{what} of the copy"),
                Some(Wanted::AtLeast(0.9)),
                Err(results.why(what)),
                percent,
            ));
        }
        for row in &rows {
            let figure = format!("{what}, {} of the fastest copy", row.who);
            lines.push(line(figure, Some(Wanted::AtLeast(0.9)), share(results, row), percent));
        }
        // Rivals: every peer, and Ellwand's Triton kernel.
        let Some(cuda) = rows.iter().find(|row| row.who == "cuda") else { continue };
        let others = results.of("peers", what).chain(rows.iter().copied().filter(|row| row.who == "triton"));
        lines.extend(others.map(|other| faster(cuda, other)));
    }
    lines
}

/// Speed-up of Ellwand's row over another.
fn faster(ours: &Row, other: &Row) -> Line {
    let ratio = match (&ours.time, &other.time) {
        (Ok(ours), Ok(other)) => Ok(other.over(*ours)),
        (Err(why), _) => Err(why.clone()),
        (_, Err(why)) => Err(format!("{}: {why}", other.who)),
    };
    let figure = format!("{}, {} as fast as {}, times", ours.what, ours.who, other.who);
    // PyTorch without its compiler and JAX are shown, but are not goals.
    let wanted = (other.who != "torch" && other.who != "jax").then_some(Wanted::AtLeast(1.0));
    line(figure, wanted, ratio, times)
}

/// Value of a parameter as text, without quotes.
fn param(row: &Row, name: &str) -> String {
    match &row.params[name] {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn number(row: &Row, name: &str) -> f64 {
    row.params[name].as_f64().unwrap_or(0.0)
}

/// Batch size from which the GPU must beat the CPU tenfold.
const MANY_VECTORS: f64 = 1e6;

/// Lattice quantizer: the GPU relative to all CPU threads, and to the fastest copy.
pub(super) fn lattice(results: &Results) -> Vec<Line> {
    let mut lines = Vec::new();
    for what in ["lattice-encode", "lattice-decode", "lattice-quantize"] {
        let mut rows: Vec<&Row> = results.of(what, what).collect();
        rows.sort_by(|a, b| number(a, "batch").total_cmp(&number(b, "batch")));
        for ours in rows.iter().filter(|row| OURS.contains(&row.who.as_str())) {
            let case = |row: &Row| [param(row, "batch"), param(row, "lattice"), param(row, "levels"), param(row, "q")];
            let cpu = rows.iter().find(|row| row.who == "parallel" && case(row) == case(ours));
            let ratio = match (cpu.map(|row| &row.time), &ours.time) {
                (Some(Ok(cpu)), Ok(time)) => Ok(cpu.over(*time)),
                (_, Err(why)) | (Some(Err(why)), _) => Err(why.clone()),
                (None, _) => Err("nothing on the processor beside it".into()),
            };
            let [batch, lattice, ..] = case(ours);
            let wanted = (ours.who == "cuda" && number(ours, "batch") >= MANY_VECTORS).then_some(Wanted::AtLeast(10.0));
            let figure = format!("{what}, {lattice}, {batch} vectors, {} as fast as all threads, times", ours.who);
            lines.push(line(figure, wanted, ratio, times));
            if ours.who == "cuda" && ours.bytes >= 64e6 {
                let figure = format!("{what}, {lattice}, {batch} vectors, of the fastest copy");
                lines.push(line(figure, Some(Wanted::AtLeast(0.9)), share(results, ours), percent));
            }
        }
        if rows.is_empty() {
            lines.push(line(
                format!("{what} against all threads"),
                Some(Wanted::AtLeast(10.0)),
                Err(results.why(what)),
                times,
            ));
        }
    }
    lines
}

/// Rate of bf16 products of a row.
fn rate(row: &Row) -> Result<Median, String> {
    Ok(row.time.clone()?.rate(row.flops))
}

/// Rates of bf16 products, and the one that limits attention: the fastest product of large matrices, PyTorch's or
/// Ellwand's, or else the best rate of products without data movement.
fn products(results: &Results) -> (Vec<Line>, Result<Median, String>) {
    let peer = results.of("peers", "matmul-bf16").next().ok_or_else(|| results.why("peers")).and_then(rate);
    let mut lines = vec![line("products in bf16, PyTorch".into(), None, peer.clone(), teraflops)];
    let mut rates: [Vec<Median>; 2] = [peer.clone().into_iter().collect(), Vec::new()];
    let ours = [("matmul-bf16", "matmul", "of large matrices"), ("products", "products", "in place")];
    for (rates, (part, what, about)) in rates.iter_mut().zip(ours) {
        let rows: Vec<&Row> = results.of(part, what).collect();
        if rows.is_empty() {
            lines.push(line(format!("products in bf16, {about}"), None, Err(results.why(part)), teraflops));
        }
        for row in rows {
            let layout = match row.params["transposed"].as_bool() {
                Some(true) => ", B transposed",
                _ => "",
            };
            let figure = format!("products in bf16, {about}{layout}, {}", row.who);
            lines.push(line(figure, None, rate(row), teraflops));
            rates.extend(rate(row));
        }
    }
    let best = |rates: &[Median]| rates.iter().copied().max_by(|a, b| a.value.total_cmp(&b.value));
    let [moved, in_place] = rates.each_ref().map(|rates| best(rates));
    let peak = moved.or(in_place).ok_or_else(|| peer.err().unwrap_or_default());
    (lines, peak)
}

/// bf16 attention relative to the rate of products and to the peers.
pub(super) fn attention(results: &Results) -> Vec<Line> {
    let (mut lines, peak) = products(results);
    for positions in [4096_u64, 8192, 16384] {
        let part = format!("attention-bf16-{positions}");
        let mut rows = results.of(&part, "attention-core").peekable();
        if rows.peek().is_none() {
            let figure = format!("attention in bf16, {positions} positions, of the rate of products");
            lines.push(line(figure, Some(Wanted::AtLeast(0.75)), Err(results.why(&part)), percent));
        }
        for row in rows {
            let mask = param(row, "mask");
            let figure = format!("attention in bf16, {positions} positions, mask {mask}, {}", row.who);
            let rate = row.time.clone().map(|time| time.rate(row.flops));
            lines.push(line(figure.clone(), None, rate.clone(), teraflops));
            if row.who != "cuda-hopper" {
                continue;
            }
            let share = rate.and_then(|rate| Ok(rate.over(peak.clone()?)));
            lines.push(line(format!("{figure}, of the rate of products"), Some(Wanted::AtLeast(0.75)), share, percent));
            let same = |peer: &&Row| peer.params["shape"][1].as_u64() == Some(positions) && param(peer, "mask") == mask;
            let triton =
                results.of(&part, "attention-core").filter(|row| row.who == "triton" && param(row, "mask") == mask);
            for other in results.of("peers", "attention-core-bf16").filter(same).chain(triton) {
                let mut against = faster(row, other);
                against.figure = format!("{figure}, as fast as {}, times", other.who);
                lines.push(against);
            }
        }
    }
    lines
}

/// The KDE decoder at a realistic size.
pub(super) fn decoder(results: &Results) -> Vec<Line> {
    let mut lines: Vec<Line> = results
        .of("kde-predict", "kde-predict")
        .map(|row| {
            let wanted = OURS.contains(&row.who.as_str()).then_some(Wanted::AtMost(3e-3));
            let figure = format!("KDE decoder, predict, realistic, skip {}, {}", param(row, "skip"), row.who);
            line(figure, wanted, row.time.clone(), seconds)
        })
        .collect();
    if lines.is_empty() {
        lines.push(line(
            "KDE decoder, predict, realistic".into(),
            Some(Wanted::AtMost(3e-3)),
            Err(results.why("kde-predict")),
            seconds,
        ));
    }
    lines
}

/// An empty kernel, and cases in which launches dominate.
pub(super) fn launches(results: &Results) -> Vec<Line> {
    let mut lines = Vec::new();
    match results.of("launches", "null").find(|row| row.who == "cuda") {
        Some(row) => {
            let mut empty = line("empty kernel, by the device's clock".into(), None, row.time.clone(), seconds);
            if let Some([low, high]) = row.spread {
                empty.measured += &format!("; a tenth below {}, a tenth above {}", seconds(low), seconds(high));
            }
            lines.push(empty);
        }
        None => {
            lines.push(line("empty kernel, by the device's clock".into(), None, Err(results.why("launches")), seconds))
        }
    }
    for what in ["attention", "transformer-layer", "kde-fit"] {
        let part = format!("{what}-launches");
        let mut rows = results.of(&part, what).peekable();
        if rows.peek().is_none() {
            lines.push(line(
                format!("{what}, tiny, replayed"),
                Some(Wanted::AtMost(3e-6)),
                Err(results.why(&part)),
                seconds,
            ));
        }
        for row in rows {
            let wanted = (row.who == "cuda-graph").then_some(Wanted::AtMost(3e-6));
            lines.push(line(format!("{what}, tiny, {}, device", row.who), wanted, row.time.clone(), seconds));
            if let Some(wall) = row.wall {
                lines.push(line(format!("{what}, tiny, {}, on the wall", row.who), None, Ok(wall), seconds));
            }
        }
    }
    lines
}

/// The link between host and device, and peers' transfers with the same kind of memory.
pub(super) fn transfers(results: &Results) -> Vec<Line> {
    let rate = |row: &Row| row.time.clone().map(|time| time.rate(number(row, "bytes")));
    let all: Vec<&Row> = results.of("", "transfer").filter(|row| row.who != "memory").collect();
    let mut lines = Vec::new();
    for direction in ["host-to-device", "device-to-host"] {
        let there: Vec<&&Row> = all.iter().filter(|row| param(row, "direction") == direction).collect();
        let link = there.iter().filter_map(|row| rate(row).ok()).max_by(|a, b| a.value.total_cmp(&b.value));
        let most = there.iter().map(|row| number(row, "bytes")).fold(0.0, f64::max);
        if there.is_empty() {
            lines.push(line(
                format!("transfer, {direction}, of the link's peak"),
                Some(Wanted::AtLeast(0.9)),
                Err(results.why("transfer")),
                percent,
            ));
        }
        for row in there {
            let figure =
                format!("transfer, {direction}, {} bytes, {}, {}", param(row, "bytes"), param(row, "memory"), row.who);
            lines.push(line(figure.clone(), None, rate(row), gigabytes));
            if row.who == "cuda" && param(row, "memory") == "pinned" && number(row, "bytes") >= most {
                let share = rate(row).and_then(|rate| Ok(rate.over(link.ok_or("nothing was carried")?)));
                lines.push(line(format!("{figure}, of the link's peak"), Some(Wanted::AtLeast(0.9)), share, percent));
            }
            if let Some(wall) = row.wall.filter(|_| number(row, "bytes") >= most) {
                let rate = wall.rate(number(row, "bytes"));
                lines.push(line(format!("{figure}, on the wall"), None, Ok(rate), gigabytes));
            }
            let case = |row: &Row| [param(row, "direction"), param(row, "memory"), param(row, "bytes")];
            let peers = results.of("peers", "transfer").filter(|peer| row.who == "cuda" && case(peer) == case(row));
            for peer in peers {
                let share = rate(row).and_then(|ours| Ok(ours.over(rate(peer)?)));
                let figure = format!("{figure}, of what {} carries", peer.who);
                lines.push(line(figure, Some(Wanted::AtLeast(0.9)), share, percent));
            }
        }
    }
    lines
}

/// False positives of a kernel compared with itself.
pub(super) fn itself(results: &Results) -> Vec<Line> {
    let verdicts: Vec<&str> = results
        .verdicts
        .iter()
        .filter(|(part, _)| part.starts_with("aa-"))
        .flat_map(|(_, verdicts)| verdicts.iter().map(String::as_str))
        .collect();
    let red = verdicts.iter().filter(|verdict| !["same", "undecided"].contains(verdict)).count();
    let same = verdicts.iter().filter(|verdict| **verdict == "same").count();
    let (figure, goal) = ("a kernel against itself".to_string(), "0 false alarms in 100".to_string());
    if verdicts.is_empty() {
        return vec![Line { figure, goal, measured: results.why("aa-1"), verdict: "open" }];
    }
    let count = verdicts.len();
    let measured = format!("{red} false alarms in {count}; {same} the same, {} undecided", count - red - same);
    let verdict = match red {
        0 if count >= 100 => "reached",
        0 => "undecided",
        _ => "short",
    };
    vec![Line { figure, goal, measured, verdict }]
}
