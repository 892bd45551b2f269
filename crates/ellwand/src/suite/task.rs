//! The workload of a suite. Typed values do not fit into arrays: the seed of an input and the digest of an answer pass
//! through the core, and the values themselves wait in a place that the suite's parts share.

use std::fmt::{self, Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ellwand_bench::check::{Panicked, guarded};
use ellwand_core::case::Fnv;
use ellwand_core::{Case, Compared, Description, InputError, Tensor, Tensors, Tolerance, Verdict, Work, Workload};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::values::count;
use super::{Judge, Make, NO_OUTPUT, Point, Required, Way};

const SEED: &str = "seed";
const ANSWER: &str = "answer";
const UNWRITTEN: &str = "unwritten";
/// An input and its reference that take less time than this are made twice, to detect inputs that depend on something
/// else.
const CHEAP: Duration = Duration::from_millis(100);

/// A case and the seed of its input.
type Key = (String, u64);

/// Data that the workload and the implementations of one suite share.
pub(super) struct Shared<I, O> {
    make: Arc<Make<I>>,
    reference: Option<Way<I, O>>,
    judge: Option<Arc<Judge<O>>>,
    kept: Mutex<Kept<I, O>>,
}

/// Only the latest of each, because cases are measured one after another.
struct Kept<I, O> {
    input: Option<(Key, Arc<I>)>,
    /// Time to make that input.
    made_in: Duration,
    expected: Option<(Key, Arc<O>)>,
    answer: Option<(u64, Arc<O>)>,
}

impl<I: Clone, O: PartialEq + Debug> Shared<I, O> {
    pub(super) fn new(make: Arc<Make<I>>, reference: Option<Way<I, O>>, judge: Option<Arc<Judge<O>>>) -> Self {
        let kept = Kept { input: None, made_in: Duration::ZERO, expected: None, answer: None };
        Self { make, reference, judge, kept: Mutex::new(kept) }
    }

    /// User closures never run under this lock, so a panic cannot leave it inconsistent.
    fn lock(&self) -> MutexGuard<'_, Kept<I, O>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The input of a case, made once per process.
    pub(super) fn input(&self, case: &Case, seed: u64) -> Arc<I> {
        let key = (case.id(), seed);
        if let Some((_, known)) = self.lock().input.as_ref().filter(|(known, _)| *known == key) {
            return Arc::clone(known);
        }
        let begin = Instant::now();
        let made = Arc::new((self.make)(&Point(case), &mut generator(seed)));
        let mut kept = self.lock();
        (kept.input, kept.made_in) = (Some((key, Arc::clone(&made))), begin.elapsed());
        made
    }

    /// The reference answer, computed once per process.
    fn expected(&self, case: &Case, seed: u64) -> Result<Arc<O>, InputError> {
        let key = (case.id(), seed);
        if let Some((_, known)) = self.lock().expected.as_ref().filter(|(known, _)| *known == key) {
            return Ok(Arc::clone(known));
        }
        let input = self.input(case, seed);
        let Some(way) = &self.reference else {
            return Err(InputError::new(&case.workload, "it has no implementation", "at least one"));
        };
        let of = |input: &I| way.once(input).ok_or_else(|| InputError::new(&case.workload, NO_OUTPUT, "an output"));
        let begin = Instant::now();
        let computed = Arc::new(of(&input)?);
        if self.lock().made_in + begin.elapsed() < CHEAP {
            // A NaN does not equal itself, but its text does.
            let other = |answer: O| self.verdict(&computed, &answer).is_err() && digest(&*computed) != digest(&answer);
            let again = (self.make)(&Point(case), &mut generator(seed));
            // A reference that answers one input in two ways is left to the judge.
            if other(of(&again)?) && !other(of(&input)?) {
                let problem = "its input differs each time it is made, and so from process to process";
                let expected = "an input made only from the case and the given random numbers";
                return Err(InputError::new(&case.workload, problem, expected));
            }
        }
        let before = self.lock().expected.replace((key, Arc::clone(&computed)));
        let _ = guarded("dropping an answer", || drop(before));
        Ok(computed)
    }

    /// Keeps an answer for the judge and returns its token for the core.
    pub(super) fn answer(&self, answer: O) -> Tensors {
        let digest = digest(&answer);
        let before = self.lock().answer.replace((digest, Arc::new(answer)));
        // It may belong to another implementation, whose panic says nothing about this one.
        let _ = guarded("dropping an answer", || drop(before));
        token(digest)
    }

    fn judged(&self, expected: &O, got: &Tensors) -> Verdict {
        if let Some(left) = got.find(UNWRITTEN) {
            return Verdict::wrong(match left.u64() {
                Ok(&[left, of]) if of > 0 => format!(
                    "it did not write {left} of the {of} values of its buffer, which still hold what Ellwand overwrote the \
                     buffer with before the run; write every value, whatever the buffer held"
                ),
                _ => "its buffer is unchanged, so it may have written nothing; let `.output` make contents that no answer \
                      has"
                .into(),
            });
        }
        let Some(&[asked]) = got.find(ANSWER).and_then(|array| array.u64().ok()) else {
            return Verdict::wrong("it computed nothing");
        };
        let kept =
            self.lock().answer.as_ref().filter(|(known, _)| *known == asked).map(|(_, answer)| Arc::clone(answer));
        let Some(answer) = kept else {
            return Verdict::wrong("its answer is no longer there to be judged");
        };
        match self.verdict(expected, &answer) {
            Err(why) => Verdict::wrong(why),
            Ok(Some(compared)) => {
                let detail = format!("the suite's judge accepts it after comparing {compared}");
                Verdict { compared: Some(compared), ..Verdict::right(detail) }.of_something()
            }
            Ok(None) if self.judge.is_some() => {
                let size =
                    count(&*answer).map_or_else(String::new, |values| format!(", an answer of {values} values,"));
                Verdict::right(format!("the suite's judge accepts it{size} and does not count what it compares"))
            }
            Ok(None) if is_empty(expected) => Verdict::wrong(
                "neither its answer nor the reference has a value, so nothing is compared; let it return what it computed, leave \
                 this case out, or compare such answers with `.judge`",
            ),
            Ok(None) => match count(expected) {
                Some(values) => Verdict::agree(Compared::all(values), 0.0),
                None => Verdict { max_error: Some(0.0), ..Verdict::right("the whole answer agrees, compared by `==`") },
            },
        }
    }

    /// How much of an accepted answer the suite's judge compared; `None` if it does not count, or if the two are equal.
    fn verdict(&self, expected: &O, answer: &O) -> Result<Option<Compared>, String> {
        match &self.judge {
            Some(judge) => judge(expected, answer),
            None if *expected == *answer => Ok(None),
            None => Err(difference(answer, expected)),
        }
    }
}

/// The token of an answer: equal digests mean equal answers, in any process.
pub(super) fn token(digest: u64) -> Tensors {
    Tensors::new().with(ANSWER, Tensor::vector(&[digest][..]))
}

/// The token of a buffer of which `left` of `of` values were not written; both are 0 if its type has no known values and
/// nothing has changed.
pub(super) fn unwritten([left, of]: [usize; 2]) -> Tensors {
    Tensors::new().with(UNWRITTEN, Tensor::vector(&[left as u64, of as u64][..]))
}

/// The remark on implementations whose buffer has a type that Ellwand cannot overwrite. Not generic, so it is compiled once.
pub(super) fn not_overwritten(names: &[&str], of: &str) -> String {
    format!(
        "Ellwand cannot overwrite the buffer of {} (type {of}) before a run, so values that a run does not write pass where \
         `.output` makes them right; let it make contents that no answer has",
        names.join(", ")
    )
}

/// The seed that represents an input.
pub(super) fn seed(inputs: &Tensors) -> Result<u64, InputError> {
    match inputs.get(SEED)?.u64()? {
        [seed] => Ok(*seed),
        _ => Err(InputError::new(SEED, "it is not one number", "the seed of a generated input")),
    }
}

/// Not generic, so it is compiled once and not in every program.
fn generator(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// FNV-1a of the `Debug` text, without holding the text in memory.
pub(super) fn digest(value: &dyn Debug) -> u64 {
    struct Feed(Fnv);
    impl fmt::Write for Feed {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.bytes(text.as_bytes());
            Ok(())
        }
    }
    let mut feed = Feed(Fnv::new());
    // A user's Debug may fail half-way; the text until then still counts.
    let _ = write!(feed, "{value:?}");
    feed.0.finish()
}

/// True for a value without any part that could differ: `()`, empty lists and texts, and lists of these.
pub(super) fn is_empty<O: Debug>(value: &O) -> bool {
    size_of::<O>() == 0 || count(value) == Some(0)
}

/// Characters of the `Debug` text of an answer shown in a message, and bytes of them before the first difference.
const SHOWN: usize = 60;
const BEFORE: usize = 20;

/// Where the `Debug` texts of an answer and of the reference differ, with the text around that place.
fn difference(answer: &dyn Debug, expected: &dyn Debug) -> String {
    let [answer, expected] = [format!("{answer:?}"), format!("{expected:?}")];
    let first = answer.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
    let (got, wanted) = (around(&answer, first), around(&expected, first));
    if answer == expected {
        return format!("it answered {got}, which looks like the reference but is not equal to it");
    }
    if answer.len().max(expected.len()) <= SHOWN {
        return format!("it answered {got}, the reference {wanted}");
    }
    let place = match index_at(&answer, &expected, first) {
        Some(index) => format!("element {index}"),
        None => format!("byte {first}"),
    };
    let lengths = match (elements(&answer), elements(&expected)) {
        (Some(got), Some(wanted)) => format!("{got} and {wanted} elements"),
        _ => format!("{} and {} bytes as text", answer.len(), expected.len()),
    };
    format!("it answered {got}, the reference {wanted} (they differ from {place} on; {lengths})")
}

/// Part of a text that begins a little before `place`, without control characters.
fn around(text: &str, place: usize) -> String {
    let from = if text.len() <= SHOWN { 0 } else { text.floor_char_boundary(place.saturating_sub(BEFORE)) };
    let rest = &text[from..];
    let shown = rest.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c });
    let (before, after) = (if from > 0 { ".." } else { "" }, if rest.chars().nth(SHOWN).is_some() { ".." } else { "" });
    format!("{before}{}{after}", shown.collect::<String>())
}

/// Index of the first differing element, for the `Debug` texts of two flat lists of numbers that differ at `place`.
fn index_at(answer: &str, expected: &str, place: usize) -> Option<usize> {
    let index = commas(answer.strip_prefix('[')?.get(..place.checked_sub(1)?)?)?;
    // If one list ends where the other continues, the element before this place is complete in both.
    let ends = |text: &str| matches!(text.as_bytes().get(place), Some(b',' | b']'));
    Some(index + usize::from(ends(answer) && ends(expected)))
}

/// Elements of a flat list of numbers, from its `Debug` text.
fn elements(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    if inside.is_empty() { Some(0) } else { commas(inside).map(|commas| commas + 1) }
}

/// Commas in part of the `Debug` text of a flat list of numbers; `None` for any other text.
fn commas(text: &str) -> Option<usize> {
    let flat = text.chars().all(|c| c.is_ascii_alphanumeric() || ",.+- ".contains(c));
    flat.then(|| text.matches(',').count())
}

/// The workload of a suite.
pub(super) struct Task<I, O> {
    pub(super) description: Description,
    pub(super) work: Option<Arc<Required>>,
    pub(super) shared: Arc<Shared<I, O>>,
    pub(super) mistake: Option<InputError>,
    /// The remark on buffers that cannot be overwritten.
    pub(super) remark: Option<String>,
}

impl<I, O> Task<I, O> {
    /// The work that the user's `.work` returns. Plans and estimates call it outside any row, which a panic must not
    /// end.
    fn required(&self, case: &Case) -> Result<Work, Panicked> {
        self.work.as_ref().map_or_else(|| Ok(one_call()), |work| guarded("`.work`", || work(&Point(case))))
    }
}

fn one_call() -> Work {
    Work::items("calls", 1)
}

impl<I, O> Workload for Task<I, O>
where
    I: Clone + Send + Sync + 'static,
    O: PartialEq + Debug + Send + Sync + 'static,
{
    fn description(&self) -> &Description {
        &self.description
    }
    fn check(&self, case: &Case) -> Result<(), InputError> {
        if let Some(mistake) = &self.mistake {
            return Err(mistake.clone());
        }
        match self.required(case) {
            Ok(work) if !(work.flops.is_finite() && work.flops >= 0.0) => {
                let problem = format!("its `.work` states {} operations at {}", work.flops, case.id());
                Err(InputError::new(&case.workload, problem, ".flops(x) with a finite number from 0 on"))
            }
            // A panic becomes a failed row.
            _ => Ok(()),
        }
    }
    fn remarks(&self, _: &Case) -> Vec<String> {
        self.remark.iter().cloned().collect()
    }
    /// Input, copy, expected answer and answer, as far as the work gives their sizes.
    fn footprint(&self, case: &Case) -> u64 {
        2 * self.work(case).bytes_total()
    }
    fn inputs(&self, case: &Case, seed: u64) -> Result<Tensors, InputError> {
        if let Err(panicked) = self.required(case) {
            return Err(InputError::new(&case.workload, panicked.to_string(), "the work of every case"));
        }
        Ok(Tensors::new().with(SEED, Tensor::vector(&[seed][..])))
    }
    fn reference(&self, case: &Case, inputs: &Tensors) -> Result<Tensors, InputError> {
        Ok(token(digest(&*self.shared.expected(case, seed(inputs)?)?)))
    }
    fn work(&self, case: &Case) -> Work {
        self.required(case).unwrap_or_else(|_| one_call())
    }
    /// Only with equality is the reference's answer the one right answer; a judge may refuse even that.
    fn tolerance(&self, _: &Case) -> Tolerance {
        match self.shared.judge {
            None => Tolerance::Exact,
            Some(_) => Tolerance::Close { absolute: 0.0, relative: 0.0 },
        }
    }
    fn fixed_tolerance(&self, _: &Case) -> Option<String> {
        Some("the program compares its answers itself".into())
    }
    fn judge(&self, case: &Case, inputs: &Tensors, _: &Tensors, got: &Tensors) -> Verdict {
        match seed(inputs).and_then(|seed| self.shared.expected(case, seed)) {
            Ok(expected) => self.shared.judged(&expected, got),
            Err(error) => Verdict::wrong(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_wrong_answer_shows_where_it_differs() {
        assert_eq!(difference(&[1, 2], &[1, 3]), "it answered [1, 2], the reference [1, 3]");
        let (right, mut wrong): (Vec<u32>, Vec<u32>) = ((0..1000).collect(), (0..1000).collect());
        wrong[700] = 7;
        let message = difference(&wrong, &right);
        assert!(
            message.contains("from element 700 on") && message.contains("699, 7, 701") && message.contains("700, 701"),
            "{message}"
        );
        // Elements 0 to 998 are equal, so the first that differs is 999, which one list lacks.
        let message = difference(&&right[..999], &right);
        assert!(message.contains("from element 999 on; 999 and 1000 elements"), "{message}");
        let message = difference(&[0_u32; 0], &right);
        assert!(message.contains("from element 0 on; 0 and 1000 elements"), "{message}");
        let message = difference(&("é".repeat(100) + "\u{1b}a"), &("é".repeat(100) + "\u{1b}b"));
        assert!(message.contains("from byte ") && message.contains("a\"") && message.contains("b\""), "{message}");
        assert!(difference(&f64::NAN, &f64::NAN).contains("looks like the reference"));
    }
}
