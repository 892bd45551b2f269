//! The vector instruction sets of this CPU, and the one that a case selects.

use ellwand_core::{Axis, Case, InputError};

/// An instruction set that kernels can use on this machine.
///
/// Values other than `BASELINE` come only from detection, so holding one proves that the CPU supports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(Set);

/// The instruction sets that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    #[cfg(target_arch = "x86_64")]
    /// AVX-512 F, BW, DQ and VL, with FMA.
    Avx512,
    #[cfg(target_arch = "x86_64")]
    /// AVX2 with FMA.
    Avx2,
    /// The instructions that every CPU of the architecture has.
    Baseline,
}

impl Isa {
    /// The instructions that every machine of the target architecture has.
    pub const BASELINE: Isa = Isa(Set::Baseline);

    /// The instruction sets of this machine, fastest first; the last one is `BASELINE`.
    #[must_use]
    pub fn available() -> Vec<Isa> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("fma")
            {
                found.push(Isa(Set::Avx512));
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(Isa(Set::Avx2));
            }
        }
        found.push(Isa::BASELINE);
        found
    }

    /// The fastest instruction set of this machine.
    #[must_use]
    pub fn best() -> Isa {
        static BEST: std::sync::OnceLock<Isa> = std::sync::OnceLock::new();
        *BEST.get_or_init(|| Isa::available()[0])
    }

    /// The axis that selects the instruction set. It was added to existing workloads, so its default leaves their case
    /// ids unchanged.
    pub fn axis() -> Axis {
        let mut axis = Axis::choice(
            "isa",
            "vector instructions of all but reference and scalar",
            &["best", "avx512", "avx2", "baseline"],
            "best",
        );
        axis.neutral = axis.default.first().cloned();
        axis
    }

    /// The instruction set that a case selects.
    ///
    /// # Errors
    /// If this CPU does not support it.
    pub fn of(case: &Case) -> Result<Isa, InputError> {
        let wanted = match case.text("isa") {
            None | Some("best") => return Ok(Isa::best()),
            Some(wanted) => wanted,
        };
        let here = Isa::available();
        let names: Vec<&str> = here.iter().map(|isa| isa.name()).collect();
        let expected = format!("best, {}", names.join(", "));
        here.iter()
            .copied()
            .find(|isa| isa.name() == wanted)
            .ok_or_else(|| InputError::setting("isa", format!("this processor does not support {wanted}"), expected))
    }

    /// The same case on every other instruction set of this machine; none if the case names its instruction set.
    pub fn others(case: &Case) -> Vec<Case> {
        if !matches!(case.text("isa"), None | Some("best")) {
            return Vec::new();
        }
        let on = |isa: &Isa| {
            let mut other = case.clone();
            other.params.retain(|(axis, _)| axis != "isa");
            other.params.push(("isa".into(), isa.name().into()));
            other
        };
        Isa::available()[1..].iter().map(on).collect()
    }

    /// The digest that seeds the inputs: that of the case without the instruction set.
    pub fn data_digest(case: &Case) -> u64 {
        let params = case.params.iter().filter(|(axis, _)| axis != "isa").cloned().collect();
        Case::new(&case.workload, params).digest()
    }

    /// The set, for dispatch to a kernel.
    pub fn set(self) -> Set {
        self.0
    }

    /// The name: "avx512", "avx2" or "baseline".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            Set::Baseline => "baseline",
        }
    }
}
