//! `profile`: shows profiles of programs as tables, compares them, and converts them to other formats.

use std::io::{Read, Write};
use std::path::Path;

use ellwand_core::record::Environment;
use ellwand_core::{Ceiling, CeilingKind, InputError, Parallelism};
use ellwand_profile::{Trace, Value as Fact, table, write_file};
use ellwand_trace::{
    Ceilings, DiffOptions, EXPECTED, Gaps, Imported, Limits, Problem, ProfileFinding, Reached, ReadError,
};
use serde_json::{Value, json};

use super::args::{DiffArgs, ExportArgs, FailOn, Form, ProfileCommand, ShowArgs};
use super::exit::{Exit, Failure, Outcome};
use super::output;

pub(super) fn profile(command: &ProfileCommand) -> Outcome {
    match command {
        ProfileCommand::Show(args) => show(args),
        ProfileCommand::Diff(args) => diff(args),
        ProfileCommand::Export(args) => export(args),
    }
}

/// Reads a profile from a file, or from `stdin` if the file is `-`.
fn imported(path: &Path, stdin: impl Read) -> Result<Imported, ReadError> {
    if path == Path::new("-") { ellwand_trace::read_from(stdin) } else { ellwand_trace::read(path) }
}

/// Reads a profile of any known format, and notes what was skipped. Errors name what is `expected`.
pub(super) fn read(argument: &str, path: &Path, expected: &str) -> Result<Trace, Failure> {
    let Imported { mut trace, notes } = imported(path, std::io::stdin()).map_err(|error| {
        let missing = matches!(&error.problem, Problem::Io(io) if io.kind() == std::io::ErrorKind::NotFound);
        InputError::new(argument, error.to_string(), if missing { "the name of an existing file" } else { expected })
    })?;
    for note in notes {
        output::note(&format!("note: {}: {note}", path.display()));
    }
    if trace.name.is_empty() {
        trace.name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    Ok(trace)
}

/// Findings of a profile, including those about the limits of this machine if they are known.
pub(super) fn findings(trace: &Trace) -> Vec<ProfileFinding> {
    ellwand_trace::findings(trace, known_limits(trace))
}

/// The limits of this machine, if the profile was recorded here and `machine` measured them.
fn known_limits(trace: &Trace) -> Option<Ceilings> {
    let here = ellwand_bench::environment::facts();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let kept = if is_of(trace, &here, host.trim()) { super::ceilings::stored(&here) } else { None };
    kept.map(|kept| limits(&kept))
}

/// True if the profile was recorded on this machine: host, CPU model and number of CPUs are equal.
fn is_of(trace: &Trace, here: &Environment, host: &str) -> bool {
    let fact = |name: &str| trace.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let is = |name: &str, expected: &str| matches!(fact(name), Some(Fact::Text(text)) if text == expected);
    // The environment of a record adds the model in parentheses.
    let cpu = here.cpu.split_once(" (family").map_or(here.cpu.as_str(), |(cpu, _)| cpu);
    is("hostname", host) && is("cpu", cpu) && fact("cores") == Some(&Fact::from(u64::from(here.cores)))
}

/// The limits of the processors, of one thread and of all.
fn limits(kept: &[Ceiling]) -> Ceilings {
    let of = |parallelism| limits_of(kept.iter().filter(|kept| kept.parallelism == parallelism));
    Ceilings { one_thread: of(Parallelism::Single), all_threads: of(Parallelism::Many) }
}

/// The highest bandwidth of processors at each footprint, and single-precision arithmetic.
fn limits_of<'a>(kept: impl Iterator<Item = &'a Ceiling>) -> Limits {
    let mut limits = Limits::default();
    for ceiling in kept.filter(|ceiling| ceiling.device == "cpu") {
        match (ceiling.kind.unit(), limits.bandwidths.iter_mut().find(|(known, _)| *known == ceiling.footprint_bytes)) {
            ("B/s", Some((_, rate))) => *rate = rate.max(ceiling.value),
            ("B/s", None) => limits.bandwidths.push((ceiling.footprint_bytes, ceiling.value)),
            _ if ceiling.kind == CeilingKind::Fma => {
                limits.flops_per_s = Some(limits.flops_per_s.unwrap_or(0.0).max(ceiling.value));
            }
            _ => {}
        }
    }
    limits
}

fn show(args: &ShowArgs) -> Outcome {
    let trace = read("FILE", &args.file, EXPECTED)?;
    let limits = known_limits(&trace);
    let findings = ellwand_trace::findings(&trace, limits.clone());
    let reached = limits.map(|limits| ellwand_trace::reached_limits(&trace, limits)).unwrap_or_default();
    match args.format {
        Form::Json => output::result(|out| -> Result<(), Failure> {
            serde_json::to_writer_pretty(&mut *out, &model(&trace, &findings, &reached)?)
                .map_err(anyhow::Error::from)?;
            Ok(writeln!(out)?)
        })?,
        _ => output::result(|out| output::prose(out, |out| text(&trace, &findings, &reached, args, out)))?,
    }
    let empty = trace.lanes.iter().all(|lane| lane.spans.is_empty() && lane.totals.is_empty());
    Ok(if empty { Exit::Nothing } else { Exit::Ok })
}

/// Operations with their shares of the limits of this machine: bandwidth and arithmetic.
type Shares = [(String, [Option<Reached>; 2])];

fn text(
    trace: &Trace,
    findings: &[ProfileFinding],
    reached: &Shares,
    args: &ShowArgs,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let threads = trace.lanes.len() as u64;
    writeln!(
        out,
        "{} · {} · {} on {}",
        table::printable(&trace.name),
        table::time(trace.wall_ns()),
        ellwand_trace::calls(trace),
        output::counted(threads, "lane")
    )?;
    let gaps = Gaps::of(trace);
    let word = if gaps.are_real() { "warning" } else { "note" };
    for gap in gaps.sentences() {
        writeln!(out, "{word}: {gap}")?;
    }
    let summary = if args.tree { trace.summary() } else { trace.summary_by_site() };
    let width = output::width().unwrap_or(0);
    let mut breakdown = format!("{:width$}", trace.breakdown());
    if gaps.sampled_out > 0 || gaps.last > 0 || gaps.lost > 0 {
        // What the recording lacks happened in that time. Texts of equal length keep the columns aligned.
        breakdown = breakdown.replacen("no span covers the time", "in no span, or left out", 1);
    }
    let table = if args.full { format!("{summary:#width$}") } else { format!("{summary:width$}") };
    writeln!(out, "\n{table}\n\n{breakdown}")?;
    let bottlenecks = trace.bottlenecks(args.top);
    if !bottlenecks.is_empty() {
        writeln!(out, "\nbottlenecks")?;
        let width = width.saturating_sub(2);
        bottlenecks.iter().try_for_each(|bottleneck| writeln!(out, "  {bottleneck:width$}"))?;
    }
    let reached = &reached[..reached.len().min(args.top)];
    if !reached.is_empty() {
        writeln!(out, "\nshare of the measured limits of this machine")?;
    }
    for (name, shares) in reached {
        let named = ["bandwidth", "arithmetic"].into_iter().zip(shares);
        let text = named.filter_map(|(what, reached)| {
            let reached = (*reached)?;
            Some(format!("{:.1} % of the {what} of {}", reached.share * 100.0, reached.threads()))
        });
        writeln!(out, "  {}: {}", table::named(name, 40), text.collect::<Vec<_>>().join(", "))?;
    }
    if !findings.is_empty() {
        writeln!(out, "\nfindings")?;
        findings.iter().try_for_each(|finding| writeln!(out, "- {finding}"))?;
    }
    Ok(())
}

/// The parts of a profile's file that describe it as a whole, with findings.
fn model(trace: &Trace, findings: &[ProfileFinding], reached: &Shares) -> Result<Value, Failure> {
    let mut bytes = Vec::new();
    trace.write_json(&mut bytes)?;
    let mut document: Value = serde_json::from_slice(&bytes).map_err(anyhow::Error::from)?;
    let kept = ["name", "started_unix_ns", "wall_ns", "environment", "cost", "losses", "summary", "bottlenecks"];
    let kept = kept.into_iter().chain(["breakdown", "memory"]);
    let mut model: serde_json::Map<String, Value> =
        kept.filter_map(|key| Some((key.to_string(), document.get_mut(key)?.take()))).collect();
    model.insert("findings".into(), json!(findings));
    let reached = reached.iter().map(|(name, [bandwidth, arithmetic])| {
        let [(bandwidth, bandwidth_of), (arithmetic, arithmetic_of)] =
            [bandwidth, arithmetic].map(|one| (one.map(|one| one.share), one.map(Reached::threads)));
        json!({"operation": name, "share_of_bandwidth": bandwidth, "bandwidth_of": bandwidth_of,
               "share_of_arithmetic": arithmetic, "arithmetic_of": arithmetic_of})
    });
    model.insert("limits".into(), reached.collect());
    Ok(Value::Object(model))
}

fn diff(args: &DiffArgs) -> Outcome {
    let stdin = Path::new("-");
    if args.baseline == stdin && args.candidate == stdin {
        let problem = "stdin has only one profile";
        return Err(InputError::new("CANDIDATE", problem, "a file if BASELINE is -").into());
    }
    let (baseline, candidate) =
        (read("BASELINE", &args.baseline, EXPECTED)?, read("CANDIDATE", &args.candidate, EXPECTED)?);
    let options = DiffOptions { root: args.root.clone(), rope: args.rope, ..DiffOptions::default() };
    let diff = ellwand_trace::diff(&baseline, &candidate, &options)
        .map_err(|error| InputError::new("--root", error.to_string(), "a span of both profiles"))?;
    output::result(|out| -> Result<(), Failure> {
        match args.format {
            Form::Json => writeln!(out, "{}", diff.to_json())?,
            _ => output::prose(out, |out| writeln!(out, "{diff:0$}", output::width().unwrap_or(0)))?,
        }
        Ok(())
    })?;
    Ok(match (diff.verdict.word(), args.fail_on) {
        ("slower", FailOn::Slower | FailOn::Undecided) => Exit::Regression,
        ("undecided", FailOn::Undecided) => Exit::Undecided,
        _ => Exit::Ok,
    })
}

fn export(args: &ExportArgs) -> Outcome {
    let trace = read("FILE", &args.file, EXPECTED)?;
    if let Some(error) = holds_nothing(&trace, args) {
        return Err(error.into());
    }
    match &args.output {
        Some(path) => {
            output::new_file(path, &[&args.file], args.overwrite)?;
            write_file(path, |out| (args.format.write)(&trace, out))?;
        }
        None => output::result(|out| (args.format.write)(&trace, out))?,
    }
    if let Some(note) = args.format.left_out(&trace) {
        output::note(&format!("note: {}: {note}", args.file.display()));
    }
    Ok(Exit::Ok)
}

/// Why the file would be empty, if so: the format has no totals, and the profile has nothing else.
fn holds_nothing(trace: &Trace, args: &ExportArgs) -> Option<InputError> {
    let only_totals = trace.spans() == 0 && trace.lanes.iter().any(|lane| lane.held() > 0);
    if args.format.aggregated || !only_totals {
        return None;
    }
    let others = ellwand_trace::FORMATS.iter().filter(|format| format.aggregated).map(|format| format.name);
    let problem =
        format!("{} has single spans, and all spans of {} are aggregated", args.format.name, args.file.display());
    Some(InputError::new("--format", problem, format!("one of {}", others.collect::<Vec<_>>().join(", "))))
}

#[cfg(test)]
mod tests {
    use ellwand_core::Provenance;

    use super::*;

    #[test]
    fn a_profile_is_read_from_a_file_or_from_stdin() {
        let mut bytes = Vec::new();
        Trace { name: "piped".into(), ..Trace::in_nanoseconds() }.write_json(&mut bytes).unwrap();
        assert_eq!(imported(Path::new("-"), &bytes[..]).unwrap().trace.name, "piped");
        assert!(imported(Path::new("./-"), &bytes[..]).is_err(), "a file of that name");
        let args = DiffArgs {
            baseline: "-".into(),
            candidate: "-".into(),
            root: None,
            rope: 0.01,
            fail_on: FailOn::Slower,
            format: Form::Table,
        };
        assert!(diff(&args).is_err(), "stdin can be read once");
    }

    #[test]
    fn shares_of_limits_are_printed_with_their_operations() {
        let args = ShowArgs { file: "a.json".into(), tree: false, top: 5, full: false, format: Form::Table };
        let one = |share, of_all_threads| Some(Reached { share, of_all_threads });
        let reached = [
            ("encode".to_string(), [one(0.5, true), None]),
            ("sum".to_string(), [one(0.25, false), one(0.0123, false)]),
        ];
        let mut out = Vec::new();
        text(&Trace::in_nanoseconds(), &[], &reached, &args, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let wanted = "  encode: 50.0 % of the bandwidth of all threads\n  \
                      sum: 25.0 % of the bandwidth of one thread, 1.2 % of the arithmetic of one thread\n";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn formats_of_single_spans_refuse_a_profile_of_aggregated_ones() {
        let total = ellwand_profile::Total { count: 3, site: 1, ..ellwand_profile::Total::default() };
        let lane = ellwand_profile::TraceLane { totals: vec![total], ..ellwand_profile::TraceLane::default() };
        let trace = Trace { lanes: vec![lane], ..Trace::in_nanoseconds() };
        for format in ellwand_trace::FORMATS {
            let args = ExportArgs { file: "a.json".into(), format, output: None, overwrite: false };
            let error = holds_nothing(&trace, &args);
            assert_eq!(error.is_none(), format.aggregated, "{}", format.name);
            assert!(error.is_none_or(|error| error.to_string().contains("folded, pprof")));
        }
    }

    #[test]
    fn time_without_spans_may_be_that_of_spans_that_are_missing() {
        let args = ShowArgs { file: "a.json".into(), tree: false, top: 5, full: false, format: Form::Table };
        let said = |lost| {
            let mut out = Vec::new();
            text(&Trace { end: 100, lost, ..Trace::in_nanoseconds() }, &[], &[], &args, &mut out).unwrap();
            String::from_utf8(out).unwrap().contains("in no span, or left out")
        };
        assert_eq!((said(0), said(1)), (false, true));
    }

    #[test]
    fn limits_are_those_of_the_machine_that_recorded() {
        let here = Environment { cpu: "Fast 9 (family 25 model 1)".into(), cores: 4, ..Environment::default() };
        let recorded = |host: &str, cpu: &str, cores: u64| Trace {
            environment: vec![
                ("hostname".into(), host.into()),
                ("cpu".into(), cpu.into()),
                ("cores".into(), Fact::from(cores)),
            ],
            ..Trace::in_nanoseconds()
        };
        assert!(is_of(&recorded("box", "Fast 9", 4), &here, "box"));
        for other in [recorded("cloud", "Fast 9", 4), recorded("box", "Fast 8", 4), recorded("box", "Fast 9", 2)] {
            assert!(!is_of(&other, &here, "box"));
        }
        assert!(!is_of(&Trace::in_nanoseconds(), &Environment::default(), ""), "a profile without facts is of nowhere");
    }

    #[test]
    fn limits_are_the_fastest_of_the_processor() {
        let of = |parallelism, kind, device: &str, footprint_bytes, value| Ceiling {
            kind,
            implementation: "simd".into(),
            device: device.into(),
            parallelism,
            footprint_bytes,
            level: String::new(),
            value,
            low: value,
            high: value,
            provenance: Provenance::Measured,
        };
        let ceiling = |kind, device, footprint, value| of(Parallelism::Many, kind, device, footprint, value);
        let kept = [
            ceiling(CeilingKind::Copy, "cpu", 1 << 27, 2e10),
            ceiling(CeilingKind::Read, "cpu", 1 << 27, 3e10),
            ceiling(CeilingKind::Read, "cpu", 1 << 14, 2e11),
            ceiling(CeilingKind::Copy, "cuda:0", 1 << 27, 2e12),
            ceiling(CeilingKind::Fma, "cpu", 0, 1e11),
            ceiling(CeilingKind::FmaF64, "cpu", 0, 5e10),
            ceiling(CeilingKind::Latency, "cpu", 1 << 14, 1e-9),
            of(Parallelism::Single, CeilingKind::Read, "cpu", 1 << 14, 1e11),
            of(Parallelism::Single, CeilingKind::Fma, "cpu", 0, 5e10),
        ];
        let bandwidths = vec![(1 << 27, 3e10), (1 << 14, 2e11)];
        let one_thread = Limits { bandwidths: vec![(1 << 14, 1e11)], flops_per_s: Some(5e10) };
        let all_threads = Limits { bandwidths, flops_per_s: Some(1e11) };
        assert_eq!(limits(&kept), Ceilings { one_thread, all_threads });
    }
}
