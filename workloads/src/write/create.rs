//! New pods and their claims: first one, then twice as many each time until one fails, so that a quota
//! that is used up is not asked for a thousand pods. One that cannot be made keeps none of the others
//! from it.

use berth_base::sent::{Received, Sent};
use berth_workloads_policy::{action::Action, clone_set::ClaimView, pod::PodView};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    Api, Resource,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    CHANGED_BY_CLUSTER, End, Work, Writer, Wrote,
    failure::Failure,
    order::{key, units},
    params,
    run::Outcome,
    typed,
};
use crate::{
    trimmed::TrimmedPod,
    watch::{Claims, Pods, Watched},
};

/// The most pods that are made at once for one set.
const MOST_AT_ONCE: usize = 32;
/// Failures of one plan after which the rest is not asked for: a quota that is used up refuses all.
const MOST_FAILED: usize = 4;
/// Owner of a new pod, in the manifest.
const OWNER: &str = "/metadata/ownerReferences/0/uid";

impl Work {
    /// Makes pods, each after its claims, and claims of pods that are there. Those that fail come last in the
    /// next plan: others are not to wait for them.
    pub(super) async fn create(&mut self, actions: Vec<Action>) -> Outcome {
        let (mut units, mut at_once) = (units(actions).into_iter(), 1);
        let (mut first_failed, mut failures, mut late) = (End::Done, 0_usize, Vec::new());
        loop {
            let batch: Vec<_> = units.by_ref().take(at_once).collect();
            if batch.is_empty() || failures >= MOST_FAILED {
                return Outcome { end: first_failed, failed: late };
            }
            let of = |unit: &Vec<Action>| (key(unit).map(str::to_owned), !makes_pod(unit));
            let keys: Vec<(Option<String>, bool)> = batch.iter().map(of).collect();
            let done =
                join_all(batch.into_iter().map(|unit| make(&self.writer, &self.namespace, unit))).await;
            let (mut end, before) = (End::Done, failures);
            for ((wrote, failure), (key, is_claim)) in done.into_iter().zip(keys) {
                for wrote in wrote {
                    if let Wrote::Pod(pod) = &wrote {
                        self.tell("SuccessfulCreate", format!("succeed to create pod {}", pod.name));
                    }
                    self.wrote.push(wrote);
                }
                if let Some((name, failure)) = failure {
                    let failed = match failure {
                        Failure::Taken if is_claim => self.claim_taken(&name).await,
                        Failure::Taken => self.pod_taken(&name).await,
                        failure => self.failed(failure, "FailedCreate", End::ScaleFailed).await,
                    };
                    if !failed.is_failure() {
                        end = failed;
                        continue;
                    }
                    failures = failures.saturating_add(1);
                    late.extend(key);
                    first_failed = first_failed.or(failed);
                }
            }
            if end != End::Done {
                return Outcome { end, failed: late };
            }
            if self.busy {
                return Outcome { end: first_failed, failed: late };
            }
            at_once = if failures > before { 1 } else { at_once.saturating_mul(2).min(MOST_AT_ONCE) };
        }
    }

    /// A pod of that name is there: the picture is old, or it is somebody else's. It is read by itself: names
    /// of thousands of sets may be taken, and each would list the whole namespace.
    async fn pod_taken(&mut self, name: &str) -> End {
        let api = Api::<TrimmedPod>::namespaced(self.writer.client.clone(), &self.namespace);
        // By a list of one: the workloads have the right to list pods, and not to get one.
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = match self.writer.fetch("read", api.list(&params)).await {
            Ok(found) => found.items.into_iter().next(),
            Err(failure) => return self.failed(failure, "FailedCreate", End::ScaleFailed).await,
        };
        // It has gone since.
        let Some(found) = found else { return End::Changed };
        if let Some(pod) = Pods::view(found).filter(|pod| pod.owner() == self.set.uid()) {
            // There may be others that nobody has shown yet: all is read before the next plan.
            self.wrote.push(Wrote::Pod(pod));
            self.unread = true;
            return End::Changed;
        }
        let text = format!("pod {name} is there, and {} does not own it: delete it", self.set.entry_owner());
        self.warn("FailedCreate", text.clone());
        End::ScaleFailed(text)
    }

    /// A claim of that name is there, and the picture has none: it is old, or the claim is somebody else's,
    /// and never shown as the set's. It would be asked for by each plan, as long as its pod waits for a node.
    async fn claim_taken(&mut self, name: &str) -> End {
        let client = self.writer.client.clone();
        let api = Api::<Sent<PersistentVolumeClaim>>::namespaced(client, &self.namespace);
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = match self.writer.fetch("read", api.list(&params)).await {
            Ok(found) => found.items.into_iter().next(),
            Err(failure) => return self.failed(failure, "FailedCreate", End::ScaleFailed).await,
        };
        // It has gone since.
        let Some(found) = found else { return End::Changed };
        let claim = found.read().ok().and_then(Claims::view);
        if let Some(claim) = claim.filter(|claim| self.set.has_claim(claim)) {
            self.wrote.push(Wrote::Claim(claim));
            return End::Done;
        }
        let set = self.set.entry_owner();
        let text = format!("claim {name} is there, and is none of {set}: take its owner off, or delete it");
        self.warn("FailedCreate", text.clone());
        End::ScaleFailed(text)
    }
}

impl Writer {
    /// Makes an object as it is given: a field that no type knows goes with it.
    pub(crate) async fn create_untyped<K>(&self, namespace: &str, object: Value) -> Result<K, Failure>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let object: DynamicObject = typed(object)?;
        let resource = ApiResource::erase::<K>(&());
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &resource);
        let made = self.ask("create", api.create(&params::post(), &object)).await?;
        made.try_parse().map_err(|error| Failure::Unknown(error.to_string()))
    }
}

/// Makes the claims of a pod, and the pod.
///
/// A failure comes with the name of what could not be made.
async fn make(
    writer: &Writer,
    namespace: &str,
    unit: Vec<Action>,
) -> (Vec<Wrote>, Option<(String, Failure)>) {
    let (mut wrote, mut taken) = (Vec::new(), None);
    let makes_pod = makes_pod(&unit);
    for action in unit {
        let name = name(&action);
        let made = match action {
            Action::CreateClaim(object) => {
                let made = writer.create_untyped::<PersistentVolumeClaim>(namespace, object).await;
                match made {
                    Ok(claim) => Ok(Wrote::Claim(ClaimView::of(&claim))),
                    // Made before: the watch shows it, and the pod has it.
                    Err(Failure::Taken) if makes_pod => continue,
                    // The pod waits for its other claims, too.
                    Err(Failure::Taken) => {
                        taken.get_or_insert((name, Failure::Taken));
                        continue;
                    }
                    Err(failure) => Err(failure),
                }
            }
            Action::CreatePod(object) => {
                let owner = object.pointer(OWNER).and_then(Value::as_str).map(str::to_owned);
                let made = writer.create_untyped::<Pod>(namespace, object).await;
                match made.map(|pod| PodView::of(&pod)) {
                    // It is nobody's, and each plan would make one more.
                    Ok(pod) if owner.as_deref().is_some_and(|owner| owner != pod.owner()) => {
                        Err(Failure::Refused(format!("owner of pod {name}: {CHANGED_BY_CLUSTER}")))
                    }
                    made => made.map(Wrote::Pod),
                }
            }
            _ => continue,
        };
        match made {
            Ok(made) => wrote.push(made),
            Err(failure) => return (wrote, Some((name, failure))),
        }
    }
    (wrote, taken)
}

/// Tells whether a pod is made with these claims, or they are those of one that is there.
fn makes_pod(unit: &[Action]) -> bool {
    unit.iter().any(|action| matches!(action, Action::CreatePod(_)))
}

fn name(action: &Action) -> String {
    let (Action::CreateClaim(object) | Action::CreatePod(object)) = action else { return String::new() };
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
