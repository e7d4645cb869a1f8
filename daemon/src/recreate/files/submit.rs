//! A request that comes over the admin socket: kept as a file, so that an agent that is killed loses none.

use std::io;

use berth_proto::crd::{ContainerRecreateRequest, Invalid};
use jiff::Timestamp;
use tracing::info;

use super::{
    Files, Unassigned,
    entry::Entry,
    record::{Accepted, Record},
};
use crate::{
    files::{FileError, Submitted, blocking, directory, new_name},
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
    /// Takes a request for a pod given as `name` or `namespace/name`; `metadata` is filled in here. On return it survives
    /// the agent.
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

        let directory = self.0.submitted.clone();
        let path = directory.join(format!("{name}.yaml"));
        let failed = |source| FileError::Write { path: path.clone(), source };
        blocking(move || std::fs::create_dir_all(directory)).await.map_err(failed)?;
        let now = Timestamp::now();
        let mut record = Record::new(now);
        record.accept(Accepted::of(&request, &name), &assigned, contexts, now);
        let text = serde_saphyr::to_string(&request).map_err(|error| failed(io::Error::other(error)))?;

        // Known first, so that whoever looks at the directory meanwhile does not take it for a file of somebody else.
        let entry = self.0.known.insert(Entry::new(path.clone(), Record::new(now), None));
        let mut state = entry.state.lock().await;
        // The assignment first: a status without a request means nothing, a request without one would be assigned anew.
        let mut kept = entry.save(&mut state, record).await;
        if kept.is_ok() {
            let to = path.clone();
            kept = blocking(move || directory::write(&to, &text)).await.map_err(failed);
        }
        if let Err(error) = kept {
            state.gone = true;
            self.0.known.remove(&path);
            // What is left of it is no request, and is removed by the next look.
            let _ = entry.remove(true).await;
            return Err(error.into());
        }
        let key = format!("{}/{name}", assigned.pod.namespace);
        // A name with a random part is nobody else's.
        let _ = self.0.known.claim(&key, &path);
        info!(request = key, file = ?path, "Request taken");
        self.give(&entry, &mut state).await?;
        Ok(Submitted { namespace: assigned.pod.namespace, name })
    }
}
