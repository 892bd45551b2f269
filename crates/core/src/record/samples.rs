//! Samples in JSON: one array per column, a quarter of the size of one object per sample.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Sample, SlotState};

#[derive(Serialize, Deserialize, Default)]
struct Columns {
    block: Vec<u32>,
    round: Vec<u32>,
    position: Vec<u32>,
    iterations: Vec<u64>,
    wall_ns: Vec<u64>,
    #[serde(default, skip_serializing_if = "all_none")]
    cpu_ns: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    others_ns: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    device_ns: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    switches: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    faults: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    waits: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    parts: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    fastest_ns: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    clock_hz: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    power_mw: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    device_bytes: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "all_none")]
    slowed_by: Vec<Option<u64>>,
}

fn all_none(column: &[Option<u64>]) -> bool {
    column.iter().all(Option::is_none)
}

pub(super) fn serialize<S: Serializer>(samples: &[Sample], serializer: S) -> Result<S::Ok, S::Error> {
    Columns {
        block: samples.iter().map(|s| s.block).collect(),
        round: samples.iter().map(|s| s.round).collect(),
        position: samples.iter().map(|s| s.position).collect(),
        iterations: samples.iter().map(|s| s.iterations).collect(),
        wall_ns: samples.iter().map(|s| s.wall_ns).collect(),
        cpu_ns: samples.iter().map(|s| s.cpu_ns).collect(),
        others_ns: samples.iter().map(|s| s.others_ns).collect(),
        device_ns: samples.iter().map(|s| s.device_ns).collect(),
        switches: samples.iter().map(|s| s.switches).collect(),
        faults: samples.iter().map(|s| s.faults).collect(),
        waits: samples.iter().map(|s| s.waits).collect(),
        parts: samples.iter().map(|s| s.parts).collect(),
        fastest_ns: samples.iter().map(|s| s.fastest_ns).collect(),
        clock_hz: samples.iter().map(|s| s.state.clock_hz).collect(),
        power_mw: samples.iter().map(|s| s.state.power_mw).collect(),
        device_bytes: samples.iter().map(|s| s.state.device_bytes).collect(),
        slowed_by: samples.iter().map(|s| s.state.slowed_by).collect(),
    }
    .serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Sample>, D::Error> {
    let columns = Columns::deserialize(deserializer)?;
    let n = columns.wall_ns.len();
    let lengths = [columns.block.len(), columns.round.len(), columns.position.len(), columns.iterations.len()];
    let optional = [
        columns.cpu_ns.len(),
        columns.others_ns.len(),
        columns.device_ns.len(),
        columns.switches.len(),
        columns.faults.len(),
        columns.waits.len(),
        columns.parts.len(),
        columns.fastest_ns.len(),
        columns.clock_hz.len(),
        columns.power_mw.len(),
        columns.device_bytes.len(),
        columns.slowed_by.len(),
    ];
    if lengths.iter().any(|length| *length != n) || optional.iter().any(|length| *length != n && *length != 0) {
        return Err(serde::de::Error::custom("the columns of samples have different lengths"));
    }
    let at = |column: &[Option<u64>], i: usize| column.get(i).copied().flatten();
    Ok((0..n)
        .map(|i| Sample {
            block: columns.block[i],
            round: columns.round[i],
            position: columns.position[i],
            iterations: columns.iterations[i],
            wall_ns: columns.wall_ns[i],
            cpu_ns: at(&columns.cpu_ns, i),
            others_ns: at(&columns.others_ns, i),
            device_ns: at(&columns.device_ns, i),
            switches: at(&columns.switches, i),
            faults: at(&columns.faults, i),
            waits: at(&columns.waits, i),
            parts: at(&columns.parts, i),
            fastest_ns: at(&columns.fastest_ns, i),
            state: SlotState {
                clock_hz: at(&columns.clock_hz, i),
                power_mw: at(&columns.power_mw, i),
                device_bytes: at(&columns.device_bytes, i),
                slowed_by: at(&columns.slowed_by, i),
            },
        })
        .collect())
}
