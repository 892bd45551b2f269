//! The plan as a file: what to measure and how, and the cases in numbered shards, with a hash over everything.

use std::fs;
use std::io;
use std::path::Path;

use ellwand_core::case::Fnv;
use ellwand_core::{InputError, Registry};
use serde::{Deserialize, Serialize};

use crate::cli::args::{Measuring, PlanArgs};
use crate::cli::exit::{Exit, Failure, Outcome};
use crate::cli::{output, plan};

/// Version of the file. This program reads this version and earlier ones.
const VERSION: u32 = 1;

/// The JSON file that `sweep plan` writes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Planned {
    sweep: u32,
    /// Digest of the plan: results contain it, so those of another plan are detected.
    pub(super) hash: String,
    pub(super) plan: Plan,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// Version of Ellwand that made the plan.
    pub(super) ellwand: String,
    pub(super) measure: Measuring,
    /// Ids of the cases of each shard. A task selects the implementations that its machine can run.
    pub(super) shards: Vec<Vec<String>>,
}

/// The part of the file that every version has.
#[derive(Deserialize)]
struct Head {
    sweep: u32,
}

impl Plan {
    /// The cases in the order in which they were dealt to the shards.
    pub(super) fn cases(&self) -> Vec<String> {
        let rounds = self.shards.iter().map(Vec::len).max().unwrap_or(0);
        (0..rounds).flat_map(|round| self.shards.iter().filter_map(move |shard| shard.get(round))).cloned().collect()
    }

    /// 64 bits detect accidental changes, but not a forgery.
    fn hash(&self) -> Result<String, serde_json::Error> {
        let mut hash = Fnv::new();
        hash.bytes(serde_json::to_string(self)?.as_bytes());
        Ok(format!("{:016x}", hash.finish()))
    }
}

impl Planned {
    /// Number of shards. A plan has far fewer than 2^32.
    pub(super) fn shards(&self) -> u32 {
        self.plan.shards.len() as u32
    }
}

pub(super) fn plan(registry: &Registry, args: &PlanArgs) -> Outcome {
    let cells = plan::expand(registry, &args.how.chosen.selection())?;
    let (cells, _) = plan::of_any_machine(registry, &args.how, cells, true)?;
    let cases: Vec<String> = cells.cells.iter().map(|cell| cell.case.id()).collect();
    let count = args.shards.map_or(cases.len(), |shards| shards as usize);
    if count > cases.len() {
        let problem = format!("{count} shards for {} cases", cases.len());
        return Err(InputError::new("--shards", problem, format!("a number from 1 to {}", cases.len())).into());
    }
    let (total, mut shards) = (cases.len(), vec![Vec::new(); count]);
    // Dealt like cards: neighbouring cases take similar time, and every shard should get some of each.
    cases.into_iter().enumerate().for_each(|(index, case)| shards[index % count].push(case));
    let plan = Plan { ellwand: env!("CARGO_PKG_VERSION").into(), measure: args.how.clone(), shards };
    let hash = plan.hash().map_err(anyhow::Error::from)?;
    let planned = Planned { sweep: VERSION, hash, plan };
    write(&args.output, &planned, args.overwrite)?;
    output::result(|out| -> io::Result<()> {
        let [cases, shards] = [(total, "case"), (count, "shard")].map(|(n, what)| output::counted(n as u64, what));
        writeln!(out, "{}: {cases} in {shards}, hash {}", args.output.display(), planned.hash)
    })?;
    Ok(Exit::Ok)
}

fn write(path: &Path, planned: &Planned, overwrite: bool) -> Result<(), Failure> {
    output::new_file(path, &[], true)?;
    let text = serde_json::to_string_pretty(planned).map_err(anyhow::Error::from)? + "\n";
    match fs::read_to_string(path) {
        Ok(there) if there == text => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() != io::ErrorKind::InvalidData => {
            let problem = format!("{} cannot be read ({error})", path.display());
            return Err(InputError::new("-o", problem, "the name of a file for the plan").into());
        }
        _ if overwrite => {}
        Ok(text) if serde_json::from_str::<Planned>(&text).is_err() => {
            let problem = format!("{} exists and is not a plan", path.display());
            return Err(InputError::new("-o", problem, "a new name, or --overwrite to replace it").into());
        }
        _ => {
            let problem = format!("{} exists and is another plan", path.display());
            let error = InputError::new("-o", problem, "a new name, or --overwrite to replace it");
            return Err(error.help("results of the old plan do not fit a new one").into());
        }
    }
    output::text_file(path, &text)
}

/// Reads a plan and checks its hash.
pub(super) fn read(path: &Path) -> Result<Planned, InputError> {
    let (name, whole) = (path.display(), "a plan, as `sweep plan` writes it");
    let refused = |problem: String| InputError::new("PLAN", problem, whole);
    let text = fs::read_to_string(path).map_err(|error| refused(format!("{name} cannot be read ({error})")))?;
    let no_plan = |error| refused(format!("{name} is not a plan ({error})"));
    let head: Head = serde_json::from_str(&text).map_err(no_plan)?;
    if head.sweep > VERSION {
        let problem = format!("{name} has format version {}, this program reads versions up to {VERSION}", head.sweep);
        return Err(InputError::new("PLAN", problem, "a newer Ellwand"));
    }
    let planned: Planned = serde_json::from_str(&text).map_err(no_plan)?;
    let hash = planned.plan.hash().map_err(no_plan)?;
    if hash != planned.hash {
        let problem = format!("{name} was changed by hand: it has the hash {hash} and states {}", planned.hash);
        return Err(refused(problem).help("restore it, or make another plan with `sweep plan`"));
    }
    Ok(planned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cli::args::Command;
    use crate::{Axis, suite};

    fn registry() -> Registry {
        let axis = Axis::int("n", "numbers", 1, 100, 7);
        Registry::from(suite("double").axis(axis).input(|_, _| 0_u8).implementation("plain", |x| *x))
    }

    /// Plans into `path` and returns the file.
    fn planned(path: &Path, flags: &str) -> Result<String, Failure> {
        let line = format!("ellwand sweep plan double {flags} -o {}", path.display());
        let words: Vec<_> = line.split_whitespace().map(Into::into).collect();
        let Ok(Command::Sweep(args)) = crate::cli::args::parse(&registry(), &words) else { panic!("{line}") };
        let crate::cli::args::SweepCommand::Plan(args) = args.command else { panic!("{line}") };
        plan(&registry(), &args)?;
        Ok(fs::read_to_string(path).unwrap())
    }

    #[test]
    fn the_same_flags_give_the_same_file_and_others_another_hash() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
        let flags = "--n 1,2,3,4,5 --shards 2 --effort quick --time 7s --seed 3 --blocks 2 --time-limit 9";
        let first = planned(&a, flags).unwrap();
        assert_eq!(first, planned(&b, flags).unwrap());
        assert_eq!(first, planned(&a, flags).unwrap(), "the same plan again is no conflict");
        let read_back = read(&a).unwrap();
        assert_eq!(
            read_back.plan.shards,
            [["double/n=1", "double/n=3", "double/n=5"].as_slice(), &["double/n=2", "double/n=4"]]
        );
        let ids: Vec<String> = (1..=5).map(|n| format!("double/n={n}")).collect();
        assert_eq!(read_back.plan.cases(), ids);
        let how = &read_back.plan.measure;
        assert_eq!(
            (how.time, how.blocks(), how.chosen.cases.seed(), how.limit.time_limit),
            (Some(7.0), Some(2), 3, Some(9))
        );
        planned(&c, &flags.replace("--seed 3", "--seed 4")).unwrap();
        assert_ne!(read_back.hash, read(&c).unwrap().hash);
        assert!(planned(&a, "--n 1").unwrap_err().to_string().contains("exists and is another plan"));
        let refused = |path: &Path| planned(path, "--n 1").unwrap_err().to_string();
        fs::write(dir.path().join("mine"), "mine").unwrap();
        assert!(refused(&dir.path().join("mine")).contains("exists and is not a plan"));
        assert!(refused(dir.path()).contains("is a directory"), "{}", refused(dir.path()));
        assert!(refused(&a.join("under")).contains("cannot be written"));
        assert_eq!(read(&a).unwrap().hash, read_back.hash);
        planned(&a, "--n 1 --overwrite").unwrap();
    }

    #[test]
    fn more_shards_than_cases_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = planned(&dir.path().join("p"), "--n 1,2 --shards 3").unwrap_err().to_string();
        assert!(error.contains("--shards: 3 shards for 2 cases; expected a number from 1 to 2"), "{error}");
    }

    #[test]
    fn every_change_of_a_plan_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.json");
        let text = planned(&path, "--n 1,2,3 --effort quick").unwrap();
        for (from, to, expected) in [
            ("double/n=2", "double/n=9", "was changed by hand"),
            ("\"quick\"", "\"normal\"", "was changed by hand"),
            ("\"measure\"", "\"more\": 1, \"measure\"", "unknown field `more`"),
            ("\"sweep\": 1", "\"sweep\": 2", "version 2, this program reads versions up to 1"),
            ("{", "", "is not a plan"),
        ] {
            assert!(text.contains(from), "{from}");
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let error = read(&path).err().unwrap().to_string();
            assert!(error.contains(expected), "{from}: {error}");
        }
    }
}
