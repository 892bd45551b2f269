//! Measures your own code without a trait: a typed builder on top of the erased core.
//!
//! ```
//! use ellwand::{Axis, Work, rand::RngExt, suite};
//!
//! let sum = suite("sum")
//!     .about("Sum of n numbers")
//!     .axis(Axis::int("n", "numbers", 1, 1 << 30, 1000).sweep([1000, 100_000]))
//!     .input(|case, rng| (0..case.usize("n")).map(|_| rng.random::<u32>()).collect::<Vec<u32>>())
//!     .work(|case| Work::items("numbers", case.usize("n") as u64))
//!     .implementation("loop", |numbers| numbers.iter().map(|x| u64::from(*x)).sum::<u64>())
//!     .implementation("fold", |numbers| numbers.iter().fold(0, |sum, x| sum + u64::from(*x)));
//! let registry = ellwand::Registry::from(sum);
//! assert_eq!(ellwand::run(["mine", "check", "sum"], &registry), 0);
//! ```

mod overwrite;
mod ready;
mod slips;
mod task;
mod values;

use std::any::{TypeId, type_name};
use std::fmt::Debug;
use std::hint::black_box;
use std::mem::needs_drop;
use std::ops::Deref;
use std::sync::Arc;
use std::vec::Drain;

use ellwand_bench::environment::second_level_cache;
use ellwand_core::{
    Axis, Case, Compared, Description, Implementation, InputError, PrepareError, Prepared, Registry, Size, Work,
};
use rand::rngs::ChaCha8Rng;

use ready::{Borrowing, Changing, Filling, Owning};
use task::{Shared, Task};

/// Makes an input from a parameter point and the random numbers of its seed.
type Make<I> = dyn Fn(&Point, &mut ChaCha8Rng) -> I + Send + Sync;
/// Makes the buffer that a [`Fill`] writes into, for an input.
type Buffer<I, O> = dyn Fn(&I) -> O + Send + Sync;
// The four kinds of implementations contain the loop over their iterations, so that the loop knows the type of the
// user's function.
/// Runs `n` times on one input and returns the last answer.
type Borrow<I, O> = dyn Fn(&I, u64) -> Option<O> + Send + Sync;
/// Consumes all inputs and adds an answer for each.
type Own<I, O> = dyn Fn(Drain<'_, I>, &mut Vec<O>) + Send + Sync;
/// Turns each input into its answer in place.
type Change<I> = dyn Fn(&mut [I]) + Send + Sync;
/// Writes into the same buffer `n` times.
type Fill<I, O> = dyn Fn(&I, &mut O, u64) + Send + Sync;
type Judge<O> = dyn Fn(&O, &O) -> Result<Option<Compared>, String> + Send + Sync;
type Required = dyn Fn(&Point) -> Work + Send + Sync;

/// Maximum memory for the fresh inputs of one slot, if their size is known, in bytes.
const LOADED_BYTES: u64 = 256 << 20;

/// Number of fresh inputs per slot that may exceed the cache: with fewer, reading the clock would matter.
const LOADED_LEAST: u64 = 100;

const NO_OUTPUT: &str = "implementation_into writes into a buffer, but the suite makes none";

/// Fresh inputs of one slot if the memory that they own is unknown.
const LOADED_UNKNOWN: u64 = 64;

/// What [`Suite::judge`] returns for an answer that it accepts: `()`, or how many values it compared.
pub trait Accepted {
    /// How many values were compared; `None` if the judge does not count them.
    fn compared(self) -> Option<Compared>;
}

impl Accepted for () {
    fn compared(self) -> Option<Compared> {
        None
    }
}

impl Accepted for Compared {
    fn compared(self) -> Option<Compared> {
        Some(self)
    }
}

/// A parameter point as closures see it: a [`Case`] whose axes are known to exist.
#[derive(Debug, Clone, Copy)]
pub struct Point<'a>(&'a Case);

impl Point<'_> {
    /// The integer on an axis, as a length.
    ///
    /// # Panics
    /// If the suite has no such axis of whole numbers from 0 on: a mistake in the program, not in what its user typed.
    pub fn usize(&self, axis: &str) -> usize {
        match self.0.int(axis).map(usize::try_from) {
            Some(Ok(value)) => value,
            _ => panic!("'{axis}' is not a whole number from 0 on in {}; declare it with Axis::int", self.0.id()),
        }
    }

    /// The number on an axis.
    ///
    /// # Panics
    /// If the suite has no such axis of numbers.
    pub fn f64(&self, axis: &str) -> f64 {
        let missing = || panic!("'{axis}' is not a number in {}; declare it with Axis::float", self.0.id());
        self.0.float(axis).unwrap_or_else(missing)
    }
}

impl Deref for Point<'_> {
    type Target = Case;
    fn deref(&self) -> &Case {
        self.0
    }
}

/// Begins a suite: one task and the ways of computing it. Names of suites, implementations and axes must not contain
/// `:`, `,` or `*`, and no axis may have the name of a flag: every command refuses names that no command line can give.
pub fn suite(name: &str) -> Sketch {
    Sketch { description: Description::new(name.to_string(), "") }
}

/// A suite without an input; [`Sketch::input`] makes it a [`Suite`].
#[derive(Debug, Clone)]
pub struct Sketch {
    description: Description,
}

impl Sketch {
    /// One line for `list`.
    #[must_use]
    pub fn about(mut self, about: &str) -> Self {
        self.description.about = about.to_string().into();
        self
    }

    /// Adds a dimension of the sweep: a flag, a column and the x axis of a plot. Its values must be in its domain.
    /// Closures read them with [`Point::usize`], [`Point::f64`] and [`Case::text`].
    #[must_use]
    pub fn axis(mut self, axis: Axis) -> Self {
        self.description.axes.push(axis);
        self
    }

    /// Adds a named size for `--size`.
    #[must_use]
    pub fn size(mut self, size: Size) -> Self {
        self.description.sizes.push(size);
        self
    }

    /// Makes the input of a case, only from the case and the given random numbers: every implementation, in every process,
    /// must get the same input. If input and reference take less than 0.1 s, Ellwand makes both twice, and refuses a case
    /// whose two answers differ.
    pub fn input<I, O>(self, make: impl Fn(&Point, &mut ChaCha8Rng) -> I + Send + Sync + 'static) -> Suite<I, O>
    where
        I: Clone + Send + Sync + 'static,
        O: PartialEq + Debug + Send + Sync + 'static,
    {
        Suite {
            sketch: self,
            make: Arc::new(make),
            ways: Vec::new(),
            early: None,
            baseline: None,
            reference: None,
            judge: None,
            work: None,
            output: None,
        }
    }
}

/// A way of computing the output.
enum Way<I, O> {
    Borrow(Arc<Borrow<I, O>>),
    Own(Arc<Own<I, O>>),
    /// In place; the second function makes the answer from the changed input.
    Change(Arc<Change<I>>, fn(I) -> O),
    /// Into an output that the second closure makes.
    Fill(Arc<Fill<I, O>>, Option<Arc<Buffer<I, O>>>),
}

impl<I: Clone, O> Way<I, O> {
    fn borrow(run: impl Fn(&I) -> O + Send + Sync + 'static) -> Self {
        Way::Borrow(Arc::new(move |input, times| {
            let mut last = None;
            for _ in 0..times {
                last = Some(black_box(run(black_box(input))));
            }
            last
        }))
    }

    fn own(run: impl Fn(I) -> O + Send + Sync + 'static) -> Self {
        Way::Own(Arc::new(move |inputs, answers| {
            // A value in a black box would pass through memory twice. Inputs and answers are in memory that the
            // compiler cannot see into, and this keeps it from merging iterations.
            answers.extend(inputs.map(|input| {
                black_box(());
                run(input)
            }));
        }))
    }

    fn change(run: impl Fn(&mut I) + Send + Sync + 'static, answer: fn(I) -> O) -> Self {
        Way::Change(Arc::new(move |inputs| inputs.iter_mut().for_each(|input| run(black_box(input)))), answer)
    }

    /// The buffer is known when the suite is complete.
    fn fill(run: impl Fn(&I, &mut O) + Send + Sync + 'static) -> Self {
        let run = move |input: &I, buffer: &mut O, times| {
            for _ in 0..times {
                run(black_box(input), black_box(&mut *buffer));
            }
        };
        Way::Fill(Arc::new(run), None)
    }

    /// The output of one run.
    fn once(&self, input: &I) -> Option<O> {
        match self {
            Way::Borrow(run) => run(input, 1),
            Way::Own(run) => {
                let mut answers = Vec::new();
                run(vec![input.clone()].drain(..), &mut answers);
                answers.pop()
            }
            Way::Change(run, answer) => {
                let mut value = [input.clone()];
                run(&mut value);
                value.into_iter().next().map(answer)
            }
            Way::Fill(run, make) => {
                let mut output = make.as_ref()?(input);
                run(input, &mut output, 1);
                Some(output)
            }
        }
    }
}

/// An implementation with its description.
struct Entry<I, O> {
    name: String,
    way: Way<I, O>,
    about: String,
    many: bool,
}

impl<I, O> Clone for Way<I, O> {
    fn clone(&self) -> Self {
        match self {
            Way::Borrow(run) => Way::Borrow(Arc::clone(run)),
            Way::Own(run) => Way::Own(Arc::clone(run)),
            Way::Change(run, answer) => Way::Change(Arc::clone(run), *answer),
            Way::Fill(run, make) => Way::Fill(Arc::clone(run), make.clone()),
        }
    }
}

/// A task with a typed input `I` and output `O`, and its implementations. Turn it into a registry with
/// [`Registry::from`] or add it to one with [`Suite::register`].
///
/// Ellwand compares answers of different processes by their `Debug` text, so this text must show everything that `==`
/// compares (a derived one does).
pub struct Suite<I, O> {
    sketch: Sketch,
    make: Arc<Make<I>>,
    ways: Vec<Entry<I, O>>,
    /// A method that was called for an implementation before there was one.
    early: Option<&'static str>,
    baseline: Option<String>,
    reference: Option<Way<I, O>>,
    judge: Option<Arc<Judge<O>>>,
    work: Option<Arc<Required>>,
    output: Option<Arc<Buffer<I, O>>>,
}

impl<I, O> Suite<I, O>
where
    I: Clone + Send + Sync + 'static,
    O: PartialEq + Debug + Send + Sync + 'static,
{
    /// An implementation that reads its input. Its output is kept until the next iteration, and its time includes
    /// dropping the previous output.
    #[must_use]
    pub fn implementation(self, name: &str, run: impl Fn(&I) -> O + Send + Sync + 'static) -> Self {
        self.add(name, Way::borrow(run))
    }

    /// An implementation that consumes its input. Each iteration gets a copy made before the clock starts, and its
    /// output is dropped after the clock has stopped.
    ///
    /// Ellwand makes all copies of a slot before it: at most as many as half of the second-level cache holds, or 100 if
    /// that is more. It takes their size from the bytes read of [`Suite::work`]. If these are not stated, a slot has at most
    /// 64 copies of a type that owns memory; state them if an iteration takes less than 100 ns.
    #[must_use]
    pub fn implementation_owned(self, name: &str, run: impl Fn(I) -> O + Send + Sync + 'static) -> Self {
        self.add(name, Way::own(run))
    }

    /// An implementation that writes into the caller's buffer, which [`Suite::output`] makes once, before the clock starts.
    /// The buffer keeps the output of the previous iteration, as a caller's would.
    #[must_use]
    pub fn implementation_into(self, name: &str, run: impl Fn(&I, &mut O) + Send + Sync + 'static) -> Self {
        self.add(name, Way::fill(run))
    }

    /// The buffer that [`Suite::implementation_into`] writes into, for an input.
    ///
    /// Before each judged run Ellwand overwrites a buffer of numbers (a value, a vector, a boxed slice, a vector of
    /// vectors, a pair of vectors); a value that the run does not write is then *wrong*. Make the contents of any other type differ from the answer
    /// everywhere: an unchanged buffer is *wrong*, but one that is written in part may pass, and the results have a remark.
    #[must_use]
    pub fn output(mut self, make: impl Fn(&I) -> O + Send + Sync + 'static) -> Self {
        self.output = Some(Arc::new(make));
        self
    }

    fn add(mut self, name: &str, way: Way<I, O>) -> Self {
        self.ways.push(Entry { name: name.into(), way, about: String::new(), many: false });
        self
    }

    /// Sets one line for `list` about the implementation that was added last.
    #[must_use]
    pub fn about(mut self, about: &str) -> Self {
        match self.ways.last_mut() {
            Some(last) => last.about = about.into(),
            None => self.early = Some("about"),
        }
        self
    }

    /// Declares that the implementation that was added last uses several threads: its CPU time is that of the whole
    /// process, and `compare` does not pin it to one processor.
    #[must_use]
    pub fn many_threads(mut self) -> Self {
        match self.ways.last_mut() {
            Some(last) => last.many = true,
            None => self.early = Some("many_threads"),
        }
        self
    }

    /// The implementation that speed-ups refer to; by default the first one.
    #[must_use]
    pub fn baseline(mut self, name: &str) -> Self {
        self.baseline = Some(name.into());
        self
    }

    /// The correct answer, computed in a simple way; by default the baseline's answer.
    #[must_use]
    pub fn reference(mut self, reference: impl Fn(&I) -> O + Send + Sync + 'static) -> Self {
        self.reference = Some(Way::borrow(reference));
        self
    }

    /// Accepts or refuses the second answer, given the reference's answer first; the error says what is wrong. By default
    /// answers must be equal, and an answer without a value (`()`, an empty list) is *wrong*, because nothing is compared.
    ///
    /// A judge that returns [`Compared`] for an accepted answer states how many values it compared: results then report an
    /// answer of which it compared only a part, and one of which it compared nothing is *wrong*.
    #[must_use]
    pub fn judge<A: Accepted>(mut self, judge: impl Fn(&O, &O) -> Result<A, String> + Send + Sync + 'static) -> Self {
        self.judge = Some(Arc::new(move |expected, answer| judge(expected, answer).map(Accepted::compared)));
        self
    }

    /// Work that any implementation must do; by default one call. Its bytes read also bound how many copies of the
    /// input are held at once ([`Suite::implementation_owned`]).
    #[must_use]
    pub fn work(mut self, work: impl Fn(&Point) -> Work + Send + Sync + 'static) -> Self {
        self.work = Some(Arc::new(work));
        self
    }

    /// Adds the task and its implementations to a registry. Every command that uses the task reports mistakes in it (a
    /// baseline that is not an implementation, a name given twice).
    pub fn register(mut self, registry: &mut Registry) {
        let name = self.sketch.description.name.to_string();
        let twice = || InputError::new(&name, "a suite of this name is registered twice", "a name for each suite");
        let remark = self.remark();
        let mistake = self.find_mistake().or_else(|| registry.find(&name).map(|_| twice()));
        for entry in &mut self.ways {
            if let Way::Fill(_, make) = &mut entry.way {
                make.clone_from(&self.output);
            }
        }
        let baseline =
            self.baseline.clone().or_else(|| self.ways.first().map(|first| first.name.clone())).unwrap_or_default();
        let reference =
            self.reference.or_else(|| self.ways.iter().find(|way| way.name == baseline).map(|way| way.way.clone()));
        let shared = Arc::new(Shared::new(self.make, reference, self.judge));
        let cache = second_level_cache();
        for Entry { name: way_name, way, about, many } in self.ways {
            let (shared, work) = (Arc::clone(&shared), self.work.clone());
            let implementation = Implementation::cpu(&name, &way_name, &about, move |case, inputs, _| {
                let input = shared.input(case, task::seed(inputs)?).as_ref().clone();
                let shared = Arc::clone(&shared);
                let most = || most_loaded::<I, O>(work.as_deref(), case, cache);
                let prepared: Box<dyn Prepared> = match &way {
                    Way::Borrow(run) => Box::new(Borrowing::new(shared, Arc::clone(run), input)),
                    Way::Own(run) => Box::new(Owning::new(shared, Arc::clone(run), input, most())),
                    Way::Change(run, answer) => {
                        Box::new(Changing::new(shared, Arc::clone(run), *answer, input, most()))
                    }
                    Way::Fill(run, make) => {
                        let make = make.clone().ok_or_else(|| PrepareError::Failed(NO_OUTPUT.into()))?;
                        Box::new(Filling::new(shared, Arc::clone(run), make, input))
                    }
                };
                Ok::<_, PrepareError>(prepared)
            });
            registry.implementation(if many { implementation.many_threads() } else { implementation });
        }
        registry.workload(Task {
            description: self.sketch.description.baseline(baseline),
            work: self.work,
            shared,
            mistake,
            remark,
        });
    }

    /// The remark on implementations whose buffer has a type that Ellwand cannot overwrite.
    fn remark(&self) -> Option<String> {
        let fills = self.ways.iter().filter(|entry| matches!(entry.way, Way::Fill(..)));
        let names: Vec<&str> = fills.map(|entry| entry.name.as_str()).collect();
        let is_blind = !names.is_empty() && !overwrite::is_known(TypeId::of::<O>());
        is_blind.then(|| task::not_overwritten(&names, type_name::<O>()))
    }

    fn find_mistake(&self) -> Option<InputError> {
        let names: Vec<&str> = self.ways.iter().map(|way| way.name.as_str()).collect();
        let lacks_output = self.output.is_none() && self.ways.iter().any(|entry| matches!(entry.way, Way::Fill(..)));
        let Description { name, axes, .. } = &self.sketch.description;
        let axes: Vec<&str> = axes.iter().map(|axis| axis.name).collect();
        slips::find_mistake(name, (&names, &axes), self.baseline.as_deref(), self.early, lacks_output)
    }
}

impl<T: Clone + PartialEq + Debug + Send + Sync + 'static> Suite<T, T> {
    /// Adds an implementation that turns its input into the output in place. Each iteration gets a copy made before the
    /// clock starts, as in [`Suite::implementation_owned`].
    #[must_use]
    pub fn implementation_mut(self, name: &str, run: impl Fn(&mut T) + Send + Sync + 'static) -> Self {
        self.add(name, Way::change(run, |value| value))
    }
}

/// A registry with only this suite, on the CPU.
impl<I, O> From<Suite<I, O>> for Registry
where
    I: Clone + Send + Sync + 'static,
    O: PartialEq + Debug + Send + Sync + 'static,
{
    fn from(suite: Suite<I, O>) -> Self {
        let mut registry = crate::devices();
        suite.register(&mut registry);
        registry
    }
}

/// Fresh inputs of one slot: as many as half of the `cache` holds together with their answers.
fn most_loaded<I, O>(work: Option<&Required>, case: &Case, cache: u64) -> u64 {
    let owned = work.map_or(0, |work| work(&Point(case)).bytes_read);
    if owned == 0 && needs_drop::<I>() {
        return LOADED_UNKNOWN;
    }
    let each = owned.saturating_add((size_of::<I>() + size_of::<O>()) as u64).max(1);
    (cache / 2 / each).max(LOADED_LEAST).min(LOADED_BYTES / each).clamp(1, 1 << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copies_of_a_slot_fit_the_cache_and_are_enough_for_the_clock() {
        let case = Case::new("sort", Vec::new());
        let most = |bytes: u64| {
            let work = move |_: &Point| Work::items("calls", 1).bytes(bytes, 0);
            most_loaded::<Vec<u8>, u64>(Some(&work), &case, 1 << 20)
        };
        assert_eq!(most(992), 512, "1 KiB with the vector and the answer");
        assert_eq!(most(1 << 20), 100, "more than the cache holds");
        assert_eq!(most(1 << 30), 1);
        assert_eq!(most(0), LOADED_UNKNOWN, "a vector owns memory, and nothing is known of it");
        assert_eq!(most_loaded::<u64, u64>(None, &case, 1 << 20), 1 << 15, "a number owns nothing");
    }
}
