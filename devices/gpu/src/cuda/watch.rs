//! Device activity, recorded by CUPTI.

use ellwand_core::DeviceError;
use ellwand_core::device::Activity;

use super::super::cupti::Cupti;
use super::super::find;
use super::Cuda;

impl Cuda {
    /// Starts the recording.
    pub(super) fn begin_watch(&self) -> Result<(), DeviceError> {
        let mut state = self.enter_disturbing()?;
        if state.records.is_none() {
            state.records = Some(Cupti::open(&find::cupti()?)?);
        }
        let base = state.records.as_ref().map_or(Ok(0), Cupti::begin)?;
        state.watched_from = Some(base);
        Ok(())
    }

    /// Waits for all queued work and ends the recording.
    pub(super) fn end_watch(&self) -> Result<Vec<Activity>, DeviceError> {
        let mut state = self.enter_disturbing()?;
        self.wait()?;
        let base = state.watched_from.take().ok_or_else(|| DeviceError::new("nothing is being recorded"))?;
        Ok(state.records.as_ref().map_or(Ok(Vec::new()), |records| records.end(base))?)
    }
}
