// Products C = alpha A B in f32, many per launch: attention heads are products with strided rows. A workgroup computes
// a tile of 64 x 64 of C, a thread 4 x 4 of it, from 16 columns of A and 16 rows of B at a time.

struct Product {
    m: u32,
    n: u32,
    k: u32,
    // Products per batch; `group` of them share a B.
    heads: u32,
    group: u32,
    // 1 if B is [n, k].
    transposed: u32,
    // The rows of head h of batch b start at start + b batch + h head; then the stride between rows.
    a_start: u32,
    a_batch: u32,
    a_head: u32,
    a_row: u32,
    b_start: u32,
    b_batch: u32,
    b_head: u32,
    b_row: u32,
    c_batch: u32,
    c_head: u32,
    c_row: u32,
    alpha: f32,
    // Epilogue. Bit 0: add the bias of the column; bit 1: GELU, tanh form; bit 2: add an array with C's layout.
    last: u32,
    // Masked columns: of C, which become -infinity, or of A, which count as 0. 0: none; 1 and 3: of C and A beyond the
    // row's index; 2 and 4: of C and A beyond a length.
    mask: u32,
    // The bits of -infinity, for which WGSL has no literal.
    infinity: u32,
    products: u32,
}

@group(0) @binding(0) var<uniform> p: Product;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> added: array<f32>;
@group(0) @binding(5) var<storage, read> lengths: array<u32>;
@group(0) @binding(6) var<storage, read_write> c: array<f32>;

const TILE: u32 = 64;
const DEEP: u32 = 16;

var<workgroup> of_a: array<f32, 1024>;
var<workgroup> of_b: array<f32, 1024>;

@compute @workgroup_size(256)
fn product(me: Invocation) {
    let across = (p.n + TILE - 1) / TILE;
    let down = (p.m + TILE - 1) / TILE;
    let tile = index(me);
    let which = tile / (across * down);
    // Workgroups beyond the last product repeat it, so that all threads reach the barriers; they write nothing.
    let here = min(which, p.products - 1);
    let batch = here / p.heads;
    let head = here % p.heads;
    let row0 = tile / across % down * TILE;
    let column0 = tile % across * TILE;
    let a0 = p.a_start + batch * p.a_batch + head * p.a_head;
    let b0 = p.b_start + batch * p.b_batch + head / p.group * p.b_head;
    let x = me.local % 16;
    let y = me.local / 16;
    var sums: array<vec4<f32>, 4>;
    for (var deep = 0u; deep < p.k; deep += DEEP) {
        for (var i = 0u; i < 4; i++) {
            let e = me.local + 256 * i;
            let row = e / DEEP;
            let step = e % DEEP;
            var value = 0.0;
            let unseen = (p.mask == 3 && deep + step > row0 + row) || (p.mask == 4 && deep + step >= lengths[batch]);
            if row0 + row < p.m && deep + step < p.k && !unseen {
                value = a[a0 + (row0 + row) * p.a_row + deep + step];
            }
            of_a[step * TILE + row] = value;
            var other = 0.0;
            if p.transposed != 0 {
                if column0 + row < p.n && deep + step < p.k {
                    other = b[b0 + (column0 + row) * p.b_row + deep + step];
                }
                of_b[step * TILE + row] = other;
            } else {
                let along = e / TILE;
                let column = e % TILE;
                if column0 + column < p.n && deep + along < p.k {
                    other = b[b0 + (deep + along) * p.b_row + column0 + column];
                }
                of_b[along * TILE + column] = other;
            }
        }
        workgroupBarrier();
        for (var step = 0u; step < DEEP; step++) {
            let j = step * TILE + 4 * x;
            let right = vec4<f32>(of_b[j], of_b[j + 1], of_b[j + 2], of_b[j + 3]);
            for (var i = 0u; i < 4; i++) {
                sums[i] += of_a[step * TILE + 4 * y + i] * right;
            }
        }
        workgroupBarrier();
    }
    if which >= p.products {
        return;
    }
    for (var i = 0u; i < 4; i++) {
        let row = row0 + 4 * y + i;
        for (var j = 0u; j < 4; j++) {
            let column = column0 + 4 * x + j;
            if row < p.m && column < p.n {
                let at = batch * p.c_batch + head * p.c_head + row * p.c_row + column;
                var value = p.alpha * sums[i][j];
                if (p.last & 1) != 0 {
                    value += bias[column];
                }
                if (p.last & 2) != 0 {
                    value = gelu_tanh(value);
                }
                if (p.last & 4) != 0 {
                    value += added[at];
                }
                if (p.mask == 1 && column > row) || (p.mask == 2 && column >= lengths[batch]) {
                    value = bitcast<f32>(p.infinity);
                }
                c[at] = value;
            }
        }
    }
}
