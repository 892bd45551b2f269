//! The random numbers of NumPy's `default_rng`, so that inputs are exactly those of the published profiling script.
//!
//! PCG64 is the 128-bit linear congruential generator with XSL-RR output of M. E. O'Neill (PCG, 2014); its seeding is
//! her `seed_seq` variant as documented for NumPy's `SeedSequence`. Normal numbers use the ziggurat of G. Marsaglia and
//! W. W. Tsang (2000) with 256 layers. Poisson numbers use the transformed rejection of W. Hormann (PTRS, 1993) for
//! means of at least 10, and multiplication below. The tests compare counts and draws with NumPy's.

const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

/// PCG64 with NumPy's seeding.
pub(super) struct NumpyRng {
    state: u128,
    increment: u128,
    ziggurat: Box<Ziggurat>,
}

/// Mixes one seed into four words of entropy and expands them to eight (NumPy's `SeedSequence`).
fn seed_words(seed: u64) -> [u32; 8] {
    const SHIFT: u32 = 16;
    let mut constant = 0x43b0_d7e5_u32;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        let value = value.wrapping_mul(constant);
        value ^ (value >> SHIFT)
    };
    let mut pool = [hash(seed as u32), hash((seed >> 32) as u32), hash(0), hash(0)];
    for from in 0..4 {
        for to in 0..4 {
            if from != to {
                let mixed = pool[to].wrapping_mul(0xca01_f9dd).wrapping_sub(hash(pool[from]).wrapping_mul(0x4973_f715));
                pool[to] = mixed ^ (mixed >> SHIFT);
            }
        }
    }
    let mut constant = 0x8b51_f9dd_u32;
    std::array::from_fn(|i| {
        let value = pool[i % 4] ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        let value = value.wrapping_mul(constant);
        value ^ (value >> SHIFT)
    })
}

impl NumpyRng {
    /// The generator `numpy.random.default_rng(seed)`.
    pub(super) fn new(seed: u64) -> Self {
        let words = seed_words(seed);
        let half = |i: usize| u128::from(words[2 * i]) | (u128::from(words[2 * i + 1]) << 32);
        let start = (half(0) << 64) | half(1);
        let sequence = (half(2) << 64) | half(3);
        let increment = (sequence << 1) | 1;
        let mut rng = Self { state: 0, increment, ziggurat: Box::new(Ziggurat::new()) };
        rng.step();
        rng.state = rng.state.wrapping_add(start);
        rng.step();
        rng
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn bits(&mut self) -> u64 {
        self.step();
        let folded = ((self.state >> 64) as u64) ^ (self.state as u64);
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// NumPy's `uniform(low, high)`.
    pub(super) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// NumPy's `normal(0, 1)`.
    pub(super) fn normal(&mut self) -> f64 {
        loop {
            let bits = self.bits();
            let layer = (bits & 0xff) as usize;
            let sign = if bits & 0x100 != 0 { -1.0 } else { 1.0 };
            let magnitude = (bits >> 9) & 0x000f_ffff_ffff_ffff;
            let x = sign * (magnitude as f64 * self.ziggurat.width[layer]);
            if magnitude < self.ziggurat.inside[layer] {
                return x;
            }
            if layer == 0 {
                loop {
                    let beyond = -(-self.unit()).ln_1p() / TAIL;
                    let y = -(-self.unit()).ln_1p();
                    if y + y > beyond * beyond {
                        let x = TAIL + beyond;
                        return if (magnitude >> 8) & 1 != 0 { -x } else { x };
                    }
                }
            }
            let [above, below] = [self.ziggurat.height[layer - 1], self.ziggurat.height[layer]];
            if (above - below) * self.unit() + below < (-0.5 * x * x).exp() {
                return x;
            }
        }
    }

    /// NumPy's `poisson(mean)`.
    pub(super) fn poisson(&mut self, mean: f64) -> usize {
        if mean <= 0.0 {
            return 0;
        }
        if mean < 10.0 {
            let limit = (-mean).exp();
            let (mut count, mut product) = (0, 1.0);
            loop {
                product *= self.unit();
                if product <= limit {
                    return count;
                }
                count += 1;
            }
        }
        let log_mean = mean.ln();
        let b = 0.931 + 2.53 * mean.sqrt();
        let a = -0.059 + 0.02483 * b;
        let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        let accept = 0.9277 - 3.6224 / (b - 2.0);
        loop {
            let u = self.unit() - 0.5;
            let v = self.unit();
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + mean + 0.43).floor();
            if us >= 0.07 && v <= accept {
                return k as usize;
            }
            if k < 0.0 || (us < 0.013 && v > us) {
                continue;
            }
            let left = v.ln() + inverse_alpha.ln() - (a / (us * us) + b).ln();
            if left <= -mean + k * log_mean - libm::lgamma(k + 1.0) {
                return k as usize;
            }
        }
    }
}

/// Start of the ziggurat's tail.
const TAIL: f64 = 3.654_152_885_361_009;

/// Tables of the ziggurat: rectangles of equal area under exp(-x^2/2).
struct Ziggurat {
    /// Draws below this are certainly inside the layer.
    inside: [u64; 256],
    /// Width of the layer per unit of a draw.
    width: [f64; 256],
    /// Height of the density at the layer's edge.
    height: [f64; 256],
}

impl Ziggurat {
    fn new() -> Self {
        const SCALE: f64 = 4_503_599_627_370_496.0;
        let density = |x: f64| (-0.5 * x * x).exp();
        let tail_area = (std::f64::consts::PI / 2.0).sqrt() * libm::erfc(TAIL / std::f64::consts::SQRT_2);
        let area = TAIL * density(TAIL) + tail_area;
        let base = area / density(TAIL);
        let (mut inside, mut width, mut height) = ([0; 256], [0.0; 256], [0.0; 256]);
        inside[0] = (TAIL / base * SCALE) as u64;
        (width[0], width[255]) = (base / SCALE, TAIL / SCALE);
        (height[0], height[255]) = (1.0, density(TAIL));
        let (mut x, mut outer) = (TAIL, TAIL);
        for layer in (1..=254).rev() {
            x = (-2.0 * (area / x + density(x)).ln()).sqrt();
            inside[layer + 1] = (x / outer * SCALE) as u64;
            outer = x;
            height[layer] = density(x);
            width[layer] = x / SCALE;
        }
        Self { inside, width, height }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_numpys_own() {
        // >>> g = numpy.random.default_rng(42); g.uniform(0, 1, 2); g.normal(0, 1, 3); g.poisson(1000); g.poisson(3)
        let mut rng = NumpyRng::new(42);
        let got = [rng.uniform(0.0, 1.0), rng.uniform(0.0, 1.0), rng.normal(), rng.normal(), rng.normal()];
        let want =
            [0.7739560485559633, 0.4388784397520523, 0.7504511958064572, 0.9405647163912139, -1.9510351886538364];
        for (got, want) in got.iter().zip(want) {
            // The tables here are computed, NumPy's are printed: they differ in the last bits.
            assert!((got - want).abs() <= 1e-14 * want.abs(), "{got} {want}");
        }
        assert_eq!((rng.poisson(1000.0), rng.poisson(3.0)), (POISSON.0, POISSON.1));
        // A sum over a million normal numbers exercises every layer and the tail.
        let mut rng = NumpyRng::new(7);
        let (mut sum, mut largest) = (0.0, 0.0_f64);
        for _ in 0..1_000_000 {
            let x = rng.normal();
            sum += x;
            largest = largest.max(x.abs());
        }
        assert!((sum - SUM).abs() < 1e-6 && (largest - LARGEST).abs() < 1e-12, "{sum} {largest}");
    }

    const POISSON: (usize, usize) = (1028, 5);
    const SUM: f64 = -112.785_548_932_017_83;
    const LARGEST: f64 = 4.947_871_460_149_176;
}
