//! Arguments of the commands that decide: `compare` and `selfcheck`.

use clap::Args;
use ellwand_bench::plan::Selection;
use ellwand_core::{Caches, InputError};

use super::shared::{Cases, Session, TimeLimit};
use super::values::{FailOn, Form, age, integer, named, region, seconds};

/// The heading of the flags that say what the sides are.
const SIDES: &str = "Sides";

// No doc comment: clap would print it as the description of the command.
#[derive(Args)]
#[command(mut_arg("output", |arg| arg.help("Directory for a record of the verdicts and its reports [default: none]")))]
pub(crate) struct CompareArgs {
    /// WORKLOAD:IMPLEMENTATION (the same WORKLOAD once) or a record, which only suggests; alone with --baseline; a program
    /// built on Ellwand with --workload; a shell command with --command
    #[arg(required_unless_present = "baseline")]
    base: Option<String>,
    /// The other side
    candidate: Option<String>,
    /// Compare two programs at this workload
    #[arg(long, help_heading = SIDES, value_name = "NAME", conflicts_with = "command")]
    pub(crate) workload: Option<String>,
    /// With --workload or --baseline: implementations or patterns, such as A,B* [default: all]
    #[arg(short, long, help_heading = SIDES, value_name = "I", value_delimiter = ',')]
    pub(crate) implementation: Vec<String>,
    /// Time whole shell commands; each must exit with 0
    #[arg(long, help_heading = SIDES)]
    pub(crate) command: bool,
    /// With --command: equal stdout before and after timing
    #[arg(long, help_heading = SIDES, requires = "command")]
    pub(crate) same_output: bool,
    /// With --command: run this before each run, untimed; given twice, one for each command
    #[arg(long, help_heading = SIDES, value_name = "COMMAND", requires = "command")]
    pub(crate) prepare: Vec<String>,
    /// Compare this program with itself at a git revision, built and cached in target/ellwand-baseline
    #[arg(long, help_heading = SIDES, value_name = "REV", conflicts_with = "command")]
    pub(crate) baseline: Option<String>,
    /// Arguments for its `cargo build` [default: profile and features of this program]
    #[arg(long, help_heading = SIDES, value_name = "A", requires = "baseline", allow_hyphen_values = true)]
    pub(crate) baseline_args: Option<String>,
    /// Verdicts are for warm caches; `run --caches cold` measures cold ones
    #[arg(long, hide = true, value_name = "STATE", value_parser = named(Caches::NAMES), default_value = "warm")]
    pub(crate) caches: Caches,
    /// Compare records of different machines
    #[arg(long, help_heading = SIDES)]
    pub(crate) across_machines: bool,
    /// Region of practical equivalence: smaller differences count as the same; a larger region decides sooner
    #[arg(long, visible_alias = "at-least", value_name = "PERCENT", value_parser = region, default_value = "1")]
    pub(crate) rope: f64,
    /// Time limit of a case, which ends sooner if decided or if the forecast says that it cannot be [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) time: Option<f64>,
    /// Limit for all cases [default: 5m, at least --time]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) total_time: Option<f64>,
    /// Total time that processes run between slots, to find a side that slows down with age; at most a tenth of --time;
    /// 0s: off [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = age, conflicts_with = "command")]
    pub(crate) age: Option<f64>,
    /// Maximum number of blocks, each in fresh processes [default: 512]
    #[arg(long, value_name = "N", value_parser = integer(1..=1000_u32))]
    pub(crate) blocks: Option<u32>,
    /// slower: exit with code 3 if the candidate is slower or exceeds a budget; undecided: also with 4 if a case or a budget is undecided
    #[arg(long, value_name = "WHAT", value_parser = named(FailOn::OF_COMPARE), default_value = "undecided")]
    pub(crate) fail_on: FailOn,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::VERDICTS), default_value = "table")]
    pub(crate) format: Form,
    #[command(flatten)]
    pub(crate) session: Session,
    #[command(flatten)]
    pub(crate) limit: TimeLimit,
    #[command(flatten)]
    pub(crate) cases: Cases,
}

impl CompareArgs {
    /// The sides that are named: up to two.
    pub(crate) fn sides(&self) -> Vec<&String> {
        self.base.iter().chain(&self.candidate).collect()
    }

    /// Names of sides, implementations and devices.
    pub(crate) fn named(&self) -> Vec<&String> {
        self.sides().into_iter().chain(&self.implementation).chain(&self.cases.device).collect()
    }

    /// The requested cases of a workload that the sides or --workload name.
    pub(crate) fn selection(&self, workload: &str) -> Selection {
        self.cases.selection(&[workload.to_string()], &self.implementation)
    }

    /// Refuses flags that select cases or implementations if there are none to select; ignored flags would seem to have
    /// an effect.
    pub(crate) fn refuse_cases(&self, why: &str) -> Result<(), InputError> {
        let axis = self.cases.axes.keys().next().map(|axis| format!("--{axis}"));
        let given = [
            ("--size", self.cases.size.is_some()),
            ("--device", !self.cases.device.is_empty()),
            ("--rtol", self.cases.rtol.is_some()),
            ("--atol", self.cases.atol.is_some()),
            ("--implementation", !self.implementation.is_empty()),
        ];
        let flag = given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag.to_string());
        let refused = |flag| Err(InputError::new(flag, why, "the same command without it"));
        axis.or(flag).map_or(Ok(()), refused)
    }

    /// A flag that applies only to a measurement, if one is given.
    pub(crate) fn flag_of_measuring(&self) -> Option<&'static str> {
        let given = [
            ("--blocks", self.blocks.is_some()),
            ("--time", self.time.is_some()),
            ("--total-time", self.total_time.is_some()),
            ("--age", self.age.is_some()),
            ("--seed", self.cases.seed.is_some()),
            ("--time-limit", self.limit.time_limit.is_some()),
            ("--overwrite", self.session.overwrite),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

#[derive(Args)]
pub(crate) struct SelfcheckArgs {
    /// Use runs of about 20 ms instead of 50 us, judged by CPU time; save no certificate
    #[arg(long)]
    pub(crate) long: bool,
    /// Take two minutes instead of several: fewer decisions, a looser bound
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only trials whose kernel and planted difference contain TEXT ('l2', 'equal', '+3', 'tail'); save no certificate
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Decisions of each trial; save no certificate
    #[arg(long, value_name = "N", value_parser = integer(1..=u32::MAX))]
    pub(crate) decisions: Option<u32>,
    /// Stop after SECONDS and report the decisions so far [default: 450, --quick: 120, --decisions: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = integer(1..=86_400_u64))]
    pub(crate) budget: Option<u64>,
    /// Region of practical equivalence: smaller differences count as the same
    #[arg(long, value_name = "PERCENT", value_parser = region, default_value = "1")]
    pub(crate) rope: f64,
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", value_parser = named(Form::ROWS), default_value = "table")]
    pub(crate) format: Form,
}
