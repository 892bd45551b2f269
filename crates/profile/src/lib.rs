//! Spans and memory accounting for programs in production.
//!
//! [`span!`] marks a piece of work. A [`Profiler`] records the spans of the threads that enter it; the global one
//! ([`get_profiler`]) records those of all other threads. It returns a [`Trace`], whose [`summary`](Trace::summary)
//! shows where the time went.
//!
//! ```
//! use ellwand_profile::{Options, get_profiler, span};
//!
//! fn encode(x: &[f32]) -> f32 {
//!     let _span = span!("encode", bytes = 4 * x.len(), n = x.len());
//!     x.iter().map(|x| x * x).sum()
//! }
//!
//! get_profiler().start(Options::default())?;
//! std::hint::black_box(encode(&[1.0; 1024]));
//! let trace = get_profiler().finish();
//! println!("{}", trace.summary());
//! # Ok::<(), ellwand_profile::SessionError>(())
//! ```
//!
//! Nothing runs in the background, and a span takes no lock. [`cost()`] measures what a span costs on this machine, and
//! every trace carries that cost. [`Mode`] chooses between all spans, the last ones, and constant memory.
//!
//! Floor 0: light enough to link into any program; it depends on no other crate of Ellwand.

mod activity;
pub mod alloc;
mod bottleneck;
mod breakdown;
mod chrome;
mod chunk;
pub mod clock;
mod cost;
mod counters;
mod detail;
mod device;
mod encode;
mod environment;
mod fork;
mod frames;
mod gather;
mod guard;
mod heap;
pub mod host;
mod inner;
#[cfg(feature = "itt")]
#[allow(unsafe_code)]
mod itt;
mod json;
mod kind;
mod lane;
#[cfg(feature = "tracing")]
pub mod layer;
#[cfg(feature = "tracing")]
mod layer_cost;
#[cfg(feature = "tracing")]
mod layer_table;
mod local;
mod measure;
mod names;
mod node;
mod options;
mod order;
mod outer;
mod own_cost;
mod owned;
mod pool;
mod position;
mod profiler;
mod recording;
mod ring;
mod save;
mod session;
mod site;
mod slot;
mod span;
mod summary;
mod sweep;
mod sync;
pub mod table;
#[doc(hidden)]
pub mod task;
mod trace;
mod tree;
mod untangle;
mod words;

pub use activity::Activity;
pub use bottleneck::{Bottleneck, By};
pub use breakdown::{Breakdown, Part};
pub use clock::{Calibration, ClockKind};
pub use cost::{Cost, SpanCost};
pub use counters::{Amount, Counters};
pub use detail::{Detail, MemoryUse, Total, Track, Value};
pub use device::{ClockMap, ClockPair, DeviceSpan, DeviceTimeline, TimelineError};
#[cfg(feature = "macros")]
pub use ellwand_profile_macros::profile;
pub use frames::{FrameRow, Frames};
pub use guard::{Guard, Link, scope};
pub use json::{FORMAT, VERSION};
pub use kind::{Kind, LaneKind};
pub use measure::RESIDENT;
pub use options::{DEFAULT_CAPACITY, Measures, Mode, Options};
pub use own_cost::cost;
pub use owned::ROOM_NAME;
pub use profiler::{Profiled, Profiler, Scope, get_profiler};
pub use save::{replace_file, write_file};
pub use session::{Session, SessionError};
pub use site::Site;
pub use summary::{Row, Summary};
pub use task::instrument;
pub use trace::{NONE, SiteInfo, Span, Trace, TraceLane};
