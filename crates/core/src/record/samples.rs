//! Samples in JSON: one array per column, a quarter of the size of one object per sample.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Sample, SlotState};

fn all_none(column: &[Option<u64>]) -> bool {
    column.iter().all(Option::is_none)
}

/// The value at `i` of a column; the column is empty if no sample has a value.
fn at(column: &[Option<u64>], i: usize) -> Option<u64> {
    column.get(i).copied().flatten()
}

/// Defines the columns: fields that every sample has, optional fields, and optional fields of the device state.
macro_rules! columns {
    ($($always:ident: $type:ty),*; $($optional:ident),*; state: $($state:ident),*) => {
        #[derive(Serialize, Deserialize)]
        struct Columns {
            $($always: Vec<$type>,)*
            $(#[serde(default, skip_serializing_if = "all_none")]
            $optional: Vec<Option<u64>>,)*
            $(#[serde(default, skip_serializing_if = "all_none")]
            $state: Vec<Option<u64>>,)*
        }

        impl Columns {
            fn of(samples: &[Sample]) -> Self {
                Self {
                    $($always: samples.iter().map(|s| s.$always).collect(),)*
                    $($optional: samples.iter().map(|s| s.$optional).collect(),)*
                    $($state: samples.iter().map(|s| s.state.$state).collect(),)*
                }
            }

            /// True if every column has `n` values; optional columns may be empty.
            fn hold(&self, n: usize) -> bool {
                let (always, optional) = ([$(self.$always.len()),*], [$(self.$optional.len(),)* $(self.$state.len()),*]);
                always.iter().all(|length| *length == n) && optional.iter().all(|length| [0, n].contains(length))
            }

            fn sample(&self, i: usize) -> Sample {
                Sample {
                    $($always: self.$always[i],)*
                    $($optional: at(&self.$optional, i),)*
                    state: SlotState { $($state: at(&self.$state, i)),* },
                }
            }
        }
    };
}

columns! {
    block: u32, round: u32, position: u32, iterations: u64, wall_ns: u64;
    cpu_ns, others_ns, device_ns, switches, faults, waits, parts, fastest_ns;
    state: clock_hz, power_mw, device_bytes, slowed_by
}

pub(super) fn serialize<S: Serializer>(samples: &[Sample], serializer: S) -> Result<S::Ok, S::Error> {
    Columns::of(samples).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Sample>, D::Error> {
    let columns = Columns::deserialize(deserializer)?;
    let n = columns.wall_ns.len();
    if !columns.hold(n) {
        return Err(serde::de::Error::custom("the columns of samples have different lengths"));
    }
    Ok((0..n).map(|i| columns.sample(i)).collect())
}
