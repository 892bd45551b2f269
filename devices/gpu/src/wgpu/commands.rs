//! What is to be done on the device, gathered until somebody waits, and the device's clock around it.
//!
//! A span of time on the device begins with the first launch after a wait and ends with the next wait, so that neither
//! what the host does before it launches nor its waiting is in it. The spans of a slot are added up.

/// Launches that are gathered before they are given to the device without waiting.
const MOST_LAUNCHES: u32 = 512;
/// Spans that one slot can time; beyond that the device's clock says nothing.
pub(super) const MOST_SPANS: u32 = 128;

/// Where the clock stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// Nothing is being timed.
    #[default]
    Idle,
    /// So many spans are over.
    Between(u32),
    /// The span with this number has begun.
    Inside(u32),
    /// There were too many.
    Broken,
}

impl Clock {
    /// Something is launched: the query that begins a span, where one begins now.
    pub(super) fn launched(&mut self) -> Option<u32> {
        let Clock::Between(spans) = *self else { return None };
        *self = if spans < MOST_SPANS { Clock::Inside(spans) } else { Clock::Broken };
        (*self != Clock::Broken).then_some(2 * spans)
    }

    /// Somebody waits: the query that ends the span, where one is open.
    pub(super) fn waited(&mut self) -> Option<u32> {
        let Clock::Inside(spans) = *self else { return None };
        *self = Clock::Between(spans + 1);
        Some(2 * spans + 1)
    }

    /// Back to idle; how many spans can be read, if any.
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

/// The list, in the order in which it will be done.
#[derive(Default)]
pub(super) struct Commands {
    // Before the encoder, which it borrows from in all but name: fields are dropped in order.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: Option<wgpu::CommandEncoder>,
    launches: u32,
    clock: Clock,
    queries: Option<Queries>,
}

impl Commands {
    /// Makes what the clock needs.
    pub(super) fn clock(&mut self, device: &wgpu::Device) {
        let (count, size) = (2 * MOST_SPANS, 16 * u64::from(MOST_SPANS));
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
        // A time is taken between passes, which end when they are dropped.
        self.pass = None;
        let Some(set) = self.queries.as_ref().map(|queries| queries.set.clone()) else { return };
        self.encoder(device).write_timestamp(&set, query);
    }

    /// Adds a launch.
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
        if self.launches >= MOST_LAUNCHES {
            self.submit(queue);
        }
    }

    /// Gives everything gathered to the device.
    pub(super) fn submit(&mut self, queue: &wgpu::Queue) {
        self.pass = None;
        self.launches = 0;
        if let Some(encoder) = self.encoder.take() {
            queue.submit([encoder.finish()]);
        }
    }

    /// Ends the span where one is open.
    pub(super) fn end_span(&mut self, device: &wgpu::Device) {
        if let Some(query) = self.clock.waited() {
            self.stamp(device, query);
        }
    }

    /// From here on launches are timed.
    pub(super) fn start(&mut self) {
        if self.queries.is_some() {
            self.clock = Clock::Between(0);
        }
    }

    /// Brings the times to where the host can read them: how many spans, and where.
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
