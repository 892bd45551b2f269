//! The backend's stream, for work enqueued by another library: PyTorch, CuPy, Triton.
//!
//! The library makes this stream its current one; the backend's gate and events then time the library's work like the
//! backend's own. Work that waits for the device or runs on another stream is timed on the host.

use std::time::{Duration, Instant};

use ellwand_core::device::Device;
use ellwand_core::{DeviceError, PrepareError, Reading};

use super::{Gpu, gate, gpu, job};

/// Waits for other streams shorter than this count as idle: the call itself takes some microseconds.
const IDLE: Duration = Duration::from_micros(20);

/// Shortest work on a device, in nanoseconds: no kernel takes less.
const SHORTEST_NS: u64 = 500;

/// Longest slot in nanoseconds, several times as long as real slots: there is no need to try more runs than fit into it.
const LONGEST_NS: u64 = 50_000_000;

/// The way in which another library's work is timed.
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
    index: u32,
    clock: Clock,
    /// Number of runs whose launches fit into the queue while the gate is closed.
    most: u64,
}

impl Stream {
    /// The stream of a device. Work enqueued from now on runs at once, until a slot begins.
    ///
    /// # Errors
    /// If the device has none that another library could use.
    pub fn of(device: &dyn Device) -> Result<Self, PrepareError> {
        let gpu = gpu(device)?.clone();
        let Some(handle) = gpu.stream() else {
            let why = format!("{} has no stream that another library could use", device.id());
            return Err(PrepareError::Unsupported(why));
        };
        // A preparation is timed, and must not wait for a closed gate.
        gpu.interrupt();
        let index = device.id().rsplit(':').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        Ok(Self { gpu, handle, index, clock: Clock::Device, most: 1 })
    }

    /// The driver's handle, `CUstream`, and the number of the device.
    pub fn place(&self) -> (u64, u32) {
        (self.handle, self.index)
    }

    /// How the work is timed.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Times the work on the host from now on.
    pub fn is_elsewhere(&mut self) {
        self.clock = Clock::Wall;
    }

    /// Finds out how `run`, which makes about `launches` launches, can be timed, and remembers it. `run` must have run
    /// before: the first run compiles and allocates, which waits for the device.
    pub fn probe(&mut self, launches: u64, run: &mut dyn FnMut()) {
        let work = match (self.shortest(0, run), self.shortest(1, run)) {
            (Some(nothing), Some(one)) => one.saturating_sub(nothing),
            _ => 0,
        };
        // A delay on the host looks like work on another stream, but not every time.
        if work < SHORTEST_NS || (0..5).all(|_| self.runs_elsewhere(run)) {
            self.clock = Clock::Wall;
            return;
        }
        self.most = (u64::from(gate::MAX_LAUNCHES - 1) / launches.max(1)).min(LONGEST_NS / work).max(1);
        // If there are more launches than declared, they fill the queue, and the host waits until the gate opens by itself.
        while self.most > 1 && self.shortest(self.most, run).is_none() {
            self.most /= 2;
        }
    }

    /// The shortest of three device times of `runs` runs; `None` if one is not valid.
    fn shortest(&self, runs: u64, run: &mut dyn FnMut()) -> Option<u64> {
        let times = (0..3).map(|_| {
            self.gpu.start();
            (0..runs).for_each(|_| run());
            self.gpu.sync().ok()?;
            self.gpu.stop()
        });
        times.collect::<Option<Vec<u64>>>()?.into_iter().min()
    }

    /// True if other streams still work when this one is idle.
    fn runs_elsewhere(&self, run: &mut dyn FnMut()) -> bool {
        run();
        if self.gpu.sync().is_err() {
            return false;
        }
        let idle = Instant::now();
        self.gpu.sync_all().is_ok() && idle.elapsed() > IDLE
    }

    /// Call before each run: work that is timed on the host must not wait for a closed gate.
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

    /// The maximum number of runs in a slot.
    pub fn most_iterations(&self) -> u64 {
        match self.clock {
            Clock::Device => self.most,
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

    /// A mock device on which a run takes `here_ns` on the stream (`None`: it waits). `room` runs fit into the queue, and
    /// the other streams take `elsewhere`.
    #[derive(Default)]
    struct Card {
        here_ns: Option<u64>,
        room: u64,
        elsewhere: Duration,
        ran: Arc<AtomicU64>,
        started: AtomicU64,
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
        fn start(&self) {
            self.started.store(self.ran.load(Relaxed), Relaxed);
        }
        fn stop(&self) -> Option<u64> {
            let runs = self.ran.load(Relaxed) - self.started.load(Relaxed);
            // Two events with nothing between them are a microsecond apart.
            self.here_ns.filter(|_| runs <= self.room).map(|ns| 1000 + runs * ns)
        }
    }

    fn probed(here_ns: Option<u64>, room: u64, elsewhere: Duration) -> (Stream, Arc<Card>) {
        let card = Arc::new(Card { here_ns, room, elsewhere, ..Card::default() });
        let mut stream = Stream::of(&GpuDevice::new("cuda:3".into(), card.clone())).unwrap();
        assert_eq!((stream.place(), card.interrupted.swap(0, Relaxed)), ((77, 3), 1));
        stream.probe(24, &mut || {
            card.ran.fetch_add(1, Relaxed);
        });
        (stream, card)
    }

    #[test]
    fn work_on_the_stream_has_the_device_clock_and_slots_that_fit_into_the_queue() {
        for (room, most) in [(1000, 20), (7, 5), (1, 1)] {
            let (stream, card) = probed(Some(2000), room, Duration::ZERO);
            assert_eq!((stream.clock(), stream.most_iterations()), (Clock::Device, most));
            stream.begin();
            assert_eq!(card.interrupted.load(Relaxed), 0);
        }
    }

    #[test]
    fn work_that_waits_or_runs_elsewhere_has_the_wall_clock_and_opens_the_gate() {
        for (here_ns, elsewhere) in
            [(None, Duration::ZERO), (Some(0), Duration::ZERO), (Some(2000), Duration::from_millis(20))]
        {
            let (stream, card) = probed(here_ns, 1000, elsewhere);
            assert_eq!(stream.clock(), Clock::Wall, "{here_ns:?} {elsewhere:?}");
            assert_eq!(stream.most_iterations(), u64::MAX);
            stream.begin();
            assert_eq!(card.interrupted.load(Relaxed), 1);
        }
    }
}
