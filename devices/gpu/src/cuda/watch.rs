//! Device activity, recorded by CUPTI.

use ellwand_core::device::Activity;

use super::super::cupti::Cupti;
use super::super::find;
use super::Cuda;

impl Cuda {
    /// Starts the recording.
    pub(super) fn begin_watch(&self) -> Result<(), String> {
        let mut state = self.enter_disturbing().map_err(|error| error.to_string())?;
        if state.records.is_none() {
            state.records = Some(Cupti::open(&find::cupti()?)?);
        }
        let base = state.records.as_ref().map_or(Ok(0), Cupti::begin)?;
        state.watched_from = Some(base);
        Ok(())
    }

    /// Waits for all queued work and ends the recording.
    pub(super) fn end_watch(&self) -> Result<Vec<Activity>, String> {
        let mut state = self.enter_disturbing().map_err(|error| error.to_string())?;
        self.wait().map_err(|error| error.to_string())?;
        let base = state.watched_from.take().ok_or("nothing is being recorded")?;
        state.records.as_ref().map_or(Ok(Vec::new()), |records| records.end(base))
    }
}
