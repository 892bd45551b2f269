//! The history of records: which run measured what, at which commit, on which machine, and where a time changed.
//!
//! A history is a folder of records. A SQLite index in the folder makes queries fast; it holds nothing that the records
//! do not, and is rebuilt from them if it is missing or damaged. With the feature `postgres` many machines share an index in
//! PostgreSQL instead.
//!
//! [`Store`] adds and lists runs. [`trend()`] makes series by commit: the times of one machine, and their ratio to a
//! reference that the same run measured. Change points are detected in the ratio, because a slower host changes both
//! times.

mod error;
mod export;
mod folder;
mod index;
#[cfg(feature = "postgres")]
mod postgres;
mod reference;
mod rows;
mod schema;
mod sqlite;
mod store;
mod trend;

pub use error::StoreError;
pub use export::{EXPORTS, Export};
pub use index::Machine;
pub use reference::{Reference, ReferenceError};
pub use rows::{CellRow, RunRow, Series, rows};
pub use schema::INDEX;
pub use store::{Added, Store};
pub use trend::{ChangePoint, Line, Point, Query, Ratio, Recent, Trend, WithoutRatio, trend};
