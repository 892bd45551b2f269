//! Three ways to sort, from the simplest to the fastest.

use ellwand::rand::RngExt;
use ellwand::suite::Suite;
use ellwand::{Axis, Work, suite};

/// Sorts random numbers in place.
pub fn sorting() -> Suite<Vec<u64>, Vec<u64>> {
    suite("sort")
        .about("Sort n random 64-bit numbers")
        .axis(Axis::int("n", "numbers", 1, 1 << 28, 10_000).sweep([100, 10_000, 100_000]))
        .input(|case, rng| (0..case.usize("n")).map(|_| rng.random()).collect::<Vec<u64>>())
        .work(|case| {
            Work::items("numbers", case.usize("n") as u64).bytes(8 * case.usize("n") as u64, 8 * case.usize("n") as u64)
        })
        .implementation_mut("stable", |numbers| numbers.sort())
        .implementation_mut("unstable", |numbers| numbers.sort_unstable())
        .implementation_mut("radix", radix)
}

/// Least significant byte first.
fn radix(numbers: &mut Vec<u64>) {
    let mut moved = vec![0; numbers.len()];
    for shift in (0..64).step_by(8) {
        let mut starts = [0_usize; 257];
        numbers.iter().for_each(|x| starts[(x >> shift & 255) as usize + 1] += 1);
        (0..256).for_each(|digit| starts[digit + 1] += starts[digit]);
        for x in numbers.iter() {
            let place = &mut starts[(x >> shift & 255) as usize];
            moved[*place] = *x;
            *place += 1;
        }
        std::mem::swap(numbers, &mut moved);
    }
}
