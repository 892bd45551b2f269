//! The floors of ARCHITECTURE: allowed dependencies, read from `cargo metadata`.

use anyhow::Result;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use super::Sources;
use xtask::root;

/// The floor of each workspace crate. A crate may depend on lower floors only.
const FLOORS: &[(&str, i32)] = &[
    ("ellwand-profile-macros", -1),
    ("ellwand-profile", 0),
    ("ellwand-stats", 0),
    ("ellwand-core", 1),
    ("ellwand-trace", 1),
    ("ellwand-page", 2),
    ("ellwand-simd", 2),
    ("ellwand-gpu", 2),
    ("ellwand-bench", 3),
    ("ellwand-calibration", 3),
    ("ellwand-gemm", 3),
    ("ellwand-kde", 3),
    ("ellwand-lattice", 3),
    ("ellwand-layers", 3),
    ("ellwand-report", 3),
    ("ellwand-history", 3),
    ("ellwand-attention", 4),
    ("ellwand", 5),
    ("ellwand-cli", 6),
    ("ellwand-python", 7),
    ("ellwand-gpu-lab", 6),
    ("ellwand-gpu-tasks", 6),
    ("example-sort", 6),
    ("example-av1", 6),
    ("example-promise", 6),
    ("example-spans", 6),
];

/// Crates that only the top floors may use.
const UPSTAIRS: &[&str] = &["clap", "anyhow", "indicatif", "pyo3"];

/// Crates that open network connections.
const NETWORK: &[&str] =
    &["reqwest", "hyper", "ureq", "curl", "isahc", "tokio-tungstenite", "attohttpc", "native-tls", "rustls"];

fn metadata() -> Result<Metadata> {
    Ok(MetadataCommand::new().manifest_path(root()?.join("Cargo.toml")).exec()?)
}

fn floor(name: &str) -> Option<i32> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor)
}

/// Lists normal and build dependencies between workspace crates that are not on a lower floor.
pub(crate) fn only_downwards(_: &Sources) -> Result<Vec<String>> {
    let metadata = metadata()?;
    let mut broken = Vec::new();
    for package in metadata.workspace_packages().into_iter().filter(|package| package.name.as_str() != "xtask") {
        let Some(mine) = floor(&package.name) else {
            broken.push(format!("{} has no floor; give it one in xtask/src/tidy/floors.rs", package.name));
            continue;
        };
        for dependency in
            package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development)
        {
            if floor(&dependency.name).is_some_and(|other| other >= mine) {
                broken.push(format!(
                    "{} (floor {mine}) depends on {}, which is not below it",
                    package.name, dependency.name
                ));
            }
        }
    }
    Ok(broken)
}

/// Lists uses of command-line and Python crates below the top floors.
pub(crate) fn tools_stay_upstairs(_: &Sources) -> Result<Vec<String>> {
    let metadata = metadata()?;
    let low = |name: &str| floor(name).is_some_and(|floor| floor < 5);
    Ok(metadata
        .workspace_packages()
        .into_iter()
        .filter(|package| low(&package.name))
        .flat_map(|package| {
            let used = package.dependencies.iter().filter(|d| UPSTAIRS.contains(&d.name.as_str()));
            used.map(|dependency| format!("{} depends on {}", package.name, dependency.name)).collect::<Vec<_>>()
        })
        .collect())
}

/// Lists network crates in the resolved graph of the shipped crates.
pub(crate) fn no_network_crate(_: &Sources) -> Result<Vec<String>> {
    let metadata = metadata()?;
    let found = metadata.packages.iter().filter(|package| NETWORK.contains(&package.name.as_str()));
    Ok(found.map(|package| format!("{} is in the dependency graph", package.name)).collect())
}
