//! The protocol between parent and worker: one JSON object per line, questions on stdin, answers on stdout.

use std::path::PathBuf;

use ellwand_core::case::{Case, Value};
use ellwand_core::device::Caches;
use ellwand_core::reading::Reading;
use ellwand_core::record::{Allowed, Outcome, Sample};
use ellwand_core::verdict::Verdict;
use ellwand_core::work::Work;
use serde::{Deserialize, Serialize};

use crate::check::HardResult;
use crate::sample::Slot;

/// A question from the parent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// Prepare an implementation; always the first question, asked once. Answered by [`Answer::Ready`].
    Open(Box<Open>),
    /// Take one slot. Answered by [`Answer::Slot`].
    Slot {
        /// If true, poison the outputs first, so that [`Ask::Again`] can check this slot's answer.
        judged: bool,
    },
    /// Take one turn of the settling curve. Answered by [`Answer::Curve`].
    Turn {
        /// Iterations per step.
        iterations: u64,
        /// Number of steps.
        count: u64,
    },
    /// Use this slot shape from now on. Not answered.
    Shape {
        /// The new shape.
        slot: Slot,
    },
    /// Check the answer again and read the last probes, after one more run on poisoned outputs unless the last slot was
    /// taken with `judged`. Answered by [`Answer::Judged`].
    Again,
    /// Make inputs, reference and hard sets of a case, to judge answers alone; instead of [`Ask::Open`]. Answered by
    /// [`Answer::Posed`].
    Pose(Box<Pose>),
    /// Run this implementation at the case last posed, and judge its answers. Answered by [`Answer::Checked`].
    Check {
        /// Name of the implementation.
        implementation: String,
        /// Id of its device, if this machine has one.
        device: Option<String>,
    },
    /// Exit. Not answered.
    Close,
}

/// A case at which implementations are judged and not timed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Pose {
    /// Where the implementations are judged.
    pub case: Case,
    /// Seed of the inputs.
    pub seed: u64,
    /// Tolerance of the check, if the user chose one; otherwise the workload's.
    pub allowed: Option<Allowed>,
}

/// The members of all questions that are not structures. Deserialising one plain structure compiles to a fraction of
/// the code of a tagged enumeration.
#[derive(Deserialize)]
struct AskLine {
    ask: String,
    #[serde(default)]
    judged: bool,
    iterations: Option<u64>,
    count: Option<u64>,
    slot: Option<Slot>,
    implementation: Option<String>,
    device: Option<String>,
}

impl Ask {
    /// Reads a line.
    ///
    /// # Errors
    /// If it is no question.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let mut line: AskLine = serde_json::from_str(text)?;
        Ok(match (std::mem::take(&mut line.ask).as_str(), line) {
            ("open", _) => Ask::Open(serde_json::from_str(text)?),
            ("slot", AskLine { judged, .. }) => Ask::Slot { judged },
            ("turn", AskLine { iterations: Some(iterations), count: Some(count), .. }) => {
                Ask::Turn { iterations, count }
            }
            ("shape", AskLine { slot: Some(slot), .. }) => Ask::Shape { slot },
            ("again", _) => Ask::Again,
            ("pose", _) => Ask::Pose(serde_json::from_str(text)?),
            ("check", AskLine { implementation: Some(implementation), device, .. }) => {
                Ask::Check { implementation, device }
            }
            ("close", _) => Ask::Close,
            (ask, _) => return Err(incomplete("question", ask)),
        })
    }

    /// What a worker does to answer the question, in words that follow "while".
    pub(super) fn step(&self) -> &'static str {
        match self {
            Ask::Open(_) => "getting ready (inputs, preparation, first run, check, warm-up)",
            Ask::Slot { .. } | Ask::Shape { .. } => "taking a slot",
            Ask::Turn { .. } => "running untimed between slots",
            Ask::Again => "checking its answer after the slots",
            Ask::Pose(_) => "computing inputs, reference and hard sets",
            Ask::Check { .. } => "running it and checking its answers",
            Ask::Close => "ending",
        }
    }
}

/// The steps of a worker that gets ready, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Generating the inputs, or reading them.
    Inputs,
    /// The first flush of the caches, which makes its buffers; only if slots begin with cold caches.
    Flush,
    /// Preparation and first run.
    FirstRun,
    /// The reference of the case.
    Reference,
    /// The check of the answer.
    Check,
    /// Warm-up and the search for a slot shape.
    WarmUp,
}

impl Step {
    /// The step as a phrase that follows "while".
    pub fn describe(self) -> &'static str {
        match self {
            Step::Inputs => "making the inputs",
            Step::Flush => "flushing the caches",
            Step::FirstRun => "preparing and running for the first time",
            Step::Reference => "computing the reference answer",
            Step::Check => "checking the answer",
            Step::WarmUp => "warming up",
        }
    }
}

/// What a worker prepares, and how.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Open {
    /// The case and the implementation.
    pub asked: Asked,
    /// Id of the device; by default the first of the kind that the implementation needs.
    #[serde(default)]
    pub device: Option<String>,
    /// Arrays given by the user instead of generated inputs, as named on the command line.
    pub given: Vec<String>,
    /// Seed of the inputs.
    pub seed: u64,
    /// Shortest slot, in nanoseconds.
    pub slot_min_ns: u64,
    /// Duration of the warm-up, in nanoseconds.
    pub warm_up_ns: u64,
    /// Cache state at the start of a slot.
    #[serde(default)]
    pub caches: Caches,
    /// Iterations of at least this duration get no warm-up besides their first run. 0 lets the instrument choose.
    pub long_run_ns: u64,
    /// Slot shape, if an earlier process found it; otherwise the worker finds one.
    pub slot: Option<Slot>,
    /// Tolerance of the check, if the user chose one; otherwise the workload's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Allowed>,
    /// Digests of outputs known to be correct for these inputs.
    pub known_right: Vec<u64>,
    /// Where the workers of this program share the reference outputs of the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<PathBuf>,
    /// Where these workers share the inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<PathBuf>,
    /// True if probes are read, and what the workload reads from an answer. One process of a row is enough.
    pub probes: bool,
    /// True if the worker answers with each [`Step`] that it begins.
    #[serde(default)]
    pub steps: bool,
    /// True if all arms of a block run on one processor, drawn per block, so that a busy neighbour affects them
    /// equally; otherwise each arm would mostly stay on the processor it started on. For single-threaded
    /// implementations.
    pub pin: bool,
    /// Processor drawn for the block.
    pub core: Option<u32>,
    /// Bytes to allocate first and keep, so that heap layout varies between processes: one block in the heap and one
    /// large enough for a separate mapping.
    pub padding: [u64; 2],
}

/// An implementation at a case.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Asked {
    workload: String,
    params: Vec<(String, Value)>,
    input: Option<String>,
    /// Name of the implementation.
    pub implementation: String,
}

impl Asked {
    /// The implementation at this case.
    pub fn new(case: &Case, implementation: &str) -> Self {
        let Case { workload, params, input } = case.clone();
        Self { workload, params, input, implementation: implementation.to_string() }
    }

    /// Name of the workload.
    pub fn workload(&self) -> &str {
        &self.workload
    }

    /// The case; the digest of the user's arrays is part of it.
    pub fn case(&self) -> Case {
        Case { input: self.input.clone(), ..Case::new(&self.workload, self.params.clone()) }
    }
}

/// An answer from the worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// A step of [`Ask::Open`] begins. The answer to the question follows.
    Step {
        /// The step that begins.
        step: Step,
    },
    /// The implementation answered correctly once, is warm, and its slots have a shape.
    Ready(Box<Opened>),
    /// A slot was taken. The parent fills in block, round and position.
    Slot {
        /// The sample of the slot.
        sample: Sample,
    },
    /// Time of an iteration in each step of a turn, in nanoseconds; empty if the device cannot time steps.
    Curve {
        /// Time per step, in order.
        ns: Vec<f64>,
    },
    /// The answer is still correct.
    Judged(Box<Judged>),
    /// Inputs, reference and hard sets are ready.
    Posed,
    /// The result of judging the implementation.
    Checked {
        /// The verdict on the inputs of the case and the result on the hard sets, or the outcome that is not right.
        found: Result<(Verdict, HardResult), Outcome>,
    },
    /// The implementation has ended; no further answer follows.
    Ended {
        /// Why it ended.
        outcome: Outcome,
    },
}

/// The members of all answers that are not structures; see [`AskLine`].
#[derive(Deserialize)]
struct AnswerLine {
    answer: String,
    step: Option<Step>,
    sample: Option<Sample>,
    ns: Option<Vec<f64>>,
    found: Option<Result<(Verdict, HardResult), Outcome>>,
    outcome: Option<Outcome>,
}

impl Answer {
    /// Reads a line.
    ///
    /// # Errors
    /// If it is no answer.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let mut line: AnswerLine = serde_json::from_str(text)?;
        Ok(match (std::mem::take(&mut line.answer).as_str(), line) {
            ("step", AnswerLine { step: Some(step), .. }) => Answer::Step { step },
            ("ready", _) => Answer::Ready(serde_json::from_str(text)?),
            ("slot", AnswerLine { sample: Some(sample), .. }) => Answer::Slot { sample },
            ("curve", AnswerLine { ns: Some(ns), .. }) => Answer::Curve { ns },
            ("judged", _) => Answer::Judged(serde_json::from_str(text)?),
            ("posed", _) => Answer::Posed,
            ("checked", AnswerLine { found: Some(found), .. }) => Answer::Checked { found },
            ("ended", AnswerLine { outcome: Some(outcome), .. }) => Answer::Ended { outcome },
            (answer, _) => return Err(incomplete("answer", answer)),
        })
    }
}

fn incomplete(what: &str, name: &str) -> serde_json::Error {
    serde::de::Error::custom(format!("the {what} \"{name}\" is unknown or lacks a member"))
}

/// What a worker found during preparation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Id of the device used.
    pub device: String,
    /// Preparation time in nanoseconds.
    pub prepare_ns: u64,
    /// Time of the first run in nanoseconds.
    pub first_run_ns: u64,
    /// Slot shape found or given.
    pub slot: Slot,
    /// Maximum number of iterations that can be loaded at once; older programs do not report it.
    #[serde(default)]
    pub most_iterations: Option<u64>,
    /// Shortest part of a slot that the device can time; older programs do not report it.
    #[serde(default)]
    pub finest_part_ns: Option<u64>,
    /// True if it can record a settling curve, which needs a device that can time parts; false for older programs.
    #[serde(default)]
    pub settles: bool,
    /// The code that really ran.
    pub what_ran: String,
    /// The work that an iteration on its inputs requires; older programs do not report it.
    #[serde(default)]
    pub work: Option<Work>,
    /// Digest of the outputs, which were correct.
    pub digest: u64,
    /// Verdict of the check.
    pub verdict: Verdict,
    /// Probe readings around preparation and first run.
    pub readings: Vec<Reading>,
}

impl Opened {
    /// Maximum number of iterations that can be loaded at once; for older programs, the number that they chose.
    pub(crate) fn max_iterations(&self) -> u64 {
        self.most_iterations.unwrap_or(self.slot.iterations)
    }
}

/// What a worker found at the end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Digest of the outputs, which were correct.
    pub digest: u64,
    /// Probe readings around one steady-state run, and quality readings of the outputs.
    pub readings: Vec<Reading>,
    /// Warnings for the reader.
    pub warnings: Vec<String>,
    /// True if slots started slower than they ended, so the head must be longer.
    #[serde(default)]
    pub unsettled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ellwand_core::record::SlotState;

    fn there_and_back(answer: &Answer) {
        let line = serde_json::to_string(answer).unwrap();
        assert!(!line.contains('\n'), "one line: {line}");
        assert_eq!(&Answer::read(&line).unwrap(), answer);
    }

    #[test]
    fn every_question_survives_the_pipe() {
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
            Ask::Pose(Box::new(Pose { case: case.clone(), seed: 7, allowed: None })),
            Ask::Check { implementation: "simd".into(), device: Some("cpu".into()) },
            Ask::Close,
        ] {
            let line = serde_json::to_string(&ask).unwrap();
            assert!(!line.contains('\n'), "one line: {line}");
            let back = Ask::read(&line).unwrap();
            assert_eq!(back, ask);
            if let Ask::Open(open) = back {
                assert_eq!(open.asked.case(), case);
                assert_eq!(open.asked.case().id(), case.id());
            }
        }
    }

    #[test]
    fn messages_without_a_member_are_refused() {
        for line in [r#"{"ask":"turn","count":1}"#, r#"{"ask":"shape"}"#, r#"{"ask":"open"}"#, r#"{"ask":"x"}"#, "{}"] {
            assert!(Ask::read(line).is_err(), "{line}");
        }
        for line in [r#"{"answer":"slot"}"#, r#"{"answer":"ended","outcome":{"status":"failed"}}"#, r#"{"answer":"x"}"#]
        {
            assert!(Answer::read(line).is_err(), "{line}");
        }
        assert_eq!(Ask::read(r#"{"ask":"slot"}"#).unwrap(), Ask::Slot { judged: false }, "of an older program");
    }

    #[test]
    fn every_answer_survives_the_pipe() {
        let verdict = Verdict::agree(ellwand_core::Compared { values: 1, of: 2 }, 0.0);
        there_and_back(&Answer::Step { step: Step::FirstRun });
        there_and_back(&Answer::Ready(Box::new(Opened {
            device: "cpu".into(),
            prepare_ns: 1,
            first_run_ns: 2,
            slot: Slot::whole(3, 4),
            most_iterations: Some(5),
            finest_part_ns: Some(6),
            settles: true,
            what_ran: "avx2".into(),
            work: Some(Work::items("values", 4).flops(8.0)),
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
        there_and_back(&Answer::Posed);
        let hard = HardResult { right: 3, excepted: vec![("large".into(), "below 1e30".into())] };
        there_and_back(&Answer::Checked { found: Ok((verdict.clone(), hard)) });
        there_and_back(&Answer::Checked { found: Err(Outcome::Unsupported { why: "no GPU".into() }) });
        there_and_back(&Answer::Ended { outcome: Outcome::Wrong { verdict } });
        there_and_back(&Answer::Ended { outcome: Outcome::Failed { error: "line\nbreak".into() } });
    }
}
