//! One clock for slots that are compared.

use ellwand_core::record::Sample;

/// Gives the slots of all arms one clock: the device's if most slots of each arm have its time, else the host's. Rounds in
/// which a slot lacks the device's time, because the gate opened before all was queued, are left out. Returns a warning
/// if there were such rounds.
pub(crate) fn one_clock(arms: &mut [Vec<Sample>]) -> Option<String> {
    let is_timed = |sample: &&Sample| sample.device_ns.is_some();
    if !arms.iter().flatten().any(|sample| sample.device_ns.is_some()) {
        return None;
    }
    if arms.iter().any(|arm| 2 * arm.iter().filter(is_timed).count() <= arm.len()) {
        arms.iter_mut().flatten().for_each(|sample| sample.device_ns = None);
        return None;
    }
    let rounds: Vec<(u32, u32)> =
        arms.iter().flatten().filter(|sample| !is_timed(sample)).map(|sample| (sample.block, sample.round)).collect();
    let all = arms.first().map_or(0, Vec::len);
    for arm in &mut *arms {
        arm.retain(|sample| !rounds.contains(&(sample.block, sample.round)));
    }
    let left = arms.first().map_or(0, Vec::len);
    (left < all).then(|| {
        let late = all - left;
        format!("the host was too late to queue all launches in {late} of {all} slots, which have no device time and do not count")
    })
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
}
