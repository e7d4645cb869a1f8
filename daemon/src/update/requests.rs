//! The ContainerUpdateRequests that are assigned to this node: followed, answered, and deleted when their
//! time is over.
//!
//! Each is read in two parts: a spec that cannot be read still has a status, in which that can be said. One
//! server-side apply for each change of the status, for the version it was made from.

use std::future::ready;

use berth_policy::{
    RequestId, StepOutcome,
    in_place_update::{Failure, UpdateReport, UpdateRequest, UpdateSource},
};
use berth_proto::crd::{ContainerUpdateRequest, ContainerUpdateRequestSpec, ContainerUpdateRequestStatus};
use futures::FutureExt;
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api,
    api::{ApiResource, Patch, PatchParams},
    runtime::watcher,
};
use tracing::{info, warn};

use super::{
    convert::{self, Flaw, Named},
    report,
    shared::{SharedUpdates, StoredRequest},
};
use crate::{
    base::{causes::chain, clock::Clock},
    cluster::{
        FIELD_MANAGER,
        client::{CallError, Connection},
        follow::{Shown, Watch, follow},
        object,
        raw::{self, Raw},
        request_cache::RequestCache,
        target,
    },
};

/// The side of the requests towards the API server.
#[derive(Debug)]
pub(super) struct Requests {
    connection: Connection,
    node: String,
    known: RequestCache<ContainerUpdateRequestStatus>,
}

/// An object of the kind, and what has to be known of it to write to it.
type Object = object::Object<ContainerUpdateRequestSpec, ContainerUpdateRequestStatus>;
type Target = target::Target<ContainerUpdateRequestStatus>;

impl Requests {
    /// Makes the source of the requests of the node of this name.
    pub(super) fn new(connection: Connection, node: String) -> Self {
        Self { connection, node, known: RequestCache::default() }
    }

    /// Tells the updates what is asked for; for ever.
    pub(super) async fn follow(&self, updates: &SharedUpdates) {
        let watch = Watch {
            what: "ContainerUpdateRequests",
            single: false,
            insists: false,
            selected: watcher::Config::default().fields(&format!("status.nodeName={}", self.node)),
        };
        let mut clock = Clock::read();
        let each = |shown| {
            clock = clock.kept(Clock::read());
            match shown {
                Shown::Listed(objects) => {
                    let objects: Vec<Object> = objects.into_iter().filter_map(Object::read).collect();
                    self.known.replace(&objects);
                    let there = objects.iter().filter(|object| !object.deleting);
                    updates.listed(UpdateSource::Api, there.map(|object| entry(object, &clock)).collect());
                }
                Shown::Applied(object) => {
                    if let Some(object) = Object::read(object) {
                        self.apply(&object, updates, &clock);
                    }
                }
                Shown::Deleted(object) => {
                    if let Some(object) = Object::read(object) {
                        self.known.remove(&object.id);
                        updates.gone(&object.id);
                    }
                }
                // What was shown stays; before anything was, there is nothing.
                Shown::Lost(_) => {}
                Shown::Refused(_) if updates.has_heard(&[UpdateSource::Api]) => {}
                Shown::Refused(_) | Shown::NotInstalled(_) => {
                    self.known.clear();
                    updates.listed(UpdateSource::Api, Vec::new());
                }
            }
        };
        let api = raw::all::<ContainerUpdateRequest>;
        follow(&self.connection, &watch, api, Ok, |_| ready(Ok(true)).boxed(), each).await;
    }

    /// Writes what the status of a request is to say, unless it says so.
    pub(super) async fn report(
        &self,
        id: &RequestId,
        report: &UpdateReport,
        updates: &SharedUpdates,
    ) -> StepOutcome {
        let Some(target) = self.known.target(id) else { return StepOutcome::Gone };
        let status = report::status(report, &target.status, Timestamp::now());
        if status == report::own(&target.status) {
            return StepOutcome::Done;
        }
        let patch = Patch::Apply(target.with_status::<ContainerUpdateRequest>(id, &status));
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let name = target.name.clone();
        let write = async move |api: Api<Raw>| api.patch_status(&name, &params, &patch).await;
        match target.ask(&self.connection, &kind(), write).await {
            Ok(object) => {
                if let Some(object) = Object::read(object) {
                    self.apply(&object, updates, &Clock::read());
                }
                StepOutcome::Done
            }
            Err(error) if error.is_gone() => StepOutcome::Gone,
            Err(error) if error.is_conflict() => self.look_again(id, &target, updates).await,
            Err(error) => failed(&target, &error, "Request not reported"),
        }
    }

    /// Deletes a request that ended long enough ago.
    pub(super) async fn delete(&self, id: &RequestId) -> StepOutcome {
        let Some(target) = self.known.target(id) else { return StepOutcome::Gone };
        match target.delete(&self.connection, &kind(), id).await {
            Ok(()) => {
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

    /// Looks at it again, as somebody else wrote. The report is made from that.
    async fn look_again(&self, id: &RequestId, target: &Target, updates: &SharedUpdates) -> StepOutcome {
        let name = target.name.clone();
        let look = async move |api: Api<Raw>| api.get_opt(&name).await;
        match target.ask(&self.connection, &kind(), look).await {
            Ok(object) => match object.and_then(Object::read).filter(|object| object.id == *id) {
                Some(object) => {
                    self.apply(&object, updates, &Clock::read());
                    StepOutcome::Failed
                }
                None => StepOutcome::Gone,
            },
            Err(error) => failed(target, &error, "Request not read"),
        }
    }

    fn apply(&self, object: &Object, updates: &SharedUpdates, clock: &Clock) {
        if !self.known.put(object) {
            return;
        }
        if object.deleting {
            // Nothing new is begun for it any more.
            updates.gone(&object.id);
        } else {
            updates.seen(entry(object, clock));
        }
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

/// Converts an object to the request it makes.
pub(super) fn asked_by(object: &Object, clock: &Clock) -> (UpdateRequest, Result<(), Flaw>) {
    let named = Named {
        id: object.id.clone(),
        source: UpdateSource::Api,
        namespace: &object.target.namespace,
        name: &object.target.name,
        created: clock.instant(object.created),
    };
    convert::request(named, object.spec.as_ref(), &object.target.status, clock)
}

fn entry(object: &Object, clock: &Clock) -> StoredRequest {
    let (request, sound) = asked_by(object, clock);
    StoredRequest {
        request,
        flaw: sound.err().map(Failure::from),
        version: object.target.number().unwrap_or(0),
    }
}
