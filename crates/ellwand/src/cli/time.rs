//! The time of a comparison: the limit of each case, what an undecided result still excludes, and what would decide it.

use std::time::Instant;

use ellwand_bench::compare::{Decision, End};
use ellwand_core::stats::{Change, Difference};
use ellwand_report::units;

use super::args::CompareArgs;
use super::verdict::digits as ratio_digits;

/// The usual time limits of a case and of all cases, in seconds.
const CASE_S: f64 = 20.0;
const TOTAL_S: f64 = 300.0;

/// The time limit of all cases.
pub(super) struct Clock {
    begin: Instant,
    case_s: f64,
    total_s: f64,
    cases: usize,
}

impl Clock {
    /// Starts the clock for `cases` cases.
    pub(super) fn start(args: &CompareArgs, cases: usize) -> Self {
        let case_s = args.time.unwrap_or(CASE_S);
        let total_s = args.total_time.unwrap_or(TOTAL_S.max(case_s));
        Self { begin: Instant::now(), case_s, total_s, cases }
    }

    /// A sentence on the expected time, printed before the first case.
    pub(super) fn sentence(&self) -> String {
        let (case, all) = (human(self.case_s), self.total_s.min(self.case_s * self.cases as f64));
        match self.cases {
            1 if self.total_s < self.case_s => format!("at most {} (--total-time)", human(all)),
            1 => format!("at most {} (--time)", human(all)),
            n => format!("{n} cases, at most {case} each (--time) and {} in all (--total-time)", human(all)),
        }
    }

    /// The time limit of case `index` in seconds: its own, or its share of the remaining time.
    pub(super) fn of_case(&self, index: usize) -> f64 {
        share(self.case_s, self.total_s - self.begin.elapsed().as_secs_f64(), self.cases - index)
    }

    /// Why a larger --time alone gives no case more time, if so.
    pub(super) fn all_bound(&self) -> Option<String> {
        let case_s = self.total_s / self.cases.max(1) as f64;
        let cases = if self.cases == 1 { "the case".into() } else { format!("each of {} cases", self.cases) };
        let why = || format!("note: --total-time {} leaves {cases} {}", dense(self.total_s), human(case_s));
        (case_s < self.case_s).then(|| format!("{}; raise it together with --time", why()))
    }

    /// Seconds for the cases after `index`, if each takes as long as this one.
    pub(super) fn after(&self, index: usize, case_s: f64) -> f64 {
        let later = (self.cases - index - 1) as f64 * case_s;
        later.min((self.total_s - self.begin.elapsed().as_secs_f64()).max(0.0))
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

/// If the user interrupted before this many blocks, they do not show how many more are needed.
const SOON: usize = 6;

/// Why an undecided comparison ended, and what would decide it.
pub(super) fn needed(decision: &Decision, rope: f64) -> String {
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
            let time = human((1.2 * seconds).max(1.2 * decision.elapsed_s));
            format!(
                "{ended}; about {time} needed (--time {}), or a smaller case or a quieter machine{region}",
                time.replace(' ', "")
            )
        }
        None => format!("{ended}; more time would hardly decide it{region}"),
    }
}

/// What may settle a side question: more blocks if they ended the comparison, else more time. The evidence of 600 that it
/// needs takes twelve unanimous blocks.
pub(super) fn settles(decision: &Decision) -> String {
    match decision.end {
        End::Decided | End::Planned => format!("--blocks {}", (decision.blocks.len() * 5).div_ceil(3).max(12)),
        End::Budget | End::Hopeless | End::Interrupted => format!("--time {}", dense(3.0 * decision.elapsed_s)),
    }
}

/// A share in per cent without the unit, for `--rope`.
fn digits(share: f64) -> String {
    units::share(share).trim_end_matches(" %").to_string()
}

/// Why there is no decision at all.
pub(super) fn too_little(budget_s: f64, needed_s: Option<f64>) -> String {
    let time = dense(1.2 * needed_s.unwrap_or(8.0 * budget_s));
    let fewest = needed_s.map_or_else(String::new, |seconds| format!(", which take about {}", human(seconds)));
    format!(
        "{} are not enough for the fewest blocks of fresh processes that can decide{fewest}; give it --time {time}, or choose a smaller case",
        human(budget_s)
    )
}

/// Approximate number of runs in the fewest blocks, after a first run of each command.
const RUNS: f64 = 20.0;

/// The same for shell commands: a run still going at the end of the time is killed.
pub(super) fn too_little_for_commands(budget_s: f64, needed_s: Option<f64>) -> String {
    let after = human(budget_s);
    let Some(needed_s) = needed_s else {
        return format!(
            "out of time after {after}: the commands take too long, and the time that they need is unknown; {}",
            longer(budget_s)
        );
    };
    format!(
        "out of time after {after}: the commands take too long for the fewest runs that can decide, of about {}; give them --time {} or more, or less to do",
        human(needed_s),
        dense(1.2 * needed_s)
    )
}

/// For a run of a side that was killed because the time was up.
pub(super) fn late_command(budget_s: f64, side: &str) -> String {
    format!(
        "out of time after {}: a run of {side} had not ended by then, so the time that it needs is unknown; {}",
        human(budget_s),
        longer(budget_s)
    )
}

fn longer(budget_s: f64) -> String {
    format!("try a longer one, such as --time {}, or give it less to do", dense(1.2 * RUNS * budget_s))
}

/// A time in the notation of `--time`, in one word.
pub(super) fn dense(seconds: f64) -> String {
    human(seconds).replace(' ', "")
}

/// A time in the notation of `--time`.
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
    use super::*;

    #[test]
    fn cases_share_what_is_left() {
        assert_eq!(share(20.0, 300.0, 6), 20.0);
        assert_eq!(share(20.0, 300.0, 30), 10.0);
        assert_eq!(share(20.0, 12.0, 1), 12.0);
        assert_eq!(share(20.0, -1.0, 2), 0.0);
    }

    #[test]
    fn the_time_that_bounds_the_cases_is_named() {
        let clock = |case_s, total_s, cases| Clock { begin: Instant::now(), case_s, total_s, cases };
        assert_eq!(clock(20.0, 300.0, 1).sentence(), "at most 20 s (--time)");
        assert_eq!(clock(20.0, 1.0, 1).sentence(), "at most 1.0 s (--total-time)");
        assert_eq!(clock(20.0, 300.0, 15).all_bound(), None);
        let bound = clock(20.0, 1.0, 2).all_bound().unwrap();
        assert_eq!(bound, "note: --total-time 1.0s leaves each of 2 cases 0.5 s; raise it together with --time");
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
    fn times_read_as_they_are_given() {
        for (seconds, expected) in
            [(0.42, "0.5 s"), (20.0, "20 s"), (119.2, "120 s"), (300.0, "5 min"), (9000.0, "3 h")]
        {
            assert_eq!(human(seconds), expected);
        }
        let commands = late_command(1.0, "the baseline");
        assert!(commands.contains("of the baseline had not ended by then"), "{commands}");
        assert!(commands.contains("is unknown; try a longer one, such as --time 24s, or"), "{commands}");
        assert!(!commands.contains("or more"), "{commands}");
        assert!(too_little(20.0, Some(30.0)).contains("which take about 30 s; give it --time 36s"));
    }
}
