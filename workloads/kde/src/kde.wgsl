// The decoder's log likelihood, one electrode at a time: position kernels of every encoding spike at every bin, mark
// kernels of every decoding spike relative to its largest, their product (`product.wgsl`), and its logarithm added to
// the rows.

struct Electrode {
    // Number of encoding spikes, and the stride between features of their marks.
    spikes: u32,
    stride: u32,
    bins: u32,
    // Stride between coordinates of bins.
    padded: u32,
    dims: u32,
    features: u32,
    // Number of items: positions, decoding spikes, values of rows with spikes, or values of all rows, depending on the
    // kernel.
    n: u32,
    // The floor of a logarithm or of a rate, or the factor of a kernel sum.
    number: f32,
    // Spikes per position sample.
    rate: f32,
}

@group(0) @binding(0) var<uniform> e: Electrode;
// Coordinates as the sum of two f32, in units in which a kernel is 2^-distance^2: [dims, 2, padded].
@group(0) @binding(1) var<storage, read> grid: array<f32>;
@group(0) @binding(2) var<storage, read> places: array<f32>;
// Base-2 exponent of the largest position kernel at each bin.
@group(0) @binding(3) var<storage, read> nearest: array<f32>;
@group(0) @binding(4) var<storage, read_write> kernels: array<f32>;

@group(0) @binding(1) var<storage, read> marks: array<f32>;
@group(0) @binding(2) var<storage, read> heard: array<f32>;
@group(0) @binding(3) var<storage, read_write> weights: array<f32>;
@group(0) @binding(4) var<storage, read_write> shifts: array<f32>;

@group(0) @binding(1) var<storage, read> sums: array<f32>;
@group(0) @binding(2) var<storage, read> shift_of: array<f32>;
// Added to the logarithm at each bin.
@group(0) @binding(3) var<storage, read> offsets: array<f32>;
// Rows with spikes, each with its first spike, and an end marker.
@group(0) @binding(4) var<storage, read> rows: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read_write> likelihood: array<f32>;

@group(0) @binding(1) var<storage, read> ground: array<f32>;
@group(0) @binding(2) var<storage, read> silent: array<f32>;
@group(0) @binding(3) var<storage, read_write> started: array<f32>;

@group(0) @binding(3) var<storage, read_write> densities: array<f32>;

@group(0) @binding(1) var<storage, read> occupancy: array<f32>;
@group(0) @binding(2) var<storage, read> density: array<f32>;
@group(0) @binding(3) var<storage, read_write> process: array<f32>;

const LN_2: f32 = 0.69314718;
const GROUP: u32 = 128;

// Initialises every row: minus the ground process, plus the floor for each spike of an electrode without a model.
@compute @workgroup_size(128)
fn begin(me: Invocation) {
    let k = index(me) * GROUP + me.local;
    if k < e.n {
        started[k] = silent[k / e.bins] - ground[k % e.bins];
    }
}

// Position kernels [spikes, bins], relative to the largest at each bin.
@compute @workgroup_size(128)
fn position_kernels(me: Invocation) {
    let k = index(me) * GROUP + me.local;
    if k >= e.n {
        return;
    }
    let spike = k / e.bins;
    let bin = k % e.bins;
    kernels[k] = exponential(LN_2 * (-place_distance(spike, bin) - nearest[bin]));
}

fn place_distance(spike: u32, bin: u32) -> f32 {
    var distance = 0.0;
    for (var d = 0u; d < e.dims; d++) {
        let to = 2 * d * e.padded + bin;
        let at = 2 * d * e.stride + spike;
        let difference = (grid[to] - places[at]) + (grid[to + e.padded] - places[at + e.stride]);
        distance += difference * difference;
    }
    return distance;
}

var<workgroup> parts: array<vec2<f32>, 128>;

// The mean of position kernels at a bin, one workgroup each: over the encoding spikes, or over the samples of the
// track.
@compute @workgroup_size(128)
fn mean_kernel(me: Invocation) {
    let wanted = index(me);
    let bin = min(wanted, e.bins - 1);
    var own = vec2<f32>(0.0, 0.0);
    for (var i = me.local; i < e.spikes; i += GROUP) {
        own = plus(own, vec2<f32>(exponential(-LN_2 * place_distance(i, bin)), 0.0));
    }
    parts[me.local] = own;
    for (var half = GROUP / 2; half > 0; half /= 2) {
        workgroupBarrier();
        if me.local < half {
            parts[me.local] = plus(parts[me.local], parts[me.local + half]);
        }
    }
    if me.local == 0 && wanted < e.bins {
        densities[bin] = (parts[0].x + parts[0].y) * e.number;
    }
}

// Stores the ground process of the first electrode at each bin, and adds those of the others.
fn ground_of(bin: u32) -> f32 {
    var ratio = e.number;
    if occupancy[bin] > 0.0 {
        ratio = density[bin] / occupancy[bin];
    }
    return max(e.rate * ratio, e.number);
}

@compute @workgroup_size(128)
fn first_ground(me: Invocation) {
    let bin = index(me) * GROUP + me.local;
    if bin < e.bins {
        process[bin] = ground_of(bin);
    }
}

@compute @workgroup_size(128)
fn next_ground(me: Invocation) {
    let bin = index(me) * GROUP + me.local;
    if bin < e.bins {
        process[bin] += ground_of(bin);
    }
}

var<workgroup> least: array<f32, 128>;

fn mark_distance(spike: u32, mark: u32) -> f32 {
    var distance = 0.0;
    for (var f = 0u; f < e.features; f++) {
        let difference = marks[f * e.stride + spike] - heard[mark * e.features + f];
        distance += difference * difference;
    }
    return distance;
}

// Mark kernels [decoding spikes, spikes], relative to the largest of each decoding spike, and its base-2 exponent.
@compute @workgroup_size(128)
fn mark_kernels(me: Invocation) {
    let wanted = index(me);
    // Workgroups beyond the last repeat it, so that all threads reach the barriers; they write nothing.
    let mark = min(wanted, e.n - 1);
    var own = 3.0e38;
    for (var i = me.local; i < e.spikes; i += GROUP) {
        own = min(own, mark_distance(i, mark));
    }
    least[me.local] = own;
    for (var half = GROUP / 2; half > 0; half /= 2) {
        workgroupBarrier();
        if me.local < half {
            least[me.local] = min(least[me.local], least[me.local + half]);
        }
    }
    workgroupBarrier();
    if wanted >= e.n {
        return;
    }
    for (var i = me.local; i < e.spikes; i += GROUP) {
        weights[mark * e.spikes + i] = exponential(LN_2 * (least[0] - mark_distance(i, mark)));
    }
    if me.local == 0 {
        shifts[mark] = -least[0];
    }
}

// Adds the logarithms of this electrode's spikes to their rows; one thread per bin of a row, with all its spikes.
@compute @workgroup_size(128)
fn add_spikes(me: Invocation) {
    let k = index(me) * GROUP + me.local;
    if k >= e.n {
        return;
    }
    let at = k / e.bins;
    let bin = k % e.bins;
    var all = 0.0;
    for (var spike = rows[at].y; spike < rows[at + 1].y; spike++) {
        let sum = sums[spike * e.bins + bin];
        // Scaled away from subnormal numbers, which a device may flush to 0.
        let l = logarithm(sum * 18446744073709551616.0) - 64.0 * LN_2 + LN_2 * shift_of[spike] + offsets[bin];
        // A value below the floor is not larger, and neither is NaN.
        all += select(e.number, l, l > e.number && sum > 0.0);
    }
    likelihood[rows[at].x * e.bins + bin] += all;
}
