//! What parent and worker say to each other: one JSON object a line, questions on stdin, answers on stdout.

use ellwand_core::case::{Case, Value};
use ellwand_core::device::Caches;
use ellwand_core::reading::Reading;
use ellwand_core::record::{Outcome, ParamValue, Sample};
use ellwand_core::verdict::Verdict;
use serde::{Deserialize, Serialize};

use crate::sample::Slot;

/// A question of the parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// Make an implementation ready; first and once. Answered by [`Answer::Ready`].
    Open(Box<Open>),
    /// Take one slot. Answered by [`Answer::Slot`].
    Slot {
        /// Whether the outputs are spoilt first, so that [`Ask::Again`] can judge what this slot answers.
        #[serde(default)]
        judged: bool,
    },
    /// Take one turn of the settling curve. Answered by [`Answer::Curve`].
    Turn {
        /// Iterations of a step.
        iterations: u64,
        /// Steps.
        count: u64,
    },
    /// Take slots of this shape from now on. Not answered.
    Shape {
        /// It.
        slot: Slot,
    },
    /// Judge again and read the last probes. Outputs are spoilt and one more run is made, unless that was done for a slot. Answered by [`Answer::Judged`].
    Again,
    /// Go away. Not answered.
    Close,
}

/// What a worker is to make ready.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Open {
    /// The case and who computes it.
    pub asked: Asked,
    /// Id of the device; the first of the kind that the implementation needs where it is not given.
    #[serde(default)]
    pub device: Option<String>,
    /// Arrays of the user in place of generated inputs, as the command line names them.
    pub given: Vec<String>,
    /// Seed of the inputs.
    pub seed: u64,
    /// Shortest slot, in nanoseconds.
    pub slot_min_ns: u64,
    /// Warm-up, in nanoseconds.
    pub warm_up_ns: u64,
    /// What slots find in the caches.
    #[serde(default)]
    pub caches: Caches,
    /// Iterations that take so long or longer get no warm-up but their first run. 0 leaves that to the instrument.
    pub long_run_ns: u64,
    /// The shape of slots, when an earlier process found it; otherwise the worker finds one.
    pub slot: Option<Slot>,
    /// Digests of outputs that are known to be right for these inputs.
    pub known_right: Vec<u64>,
    /// Whether probes are read.
    pub probes: bool,
    /// Whether all arms of a block stay on one processor, drawn by the block: a busy neighbour then meets all of them alike,
    /// while left alone each arm would mostly stay where it started. For implementations with one thread.
    pub pin: bool,
    /// That processor.
    pub core: Option<u32>,
    /// Bytes to allocate and keep before anything else, so that no two processes lay out their heap alike: one block from
    /// the heap proper and one large enough to be mapped on its own.
    pub padding: [u64; 2],
}

/// A case and an implementation, by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Asked {
    /// The workload.
    pub workload: String,
    /// Axis values.
    pub params: Vec<(String, ParamValue)>,
    /// Digest of arrays that the user gave.
    pub input: Option<String>,
    /// The implementation.
    pub implementation: String,
}

impl Asked {
    /// The implementation at the case.
    pub fn new(case: &Case, implementation: &str) -> Self {
        Self {
            workload: case.workload.clone(),
            params: case.params.iter().map(|(axis, value)| (axis.clone(), value.into())).collect(),
            input: case.input.clone(),
            implementation: implementation.to_string(),
        }
    }

    /// The case.
    pub fn case(&self) -> Case {
        let params = self.params.iter().map(|(axis, value)| (axis.clone(), Value::from(value))).collect();
        Case { input: self.input.clone(), ..Case::new(&self.workload, params) }
    }
}

/// An answer of the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// It answered right once, is warm, and its slots have a shape.
    Ready(Box<Opened>),
    /// A slot was taken. Block, round and position are the parent's to fill in.
    Slot {
        /// It.
        #[serde(with = "slot")]
        sample: Sample,
    },
    /// Time of an iteration in each step of a turn, in nanoseconds; empty where the device cannot time steps.
    Curve {
        /// The steps, first to last.
        ns: Vec<f64>,
    },
    /// It still answers right.
    Judged(Box<Judged>),
    /// It is over; there will be no further answer.
    Ended {
        /// Why.
        outcome: Outcome,
    },
}

/// What a worker found when it made an implementation ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Id of the device.
    pub device: String,
    /// Time to prepare.
    pub prepare_ns: u64,
    /// Time of the first run.
    pub first_run_ns: u64,
    /// The shape of its slots.
    pub slot: Slot,
    /// Most iterations that it can be loaded for; not told by older programs.
    #[serde(default)]
    pub most_iterations: Option<u64>,
    /// Shortest part of a slot that its device can tell; not told by older programs.
    #[serde(default)]
    pub finest_part_ns: Option<u64>,
    /// Whether it can record a settling curve; a device that cannot time parts and older programs cannot.
    #[serde(default)]
    pub settles: bool,
    /// What really ran.
    pub what_ran: String,
    /// Digest of the outputs, which were judged right.
    pub digest: u64,
    /// What the judge said.
    pub verdict: Verdict,
    /// Probes around preparation and first run.
    pub readings: Vec<Reading>,
}

/// What a worker found at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Digest of the outputs, which were judged right.
    pub digest: u64,
    /// Probes around one run in steady state, and what the outputs say beside being right.
    pub readings: Vec<Reading>,
    /// What the reader must know.
    pub warnings: Vec<String>,
    /// Whether its slots began slower than they ended, so that they must begin later.
    #[serde(default)]
    pub unsettled: bool,
}

/// A single sample as a JSON object; a record writes columns instead.
mod slot {
    use ellwand_core::record::{Sample, SlotState};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Wire {
        iterations: u64,
        wall_ns: u64,
        cpu_ns: Option<u64>,
        #[serde(default)]
        others_ns: Option<u64>,
        device_ns: Option<u64>,
        switches: Option<u64>,
        faults: Option<u64>,
        waits: Option<u64>,
        parts: Option<u64>,
        fastest_ns: Option<u64>,
        state: SlotState,
    }

    pub(super) fn serialize<S: Serializer>(sample: &Sample, serializer: S) -> Result<S::Ok, S::Error> {
        let Sample {
            iterations,
            wall_ns,
            cpu_ns,
            others_ns,
            device_ns,
            switches,
            faults,
            waits,
            parts,
            fastest_ns,
            state,
            ..
        } = *sample;
        Wire { iterations, wall_ns, cpu_ns, others_ns, device_ns, switches, faults, waits, parts, fastest_ns, state }
            .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sample, D::Error> {
        let Wire {
            iterations,
            wall_ns,
            cpu_ns,
            others_ns,
            device_ns,
            switches,
            faults,
            waits,
            parts,
            fastest_ns,
            state,
        } = Wire::deserialize(deserializer)?;
        let rest = Sample::default();
        Ok(Sample {
            iterations,
            wall_ns,
            cpu_ns,
            others_ns,
            device_ns,
            switches,
            faults,
            waits,
            parts,
            fastest_ns,
            state,
            ..rest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ellwand_core::record::SlotState;

    fn there_and_back(answer: &Answer) {
        let line = serde_json::to_string(answer).unwrap();
        assert!(!line.contains('\n'), "one line: {line}");
        assert_eq!(&serde_json::from_str::<Answer>(&line).unwrap(), answer);
    }

    #[test]
    fn every_question_and_answer_survives_the_pipe() {
        let case = Case {
            input: Some("00ff".into()),
            ..Case::new(
                "w",
                vec![
                    ("n".into(), Value::Int(-3)),
                    ("x".into(), Value::Float(0.1)),
                    ("whole".into(), Value::Float(2.0)),
                    ("word".into(), Value::from("a\nb")),
                    ("on".into(), Value::Flag(true)),
                ],
            )
        };
        let open = Open {
            asked: Asked::new(&case, "simd"),
            given: vec!["x=x.npy".into()],
            seed: u64::MAX,
            known_right: vec![u64::MAX, 0],
            slot: Some(Slot { parts: 5, ..Slot::cold(200_000, 5_000_000) }),
            caches: Caches::Cold,
            ..Open::default()
        };
        for ask in [
            Ask::Open(Box::new(open)),
            Ask::Turn { iterations: 2, count: 60 },
            Ask::Shape { slot: Slot { lead: 7, ..Slot::whole(3, 4) } },
            Ask::Slot { judged: false },
            Ask::Slot { judged: true },
            Ask::Again,
            Ask::Close,
        ] {
            let line = serde_json::to_string(&ask).unwrap();
            assert!(!line.contains('\n'), "one line: {line}");
            let back: Ask = serde_json::from_str(&line).unwrap();
            assert_eq!(back, ask);
            if let Ask::Open(open) = back {
                assert_eq!(open.asked.case(), case);
                assert_eq!(open.asked.case().id(), case.id());
            }
        }
        let verdict = Verdict { passed: true, max_error: Some(0.0), detail: "x".into() };
        there_and_back(&Answer::Ready(Box::new(Opened {
            device: "cpu".into(),
            prepare_ns: 1,
            first_run_ns: 2,
            slot: Slot::whole(3, 4),
            most_iterations: Some(5),
            finest_part_ns: Some(6),
            settles: true,
            what_ran: "avx2".into(),
            digest: u64::MAX,
            verdict: verdict.clone(),
            readings: Vec::new(),
        })));
        let sample = Sample {
            iterations: 9,
            wall_ns: 8,
            cpu_ns: Some(7),
            others_ns: Some(1),
            parts: Some(3),
            fastest_ns: Some(2),
            state: SlotState { clock_hz: Some(5), slowed_by: Some(0), ..SlotState::default() },
            ..Sample::default()
        };
        there_and_back(&Answer::Slot { sample });
        there_and_back(&Answer::Curve { ns: vec![0.1, 3.0] });
        there_and_back(&Answer::Judged(Box::new(Judged {
            digest: 1,
            readings: Vec::new(),
            warnings: vec!["w".into()],
            unsettled: true,
        })));
        there_and_back(&Answer::Ended { outcome: Outcome::Wrong { verdict } });
        there_and_back(&Answer::Ended { outcome: Outcome::Failed { error: "line\nbreak".into() } });
    }
}
