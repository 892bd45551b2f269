// Kernels that each reach one limit of a GPU: bandwidth of copies, writes and reads, and the cost of a launch. A word
// has 8 bytes, two u32; arrays of odd length are accessed 8 bytes at a time, others 16.

struct Stream {
    // The number of words, as a u64 in two halves whose upper one is 0.
    n: u32,
    n_high: u32,
    low: u32,
    high: u32,
}

@group(0) @binding(0) var<uniform> stream: Stream;
@group(0) @binding(1) var<storage, read> x: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read> wide_x: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> wide_y: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> called: array<u32>;
@group(0) @binding(1) var<storage, read_write> filled: array<vec4<u32>>;

const THREADS: u32 = 256;

fn thread(me: Invocation) -> u32 {
    return index(me) * THREADS + me.local;
}

@compute @workgroup_size(1)
fn null_call() {
    // The byte that is checked, and three that are not.
    called[0] = 1;
}

@compute @workgroup_size(256)
fn copy_words(me: Invocation) {
    let step = me.groups.x * me.groups.y * THREADS;
    // Allocations are multiples of 16 bytes, so the pair that starts with the last odd word exists.
    for (var k = thread(me); k < (stream.n + 1) / 2; k += step) {
        wide_y[k] = wide_x[k];
    }
}

@compute @workgroup_size(256)
fn fill_words(me: Invocation) {
    let step = me.groups.x * me.groups.y * THREADS;
    let both = vec4<u32>(stream.low, stream.high, stream.low, stream.high);
    for (var k = thread(me); k < (stream.n + 1) / 2; k += step) {
        filled[k] = both;
    }
}

// a + b modulo 2^64.
fn sum64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

var<workgroup> parts: array<vec2<u32>, 256>;

// One sum per workgroup; a second launch with a single workgroup adds them up.
@compute @workgroup_size(256)
fn sum_words(me: Invocation) {
    let step = me.groups.x * me.groups.y * THREADS;
    var sum = vec2<u32>(0, 0);
    for (var k = thread(me); k < stream.n; k += step) {
        sum = sum64(sum, x[k]);
    }
    parts[me.local] = sum;
    for (var half = THREADS / 2; half > 0; half /= 2) {
        workgroupBarrier();
        if me.local < half {
            parts[me.local] = sum64(parts[me.local], parts[me.local + half]);
        }
    }
    if me.local == 0 {
        y[me.group.y * me.groups.x + me.group.x] = parts[0];
    }
}
