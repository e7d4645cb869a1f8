//! One plan for the PersistentPodState of a StatefulSet, carried out.

use berth_pod_state::annotations::{Action, Target, plan};
use berth_proto::crd::PersistentPodState;
use berth_workloads_policy::action::Note;
use kube::{Api, api::Patch};
use serde_json::json;

use super::view::SetView;
use crate::write::{Failure, Writer, params};

/// Reason of Events.
const REASON: &str = "PersistentPodStateNotGenerated";

/// Report of a plan.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) uid: String,
    /// Whether all that was to be done is done; else it is decided anew after a pause.
    pub(super) done: bool,
}

/// One plan that is carried out.
pub(super) struct Work {
    pub(super) writer: Writer,
    pub(super) set: SetView,
    /// Object that has the name of the StatefulSet.
    pub(super) there: Option<Box<PersistentPodState>>,
}

impl Work {
    /// Decides on the object, and writes what follows.
    pub(super) async fn carry_out(self) -> Report {
        self.writer.metrics.passed();
        let uid = self.set.uid.clone();
        let action = match plan(&self.set.decided(), self.there.as_deref()) {
            Ok(Some(action)) => action,
            Ok(None) => return Report { uid, done: true },
            // Said once for each change of it; it is nothing that a second try mends.
            Err(fault) => {
                self.tell(fault.to_string());
                return Report { uid, done: true };
            }
        };
        let done = match self.write(action).await {
            Ok(()) => true,
            Err(Failure::Refused(text)) => {
                self.tell(text);
                false
            }
            Err(_) => false,
        };
        Report { uid, done }
    }

    async fn write(&self, action: Action) -> Result<(), Failure> {
        let api: Api<PersistentPodState> = Api::namespaced(self.writer.client.clone(), &self.set.namespace);
        match action {
            Action::Create(value) => {
                let object: PersistentPodState = serde_json::from_value(value)
                    .map_err(|error| Failure::Refused(format!("the object makes no sense: {error}")))?;
                match self.writer.ask("create", api.create(&params::post(), &object)).await {
                    Ok(_) => {}
                    // One that is not seen yet: it is decided on when it is.
                    Err(Failure::Taken) => {}
                    Err(failure) => return Err(failure),
                }
            }
            Action::Update(Target { name, uid, version }, spec) => {
                let patch = json!({ "metadata": { "uid": uid, "resourceVersion": version }, "spec": spec });
                let (params, patch) = (params::patch(), Patch::Merge(&patch));
                match self.writer.ask("update", api.patch(&name, &params, &patch)).await {
                    // Its newest version is decided on when it is seen.
                    Ok(_) | Err(Failure::Gone | Failure::Changed) => {}
                    Err(failure) => return Err(failure),
                }
            }
            Action::Delete(Target { name, uid, .. }) => {
                match self.writer.ask("delete", api.delete(&name, &params::delete(&uid))).await {
                    Ok(_) | Err(Failure::Gone | Failure::Changed) => {}
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(())
    }

    fn tell(&self, text: String) {
        self.writer.events.about(self.set.reference(), Note { warning: true, reason: REASON, text });
    }
}
