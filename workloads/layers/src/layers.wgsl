// The layer operations in f32. Activations and squared errors are elementwise; normalisation, softmax and cross-entropy
// use one workgroup per row. NaN and infinity behave as on the CPU.
//
// Functions that this file does not define are in `portable.wgsl`, which is appended.

struct Shape {
    // Number of elements, or of rows.
    n: u32,
    // Length of a row.
    d: u32,
    // Added to a variance, or the factor of a sum.
    number: f32,
    // 1 if there is a second array.
    second: u32,
}

@group(0) @binding(0) var<uniform> shape: Shape;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> second: array<f32>;
// Elementwise operations.
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> alone: array<f32>;
// Sums, each as a pair of a number and its rounding error.
@group(0) @binding(3) var<storage, read_write> sums: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read> summands: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> total: array<f32>;
// Normalisation.
@group(0) @binding(3) var<storage, read> gamma: array<f32>;
@group(0) @binding(4) var<storage, read> beta: array<f32>;
@group(0) @binding(5) var<storage, read_write> normalised: array<f32>;
@group(0) @binding(6) var<storage, read_write> added: array<f32>;
// Cross-entropy: 64-bit labels, sums, losses.
@group(0) @binding(2) var<storage, read> labels: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> losses: array<f32>;

// Threads per workgroup: for elementwise operations, and per row.
const SPREAD: u32 = 256;
const ROW: u32 = 128;

fn gelu_exact(v: f32) -> f32 {
    let tail = 0.5 * erfc(abs(v) * 0.70710678);
    return v * select(tail, 1.0 - tail, v > 0.0);
}

fn swish_of(v: f32) -> f32 {
    return v / (1.0 + exponential(-v));
}

@compute @workgroup_size(256)
fn gelu(me: Invocation) {
    let k = index(me) * SPREAD + me.local;
    if k < shape.n {
        alone[k] = gelu_exact(x[k]);
    }
}

@compute @workgroup_size(256)
fn gelu_approximate(me: Invocation) {
    let k = index(me) * SPREAD + me.local;
    if k < shape.n {
        alone[k] = gelu_tanh(x[k]);
    }
}

@compute @workgroup_size(256)
fn bias_gelu(me: Invocation) {
    let k = index(me) * SPREAD + me.local;
    if k < shape.n {
        y[k] = gelu_exact(x[k] + second[k % shape.d]);
    }
}

@compute @workgroup_size(256)
fn bias_gelu_approximate(me: Invocation) {
    let k = index(me) * SPREAD + me.local;
    if k < shape.n {
        y[k] = gelu_tanh(x[k] + second[k % shape.d]);
    }
}

@compute @workgroup_size(256)
fn swish(me: Invocation) {
    let k = index(me) * SPREAD + me.local;
    if k < shape.n {
        alone[k] = swish_of(x[k]);
    }
}

@compute @workgroup_size(256)
fn swiglu(me: Invocation) {
    let k = index(me) * SPREAD + me.local;
    if k < shape.n {
        y[k] = swish_of(x[k]) * second[k];
    }
}

@compute @workgroup_size(256)
fn squared_errors(me: Invocation) {
    let k = index(me) * SPREAD + me.local;
    if k < shape.n {
        y[k] = (x[k] - second[k]) * (x[k] - second[k]);
    }
}

var<workgroup> pairs: array<vec2<f32>, 256>;

// The sum over all threads of a workgroup of 256, in thread 0.
fn sum_of_pairs(own: vec2<f32>, local: u32) -> vec2<f32> {
    pairs[local] = own;
    for (var half = SPREAD / 2; half > 0; half /= 2) {
        workgroupBarrier();
        if local < half {
            pairs[local] = plus(pairs[local], pairs[local + half]);
        }
    }
    return pairs[0];
}

// The sum of squared differences: one sum per workgroup.
@compute @workgroup_size(256)
fn squared_error_sums(me: Invocation) {
    var own = vec2<f32>(0.0, 0.0);
    let step = me.groups.x * me.groups.y * SPREAD;
    for (var k = index(me) * SPREAD + me.local; k < shape.n; k += step) {
        let difference = x[k] - second[k];
        own = plus(own, vec2<f32>(difference * difference, 0.0));
    }
    let sum = sum_of_pairs(own, me.local);
    if me.local == 0 {
        sums[index(me)] = sum;
    }
}

// Adds up n sums and scales the result, in one workgroup.
@compute @workgroup_size(256)
fn reduce_sums(@builtin(local_invocation_index) local: u32) {
    var own = vec2<f32>(0.0, 0.0);
    for (var k = local; k < shape.n; k += SPREAD) {
        own = plus(own, summands[k]);
    }
    let sum = sum_of_pairs(own, local);
    if local == 0 {
        total[0] = (sum.x + sum.y) * shape.number;
    }
}

var<workgroup> parts: array<f32, 128>;

// The sum over all threads of a workgroup of 128; every thread gets it.
fn over_row(own: f32, local: u32) -> f32 {
    workgroupBarrier();
    parts[local] = own;
    for (var half = ROW / 2; half > 0; half /= 2) {
        workgroupBarrier();
        if local < half {
            parts[local] += parts[local + half];
        }
    }
    workgroupBarrier();
    return parts[0];
}

fn largest_of_row(own: f32, local: u32) -> f32 {
    workgroupBarrier();
    parts[local] = own;
    for (var half = ROW / 2; half > 0; half /= 2) {
        workgroupBarrier();
        if local < half {
            parts[local] = larger(parts[local], parts[local + half]);
        }
    }
    workgroupBarrier();
    return parts[0];
}

// A value to normalise: x, or x + second.
fn value(k: u32) -> f32 {
    if shape.second != 0 {
        return x[k] + second[k];
    }
    return x[k];
}

// The mean of a row, from the sum of each thread's values. It passes through shared memory, which rounds it once for all
// that use it: a compiler may otherwise subtract the unrounded product in one place and the rounded mean in another.
fn mean_of_row(own: f32, local: u32) -> f32 {
    let mean = over_row(own, local) / f32(shape.d);
    workgroupBarrier();
    if local == 0 {
        parts[0] = mean;
    }
    workgroupBarrier();
    return parts[0];
}

// Layer normalisation of x, or of x + second, which is then stored in `added`. The first mean is slightly off; the
// differences from it give its error, and with their squares the variance, so that rows far from 0 keep their precision.
@compute @workgroup_size(128)
fn layer_norm(me: Invocation) {
    let here = index(me);
    // Workgroups beyond the last row repeat it, so that all threads reach the barriers; they write nothing.
    let row = min(here, shape.n - 1) * shape.d;
    var sum = 0.0;
    for (var k = me.local; k < shape.d; k += ROW) {
        sum += value(row + k);
    }
    let mean = mean_of_row(sum, me.local);
    var differences = 0.0;
    var squares = 0.0;
    for (var k = me.local; k < shape.d; k += ROW) {
        let difference = value(row + k) - mean;
        differences += difference;
        squares += difference * difference;
    }
    let off = mean_of_row(differences, me.local);
    let variance = over_row(squares, me.local) / f32(shape.d) - off * off + shape.number;
    let near = 1.0 / sqrt(variance);
    // One Newton step, since a root may be a few units off. It cannot help at the extremes of the range.
    let better = near * (1.5 - 0.5 * variance * near * near);
    let inverse = select(near, better, is_finite(better));
    if here >= shape.n {
        return;
    }
    for (var k = me.local; k < shape.d; k += ROW) {
        let v = value(row + k);
        normalised[row + k] = ((v - mean) - off) * inverse * gamma[k] + beta[k];
        if shape.second != 0 {
            added[row + k] = v;
        }
    }
}

// The largest value of a row and the sum of e^(x - largest). Each thread starts with a value of the row, so that a row
// of only -infinity needs no infinite constant.
fn log_sum(row: u32, local: u32) -> vec2<f32> {
    var own = x[row + min(local, shape.d - 1)];
    for (var k = local; k < shape.d; k += ROW) {
        own = larger(own, x[row + k]);
    }
    let most = largest_of_row(own, local);
    var part = 0.0;
    for (var k = local; k < shape.d; k += ROW) {
        part += exponential(x[row + k] - most);
    }
    return vec2<f32>(most, over_row(part, local));
}

@compute @workgroup_size(128)
fn softmax(me: Invocation) {
    let here = index(me);
    let row = min(here, shape.n - 1) * shape.d;
    let found = log_sum(row, me.local);
    if here >= shape.n {
        return;
    }
    let inverse = 1.0 / found.y;
    for (var k = me.local; k < shape.d; k += ROW) {
        alone[row + k] = exponential(x[row + k] - found.x) * inverse;
    }
}

// The loss of each row, as a pair for the sum and as a plain value.
@compute @workgroup_size(128)
fn cross_entropy(me: Invocation) {
    let here = index(me);
    let row = min(here, shape.n - 1) * shape.d;
    let found = log_sum(row, me.local);
    if me.local == 0 && here < shape.n {
        let loss = logarithm(found.y) + (found.x - x[row + labels[here].x]);
        sums[here] = vec2<f32>(loss, 0.0);
        losses[here] = loss;
    }
}
