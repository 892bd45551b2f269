// Softmax over the keys that a query sees, and the attention core in one kernel: scores never leave the workgroup. Rows
// that see no key, or only keys with -infinity, give 0.

struct Attend {
    batch: u32,
    heads: u32,
    // Number of heads that share keys and values.
    group: u32,
    sequence: u32,
    head: u32,
    // Visible keys. 0: all; 1: up to the query's position; 2: within a length.
    mask: u32,
    scale: f32,
    q_start: u32,
    q_batch: u32,
    q_head: u32,
    q_row: u32,
    k_start: u32,
    v_start: u32,
    kv_batch: u32,
    kv_head: u32,
    kv_row: u32,
    out_batch: u32,
    out_head: u32,
    out_row: u32,
}

@group(0) @binding(0) var<uniform> p: Attend;
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k: array<f32>;
@group(0) @binding(3) var<storage, read> v: array<f32>;
@group(0) @binding(4) var<storage, read> lengths: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
@group(0) @binding(1) var<storage, read> scores: array<f32>;
@group(0) @binding(2) var<storage, read> limits: array<u32>;
@group(0) @binding(3) var<storage, read_write> weights: array<f32>;

const ROW: u32 = 128;
// Below every score: the maximum of no scores.
const LOWEST: f32 = -3.4e38;

var<workgroup> parts: array<f32, 128>;

fn visible(row: u32, length: u32) -> u32 {
    if p.mask == 1 {
        return row + 1;
    }
    return select(p.sequence, min(length, p.sequence), p.mask == 2);
}

@compute @workgroup_size(128)
fn softmax(me: Invocation) {
    let rows = p.batch * p.heads * p.sequence;
    let wanted = index(me);
    let here = min(wanted, rows - 1);
    let start = here * p.sequence;
    var length = 0u;
    if p.mask == 2 {
        length = limits[here / (p.heads * p.sequence)];
    }
    let seen = visible(here % p.sequence, length);
    var most = LOWEST;
    for (var j = me.local; j < seen; j += ROW) {
        most = larger(most, scores[start + j]);
    }
    parts[me.local] = most;
    for (var half = ROW / 2; half > 0; half /= 2) {
        workgroupBarrier();
        if me.local < half {
            parts[me.local] = larger(parts[me.local], parts[me.local + half]);
        }
    }
    workgroupBarrier();
    most = parts[0];
    workgroupBarrier();
    var sum = 0.0;
    for (var j = me.local; j < seen; j += ROW) {
        sum += exponential(scores[start + j] - most);
    }
    parts[me.local] = sum;
    for (var half = ROW / 2; half > 0; half /= 2) {
        workgroupBarrier();
        if me.local < half {
            parts[me.local] += parts[me.local + half];
        }
    }
    workgroupBarrier();
    sum = parts[0];
    if wanted >= rows {
        return;
    }
    for (var j = me.local; j < p.sequence; j += ROW) {
        var weight = 0.0;
        // For NaN, `sum == 0.0` is false, so NaN propagates.
        if j < seen && !(sum == 0.0) {
            weight = exponential(scores[start + j] - most) / sum;
        }
        weights[start + j] = weight;
    }
}

// A workgroup has 16 queries of a head, eight threads each, and processes 32 keys and values at a time.
const QUERIES: u32 = 16;
const KEYS: u32 = 32;
const LANES: u32 = 8;
// The most values per head, and per thread.
const HEAD: u32 = 128;
const OWN: u32 = 16;

var<workgroup> queries: array<f32, 2048>;
var<workgroup> tile: array<f32, 4096>;
var<workgroup> shares: array<f32, 512>;

@compute @workgroup_size(128)
fn fused(me: Invocation) {
    let tiles = (p.sequence + QUERIES - 1) / QUERIES;
    let wanted = index(me);
    let pair = min(wanted / tiles, p.batch * p.heads - 1);
    let batch = pair / p.heads;
    let head = pair % p.heads;
    let first = wanted % tiles * QUERIES;
    let r = me.local / LANES;
    let lane = me.local % LANES;
    let row = first + r;
    let q0 = p.q_start + batch * p.q_batch + head * p.q_head;
    let kv0 = batch * p.kv_batch + head / p.group * p.kv_head;
    var length = 0u;
    if p.mask == 2 {
        length = lengths[batch];
    }
    // The last row of the workgroup sees the most keys.
    let seen_by_all = min(visible(first + QUERIES - 1, length), p.sequence);
    let seen = visible(row, length);
    for (var e = me.local; e < QUERIES * p.head; e += 128) {
        let at = first + e / p.head;
        var value = 0.0;
        if at < p.sequence {
            value = q[q0 + at * p.q_row + e % p.head];
        }
        queries[e] = value;
    }
    var sums: array<f32, 16>;
    var most = LOWEST;
    var total = 0.0;
    for (var key0 = 0u; key0 < seen_by_all; key0 += KEYS) {
        for (var e = me.local; e < KEYS * p.head; e += 128) {
            let at = key0 + e / p.head;
            var value = 0.0;
            if at < p.sequence {
                value = k[p.k_start + kv0 + at * p.kv_row + e % p.head];
            }
            tile[e] = value;
        }
        workgroupBarrier();
        // Four keys per thread.
        for (var i = 0u; i < 4; i++) {
            let j = lane + LANES * i;
            var score = 0.0;
            for (var e = 0u; e < p.head; e++) {
                score += queries[r * p.head + e] * tile[j * p.head + e];
            }
            shares[r * KEYS + j] = score * p.scale;
        }
        workgroupBarrier();
        var next = most;
        for (var j = 0u; j < KEYS; j++) {
            if key0 + j < seen {
                next = larger(next, shares[r * KEYS + j]);
            }
        }
        workgroupBarrier();
        for (var i = 0u; i < 4; i++) {
            let j = lane + LANES * i;
            var share = 0.0;
            if key0 + j < seen {
                share = exponential(shares[r * KEYS + j] - next);
            }
            shares[r * KEYS + j] = share;
        }
        for (var e = me.local; e < KEYS * p.head; e += 128) {
            let at = key0 + e / p.head;
            var value = 0.0;
            if at < p.sequence {
                value = v[p.v_start + kv0 + at * p.kv_row + e % p.head];
            }
            tile[e] = value;
        }
        workgroupBarrier();
        let shrink = exponential(most - next);
        most = next;
        total *= shrink;
        for (var i = 0u; i < OWN; i++) {
            sums[i] *= shrink;
        }
        for (var j = 0u; j < KEYS; j++) {
            let share = shares[r * KEYS + j];
            total += share;
            for (var i = 0u; i < OWN; i++) {
                let e = lane + LANES * i;
                if e < p.head {
                    sums[i] += share * tile[j * p.head + e];
                }
            }
        }
        workgroupBarrier();
    }
    if row >= p.sequence || wanted / tiles >= p.batch * p.heads {
        return;
    }
    let to = batch * p.out_batch + head * p.out_head + row * p.out_row;
    for (var i = 0u; i < OWN; i++) {
        let e = lane + LANES * i;
        if e < p.head {
            // For NaN, `total == 0.0` is false, so NaN propagates.
            out[to + e] = select(sums[i] / total, 0.0, total == 0.0);
        }
    }
}
