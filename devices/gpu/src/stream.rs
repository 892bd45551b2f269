//! The backend's stream, for work that another library enqueues: PyTorch, CuPy, Triton.
//!
//! The library makes this stream its current one; then the gate and the events of the backend time its work as they
//! time the backend's own. Work that waits for the device or runs on another stream has wall time only.

use std::time::{Duration, Instant};

use ellwand_core::device::Device;
use ellwand_core::{DeviceError, PrepareError, Reading};

use super::{Gpu, gate, gpu, job};

/// Wait for other streams below which they count as idle: the host's own delays reach some microseconds.
const IDLE: Duration = Duration::from_micros(20);

/// Shortest work on a device, in nanoseconds: no kernel takes less.
const SHORTEST_NS: u64 = 500;

/// How the work of another library is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Between two events on the stream.
    Device,
    /// On the host, until every stream is idle: the work waits for the device, or runs on another stream.
    Wall,
}

/// A stream on which another library enqueues its work.
pub struct Stream {
    gpu: Gpu,
    handle: u64,
    clock: Clock,
}

impl Stream {
    /// The stream of a device.
    ///
    /// # Errors
    /// If the device has none that another library could use.
    pub fn of(device: &dyn Device) -> Result<Self, PrepareError> {
        let gpu = gpu(device)?.clone();
        let Some(handle) = gpu.stream() else {
            let why = format!("{} has no stream that another library could use", device.id());
            return Err(PrepareError::Unsupported(why));
        };
        Ok(Self { gpu, handle, clock: Clock::Device })
    }

    /// The driver's handle, `CUstream`.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// How the work is timed.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Times the work on the host from now on.
    pub fn is_elsewhere(&mut self) {
        self.clock = Clock::Wall;
    }

    /// Finds out how `run` can be timed, and remembers it. It must have run before: a first run compiles and allocates,
    /// which waits for the device.
    pub fn probe(&mut self, run: &mut dyn FnMut()) {
        // Twice, since a delay of the host looks like work on another stream.
        let elsewhere = (0..2).all(|_| self.runs_elsewhere(run));
        let here = match (self.shortest(&mut || {}), self.shortest(run)) {
            (Some(nothing), Some(one)) => one > nothing + SHORTEST_NS,
            _ => false,
        };
        if elsewhere || !here {
            self.clock = Clock::Wall;
        }
    }

    /// The shortest of three device times; `None` if one is not valid, as behind work that waits for the device.
    fn shortest(&self, body: &mut dyn FnMut()) -> Option<u64> {
        let times = (0..3).map(|_| {
            self.gpu.start();
            body();
            self.gpu.sync().ok()?;
            self.gpu.stop()
        });
        times.collect::<Option<Vec<u64>>>()?.into_iter().min()
    }

    /// True if other streams still work when this one is idle.
    fn runs_elsewhere(&self, run: &mut dyn FnMut()) -> bool {
        let start = Instant::now();
        run();
        let mine = self.gpu.sync().map(|()| start.elapsed());
        let all = self.gpu.sync_all().map(|()| start.elapsed());
        let (Ok(mine), Ok(all)) = (mine, all) else { return false };
        let rest = all.saturating_sub(mine);
        rest > IDLE && rest * 10 > mine
    }

    /// Call before each run: work that is timed on the host must not wait behind the gate.
    pub fn begin(&self) {
        if self.clock == Clock::Wall {
            self.gpu.interrupt();
        }
    }

    /// Waits until the work is done.
    ///
    /// # Errors
    /// If it failed.
    pub fn sync(&self) -> Result<(), DeviceError> {
        match self.clock {
            Clock::Device => self.gpu.sync()?,
            Clock::Wall => self.gpu.sync_all()?,
        }
        Ok(())
    }

    /// Most runs of at most `launches` launches that fit in the queue behind the gate.
    pub fn most_iterations(&self, launches: u64) -> u64 {
        match self.clock {
            Clock::Device => (u64::from(gate::MOST_LAUNCHES - 1) / launches.max(1)).max(1),
            Clock::Wall => u64::MAX,
        }
    }

    /// State of the device, read once after the last slot.
    pub fn readings(&self) -> Vec<Reading> {
        job::state(&self.gpu)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread::sleep;

    use super::super::{Arg, Backend, GpuDevice, GpuError, Grid, Kernel, Source};
    use super::*;

    /// A device on which a body takes `here_ns` on the stream (`None`: it waits), and the other streams take `elsewhere`.
    #[derive(Default)]
    struct Card {
        here_ns: Option<u64>,
        elsewhere: Duration,
        ran: Arc<AtomicU64>,
        counted: AtomicU64,
        interrupted: AtomicU64,
    }

    impl Backend for Card {
        fn about(&self) -> String {
            "a card".into()
        }
        fn alloc(&self, _: usize) -> Result<u64, GpuError> {
            Ok(0)
        }
        fn free(&self, _: u64) {}
        fn upload(&self, _: u64, _: &[u8]) -> Result<(), GpuError> {
            Ok(())
        }
        fn download(&self, _: u64, _: &mut [u8]) -> Result<(), GpuError> {
            Ok(())
        }
        fn fill(&self, _: u64, _: u8, _: usize) -> Result<(), GpuError> {
            Ok(())
        }
        fn kernel(&self, _: &'static Source, _: &str) -> Result<Kernel, GpuError> {
            Ok(Kernel::default())
        }
        fn launch(&self, _: &Kernel, _: Grid, _: &[Arg]) -> Result<(), GpuError> {
            Ok(())
        }
        fn flush(&self) -> Result<(), GpuError> {
            Ok(())
        }
        fn multiprocessors(&self) -> u32 {
            1
        }
        fn stream(&self) -> Option<u64> {
            Some(77)
        }
        fn sync(&self) -> Result<(), GpuError> {
            Ok(())
        }
        fn sync_all(&self) -> Result<(), GpuError> {
            sleep(self.elsewhere);
            Ok(())
        }
        fn interrupt(&self) {
            self.interrupted.fetch_add(1, Relaxed);
        }
        fn stop(&self) -> Option<u64> {
            let ran = self.ran.load(Relaxed);
            let bodies = ran - self.counted.swap(ran, Relaxed);
            // Two events with nothing between them are a microsecond apart.
            self.here_ns.map(|ns| 1000 + bodies * ns)
        }
    }

    fn probed(here_ns: Option<u64>, elsewhere: Duration) -> (Stream, Arc<Card>) {
        let card = Arc::new(Card { here_ns, elsewhere, ..Card::default() });
        let mut stream = Stream::of(&GpuDevice::new("cuda:0".into(), card.clone())).unwrap();
        assert_eq!(stream.handle(), 77);
        stream.probe(&mut || {
            card.ran.fetch_add(1, Relaxed);
        });
        (stream, card)
    }

    #[test]
    fn work_on_the_stream_has_the_device_clock_and_slots_that_fit_the_queue() {
        let (stream, card) = probed(Some(2000), Duration::ZERO);
        assert_eq!(stream.clock(), Clock::Device);
        assert_eq!((stream.most_iterations(24), stream.most_iterations(1000)), (20, 1));
        stream.begin();
        assert_eq!(card.interrupted.load(Relaxed), 0);
    }

    #[test]
    fn work_that_waits_or_runs_elsewhere_has_the_wall_clock_and_never_stops_behind_the_gate() {
        for (here_ns, elsewhere) in
            [(None, Duration::ZERO), (Some(0), Duration::ZERO), (Some(2000), Duration::from_millis(20))]
        {
            let (stream, card) = probed(here_ns, elsewhere);
            assert_eq!(stream.clock(), Clock::Wall, "{here_ns:?} {elsewhere:?}");
            assert_eq!(stream.most_iterations(24), u64::MAX);
            stream.begin();
            assert_eq!(card.interrupted.load(Relaxed), 1);
        }
    }
}
