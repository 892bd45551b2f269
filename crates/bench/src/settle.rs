//! Settled slots: how many untimed iterations an arm needs after other arms used the CPU, and how long its slots must
//! be.
//!
//! When an arm's turn begins, caches, branch predictors and page tables are full of the other arms' data, the clock may
//! have dropped, and threads are asleep. Its first iterations can take twice as long as later ones. How long that lasts
//! depends on the arm, its data and the machine, so it is measured: in a few turns of each arm, among the same other
//! arms as its slots, every step after the switch is timed. The median over the turns is the settling curve. A slot
//! then starts with as many untimed iterations as the curve needs to become flat, and is long enough that most of its
//! turn is timed.
//!
//! Heads and lengths of slots are chosen only here, for `run`, `compare`, `selfcheck` and `machine`.

use std::sync::OnceLock;
use std::time::Instant;

use ellwand_core::device::{CpuScope, Device, Part};
use ellwand_core::error::DeviceError;
use ellwand_core::implementation::Prepared;
use ellwand_core::record::Settling;
use ellwand_core::stats::median;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use crate::sample::Slot;

/// Turns per curve: the median over them drops a step disturbed by a neighbour.
const TURNS: usize = 3;
/// Approximate length of a curve step, at least one iteration: much shorter than the settling, much longer than a clock
/// reading.
const STEP_NS: f64 = 50_000.0;
/// The curve initially covers at least this time and this many steps after the switch ..
const CURVE_NS: f64 = 3e6;
const CURVE_STEPS: f64 = 24.0;
/// .. and never more than this time, for arms that never settle.
const LONGEST_NS: f64 = 60e6;
/// Factor on the length of the second curve if the first had not settled by its end.
const LONGER: f64 = 4.0;
/// The longest head is bounded by the time in which one core refills the last-level cache, at this rate in bytes per
/// second, which any core reaches from memory, and is at least [`SHORTEST_BOUND_NS`]. Later changes come from the host
/// or the arm, not from the switch.
const REFILL: f64 = 5e9;
const SHORTEST_BOUND_NS: f64 = 3e6;
/// Minimum number of steps that form a curve. Iterations too long for that are longer than any settling.
const FEWEST_STEPS: usize = 3;
/// Steps averaged before comparison with the settled level.
const WINDOW: usize = 3;
/// A curve is flat where it is within this share of the settled level.
const FLAT: f64 = 0.01;
/// A curve still falls if its last quarter is faster than the quarter before by more than this share.
const FALLING: f64 = 0.02;
/// The timed part of a slot is at least this many times as long as its head.
const TIMED_PER_UNTIMED: f64 = 2.0;
/// Slots are unsettled if most of them have a first part slower than their median part by more than this share.
const DRIFT: f64 = 0.05;
/// Minimum number of slots needed to detect that.
const DRIFT_SLOTS: usize = 6;

/// Warning for an arm whose slots still start slow.
pub(crate) const UNSETTLED: &str =
    "its slots begin slower than they end: it does not settle within the time allowed for settling";

/// Time of an iteration in each step of a turn, in nanoseconds.
pub(crate) type Curve = Vec<f64>;

/// How a turn is divided into steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Iterations per step.
    pub(crate) iterations: u64,
    /// Number of steps.
    pub(crate) count: u64,
}

/// The steps of a curve for slots of this shape, `factor` times the usual length; `None` for cold slots and for
/// iterations too long for a curve.
pub(crate) fn steps(slot: Slot, factor: f64) -> Option<Steps> {
    if !slot.caches().is_warm() {
        return None;
    }
    let iteration_ns = slot.iteration_ns().max(1e-3);
    let iterations = (STEP_NS / iteration_ns).ceil().max(1.0);
    let step_ns = iterations * iteration_ns;
    let wanted = (CURVE_NS / step_ns).max(CURVE_STEPS) * factor;
    let count = wanted.min(LONGEST_NS / step_ns) as u64;
    (count >= FEWEST_STEPS as u64).then_some(Steps { iterations: iterations as u64, count })
}

/// Takes one turn and times all steps. The curve is empty if the device cannot time parts.
pub(crate) fn turn(
    device: &dyn Device,
    scope: CpuScope,
    prepared: &mut dyn Prepared,
    steps: Steps,
) -> Result<Curve, DeviceError> {
    let at_once = (prepared.most_iterations() / steps.iterations.max(1)).clamp(1, steps.count);
    let (mut curve, begin) = (Curve::new(), Instant::now());
    // Loading may take much longer than what it loads: a pause, or a copy of data that a step changes.
    let is_long = |steps: usize| steps as f64 >= CURVE_STEPS && begin.elapsed().as_nanos() as f64 > LONGEST_NS;
    while (curve.len() as u64) < steps.count && !is_long(curve.len()) {
        let count = at_once.min(steps.count - curve.len() as u64);
        prepared.load(count * steps.iterations);
        let mut synced = Ok(());
        let (_, took) = device.time_parts(scope, count, &mut |part| {
            if part == Part::Head {
                return;
            }
            prepared.run_times(steps.iterations);
            let done = prepared.sync();
            if synced.is_ok() {
                synced = done;
            }
        });
        synced?;
        if took.is_empty() {
            return Ok(Curve::new());
        }
        curve.extend(took.iter().map(|ns| *ns as f64 / steps.iterations.max(1) as f64));
    }
    Ok(curve)
}

/// Records the settling curves of all arms of a cell, which take turns in random order, as they will for their slots.
/// `shape` returns the current slot shape of an arm; `take` takes a turn and returns `None` for an arm that has ended.
/// Arms that have not settled by the end of their curve get a longer curve once.
pub(crate) fn rehearse<E>(
    arms: usize,
    coin: &mut ChaCha8Rng,
    shape: &dyn Fn(usize) -> Option<Slot>,
    take: &mut dyn FnMut(usize, Steps) -> Result<Option<Curve>, E>,
) -> Result<Vec<Option<Settling>>, E> {
    let mut learnt: Vec<Option<Settling>> = vec![None; arms];
    for factor in [1.0, LONGER] {
        let open = |arm: &usize| learnt[*arm].as_ref().is_none_or(|settling| settling.unsettled);
        let taking: Vec<(usize, Steps)> =
            (0..arms).filter(open).filter_map(|arm| Some((arm, steps(shape(arm)?, factor)?))).collect();
        if factor > 1.0 && !taking.iter().any(|(arm, _)| learnt[*arm].is_some()) {
            break;
        }
        let mut curves: Vec<Vec<Curve>> = vec![Vec::new(); arms];
        for _ in 0..TURNS {
            let mut order = taking.clone();
            order.shuffle(coin);
            for (arm, steps) in order {
                curves[arm].extend(take(arm, steps)?);
            }
        }
        for (arm, steps) in taking {
            if let Some(settling) = learn(steps, &curves[arm]) {
                learnt[arm] = Some(settling);
            }
        }
    }
    Ok(learnt)
}

/// The settling shown by several turns; `None` without a curve.
fn learn(steps: Steps, turns: &[Curve]) -> Option<Settling> {
    let length = turns.iter().map(Vec::len).min().filter(|length| *length >= FEWEST_STEPS)?;
    let at = |step: usize| median(&turns.iter().map(|turn| turn[step]).collect::<Vec<_>>());
    let curve_ns: Vec<f64> = (0..length).map_while(at).collect();
    let settled_ns = median(&curve_ns[length / 2..]).filter(|ns| *ns > 0.0)?;
    let first = settles_at(&curve_ns, settled_ns);
    Some(Settling {
        step_iterations: steps.iterations,
        settles_after: first as u64 * steps.iterations,
        untimed: untimed(first, steps.iterations, settled_ns, longest_head_ns()),
        unsettled: is_falling(&curve_ns, settled_ns),
        curve_ns,
        settled_ns,
    })
}

/// The first step from which the smoothed curve is flat, within the precision that its noise allows.
fn settles_at(curve_ns: &[f64], settled_ns: f64) -> usize {
    let window = WINDOW.min(curve_ns.len() / 4).max(1);
    let flat = FLAT.max(scatter(&curve_ns[curve_ns.len() / 2..], settled_ns) / (window as f64).sqrt());
    let mean = |steps: &[f64]| steps.iter().sum::<f64>() / steps.len() as f64;
    let settled =
        |steps: &[f64]| mean(steps) <= settled_ns * (1.0 + flat) && steps[0] <= settled_ns * (1.0 + 2.0 * flat);
    curve_ns.windows(window).position(settled).unwrap_or(curve_ns.len() / 2)
}

/// Relative standard deviation of steps around `level`, from the median absolute deviation (Hampel 1974).
fn scatter(steps: &[f64], level: f64) -> f64 {
    let off: Vec<f64> = steps.iter().map(|step| (step - level).abs()).collect();
    1.4826 * median(&off).unwrap_or(0.0) / level
}

/// True if the curve still falls at its end.
fn is_falling(curve_ns: &[f64], settled_ns: f64) -> bool {
    let quarter = curve_ns.len() / 4;
    let (before, last) = (curve_ns.len() - 2 * quarter, curve_ns.len() - quarter);
    let level = |steps: &[f64]| median(steps).unwrap_or(settled_ns);
    let noise = scatter(&curve_ns[last..], settled_ns) / (quarter.max(1) as f64).sqrt();
    quarter >= 2 && level(&curve_ns[before..last]) > level(&curve_ns[last..]) * (1.0 + FALLING.max(4.0 * noise))
}

/// Longest head of a slot on this machine, in nanoseconds.
fn longest_head_ns() -> f64 {
    static BOUND: OnceLock<f64> = OnceLock::new();
    *BOUND.get_or_init(|| {
        let last = crate::environment::caches().last().map_or(0, |cache| cache.bytes);
        (last as f64 / REFILL * 1e9).max(SHORTEST_BOUND_NS)
    })
}

/// Untimed iterations for a curve that is flat from step `first` on: a quarter more, and at least one step if steps are
/// short, because the median over turns cannot show an occasional slow switch. Limited to `bound_ns`.
fn untimed(first: usize, step_iterations: u64, settled_ns: f64, bound_ns: f64) -> u64 {
    let step_ns = step_iterations as f64 * settled_ns;
    let short = step_ns <= 4.0 * STEP_NS;
    let wanted = ((first + first.div_ceil(4)) as u64).max(u64::from(short));
    wanted.min((bound_ns / step_ns).ceil() as u64) * step_iterations
}

/// The slot shape for this settling curve: at least `slot_ns` long, and long enough that most of a turn is timed.
pub(crate) fn slot(settling: &Settling, slot_ns: u64, most: u64, finest_part_ns: Option<u64>) -> Slot {
    let settled_ns = settling.settled_ns.max(1e-3);
    let lead_ns = settling.untimed as f64 * settled_ns;
    let length_ns = (slot_ns as f64).max(TIMED_PER_UNTIMED * lead_ns);
    let iterations = ((length_ns / settled_ns).ceil() as u64).clamp(1, most.max(1));
    let slot = Slot::whole(iterations, (iterations as f64 * settled_ns) as u64).cut(finest_part_ns);
    Slot { lead: settling.untimed, ..slot }
}

/// Ratios of the first to the median part of each slot, which show whether slots start settled.
#[derive(Debug, Default)]
pub(crate) struct Drift(Vec<f64>);

impl Drift {
    /// Records the parts of a slot.
    pub(crate) fn add_slot(&mut self, parts_ns: &[u64]) {
        let all: Vec<f64> = parts_ns.iter().map(|ns| *ns as f64).collect();
        if let (Some(first), Some(middle)) = (all.first(), median(&all))
            && all.len() >= 3
            && middle > 0.0
        {
            self.0.push(first / middle);
        }
    }

    /// True if the first part is slower in most slots, so the head is too short.
    pub(crate) fn is_unsettled(&self) -> bool {
        let slower = self.0.iter().filter(|ratio| **ratio > 1.0).count();
        self.0.len() >= DRIFT_SLOTS
            && 4 * slower >= 3 * self.0.len()
            && median(&self.0).is_some_and(|ratio| ratio > 1.0 + DRIFT)
    }
}

/// The new shape after slots started unsettled: head and parts twice as long, up to the bound.
pub(crate) fn lengthened(slot: Slot) -> Slot {
    let lead = 2 * slot.lead.max(slot.iterations / slot.parts.max(1));
    let longer = Slot { lead, iterations: 2 * slot.iterations, cost_ns: 2 * slot.cost_ns, ..slot };
    if lead as f64 * slot.iteration_ns() > longest_head_ns() { slot } else { longer }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A noisy curve that falls from `first` to `last`, halving the remainder every `half` steps.
    fn falling(first: f64, last: f64, half: f64, steps: usize, noise: f64) -> Curve {
        let mut state = 1_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        (0..steps)
            .map(|step| (last + (first - last) * 0.5_f64.powf(step as f64 / half)) * (1.0 + noise * random()))
            .collect()
    }

    fn learned(turns: &[Curve]) -> Settling {
        learn(Steps { iterations: 1, count: turns[0].len() as u64 }, turns).unwrap()
    }

    #[test]
    fn recorded_curves_settle_where_a_reader_would_expect() {
        // Iteration times in us after a switch for four arms: scale of 6 MiB on Zen 4, the same and a parser on Zen 3,
        // and a chain of multiplications on Zen 3 in steps of three iterations.
        let zen4 = [471.0, 281.0, 199.0, 161.0, 157.0, 156.0, 156.0, 155.0, 156.0, 156.0, 157.0, 156.0];
        let zen3 = [715.0, 495.0, 335.0, 269.0, 256.0, 250.0, 249.0, 248.0, 249.0, 248.0, 250.0, 250.0];
        let parse = [139.6, 136.0, 133.0, 131.4, 130.5, 130.2, 129.3, 129.1, 129.2, 129.3, 128.9, 129.2, 129.4, 129.6];
        let chain = [14.9, 14.7, 14.7, 14.7, 14.7, 14.7, 14.7, 14.7, 14.7, 14.7, 14.7, 14.7];
        for (curve, settles_after) in [(&zen4[..], 4), (&zen3[..], 5), (&parse[..], 4), (&chain[..], 0)] {
            let turn: Curve = curve.iter().map(|us| us * 1e3).collect();
            let settling = learned(&[turn.clone(), turn.clone(), turn]);
            assert_eq!(settling.settles_after, settles_after, "{curve:?}");
            assert!(settling.untimed >= settles_after && !settling.unsettled, "{settling:?}");
        }
    }

    #[test]
    fn one_disturbed_turn_of_three_changes_nothing() {
        let quiet = falling(400.0, 100.0, 2.0, 40, 0.01);
        let mut hit = quiet.clone();
        hit[20..30].fill(9000.0);
        let expected = learned(&[quiet.clone(), quiet.clone(), quiet.clone()]);
        let found = learned(&[quiet.clone(), hit, quiet]);
        assert_eq!((found.untimed, found.unsettled), (expected.untimed, false));
        assert!(found.settles_after >= 10, "300 % fall below 1 % within about eight halves of two steps");
    }

    #[test]
    fn a_curve_that_never_settles_is_marked_and_bounded() {
        let forever = falling(400.0, 100.0, 40.0, 80, 0.01);
        let settling = learned(&[forever.clone(), forever.clone(), forever]);
        assert!(settling.unsettled && settling.untimed <= 80, "{settling:?}");
        let noisy = falling(100.0, 100.0, 1.0, 80, 0.3);
        assert!(!learned(&[noisy.clone(), noisy.clone(), noisy]).unsettled, "noise is no trend");
    }

    #[test]
    fn iterations_of_any_length_have_steps_or_none() {
        let of =
            |iteration_ns: u64| steps(Slot::whole(1, iteration_ns), 1.0).map(|steps| (steps.iterations, steps.count));
        assert_eq!(of(1), Some((50_000, 60)));
        assert_eq!(of(10_000), Some((5, 60)));
        assert_eq!(of(300_000), Some((1, 24)));
        assert_eq!(of(4_000_000), Some((1, 15)));
        assert_eq!(of(20_000_000), Some((1, 3)));
        assert_eq!(of(30_000_000), None, "longer than anything that must settle");
        assert_eq!(of(10_000_000_000), None);
        assert_eq!(steps(Slot::cold(1000, 1000), 1.0), None);
        assert_eq!(steps(Slot::whole(1, 10_000), 4.0).map(|steps| steps.count), Some(240));
        assert!(steps(Slot::whole(1, 0), 1.0).is_some(), "a clock that stood still");
    }

    #[test]
    fn heads_are_bounded_by_what_a_switch_can_do() {
        assert_eq!(untimed(10, 1, 100e3, 5e6), 13, "a quarter more");
        assert_eq!(untimed(40, 1, 1e6, 5e6), 5, "5 ms");
        assert_eq!(untimed(10, 1, 4e6, 5e6), 2, "whole iterations");
        assert_eq!(untimed(0, 1, 4e6, 5e6), 0, "none where none is slower");
        assert_eq!(untimed(0, 500, 100.0, 5e6), 500, "a step of short ones");
        assert!((3e6..1e9).contains(&longest_head_ns()));
    }

    #[test]
    fn slots_are_mostly_timed() {
        let settling =
            |untimed, settled_ns| Settling { untimed, settled_ns, step_iterations: 1, ..Settling::default() };
        let shape = slot(&settling(6, 150_000.0), 500_000, u64::MAX, Some(10_000));
        assert_eq!((shape.lead, shape.iterations, shape.parts), (6, 15, 5), "2.2 ms in five equal parts");
        let shape = slot(&settling(50, 1000.0), 500_000, u64::MAX, Some(10_000));
        assert_eq!((shape.lead, shape.iterations, shape.parts), (50, 500, 5));
        let shape = slot(&settling(0, 8e6), 500_000, u64::MAX, Some(10_000));
        assert_eq!((shape.lead, shape.iterations, shape.parts), (0, 1, 1));
        let few = slot(&settling(50, 1000.0), 500_000, 100, Some(10_000));
        assert_eq!(few.iterations, 100);
    }

    #[test]
    fn slots_that_begin_slow_are_found_and_made_longer() {
        let mut drift = Drift::default();
        for _ in 0..8 {
            drift.add_slot(&[120, 100, 101, 99, 100]);
            drift.add_slot(&[120, 100]);
        }
        assert!(drift.is_unsettled());
        let mut flat = Drift::default();
        for slot in 0..20 {
            flat.add_slot(&if slot % 2 == 0 { [104, 100, 100] } else { [96, 100, 100] });
        }
        assert!(!flat.is_unsettled() && !Drift::default().is_unsettled());
        let slot = Slot::whole(10, 1_000_000).cut(Some(10_000));
        let once = lengthened(slot);
        assert_eq!((once.lead, once.iterations, once.cost_ns), (4, 20, 2_000_000));
        let twice = lengthened(once);
        assert_eq!((twice.lead, twice.iterations), (8, 40));
        let mut bounded = slot;
        (0..20).for_each(|_| bounded = lengthened(bounded));
        assert!(bounded.lead as f64 * bounded.iteration_ns() <= longest_head_ns(), "{bounded:?}");
    }
}
