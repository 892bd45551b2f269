//! What readers see in plots.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use ellwand_core::record::Record;
use ellwand_report::{Options, Plot, PlotNames, Report, draw, remove_all, write_all};

fn whole() -> Report {
    Report::from_records(&[common::record()], &Options::default()).unwrap()
}

fn drawn(records: &[Record]) -> Vec<Plot> {
    draw(&Report::from_records(records, &Options::default()).unwrap()).unwrap()
}

/// Texts of a picture with their attributes.
fn texts(svg: &str) -> Vec<(&str, &str)> {
    svg.split("<text ").skip(1).filter_map(|rest| rest.split("</text>").next()?.split_once('>')).collect()
}

/// Renames an implementation in a whole record.
fn renamed(mut record: Record, from: &str, to: &str) -> Record {
    for measurement in record.measurements.iter_mut().filter(|measurement| measurement.implementation == from) {
        measurement.implementation = to.into();
    }
    record
}

#[test]
fn every_plot_has_a_name_by_which_it_is_known_again_and_no_other_picture_has() {
    let plots = draw(&whole()).unwrap();
    let names = PlotNames::of(&common::record());
    assert!(plots.len() > 8);
    for plot in &plots {
        for ending in ["png", "svg"] {
            assert!(names.holds(&format!("{}.{ending}", plot.name)), "{}", plot.name);
        }
    }
    for ours in ["lattice-encode-time-2.png", "roofline-one-thread-11.svg", "lattice-encode-rate-distortion.svg"] {
        assert!(names.holds(ours), "{ours}");
    }
    for theirs in [
        "mine.png",
        "gelu-time.png",
        "my-lattice-encode-time.png",
        "lattice-encode-time.jpg",
        "lattice-encode-time-final.png",
        "lattice-encode-time-.png",
        "lattice-encode-time-02.png",
        "overview-time-mine.svg",
        "roofline-cuda-0.svg",
        "lattice-encode-time",
    ] {
        assert!(!names.holds(theirs), "{theirs}");
    }
    let dir = tempfile::tempdir().unwrap();
    let options = Options { plots: true, ..Options::default() };
    write_all(&whole(), dir.path(), &options).unwrap();
    fs::write(dir.path().join("plots/mine.png"), "x").unwrap();
    remove_all(dir.path(), &names).unwrap();
    let left: Vec<_> =
        fs::read_dir(dir.path().join("plots")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine.png"]);
    assert!(!dir.path().join("report.md").exists());
}

#[test]
fn plots_are_whole_pictures_with_their_words() {
    let report = || Report::from_records(&[common::small_record()], &Options::default()).unwrap();
    let plots = draw(&report()).unwrap();
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    for name in ["lattice-encode-time", "lattice-encode-throughput", "lattice-encode-speedup"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert!(!names.contains(&"lattice-encode-rate-distortion"), "one point is no plot");
    for plot in &plots {
        let png = plot.png.as_ref().unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "{}", plot.name);
        let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
        assert_eq!(width, 1800);
        assert!(plot.svg.starts_with("<svg ") && plot.svg.ends_with("</svg>\n"));
        let shapes = plot.svg.lines().map(|line| line.split('>').next().unwrap());
        assert!(shapes.into_iter().all(|shape| !shape.contains("NaN") && !shape.contains("inf")), "{}", plot.name);
    }
    let time = &plots.iter().find(|plot| plot.name == "lattice-encode-time").unwrap().svg;
    for words in [
        "batch (vectors)",
        ">10k<",
        ">10 µs<",
        ">simd<",
        ">parallel<",
        "lattice D4 · q 4",
        "Example Processor 9000",
        "stroke-dasharray",
    ] {
        assert!(time.contains(words), "{words}");
    }
    // The same records draw the same bytes.
    let again = draw(&report()).unwrap();
    assert!(plots.iter().zip(&again).all(|(a, b)| a.svg == b.svg && a.png == b.png));
}

#[test]
fn without_a_numeric_axis_there_are_dots() {
    let mut record = common::record();
    record.measurements.retain(|m| m.case.id.contains("batch=100,"));
    let report = Report::from_records(&[record], &Options::default()).unwrap();
    let plots = draw(&report).unwrap();
    let time = plots.iter().find(|plot| plot.name == "lattice-encode-time").unwrap();
    assert!(time.svg.contains(">746 ns<") && time.svg.contains(">simd<"), "{}", time.svg);
}

#[test]
fn distortion_is_drawn_against_rate_where_the_rate_varies() {
    let mut record = common::small_record();
    let finer: Vec<_> = record
        .measurements
        .iter()
        .cloned()
        .map(|mut m| {
            m.case.id = m.case.id.replace("q=4", "q=8");
            for param in m.case.params.iter_mut().filter(|param| param.axis == "q") {
                param.value = ellwand_core::record::ParamValue::Int(8);
            }
            for reading in &mut m.readings {
                match reading.id.as_str() {
                    "rate" => reading.value = Some(6.0),
                    "mse" => reading.value = reading.value.map(|mse| mse / 16.0),
                    _ => {}
                }
            }
            m
        })
        .collect();
    record.measurements.extend(finer);
    let drawn = |record: &ellwand_core::record::Record| {
        let report = Report::from_records(std::slice::from_ref(record), &Options::default()).unwrap();
        let plots = draw(&report).unwrap();
        plots.into_iter().find(|plot| plot.name == "lattice-encode-rate-distortion").map(|plot| plot.svg)
    };
    let svg = drawn(&record).unwrap();
    for words in ["bits per dimension", "signal-to-noise ratio (dB)", "q 8"] {
        assert!(svg.contains(words), "{words} in {svg}");
    }
    record.run.views.clear();
    assert!(drawn(&record).is_none(), "no view, no plot");
}

#[test]
fn a_device_has_a_roofline_of_its_own_with_its_own_roofs() {
    use ellwand_core::{CeilingKind, Work};
    let case = common::lattice_case("w", 10);
    let work = Work::items("vectors", 10).flops(600.0).bytes(160, 20);
    let mut run = common::run();
    // The device is a hundred times as fast in everything.
    let theirs: Vec<_> = run.environment.ceilings.iter().filter(|c| c.device == "cpu").cloned().collect();
    run.environment.ceilings.extend(theirs.into_iter().map(|mut ceiling| {
        ceiling.device = "cuda:0".into();
        ceiling.value *= 100.0;
        ceiling
    }));
    let peak = run.environment.ceilings.iter().find(|c| c.kind == CeilingKind::Fma && c.device == "cpu").unwrap().value;
    let simd = common::measured(&case, "simd", 2e-6, work.clone());
    let mut cuda = common::measured(&case, "cuda", 1e-6, work);
    cuda.device = "cuda:0".into();
    let report = Report::from_records(&[common::through_text(&run, &[simd, cuda])], &Options::default()).unwrap();
    let plots = draw(&report).unwrap();
    let of = |name: &str| plots.iter().find(|plot| plot.name == name).map(|plot| plot.svg.clone());
    let (cpu, device) = (of("roofline-one-thread").unwrap(), of("roofline-cuda-0").unwrap());
    assert!(cpu.contains("simd") && !cpu.contains("cuda"), "{cpu}");
    assert!(device.contains("cuda") && !device.contains("simd"), "{device}");
    let label = |value: f64| format!("peak, {:.0}", value * 1e-9);
    assert!(cpu.contains(&label(peak)) && !device.contains(&format!("{} GFLOP/s", label(peak))), "{peak}");
    assert!(device.contains("memory, ") && !cpu.contains("memory, "), "{device}");
}

#[test]
fn slopes_of_a_device_reach_the_peak_of_products_in_bf16() {
    use ellwand_core::ceiling::Ceiling;
    use ellwand_core::{CeilingKind, Work};
    let mut run = common::run();
    let known = run.environment.ceilings.clone();
    let of = |kind: CeilingKind| known.iter().find(|ceiling| ceiling.kind == kind).unwrap().clone();
    let theirs = |ceiling: Ceiling, value: f64| Ceiling { device: "cuda:0".into(), value, ..ceiling };
    let products = Ceiling { kind: CeilingKind::ProductsBf16, ..of(CeilingKind::Fma) };
    run.environment.ceilings =
        vec![theirs(of(CeilingKind::Copy), 4e12), theirs(of(CeilingKind::Fma), 5e13), theirs(products, 8e14)];
    let drawn = |bf16: bool| {
        let work = Work::items("positions", 10).flops(1e12).bytes(1 << 30, 1 << 30).bf16(bf16);
        let mut cuda = common::measured(&common::lattice_case("w", 10), "cuda", 1e-2, work);
        cuda.device = "cuda:0".into();
        let report = Report::from_records(&[common::through_text(&run, &[cuda])], &Options::default()).unwrap();
        draw(&report).unwrap().into_iter().find(|plot| plot.name == "roofline-cuda-0").unwrap().svg
    };
    let lines = |svg: &str| -> Vec<Vec<String>> {
        // Roofs are the thick lines; the key has as many.
        let tags = svg.split("<path d=\"M ").skip(1).filter_map(|rest| rest.split("/>").next());
        let thick = tags.filter(|tag| tag.contains("stroke-width=\"2\""));
        let points =
            thick.map(|tag| tag.split('"').next().unwrap().split('L').map(|at| at.trim().to_string()).collect());
        let mut all: Vec<Vec<String>> = points.collect();
        all.truncate(all.len() / 2);
        all
    };
    let svg = drawn(true);
    assert!(svg.contains(">bf16 products, 800 TFLOP/s<"), "{svg}");
    // The peaks in the order in which they are drawn, then the slope of memory.
    let [fma, products, memory] = &lines(&svg)[..] else { panic!("{svg}") };
    assert_eq!(memory.last(), products.first(), "it ends where the highest peak begins");
    assert_ne!(memory.last(), fma.first());
    let svg = drawn(false);
    let [fma, memory] = &lines(&svg)[..] else { panic!("{svg}") };
    assert_eq!(memory.last(), fma.first());
}

#[test]
fn every_series_is_named_and_ticks_have_their_unit() {
    let plots = drawn(&[common::record(), renamed(common::small_record(), "simd", "other")]);
    let svg = |name: &str| &plots.iter().find(|plot| plot.name == name).unwrap().svg;
    let words = |name: &str| texts(svg(name)).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    for name in ["simd (run 1)", "parallel (run 1)", "other (run 2)", "parallel (run 2)"] {
        assert!(words("lattice-encode-time").contains(&name), "{name}");
    }
    for (plot, unit) in
        [("lattice-encode-time", " µs"), ("lattice-encode-throughput", " M"), ("lattice-encode-speedup", "x")]
    {
        let ticks = words(plot)
            .into_iter()
            .filter(|text| text.strip_suffix(unit).is_some_and(|number| number.parse::<f64>().is_ok()));
        assert!(ticks.count() >= 2, "{plot}: {:?}", words(plot));
    }
    assert!(words("roofline-one-thread-1").iter().any(|text| text.ends_with(" GFLOP/s")));
}

#[test]
fn names_of_any_length_stay_inside_the_picture() {
    let mut record = common::record();
    record.run.environment.cpu = "n".repeat(400);
    let mut one_case = renamed(record.clone(), "simd", &"n".repeat(150));
    one_case.measurements.retain(|m| m.case.id.contains("batch=100,"));
    for plot in drawn(&[renamed(record, "simd", &"n".repeat(150))]).iter().chain(&drawn(&[one_case])) {
        let tag = plot.svg.split('>').next().unwrap();
        let of = |tag: &str, name: &str| -> f64 {
            tag.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        let (wide, high) = (of(tag, " width"), of(tag, " height"));
        for (tag, text) in texts(&plot.svg) {
            // An n is 0.63 of the size wide; of other texts only the place is known.
            let wide_n = text.chars().filter(|c| *c == 'n').count() as f64 * 0.63 * of(tag, "font-size");
            let (x, y) = (of(tag, "x"), of(tag, "y"));
            let (left, right) = match of_text(tag) {
                _ if tag.contains("rotate") => (x, x),
                "start" => (x, x + wide_n),
                "end" => (x - wide_n, x),
                _ => (x - wide_n / 2.0, x + wide_n / 2.0),
            };
            assert!(left >= 0.0 && right <= wide && (0.0..=high).contains(&y), "{}: {text}", plot.name);
        }
    }
}

fn of_text(tag: &str) -> &str {
    tag.split("text-anchor=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("")
}

#[test]
fn names_are_text_whatever_they_hold() {
    let name = "<b> & \"x\" 'y' $\\alpha$ \\$5 \u{1b}[1m\u{0}";
    let shown = "&lt;b&gt; &amp; &quot;x&quot; &apos;y&apos; $\\alpha$ \\$5  [1m";
    let mut record = renamed(common::record(), "simd", name);
    for measurement in &mut record.measurements {
        measurement.case.workload = measurement.case.workload.replace("lattice-encode", "a<b>&c");
    }
    let plots = drawn(&[record]);
    for plot in &plots {
        assert!(plot.svg.chars().all(|c| !c.is_control() || c == '\n'), "{}", plot.name);
        for (index, _) in plot.svg.match_indices('<') {
            assert!(plot.svg[index + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!'));
        }
        for (index, _) in plot.svg.match_indices('&') {
            let entity = plot.svg[index + 1..].split(';').next().unwrap();
            assert!(["amp", "lt", "gt", "quot", "apos"].contains(&entity), "{}: &{entity}", plot.name);
        }
    }
    let time = &plots.iter().find(|plot| plot.name == "a-b--c-time").unwrap().svg;
    assert!(texts(time).iter().any(|(_, text)| *text == shown), "{:?}", texts(time));
    assert!(time.contains("<title>a&lt;b&gt;&amp;c: "), "{time}");
}
