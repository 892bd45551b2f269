//! The forms for few queries or keys.

use ellwand_core::{Tensor, Tensors};
use ellwand_simd::isa::Isa;

use super::super::fused::Tiling;
use super::super::shape::{self, Shape};
use super::{case, core, registry};

#[test]
fn forms_for_few_queries_agree_with_the_reference_at_the_limits() {
    let registry = registry();
    let workload = registry.find("attention-core").unwrap();
    // On each side of the limits of `most_direct` and `is_plain`; blocks of 64 and 512 keys.
    for (sequence, keys) in [
        (1, 1),
        (2, 2),
        (1, 5),
        (3, 2),
        (12, 16),
        (13, 16),
        (13, 15),
        (32, 15),
        (33, 15),
        (40, 7),
        (40, 8),
        (2, 65),
        (7, 1100),
    ] {
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
                    let dims = expected.get("context").unwrap().shape().to_vec();
                    let got = Tensors::new().with("context", Tensor::new(&dims, &got[..]).unwrap());
                    let verdict = workload.judge(&case, &inputs, &expected, &got);
                    assert!(verdict.passed, "{} {tiling:?} {case}: {}", isa.name(), verdict.detail);
                }
            }
        }
    }
}
