//! CUDA graphs: launches captured once and enqueued with one call.
#![allow(unsafe_code)]

use cudarc::driver::{result, sys};

use super::super::{GpuError, Launch};
use super::Cuda;

impl Cuda {
    /// Captures the launches on the stream and instantiates a graph.
    pub(super) fn make_graph(&self, launches: &[Launch]) -> Result<usize, GpuError> {
        let mut state = self.enter_disturbing()?;
        for (kernel, grid, _) in launches {
            self.allow(&mut state, kernel.handle, *grid)?;
        }
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives as long as the process; no other thread enters while the state is locked.
        unsafe { result::stream::begin_capture(self.stream, mode) }.map_err(self.failed("cuStreamBeginCapture"))?;
        let queued = launches.iter().try_for_each(|(kernel, grid, args)| self.enqueue(kernel.handle, *grid, args));
        // SAFETY: ends the capture that was just begun, whether or not the launches succeeded.
        let graph = unsafe { result::stream::end_capture(self.stream) }.map_err(self.failed("cuStreamEndCapture"));
        queued?;
        let graph = graph?;
        // SAFETY: the graph was just captured; the executable graph does not need it any longer.
        unsafe {
            let made = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            let _ = sys::cuGraphDestroy(graph);
            let made = made.map_err(self.failed("cuGraphInstantiate"))?;
            sys::cuGraphUpload(made, self.stream).result().map_err(self.failed("cuGraphUpload"))?;
            Ok(made as usize)
        }
    }

    /// Enqueues a graph made by [`Cuda::make_graph`].
    pub(super) fn enqueue_graph(&self, graph: usize) -> Result<(), GpuError> {
        let mut state = self.enter()?;
        // SAFETY: made by `make_graph` and not yet destroyed.
        unsafe { sys::cuGraphLaunch(graph as sys::CUgraphExec, self.stream) }
            .result()
            .map_err(self.failed("cuGraphLaunch"))?;
        if state.gate().launched() {
            self.open_gate(&state);
        }
        Ok(())
    }

    /// Waits for the stream, then destroys a graph.
    pub(super) fn drop_graph(&self, graph: usize) {
        let Ok(_state) = self.enter_disturbing() else { return };
        let _ = self.wait();
        // SAFETY: made by `make_graph`, destroyed once, and no longer running.
        let _ = unsafe { sys::cuGraphExecDestroy(graph as sys::CUgraphExec) };
    }
}
