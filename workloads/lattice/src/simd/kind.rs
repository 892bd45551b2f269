//! The lattice rules of `scalar`, branch-free, with one register per coordinate.

use super::lanes::Lanes;

/// The divisor of a nesting step, in lanes and as shifts.
#[derive(Clone, Copy)]
pub(super) struct Steps<S: Lanes> {
    /// The nesting ratio q.
    pub(super) q: S::I,
    /// The reciprocal 1/q.
    pub(super) inverse_q: S::F,
    /// q - 1, the digit mask if q is a power of two.
    pub(super) mask: S::I,
    /// log2 q, if q is a power of two.
    pub(super) log_q: u32,
    /// The divisor of rounded integers: q, or 2q for doubled points.
    pub(super) unit: i32,
    /// The reciprocal 1/unit.
    pub(super) inverse_unit: S::F,
    /// log2 unit, if q is a power of two.
    pub(super) log_unit: u32,
}

impl<S: Lanes> Steps<S> {
    #[inline(always)]
    pub(super) fn new(s: S, q: u32, scale: u32) -> Self {
        let unit = q * scale;
        Steps {
            q: s.splat(q as i32),
            inverse_q: s.splat_f(1.0 / q as f32),
            mask: s.splat(q as i32 - 1),
            log_q: q.trailing_zeros(),
            unit: unit as i32,
            inverse_unit: s.splat_f(1.0 / unit as f32),
            log_unit: unit.trailing_zeros(),
        }
    }

    /// Rounds g / unit, halves up, and returns the residual in [-unit/2, unit/2) too.
    #[inline(always)]
    pub(super) fn divide<const POW2: bool>(&self, s: S, g: S::I) -> (S::I, S::I) {
        if POW2 {
            let f = s.sar(s.add(g, s.splat(self.unit >> 1)), self.log_unit);
            (f, s.sub(g, s.shl(f, self.log_unit)))
        } else {
            // |g| < 2^24 is exact in f32, and the rounded quotient is off by at most one: its error is below 1/2 +
            // 2^24/3 * 2^-23 < 3/2.
            let unit = s.splat(self.unit);
            let f = s.round(s.mul_f(s.float(g), self.inverse_unit));
            let r = s.sub(g, s.mul(f, unit));
            let twice = s.add(r, r);
            let (zero, one) = (s.splat(0), s.splat(1));
            // +1 if 2r >= unit, -1 if 2r < -unit.
            let up = s.select(s.gt(twice, s.splat(self.unit - 1)), one, zero);
            let down = s.select(s.gt(s.splat(-self.unit), twice), one, zero);
            let step = s.sub(up, down);
            (s.add(f, step), s.sub(r, s.mul(step, unit)))
        }
    }

    /// A coordinate modulo q; |z| < 2^20.
    #[inline(always)]
    pub(super) fn digit<const POW2: bool>(&self, s: S, z: S::I) -> S::I {
        if POW2 {
            s.and(z, self.mask)
        } else {
            let k = s.round(s.mul_f(s.float(z), self.inverse_q));
            let m = s.sub(z, s.mul(k, self.q));
            s.add(m, s.and(s.sar(m, 31), self.q))
        }
    }
}

/// A lattice of dimension `D` on lanes, with the contract of [`crate::scalar::Kind`].
pub(super) trait Kind<const D: usize> {
    /// Integer steps per lattice unit of stored points.
    const SCALE: u32;
    fn settle<S: Lanes>(s: S, f: &mut [S::I; D], r: &mut [S::I; D], unit: i32);
    fn coordinates<S: Lanes>(s: S, y: &[S::I; D]) -> [S::I; D];
    fn combine<S: Lanes>(s: S, b: &[S::I; D]) -> [S::I; D];
    fn load<S: Lanes>(s: S, x: &[f32]) -> [S::F; D];
    fn store<S: Lanes>(s: S, v: [S::F; D], x: &mut [f32]);
}

/// See [`crate::scalar::Z2`].
pub(super) struct Z2;

impl Kind<2> for Z2 {
    const SCALE: u32 = 1;
    #[inline(always)]
    fn settle<S: Lanes>(_: S, _: &mut [S::I; 2], _: &mut [S::I; 2], _: i32) {}
    #[inline(always)]
    fn coordinates<S: Lanes>(_: S, y: &[S::I; 2]) -> [S::I; 2] {
        *y
    }
    #[inline(always)]
    fn combine<S: Lanes>(_: S, b: &[S::I; 2]) -> [S::I; 2] {
        *b
    }
    #[inline(always)]
    fn load<S: Lanes>(s: S, x: &[f32]) -> [S::F; 2] {
        s.load2(x)
    }
    #[inline(always)]
    fn store<S: Lanes>(s: S, v: [S::F; 2], x: &mut [f32]) {
        s.store2(v, x);
    }
}

/// See [`crate::scalar::D4`].
pub(super) struct D4;

impl Kind<4> for D4 {
    const SCALE: u32 = 1;
    #[inline(always)]
    fn settle<S: Lanes>(s: S, f: &mut [S::I; 4], r: &mut [S::I; 4], unit: i32) {
        // The size in the high bits and the complement of the index in the low ones: the largest key is the first
        // largest residual, and keys are distinct. |r| <= 2^24 leaves room.
        let mut keys = [s.splat(0); 4];
        for k in 0..4 {
            keys[k] = s.or(s.shl(s.abs(r[k]), 2), s.splat(3 - k as i32));
        }
        let largest = s.max(s.max(keys[0], keys[1]), s.max(keys[2], keys[3]));
        let sum = s.add(s.add(f[0], f[1]), s.add(f[2], f[3]));
        // All ones if the sum is even: no key has that value.
        let even = s.sub(s.and(sum, s.splat(1)), s.splat(1));
        let flipped = s.or(largest, even);
        for k in 0..4 {
            let hit = s.eq(keys[k], flipped);
            let sign = s.sar(r[k], 31);
            let step = s.or(sign, s.splat(1));
            let move_by = s.sub(s.xor(sign, s.splat(unit)), sign);
            f[k] = s.select(hit, s.add(f[k], step), f[k]);
            r[k] = s.select(hit, s.sub(r[k], move_by), r[k]);
        }
    }
    #[inline(always)]
    fn coordinates<S: Lanes>(s: S, y: &[S::I; 4]) -> [S::I; 4] {
        let zero = s.splat(0);
        let end = s.add(y[2], y[3]);
        let tail = s.add(y[1], end);
        [s.sar(s.sub(zero, s.add(y[0], tail)), 1), s.sar(s.sub(y[0], tail), 1), s.sub(zero, end), s.sub(zero, y[3])]
    }
    #[inline(always)]
    fn combine<S: Lanes>(s: S, b: &[S::I; 4]) -> [S::I; 4] {
        [s.sub(b[1], b[0]), s.sub(b[2], s.add(b[0], b[1])), s.sub(b[3], b[2]), s.sub(s.splat(0), b[3])]
    }
    #[inline(always)]
    fn load<S: Lanes>(s: S, x: &[f32]) -> [S::F; 4] {
        s.load4(x)
    }
    #[inline(always)]
    fn store<S: Lanes>(s: S, v: [S::F; 4], x: &mut [f32]) {
        s.store4(v, x);
    }
}

#[inline(always)]
fn widest<S: Lanes>(s: S, keys: &[S::I; 8]) -> S::I {
    let low = s.max(s.max(keys[0], keys[1]), s.max(keys[2], keys[3]));
    let high = s.max(s.max(keys[4], keys[5]), s.max(keys[6], keys[7]));
    s.max(low, high)
}

/// See [`crate::scalar::E8`].
pub(super) struct E8;

impl Kind<8> for E8 {
    const SCALE: u32 = 2;
    #[inline(always)]
    fn settle<S: Lanes>(s: S, f: &mut [S::I; 8], r: &mut [S::I; 8], unit: i32) {
        let half = unit / 2;
        // Keys as for D4; those of the other coset use unit/2 - |r|. |r| << 3 is below 2^28.
        let mut whole = [s.splat(0); 8];
        let mut other = [s.splat(0); 8];
        let (mut sum, mut signs, mut total) = (f[0], s.sar(r[0], 31), s.abs(r[0]));
        for k in 0..8 {
            let size = s.abs(r[k]);
            let index = 7 - k as i32;
            let scaled = s.shl(size, 3);
            whole[k] = s.or(scaled, s.splat(index));
            other[k] = s.sub(s.splat((half << 3) + index), scaled);
            if k > 0 {
                sum = s.add(sum, f[k]);
                signs = s.add(signs, s.sar(r[k], 31));
                total = s.add(total, size);
            }
        }
        let (largest, farthest) = (widest(s, &whole), widest(s, &other));
        let (zero, one) = (s.splat(0), s.splat(1));
        // All ones if the coset's rounded point has an odd sum.
        let odd_whole = s.sub(zero, s.and(sum, one));
        let odd_half = s.sub(zero, s.and(s.add(sum, signs), one));
        // unit - 2 max|r| and 2 min|r| = unit - 2 max(unit/2 - |r|).
        let cost_whole = s.sub(s.splat(unit), s.shl(s.sar(largest, 3), 1));
        let cost_half = s.sub(s.splat(unit), s.shl(s.sar(farthest, 3), 1));
        let difference =
            s.sub(s.add(s.sub(total, s.splat(2 * unit)), s.and(odd_whole, cost_whole)), s.and(odd_half, cost_half));
        // Index (as 7 - k) of the flipped coordinate, -1 for none.
        let seven = s.splat(7);
        let flip_whole = s.or(s.and(largest, seven), s.xor(odd_whole, s.splat(-1)));
        let flip_half = s.or(s.and(farthest, seven), s.xor(odd_half, s.splat(-1)));
        // For equal distances the smaller first coordinate wins. By cases, the whole coset's is the larger exactly if
        // (one of the cosets flips it) xor (r_0 < 0).
        let first = s.select(s.eq(flip_whole, seven), one, zero);
        let first = s.select(s.eq(flip_half, seven), one, first);
        let larger = s.xor(first, s.shr(r[0], 31));
        let take_half = s.gt(s.add(s.add(difference, difference), larger), zero);
        let flip = s.select(take_half, flip_half, flip_whole);
        // The doubled coordinate is 2f + s c with c in {0, 2} or {1, -1}; the residual moves by
        // -s c unit/2.
        let plain = s.select(take_half, one, zero);
        let turned = s.select(take_half, s.splat(-1), s.splat(2));
        let plain_move = s.select(take_half, s.splat(half), zero);
        let turned_move = s.select(take_half, s.splat(-half), s.splat(2 * half));
        for k in 0..8 {
            let hit = s.eq(flip, s.splat(7 - k as i32));
            let sign = s.sar(r[k], 31);
            let step = s.select(hit, turned, plain);
            let move_by = s.select(hit, turned_move, plain_move);
            f[k] = s.add(s.add(f[k], f[k]), s.sub(s.xor(step, sign), sign));
            r[k] = s.sub(r[k], s.sub(s.xor(move_by, sign), sign));
        }
    }
    #[inline(always)]
    fn coordinates<S: Lanes>(s: S, y: &[S::I; 8]) -> [S::I; 8] {
        // Sums from coordinate i to 6 of y - y7.
        let mut z = *y;
        let mut tail = s.splat(0);
        for i in (0..7).rev() {
            tail = s.add(tail, s.sub(y[i], y[7]));
            z[i] = s.sar(tail, if i == 0 { 2 } else { 1 });
        }
        z
    }
    #[inline(always)]
    fn combine<S: Lanes>(s: S, b: &[S::I; 8]) -> [S::I; 8] {
        let mut g = [b[7]; 8];
        g[0] = s.add(g[0], s.shl(s.sub(s.add(b[0], b[0]), b[1]), 1));
        for k in 1..6 {
            g[k] = s.add(g[k], s.shl(s.sub(b[k], b[k + 1]), 1));
        }
        g[6] = s.add(g[6], s.add(b[6], b[6]));
        g
    }
    #[inline(always)]
    fn load<S: Lanes>(s: S, x: &[f32]) -> [S::F; 8] {
        s.load8(x)
    }
    #[inline(always)]
    fn store<S: Lanes>(s: S, v: [S::F; 8], x: &mut [f32]) {
        s.store8(v, x);
    }
}
