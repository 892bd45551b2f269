//! Bytes that overwrite outputs before a run whose answer is judged, so that a run that computes nothing is wrong.
//!
//! A value that was never written could still be right, if the pattern equals the reference. So there are two patterns
//! that differ in every byte, and no answer is accepted after only one of them.

use crate::tensor::{Element, Tensor, Tensors};

/// What outputs are overwritten with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poison {
    /// NaN as a float of any width, -1 or the largest number as an integer.
    Ones,
    /// A large number as a float of any width, neither an identity of a sum nor of a maximum.
    Mixed,
}

impl Poison {
    /// The byte that fills an output.
    pub fn byte(self) -> u8 {
        match self {
            Poison::Ones => 0xff,
            Poison::Mixed => 0x5a,
        }
    }

    /// The other pattern, which differs in every byte.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Poison::Ones => Poison::Mixed,
            Poison::Mixed => Poison::Ones,
        }
    }

    /// A value made of the byte.
    pub fn value<T: Element>(self) -> T {
        T::of_byte(self.byte())
    }

    /// Overwrites all values.
    pub fn fill<T: Element>(self, values: &mut [T]) {
        values.fill(self.value());
    }

    /// Overwrites all elements of an array, in separate memory if the array is shared.
    pub fn fill_tensor(self, tensor: &mut Tensor) {
        tensor.fill_bytes(self.byte());
    }

    /// True if some element may not have been written since the outputs were overwritten.
    pub fn remains_in(self, outputs: &Tensors) -> bool {
        outputs.iter().any(|(_, tensor)| tensor.data().elements_of(self.byte()) > 0)
    }

    /// The name of an array that still holds the `answer`, or a part of it, although the outputs were overwritten.
    ///
    /// An array computed from the outputs (unpacked codes) may equal the answer by chance if it is short, so a short
    /// array counts only if it is the only one. Nor does such an array contain the pattern in elements of 4 bytes or more:
    /// one that does is an output, and elements without the pattern were left out.
    pub fn survivor<'a>(self, answer: &Tensors, overwritten: &'a Tensors) -> Option<&'a str> {
        let kept = |(name, now): &(&str, &Tensor)| {
            let Some(before) = answer.find(name) else { return false };
            let spoiled = now.data().elements_of(self.byte());
            let partly = (1..now.len()).contains(&spoiled) && now.dtype().size() >= 4;
            let same = now.data().same_bits(before.data()) && (now.bytes() >= 16 || overwritten.len() == 1);
            partly || same && spoiled < now.len()
        };
        overwritten.iter().find(kept).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(values: &[f32]) -> Tensors {
        Tensors::new().with("y", Tensor::vector(values))
    }

    #[test]
    fn the_patterns_differ_in_every_byte_and_are_found() {
        assert!(Poison::Ones.value::<f32>().is_nan() && Poison::Ones.value::<f64>().is_nan());
        assert!(Poison::Mixed.value::<f32>().is_finite() && Poison::Mixed.value::<f64>().is_finite());
        for poison in [Poison::Ones, Poison::Mixed] {
            let mut tensor = Tensor::vector(&[1.0_f32, 2.0][..]);
            let shared = tensor.clone();
            poison.fill_tensor(&mut tensor);
            assert!(poison.remains_in(&Tensors::new().with("y", tensor.clone())));
            assert_eq!(shared.f32().unwrap(), [1.0, 2.0], "what others hold stays");
            assert!(!poison.other().remains_in(&Tensors::new().with("y", tensor)));
        }
        assert!(!Poison::Ones.remains_in(&one(&[f32::NAN])), "a computed NaN has other bits");
    }

    #[test]
    fn an_array_that_survives_is_named() {
        let poison = Poison::Mixed;
        let (answer, spoiled) = (one(&[1.0, 2.0, 3.0, 4.0]), one(&[poison.value(); 4]));
        assert_eq!(poison.survivor(&answer, &answer), Some("y"));
        assert_eq!(poison.survivor(&answer, &spoiled), None);
        let partly = one(&[poison.value(), 2.0, 3.0, 4.0]);
        assert_eq!(poison.survivor(&answer, &partly), Some("y"), "three of its values were left out");
        assert_eq!(poison.survivor(&spoiled, &spoiled), None, "an answer may be the pattern");
        assert_eq!(poison.survivor(&answer, &Tensors::new()), None, "an answer that is gone is no answer");
        let flag = |tensors: Tensors| tensors.with("flag", Tensor::vector(&[0_u8][..]));
        assert_eq!(poison.survivor(&flag(answer.clone()), &flag(spoiled)), None, "by chance");
        assert_eq!(poison.survivor(&flag(answer.clone()), &flag(answer)), Some("y"));
    }
}
