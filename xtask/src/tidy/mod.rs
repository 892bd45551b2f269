//! Repository rules that no compiler checks. Each rule is a function that returns violations.

mod circles;
mod english;
mod files;
mod floors;
mod text;

use anyhow::{Result, bail};

use xtask::root;

/// A rule: its name, and the function that finds violations.
type Rule = (&'static str, fn(&Sources) -> Result<Vec<String>>);

/// Every rule. To add one, add a row.
const RULES: &[Rule] = &[
    ("floors: dependencies only go down", floors::only_downwards),
    ("floors: printing and command-line crates only in ellwand, hosts and tools", floors::tools_stay_upstairs),
    ("circles: at most 8 files of a crate import one another", circles::no_large_circle),
    ("network: no crate that talks to it", floors::no_network_crate),
    ("files: every source file is reached by a mod", files::registered),
    ("files: at most 500 lines", files::short),
    ("files: functions of shipped crates have at most 80 lines, those of the command line 60", files::short_functions),
    ("unsafe: only where ARCHITECTURE allows it", text::unsafe_where_allowed),
    ("time: only dates come from the wall clock", text::one_wall_clock),
    ("network: pages and scripts ask for nothing", text::no_remote_reference),
    ("messages: only the command line writes flags", text::flags_in_the_command_line_only),
    ("text: no trailing space, no tab, one newline at the end", text::clean),
    ("english: no banned turns", |sources| Ok(english::plain(sources))),
    ("english: no doc comment of one or two words", |sources| Ok(english::saying_something(sources))),
];

/// Checks every rule.
pub(crate) fn tidy() -> Result<()> {
    let sources = Sources::load()?;
    let mut broken = 0;
    for (name, rule) in RULES {
        for what in rule(&sources)? {
            println!("{name}: {what}");
            broken += 1;
        }
    }
    if broken == 0 {
        println!("{} rules hold on {} files", RULES.len(), sources.files.len());
        return Ok(());
    }
    bail!("{broken} places break a rule of the repository")
}

/// The files of the repository, tracked or untracked but not ignored, with their text.
pub(crate) struct Sources {
    /// Path from the root, and content; binary files are skipped.
    pub(crate) files: Vec<(String, String)>,
}

impl Sources {
    fn load() -> Result<Self> {
        let root = root()?;
        let list = std::process::Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(&root)
            .output()?;
        if !list.status.success() {
            bail!("git ls-files failed; tidy checks the files that git lists");
        }
        let names = String::from_utf8(list.stdout)?;
        let read = |name: &str| Some((name.to_string(), std::fs::read_to_string(root.join(name)).ok()?));
        Ok(Self { files: names.split('\0').filter(|name| !name.is_empty()).filter_map(read).collect() })
    }

    /// Files whose name ends with one of `suffixes`.
    pub(crate) fn ending<'a>(&'a self, suffixes: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(name, _)| suffixes.iter().any(|suffix| name.ends_with(suffix)))
            .map(|(name, text)| (name.as_str(), text.as_str()))
    }
}
