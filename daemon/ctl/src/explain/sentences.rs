//! Sentences about a pod: facts of the agent in, plain English out. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_proto::admin::{
    ContainerFacts, Hold, Occurrence, PodFacts, PullState, RecreateState, TwinSwapState, UpdateState,
};

use crate::duration;

/// Facts that berthd has beside the pods themselves.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// `inline` or `beside`.
    pub(super) path: String,
    /// All requests.
    pub(super) requests: Vec<RecreateState>,
    /// All updates.
    pub(super) updates: Vec<UpdateState>,
    /// All wanted images.
    pub(super) pulls: Vec<PullState>,
    /// The timeline of all pods.
    pub(super) events: Vec<Occurrence>,
}

impl Snapshot {
    /// Tells whether something of this pod waits, or is under way.
    pub(super) fn is_busy(&self, pod: &PodFacts) -> bool {
        let waits = |container: &ContainerFacts| {
            let runs_well =
                container.state == "Running" && (container.ready || container.readiness.is_empty());
            let is_over = container.state == "Exited" && !container.restarts;
            container.hold.is_some() || !(runs_well || is_over || pod.ended)
        };
        pod.deleting
            || pod.set_aside_milliseconds > 0
            || !pod.order_error.is_empty()
            || pod.containers.iter().any(waits)
            || !self.under_way(pod).is_empty()
    }

    /// Sentences about the whole pod.
    pub(super) fn about(&self, pod: &PodFacts) -> Vec<String> {
        let mut lines = Vec::new();
        let ordered = pod.containers.iter().any(|container| container.priority.is_some());
        let beside = self.path == "beside";
        if !pod.order_error.is_empty() {
            let effect = if beside { "" } else { " Until it is mended, none of its containers starts." };
            lines.push(format!("The declared launch order cannot be read: {}.{effect}", pod.order_error));
        } else if ordered {
            lines.push(format!("Launch order: {}.", launch_order(pod)));
        }
        if ordered && beside {
            lines.push(
                "The agent of this node stands beside the kubelet and cannot keep that order (berthctl install)."
                    .to_owned(),
            );
        }
        if !pod.seen {
            lines.push(
                "The pod view does not show it: only what runs in it is known (see berthctl status)."
                    .to_owned(),
            );
        }
        if pod.deleting {
            let reverse = if ordered && !beside { ", in the reverse order" } else { "" };
            lines.push(format!(
                "It is being deleted: its containers have {} s to stop{reverse}.",
                pod.grace_seconds
            ));
        }
        if pod.stopping && !pod.deleting {
            lines.push("Its sandbox is being stopped.".to_owned());
        }
        if pod.ended {
            lines.push("It has ended: nothing of it runs again.".to_owned());
        }
        if pod.gate_unwritten {
            lines.push(
                "It is not Ready before the agent has written its condition KruisePodReady.".to_owned(),
            );
        }
        for request in &pod.held_unready {
            lines.push(format!("Request {request} holds it not Ready."));
        }
        if pod.set_aside_milliseconds > 0 {
            lines.push(format!(
                "berthd failed to evaluate it, which is a bug, and leaves it alone for another {}; see its log.",
                short(pod.set_aside_milliseconds)
            ));
        }
        lines.extend(self.under_way(pod));
        lines
    }

    /// Requests, updates and pulls for this pod that have not ended.
    fn under_way(&self, pod: &PodFacts) -> Vec<String> {
        let mut lines = Vec::new();
        let is_pod = |namespace: &str, name: &str, uid: &str| {
            if uid.is_empty() { namespace == pod.namespace && name == pod.name } else { uid == pod.uid }
        };
        let open = |request: &&RecreateState| {
            request.outcome.is_empty() && is_pod(&request.namespace, &request.pod, &request.pod_uid)
        };
        for request in self.requests.iter().filter(open) {
            let containers = request.containers.iter();
            let containers = containers.map(|container| step(&container.name, &container.phase));
            lines.push(entry(
                &format!("Recreate request {}/{}", request.namespace, request.name),
                &request.phase,
                request.age_milliseconds,
                containers.collect(),
                &request.message,
            ));
        }
        let open = |update: &&UpdateState| {
            update.outcome.is_empty() && is_pod(&update.namespace, &update.pod, &update.pod_uid)
        };
        for update in self.updates.iter().filter(open) {
            let containers = update.containers.iter();
            let containers = containers.map(|container| step(&container.name, &container.phase));
            lines.push(entry(
                &format!("Update {}/{}", update.namespace, update.name),
                &update.phase,
                update.age_milliseconds,
                containers.collect(),
                &update.message,
            ));
            lines.extend(update.swaps.iter().map(swap));
        }
        let own = format!("{}/", pod.uid);
        let open = |pull: &&PullState| {
            pull.wanted_by == "update"
                && pull.name.starts_with(&own)
                && !["Succeeded", "Failed"].contains(&pull.phase.as_str())
        };
        for pull in self.pulls.iter().filter(open) {
            let message = if pull.message.is_empty() { String::new() } else { format!(": {}", pull.message) };
            lines.push(format!(
                "Image {} is fetched before anything is stopped for it: {} %, {} attempt(s){message}.",
                pull.image, pull.percent, pull.attempts
            ));
        }
        lines
    }
}

/// The sentence about a container, without its name.
pub(super) fn container(container: &ContainerFacts, pod: &PodFacts) -> String {
    if let Some(hold) = &container.hold {
        return held(hold, &container.hold_reason);
    }
    match container.state.as_str() {
        "Absent" => absent(container, pod),
        "Created" => "was created and is not started yet".to_owned(),
        "Running" => running(container),
        "Exited" => exited(container, pod),
        _ => "is in a state that the runtime does not know".to_owned(),
    }
}

fn held(hold: &Hold, reason: &str) -> String {
    let (is, call) = match hold.rpc.as_str() {
        "CreateContainer" => ("is not created yet", "its creation"),
        _ => ("still runs", "its stop"),
    };
    let names = hold.waiting_for.join(", ");
    let until = match reason {
        "not-ready" => format!("until {names} {} Ready", be(&hold.waiting_for)),
        "same-second" => {
            format!("until the second is over in which {names} {} started", were(&hold.waiting_for))
        }
        "still-running" => format!("until {names} {} exited", have(&hold.waiting_for)),
        "pod-unknown" => "until the pod view shows the pod".to_owned(),
        "inspection" => "until the runtime has said what runs in the pod".to_owned(),
        "pod-kill-unclear" => "until it is clear whether the whole pod is being stopped".to_owned(),
        other => format!("({other})"),
    };
    let (held, remaining) = (short(hold.held_milliseconds), short(hold.remaining_milliseconds));
    format!("{is}: the agent holds {call} back {until}, for {held} so far and {remaining} more at most")
}

fn absent(container: &ContainerFacts, pod: &PodFacts) -> String {
    if pod.deleting || pod.stopping || pod.ended {
        return "is not there, and nothing starts in this pod any more".to_owned();
    }
    if !container.waiting_for.is_empty() {
        let others: Vec<String> = container.waiting_for.iter().map(|name| stands(name, pod)).collect();
        let waiting = short(container.waiting_milliseconds);
        return format!(
            "is not created yet: waits for {} for {waiting}; the kubelet asks again",
            others.join(", ")
        );
    }
    if !pod.order_error.is_empty() {
        return "is not created: the declared launch order cannot be read".to_owned();
    }
    "is not created yet: the kubelet has not asked for it (it may pull its image, or run init containers)"
        .to_owned()
}

fn running(container: &ContainerFacts) -> String {
    let runs = short(container.running_milliseconds);
    if let Some(since) = container.ending_milliseconds {
        let since = short(since);
        return format!("is being ended for {since}: the main containers of its job have ended");
    }
    if container.stop_asked {
        return "is being stopped: a client of the runtime, mostly the kubelet, asked for it".to_owned();
    }
    let with_job = if container.ends_with_job { "; it ends with its job" } else { "" };
    if container.ready {
        return format!("is Ready, and runs for {runs}{with_job}");
    }
    let because = match container.readiness.as_str() {
        "ReadinessProbe" => "its readiness probe has not succeeded yet",
        "StartupProbe" => "its startup probe has not succeeded yet",
        "PostStart" => "its postStart hook has not ended, or the kubelet has not reported that yet",
        "Running" => "the kubelet has not reported it yet",
        _ => return format!("runs for {runs}{with_job}"),
    };
    format!("runs for {runs} and is not Ready: {because}{with_job}")
}

fn exited(container: &ContainerFacts, pod: &PodFacts) -> String {
    let code = match container.exit_code {
        Some(code) => format!("exited with code {code}"),
        None => "exited".to_owned(),
    };
    if container.ending_milliseconds.is_some() {
        return format!("{code} with its job; to the kubelet its code is 0");
    }
    if pod.deleting || pod.stopping || pod.ended {
        return code;
    }
    let instance = match container.attempt {
        0 => String::new(),
        attempt => format!(" (restart {attempt})"),
    };
    match (container.restarts, container.readiness.is_empty()) {
        (true, _) => format!("{code}{instance}; the kubelet starts it again, after its back-off"),
        (false, false) => format!("{code}{instance}, and its restartPolicy leaves it so"),
        (false, true) => format!("{code}{instance}"),
    }
}

/// Name and state of a container that another one waits for.
fn stands(name: &str, pod: &PodFacts) -> String {
    let state = pod.containers.iter().find(|other| other.name == name);
    let state = match state.map(|other| (other.state.as_str(), other.ready)) {
        Some(("Running", true)) => "Ready",
        Some(("Running", false)) => "running, not Ready",
        Some(("Created", _)) => "created, not started",
        Some(("Exited", _)) => "exited",
        Some(("Absent", _)) | None => "not created",
        Some(_) => "in an unknown state",
    };
    format!("{name} ({state})")
}

/// `db (10), then api and log (5), then web (0)`.
fn launch_order(pod: &PodFacts) -> String {
    let mut levels: BTreeMap<i32, Vec<&str>> = BTreeMap::new();
    for container in &pod.containers {
        if let Some(priority) = container.priority {
            levels.entry(priority).or_default().push(&container.name);
        }
    }
    let levels = levels.into_iter().rev();
    let levels: Vec<String> =
        levels.map(|(priority, names)| format!("{} ({priority})", names.join(" and "))).collect();
    levels.join(", then ")
}

fn entry(what: &str, phase: &str, age: u64, containers: Vec<String>, message: &str) -> String {
    let phase = if phase.is_empty() { "not answered by the node yet" } else { phase };
    let containers =
        if containers.is_empty() { String::new() } else { format!(": {}", containers.join(", ")) };
    let message = if message.is_empty() { String::new() } else { format!("; {message}") };
    format!("{what} is {phase}, {} old{containers}{message}.", short(age))
}

/// Sentence on the step of a swap, and on which twin waits for the other one.
fn swap(swap: &TwinSwapState) -> String {
    let name = &swap.name;
    let twins = [format!("{name}-1"), format!("{name}-2")];
    // The pod says that the new one works from the moment in which it is started.
    let (new, old) = match &twins {
        [first, second] if swap.working == *first => (first.as_str(), second.as_str()),
        [first, second] if swap.working == *second => (second.as_str(), first.as_str()),
        _ => ("one twin", "the other one"),
    };
    match swap.step.as_str() {
        "Pending" => format!("Sidecar {name} waits for its new version: the pod has another one so far."),
        "Migrating" => format!("Sidecar {name}: {old} serves, and waits for {new} to take over."),
        "Emptying" => format!("Sidecar {name}: {new} has taken over, and {old} becomes empty."),
        "Returning" => format!("Sidecar {name}: {new} is given up and becomes empty; {old} serves on."),
        "Done" => format!("Sidecar {name}: {new} serves what is wanted, and {old} has the empty image."),
        other => format!("Sidecar {name}: its swap is at {other}."),
    }
}

fn step(name: &str, phase: &str) -> String {
    if phase.is_empty() { name.to_owned() } else { format!("{name} ({phase})") }
}

fn be(names: &[String]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

fn were(names: &[String]) -> &'static str {
    if names.len() == 1 { "was" } else { "were" }
}

fn have(names: &[String]) -> &'static str {
    if names.len() == 1 { "has" } else { "have" }
}

fn short(milliseconds: u64) -> String {
    duration::short(Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests;
