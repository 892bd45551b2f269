//! Measures a cell over process blocks. In each block every implementation runs in a fresh process, the implementations
//! take slots in turn, and each answer is checked again at the end. The blocks of an implementation become one
//! measurement.

use std::time::{Duration, Instant};

use ellwand_core::case::Case;
use ellwand_core::record::{Measurement, Outcome, Sample, Settling};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use crate::block::{Block, Known, Spec};
use crate::check::{SetupError, guarded};
use crate::measure::{Event, Instrument, Interrupted, ready};
use crate::plan::Cell;
use crate::settle;
use crate::worker::process::seconds;
use crate::worker::{Asked, Judged, Launch, Limits, Open, Opened};

/// Measures cells over blocks of worker processes.
pub struct Blocks<'a> {
    /// Settings, seed and interrupt flag, and the registry that the workers share.
    pub instrument: &'a Instrument<'a>,
    /// How workers are started.
    pub launch: Launch,
    /// Number of fresh processes for each implementation.
    pub blocks: u32,
    /// Time limits for answers.
    pub limits: Limits,
    /// Seconds after which a cell takes no further process, and no further round if each implementation has a sample.
    pub budget_s: f64,
    /// What gives a cell more time, in words for a user who chose it (`try --time 60s`). Then the time counts from the inputs
    /// on, and what is not ready is ended. If `None`, the first processes take as long as `limits` allow.
    pub more: Option<String>,
    /// Arrays given by the user, as named on the command line; the workers read them.
    pub given: Vec<String>,
}

/// An implementation is slow if one of its slots takes more than this share of the time for the cell. It is measured once:
/// in one process, one slot.
const SLOW: f64 = 1.0 / 30.0;

/// Share of the time for the cell that the preparations and first runs of one implementation may take together. One that
/// starts slowly, because it compiles, gets fewer processes.
const START: f64 = 1.0 / 6.0;

/// Share of the time for the cell after which its first processes must be ready: the rest is for slots and checks.
const READY: f64 = 3.0 / 4.0;

/// A time for the cell that is shorter counts as this one where it ends processes: the start of an interpreter takes seconds.
const LEAST: Duration = Duration::from_secs(6);

/// The state of one implementation across blocks.
#[derive(Default)]
struct Row {
    opened: Option<Opened>,
    judged: Option<Judged>,
    samples: Vec<Sample>,
    settling: Option<Settling>,
    /// True if slots of its last process still started slow although the settling time was known.
    unsettled: bool,
    ended: Option<Outcome>,
    /// True if it is measured only once.
    slow: bool,
    processes: u32,
}

impl Blocks<'_> {
    /// Measures one cell and returns one measurement for each of its implementations, in order.
    ///
    /// # Errors
    /// If the user interrupts; all workers have ended by then.
    pub fn measure(&self, cell: &Cell, on_event: &mut dyn FnMut(Event)) -> Result<Vec<Measurement>, Interrupted> {
        let case = match self.case(cell) {
            Ok(case) => case,
            Err(error) => return Ok(self.instrument.all_failed(cell, &error)),
        };
        let mut known = Known::default();
        let mut coin = ChaCha8Rng::seed_from_u64(self.instrument.seed ^ case.digest().rotate_left(17));
        let mut rows: Vec<Row> = cell.implementations.iter().map(|_| Row::default()).collect();
        let begin = Instant::now();
        for block in 0..self.blocks {
            let gone_s = begin.elapsed().as_secs_f64();
            // Not if the next process would end after the time.
            let late = gone_s + gone_s / f64::from(block.max(1)) > self.budget_s;
            let takes = |row: &Row| row.ended.is_none() && block < self.processes(row);
            let mut taking: Vec<usize> = (0..rows.len()).filter(|index| takes(&rows[*index])).collect();
            if late && block > 0 {
                // What is left of the time is for those that another process left none.
                taking.retain(|index| rows[*index].processes == 0);
            }
            if taking.is_empty() {
                break;
            }
            self.take_block((block, begin), cell, &taking, &mut rows, &mut known, &mut coin, on_event)?;
        }
        Ok(cell.implementations.iter().zip(rows).map(|(of, row)| self.finish(cell, &case, of, row)).collect())
    }

    /// The case as measured.
    fn case(&self, cell: &Cell) -> Result<Case, SetupError> {
        if self.given.is_empty() {
            return Ok(cell.case.clone());
        }
        Ok(guarded("the workload's inputs", || self.instrument.inputs(cell.workload.as_ref(), &cell.case))??.0)
    }

    #[allow(clippy::too_many_arguments)]
    fn take_block(
        &self,
        (block, begin): (u32, Instant),
        cell: &Cell,
        taking: &[usize],
        rows: &mut [Row],
        known: &mut Known,
        coin: &mut ChaCha8Rng,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Interrupted> {
        let spec = |index: &usize| self.spec(cell, &cell.implementations[*index], &rows[*index]);
        let specs: Vec<Spec> = taking.iter().map(spec).collect();
        let (started, mut last) = (Instant::now(), ("it", "starting"));
        let ready = if block == 0 { READY } else { 1.0 };
        let until = (self.limits, self.end(begin, ready));
        let mut on_wait = |arm: usize, step| {
            let implementation = cell.implementations[taking[arm]].name.as_str();
            if until.1.is_none_or(|end| Instant::now() < end) {
                last = (implementation, step);
            }
            on_event(Event::Preparing { implementation, step });
        };
        let mut open = Block::open(&specs, known, until, coin, self.instrument.interrupt, &mut on_wait)?;
        let settings = &self.instrument.settings;
        match settings.counts {
            Some(counts) => open.count(&specs, known, counts),
            None => drop(open.settle(&specs, known, coin, settings.slot_min_ns)?),
        }
        let slot = |arm: usize| {
            let opened = open.state(arm).ok()?;
            let share = self.instrument.share(opened.slot).div_ceil(self.blocks.max(1));
            Some((if self.is_slow(opened) { 1 } else { share }, opened.slot.cost_ns))
        };
        let slots: Vec<_> = (0..taking.len()).map(slot).collect();
        let late = || begin.elapsed().as_secs_f64() > self.budget_s;
        let end = self.end(begin, 1.0);
        open.extend(end);
        let over = || end.is_some_and(|end| Instant::now() >= end);
        // Of a slow one the only slot is also the run that is judged again.
        let is_slow: Vec<bool> =
            (0..taking.len()).map(|arm| open.state(arm).is_ok_and(|one| self.is_slow(one))).collect();
        let mut take = |arm: usize| if over() { Ok(None) } else { open.slot(arm, is_slow[arm]) };
        let mut samples = self.instrument.rounds((block, self.blocks), &slots, coin, &mut take, &late, on_event)?;
        let had = until.1.map_or(Duration::MAX, |end| end.saturating_duration_since(started));
        let before = (block > 0).then(|| started.duration_since(begin) / block);
        for (arm, index) in taking.iter().enumerate() {
            let row = &mut rows[*index];
            let late = open.late().contains(&arm) && !open.hangs(arm, had, before);
            if late || open.state(arm).is_ok() && samples[arm].is_empty() && over() {
                // A row with samples of earlier blocks keeps them, and one that had no time takes part in the next block.
                let again = late && open.late().first() != Some(&arm) && block + 1 < self.blocks && !over();
                row.ended = (row.processes == 0 && !again)
                    .then(|| self.not_measured(&cell.implementations[*index].name, late.then_some(last), ready));
                continue;
            }
            let judged = open.rejudge(arm)?;
            match (open.state(arm), judged) {
                (Ok(opened), Some(judged)) => {
                    row.samples.append(&mut samples[arm]);
                    row.slow = self.is_slow(opened);
                    row.processes += 1;
                    row.opened.get_or_insert_with(|| opened.clone());
                    row.settling = known.settling.get(&specs[arm].key()).cloned();
                    row.unsettled = judged.unsettled;
                    if judged.unsettled && settings.counts.is_none() {
                        known.slots.insert(specs[arm].key(), settle::lengthened(opened.slot));
                    }
                    if let Some(settling) = &mut row.settling {
                        settling.untimed = opened.slot.lead;
                    }
                    row.judged.get_or_insert(judged);
                }
                (Err(outcome), _) => row.ended = Some(self.in_block(block, row, outcome)),
                (Ok(_), None) => row.ended = Some(Outcome::Failed { error: "it was not judged again".into() }),
            }
        }
        open.close();
        Ok(())
    }

    /// When this share of the time is over, if the user limits it.
    fn end(&self, begin: Instant, share: f64) -> Option<Instant> {
        self.more.as_ref()?;
        begin.checked_add(self.time_limit().mul_f64(share))
    }

    fn time_limit(&self) -> Duration {
        Duration::try_from_secs_f64(self.budget_s).unwrap_or(Duration::MAX / 2).max(LEAST)
    }

    /// The outcome of the row `own` without a sample when the time was up; `last` is the implementation whose process was not
    /// ready after the share `ready` of the time, and what it was doing.
    fn not_measured(&self, own: &str, last: Option<(&str, &'static str)>, ready: f64) -> Outcome {
        let (limit, more) = (self.time_limit(), self.more.as_deref().unwrap_or_default());
        let all = seconds(limit);
        let counts = if limit.as_secs_f64() > self.budget_s {
            format!(" (a shorter time counts as {all})")
        } else {
            String::new()
        };
        let over = match last {
            Some((name, step)) => {
                let ready = seconds(limit.mul_f64(ready));
                let said = format!("after {ready} of {all}{counts}");
                if name == own {
                    format!("{said} its process was still {step}")
                } else {
                    format!("{said} the process of {name} was still {step}, which left it no time")
                }
            }
            None => format!("its {all}{counts} were over before its first slot"),
        };
        Outcome::Unsupported { why: format!("not measured: {over}; {more}") }
    }

    fn is_slow(&self, opened: &Opened) -> bool {
        opened.slot.cost_ns as f64 * 1e-9 > SLOW * self.budget_s
    }

    /// Number of processes in which an implementation is measured; all of them until its first has started.
    fn processes(&self, row: &Row) -> u32 {
        match &row.opened {
            Some(_) if row.slow => 1,
            Some(opened) => {
                let starts = START * self.budget_s / seconds_to_start(opened).max(1e-9);
                starts.clamp(1.0, f64::from(self.blocks.max(1))) as u32
            }
            None => self.blocks,
        }
    }

    /// Notes the block in a failure that only some processes of a row hit.
    fn in_block(&self, block: u32, row: &Row, outcome: &Outcome) -> Outcome {
        match outcome {
            Outcome::Failed { error } if row.processes > 0 => {
                Outcome::Failed { error: format!("in process {} of {}: {error}", block + 1, self.blocks) }
            }
            other => other.clone(),
        }
    }

    fn spec(&self, cell: &Cell, implementation: &ellwand_core::Implementation, row: &Row) -> Spec {
        let settings = &self.instrument.settings;
        let open = Open {
            asked: Asked::new(&cell.case, &implementation.name),
            device: self.instrument.device(implementation).ok().map(|device| device.id().to_string()),
            given: self.given.clone(),
            seed: self.instrument.seed,
            slot_min_ns: settings.slot_min_ns,
            warm_up_ns: settings.warm_up_ns / u64::from(self.blocks.max(1)),
            caches: settings.caches,
            long_run_ns: (1e9 * SLOW * self.budget_s) as u64,
            allowed: cell.allowed,
            probes: row.judged.is_none(),
            steps: true,
            ..Open::default()
        };
        Spec { launch: self.launch.clone(), open, together: false }
    }

    fn finish(&self, cell: &Cell, case: &Case, implementation: &ellwand_core::Implementation, row: Row) -> Measurement {
        let most = self.processes(&row);
        let mut measurement = self.instrument.blank(cell.workload.as_ref(), case, implementation);
        if let Some(opened) = row.opened {
            ready(&mut measurement, opened);
        } else if let Ok(device) = self.instrument.device(implementation) {
            measurement.device = device.id().to_string();
        }
        if let Some(outcome) = row.ended {
            measurement.outcome = outcome;
            return measurement;
        }
        let judged = Judged { unsettled: row.unsettled && self.blocks > 1, ..row.judged.unwrap_or_default() };
        self.instrument.complete(&mut measurement, row.samples, judged, row.settling);
        if row.processes < self.blocks {
            let why = if row.slow {
                "it is slow".to_string()
            } else if most < self.blocks {
                "it starts slowly".to_string()
            } else {
                "the time for the case was up".to_string()
            };
            measurement.warnings.push(format!("{why}: measured in {} of {} processes", row.processes, self.blocks));
        }
        measurement
    }
}

/// Preparation and first run, where compilers work.
fn seconds_to_start(opened: &Opened) -> f64 {
    opened.prepare_ns.saturating_add(opened.first_run_ns) as f64 * 1e-9
}
