//! Spans for the interpreter of another language: it chooses the recording of each span, names sites at run time, and
//! moves between tasks that take turns on one thread.
//!
//! The spans of a task that waits stay open while others run. A host therefore notes the [`Place`] of a task and returns
//! to it before the task's next span; roots that then overlap on a lane are moved to lanes next to it when the trace is
//! read.

use crate::guard::Guard;
use crate::local;
use crate::names;
use crate::nest;
use crate::profiler::Profiler;
use crate::recording::GENERATION;
use crate::site::Site;
use crate::trace::NONE;

use std::sync::atomic::Ordering::Relaxed;

/// The innermost open span of a thread in one recording: new spans begin inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub(crate) epoch: u32,
    pub(crate) current: u32,
    pub(crate) node: u32,
}

impl Place {
    /// Where this thread is now.
    pub fn here() -> Self {
        nest::place()
    }

    /// Outside all spans of a recording.
    pub fn outside(recording: u32) -> Self {
        Self { epoch: recording, current: NONE, node: 0 }
    }

    /// True if no span is around.
    pub fn is_outside(self) -> bool {
        let is_root = self.node == 0 || local::with_hot(|hot| self.node == hot.root.get());
        self.epoch == 0 || self.current == NONE && is_root
    }

    /// Goes there, if the thread still has that recording.
    pub fn resume(self) {
        if self.epoch != 0 {
            nest::resume(self);
        }
    }
}

/// What [`close`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The innermost span was one of this site, and has ended.
    Closed,
    /// No span is open in this recording.
    Nothing,
    /// Look among the guards that the host keeps, then at [`close_any`].
    Unknown,
}

/// Starts a span without a guard: [`close`] ends it. False if this thread writes elsewhere, measures, aggregates or holds
/// guards ([`hold`]); a guard then does it ([`Guard::enter_in`]).
#[inline]
pub fn open(recording: u32, site: &'static Site) -> bool {
    match GENERATION.load(Relaxed) {
        0 => false,
        generation => nest::open(recording, site, generation),
    }
}

/// Ends the innermost span if it is one of `site`.
#[inline]
pub fn close(recording: u32, site: &'static Site) -> Closing {
    nest::close(recording, site)
}

/// Ends the innermost open span of `site` that [`open`] began; false without one. Open spans inside it, such as those
/// of a generator that waits, remain open.
pub fn close_any(recording: u32, site: &'static Site) -> bool {
    nest::close_any(recording, site)
}

/// Runs `body` on the innermost open span of `site` that [`open`] began.
pub fn edit(recording: u32, site: &'static Site, body: impl FnOnce(&Guard)) {
    if let Some(guard) = nest::guard_of(recording, site) {
        body(&guard);
        // The span goes on.
        std::mem::forget(guard);
    }
}

/// Says how many guards this thread keeps: while there is one, [`open`] and [`close`] leave spans to the host.
pub fn hold(guards: u32) {
    local::with_hot(|hot| hot.held.set(guards));
}

/// The site of a name known at run time. Spans with the same name are one operation; its location is the first that used
/// the name. Beyond 16384 names, spans share the operation `(more names)`.
pub fn site(name: &str, file: &str, line: u32) -> &'static Site {
    names::site_at(name, file, line)
}

/// The name of an argument as [`Guard::arg`] takes it; kept for the rest of the program, so that there may be 16384.
pub fn label(name: &str) -> &'static str {
    names::label(name)
}

/// Gives this thread a name before its first span, since foreign threads have none that is known here.
pub fn name_thread(name: &str) {
    nest::name_thread(name);
}

impl Profiler {
    /// A number that is never 0 and differs between recordings; 0 if nothing is being recorded.
    pub fn recording_number(&self) -> u32 {
        self.recording().map_or(0, |recording| recording.epoch)
    }

    /// Sends the spans that this thread begins outside any scope to this profiler from now on, unless the global
    /// profiler or a session records.
    pub fn settle(&self) {
        if let Some(recording) = self.recording() {
            nest::settle(&recording);
        }
    }
}

impl Guard {
    /// Starts a span in the recording with this number; `None` if spans of this thread do not go there
    /// ([`Profiler::settle`], [`Profiler::enter`]).
    #[inline]
    pub fn enter_in(recording: u32, site: &'static Site) -> Option<Self> {
        match GENERATION.load(Relaxed) {
            0 => None,
            generation => nest::begin_in(recording, site, generation),
        }
    }
}

impl Default for Guard {
    /// A span that is not recorded.
    fn default() -> Self {
        Self::off()
    }
}
