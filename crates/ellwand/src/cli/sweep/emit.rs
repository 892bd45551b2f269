//! `sweep emit k8s`: prints the plan as an Indexed Job of Kubernetes. Only printed: no cluster has run it.

use std::io;

use ellwand_core::InputError;
use serde_json::{Map, Value, json};

use super::plan::{Planned, read};
use super::results;
use crate::cli::args::K8sArgs;
use crate::cli::exit::{Exit, Outcome};
use crate::cli::output;

/// Mount point of the volume in a pod.
const MOUNT: &str = "/sweep";

pub(super) fn kubernetes(args: &K8sArgs) -> Outcome {
    let planned = read(&args.place.plan)?;
    results::check_class(&args.class)?;
    let job = job(args, &planned)?;
    output::result(|out| -> io::Result<()> { writeln!(out, "{job:#}") })?;
    output::note(
        "note: this manifest was not checked against a cluster; `kubectl apply --dry-run=server -f -` does that",
    );
    Ok(Exit::Ok)
}

fn job(args: &K8sArgs, planned: &Planned) -> Result<Value, InputError> {
    let mut selector = Map::new();
    for label in &args.node_selector {
        let Some((key, value)) = label.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            let problem = format!("'{label}' has no '='");
            return Err(InputError::new("--node-selector", problem, "KEY=VALUE"));
        };
        selector.insert(key.into(), value.into());
    }
    let Some(plan) = args.place.plan.file_name().and_then(|name| name.to_str()) else {
        return Err(InputError::new("PLAN", "its name is not UTF-8", "another name"));
    };
    let results = args.place.results()?;
    let results = results.file_name().and_then(|name| name.to_str()).unwrap_or("results").to_string();
    let fixed = ["ellwand", "sweep", "run", plan, "--results", &results, "--class", &args.class];
    let command = fixed.into_iter().chain(["--hash", &planned.hash, "--shard-from-env"]);
    let shards = planned.shards();
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": format!("ellwand-{}-{}", &planned.hash[..8], args.class.to_lowercase().replace('_', "-")) },
        "spec": {
            "completionMode": "Indexed",
            "completions": shards,
            "parallelism": shards,
            // A shard that fails is tried again once; the others continue.
            "backoffLimitPerIndex": 1,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": selector,
                    "containers": [{
                        "name": "shard",
                        "image": args.image,
                        "command": command.collect::<Vec<_>>(),
                        "workingDir": MOUNT,
                        "volumeMounts": [{ "name": "sweep", "mountPath": MOUNT }],
                    }],
                    "volumes": [{ "name": "sweep", "persistentVolumeClaim": { "claimName": args.claim } }],
                },
            },
        },
    }))
}
