//! Profilers: what records the spans of which threads, and the trace at the end.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use crate::detail::Value;
use crate::fork::once;
use crate::guard::Guard;
use crate::local;
use crate::options::{Mode, Options};
use crate::recording::Recording;
use crate::session::SessionError;
use crate::site;
use crate::sync::locked;
use crate::trace::Trace;
use crate::{cost, own_cost};

/// Records spans of the code that enters it; the global one records those of every thread that has entered no other
/// profiler.
///
/// Clones are handles to the same profiler. Several profilers can record at the same time; a span goes to exactly one,
/// the innermost that its thread has entered:
///
/// ```
/// use ellwand_profile::{Mode, Options, Profiler, span};
///
/// fn answer(request: u32) -> String {
///     let profiler = Profiler::new(Options::new(Mode::Aggregate));
///     {
///         let _request = profiler.profile(format!("request {request}"));
///         let _parse = span!("parse"); // belongs to this request
///     }
///     let trace = profiler.finish();
///     trace.sites[trace.lanes[0].totals[0].site as usize - 1].name.clone()
/// }
/// let other = std::thread::spawn(|| answer(1));
/// assert_eq!(answer(2), "request 2");
/// assert_eq!(other.join().unwrap(), "request 1");
/// ```
#[derive(Debug, Clone)]
pub struct Profiler(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// True if it serves every thread that has entered no profiler.
    is_of_process: bool,
    recording: Mutex<Option<Arc<Recording>>>,
    /// The number of that recording, 0 for none; [`Profiler::enter`] compares it without the lock.
    epoch: AtomicU32,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(recording) = locked(&self.recording).take() {
            recording.discard();
        }
    }
}

/// The global profiler. It records nothing until [`Profiler::start`]; then it records the spans of every thread that
/// has not entered another profiler.
///
/// ```
/// use ellwand_profile::{Options, get_profiler, span};
/// get_profiler().start(Options::default())?;
/// drop(span!("work"));
/// let trace = get_profiler().finish();
/// assert_eq!(trace.spans(), 1);
/// # Ok::<(), ellwand_profile::SessionError>(())
/// ```
pub fn get_profiler() -> &'static Profiler {
    static GLOBAL: OnceLock<Profiler> = OnceLock::new();
    once(&GLOBAL, || Profiler::idle(true))
}

impl Profiler {
    /// A profiler that starts recording at once, unless its mode is [`Mode::Off`].
    pub fn new(options: Options) -> Self {
        let profiler = Self::idle(false);
        if options.mode != Mode::Off {
            profiler.set_recording(&mut locked(&profiler.0.recording), Recording::start(options, false));
        }
        profiler
    }

    pub(crate) fn idle(is_of_process: bool) -> Self {
        Self(Arc::new(Shared { is_of_process, recording: Mutex::new(None), epoch: AtomicU32::new(0) }))
    }

    fn set_recording(&self, known: &mut Option<Arc<Recording>>, recording: Option<Arc<Recording>>) {
        self.0.epoch.store(recording.as_ref().map_or(0, |recording| recording.epoch), Relaxed);
        *known = recording;
    }

    /// Starts a recording.
    ///
    /// # Errors
    /// If this profiler is recording, or, for the global one, if a [`Session`](crate::Session) is running.
    pub fn start(&self, options: Options) -> Result<(), SessionError> {
        let mut recording = locked(&self.0.recording);
        if recording.is_some() {
            return Err(SessionError::Running);
        }
        if options.mode != Mode::Off {
            let started = Recording::start(options, self.0.is_of_process).ok_or(SessionError::Running)?;
            self.set_recording(&mut recording, Some(started));
        }
        Ok(())
    }

    pub(crate) fn recording(&self) -> Option<Arc<Recording>> {
        locked(&self.0.recording).clone()
    }

    /// Ends the recording and returns the trace; an empty one if nothing was recorded. Spans that are still open have
    /// no duration and are counted.
    pub fn finish(&self) -> Trace {
        let recording = locked(&self.0.recording).take();
        self.0.epoch.store(0, Relaxed);
        let Some(recording) = recording else { return Trace::in_nanoseconds() };
        // Priced after the end of the recording, because that takes some milliseconds that do not belong to the program.
        with_costs(&recording, recording.finish())
    }

    /// The trace so far, without stopping any thread: for a server that reports while it works. The first one of the
    /// program also measures what spans cost, for some milliseconds of this thread.
    pub fn snapshot(&self) -> Trace {
        self.recording().map_or_else(Trace::in_nanoseconds, |recording| with_costs(&recording, recording.snapshot()))
    }

    /// Pauses or resumes recording. Open spans end as usual.
    pub fn set_enabled(&self, enabled: bool) {
        if let Some(recording) = self.recording() {
            recording.set_enabled(enabled);
        }
    }

    /// True if spans are recorded.
    pub fn is_enabled(&self) -> bool {
        self.recording().is_some_and(|recording| recording.is_enabled())
    }

    /// From now on, records one in this many outermost spans of each thread; 0 and 1 record all.
    pub fn set_sampling(&self, one_in: u32) {
        if let Some(recording) = self.recording() {
            recording.set_sampling(one_in);
        }
    }

    /// Adds a fact about the run to the trace's environment, such as a revision or a parameter.
    pub fn describe(&self, name: impl Into<String>, value: impl Into<Value>) {
        if let Some(recording) = self.recording() {
            recording.add_fact(name.into(), value.into());
        }
    }

    /// Sends the spans of this thread to this profiler while the scope lives. If the profiler is not recording, nothing
    /// records the spans inside.
    pub fn enter(&self) -> Scope {
        let mut epoch = self.0.epoch.load(Relaxed);
        let mut entered = !local::is_at(epoch);
        if entered && !local::enter_again(epoch) {
            let recording = self.recording();
            epoch = recording.as_ref().map_or(0, |recording| recording.epoch);
            entered = local::enter(recording.as_ref());
        }
        Scope { epoch, entered, of_this_thread: std::marker::PhantomData }
    }

    /// Starts a span with a name that need not be constant; the span and those inside go to this profiler.
    ///
    /// A name becomes one operation for the rest of the program, so it should not contain an ever-changing number: from
    /// the 16385th different name on, spans share the operation `(more names)`. Names over 256 bytes are cut.
    #[track_caller]
    pub fn profile(&self, name: impl AsRef<str>) -> Profiled {
        let scope = self.enter();
        Profiled { span: Guard::enter_named(name.as_ref()), _scope: scope }
    }

    /// Runs `body` inside a span ([`Profiler::profile`]).
    #[track_caller]
    pub fn measure<R>(&self, name: impl AsRef<str>, body: impl FnOnce() -> R) -> R {
        let _span = self.profile(name);
        body()
    }
}

/// Adds to a trace what its spans cost; measures that at the first need.
fn with_costs(recording: &Recording, mut trace: Trace) -> Trace {
    let (options, sites) = (&recording.options, site::sites());
    own_cost::measure_once(cost::kept_on(&trace.lanes, options.mode), &cost::measures_of(options.measures, &sites));
    if let Some((cost, span_costs)) = cost::of(options, &sites, &trace.lanes) {
        (trace.cost, trace.span_costs) = (Some(cost), span_costs);
    }
    trace
}

/// While this lives, the spans of its thread go to a profiler: [`Profiler::enter`].
#[derive(Debug)]
#[must_use = "spans go to the profiler until the scope is dropped"]
pub struct Scope {
    epoch: u32,
    entered: bool,
    of_this_thread: std::marker::PhantomData<*const ()>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        if self.entered {
            local::leave(self.epoch);
        }
    }
}

/// A span of a chosen profiler: [`Profiler::profile`]. Dereferences to its [`Guard`].
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped"]
pub struct Profiled {
    // Fields are dropped in this order: the span ends while its profiler is still entered.
    span: Guard,
    _scope: Scope,
}

impl std::ops::Deref for Profiled {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.span
    }
}
