//! Which vector instructions this processor has.

/// Instruction sets for which kernels are compiled, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every processor of the architecture has.
    Baseline,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512 F, BW, CD, DQ, VL.
    Avx512,
}

impl Isa {
    /// The strongest set that this processor has.
    pub fn best() -> Self {
        Self::available().last().copied().unwrap_or(Isa::Baseline)
    }

    /// Every set that this processor has, weakest first.
    pub fn available() -> Vec<Self> {
        let mut sets = vec![Isa::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(Isa::Avx2);
                if ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"].iter().all(|f| has(f)) {
                    sets.push(Isa::Avx512);
                }
            }
        }
        sets
    }

    /// Name for records.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Baseline => "baseline",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has(feature: &str) -> bool {
    match feature {
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "avx512bw" => is_x86_feature_detected!("avx512bw"),
        "avx512cd" => is_x86_feature_detected!("avx512cd"),
        "avx512dq" => is_x86_feature_detected!("avx512dq"),
        "avx512vl" => is_x86_feature_detected!("avx512vl"),
        _ => false,
    }
}
