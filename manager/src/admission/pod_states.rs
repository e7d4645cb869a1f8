//! Pods of StatefulSets that are made anew go back to where they ran.
//!
//! Every replica answers, by the records as they stand at the API server at that moment: nothing is written.
//! A label that is required and that no node has any more is left out, and the pod goes where it can.
//!
//! A pod whose records cannot be read is refused, and its StatefulSet makes it again.

use std::time::Duration;

use berth_base::sent::Sent;
use berth_pod_state::{Labels, Rules, TargetName, inject};
use berth_proto::crd::PersistentPodState;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};
use tracing::debug;

use super::{
    lists::Lists,
    review::{Request, Verdict},
    view::View,
};
use crate::{
    reads,
    store::Object,
    telemetry::chain,
    wire::{self, Watched},
};

/// A question is answered within it; the server answers within 4 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The longest value of a label.
const LONGEST_VALUE: usize = 63;

/// A PersistentPodState as admission has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StateKept {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Its StatefulSet, where the spec makes sense, or what is wrong with it.
    pub(super) rules: Result<Rules, String>,
}

/// Reads a PersistentPodState; one whose deletion has begun sends nobody back. It is read anew for each pod,
/// so no more is kept of it than whose pods it is for.
pub(super) fn read(object: Watched<wire::PodStates>) -> Option<StateKept> {
    let Object::PodState(seen) = object.into_object() else { return None };
    let rules = |spec| Rules::of(spec).map_err(|fault| fault.to_string());
    let rules = seen.spec.as_ref().map_err(Clone::clone).and_then(rules).map(Rules::of_target);
    let kept = StateKept { namespace: seen.namespace, name: seen.name, rules };
    Some(kept).filter(|_| !seen.deleting)
}

/// Answers for all PersistentPodStates.
pub(super) struct Restorer {
    pub(super) client: Client,
    pub(super) states: watch::Receiver<View<StateKept>>,
    pub(super) lists: Lists<StateKept>,
}

impl Restorer {
    /// Answers to a pod that is about to be made.
    pub(super) async fn restore(&self, request: &Request) -> Verdict {
        let name = request.object["metadata"]["name"].as_str().unwrap_or_default();
        let Some(target) = target(&request.object).filter(|_| !name.is_empty()) else {
            return Verdict::AS_IT_IS;
        };
        match timeout(ANSWER_WITHIN, self.send_back(request, name, &target)).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(missing)) => Verdict::Unready(missing),
            Err(_) => Verdict::Unready("the PersistentPodState of the pod was not read in time"),
        }
    }

    async fn send_back(
        &self,
        request: &Request,
        pod: &str,
        target: &TargetName,
    ) -> Result<Verdict, &'static str> {
        let Some(state) = self.of_set(&request.namespace, target).await? else {
            return Ok(Verdict::AS_IT_IS);
        };
        let Ok(rules) = Rules::of(&state.spec) else { return Ok(Verdict::AS_IT_IS) };
        let record = state.status.as_ref().and_then(|status| status.pod_states.get(pod));
        // It is made for the first time.
        let Some(record) = record else { return Ok(Verdict::AS_IT_IS) };
        let required = rules.required(record);
        let is_there = required.is_empty() || self.is_there(&required).await?;
        let mut object = request.object.clone();
        let changed = inject(&mut object, &state.name_any(), &rules, record, is_there);
        Ok(Verdict::Allowed { object: changed.then_some(object), warnings: Vec::new() })
    }

    /// The state of a StatefulSet, the first by name, as it is at this moment.
    async fn of_set(
        &self,
        namespace: &str,
        target: &TargetName,
    ) -> Result<Option<PersistentPodState>, &'static str> {
        let is_of = |rules: &Rules| rules.target() == target;
        let api: Api<Sent<PersistentPodState>> = Api::namespaced(self.client.clone(), namespace);
        let known = {
            let view = self.states.borrow();
            let states = view.listed().ok_or("PersistentPodStates are not listed yet")?;
            let prefix = format!("{namespace}/");
            let of_space = states.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
            let mut own = of_space.filter(|(_, kept)| kept.rules.as_ref().is_ok_and(is_of));
            own.next().map(|(_, kept)| kept.name.clone())
        };
        let lives = |one: &PersistentPodState| {
            one.metadata.deletion_timestamp.is_none() && Rules::of(&one.spec).is_ok_and(|rules| is_of(&rules))
        };
        let name = match known {
            Some(name) => Some(name),
            // The API server asks because one is for it: the watch may be behind.
            None => {
                let all = self.lists.of(namespace, list(self.client.clone(), namespace.to_owned())).await?;
                let found = all.iter().find(|kept| kept.rules.as_ref().is_ok_and(is_of));
                found.map(|kept| kept.name.clone())
            }
        };
        let Some(name) = name else { return Ok(None) };
        let state = reads::read(&api, &name).await.map_err(|error| {
            debug!(error, "PersistentPodState not read");
            "the PersistentPodState could not be read"
        })?;
        Ok(state.filter(lives))
    }

    /// Tells whether any node has these labels.
    async fn is_there(&self, labels: &Labels) -> Result<bool, &'static str> {
        let Some(selector) = selector(labels) else { return Ok(false) };
        let nodes: Api<Node> = Api::all(self.client.clone());
        let found = nodes.list_metadata(&ListParams::default().labels(&selector).limit(1)).await;
        found.map(|found| !found.items.is_empty()).map_err(|error| {
            debug!(error = chain(&error), "Nodes not read for a pod that is made anew");
            "the nodes could not be read"
        })
    }
}

async fn list(client: Client, namespace: String) -> Result<Vec<StateKept>, &'static str> {
    let api: Api<Watched<wire::PodStates>> = Api::namespaced(client, &namespace);
    reads::list(&api, read).await.map_err(|_| "PersistentPodStates could not be read")
}

/// Selector of nodes with these labels; `None`: no node has such labels.
fn selector(labels: &Labels) -> Option<String> {
    let plain = |text: &str, more: &[u8]| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) || more.contains(&byte))
    };
    let one = |(key, value): (&String, &String)| {
        let is_one = !key.is_empty() && plain(key, b"/") && plain(value, b"") && value.len() <= LONGEST_VALUE;
        is_one.then(|| format!("{key}={value}"))
    };
    Some(labels.iter().map(one).collect::<Option<Vec<_>>>()?.join(","))
}

/// The StatefulSet of a pod.
fn target(pod: &Value) -> Option<TargetName> {
    let owners = pod.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let part = |key: &str| owner[key].as_str().unwrap_or_default();
    TargetName::of(part("apiVersion"), part("kind"), part("name"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::labels(&[("topology.kubernetes.io/zone", "z-1"), ("rack", "")], Some("rack=,topology.kubernetes.io/zone=z-1"))]
    #[case::a_comma(&[("zone", "a,b=c")], None)]
    #[case::a_set(&[("zone in (a)", "")], None)]
    #[case::no_key(&[("", "a")], None)]
    fn selectors_of_labels(#[case] labels: &[(&str, &str)], #[case] expected: Option<&str>) {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(selector(&labels).as_deref(), expected);
    }

    #[rstest]
    #[case::native("apps/v1", "StatefulSet", true, Some(false))]
    #[case::advanced("apps.kruise.io/v1beta1", "StatefulSet", true, Some(true))]
    #[case::another_kind("apps/v1", "ReplicaSet", true, None)]
    #[case::no_controller("apps/v1", "StatefulSet", false, None)]
    fn targets(
        #[case] group: &str,
        #[case] kind: &str,
        #[case] controller: bool,
        #[case] advanced: Option<bool>,
    ) {
        let owner = json!({ "apiVersion": group, "kind": kind, "name": "web", "controller": controller });
        let pod = json!({ "metadata": { "ownerReferences": [owner] } });
        assert_eq!(target(&pod).map(|target| target.advanced), advanced);
    }
}
