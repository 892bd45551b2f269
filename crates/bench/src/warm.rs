//! Bringing an implementation's data and code back into the caches before its slot.

use ellwand_core::implementation::Prepared;

use crate::sample::Slot;

/// Slots that take longer than this touch more than any cache holds, or compute so much that the caches do not matter.
const LONG_SLOT_NS: u64 = 20_000_000;

/// Untimed runs before a slot: what fits into a twentieth of it, and at least one unless the slot is long; none before one that
/// is to start cold.
fn runs(slot: Slot) -> u64 {
    if !slot.caches().is_warm() {
        0
    } else if slot.iterations >= 20 {
        slot.iterations / 20
    } else {
        u64::from(slot.cost_ns <= LONG_SLOT_NS)
    }
}

/// Runs untimed, because until this moment the processor worked for the others of the round, or slept. Times stay
/// comparable with those of a loop around one implementation, whatever the number of implementations in the round.
///
/// # Errors
/// When the work fails on its device.
pub fn before_slot(prepared: &mut dyn Prepared, slot: Slot) -> Result<(), String> {
    for _ in 0..runs(slot) {
        prepared.run();
    }
    prepared.sync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_slots_start_warm_at_little_cost() {
        for (iterations, cost_ns, expected) in
            [(1000, 200_000, 50), (19, 200_000, 1), (1, 400_000, 1), (1, 50_000_000, 0)]
        {
            assert_eq!(runs(Slot::whole(iterations, cost_ns)), expected, "{iterations} {cost_ns}");
        }
        assert_eq!(runs(Slot::cold(50_000, 5_000_000)), 0);
    }
}
