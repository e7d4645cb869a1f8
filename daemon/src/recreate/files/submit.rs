//! A request that comes over the admin socket: kept as a file, so that an agent that is killed loses none.

use std::{io, path::PathBuf};

use berth_proto::crd::{ContainerRecreateRequest, Invalid};
use jiff::Timestamp;
use tracing::info;

use super::{
    Files, Unassigned,
    entry::Entry,
    record::{Accepted, Record},
};
use crate::{
    files::{FileError, Submitted, kept_whole, new_name, store},
    recreate::codec,
};

/// Why a request was not taken. Nothing of it stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubmitError {
    /// Its values cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It is about nothing.
    #[error(transparent)]
    Unassigned(#[from] Unassigned),
    /// Requests of before are not known yet: the policy must not take the new one for all there is.
    #[error("berthd has not read the requests it has yet; its log says why")]
    Early,
    /// It could not be kept.
    #[error("the request cannot be kept")]
    Kept(#[from] FileError),
    /// No name could be made.
    #[error("no name for the request")]
    Name(#[source] io::Error),
}

impl Files {
    /// Takes a request for a pod given as `name` or `namespace/name`; `metadata` is filled in here. On return
    /// it survives the agent.
    pub(crate) async fn submit(
        &self,
        pod: &str,
        mut request: ContainerRecreateRequest,
    ) -> Result<Submitted, SubmitError> {
        request.spec.pod_name = pod.rsplit('/').next().unwrap_or_default().to_owned();
        codec::authored(&request)?;
        if !self.is_listed() {
            return Err(SubmitError::Early);
        }
        let (assigned, contexts) = self.assign(pod, &request.spec).await?;
        let name = new_name(&assigned.pod.name).map_err(SubmitError::Name)?;
        request.metadata.name = Some(name.clone());
        request.metadata.namespace = Some(assigned.pod.namespace.clone());

        let now = Timestamp::now();
        let mut record = Record::new(now);
        record.accept(Accepted::of(&request, &name), &assigned, contexts, now);
        let path = self.0.submitted.join(format!("{name}.yaml"));
        let key = format!("{}/{name}", assigned.pod.namespace);
        let files = self.clone();
        let keep = {
            let path = path.clone();
            async move { files.keep(&key, path, &request, record).await }
        };
        kept_whole(path, keep).await?;
        Ok(Submitted { namespace: assigned.pod.namespace, name })
    }
    /// Keeps an assigned request, and tells the policy of it.
    async fn keep(
        &self,
        key: &str,
        path: PathBuf,
        request: &ContainerRecreateRequest,
        record: Record,
    ) -> Result<(), FileError> {
        store::make(&self.0.submitted, 0o755).await?;
        let failed = |error| FileError::Write { path: path.clone(), source: io::Error::other(error) };
        let text = serde_saphyr::to_string(request).map_err(failed)?;

        // Known first, so that whoever looks at the directory meanwhile does not take it for a file of
        // somebody else.
        let entry = self.0.entries.insert(Entry::new(path.clone(), Record::new(Timestamp::now()), None));
        let mut state = entry.state.lock().await;
        // The assignment first: a status without a request means nothing, a request without one would be
        // assigned anew.
        let mut kept = entry.save(&mut state, record).await;
        if kept.is_ok() {
            kept = store::write(&path, text).await;
        }
        if let Err(error) = kept {
            state.gone = true;
            self.0.entries.remove(&path);
            // What is left of it is no request, and is removed by the next look.
            let _ = entry.remove(true).await;
            return Err(error);
        }
        // A name with a random part is nobody else's.
        let _ = self.0.entries.claim(key, &path);
        info!(request = key, file = ?path, "Request taken");
        self.give(&entry, &mut state).await
    }
}
