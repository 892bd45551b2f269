// The decoder's log likelihood, an electrode at a time: position kernels of every encoding spike at every bin, mark kernels
// of every decoding spike with its largest taken out, their product (`product.wgsl`), and its logarithm added to the rows.

struct Electrode {
    // Encoding spikes, and how far apart features of their marks lie.
    spikes: u32,
    stride: u32,
    bins: u32,
    // How far apart coordinates of bins lie.
    padded: u32,
    dims: u32,
    features: u32,
    // Of what a kernel does one of: places, decoding spikes, values of rows with spikes, values of all rows.
    n: u32,
    // The floor of a logarithm or of a rate, or what a sum of kernels is multiplied by.
    number: f32,
    // Spikes a position sample.
    rate: f32,
}

@group(0) @binding(0) var<uniform> e: Electrode;
// Coordinates as the sum of two f32, in units in which a kernel is 2^-distance^2: [dims, 2, padded].
@group(0) @binding(1) var<storage, read> grid: array<f32>;
@group(0) @binding(2) var<storage, read> places: array<f32>;
// The exponent of 2 of the largest position kernel at each bin.
@group(0) @binding(3) var<storage, read> nearest: array<f32>;
@group(0) @binding(4) var<storage, read_write> kernels: array<f32>;

@group(0) @binding(1) var<storage, read> marks: array<f32>;
@group(0) @binding(2) var<storage, read> heard: array<f32>;
@group(0) @binding(3) var<storage, read_write> weights: array<f32>;
@group(0) @binding(4) var<storage, read_write> shifts: array<f32>;

@group(0) @binding(1) var<storage, read> sums: array<f32>;
@group(0) @binding(2) var<storage, read> shift_of: array<f32>;
// What is added to the logarithm at each bin.
@group(0) @binding(3) var<storage, read> offsets: array<f32>;
// Rows that hold spikes, each with its first spike, and one more.
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

// Every row before any spike: less the ground process, and the floor for each spike of an electrode that has no model.
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

// The mean of position kernels at a bin, a group each: the encoding spikes, or the samples of the track.
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

// The ground process of one electrode at each bin is put there, or added where another was before.
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

// Mark kernels [decoding spikes, spikes], relative to the largest of each decoding spike, and that one's exponent of 2.
@compute @workgroup_size(128)
fn mark_kernels(me: Invocation) {
    let wanted = index(me);
    // Groups beyond the last do it again, so that all threads meet at the barriers; they write nothing.
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

// Adds the logarithms of this electrode's spikes to their rows; a thread has a bin of a row and all of its spikes.
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
        // Away from the smallest numbers, of which a device may know none.
        let l = logarithm(sum * 18446744073709551616.0) - 64.0 * LN_2 + LN_2 * shift_of[spike] + offsets[bin];
        // Neither what is below the floor nor NaN is larger.
        all += select(e.number, l, l > e.number && sum > 0.0);
    }
    likelihood[rows[at].x * e.bins + bin] += all;
}
