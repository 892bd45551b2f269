//! One clock for slots that are compared.

use std::collections::BTreeSet;

use ellwand_core::record::Sample;

/// Gives the slots of all arms one clock: the device's, in the rounds in which every arm has a device time, or the
/// host's if those are not the majority. Omits rounds without a device time, in which the gate opened before all work
/// was queued. Returns a warning if there were such rounds.
pub(crate) fn one_clock(arms: &mut [Vec<Sample>]) -> Option<String> {
    let slots = || arms.iter().flatten();
    let all: BTreeSet<_> = slots().map(round).collect();
    let late: BTreeSet<_> = slots().filter(|slot| slot.device_ns.is_none()).map(round).collect();
    if 2 * late.len() >= all.len() {
        arms.iter_mut().flatten().for_each(|slot| slot.device_ns = None);
        return None;
    }
    arms.iter_mut().for_each(|arm| arm.retain(|slot| !late.contains(&round(slot))));
    let (late, all) = (late.len(), all.len());
    (late > 0).then(|| {
        format!("the host was too late to queue all launches in {late} of {all} slots, which have no device time and do not count")
    })
}

fn round(slot: &Sample) -> (u32, u32) {
    (slot.block, slot.round)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(device_ns: &[Option<u64>]) -> Vec<Sample> {
        let samples = device_ns.iter().zip(0..);
        samples.map(|(ns, round)| Sample { round, wall_ns: 100, device_ns: *ns, ..Sample::default() }).collect()
    }

    #[test]
    fn a_late_slot_is_left_out_of_all_arms() {
        let mut arms = [arm(&[Some(1), None, Some(3)]), arm(&[Some(4), Some(5), Some(6)])];
        let said = one_clock(&mut arms).unwrap();
        assert!(said.contains("in 1 of 3 slots"), "{said}");
        assert_eq!(arms.map(|arm| arm.iter().map(|one| one.device_ns.unwrap()).collect::<Vec<_>>()), [[1, 3], [4, 6]]);
    }

    #[test]
    fn an_arm_without_device_time_puts_all_on_the_clock_of_the_host() {
        let mut arms = [arm(&[Some(1), Some(2)]), arm(&[None, None])];
        assert_eq!(one_clock(&mut arms), None);
        assert!(arms.iter().flatten().all(|sample| sample.device_ns.is_none()));
        assert_eq!(arms.map(|arm| arm.len()), [2, 2]);
    }

    #[test]
    fn where_every_round_lacks_one_no_round_is_left_out() {
        let mut arms = [arm(&[None, Some(1), Some(2)]), arm(&[Some(3), None, Some(4)]), arm(&[Some(5), Some(6), None])];
        assert_eq!(one_clock(&mut arms), None);
        assert!(arms.iter().all(|arm| arm.len() == 3 && arm.iter().all(|slot| slot.device_ns.is_none())));
    }
}
