//! How the outputs of further implementations differ from those of the first, for `apply`.

use ellwand_core::implementation::Implementation;
use ellwand_core::tensor::{Tensor, Tensors};
use serde_json::{Map, Value as Json, json};

/// A further implementation, and how its outputs differ from those of the first.
pub(super) struct Other {
    name: String,
    what_ran: String,
    differences: Vec<(String, Difference)>,
}

/// How two arrays differ.
#[derive(Debug, PartialEq)]
enum Difference {
    /// Equal in every bit.
    Identical,
    /// By at most a finite number.
    AtMost(f64),
    /// In type, in shape, or by more than a number can express.
    Apart(String),
}

impl Other {
    pub(super) fn new(implementation: &Implementation, what_ran: String, first: &Tensors, outputs: &Tensors) -> Self {
        let difference = |(name, first): (&str, &Tensor)| {
            let difference = match outputs.find(name) {
                Some(got) => difference(first, got),
                None => Difference::Apart("it is missing".into()),
            };
            (name.to_string(), difference)
        };
        let differences = first.iter().map(difference).collect();
        Self { name: implementation.name.clone(), what_ran, differences }
    }

    /// One line per array; `first` is the implementation that it is compared with.
    pub(super) fn lines<'a>(&'a self, first: &'a str) -> impl Iterator<Item = String> + 'a {
        self.differences.iter().map(move |(array, difference)| {
            let how = match difference {
                Difference::Identical => "identical".to_string(),
                Difference::AtMost(most) => format!("differs by at most {most:.2e}"),
                Difference::Apart(why) => format!("differs: {why}"),
            };
            format!("{} against {first}: {array} {how}", self.name)
        })
    }

    pub(super) fn json(&self) -> Json {
        let array = |(name, difference): &(String, Difference)| {
            let about = match difference {
                Difference::Identical => json!({ "identical": true, "largest_difference": 0.0 }),
                Difference::AtMost(most) => json!({ "identical": false, "largest_difference": most }),
                Difference::Apart(why) => json!({ "identical": false, "detail": why }),
            };
            (name.clone(), about)
        };
        let arrays: Map<String, Json> = self.differences.iter().map(array).collect();
        json!({ "implementation": self.name, "what_ran": self.what_ran, "arrays": arrays })
    }
}

fn difference(first: &Tensor, other: &Tensor) -> Difference {
    if (first.dtype(), first.shape()) != (other.dtype(), other.shape()) {
        let about = |tensor: &Tensor| format!("{} {:?}", tensor.dtype(), tensor.shape());
        return Difference::Apart(format!("{}, not {}", about(other), about(first)));
    }
    if first.data().same_bits(other.data()) {
        return Difference::Identical;
    }
    let mut most = 0.0_f64;
    for (at, (want, have)) in first.data().to_f64().into_iter().zip(other.data().to_f64()).enumerate() {
        // Equal infinities agree, and so do two NaN.
        if want == have || (want.is_nan() && have.is_nan()) {
            continue;
        }
        let error = (have - want).abs();
        if !error.is_finite() {
            return Difference::Apart(format!("value {at} is {have:e}, not {want:e}"));
        }
        most = most.max(error);
    }
    Difference::AtMost(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_identical_close_or_different() {
        let array = |values: &[f32]| Tensor::vector(values);
        let first = array(&[1.0, f32::NAN, f32::INFINITY, 0.0]);
        assert_eq!(difference(&first, &first.clone()), Difference::Identical);
        let near = difference(&first, &array(&[1.25, f32::NAN, f32::INFINITY, -0.0]));
        assert_eq!(near, Difference::AtMost(0.25));
        let apart = |other: &Tensor| match difference(&first, other) {
            Difference::Apart(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(apart(&array(&[f32::NAN, f32::NAN, f32::INFINITY, 0.0])), "value 0 is NaN, not 1e0");
        assert_eq!(apart(&array(&[1.0])), "float32 [1], not float32 [4]");
        assert_eq!(apart(&Tensor::vector(&[0_u8; 4][..])), "uint8 [4], not float32 [4]");
    }
}
