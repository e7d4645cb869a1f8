//! The requests that are files, for people.

use std::path::PathBuf;

use berth_proto::crd::ContainerRecreateRequestStatus;
use jiff::Timestamp;

use super::{Files, record::Accepted, status};

/// A request that is a file, or a file that should be one.
#[derive(Clone, Debug)]
pub(crate) struct FileRequest {
    /// Where it is.
    pub path: PathBuf,
    /// It came over the admin socket.
    pub submitted: bool,
    /// Empty when the file cannot be read.
    pub namespace: String,
    /// Its own name, or that of its file.
    pub name: String,
    /// Name of the pod; empty when the file cannot be read.
    pub pod: String,
    /// The containers, as they are listed.
    pub containers: Vec<String>,
    /// When it was first seen.
    pub created: Timestamp,
    /// Content of its status file.
    pub status: ContainerRecreateRequestStatus,
    /// Why the file as it is now is not followed.
    pub objection: Option<String>,
    /// How it ended: done or not, and a word for it.
    pub outcome: Option<(bool, String)>,
}

impl Files {
    /// All of them, the oldest first.
    pub(crate) async fn list(&self) -> Vec<FileRequest> {
        let mut requests = Vec::new();
        for entry in self.0.known.all() {
            let state = entry.state.lock().await;
            if state.gone {
                continue;
            }
            let record = &state.record;
            let said = record
                .accepted
                .clone()
                .or_else(|| state.wanted.as_ref().map(|wanted| Accepted::of(wanted, entry.stem())));
            let (namespace, name, spec) = match said {
                Some(Accepted { namespace, name, spec }) => (namespace, name, spec),
                None => (String::new(), entry.stem().to_owned(), Default::default()),
            };
            let objection = status::objected(&record.status).map(|condition| condition.message.clone());
            let outcome = status::outcome(&record.status)
                .map(|(outcome, reason)| (outcome == berth_policy::Outcome::Complete, reason.to_owned()));
            requests.push(FileRequest {
                submitted: entry.path.starts_with(&self.0.submitted),
                path: entry.path.clone(),
                namespace,
                name,
                pod: spec.pod_name,
                containers: spec.containers.into_iter().map(|container| container.name).collect(),
                created: record.created,
                status: record.status.clone(),
                objection: objection.or_else(|| state.damaged.clone()).or_else(|| state.trouble.clone()),
                outcome,
            });
        }
        requests.sort_by(|a, b| (a.created, &a.path).cmp(&(b.created, &b.path)));
        requests
    }
}
