//! Writes of a plan to ControllerRevisions, one after the other. The first failure ends it, and the next plan
//! begins from what is there then.

use std::sync::Arc;

use berth_sidecarset::{FiledRevision, FiledSet, Refile};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Api, api::Patch};
use serde_json::Value;

use super::view::CopyView;
use crate::write::{CHANGED_BY_CLUSTER, Failure, Writer, params};

/// Report of a plan.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) uid: String,
    pub(super) made: Vec<CopyView>,
    /// UIDs of ControllerRevisions.
    pub(super) gone: Vec<String>,
    pub(super) end: End,
}

/// End of a plan.
#[derive(Debug)]
pub(super) enum End {
    Done,
    /// Somebody else has written in between.
    Changed,
    /// There is no such namespace.
    NoNamespace,
    /// The name of a revision is another one's.
    Taken(String),
    Failed(String),
}

/// Plan that is carried out.
struct Work {
    writer: Writer,
    namespace: String,
    api: Api<ControllerRevision>,
    report: Report,
}

/// Writes what was decided.
pub(super) async fn carry_out(
    writer: Writer,
    namespace: String,
    set: Arc<FiledSet>,
    writes: Vec<Refile>,
) -> Report {
    let report = Report { uid: set.uid.clone(), made: Vec::new(), gone: Vec::new(), end: End::Done };
    let api = Api::namespaced(writer.client.clone(), &namespace);
    let mut work = Work { writer, namespace, api, report };
    for write in writes {
        let written = match write {
            Refile::Make(object) => work.make(&object).await,
            Refile::Change(one, patch) => work.change(&one, patch).await,
            Refile::Delete(one) => work.delete(one).await,
        };
        if let Err(end) = written {
            work.report.end = end;
            break;
        }
    }
    work.report
}

impl Work {
    async fn make(&mut self, object: &Value) -> Result<(), End> {
        match self.writer.create_revision(&self.namespace, object).await {
            Ok(made) => {
                self.report.made.extend(FiledRevision::of(&made).map(CopyView));
                Ok(())
            }
            Err(Failure::Gone) => Err(End::NoNamespace),
            Err(Failure::Taken) => {
                self.take_in(object["metadata"]["name"].as_str().unwrap_or_default()).await
            }
            Err(failure) => Err(End::Failed(failure.text())),
        }
    }

    /// Takes in one that is there by the name of one that was to be made, if it is the set's.
    async fn take_in(&mut self, name: &str) -> Result<(), End> {
        let there = self.writer.fetch("read", self.api.get_opt(name)).await;
        let there = there.map_err(|failure| End::Failed(failure.text()))?.ok_or(End::Changed)?;
        match FiledRevision::of(&there) {
            // The watch has not shown it yet, so the next plan may ask for it again: after a pause.
            Some(one) if one.owner == self.report.uid => {
                self.report.made.push(CopyView(one));
                self.report.end = End::Changed;
                Ok(())
            }
            // That of a set of this name that was deleted: it is collected in a moment.
            Some(_) => Err(End::Changed),
            None => Err(End::Taken(name.to_owned())),
        }
    }

    async fn change(&mut self, one: &FiledRevision, mut patch: Value) -> Result<(), End> {
        patch["metadata"]["uid"] = one.uid.as_str().into();
        patch["metadata"]["resourceVersion"] = one.version.as_str().into();
        let (params, body) = (params::patch(), Patch::Merge(&patch));
        let written = self.writer.ask("patch", self.api.patch(&one.name, &params, &body)).await;
        let written = FiledRevision::of(&written.map_err(end)?);
        let is_so = written.as_ref().is_some_and(|one| one.has(&patch));
        self.report.made.extend(written.map(CopyView));
        // The next plan would write the same, and so on.
        if is_so { Ok(()) } else { Err(end(Failure::Refused(CHANGED_BY_CLUSTER.to_owned()))) }
    }

    async fn delete(&mut self, one: FiledRevision) -> Result<(), End> {
        match self.writer.ask("delete", self.api.delete(&one.name, &params::delete(&one.uid))).await {
            Ok(_) | Err(Failure::Gone) => {
                self.report.gone.push(one.uid);
                Ok(())
            }
            Err(failure) => Err(end(failure)),
        }
    }
}

/// End by a write that failed.
fn end(failure: Failure) -> End {
    match failure {
        Failure::Changed | Failure::Gone => End::Changed,
        failure => End::Failed(failure.text()),
    }
}
