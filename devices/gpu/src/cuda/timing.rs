//! Device time: two events on the stream, and the gate that holds the stream back while the host queues work.
#![allow(unsafe_code)]

use cudarc::driver::result;

use super::super::gate::{self, Gate};
use super::super::{Arg, GpuError, Grid};
use super::Cuda;

impl Cuda {
    /// Closes the gate and records the start event.
    pub(super) fn try_start(&self) -> Result<(), GpuError> {
        let mut state = self.enter()?;
        *state.gate() = Gate::Idle;
        let kernel = match state.gate_kernel {
            Some(kernel) => kernel,
            None => {
                let kernel = self.function(&mut state, &gate::SOURCE, "gate")?;
                state.gate_kernel = Some(kernel);
                kernel
            }
        };
        state.ticket = state.ticket.wrapping_add(1);
        self.enqueue(
            kernel,
            Grid::line(1, 1),
            &[Arg::At(self.opened_on_device), Arg::U32(state.ticket), Arg::U64(gate::LIMIT_NS)],
        )?;
        *state.gate() = Gate::Closed(0);
        // SAFETY: event and stream live as long as the process.
        let recorded = unsafe { result::event::record(self.events[0], self.stream) };
        if recorded.is_err() && state.gate().disturbed() {
            self.open_gate(&state);
        }
        recorded.map_err(self.failed("cuEventRecord"))
    }

    /// Nanoseconds between the two events; `None` if something disturbed them.
    pub(super) fn try_stop(&self) -> Result<Option<u64>, GpuError> {
        let mut state = self.enter()?;
        self.end(&mut state)?;
        if !state.gate().stopped() {
            return Ok(None);
        }
        self.wait()?;
        // SAFETY: pinned memory that lives as long as the process.
        let late = unsafe { self.opened.add(1).read_volatile() };
        if late == state.ticket {
            // The gate timed out while the host was still queueing, so the time includes gaps.
            return Ok(None);
        }
        // SAFETY: both events were recorded on the stream, which has been synchronised.
        let ms = unsafe { result::event::elapsed(self.events[0], self.events[1]) }
            .map_err(self.failed("cuEventElapsedTime"))?;
        Ok(Some((f64::from(ms) * 1e6).round() as u64))
    }
}
