//! Sum of squared differences.

use ellwand_simd::lanes::{Kernel, Simd};

/// Elements summed in f32 before the sum is moved to f64: 64 or 128 additions per lane, so that the relative error of a
/// block is below 128 half units in the last place, and usually a tenth of that.
const BLOCK: usize = 4096;

/// Sum of (x - target)^2: in f32 within blocks, in f64 over the blocks, and within blocks whose sum leaves f32.
pub(super) struct SquaredError<'a> {
    pub(super) x: &'a [f32],
    pub(super) target: &'a [f32],
}

impl Kernel for SquaredError<'_> {
    type Out = f64;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f64 {
        let blocks = self.x.chunks(BLOCK).zip(self.target.chunks(BLOCK));
        blocks.fold(0.0, |sum, (x, target)| sum + in_range(block(s, x, target), || wide(x, target)))
    }
}

/// The sum of a block, computed again by `wide` if it left f32.
#[inline(always)]
pub(super) fn in_range(sum: f32, wide: impl FnOnce() -> f64) -> f64 {
    if sum.is_finite() { f64::from(sum) } else { wide() }
}

/// The sum of a block in f64.
#[cold]
fn wide(x: &[f32], target: &[f32]) -> f64 {
    x.iter().zip(target).map(|(x, target)| (f64::from(*x) - f64::from(*target)).powi(2)).sum()
}

#[inline(always)]
fn block<S: Simd>(s: S, x: &[f32], target: &[f32]) -> f32 {
    let mut sums = [s.splat(0.0); 4];
    let step = 4 * S::LANES;
    let (x_four, t_four) = (x.chunks_exact(step), target.chunks_exact(step));
    let (x_rest, t_rest) = (x_four.remainder(), t_four.remainder());
    for (x, t) in x_four.zip(t_four) {
        for (i, sum) in sums.iter_mut().enumerate() {
            let difference = s.sub(s.load(&x[i * S::LANES..]), s.load(&t[i * S::LANES..]));
            *sum = s.mul_add(difference, difference, *sum);
        }
    }
    for (x, t) in x_rest.chunks(S::LANES).zip(t_rest.chunks(S::LANES)) {
        let full = x.len() == S::LANES;
        let [x, t] = [x, t].map(|part| if full { s.load(part) } else { s.load_part(part, 0.0) });
        let difference = s.sub(x, t);
        sums[0] = s.mul_add(difference, difference, sums[0]);
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}
