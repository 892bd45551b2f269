//! Kernels with different bottlenecks, each able to do a known share of extra work.

use std::hint::black_box;

use ellwand::internals::bench::environment;

/// The bottleneck of each kernel.
pub(crate) const KERNELS: [&str; 7] = ["branches", "l1", "l2", "l3", "dram", "arithmetic", "threads"];

/// Extra work of the implementations, in per cent.
pub(crate) const PLANTED: [usize; 4] = [0, 2, 5, 10];

/// Numbers to parse: more than a branch predictor can learn. Of 10,000 numbers, a Zen 4's predictor learns some in one process
/// and none in the next (34 or 38 us), so the ratio of two amounts of work would depend on the process.
const NUMBERS: usize = 60_000;
/// Length of the chain of dependent multiplications.
const STEPS: usize = 8_000;

/// Input of a kernel, with room for the largest amount of extra work.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    /// Decimal numbers, each followed by a comma, and the end of the text for each entry of [`PLANTED`].
    Text(String, [usize; 4]),
    /// Numbers to add, how many of them the plain work adds, and the number of threads.
    Numbers(Vec<u32>, usize, usize),
    /// The number of dependent steps.
    Steps(usize),
}

/// Marsaglia's xorshift (2003), with a fixed seed: the same numbers in every process.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
}

impl Data {
    /// Creates the input of a kernel, sized by this machine's caches.
    pub(crate) fn new(kernel: &str) -> Self {
        let mut random = Random(88_172_645_463_325_252);
        let caches = environment::facts().caches;
        let cache = |level: usize, usual: u64| caches.get(level).map_or(usual, |cache| cache.bytes) as usize;
        let (l1, l2, l3) = (cache(0, 32 << 10), cache(1, 1 << 20), cache(2, 32 << 20));
        let mut numbers = |bytes: usize, threads: usize| {
            let plain = bytes / 4;
            Self::Numbers((0..plain + plain / 10 + 1).map(|_| (random.next() % 100) as u32).collect(), plain, threads)
        };
        match kernel {
            "branches" => Self::text(random),
            "l1" => numbers(l1 / 2, 1),
            "l2" => numbers(l2 / 2, 1),
            "l3" => numbers((l3 / 5).min(8 * l2), 1),
            "dram" => numbers((2 * l3).clamp(64 << 20, 256 << 20), 1),
            "threads" => numbers((l3 / 5).min(8 * l2), 2),
            _ => Self::Steps(STEPS),
        }
    }

    fn text(mut random: Random) -> Self {
        let (mut text, mut ends) = (String::new(), [0; 4]);
        for number in 0..=NUMBERS + NUMBERS / 10 {
            for (end, percent) in ends.iter_mut().zip(PLANTED) {
                if number == NUMBERS + NUMBERS * percent / 100 {
                    *end = text.len();
                }
            }
            let value = (random.next() % 200_000) as i64 - 100_000;
            text += &format!("{},", if random.next().is_multiple_of(2) { value } else { value / 37 });
        }
        Self::Text(text, ends)
    }

    /// Does the plain work and `percent` per cent more of the same; returns the result of the plain work.
    pub(crate) fn work(&self, percent: usize) -> u64 {
        match self {
            Self::Text(text, ends) => {
                let end = PLANTED.iter().position(|planted| *planted == percent).map_or(ends[0], |index| ends[index]);
                let plain = parse(&text.as_bytes()[..ends[0]]);
                black_box(parse(&text.as_bytes()[ends[0]..end]));
                plain
            }
            Self::Numbers(numbers, plain, threads) => {
                let (first, more) = numbers.split_at(*plain);
                let more = &more[..plain * percent / 100];
                if *threads == 1 {
                    let sum = sum(first);
                    black_box(self::sum(more));
                    return sum;
                }
                let (half, more_half) = (first.len() / 2, more.len() / 2);
                std::thread::scope(|scope| {
                    let other = scope.spawn(|| {
                        black_box(sum(&more[more_half..]));
                        sum(&first[half..])
                    });
                    black_box(sum(&more[..more_half]));
                    sum(&first[..half]) + other.join().unwrap_or(0)
                })
            }
            Self::Steps(steps) => {
                let plain = chain(3, *steps);
                black_box(chain(plain, steps * percent / 100));
                plain
            }
        }
    }
}

#[inline(never)]
fn parse(text: &[u8]) -> u64 {
    let (mut sum, mut value, mut negative) = (0_i64, 0_i64, false);
    for byte in text {
        match byte {
            b',' => {
                sum += if negative { -value } else { value };
                (value, negative) = (0, false);
            }
            b'-' => negative = true,
            digit => value = value * 10 + i64::from(digit - b'0'),
        }
    }
    sum as u64
}

#[inline(never)]
fn sum(numbers: &[u32]) -> u64 {
    numbers.chunks(1 << 16).map(|chunk| u64::from(chunk.iter().fold(0_u32, |sum, x| sum.wrapping_add(*x)))).sum()
}

#[inline(never)]
fn chain(start: u64, steps: usize) -> u64 {
    (0..steps).fold(start, |x, _| black_box(x.wrapping_mul(6_364_136_223_846_793_005)))
}
