//! Spans and memory accounting for programs in production.
//!
//! [`span!`] marks a piece of work. A [`Session`] records the spans of all threads while it lives and becomes a
//! [`Trace`]; [`Trace::summary`] shows where the time went.
//!
//! Floor 0: light enough to link into any program; it depends on no other crate of Ellwand.

mod activity;
pub mod alloc;
mod bottleneck;
mod breakdown;
mod chrome;
pub mod clock;
mod column;
mod cost;
mod counters;
mod detail;
mod encode;
mod frames;
mod gather;
mod guard;
mod inner;
mod json;
mod kind;
mod lane;
mod outer;
mod save;
mod session;
mod site;
mod summary;
mod sweep;
pub mod table;
mod trace;
mod tree;
mod unify;

pub use activity::Activity;
pub use bottleneck::{Bottleneck, By};
pub use breakdown::{Breakdown, Part};
pub use clock::{Calibration, ClockKind};
pub use cost::{Cost, cost};
pub use counters::{Amount, Counters};
pub use detail::{Detail, MemoryUse, Total, Track, Value};
pub use frames::{FrameRow, Frames};
pub use guard::{Guard, Link, scope};
pub use json::{FORMAT, VERSION};
pub use kind::{Kind, LaneKind};
pub use lane::ROOM_NAME;
pub use save::write_file;
pub use session::{DEFAULT_CAPACITY, Session, SessionError};
pub use site::Site;
pub use summary::{Row, Summary};
pub use trace::{NONE, SiteInfo, Span, Trace, TraceLane};
