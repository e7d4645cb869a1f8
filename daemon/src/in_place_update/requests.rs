//! The ContainerUpdateRequests that are assigned to this node: followed, answered, and deleted when their time is over.
//!
//! Each is read in two parts: a spec that cannot be read still has a status, in which that can be said. One server-side
//! apply for each change of the status, for the version it was made from.

use std::{
    collections::HashMap,
    future::ready,
    sync::{Mutex, MutexGuard, PoisonError},
};

use berth_policy::{
    RequestId, StepOutcome,
    in_place_update::{UpdateReport, UpdateSource},
};
use berth_proto::crd::{ContainerUpdateRequest, ContainerUpdateRequestSpec, ContainerUpdateRequestStatus};
use futures::FutureExt;
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DeleteParams, Patch, PatchParams, Preconditions},
    core::DynamicObject,
    runtime::watcher,
};
use serde_json::json;
use tracing::{info, warn};

use super::{
    asked::{self, Named},
    desk::{Desk, Entry},
    report,
};
use crate::{
    causes::chain,
    cluster::{
        FIELD_MANAGER,
        client::{CallError, Connection},
        clock::Clock,
        follow::{Shown, Watch, follow},
    },
};

/// The side of the requests towards the API server.
#[derive(Debug)]
pub(super) struct Requests {
    connection: Connection,
    node: String,
    /// Where each was seen last, and what it said.
    targets: Mutex<HashMap<RequestId, Target>>,
}

/// What has to be known of an object to write to it.
#[derive(Clone, Debug)]
struct Target {
    namespace: String,
    name: String,
    version: String,
    status: ContainerUpdateRequestStatus,
}

/// An object of the kind.
struct Object {
    id: RequestId,
    created: Timestamp,
    deleting: bool,
    target: Target,
    spec: Result<ContainerUpdateRequestSpec, String>,
}

impl Requests {
    /// Of the node of this name.
    pub(super) fn new(connection: Connection, node: String) -> Self {
        Self { connection, node, targets: Mutex::default() }
    }

    /// Puts on the desk what is asked for; for ever.
    pub(super) async fn follow(&self, desk: &Desk) {
        let watch = Watch {
            what: "ContainerUpdateRequests",
            single: false,
            selected: watcher::Config::default().fields(&format!("status.nodeName={}", self.node)),
        };
        let mut clock = Clock::read();
        let each = |shown| {
            clock = clock.kept(Clock::read());
            match shown {
                Shown::Listed(objects) => {
                    let objects: Vec<Object> = objects.into_iter().filter_map(Object::read).collect();
                    let targets = objects.iter().map(|object| (object.id.clone(), object.target.clone()));
                    *self.targets() = targets.collect();
                    let there = objects.iter().filter(|object| !object.deleting);
                    desk.listed(UpdateSource::Api, there.map(|object| object.entry(&clock)).collect());
                }
                Shown::Applied(object) => {
                    if let Some(object) = Object::read(object) {
                        self.see(&object, desk, &clock);
                    }
                }
                Shown::Deleted(object) => {
                    if let Some(object) = Object::read(object) {
                        self.targets().remove(&object.id);
                        desk.gone(&object.id);
                    }
                }
                // What was shown stays; before anything was, there is nothing.
                Shown::Refused if desk.has_heard(&[UpdateSource::Api]) => {}
                Shown::Refused | Shown::NotInstalled => {
                    self.targets().clear();
                    desk.listed(UpdateSource::Api, Vec::new());
                }
            }
        };
        let api = |client| Api::<DynamicObject>::all_with(client, &kind());
        follow(&self.connection, &watch, api, |_| ready(Ok(true)).boxed(), each).await;
    }

    /// Writes what the status of a request is to say, unless it says so.
    pub(super) async fn report(&self, id: &RequestId, report: &UpdateReport, desk: &Desk) -> StepOutcome {
        let Some(target) = self.targets().get(id).cloned() else { return StepOutcome::Gone };
        let status = report::status(report, &target.status, Timestamp::now());
        if status == report::own(&target.status) {
            return StepOutcome::Done;
        }
        let patch = Patch::Apply(json!({
            "apiVersion": ContainerUpdateRequest::api_version(&()),
            "kind": ContainerUpdateRequest::kind(&()),
            "metadata": {
                "namespace": target.namespace,
                "name": target.name,
                "uid": id.as_str(),
                "resourceVersion": target.version,
            },
            "status": status,
        }));
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let name = target.name.clone();
        let write = async move |api: Api<DynamicObject>| api.patch_status(&name, &params, &patch).await;
        let written = self.ask(&target, write).await;
        match written {
            Ok(object) => {
                if let Some(object) = Object::read(object) {
                    self.see(&object, desk, &Clock::read());
                }
                StepOutcome::Done
            }
            Err(error) if error.is_gone() => StepOutcome::Gone,
            Err(error) if error.is_conflict() => self.look_again(id, &target, desk).await,
            Err(error) => failed(&target, &error, "Request not reported"),
        }
    }

    /// Deletes a request that ended long enough ago.
    pub(super) async fn delete(&self, id: &RequestId) -> StepOutcome {
        let Some(target) = self.targets().get(id).cloned() else { return StepOutcome::Gone };
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(id.as_str().to_owned()),
                ..Preconditions::default()
            }),
            ..DeleteParams::default()
        };
        let name = target.name.clone();
        let delete = async move |api: Api<DynamicObject>| api.delete(&name, &params).await;
        match self.ask(&target, delete).await {
            Ok(_) => {
                info!(
                    namespace = target.namespace,
                    name = target.name,
                    "Request deleted, it ended long enough ago"
                );
                StepOutcome::Done
            }
            // Another request has the name now.
            Err(error) if error.is_gone() || error.is_conflict() => StepOutcome::Gone,
            Err(error) => failed(&target, &error, "Request not deleted"),
        }
    }

    /// Somebody else wrote: what does it look like now? The report is made from that.
    async fn look_again(&self, id: &RequestId, target: &Target, desk: &Desk) -> StepOutcome {
        let name = target.name.clone();
        match self.ask(target, async move |api: Api<DynamicObject>| api.get_opt(&name).await).await {
            Ok(object) => match object.and_then(Object::read).filter(|object| object.id == *id) {
                Some(object) => {
                    self.see(&object, desk, &Clock::read());
                    StepOutcome::Failed
                }
                None => StepOutcome::Gone,
            },
            Err(error) => failed(target, &error, "Request not read"),
        }
    }

    fn see(&self, object: &Object, desk: &Desk, clock: &Clock) {
        let mut targets = self.targets();
        let newer = |known: &Target| number(&known.version) > number(&object.target.version);
        if targets.get(&object.id).is_some_and(newer) {
            return;
        }
        targets.insert(object.id.clone(), object.target.clone());
        drop(targets);
        if object.deleting {
            // Nothing new is begun for it any more.
            desk.gone(&object.id);
        } else {
            desk.seen(object.entry(clock));
        }
    }

    async fn ask<T, F>(
        &self,
        target: &Target,
        question: impl FnOnce(Api<DynamicObject>) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let namespace = target.namespace.clone();
        let ask = |client: Client| question(Api::namespaced_with(client, &namespace, &kind()));
        self.connection.ask(ask).await
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<RequestId, Target>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kind, for objects that are read in two parts.
fn kind() -> ApiResource {
    ApiResource::erase::<ContainerUpdateRequest>(&())
}

fn failed(target: &Target, error: &CallError, what: &'static str) -> StepOutcome {
    warn!(namespace = target.namespace, name = target.name, error = %chain(error), "{what}");
    StepOutcome::Failed
}

/// Versions of one object are numbers that grow.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

impl Object {
    /// `None` for an object without name, UID or time of creation, which the API never shows.
    fn read(object: DynamicObject) -> Option<Self> {
        let DynamicObject { metadata, mut data, .. } = object;
        Some(Self {
            id: metadata.uid?.into(),
            created: metadata.creation_timestamp?.0,
            deleting: metadata.deletion_timestamp.is_some(),
            target: Target {
                namespace: metadata.namespace.unwrap_or_default(),
                name: metadata.name?,
                version: metadata.resource_version.unwrap_or_default(),
                // A status that cannot be read was not written by this agent; it is written anew.
                status: serde_json::from_value(data["status"].take()).unwrap_or_default(),
            },
            spec: serde_json::from_value(data["spec"].take()).map_err(|error| error.to_string()),
        })
    }

    fn entry(&self, clock: &Clock) -> Entry {
        let named = Named {
            id: self.id.clone(),
            source: UpdateSource::Api,
            namespace: &self.target.namespace,
            name: &self.target.name,
            created: clock.instant(self.created),
        };
        let (request, sound) = asked::request(named, self.spec.as_ref(), &self.target.status, clock);
        let flaw = sound.err().map(|flaw| flaw.to_string());
        Entry { request, flaw, version: number(&self.target.version) }
    }
}
