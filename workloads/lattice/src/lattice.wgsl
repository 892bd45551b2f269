// The nested-lattice quantizer: the rules of `scalar.rs`, one vector per thread, with the same bits. A separate file
// per lattice, appended to this one, defines dimension, nearest points and coordinates.
//
// The input is scaled with one multiplication and one addition, each rounded separately; from there on everything is
// integer arithmetic. WGSL lets a driver fuse or reorder floating-point operations, so every result that must be
// rounded passes through `rounded`, whose exclusive-or with a zero that only the host knows hides it from the driver's
// compiler. 32 vectors take a whole number of 32-bit words of packed code, for any number of bits; a workgroup packs
// and unpacks its 64 vectors in shared memory and shares no word with another.

struct Code {
    // Number of vectors, or rows of a product.
    n: u32,
    levels: u32,
    level_bits: u32,
    q: u32,
    pow2: u32,
    // Maximum number of retries.
    cap: u32,
    // Bit 0: overload flags are requested; bit 1: retries are requested, or given; bit 2: a table is given.
    has: u32,
    // Number of indices per level; 0 for 2^64.
    points_low: u32,
    points_high: u32,
    zero: u32,
    // For a product: vectors per row, and the factor of its integers.
    blocks: u32,
    unit: f32,
}

@group(0) @binding(0) var<uniform> code: Code;

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> packed: array<u32>;
// Bytes, four per word.
@group(0) @binding(3) var<storage, read_write> overload: array<u32>;
@group(0) @binding(4) var<storage, read_write> retries: array<u32>;
// The shift of each coordinate (8 values), then the scales of retries 0 to cap, inverted for encoding.
@group(0) @binding(5) var<storage, read> constants: array<f32>;

@group(0) @binding(1) var<storage, read> coded: array<u32>;
@group(0) @binding(2) var<storage, read> tried: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
// The points of one level by index.
@group(0) @binding(4) var<storage, read> table: array<f32>;
@group(0) @binding(5) var<storage, read_write> decoded: array<f32>;
// The first vector with an invalid index.
@group(0) @binding(6) var<storage, read_write> bad: atomic<u32>;

@group(0) @binding(2) var<storage, read> query: array<i32>;
@group(0) @binding(3) var<storage, read> points: array<f32>;
@group(0) @binding(4) var<storage, read_write> scores: array<f32>;

alias Point = array<i32, D>;

const THREADS: u32 = 64;

fn rounded(v: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(v) ^ code.zero);
}

// 64-bit numbers, the lower half first.

fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn wide_product(a: u32, b: u32) -> vec2<u32> {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let low = al * bl;
    let one = al * bh;
    let other = ah * bl;
    let middle = (low >> 16u) + (one & 0xffffu) + (other & 0xffffu);
    return vec2<u32>((low & 0xffffu) | (middle << 16u), ah * bh + (one >> 16u) + (other >> 16u) + (middle >> 16u));
}

fn signed_product(a: i32, b: i32) -> vec2<u32> {
    var p = wide_product(bitcast<u32>(a), bitcast<u32>(b));
    p.y -= select(0u, bitcast<u32>(b), a < 0);
    p.y -= select(0u, bitcast<u32>(a), b < 0);
    return p;
}

fn as_float(v: vec2<u32>) -> f32 {
    let negative = v.y >= 0x80000000u;
    let size = select(v, add64(~v, vec2<u32>(1u, 0u)), negative);
    let sum = f32(size.y) * 4294967296.0 + f32(size.x);
    return select(sum, -sum, negative);
}

// v / by and, in the third component, v % by, for by <= 2^20.
fn divided(v: vec2<u32>, by: u32) -> vec3<u32> {
    if v.y == 0u {
        return vec3<u32>(v.x / by, 0u, v.x % by);
    }
    let first = (v.y % by) << 12u | v.x >> 20u;
    let second = (first % by) << 12u | (v.x >> 8u & 0xfffu);
    let third = (second % by) << 8u | (v.x & 0xffu);
    return vec3<u32>((first / by) << 20u | (second / by) << 8u | third / by, v.y / by, third % by);
}

// v rounded to an integer, halves to even; |v| <= 2^24.
fn round_even(v: f32) -> i32 {
    let size = abs(v);
    let small = bitcast<u32>(rounded(size + 8388608.0)) - 0x4b000000u;
    let large = bitcast<u32>(size) - 0x4b000000u + (1u << 23u);
    let whole = bitcast<i32>(select(large, small, size < 8388608.0));
    let sign = bitcast<i32>(v) >> 31u;
    return (whole ^ sign) - sign;
}

// t = n + u / 2^25 with u in [-2^24, 2^24).
fn split(t: f32) -> vec2<i32> {
    let magic = 12582912.0;
    let lifted = rounded(t + magic);
    let n = bitcast<i32>(lifted) - bitcast<i32>(magic);
    let e = rounded(t - rounded(lifted - magic));
    let u = round_even(rounded(e * 33554432.0));
    let up = (u >> 24u) & ~(u >> 31u);
    return vec2<i32>(n + up, u - (up << 25u));
}

fn floor_div(a: i32, b: i32) -> i32 {
    let k = a / b;
    return k - select(0, 1, a - k * b < 0);
}

// Q(g / q): stores the coarser point in g and g - q Q(g / q) in y.
fn descend(g: ptr<function, Point>, y: ptr<function, Point>) {
    let unit = i32(code.q) * SCALE;
    let shift = firstLeadingBit(u32(unit));
    for (var k = 0u; k < D; k++) {
        let moved = (*g)[k] + (unit >> 1u);
        var coarse = 0;
        if code.pow2 != 0u {
            coarse = moved >> shift;
        } else {
            coarse = floor_div(moved, unit);
        }
        (*y)[k] = (*g)[k] - coarse * unit;
        (*g)[k] = coarse;
    }
    settle(g, y, unit);
}

// The codes of 64 vectors, two words per bit of a vector. Levels of q^d points take 160 bits together, since q^levels
// stays below 2^20, and each of at most 20 levels rounds up to a whole bit.
var<workgroup> words: array<atomic<u32>, 360>;
var<workgroup> marks: array<u32, 64>;

fn put(at: u32, value: vec2<u32>, bits: u32) {
    var v = value;
    var bit = at;
    for (var left = bits; left > 0u;) {
        let room = 32u - bit % 32u;
        let some = min(room, left);
        let mask = select((1u << some) - 1u, 0xffffffffu, some == 32u);
        // Two vectors may share a word.
        atomicOr(&words[bit / 32u], (v.x & mask) << (bit % 32u));
        v = shifted_right(v, some);
        bit += some;
        left -= some;
    }
}

// For 0 < by <= 32.
fn shifted_right(v: vec2<u32>, by: u32) -> vec2<u32> {
    if by == 32u {
        return vec2<u32>(v.y, 0u);
    }
    return vec2<u32>(v.x >> by | v.y << (32u - by), v.y >> by);
}

// For 0 < by < 32.
fn shifted_left(v: vec2<u32>, by: u32) -> vec2<u32> {
    return vec2<u32>(v.x << by, v.y << by | v.x >> (32u - by));
}

// Inserts a part of fewer than 33 bits at bit `done` of a number that has zeros there.
fn with_part(v: vec2<u32>, part: u32, done: u32) -> vec2<u32> {
    if done >= 32u {
        return vec2<u32>(v.x, v.y | part << (done - 32u));
    }
    return vec2<u32>(v.x | part << done, v.y | select(part >> (32u - done), 0u, done == 0u));
}

fn low_bits(word: u32, from_bit: u32, bits: u32) -> u32 {
    return word >> from_bit & select((1u << bits) - 1u, 0xffffffffu, bits == 32u);
}

fn taken(at: u32, bits: u32) -> vec2<u32> {
    var v = vec2<u32>(0u, 0u);
    var bit = at;
    for (var done = 0u; done < bits;) {
        let some = min(32u - bit % 32u, bits - done);
        v = with_part(v, low_bits(atomicLoad(&words[bit / 32u]), bit % 32u, some), done);
        bit += some;
        done += some;
    }
    return v;
}

// The same from memory.
fn fetched(at: u32, bits: u32) -> vec2<u32> {
    var v = vec2<u32>(0u, 0u);
    var bit = at;
    for (var done = 0u; done < bits;) {
        let some = min(32u - bit % 32u, bits - done);
        v = with_part(v, low_bits(coded[bit / 32u], bit % 32u, some), done);
        bit += some;
        done += some;
    }
    return v;
}

// Encodes one vector into the workgroup's words; returns 1 if it is outside, plus 2 times its retries.
fn coded_vector(vector: u32, local: u32) -> u32 {
    let log_q = firstLeadingBit(code.q);
    var t = 0u;
    var g: Point;
    var finest: Point;
    var y: Point;
    var z: Point;
    loop {
        for (var k = 0u; k < D; k++) {
            var scaled = rounded(rounded(x[vector * D + k] * constants[8u + t]) + constants[k]);
            // NaN becomes the lower limit.
            scaled = select(-4194304.0, scaled, scaled > -4194304.0);
            scaled = select(4194304.0, scaled, scaled < 4194304.0);
            let parts = split(scaled);
            g[k] = parts.x;
            y[k] = parts.y;
        }
        settle(&g, &y, 1 << 25u);
        finest = g;
        if code.cap == 0u {
            break;
        }
        for (var m = 0u; m < code.levels; m++) {
            descend(&g, &y);
        }
        if !is_outside(&g) || t == code.cap {
            break;
        }
        t++;
    }
    g = finest;
    let vector_bits = code.levels * code.level_bits;
    for (var m = 0u; m < code.levels; m++) {
        descend(&g, &y);
        coordinates(&y, &z);
        var index = vec2<u32>(0u, 0u);
        for (var k = 0u; k < D; k++) {
            if code.pow2 != 0u {
                index = shifted_left(index, log_q);
                index.x |= bitcast<u32>(z[k]) & (code.q - 1u);
            } else {
                let rest = z[k] - floor_div(z[k], i32(code.q)) * i32(code.q);
                let more = wide_product(index.x, code.q);
                index = add64(vec2<u32>(more.x, more.y + index.y * code.q), vec2<u32>(u32(rest), 0u));
            }
        }
        put(local * vector_bits + m * code.level_bits, index, code.level_bits);
    }
    return select(0u, 1u, is_outside(&g)) | t << 1u;
}

fn is_outside(g: ptr<function, Point>) -> bool {
    var any = 0;
    for (var k = 0u; k < D; k++) {
        any |= (*g)[k];
    }
    return any != 0;
}

@compute @workgroup_size(64)
fn encode(me: Invocation) {
    let first = index(me) * THREADS;
    let vector_bits = code.levels * code.level_bits;
    for (var k = me.local; k < 2u * vector_bits; k += THREADS) {
        atomicStore(&words[k], 0u);
    }
    workgroupBarrier();
    if first + me.local < code.n {
        marks[me.local] = coded_vector(first + me.local, me.local);
    }
    workgroupBarrier();
    for (var k = me.local; k < 2u * vector_bits; k += THREADS) {
        // The buffer has room for the words of an incomplete last group of 32 vectors.
        if first + k / vector_bits * 32u < code.n {
            packed[first / 32u * vector_bits + k] = atomicLoad(&words[k]);
        }
    }
    if me.local < 16u && first + 4u * me.local < code.n {
        var flags = 0u;
        var tries = 0u;
        for (var k = 0u; k < 4u; k++) {
            let mark = marks[4u * me.local + k];
            flags |= (mark & 1u) << (8u * k);
            tries |= (mark >> 1u) << (8u * k);
        }
        if (code.has & 1u) != 0u {
            overload[first / 4u + me.local] = flags;
        }
        if (code.has & 2u) != 0u {
            retries[first / 4u + me.local] = tries;
        }
    }
}

// The point of one level index, doubled for E8.
fn index_point(given: vec2<u32>, y: ptr<function, Point>) {
    let log_q = firstLeadingBit(code.q);
    var index = given;
    var digits: Point;
    var g: Point;
    for (var j = 0u; j < D; j++) {
        let k = D - 1u - j;
        if code.pow2 != 0u {
            digits[k] = i32(index.x & (code.q - 1u));
            index = shifted_right(index, log_q);
        } else {
            let parts = divided(index, code.q);
            digits[k] = i32(parts.z);
            index = parts.xy;
        }
    }
    combine(&digits, &g);
    descend(&g, y);
}

fn is_no_index(v: vec2<u32>) -> bool {
    if code.points_low == 0u && code.points_high == 0u {
        return false;
    }
    return v.y > code.points_high || (v.y == code.points_high && v.x >= code.points_low);
}

fn decode_vector(vector: u32, local: u32) {
    let vector_bits = code.levels * code.level_bits;
    var sum: Point;
    var weight = 1;
    for (var m = 0u; m < code.levels; m++) {
        let index = taken(local * vector_bits + m * code.level_bits, code.level_bits);
        if is_no_index(index) {
            atomicMin(&bad, vector);
            return;
        }
        var y: Point;
        if (code.has & 4u) != 0u {
            for (var k = 0u; k < D; k++) {
                y[k] = i32(table[index.x * D + k] * f32(SCALE));
            }
        } else {
            index_point(index, &y);
        }
        for (var k = 0u; k < D; k++) {
            sum[k] += weight * y[k];
        }
        weight *= i32(code.q);
    }
    var t = 0u;
    if (code.has & 2u) != 0u {
        t = tried[vector / 4u] >> (8u * (vector % 4u)) & 0xffu;
    }
    for (var k = 0u; k < D; k++) {
        let centred = rounded(f32(sum[k]) / f32(SCALE) - scales[k]);
        decoded[vector * D + k] = centred * scales[8u + t];
    }
}

@compute @workgroup_size(64)
fn decode(me: Invocation) {
    let first = index(me) * THREADS;
    let vector_bits = code.levels * code.level_bits;
    for (var k = me.local; k < 2u * vector_bits; k += THREADS) {
        if first + k / vector_bits * 32u < code.n {
            atomicStore(&words[k], coded[first / 32u * vector_bits + k]);
        }
    }
    workgroupBarrier();
    if first + me.local < code.n {
        decode_vector(first + me.local, me.local);
    }
}

var<workgroup> sums: array<vec2<u32>, 64>;

// One row per workgroup: the dot product of its integers with the query's. All sums are exact.
@compute @workgroup_size(64)
fn dot_product(me: Invocation) {
    let row = index(me);
    let vector_bits = code.levels * code.level_bits;
    var sum = vec2<u32>(0u, 0u);
    if row < code.n {
        for (var block = me.local; block < code.blocks; block += THREADS) {
            let start = (row * code.blocks + block) * vector_bits;
            var weight = 1;
            var s: Point;
            for (var k = 0u; k < D; k++) {
                s[k] = 0;
            }
            for (var m = 0u; m < code.levels; m++) {
                let index = fetched(start + m * code.level_bits, code.level_bits);
                var y: Point;
                if (code.has & 4u) != 0u {
                    for (var k = 0u; k < D; k++) {
                        y[k] = i32(points[index.x * D + k] * f32(SCALE));
                    }
                } else {
                    index_point(index, &y);
                }
                for (var k = 0u; k < D; k++) {
                    s[k] += weight * y[k];
                }
                weight *= i32(code.q);
            }
            for (var k = 0u; k < D; k++) {
                sum = add64(sum, signed_product(s[k], query[block * D + k]));
            }
        }
    }
    sums[me.local] = sum;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if me.local < half {
            sums[me.local] = add64(sums[me.local], sums[me.local + half]);
        }
    }
    if me.local == 0u && row < code.n {
        scores[row] = as_float(sums[0]) * code.unit;
    }
}
