//! Equal slot shapes for two implementations in a comparison.
//!
//! Each worker finds the number of iterations per slot itself, and on a noisy machine two workers find different
//! numbers for equal work. If one gets the fastest of three parts and the other a single part, the first looks faster
//! wherever neighbours disturb (by 20 % in one observed case). The slots of a first block show the time of an iteration
//! better than any warm-up, so both arms then get shapes based on it.

use ellwand_core::record::Sample;

use crate::calibrate::unlearnt;
use crate::sample::{MAX_PARTS, Slot};

/// Iteration times within this ratio get the same number of iterations.
const NEAR: f64 = 1.3;
/// Beyond this ratio shapes stay as they are: noise cannot cause such a ratio, and the faster arm would otherwise run
/// as long as the slower one.
const FAR: f64 = 4.0;

/// What a first block showed about an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    /// Its current slot shape.
    pub(crate) slot: Slot,
    /// Iteration time in the fastest of all parts, in nanoseconds.
    pub(crate) iteration_ns: f64,
    /// Maximum number of iterations that can be loaded at once.
    pub(crate) max_iterations: u64,
    /// Shortest part that its device can time; `None` if slots are not cut.
    pub(crate) finest_part_ns: Option<u64>,
}

/// Iteration time in the fastest part of all samples, in nanoseconds; `None` without a valid time.
pub(crate) fn iteration_ns(samples: &[Sample]) -> Option<f64> {
    let of = |sample: &Sample| {
        let whole = (sample.device_ns.unwrap_or(sample.wall_ns), 1);
        let (ns, parts) = sample.fastest_ns.map_or(whole, |fastest| (fastest, sample.parts.unwrap_or(1).max(1)));
        ns as f64 * parts as f64 / sample.iterations.max(1) as f64
    };
    samples.iter().map(of).filter(|ns| *ns > 0.0).reduce(f64::min)
}

/// Shapes for arms with known settling: slots as from [`alike`], with the longer of the two lengths and the longer of
/// the two heads. Arms with very different times keep their own shapes.
pub(crate) fn settled_alike(seen: [Seen; 2], slot_ns: u64) -> [Slot; 2] {
    let longest = seen[0].slot.cost_ns.max(seen[1].slot.cost_ns).max(slot_ns);
    let shapes = alike(seen, longest).unwrap_or(seen.map(|seen| seen.slot));
    let times = seen.map(|seen| seen.iteration_ns);
    let (fastest, slowest) = (times[0].min(times[1]), times[0].max(times[1]));
    if slowest > FAR * fastest {
        return [0, 1].map(|arm| Slot { lead: seen[arm].slot.lead, ..shapes[arm] });
    }
    let lead_ns = [0, 1].map(|arm| seen[arm].slot.lead as f64 * times[arm]).into_iter().fold(0.0, f64::max);
    let lead = |time: f64| (lead_ns / time - 1e-9).ceil().max(0.0) as u64;
    let leads = if slowest <= NEAR * fastest { [lead(fastest); 2] } else { times.map(lead) };
    [0, 1].map(|arm| Slot { lead: leads[arm], ..shapes[arm] })
}

/// Shapes with the same number of parts for both arms, for slots of at least `slot_ns`. Parts have the same iterations
/// if the arms are about equally fast, otherwise about the same length. `None` if no change is needed or possible.
pub(crate) fn alike(seen: [Seen; 2], slot_ns: u64) -> Option<[Slot; 2]> {
    let times = seen.map(|seen| seen.iteration_ns);
    let (fastest, slowest) = (times[0].min(times[1]), times[0].max(times[1]));
    // f64::min and f64::max ignore NaN.
    let usable = times.iter().all(|time| time.is_finite() && *time > 0.0);
    if !usable || slowest > FAR * fastest {
        return None;
    }
    let slot_ns = slot_ns as f64;
    // Both iterations are long: each slot is a single iteration already.
    if fastest >= slot_ns && seen.iter().all(|seen| seen.slot.iterations == 1) {
        return None;
    }
    let finest = seen[0].finest_part_ns.zip(seen[1].finest_part_ns).map(|(a, b)| a.max(b) as f64);
    let part_ns = finest.map_or(slot_ns, |finest| finest.max(slot_ns / MAX_PARTS as f64)).max(slowest);
    let near = slowest <= NEAR * fastest;
    let iterations = |seen: &Seen| {
        let wanted = if near { (part_ns / slowest).ceil() } else { (part_ns / seen.iteration_ns).round() };
        (wanted as u64).clamp(1, seen.max_iterations.max(1))
    };
    let mut each = [iterations(&seen[0]), iterations(&seen[1])];
    if near {
        each = [each[0].min(each[1]); 2];
    }
    let longest = (each[0] as f64 * times[0]).max(each[1] as f64 * times[1]);
    let parts = if finest.is_some() { (slot_ns / longest).ceil() as u64 } else { 1 };
    let loaded = (seen[0].max_iterations / each[0]).min(seen[1].max_iterations / each[1]);
    let parts = parts.clamp(1, MAX_PARTS).min(loaded.max(1));
    let wanted = [0, 1].map(|arm| {
        let iterations = each[arm] * parts;
        let slot = Slot { parts, ..Slot::whole(iterations, (iterations as f64 * times[arm]) as u64) };
        // Older programs warm up every slot by this rule, whatever shape they are given.
        Slot { lead: unlearnt(slot), ..slot }
    });
    let as_it_is = |arm: usize| {
        let (slot, wanted) = (seen[arm].slot, wanted[arm]);
        (slot.iterations, slot.parts) == (wanted.iterations, wanted.parts)
    };
    (!(good_enough(seen, near, parts) || as_it_is(0) && as_it_is(1))).then_some(wanted)
}

/// True if the current shapes may stay: equal where required, with at most one part less than possible.
fn good_enough(seen: [Seen; 2], near: bool, wanted_parts: u64) -> bool {
    let [a, b] = seen.map(|seen| seen.slot);
    let part_ns = |seen: Seen| seen.iteration_ns * (seen.slot.iterations / seen.slot.parts.max(1)) as f64;
    let [long, short] = [part_ns(seen[0]).max(part_ns(seen[1])), part_ns(seen[0]).min(part_ns(seen[1]))];
    let same = if near { a.iterations == b.iterations } else { long <= 1.5 * short };
    a.parts == b.parts && same && a.parts + 1 >= wanted_parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLOT: u64 = 200_000;

    fn observed(iteration_ns: f64, iterations: u64, parts: u64) -> Seen {
        let slot = Slot { parts, ..Slot::whole(iterations, (iteration_ns * iterations as f64) as u64) };
        Seen { slot, iteration_ns, max_iterations: u64::MAX, finest_part_ns: Some(10_000) }
    }

    fn shapes(of: Option<[Slot; 2]>) -> Option<[(u64, u64); 2]> {
        of.map(|slots| slots.map(|slot| (slot.iterations, slot.parts)))
    }

    #[test]
    fn equal_work_has_slots_of_one_shape() {
        // One arm was warmed up while a neighbour used the memory bandwidth.
        assert_eq!(shapes(alike([observed(90e3, 3, 3), observed(92e3, 1, 1)], SLOT)), Some([(3, 3); 2]));
        assert_eq!(shapes(alike([observed(90e3, 3, 3), observed(92e3, 2, 2)], SLOT)), Some([(3, 3); 2]));
        // Both arms were.
        assert_eq!(shapes(alike([observed(60e3, 1, 1), observed(60e3, 1, 1)], SLOT)), Some([(4, 4); 2]));
        // They differ only by rounding.
        assert_eq!(
            shapes(alike([observed(100.0, 2000, 5), observed(101.0, 1985, 5)], SLOT)),
            Some([(1985 / 5 * 5, 5); 2])
        );
    }

    #[test]
    fn slots_without_a_settling_curve_begin_warm() {
        // Without a head, gelu from the L3 cache took 1.3 times its own time next to a program that warms up by itself.
        let slots = alike([observed(90e3, 3, 3), observed(92e3, 1, 1)], SLOT).unwrap();
        assert_eq!(slots.map(|slot| slot.lead), [1; 2]);
        let slots = alike([observed(100.0, 2000, 5), observed(101.0, 1000, 5)], SLOT).unwrap();
        assert_eq!(slots.map(|slot| slot.lead), slots.map(|slot| slot.iterations / 20));
    }

    #[test]
    fn similar_shapes_are_kept() {
        for (iteration_ns, iterations, parts) in
            [(90e3, 3, 3), (90e3, 2, 2), (300e3, 1, 1), (1e9, 1, 1), (100.0, 2010, 5)]
        {
            let arm = observed(iteration_ns, iterations, parts);
            assert_eq!(alike([arm, arm], SLOT), None, "{arm:?}");
        }
        assert_eq!(
            alike([observed(60e6, 1, 1), observed(20e6, 1, 1)], SLOT),
            None,
            "long runs are never repeated for the other's sake"
        );
        assert_eq!(alike([observed(50e6, 1, 1), observed(90e3, 3, 3)], SLOT), None, "far apart");
        assert_eq!(
            alike([observed(f64::NAN, 1, 1), observed(90e3, 3, 3)], SLOT),
            None,
            "without times nothing is known"
        );
    }

    #[test]
    fn parts_of_different_work_are_about_as_long() {
        assert_eq!(shapes(alike([observed(50e3, 4, 4), observed(150e3, 2, 2)], SLOT)), Some([(6, 2), (2, 2)]));
        // A device that cannot cut its slots into parts.
        let whole = |iteration_ns, iterations| Seen { finest_part_ns: None, ..observed(iteration_ns, iterations, 1) };
        assert_eq!(shapes(alike([whole(50e3, 4), whole(52e3, 1)], SLOT)), Some([(4, 1); 2]));
    }

    #[test]
    fn heads_are_as_long_as_the_longer_one_needs() {
        let settled = |iteration_ns, iterations, parts, lead| {
            let arm = observed(iteration_ns, iterations, parts);
            Seen { slot: Slot { lead, ..arm.slot }, ..arm }
        };
        let both = |a, b| settled_alike([a, b], SLOT).map(|slot| (slot.iterations, slot.parts, slot.lead));
        assert_eq!(both(settled(150e3, 15, 5, 6), settled(157e3, 5, 5, 2)), [(15, 5, 6); 2], "equal work");
        assert_eq!(both(settled(10e3, 50, 5, 0), settled(20e3, 100, 5, 50)), [(200, 5, 100), (100, 5, 50)]);
        assert_eq!(both(settled(1e3, 500, 5, 50), settled(9e3, 56, 5, 6)), [(500, 5, 50), (56, 5, 6)], "far apart");
        assert_eq!(both(settled(8e6, 1, 1, 0), settled(8e6, 1, 1, 0)), [(1, 1, 0); 2]);
    }

    #[test]
    fn no_slot_loads_more_iterations_than_fit() {
        let few = Seen { max_iterations: 2, ..observed(50e3, 2, 2) };
        assert_eq!(shapes(alike([few, observed(51e3, 4, 4)], SLOT)), Some([(2, 2); 2]));
        let one = Seen { max_iterations: 1, ..observed(50e3, 1, 1) };
        assert_eq!(shapes(alike([one, observed(51e3, 4, 4)], SLOT)), Some([(1, 1); 2]));
    }

    #[test]
    fn the_fastest_part_gives_the_time() {
        let cut = Sample { iterations: 6, parts: Some(3), fastest_ns: Some(100), wall_ns: 900, ..Sample::default() };
        let whole = Sample { iterations: 2, wall_ns: 90, ..Sample::default() };
        let device = Sample { iterations: 2, wall_ns: 10, device_ns: Some(80), ..Sample::default() };
        assert_eq!(iteration_ns(&[cut]), Some(50.0));
        assert_eq!(iteration_ns(&[cut, whole]), Some(45.0));
        assert_eq!(iteration_ns(&[cut, whole, device]), Some(40.0));
        assert_eq!(iteration_ns(&[Sample::default()]), None, "a clock that stood still");
        assert_eq!(iteration_ns(&[]), None);
    }

    proptest! {
        /// Both arms get equal treatment in either order, the result needs no further change, and it fits the limits.
        #[test]
        fn shapes_are_fair_and_settled(
            times in prop::array::uniform2(1.0..1e7_f64),
            iterations in prop::array::uniform2(1_u64..3000),
            parts in prop::array::uniform2(1_u64..=5),
            most in prop::array::uniform2(1_u64..1 << 20),
            cut in any::<bool>(),
        ) {
            let arm = |i: usize| Seen {
                max_iterations: most[i].max(iterations[i] * parts[i]),
                finest_part_ns: cut.then_some(10_000),
                ..observed(times[i], iterations[i] * parts[i], if cut { parts[i] } else { 1 })
            };
            let arms = [arm(0), arm(1)];
            let found = alike(arms, SLOT);
            prop_assert_eq!(found, alike([arms[1], arms[0]], SLOT).map(|[a, b]| [b, a]));
            if let Some([a, b]) = found {
                prop_assert_eq!(a.parts, b.parts);
                for (slot, arm) in [a, b].iter().zip(&arms) {
                    prop_assert!(slot.iterations >= 1 && slot.iterations <= arm.max_iterations && slot.iterations % slot.parts == 0);
                    // With parts of equal length, rounding can leave the shorter one below the minimum.
                    let part_ns = slot.iterations as f64 / slot.parts as f64 * arm.iteration_ns;
                    prop_assert!(slot.parts == 1 || part_ns >= 10_000.0 / 1.5);
                }
                let again = [Seen { slot: a, ..arms[0] }, Seen { slot: b, ..arms[1] }];
                prop_assert_eq!(alike(again, SLOT).map(|_| ()), None, "{:?}", again);
            }
        }
    }
}
