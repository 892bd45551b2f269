// The decoder at the animal's position: kernel sums at queries, and the log likelihood at every edge.
//
// A sum is stored as the base-2 exponent of its largest kernel and the sum relative to it, so that logarithms are
// subtracted before anything is rounded to their magnitude.

struct Sum {
    // Points, the stride between their coordinates, dimensions and features.
    points: u32,
    stride: u32,
    dims: u32,
    features: u32,
    // Queries of this launch, the first of them, and the stride between coordinates of queries.
    count: u32,
    first: u32,
    all: u32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> s: Sum;
// Pairs of f32 in units in which a kernel is 2^-distance^2: [dims, 2, stride], marks [features, stride].
@group(0) @binding(1) var<storage, read> places: array<f32>;
@group(0) @binding(2) var<storage, read> marks: array<f32>;
// [dims, 2, all], and marks [count, features].
@group(0) @binding(3) var<storage, read> queries: array<f32>;
@group(0) @binding(4) var<storage, read> decoded: array<f32>;
// Exponent and sum of each query of this launch.
@group(0) @binding(5) var<storage, read_write> sums: array<vec2<f32>>;

const LN_2: f32 = 0.69314718;
const GROUP: u32 = 128;

fn exponent(i: u32, q: u32) -> f32 {
    var sum = 0.0;
    for (var d = 0u; d < s.dims; d++) {
        let to = 2 * d * s.all + s.first + q;
        let at = 2 * d * s.stride + i;
        let difference = (places[at] - queries[to]) + (places[at + s.stride] - queries[to + s.all]);
        sum -= difference * difference;
    }
    for (var f = 0u; f < s.features; f++) {
        let difference = marks[f * s.stride + i] - decoded[q * s.features + f];
        sum -= difference * difference;
    }
    return sum;
}

var<workgroup> largest: array<f32, 128>;
var<workgroup> parts: array<vec2<f32>, 128>;

// One workgroup per query.
@compute @workgroup_size(128)
fn log_sums(me: Invocation) {
    let wanted = index(me);
    // Workgroups beyond the last repeat it, so that all threads reach the barriers; they write nothing.
    let q = min(wanted, s.count - 1);
    var most = -3.0e38;
    for (var i = me.local; i < s.points; i += GROUP) {
        most = larger(most, exponent(i, q));
    }
    largest[me.local] = most;
    for (var half = GROUP / 2; half > 0; half /= 2) {
        workgroupBarrier();
        if me.local < half {
            largest[me.local] = larger(largest[me.local], largest[me.local + half]);
        }
    }
    workgroupBarrier();
    let top = largest[0];
    var own = vec2<f32>(0.0, 0.0);
    for (var i = me.local; i < s.points; i += GROUP) {
        own = plus(own, vec2<f32>(exponential(LN_2 * (exponent(i, q) - top)), 0.0));
    }
    parts[me.local] = own;
    for (var half = GROUP / 2; half > 0; half /= 2) {
        workgroupBarrier();
        if me.local < half {
            parts[me.local] = plus(parts[me.local], parts[me.local + half]);
        }
    }
    if me.local == 0 && wanted < s.count {
        sums[q] = vec2<f32>(top, parts[0].x + parts[0].y);
    }
}

struct Electrode {
    edges: u32,
    // The first of its spikes among the queries.
    first: u32,
    // 1 if it has a model.
    heard: u32,
    // The floor of a term, and the logarithm below which there is no occupancy.
    low: f32,
    least: f32,
    // Constants added to the logarithm of occupancy and to the difference of two logarithms in a term.
    occupied: f32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> e: Electrode;
// Sums of the track, at edges and then at spikes; of this electrode's positions at edges; of its positions and marks at
// spikes.
@group(0) @binding(1) var<storage, read> of_track: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> of_places: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> of_marks: array<vec2<f32>>;
// The first spike of each edge, and an end marker.
@group(0) @binding(4) var<storage, read> starts: array<u32>;
@group(0) @binding(5) var<storage, read_write> likelihood: array<f32>;

@group(0) @binding(1) var<storage, read_write> cleared: array<f32>;

@compute @workgroup_size(128)
fn clear_local(me: Invocation) {
    let row = index(me) * GROUP + me.local;
    if row < e.edges {
        cleared[row] = 0.0;
    }
}

// Adds one electrode to every edge, one thread per edge.
@compute @workgroup_size(128)
fn add_local(me: Invocation) {
    let row = index(me) * GROUP + me.local;
    if row >= e.edges {
        return;
    }
    var sum = 0.0;
    let here = of_track[row];
    if e.heard == 1 && LN_2 * here.x + logarithm(here.y) + e.occupied >= e.least {
        let ground = of_places[row];
        // The constant of the kernels cancels, and so does the number of samples of both means.
        sum -= exponential(LN_2 * (ground.x - here.x)) * (ground.y / here.y);
    }
    for (var spike = starts[row]; spike < starts[row + 1]; spike++) {
        let place = of_track[e.first + spike];
        var term = e.low;
        if e.heard == 1 && LN_2 * place.x + logarithm(place.y) + e.occupied >= e.least {
            let joint = of_marks[spike];
            let value = LN_2 * (joint.x - place.x) + logarithm(joint.y / place.y) + e.scale;
            // A value below the floor is not larger, and neither is NaN.
            term = select(e.low, value, value > e.low);
        }
        sum += term;
    }
    likelihood[row] += sum;
}
