//! The directory that a run writes.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use ellwand_report::{Options, Report, draw, existing_files, pictures, write_all};

fn report(options: &Options) -> Report {
    Report::from_records(&[common::record()], options).unwrap()
}

fn everything(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(everything(&path));
        } else {
            names.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    names.sort();
    names
}

#[test]
fn all_files_are_written_and_the_report_links_to_plots_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { plots: true, ..Options::default() };
    let out = dir.path().join("new").join("out");
    let written = write_all(&report(&options), &out, &options).unwrap();
    let mut names: Vec<String> =
        written.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names, everything(&out));
    for name in [
        "run.json",
        "summary.csv",
        "report.md",
        "lattice-encode-time.png",
        "lattice-encode-time.svg",
        "lattice-decode-speedup.svg",
        "overview-throughput-batch.png",
    ] {
        assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
    }
    let markdown = fs::read_to_string(out.join("report.md")).unwrap();
    let links: Vec<&str> =
        markdown.split("](").skip(1).filter_map(|part| part.split_once(')')).map(|(link, _)| link).collect();
    assert!(links.len() >= 10);
    for link in links {
        assert!(out.join(link).is_file(), "{link}");
    }
}

#[test]
fn only_files_of_a_report_are_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { plots: true, ..Options::default() };
    let mut written = write_all(&report(&options), dir.path(), &options).unwrap();
    let theirs = ["mine.png", "gelu-time.png", "lattice-encode-time.jpg", "notes.txt"];
    for name in theirs {
        fs::write(dir.path().join("plots").join(name), "x").unwrap();
    }
    let mut known = existing_files(dir.path());
    assert_eq!(known.last(), Some(&dir.path().join("report.md")), "it names the plots, so it goes last");
    assert_eq!(pictures(dir.path()).count(), known.len() - 3 + 2);
    known.sort();
    written.sort();
    assert_eq!(known, written);
    known.iter().for_each(|ours| fs::remove_file(ours).unwrap());
    let mut left = theirs;
    left.sort_unstable();
    assert_eq!(everything(dir.path()), left);
    assert!(existing_files(dir.path()).is_empty());
}

#[test]
fn without_plots_there_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default();
    write_all(&report(&options), dir.path(), &options).unwrap();
    assert_eq!(everything(dir.path()), ["report.md", "run.json", "summary.csv"]);
    assert!(!fs::read_to_string(dir.path().join("report.md")).unwrap().contains("plots/"));
}

#[test]
fn a_file_in_the_way_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("taken");
    fs::write(&file, "x").unwrap();
    let options = Options::default();
    let error = write_all(&report(&options), &file, &options).unwrap_err().to_string();
    assert!(error.contains("taken") && error.contains("choose a directory"), "{error}");
    // A directory has the file's name: the attempt is cleaned up, and nothing looks complete.
    let out = dir.path().join("out");
    fs::create_dir_all(out.join("run.json").join("x")).unwrap();
    let error = write_all(&report(&options), &out, &options).unwrap_err().to_string();
    assert!(error.contains("run.json"), "{error}");
    assert!(everything(&out).is_empty());
}

#[test]
fn a_full_disk_is_an_error_of_the_writer() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let report = report(&Options::default());
    for format in ellwand_report::FORMATS {
        assert!((format.write)(&report, &mut Full).is_err(), "{}", format.name);
    }
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
    // The same records give the same bytes.
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
    if let Some(dir) = option_env!("ELLWAND_PLOTS") {
        fs::write(Path::new(dir).join("dots.png"), time.png.as_ref().unwrap()).unwrap();
    }
}

#[test]
fn plots_mark_the_times_that_other_programs_lengthened() {
    let drawn = |only: Option<&str>| {
        let mut record = common::small_record();
        record.measurements.retain(|m| m.case.workload != "null" && only.is_none_or(|part| m.case.id.contains(part)));
        let held = record.measurements.iter_mut().find(|m| m.implementation == "scalar").unwrap();
        for sample in &mut held.samples {
            sample.cpu_ns = Some(sample.wall_ns / 2);
            sample.switches = Some(50 + sample.wall_ns / 1_000_000);
        }
        let report = Report::from_records(&[record], &Options::default()).unwrap();
        draw(&report).unwrap()
    };
    // Points over a numeric axis, and rows of dots.
    for (only, at_most, at_least) in [(None, ">≤", ">≥"), (Some("batch=1,"), ">≤75.4 ns<", ">≥")] {
        let plots = drawn(only);
        for (name, sign) in [("time", at_most), ("throughput", at_least), ("speedup", at_least)] {
            let plot = plots.iter().find(|plot| plot.name == format!("lattice-encode-{name}")).unwrap();
            assert_eq!(plot.svg.matches(sign).count(), 1, "{name}: {}", plot.svg);
            // Points of other series are close to the marks of the first plots.
            assert!(only.is_some() || plot.svg.contains(&format!("{sign} scalar<")), "{name}: {}", plot.svg);
            assert!(plot.svg.contains("≤, ≥, ~: bounds"), "{name}: {}", plot.svg);
        }
        let roofline = |threads: &str| plots.iter().find(|plot| plot.name == format!("roofline-{threads}")).unwrap();
        let (one, all) = (roofline("one-thread"), roofline("all-threads"));
        assert_eq!(one.svg.matches(">≥").count(), 1, "{}", one.svg);
        assert!(one.svg.contains("≤, ≥, ~: bounds") && !all.svg.contains('≥'), "{}", all.svg);
    }
}

#[test]
fn axes_of_named_sizes_vary_together_along_x() {
    use ellwand_core::{Case, Work};
    let mut rows = Vec::new();
    for skip in ["on", "off"] {
        // Electrodes are the same at two sizes; their order follows the samples.
        for (samples, electrodes, spikes) in [(100_i64, 4_i64, 40_i64), (1000, 8, 400), (10_000, 8, 900)] {
            let sizes =
                [("samples", samples), ("electrodes", electrodes), ("enc-spikes", spikes), ("dec-spikes", spikes)];
            let mut params = vec![("skip".to_string(), skip.into())];
            params.extend(sizes.map(|(axis, value)| (axis.to_string(), value.into())));
            let work = Work::items("spikes", spikes as u64);
            rows.push(common::measured(&Case::new("predict", params), "simd", 1e-8 * samples as f64, work));
        }
    }
    let report = Report::from_records(&[common::through_text(&common::run(), &rows)], &Options::default()).unwrap();
    let plots = draw(&report).unwrap();
    let time = &plots.iter().find(|plot| plot.name == "predict-time").unwrap();
    assert!(time.title.ends_with("against samples"), "{}", time.title);
    for words in [">skip on<", ">skip off<", ">100<", ">10k<", "with samples: electrodes 4,8"] {
        assert!(time.svg.contains(words), "{words}: {}", time.svg);
    }
    assert_eq!(time.svg.matches("font-weight").count(), 3, "a title and two panels: {}", time.svg);
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
                param.value = ellwand_core::Value::Int(8);
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
    for view in &mut record.run.views {
        if let ellwand_core::View::Curve(curve) = view {
            curve.bound = Some(ellwand_core::view::Slope { title: "no code beats this".into(), slope: 6.02 });
        }
    }
    assert!(drawn(&record).unwrap().contains("no code beats this"));
    record.run.views.clear();
    assert!(drawn(&record).is_none(), "no view, no plot");
}

#[test]
fn a_device_has_a_separate_roofline_with_its_own_roofs() {
    use ellwand_core::{CeilingKind, Work};
    let case = common::lattice_case("w", 10);
    let work = Work::items("vectors", 10).flops(600.0).bytes(160, 20);
    let mut run = common::run();
    // The device is a hundred times as fast in every respect.
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
        // Roofs are the thick lines; the legend has the same number.
        let thick = svg
            .split("<polyline points=\"")
            .skip(1)
            .filter_map(|rest| rest.split("/>").next().filter(|tag| tag.contains("stroke-width=\"2\"")));
        let points = thick.map(|rest| rest.split('"').next().unwrap().split(' ').map(str::to_string).collect());
        let mut all: Vec<Vec<String>> = points.collect();
        all.truncate(all.len() / 2);
        all
    };
    let svg = drawn(true);
    assert!(svg.contains(">bf16 products, 800 TFLOP/s<"), "{svg}");
    // The peaks in drawing order, then the memory slope.
    let [fma, products, memory] = &lines(&svg)[..] else { panic!("{svg}") };
    assert_eq!(memory.last(), products.first(), "it ends where the highest peak begins");
    assert_ne!(memory.last(), fma.first());
    let svg = drawn(false);
    let [fma, memory] = &lines(&svg)[..] else { panic!("{svg}") };
    assert_eq!(memory.last(), fma.first());
}

#[test]
fn an_overview_also_shows_the_workload_that_sweeps_another_axis() {
    use ellwand_core::record::CaseRecord;
    use ellwand_core::{Case, Work};
    let rows = [("fit", "samples"), ("predict", "samples"), ("stream", "electrodes")].map(|(workload, axis)| {
        [100_i64, 1000].map(|value| {
            let case = Case::new(workload, vec![(axis.to_string(), value.into())]);
            let work = Work::items("spikes", 10).flops(1e6).bytes(1000, 1000);
            let mut row = common::measured(&case, "simd", 1e-8 * value as f64, work);
            row.case = CaseRecord::new(&case, |_| axis);
            row
        })
    });
    let mut run = common::run();
    run.environment.cpu =
        "A Processor with a Name that is Almost Too Long for Its Own Good, Twice as Long as Most".into();
    let report = Report::from_records(&[common::through_text(&run, rows.as_flattened())], &Options::default()).unwrap();
    let plots = draw(&report).unwrap();
    let overview = plots.iter().find(|plot| plot.name == "overview-time-samples").unwrap();
    assert!(overview.title.ends_with("against samples (stream: electrodes)"), "{}", overview.title);
    for word in [">fit<", ">predict<", ">stream<", ">samples<", ">electrodes<"] {
        assert!(overview.svg.contains(word), "{word}: {}", overview.svg);
    }
    // A long footer has a second line.
    let roofline = plots.iter().find(|plot| plot.name == "roofline-one-thread").unwrap();
    assert!(roofline.svg.contains("Z</text>") && !roofline.svg.contains('…'), "{}", roofline.svg);
}
