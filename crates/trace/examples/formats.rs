//! CPU time of every writer and of our reader on a million spans (Linux): `cargo run --release -p ellwand-trace
//! --example formats -- [FORMAT]`.
#![allow(clippy::print_stdout, reason = "a program")]

use ellwand_profile::{Kind, NONE, SiteInfo, Span, Trace, TraceLane};

/// Spans of four lanes, three levels deep, 4 µs apart on average.
fn trace(spans: usize) -> Trace {
    let lane = |number: usize| {
        let mut all: Vec<Span> = Vec::with_capacity(spans / 4);
        let mut now = 1_000 + number as u64;
        while all.len() + 4 <= spans / 4 {
            let root = all.len() as u32;
            let one = |site, parent, start, end| Span { start, end, site, parent, corr: 0, ext: 0 };
            all.push(one(1 + root % 3, NONE, now, now + 20_017));
            all.push(one(4, root, now + 113, now + 6_200));
            all.push(one(5 + root % 4, root + 1, now + 230, now + 3_100 + u64::from(root % 91)));
            all.push(one(8, root, now + 7_000, now + 19_000));
            now += 33_335;
        }
        TraceLane { name: format!("worker {number}"), spans: all, ..TraceLane::default() }
    };
    let lanes: Vec<TraceLane> = (0..4).map(lane).collect();
    let site = |number| SiteInfo {
        name: format!("operation {number}"),
        kind: Kind::Cpu,
        file: "src/work.rs".into(),
        line: number,
    };
    let end = lanes.iter().flat_map(|lane| &lane.spans).map(|span| span.end).max().unwrap_or(1);
    Trace { end, sites: (1..9).map(site).collect(), lanes, ..Trace::in_nanoseconds() }
}

/// CPU time of this thread in milliseconds, which other programs on the machine do not lengthen.
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e6
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut trace = trace(1_000_000);
    // Ticks of a time-stamp counter are not whole nanoseconds.
    trace.clock.ns_per_tick = 0.3846;
    let only = std::env::args().nth(1);
    println!("{} spans; processor time, best of 5, into memory", trace.spans());
    let best = |work: &mut dyn FnMut()| {
        let times = (0..5).map(|_| {
            let start = cpu_ms();
            work();
            cpu_ms() - start
        });
        times.fold(f64::INFINITY, f64::min)
    };
    for format in ellwand_trace::FORMATS.iter().filter(|format| only.as_ref().is_none_or(|name| name == format.name)) {
        let mut out = Vec::new();
        let mut result = Ok(());
        let ms = best(&mut || {
            out.clear();
            result = (format.write)(&trace, &mut out);
        });
        result?;
        println!("write {:<11} {ms:8.1} ms {:8.1} B a span", format.name, out.len() as f64 / trace.spans() as f64);
        if matches!(format.name, "json" | "chrome") {
            let ms = best(&mut || drop(ellwand_trace::read_from(&out[..])));
            println!("read  {:<11} {ms:8.1} ms", format.name);
        }
    }
    if only.is_some() {
        return Ok(());
    }
    for (name, work) in [
        ("summary by path", &mut (|| drop(trace.summary())) as &mut dyn FnMut()),
        ("summary by site", &mut || drop(trace.summary_by_site())),
        ("breakdown", &mut || {
            std::hint::black_box(trace.breakdown());
        }),
        ("findings", &mut || drop(ellwand_trace::findings(&trace, None))),
    ] {
        println!("{name:<17} {:8.1} ms", best(work));
    }
    Ok(())
}
