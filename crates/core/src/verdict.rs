//! The check of outputs against the reference.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::tensor::{Data, Tensors};

/// The largest accepted difference between an output and the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// Every bit must match.
    Exact,
    /// `|got - expected| <= absolute + relative * |expected|`, element by element.
    Close {
        /// Absolute part, in the unit of the output.
        absolute: f64,
        /// Part relative to the magnitude of the reference.
        relative: f64,
    },
}

/// The outcome of comparing outputs with the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// True if every output is within tolerance.
    pub passed: bool,
    /// Largest absolute difference over all numeric outputs; 0 if they are identical, `None` if nothing was compared.
    pub max_error: Option<f64>,
    /// How many values were compared; `None` if the judge does not count or an older version recorded the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// What was wrong, or what was compared.
    pub detail: String,
}

/// How much of an answer was compared with the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// Values that were compared.
    pub values: u64,
    /// Values of the answer.
    pub of: u64,
}

impl Compared {
    /// All values of an answer.
    pub fn all(values: usize) -> Self {
        Self { values: values as u64, of: values as u64 }
    }

    /// True if some values of the answer were not compared.
    pub fn is_partial(&self) -> bool {
        self.values < self.of
    }

    /// The remark on an answer that was compared only in part, with the same words in every command and report.
    pub fn remark(&self) -> Option<String> {
        self.is_partial().then(|| format!("the reference judged {self} of the answer; the others may be wrong"))
    }

    /// Of several answers, the one with the smallest compared share.
    pub fn least(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let share = |one: &Self| one.values as f64 / one.of.max(1) as f64;
        all.into_iter().min_by(|one, other| share(one).total_cmp(&share(other)))
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_partial() {
            true => write!(f, "{} of {} values", self.values, self.of),
            false => write!(f, "{} values", self.values),
        }
    }
}

impl Verdict {
    /// A failed check with its reason.
    pub fn wrong(detail: impl Into<String>) -> Self {
        Self { passed: false, max_error: None, compared: None, detail: detail.into() }
    }

    /// A failed check for a value that is `error` away from the reference.
    pub fn beyond(error: f64, detail: impl Into<String>) -> Self {
        Self { max_error: Some(error), ..Self::wrong(detail) }
    }

    /// A passed check by a judge that does not count values.
    pub fn right(detail: impl Into<String>) -> Self {
        Self { passed: true, ..Self::wrong(detail) }
    }

    /// All `compared` values agree, the worst within `max_error`. A check that compared nothing has failed.
    pub fn agree(compared: Compared, max_error: f64) -> Self {
        let verdict = Self { passed: true, max_error: Some(max_error), ..Self::wrong(format!("{compared} agree")) };
        Self { compared: Some(compared), ..verdict }.of_something()
    }

    /// This verdict, or a failed one if it passed without comparing a single value.
    #[must_use]
    pub fn of_something(self) -> Self {
        match self.compared {
            Some(Compared { values: 0, .. }) if self.passed => Self::wrong(
                "nothing was compared: the reference has no values here; expected at least one, so choose a larger case",
            ),
            _ => self,
        }
    }
}

/// Compares every expected array with the one of the same name in `got`: type, shape, NaN, then values within
/// `tolerance`. Ignores additional arrays in `got`.
pub fn compare(expected: &Tensors, got: &Tensors, tolerance: Tolerance) -> Verdict {
    let mut max_error = 0.0_f64;
    let mut compared = 0_usize;
    for (name, want) in expected.iter() {
        let Some(have) = got.find(name) else {
            return Verdict::wrong(format!("output {name} is missing"));
        };
        if have.dtype() != want.dtype() {
            return Verdict::wrong(format!("output {name} is {}, the reference {}", have.dtype(), want.dtype()));
        }
        if have.shape() != want.shape() {
            return Verdict::wrong(format!(
                "output {name} has shape {:?}, the reference {:?}",
                have.shape(),
                want.shape()
            ));
        }
        compared += want.len();
        match tolerance {
            Tolerance::Exact => {
                if !have.data().same_bits(want.data()) {
                    return exact_difference(name, want.data(), have.data());
                }
            }
            Tolerance::Close { absolute, relative } => {
                let (want, have) = (want.data().to_f64(), have.data().to_f64());
                for (index, (w, h)) in want.iter().zip(&have).enumerate() {
                    // Equal infinities agree, and so do two NaNs; neither has a finite difference.
                    if w == h || (w.is_nan() && h.is_nan()) {
                        continue;
                    }
                    let error = (h - w).abs();
                    let allowed = absolute + relative * w.abs();
                    // A NaN instead of a number exceeds any tolerance, and so does an infinity that the reference does
                    // not have.
                    if error.is_nan() || error > allowed || error.is_infinite() {
                        let largest = largest(&want, &have);
                        return Verdict::beyond(
                            error,
                            format!(
                                "output {name}[{index}] is {h:e}, the reference {w:e}, allowed {absolute:e} + {relative:e} |reference|{largest}"
                            ),
                        );
                    }
                    max_error = max_error.max(error);
                }
            }
        }
    }
    Verdict::agree(Compared::all(compared), max_error)
}

/// The largest difference and reference of an output, which show what tolerance would accept it; empty if none would.
fn largest(want: &[f64], have: &[f64]) -> String {
    let differ = want.iter().zip(have).filter(|(w, h)| w != h && !(w.is_nan() && h.is_nan()));
    let errors: Vec<f64> = differ.map(|(w, h)| (h - w).abs()).collect();
    if !errors.iter().all(|error| error.is_finite()) {
        return String::new();
    }
    let difference = errors.into_iter().fold(0.0, f64::max);
    let reference = want.iter().map(|w| w.abs()).filter(|w| w.is_finite()).fold(0.0, f64::max);
    format!(" (largest difference {difference:.2e}, largest |reference| {reference:.2e})")
}

/// Checks the values of the output `name`: each must equal its reference or differ by at most `allowed(index, reference)`.
/// Takes pairs of a value and its reference.
pub fn compare_each(
    name: &str,
    values: impl ExactSizeIterator<Item = (f64, f64)>,
    allowed: impl Fn(usize, f64) -> f64,
) -> Verdict {
    let (count, mut most) = (values.len(), 0.0_f64);
    for (at, (h, w)) in values.enumerate() {
        if h == w || h.is_nan() && w.is_nan() {
            continue;
        }
        let (error, allowed) = ((h - w).abs(), allowed(at, w));
        // NaN compares as false, so a NaN instead of a number is an error.
        if !(error <= allowed && error.is_finite()) {
            let detail = format!("output {name}[{at}] is {h:e}, the reference {w:e}, allowed {allowed:e}");
            return Verdict::beyond(error, detail);
        }
        most = most.max(error);
    }
    Verdict::agree(Compared::all(count), most)
}

fn exact_difference(name: &str, want: &Data, have: &Data) -> Verdict {
    let (want, have) = (want.to_f64(), have.to_f64());
    let differing = want.iter().zip(&have).filter(|(w, h)| w.to_bits() != h.to_bits()).count();
    let first = want.iter().zip(&have).position(|(w, h)| w.to_bits() != h.to_bits()).unwrap_or(0);
    let most = want.iter().zip(&have).map(|(w, h)| (h - w).abs()).fold(0.0, f64::max);
    Verdict::beyond(
        most,
        format!(
            "output {name} must equal the reference bit for bit; {differing} of {} values differ, the first at {first}: {} instead of {}",
            want.len(),
            have.get(first).copied().unwrap_or(f64::NAN),
            want.get(first).copied().unwrap_or(f64::NAN),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    fn arrays(values: &[f32]) -> Tensors {
        Tensors::new().with("y", Tensor::vector(values))
    }

    #[test]
    fn close_accepts_within_and_refuses_beyond() {
        let tolerance = Tolerance::Close { absolute: 1e-3, relative: 0.0 };
        let verdict = compare(&arrays(&[1.0, 2.0]), &arrays(&[1.0005, 2.0]), tolerance);
        assert!(verdict.passed && verdict.max_error.unwrap() > 4e-4, "{verdict:?}");
        let verdict = compare(&arrays(&[1.0, 2.0]), &arrays(&[1.0, 2.1]), tolerance);
        assert!(!verdict.passed && verdict.detail.contains("y[1]"), "{verdict:?}");
    }

    #[test]
    fn a_difference_is_shown_with_the_largest_ones() {
        let tolerance = Tolerance::Close { absolute: 1e-3, relative: 0.0 };
        let verdict = compare(&arrays(&[1.0, -4.0, 2.0]), &arrays(&[1.25, -4.0, 2.5]), tolerance);
        let expected = "output y[0] is 1.25e0, the reference 1e0, allowed 1e-3 + 0e0 |reference| \
                        (largest difference 5.00e-1, largest |reference| 4.00e0)";
        assert_eq!(verdict.detail, expected);
        // No tolerance accepts a NaN.
        let verdict = compare(&arrays(&[1.0, 2.0]), &arrays(&[1.25, f32::NAN]), tolerance);
        assert!(verdict.detail.ends_with("|reference|"), "{verdict:?}");
    }

    #[test]
    fn nan_where_a_number_belongs_is_wrong() {
        let tolerance = Tolerance::Close { absolute: 1e30, relative: 1e30 };
        assert!(!compare(&arrays(&[1.0]), &arrays(&[f32::NAN]), tolerance).passed);
        assert!(compare(&arrays(&[f32::NAN]), &arrays(&[f32::NAN]), tolerance).passed);
        assert!(
            !compare(&arrays(&[1.0]), &arrays(&[f32::INFINITY]), Tolerance::Close { absolute: 1.0, relative: 1.0 })
                .passed
        );
    }

    #[test]
    fn exact_detects_one_bit() {
        let verdict = compare(&arrays(&[1.0, 0.0]), &arrays(&[1.0, -0.0]), Tolerance::Exact);
        assert!(!verdict.passed && verdict.detail.contains("1 of 2 values differ, the first at 1"), "{verdict:?}");
    }

    #[test]
    fn comparing_nothing_is_wrong() {
        for tolerance in [Tolerance::Exact, Tolerance::Close { absolute: 1.0, relative: 1.0 }] {
            for nothing in [Tensors::new(), arrays(&[])] {
                let verdict = compare(&nothing, &nothing, tolerance);
                assert!(!verdict.passed && verdict.detail.contains("nothing was compared"), "{verdict:?}");
            }
        }
        let some = Verdict::agree(Compared { values: 3, of: 7 }, 0.0);
        assert!(some.passed && some.detail == "3 of 7 values agree", "{some:?}");
        let [some, all] = [some.compared.unwrap(), Compared::all(2)];
        assert_eq!(
            (Compared::least([all, some]), Compared::least([some, all]), all.remark()),
            (Some(some), Some(some), None)
        );
    }

    #[test]
    fn shape_type_and_absence_are_named() {
        let want = Tensors::new().with("y", Tensor::new(&[1, 2], &[0.0_f32; 2][..]).unwrap());
        assert!(compare(&want, &arrays(&[0.0, 0.0]), Tolerance::Exact).detail.contains("shape"));
        assert!(compare(&want, &Tensors::new(), Tolerance::Exact).detail.contains("missing"));
        let other = Tensors::new().with("y", Tensor::new(&[1, 2], &[0_u8; 2][..]).unwrap());
        assert!(compare(&want, &other, Tolerance::Exact).detail.contains("uint8"));
    }
}
