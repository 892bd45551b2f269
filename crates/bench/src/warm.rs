//! Bringing an implementation's data back into the caches before a slot of few iterations.

use ellwand_core::implementation::Prepared;

use crate::sample::Slot;

/// Slots with more iterations than this warm themselves: the first one is lost among the rest.
const FEW_ITERATIONS: u64 = 16;
/// Slots that take longer than this touch more than any cache holds, or compute so much that the caches do not matter.
const LONG_SLOT_NS: u64 = 20_000_000;

/// Runs once, untimed, when the slot to come is so short that it would mostly measure how the others of the round have
/// emptied the caches. Times stay comparable with those of a loop around one implementation, whatever the number of
/// implementations in the round.
///
/// # Errors
/// When the work fails on its device.
pub fn before_slot(prepared: &mut dyn Prepared, slot: Slot) -> Result<(), String> {
    if slot.iterations > FEW_ITERATIONS || slot.cost_ns > LONG_SLOT_NS {
        return Ok(());
    }
    prepared.run();
    prepared.sync()
}
