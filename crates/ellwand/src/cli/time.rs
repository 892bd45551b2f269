//! The time of a comparison: the limit of each case, what an undecided result still excludes, and what would decide it.

use std::time::Instant;

use ellwand_bench::compare::{Call, Decision, End};
use ellwand_core::stats::{Change, Difference};
use ellwand_report::units;

use super::args::CompareArgs;
use super::rows::{Row, Said};
use super::verdict::{digits as ratio_digits, side_change};

/// The usual time limits of a case and of all cases, in seconds.
const CASE_S: f64 = 20.0;
const TOTAL_S: f64 = 300.0;

/// The time limit of all cases.
pub(super) struct Clock {
    begin: Instant,
    case_s: f64,
    total_s: f64,
    /// True if the limit of all cases can leave a case less than its own. That of a single case grows with --time.
    binds: bool,
    cases: usize,
}

impl Clock {
    /// Starts the clock for `cases` cases.
    pub(super) fn start(args: &CompareArgs, cases: usize) -> Self {
        let case_s = args.time.unwrap_or(CASE_S);
        let total_s = args.total_time.unwrap_or(TOTAL_S.max(case_s));
        let binds = args.total_time.is_some() || cases > 1;
        Self { begin: Instant::now(), case_s, total_s, binds, cases }
    }

    /// A sentence on both limits, printed before the first case.
    pub(super) fn sentence(&self) -> String {
        let (case, all) = (limit(self.case_s), limit(self.total_s));
        let (plural, each) = if self.cases == 1 { ("", "") } else { ("s", " each") };
        format!("{} case{plural}, at most {case}{each} (--time) and {all} in all (--total-time)", self.cases)
    }

    /// The time of case `index`: its own, or its share of the remaining time.
    pub(super) fn of_case(&self, index: usize) -> Given {
        let left_s = self.total_s - self.begin.elapsed().as_secs_f64();
        let seconds = share(self.case_s, left_s, self.cases - index);
        Given { case_s: self.case_s, seconds, is_share: self.binds && seconds < self.case_s }
    }

    /// Why a larger --time alone gives no case more time, if so.
    pub(super) fn all_bound(&self) -> Option<String> {
        let case_s = self.total_s / self.cases.max(1) as f64;
        let cases = if self.cases == 1 { "the case".into() } else { format!("each of {} cases", self.cases) };
        let why =
            || format!("note: --total-time {} leaves {cases} {}", limit(self.total_s).replace(' ', ""), limit(case_s));
        (case_s < self.case_s).then(|| format!("{}; raise it together with --time", why()))
    }

    /// Seconds for the cases after `index`, if each takes as long as this one.
    pub(super) fn after(&self, index: usize, case_s: f64) -> f64 {
        let later = (self.cases - index - 1) as f64 * case_s;
        later.min((self.total_s - self.begin.elapsed().as_secs_f64()).max(0.0))
    }
}

/// The time that a case was given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Given {
    /// The limit of each case (--time), in seconds.
    pub(super) case_s: f64,
    /// Seconds of this case.
    pub(super) seconds: f64,
    /// True if that is a share of the limit of all cases (--total-time).
    pub(super) is_share: bool,
}

impl Given {
    /// The options that give this case more time: `seconds`.
    fn raised_to(self, seconds: f64) -> String {
        let time = format!("--time {}", dense(seconds));
        match (self.is_share, seconds > self.case_s) {
            (false, _) => time,
            (true, true) => format!("{time} and a larger --total-time"),
            (true, false) => "a larger --total-time".into(),
        }
    }
}

/// The time of a case when `cases` cases are left: its own, or an equal share of the remaining time.
fn share(case_s: f64, left_s: f64, cases: usize) -> f64 {
    case_s.min(left_s / cases.max(1) as f64).max(0.0)
}

/// What a result excludes although it is undecided.
pub(super) fn excluded(change: &Change) -> String {
    match excluded_above(change) {
        Some(above) if above < 1.0 => format!("no difference above {}, at 99 %", units::share(above)),
        Some(above) if above < 9.0 && change.high >= 1.0 => format!("no difference above {:.1}x, at 99 %", 1.0 + above),
        // One end is far from 1.
        _ if change.high < 10.0 => format!("no ratio above {}, at 99 %", ratio_digits(change.high)),
        _ if change.low > 0.1 => format!("no ratio below {}, at 99 %", ratio_digits(change.low)),
        _ => "nothing is excluded yet".into(),
    }
}

/// What an undecided row excludes, in its typical or slow slots if these are open.
pub(super) fn excluded_by(row: &Row, decision: &Decision) -> Option<String> {
    match row.said {
        Said::Call(Call::Unsettled(name)) => Some(excluded(&side_change(decision, name))),
        Said::Call(Call::As(Difference::Undecided { .. })) | Said::OneOfMany => Some(excluded(&decision.change)),
        _ => None,
    }
}

/// The largest difference in either direction that the interval allows, as a share; `None` if it is unbounded.
pub(super) fn excluded_above(change: &Change) -> Option<f64> {
    let above = change.high.max(1.0 / change.low) - 1.0;
    // Rounded up to two digits.
    let unit = 10.0_f64.powf(above.log10().floor() - 1.0);
    let above = (above / unit).ceil() * unit;
    above.is_finite().then_some(above)
}

/// Why a comparison ended.
pub(super) fn ended(end: End) -> &'static str {
    match end {
        End::Hopeless => "it ended early, because the rest of its time could not decide it",
        End::Budget => "its time was up",
        End::Decided => "it was decided",
        End::Planned => "all planned blocks were taken",
        End::Interrupted => "it was interrupted",
    }
}

/// How much of the time was spent on slots, if that was less than half of it.
pub(super) fn in_slots(decision: &Decision) -> String {
    let share = decision.slot_share().filter(|share| *share < 0.5);
    share.map_or_else(String::new, |share| format!(", {:.0} % of the time inside slots", 100.0 * share))
}

/// If the user interrupted before this many blocks, they do not show how many more are needed.
const SOON: usize = 6;

/// Why an undecided comparison ended, and what would decide it.
pub(super) fn needed(decision: &Decision, rope: f64, given: Given) -> String {
    let ended = ended(decision.end);
    if decision.end == End::Interrupted && decision.blocks.len() < SOON {
        return ended.into();
    }
    let coarser = excluded_above(&decision.change).filter(|above| *above > rope && *above < 1.0);
    let region =
        coarser.map_or_else(String::new, |above| format!("; --rope {} asks a coarser question", digits(above)));
    if let (End::Planned, Difference::Undecided { blocks_needed: Some(more) }) =
        (decision.end, decision.change.difference)
    {
        let blocks = decision.blocks.len() + more;
        return format!("{ended}; about {more} more blocks needed (--blocks {blocks}){region}");
    }
    match decision.needed_s.filter(|seconds| *seconds < 86_400.0) {
        Some(seconds) => {
            let seconds = (1.2 * seconds).max(1.2 * decision.elapsed_s);
            let time = human(seconds);
            // A pause of the machine or one slow start used up the time, or the user interrupted.
            if seconds <= given.seconds {
                let again = if given.is_share { "run it again with a larger --total-time" } else { "run it again" };
                return format!(
                    "{ended}, although about {time} would do: {again}, or choose a smaller case or a quieter machine{region}"
                );
            }
            let more = given.raised_to(seconds);
            format!("{ended}; about {time} needed ({more}), or a smaller case or a quieter machine{region}")
        }
        None => format!("{ended}; more time would hardly decide it{region}"),
    }
}

/// What may settle a side question: more blocks if they ended the comparison, else more time than was given. The evidence
/// of 600 that it needs takes twelve unanimous blocks.
pub(super) fn settles(decision: &Decision, given: Given) -> String {
    match decision.end {
        End::Decided | End::Planned => format!("--blocks {}", (decision.blocks.len() * 5).div_ceil(3).max(12)),
        End::Budget | End::Hopeless | End::Interrupted => given.raised_to(3.0 * decision.elapsed_s.max(given.seconds)),
    }
}

/// A share in per cent without the unit, for `--rope`.
fn digits(share: f64) -> String {
    units::share(share).trim_end_matches(" %").to_string()
}

/// Why there is no decision at all.
pub(super) fn too_little(given: Given, needed_s: Option<f64>) -> String {
    let seconds = 1.2 * needed_s.unwrap_or(8.0 * given.seconds);
    let fewest = needed_s.map_or_else(String::new, |seconds| format!(", which take about {}", human(seconds)));
    let (time, blocks) = (limit(given.seconds), "the fewest blocks of fresh processes that can decide");
    if seconds <= given.seconds {
        return format!("{time} were over before {blocks}{fewest}: run it again, or choose a smaller case");
    }
    let more = given.raised_to(seconds);
    format!("{time} are not enough for {blocks}{fewest}; give it {more}, or choose a smaller case")
}

/// For a side of workers that was not ready when the time was up.
pub(super) fn late(given: Given, side: &str) -> String {
    let more = given.raised_to(8.0 * given.seconds);
    format!("{side} was not ready when the time was up; give it {more}, or choose a smaller case")
}

/// Approximate number of runs in the fewest blocks, after a first run of each command.
const RUNS: f64 = 20.0;

/// The same for shell commands: a run still going at the end of the time is killed.
pub(super) fn too_little_for_commands(given: Given, needed_s: Option<f64>) -> String {
    let after = limit(given.seconds);
    let Some(needed_s) = needed_s else {
        return format!(
            "out of time after {after}: the commands take too long, and the time that they need is unknown; {}",
            longer(given)
        );
    };
    let (fewest, seconds) = (human(needed_s), 1.2 * needed_s);
    if seconds <= given.seconds {
        return format!(
            "out of time after {after}, although the fewest runs that can decide take about {fewest}: run it again"
        );
    }
    let more = given.raised_to(seconds);
    format!(
        "out of time after {after}: the commands take too long for the fewest runs that can decide, of about {fewest}; give them {more} or more, or less to do"
    )
}

/// For a run of a side that was killed because the time was up.
pub(super) fn late_command(given: Given, side: &str) -> String {
    format!(
        "out of time after {}: a run of {side} had not ended by then, so the time that it needs is unknown; {}",
        limit(given.seconds),
        longer(given)
    )
}

fn longer(given: Given) -> String {
    format!("try a longer one, such as {}, or give it less to do", given.raised_to(1.2 * RUNS * given.seconds))
}

/// A time limit as it was given, to the millisecond and never rounded up.
pub(super) fn limit(seconds: f64) -> String {
    let in_units = |unit: f64| (seconds >= 2.0 * unit && seconds % unit == 0.0).then_some(seconds / unit);
    match (in_units(3600.0), in_units(60.0)) {
        (Some(hours), _) => format!("{hours} h"),
        (_, Some(minutes)) => format!("{minutes} min"),
        // A little more, because no fraction is exact.
        _ => format!("{} s", (seconds * 1e3 + 1e-6).floor() / 1e3),
    }
}

/// A time in the notation of `--time`, in one word.
pub(super) fn dense(seconds: f64) -> String {
    human(seconds).replace(' ', "")
}

/// A needed time in the notation of `--time`, rounded up.
pub(super) fn human(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 => format!("{:.1} s", (s * 10.0).ceil() / 10.0),
        s if s < 120.0 => format!("{:.0} s", s.ceil()),
        s if s < 7200.0 => format!("{:.0} min", (s / 60.0).ceil()),
        s => format!("{:.0} h", (s / 3600.0).ceil()),
    }
}

#[cfg(test)]
mod tests {
    use ellwand_core::record::Sample;

    use super::*;
    use crate::cli::rows::Row;
    use crate::cli::rows::samples::row;
    use crate::cli::verdict::sentence;

    #[test]
    fn cases_share_what_is_left() {
        assert_eq!(share(20.0, 300.0, 6), 20.0);
        assert_eq!(share(20.0, 300.0, 30), 10.0);
        assert_eq!(share(20.0, 12.0, 1), 12.0);
        assert_eq!(share(20.0, -1.0, 2), 0.0);
    }

    #[test]
    fn the_time_that_bounds_the_cases_is_named() {
        let clock = |case_s, total_s, cases| Clock { begin: Instant::now(), case_s, total_s, binds: true, cases };
        let both = "1 case, at most 200 s (--time) and 5 min in all (--total-time)";
        assert_eq!(clock(200.0, 300.0, 1).sentence(), both, "neither is rounded up");
        let each = "2 cases, at most 1.25 s each (--time) and 90 s in all (--total-time)";
        assert_eq!(clock(1.25, 90.0, 2).sentence(), each);
        assert_eq!(clock(20.0, 300.0, 15).all_bound(), None);
        let bound = clock(20.0, 1.0, 2).all_bound().unwrap();
        assert_eq!(bound, "note: --total-time 1s leaves each of 2 cases 0.5 s; raise it together with --time");
    }

    #[test]
    fn a_limit_is_printed_as_it_was_given() {
        for (seconds, expected) in [
            (0.1, "0.1 s"),
            (0.3, "0.3 s"),
            (8.2, "8.2 s"),
            (20.0, "20 s"),
            (90.0, "90 s"),
            (120.0, "2 min"),
            (200.0, "200 s"),
            (5400.0, "90 min"),
            (86_400.0, "24 h"),
            (9.837_61, "9.837 s"),
        ] {
            assert_eq!(limit(seconds), expected);
        }
    }

    /// An undecided row that would need `needed_s` seconds.
    fn open(end: End, needed_s: f64) -> Decision {
        let row = row(Call::As(Difference::Undecided { blocks_needed: None }), 0.0);
        Decision { end, needed_s: Some(needed_s), elapsed_s: 1.0, ..row.result.unwrap() }
    }

    #[test]
    fn an_undecided_comparison_states_a_small_share_of_its_time_inside_slots() {
        let slots = |wall_ns| {
            let slot = Sample { wall_ns, ..Sample::default() };
            let call = Call::As(Difference::Undecided { blocks_needed: None });
            let decision = Decision { samples: [vec![slot], vec![slot], vec![slot]], ..row(call, 0.0).result.unwrap() };
            sentence(&Row { result: Ok(decision), ..row(call, 0.0) }, 0.01)
        };
        assert!(slots(150_000_000).contains("1.5 s, elapsed time judged, 30 % of the time inside slots; "));
        assert!(!slots(300_000_000).contains("inside slots"));
    }

    #[test]
    fn the_advised_time_is_never_less_than_the_given_one() {
        let given = Given { case_s: 20.0, seconds: 20.0, is_share: false };
        // The machine paused.
        let paused = open(End::Budget, 1.0);
        let again = "its time was up, although about 1.2 s would do: run it again, or choose a smaller case or a quieter machine; \
                     --rope 13 asks a coarser question";
        assert_eq!(needed(&paused, 0.01, given), again);
        assert_eq!(settles(&paused, given), "--time 60s");
        assert!(!too_little(given, Some(1.0)).contains("--time"), "{}", too_little(given, Some(1.0)));
        assert!(too_little_for_commands(given, Some(1.0)).ends_with("take about 1.0 s: run it again"));
        assert!(needed(&open(End::Budget, 30.0), 0.01, given).contains("about 36 s needed (--time 36s)"));
        // The limit of all cases left this one less.
        let share = Given { case_s: 20.0, seconds: 0.5, is_share: true };
        let soon = needed(&Decision { elapsed_s: 0.1, needed_s: Some(0.2), ..paused.clone() }, 0.01, share);
        assert!(soon.contains("about 0.3 s would do: run it again with a larger --total-time, or"), "{soon}");
        let all = needed(&paused, 0.01, share);
        assert!(all.contains("about 1.2 s needed (a larger --total-time)"), "{all}");
        assert_eq!(settles(&open(End::Budget, 30.0), share), "a larger --total-time");
        assert!(needed(&open(End::Budget, 30.0), 0.01, share).contains("(--time 36s and a larger --total-time)"));
        assert!(late(share, "the candidate").ends_with("give it a larger --total-time, or choose a smaller case"));
    }

    #[test]
    fn an_open_result_still_excludes_large_differences() {
        let of = |low: f64, high: f64| {
            excluded(&Change { ratio: 1.0, low, high, difference: Difference::Undecided { blocks_needed: None } })
        };
        assert_eq!(of(0.99, 1.0204), "no difference above 2.1 %, at 99 %");
        assert_eq!(of(0.8, 1.02), "no difference above 25 %, at 99 %");
        assert_eq!(of(0.4, 1.02), "no difference above 2.5x, at 99 %");
        assert_eq!(of(0.175, 0.194), "no ratio above 0.194, at 99 %");
        assert_eq!(of(0.004, 0.036), "no ratio above 0.0360, at 99 %");
        assert_eq!(of(0.001, 1.02), "no ratio above 1.020, at 99 %");
        assert_eq!(of(28.0, 250.0), "no ratio below 28.0, at 99 %");
        assert_eq!(of(0.05, 20.0), "nothing is excluded yet");
        assert_eq!(of(0.0, f64::INFINITY), "nothing is excluded yet");
    }

    #[test]
    fn every_undecided_sentence_says_what_is_excluded() {
        let undecided = Call::As(Difference::Undecided { blocks_needed: None });
        let of = |call, said| sentence(&Row { said, ..row(call, 0.0) }, 0.01);
        for (said, start) in [
            (of(undecided, Said::Call(undecided)), "undecided: no difference above 13 %, at 99 %: slower takes"),
            (of(undecided, Said::OneOfMany), "undecided: no difference above 13 %, at 99 %: slower takes"),
            (
                of(Call::Unsettled("p90"), Said::Call(Call::Unsettled("p90"))),
                "undecided in its tail (90th percentile): no difference above 13 %, at 99 %: there slower takes",
            ),
        ] {
            assert!(said.starts_with(start), "{said}");
        }
        let by = |row: Row| excluded_by(&row, row.result.as_ref().unwrap());
        assert_eq!(by(row(Call::Unsettled("p90"), 0.0)).as_deref(), Some("no difference above 13 %, at 99 %"));
        assert_eq!(by(row(Call::As(Difference::Same), 0.0)), None);
    }

    #[test]
    fn times_read_as_they_are_given() {
        for (seconds, expected) in
            [(0.42, "0.5 s"), (20.0, "20 s"), (119.2, "120 s"), (300.0, "5 min"), (9000.0, "3 h")]
        {
            assert_eq!(human(seconds), expected);
        }
        let given = |seconds| Given { case_s: seconds, seconds, is_share: false };
        let commands = late_command(given(1.0), "the baseline");
        assert!(commands.contains("of the baseline had not ended by then"), "{commands}");
        assert!(commands.contains("is unknown; try a longer one, such as --time 24s, or"), "{commands}");
        assert!(!commands.contains("or more"), "{commands}");
        assert!(too_little(given(20.0), Some(30.0)).contains("which take about 30 s; give it --time 36s"));
    }
}
