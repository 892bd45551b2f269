//! Mistakes in a suite, which every command that uses it reports.

use ellwand_core::InputError;

use super::NO_OUTPUT;

/// Not generic, so it is compiled once and not in every program.
pub(super) fn find_mistake(
    suite: &str,
    (names, axes): (&[&str], &[&str]),
    baseline: Option<&str>,
    early: Option<&str>,
    lacks_output: bool,
) -> Option<InputError> {
    let mistake = |problem: String, expected: String| Some(InputError::new(suite, problem, expected));
    if let Some(early) = early {
        return mistake(
            format!("{early} comes before any implementation"),
            "it after the implementation it is about".into(),
        );
    }
    if let Some(baseline) = baseline.filter(|baseline| !names.contains(baseline)) {
        return mistake(
            format!("its baseline '{baseline}' is not implemented"),
            format!("one of {}", names.join(", ")),
        );
    }
    if lacks_output {
        return mistake(NO_OUTPUT.into(), ".output(|input| ..)".into());
    }
    let twice = |all: &[&str]| {
        let found = all.iter().enumerate().find(|(at, name)| all[..*at].contains(name));
        found.map(|(_, name)| (*name).to_string())
    };
    let expected = "a name for each";
    let axis = twice(axes).map(|name| (format!("it has two axes '{name}'"), expected));
    let (problem, expected) = twice(names).map(|name| (format!("'{name}' is implemented twice"), expected)).or(axis)?;
    mistake(problem, expected.into())
}
