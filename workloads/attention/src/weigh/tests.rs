//! Weights compared with the scores, tile by tile and block by block.
#![allow(unsafe_code)]

use super::*;
use ellwand_gemm::{Source, pack, packed_len};
use ellwand_simd::isa::Isa;
use ellwand_simd::lanes::dispatch;

/// State of the rows of a strip.
struct Strip {
    top: Vec<f32>,
    sum: Vec<f32>,
    /// Sums of weights, as products of weights and values would have them.
    context: Vec<f64>,
}

/// Processes `count` keys with scores `score(row, key)`.
fn meet(isa: Isa, strip: &mut Strip, score: &dyn Fn(usize, usize) -> f32, count: usize, see: [usize; ROWS]) -> Weighed {
    // Query i is the i-th unit vector, so each key holds the scores of all rows.
    let (rows, head) = (strip.top.len(), ROWS + 1);
    let q: Vec<f32> = (0..rows * head).map(|at| f32::from(u8::from(at % head == at / head))).collect();
    let keys: Vec<f32> = (0..count * head).map(|at| score(at % head, at / head)).collect();
    let mut packed = vec![0.0; packed_len(head, count)];
    // SAFETY: `count` keys of `head` values exist.
    unsafe { pack(isa, Source { at: keys.as_ptr(), stride: head, transposed: true }, head, count, 1.0, &mut packed) };
    let stride = count.next_multiple_of(16) + 16;
    let (mut weights, mut tiles) = (vec![f32::NAN; ROWS * stride], vec![f32::NAN; TILES]);
    let mut factors = [f32::NAN; ROWS];
    let weighed = dispatch(
        isa,
        Weigh {
            q: q.as_ptr(),
            q_stride: head,
            head,
            keys: &packed,
            count,
            visible: see,
            used: see[rows - 1],
            weights: &mut weights,
            stride,
            tiles: &mut tiles,
            top: &mut strip.top,
            sum: &mut strip.sum,
            factors: &mut factors,
            factor: 1.0,
        },
    );
    if weighed == Weighed::Lost {
        return weighed;
    }
    for i in 0..rows {
        if weighed == Weighed::Kept {
            assert_eq!(factors[i], 1.0);
        }
        strip.context[i] *= f64::from(factors[i]);
        for (j, weight) in weights[i * stride..][..see[rows - 1]].iter().enumerate() {
            let expected = if j < see[i] { f64::from(score(i, j) - strip.top[i]).exp2() } else { 0.0 };
            let close = (f64::from(*weight) - expected).abs() <= 2e-6 * expected + 1e-30;
            assert!(close, "{} row {i} key {j} of {count}: {weight}, not {expected}", isa.name());
            strip.context[i] += f64::from(*weight);
        }
    }
    weighed
}

#[test]
fn weights_stand_to_one_another_as_the_scores_say_however_far_apart_those_are() {
    for isa in Isa::available() {
        // Multiples of 1/16, whose sums are exact.
        let noise = |row: usize, key: usize, spread: usize| {
            (((row * 7919 + key * 104_729 + 12_345) * 2_654_435_761) >> 7) as u16 as usize % (32 * spread + 1)
        };
        for spread in [1, 10, 60, 300] {
            for (count, less) in [(5, 0), (64, 3), (130, 1), (300, 0), (512, 1)] {
                for rows in 1..=ROWS {
                    let mut strip =
                        Strip { top: vec![f32::NEG_INFINITY; rows], sum: vec![0.0; rows], context: vec![0.0; rows] };
                    let mut see = [count; ROWS];
                    // As under a causal mask: each row sees one key more than the previous one.
                    (0..rows).for_each(|i| see[i] = count - (rows - 1 - i) * less.min(count / ROWS));
                    for block in 0..3 {
                        let score = |row: usize, key: usize| {
                            noise(row, key + 1000 * block, spread) as f32 / 16.0 - spread as f32
                        };
                        let weighed = meet(isa, &mut strip, &score, count, see);
                        if isa == Isa::best() && isa.name().contains("512") {
                            assert_ne!(weighed, Weighed::Lost, "{}", isa.name());
                            let near = spread <= 1 && block > 0;
                            assert!(!near || weighed == Weighed::Kept, "scores within 2 of each other are near");
                        }
                        for (sum, context) in strip.sum.iter().zip(&strip.context) {
                            let off = (f64::from(*sum) - context).abs();
                            assert!(off <= 4e-6 * context, "{} {spread} {count}: {sum} {context}", isa.name());
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn tops_that_stand_too_low_are_settled_anew_in_every_tile() {
    let isa = Isa::best();
    let mut strip = Strip { top: vec![f32::NEG_INFINITY; 6], sum: vec![0.0; 6], context: vec![0.0; 6] };
    // Row i grows by i from key to key: row 0 never, row 1 in every tile, the last row by hundreds.
    let score = |row: usize, key: usize| (row * key) as f32;
    match meet(isa, &mut strip, &score, 200, [200; ROWS]) {
        Weighed::Lost => assert!(!isa.name().contains("512"), "nothing here is not a number"),
        weighed => {
            assert_eq!(weighed, Weighed::Corrected);
            assert_eq!(strip.top[0], 0.0);
            assert!((1..6).all(|i| strip.top[i] >= (199 * i) as f32 - FAR), "{:?}", strip.top);
        }
    }
}

#[test]
fn what_is_not_a_number_leaves_the_rows_as_they_were() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for key in [0, 70, 199] {
            let mut strip = Strip { top: vec![1.0; 6], sum: vec![2.0; 6], context: vec![2.0; 6] };
            // A product with 0 makes every row with an infinite key NaN.
            let score = |row: usize, at: usize| if (row, at) == (3, key) { bad } else { 0.0 };
            assert_eq!(meet(Isa::best(), &mut strip, &score, 200, [200; ROWS]), Weighed::Lost, "{bad} at {key}");
            assert!(strip.top == [1.0; 6] && strip.sum == [2.0; 6]);
        }
    }
}
