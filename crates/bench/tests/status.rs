//! The device state after each slot, on a device that makes up its state.

mod common;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use common::{Act, AddOne, Bench, Clock, Fake};
use ellwand_core::device::slowed;
use ellwand_core::record::{Measurement, SlotState};
use ellwand_core::{CpuScope, Device, DeviceKind, Registry, Timing};

/// A card that overheats: from the third query on it reports a thermal limit, later a power limit too.
struct Hot {
    fake: Fake,
    asked: Arc<AtomicU64>,
    timing: Arc<AtomicBool>,
}

impl Device for Hot {
    fn id(&self) -> &str {
        "fake"
    }
    fn kind(&self) -> DeviceKind {
        DeviceKind::Cpu
    }
    fn about(&self) -> String {
        "a device that grows hot".into()
    }
    fn time(&self, scope: CpuScope, body: &mut dyn FnMut()) -> Timing {
        self.timing.store(true, SeqCst);
        let timing = self.fake.time(scope, body);
        self.timing.store(false, SeqCst);
        timing
    }
    fn state(&self) -> SlotState {
        assert!(!self.timing.load(SeqCst), "asked inside a slot");
        let slowed_by = match self.asked.fetch_add(1, SeqCst) {
            0 | 1 => 0,
            2 => slowed::HEAT,
            _ => slowed::POWER,
        };
        SlotState {
            clock_hz: Some(1_500_000_000),
            slowed_by: Some(slowed_by),
            device_bytes: Some(7),
            power_mw: Some(250),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn measured(hot: bool) -> Measurement {
    let mut bench = Bench { clock: Clock::default(), registry: Registry::new() };
    let fake = Fake(bench.clock.clone());
    bench.registry.device(if hot {
        Arc::new(Hot { fake, asked: Arc::default(), timing: Arc::default() })
    } else {
        Arc::new(fake)
    });
    bench.registry.workload(AddOne::default());
    bench.add("steady", |_| Act::Right(500));
    bench.measure().remove(0)
}

#[test]
fn every_slot_has_its_device_state_and_throttling_is_a_warning() {
    let hot = measured(true);
    assert!(hot.outcome.is_measured(), "{:?}", hot.outcome);
    let known =
        SlotState { clock_hz: Some(1_500_000_000), power_mw: Some(250), device_bytes: Some(7), slowed_by: None };
    for (index, sample) in hot.samples.iter().enumerate() {
        let slowed_by = [0, 0, slowed::HEAT].get(index).copied().unwrap_or(slowed::POWER);
        assert_eq!(sample.state, SlotState { slowed_by: Some(slowed_by), ..known }, "slot {index}");
    }
    let all = hot.samples.len();
    let said = format!("throttled: the device slowed itself down (power, heat) in {} of {all} slots", all - 2);
    assert!(hot.warnings.iter().any(|warning| warning.starts_with(&said)), "{:?}", hot.warnings);
    // The state survives a round trip through the record.
    let line = ellwand_core::record::line(&hot).unwrap();
    assert!(line.contains("\"slowed_by\":[0,0,2,1"), "{line}");
}

#[test]
fn a_device_without_status_adds_nothing_to_the_record() {
    let quiet = measured(false);
    assert!(quiet.samples.iter().all(|sample| sample.state == SlotState::default()));
    assert!(!quiet.warnings.iter().any(|warning| warning.contains("throttled")), "{:?}", quiet.warnings);
    let line = ellwand_core::record::line(&quiet).unwrap();
    assert!(!line.contains("slowed_by") && !line.contains("clock_hz"), "{line}");
}
