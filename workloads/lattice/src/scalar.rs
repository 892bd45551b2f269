//! Plain per-vector code: 32-bit integers, no lanes, no intrinsics.
//!
//! A point x = f + r/unit is stored as the rounded integers f and the residuals r in [-unit/2, unit/2). Every decision
//! depends on r alone, so it is the same for all translates. For E8 the squared distances of both cosets are not
//! computed: in the other coset a residual is unit/2 - |r|, so their difference is linear in |r|.

/// Rounds t (|t| <= 2^22) to an integer, halves up, and returns the residual on a grid of 2^-25: t = n + u / 2^25, u in
/// [-2^24, 2^24).
#[inline(always)]
pub(super) fn split(t: f32) -> (i32, i32) {
    // Adding 1.5 * 2^23 rounds to an integer (halves to even) and leaves it in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let lifted = t + MAGIC;
    let n = (lifted.to_bits() as i32) - (MAGIC.to_bits() as i32);
    let e = t - (lifted - MAGIC);
    let u = round_even(e * 33_554_432.0);
    // A half rounded down to an even integer: u = +2^24.
    let up = u >> 24;
    let up = up & !(u >> 31);
    (n + up, u - (up << 25))
}

/// Rounds v to an integer, halves to even, without a rounding instruction; |v| <= 2^24.
#[inline(always)]
pub(super) fn round_even(v: f32) -> i32 {
    const BIG: f32 = 8_388_608.0;
    const BIG_BITS: u32 = 0x4b00_0000;
    let size = v.abs();
    // Between 2^23 and 2^24, bit patterns differ by the difference of the integers. From 2^23 on, every f32 is an
    // integer already.
    let small = (size + BIG).to_bits() - BIG_BITS;
    let large = size.to_bits().wrapping_sub(BIG_BITS).wrapping_add(1 << 23);
    let whole = (if size < BIG { small } else { large }) as i32;
    let sign = (v.to_bits() as i32) >> 31;
    (whole ^ sign) - sign
}

/// A lattice of dimension `D`: nearest points from residuals, coordinates, and points back.
pub(super) trait Kind<const D: usize> {
    /// Integer steps per lattice unit of stored points.
    const SCALE: i32;

    /// Converts rounded integers and residuals to the nearest lattice point (`f`) and the remainder of x (`r`), in
    /// units of `unit` steps per stored integer / SCALE.
    fn settle(f: &mut [i32; D], r: &mut [i32; D], unit: i32);

    /// Coordinates of a lattice point in the basis.
    fn coordinates(y: &[i32; D]) -> [i32; D];

    /// The lattice point with the given coordinates.
    fn combine(b: &[i32; D]) -> [i32; D];
}

/// The square lattice.
pub(super) struct Z2;

impl Kind<2> for Z2 {
    const SCALE: i32 = 1;

    #[inline(always)]
    fn settle(_: &mut [i32; 2], _: &mut [i32; 2], _: i32) {}

    #[inline(always)]
    fn coordinates(y: &[i32; 2]) -> [i32; 2] {
        *y
    }

    #[inline(always)]
    fn combine(b: &[i32; 2]) -> [i32; 2] {
        *b
    }
}

/// Integer 4-vectors with even sum.
pub(super) struct D4;

impl Kind<4> for D4 {
    const SCALE: i32 = 1;

    #[inline(always)]
    fn settle(f: &mut [i32; 4], r: &mut [i32; 4], unit: i32) {
        // Size first, then the smaller index: the largest key is the first largest residual. Half of all vectors flip,
        // so a branch would often be mispredicted.
        let key = |k: usize| r[k].abs() << 2 | (3 - k as i32);
        let keys = [key(0), key(1), key(2), key(3)];
        let largest = keys[0].max(keys[1]).max(keys[2].max(keys[3]));
        let odd = (f[0] + f[1] + f[2] + f[3]) & 1;
        for k in 0..4 {
            let sign = if r[k] >= 0 { 1 } else { -1 };
            let step = if keys[k] == largest { sign * odd } else { 0 };
            f[k] += step;
            r[k] -= step * unit;
        }
    }

    #[inline(always)]
    fn coordinates(y: &[i32; 4]) -> [i32; 4] {
        let tail = y[1] + y[2] + y[3];
        [(-y[0] - tail) >> 1, (y[0] - tail) >> 1, -y[2] - y[3], -y[3]]
    }

    #[inline(always)]
    fn combine(b: &[i32; 4]) -> [i32; 4] {
        [b[1] - b[0], b[2] - b[0] - b[1], b[3] - b[2], -b[3]]
    }
}

/// The E8 lattice, doubled.
pub(super) struct E8;

impl Kind<8> for E8 {
    const SCALE: i32 = 2;

    #[inline(always)]
    fn settle(f: &mut [i32; 8], r: &mut [i32; 8], unit: i32) {
        let (mut sum, mut negative, mut total) = (0, 0, 0);
        // Keys as for D4, for the largest and the smallest residual.
        let (mut largest, mut smallest) = (0, i32::MAX);
        for k in 0..8 {
            let size = r[k].abs();
            sum += f[k];
            negative += i32::from(r[k] < 0);
            total += size;
            largest = largest.max(size << 3 | (7 - k as i32));
            smallest = smallest.min(size << 3 | k as i32);
        }
        // The two cosets round to f and to floor(x) + 1/2.
        let odd_whole = sum & 1 != 0;
        let odd_half = (sum - negative) & 1 != 0;
        let (at_largest, at_smallest) = (7 - (largest & 7), smallest & 7);
        let whole_cost = if odd_whole { unit - 2 * (largest >> 3) } else { 0 };
        let half_cost = if odd_half { 2 * (smallest >> 3) } else { 0 };
        let difference = total - 2 * unit + whole_cost - half_cost;
        // With s the sign of the residual, the doubled coordinate is 2f + s c, where c is 0, or 2
        // if flipped, in the whole coset and 1, or -1 if flipped, in the half coset.
        let sign = |r: i32| if r >= 0 { 1 } else { -1 };
        let whole = |k: i32| if odd_whole && k == at_largest { 2 } else { 0 };
        let half = |k: i32| if odd_half && k == at_smallest { -1 } else { 1 };
        let first = sign(r[0]);
        let take_half = difference > 0 || (difference == 0 && first * half(0) < first * whole(0));
        let (plain, turned) = if take_half { (1, -1) } else { (0, 2) };
        let flipped = match (take_half, odd_half, odd_whole) {
            (true, true, _) => at_smallest,
            (false, _, true) => at_largest,
            _ => -1,
        };
        for k in 0..8 {
            let step = sign(r[k]) * if k as i32 == flipped { turned } else { plain };
            f[k] = 2 * f[k] + step;
            r[k] -= step * (unit >> 1);
        }
    }

    #[inline(always)]
    fn coordinates(y: &[i32; 8]) -> [i32; 8] {
        let mut z = [0; 8];
        let mut tail = 0;
        for i in (1..7).rev() {
            tail += y[i];
            z[i] = (tail - (7 - i as i32) * y[7]) >> 1;
        }
        z[0] = (tail + y[0] - 7 * y[7]) >> 2;
        z[7] = y[7];
        z
    }

    #[inline(always)]
    fn combine(b: &[i32; 8]) -> [i32; 8] {
        let mut g = [b[7]; 8];
        g[0] += 4 * b[0] - 2 * b[1];
        for k in 1..6 {
            g[k] += 2 * (b[k] - b[k + 1]);
        }
        g[6] += 2 * b[6];
        g
    }
}

/// Q(g/q): stores the coarser point in `g` and returns g - q Q(g/q).
#[inline(always)]
pub(super) fn descend<K: Kind<D>, const D: usize>(g: &mut [i32; D], q: i32, shift: Option<u32>) -> [i32; D] {
    let unit = q * K::SCALE;
    let mut r = [0; D];
    for k in 0..D {
        let coarse = match shift {
            Some(shift) => (g[k] + (unit >> 1)) >> shift,
            None => (g[k] + (unit >> 1)).div_euclid(unit),
        };
        r[k] = g[k] - coarse * unit;
        g[k] = coarse;
    }
    K::settle(g, &mut r, unit);
    r
}

/// The E8 point (doubled) of eight digits: G b - q Q(G b / q).
pub(super) fn e8_point(digits: &[i32; 8], q: i32) -> [i32; 8] {
    level_point::<E8, 8>(digits, q)
}

/// The point of one level's digits.
#[inline(always)]
pub(super) fn level_point<K: Kind<D>, const D: usize>(digits: &[i32; D], q: i32) -> [i32; D] {
    let mut g = K::combine(digits);
    let unit = q * K::SCALE;
    let shift = (q & (q - 1) == 0).then(|| unit.trailing_zeros());
    descend::<K, D>(&mut g, q, shift)
}
