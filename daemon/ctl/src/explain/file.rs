//! `berthctl explain --file`: order and ends of a pod that is not there yet. Asks nobody.
//!
//! Declarations are read by what reads them on a node; here are only their words, and remarks on those that
//! have no effect.

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use berth_policy::launch_priority::{ORDERED_ANNOTATION, PLAN_ANNOTATION, PRIORITY_ENV};
use berth_policy::{
    Foreseen, JOB_SIDECAR_ENV, Level, Pod, Readiness, RestartPolicy, foresee, is_job_sidecar,
};
use berthd::base::yaml::Document;
use berthd::pods::foreseen;
use serde::Serialize;
use serde_json::Value;

use crate::output::{self, Format};

/// The largest manifest that is read; the API server takes no larger object.
const LARGEST: u64 = 3 << 20;

/// Order and ends of the pod of a manifest.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outlook {
    /// Kind and name of the object that it is in.
    object: String,
    launch: Vec<Batch>,
    exit: Vec<Vec<String>>,
    /// Containers that end with the job, and those whose end that is.
    job_sidecars: Vec<String>,
    mains: Vec<String>,
    /// Declarations that cannot be followed.
    errors: Vec<String>,
    /// Declarations without an effect.
    remarks: Vec<String>,
}

/// Containers that start together.
#[derive(Debug, Serialize)]
struct Batch {
    priority: i32,
    containers: Vec<Starts>,
}

/// A container of a batch.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Starts {
    name: String,
    /// Precondition for the next batch.
    counts_when: &'static str,
}

/// Runs `explain --file`. Ends with 1 when a declaration cannot be followed.
pub(super) fn explain(path: &str, format: Format) -> Result<ExitCode> {
    let shown = if path == "-" { "<stdin>" } else { path };
    let text = read(path).with_context(|| format!("read the manifest {shown}"))?;
    let outlook = outlook(&text).with_context(|| format!("the manifest {shown}"))?;
    output::data(format, &outlook, || words(&outlook))?;
    Ok(if outlook.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(path: &str) -> Result<String> {
    let mut from: Box<dyn Read> =
        if path == "-" { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(path)?) };
    let mut text = String::new();
    from.by_ref().take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        bail!("it has more than {} MiB", LARGEST >> 20);
    }
    Ok(text)
}

fn outlook(text: &str) -> Result<Outlook> {
    let manifest: Value = Document::parse(text)?.typed()?;
    let kind = manifest["kind"].as_str().unwrap_or_default();
    let template = match kind {
        "" => bail!("it has no kind: give a Pod, or an object with a template of pods"),
        "Pod" => Some(&manifest),
        _ => ["/spec/template", "/spec/jobTemplate/spec/template"].iter().find_map(|at| manifest.pointer(at)),
    };
    let Some(template) = template.filter(|template| template["spec"].is_object()) else {
        bail!("it is a {kind} without the spec of a pod: give a Pod, or an object with a template of pods");
    };
    let mut template = template.clone();
    // A template has less of it than an object, and nothing else of it counts here.
    template["metadata"] = serde_json::json!({ "annotations": template["metadata"]["annotations"] });
    let pod = foreseen::pod(template.clone()).context("the spec of the pod")?;
    let foreseen = foresee(&pod);
    let name = manifest["metadata"]["name"].as_str().or(manifest["metadata"]["generateName"].as_str());
    let names = |all: &[berth_policy::ContainerName]| all.iter().map(ToString::to_string).collect();
    Ok(Outlook {
        object: format!("{kind} {}", name.unwrap_or("without a name")),
        launch: foreseen.launch.iter().map(|level| batch(level, &pod)).collect(),
        exit: foreseen.exit().map(|level| names(&level.containers)).collect(),
        job_sidecars: names(&foreseen.job_sidecars),
        mains: names(&foreseen.mains),
        errors: pod.order.as_ref().err().map(ToString::to_string).into_iter().collect(),
        remarks: remarks(&template, &pod, &foreseen),
    })
}

fn batch(level: &Level, pod: &Pod) -> Batch {
    let starts = level.containers.iter().map(|name| Starts {
        name: name.to_string(),
        counts_when: match pod.containers.get(name).map(|spec| spec.readiness) {
            Some(Readiness::ReadinessProbe) => "its readiness probe has succeeded",
            Some(Readiness::StartupProbe) => "its startup probe has succeeded",
            Some(Readiness::PostStart) => "its postStart hook has ended",
            Some(Readiness::Running) | None => "it runs",
        },
    });
    Batch { priority: level.priority, containers: starts.collect() }
}

/// Declarations that are there and do nothing.
fn remarks(template: &Value, pod: &Pod, foreseen: &Foreseen) -> Vec<String> {
    let mut remarks = Vec::new();
    let annotations = &template["metadata"]["annotations"];
    let list = |of: &str| template["spec"][of].as_array().into_iter().flatten();
    let env = |container: &Value, name: &str| {
        container["env"].as_array()?.iter().rfind(|one| one["name"] == name).cloned()
    };
    let named = |container: &Value| container["name"].as_str().unwrap_or_default().to_owned();
    let by_annotation = annotations[ORDERED_ANNOTATION].is_string();
    if annotations[PLAN_ANNOTATION].is_string() {
        remarks.push(format!(
            "annotation {PLAN_ANNOTATION} has no effect: only berthctl play writes it, on sandboxes"
        ));
    }
    for container in list("initContainers") {
        for name in [PRIORITY_ENV, JOB_SIDECAR_ENV] {
            if env(container, name).is_some() {
                let container = named(container);
                remarks.push(format!(
                    "env {name} of init container {container} has no effect: only those of containers have"
                ));
            }
        }
    }
    let (mut prioritized, mut with_job) = (false, false);
    for container in list("containers") {
        if env(container, PRIORITY_ENV).is_some() {
            prioritized = true;
            if by_annotation {
                let container = named(container);
                remarks.push(format!(
                    "env {PRIORITY_ENV} of container {container} has no effect: annotation {ORDERED_ANNOTATION} counts"
                ));
            }
        }
        let Some(one) = env(container, JOB_SIDECAR_ENV) else { continue };
        match one["value"].as_str() {
            Some(value) if is_job_sidecar(value) => with_job = true,
            Some(value) if value.eq_ignore_ascii_case("false") => {}
            value => {
                let value = value.map_or("no plain value".to_owned(), |value| format!("{value:?}"));
                let container = named(container);
                remarks
                    .push(format!("env {JOB_SIDECAR_ENV} of container {container} is {value}: only \"true\" makes it end with its job"));
            }
        }
    }
    if matches!(pod.order, Ok(None)) && (prioritized || by_annotation) {
        remarks.push(
            "no two containers have different priorities: they start as the kubelet starts them".to_owned(),
        );
    }
    if with_job {
        remarks.extend(on_sidecars(pod, foreseen));
    }
    remarks
}

/// Containers that are to end with the job of the pod, and do not.
fn on_sidecars(pod: &Pod, foreseen: &Foreseen) -> Vec<String> {
    let mut remarks = Vec::new();
    for container in &foreseen.endless {
        remarks.push(format!(
            "env {JOB_SIDECAR_ENV} of container {container} has no effect: by its own restartPolicy or rules it is \
             started again after exit code 0 too, and the pod does not complete"
        ));
    }
    if foreseen.job_sidecars.is_empty() && foreseen.endless.is_empty() {
        let why = match pod.restart_policy {
            RestartPolicy::Always => "restartPolicy is Always, so the pod does not end",
            _ => "all containers have it, so there is no main one to end first",
        };
        remarks.push(format!("env {JOB_SIDECAR_ENV} has no effect: {why}"));
    }
    remarks
}

fn words(outlook: &Outlook) -> String {
    let mut text = format!("{}\n", outlook.object);
    for error in &outlook.errors {
        text += &format!("  error: {error}\n");
    }
    for remark in &outlook.remarks {
        text += &format!("  note: {remark}\n");
    }
    if !outlook.errors.is_empty() {
        return text + "  Until that is mended, none of its containers starts on a node that keeps orders.\n";
    }
    if !outlook.mains.is_empty() {
        text += &format!(
            "  When {} ended, {} ended too; exit codes of the latter do not count.\n",
            are(&outlook.mains, "has", "have"),
            are(&outlook.job_sidecars, "is", "are")
        );
    }
    if outlook.launch.is_empty() {
        return text + "  It declares no order: its containers start and end as the kubelet has it.\n";
    }
    let exit: Vec<String> = outlook.exit.iter().map(|names| names.join(" and ")).collect();
    text +=
        &format!("  When it is deleted: {}; each after the one before has exited.\n", exit.join(", then "));
    text += "  Nodes with the label berth.dev/order=true keep this order, others do not.\n\n";
    let rows = outlook.launch.iter().zip(1..).flat_map(|(batch, number): (&Batch, usize)| {
        batch.containers.iter().map(move |one| {
            let last = number == outlook.launch.len();
            vec![
                number.to_string(),
                one.name.clone(),
                batch.priority.to_string(),
                if last { "-".to_owned() } else { one.counts_when.to_owned() },
            ]
        })
    });
    text + &output::table(&["BATCH", "CONTAINER", "PRIORITY", "NEXT BATCH WHEN"], rows)
}

fn are(names: &[String], one: &str, several: &str) -> String {
    format!("{} {}", names.join(" and "), if names.len() == 1 { one } else { several })
}

#[cfg(test)]
mod tests;
