//! Commands, collected until the host waits, and the device's clock.
//!
//! A timed span begins with the first launch after a wait and ends with the next wait, so that it includes neither the
//! host's work before a launch nor its wait. The time of a slot is the sum of its spans.

/// Launches to collect before they are submitted without a wait.
const MAX_LAUNCHES: u32 = 512;
/// Maximum number of spans per slot; with more, the device time is invalid.
pub(super) const MAX_SPANS: u32 = 128;

/// State of the clock.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// Nothing is being timed.
    #[default]
    Idle,
    /// The count is of completed spans.
    Between(u32),
    /// The span with this number is open.
    Inside(u32),
    /// There were too many spans.
    Broken,
}

impl Clock {
    /// Call before a launch. Returns the query that opens a span, if one starts here.
    pub(super) fn launched(&mut self) -> Option<u32> {
        let Clock::Between(spans) = *self else { return None };
        *self = if spans < MAX_SPANS { Clock::Inside(spans) } else { Clock::Broken };
        (*self != Clock::Broken).then_some(2 * spans)
    }

    /// Call before a wait. Returns the query that closes the open span, if any.
    pub(super) fn waited(&mut self) -> Option<u32> {
        let Clock::Inside(spans) = *self else { return None };
        *self = Clock::Between(spans + 1);
        Some(2 * spans + 1)
    }

    /// Returns to idle. Returns the number of spans that can be read, if any.
    pub(super) fn stopped(&mut self) -> Option<u32> {
        match std::mem::take(self) {
            Clock::Between(spans) if spans > 0 => Some(spans),
            _ => None,
        }
    }
}

struct Queries {
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    staging: wgpu::Buffer,
}

/// Collected commands, in order.
#[derive(Default)]
pub(super) struct Commands {
    // Before the encoder, because fields drop in this order and the pass in effect borrows from the encoder.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: Option<wgpu::CommandEncoder>,
    launches: u32,
    clock: Clock,
    queries: Option<Queries>,
}

impl Commands {
    /// Creates the clock's query set and buffers.
    pub(super) fn clock(&mut self, device: &wgpu::Device) {
        let (count, size) = (2 * MAX_SPANS, 16 * u64::from(MAX_SPANS));
        let set = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("clock"),
            ty: wgpu::QueryType::Timestamp,
            count,
        });
        let buffer = |usage| {
            let label = Some("ticks");
            device.create_buffer(&wgpu::BufferDescriptor { label, size, usage, mapped_at_creation: false })
        };
        let resolved = buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC);
        let staging = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        self.queries = Some(Queries { set, resolved, staging });
    }

    fn encoder(&mut self, device: &wgpu::Device) -> &mut wgpu::CommandEncoder {
        let new = || device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        self.encoder.get_or_insert_with(new)
    }

    fn stamp(&mut self, device: &wgpu::Device, query: u32) {
        // Timestamps are written between passes; dropping a pass ends it.
        self.pass = None;
        let Some(set) = self.queries.as_ref().map(|queries| queries.set.clone()) else { return };
        self.encoder(device).write_timestamp(&set, query);
    }

    /// Appends a launch.
    pub(super) fn launch(
        &mut self,
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        pipeline: &wgpu::ComputePipeline,
        bound: Option<&wgpu::BindGroup>,
        [x, y]: [u32; 2],
    ) {
        if let Some(query) = self.clock.launched() {
            self.stamp(device, query);
        }
        if self.pass.is_none() {
            let encoder = self.encoder(device);
            self.pass = Some(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()).forget_lifetime());
        }
        if let Some(pass) = &mut self.pass {
            pass.set_pipeline(pipeline);
            if let Some(bound) = bound {
                pass.set_bind_group(0, bound, &[]);
            }
            pass.dispatch_workgroups(x, y, 1);
        }
        self.launches += 1;
        if self.launches >= MAX_LAUNCHES {
            self.submit(queue);
        }
    }

    /// Submits all collected commands.
    pub(super) fn submit(&mut self, queue: &wgpu::Queue) {
        self.pass = None;
        self.launches = 0;
        if let Some(encoder) = self.encoder.take() {
            queue.submit([encoder.finish()]);
        }
    }

    /// Ends the open span, if any.
    pub(super) fn end_span(&mut self, device: &wgpu::Device) {
        if let Some(query) = self.clock.waited() {
            self.stamp(device, query);
        }
    }

    /// Starts to time launches.
    pub(super) fn start(&mut self) {
        if self.queries.is_some() {
            self.clock = Clock::Between(0);
        }
    }

    /// Copies the timestamps to memory that the host can map. Returns the number of spans and that buffer.
    pub(super) fn stop(&mut self, device: &wgpu::Device, queue: &wgpu::Queue) -> Option<(usize, wgpu::Buffer)> {
        self.end_span(device);
        let spans = self.clock.stopped()?;
        self.pass = None;
        let Queries { set, resolved, staging } = self.queries.as_ref()?;
        let (set, resolved, staging) = (set.clone(), resolved.clone(), staging.clone());
        let encoder = self.encoder(device);
        encoder.resolve_query_set(&set, 0..2 * spans, &resolved, 0);
        encoder.copy_buffer_to_buffer(&resolved, 0, &staging, 0, 16 * u64::from(spans));
        self.submit(queue);
        Some((spans as usize, staging))
    }
}
