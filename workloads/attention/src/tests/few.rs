//! The forms for few queries or keys.

use ellwand_simd::isa::Isa;

use super::super::fused::Tiling;
use super::super::shape::{self, Shape};
use super::{case, core, registry};

#[test]
fn forms_for_few_queries_agree_with_the_reference_at_the_limits() {
    let registry = registry();
    let workload = registry.find("attention-core").unwrap();
    // Scalar loops up to 4 pairs, unpacked up to 12 queries or 15 keys, and blocks of 64 and 512 keys.
    for (sequence, keys) in [(1, 1), (2, 2), (1, 5), (3, 2), (12, 16), (13, 16), (13, 15), (40, 9), (2, 65), (7, 1100)]
    {
        for (heads, kv_heads, head) in [(1, 0, 64), (4, 2, 24), (3, 1, 5), (2, 2, 128)] {
            for mask in ["none", "causal", "padding"] {
                let sizes = [2, sequence, heads * head, heads, kv_heads];
                let mut case = case(&registry, "attention-core", sizes, mask);
                shape::set_keys(&mut case, keys);
                let inputs = workload.inputs(&case, 4).unwrap();
                let expected = workload.reference(&case, &inputs).unwrap();
                let shape = Shape::of(&case).unwrap();
                let lengths: Vec<i64> = inputs.find("lengths").map_or(Vec::new(), |l| l.i64().unwrap().to_vec());
                let given = ["q", "k", "v"].map(|name| inputs.f32(name).unwrap());
                for (isa, tiling) in
                    Isa::available().into_iter().flat_map(|isa| [(isa, Tiling::FAST), (isa, Tiling::SMALL)])
                {
                    let got = core(isa, tiling, &shape, &lengths, given);
                    let pairs = got.iter().zip(expected.f32("context").unwrap());
                    let worst =
                        pairs.map(|(a, b)| if (a - b).abs() <= 1e-6 { 0.0 } else { (a - b).abs() }).fold(0.0, f32::max);
                    assert!(
                        got.iter().all(|y| y.is_finite()) && worst == 0.0,
                        "{} {tiling:?} {case}: {worst}",
                        isa.name()
                    );
                }
            }
        }
    }
}
