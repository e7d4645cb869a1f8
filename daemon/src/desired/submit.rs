//! A request that comes over the admin socket: kept as a file, so that an agent that is killed loses none.

use std::{io, io::Read};

use berth_proto::crd::ContainerRecreateRequest;
use jiff::Timestamp;
use tracing::info;

use super::{
    FileError, Files, Unassigned, blocking, directory,
    entry::Entry,
    record::{Accepted, Record},
    rules::{self, Invalid},
};

/// Letters and digits that make no words; those of the API server's generated names.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// So that the name of the file, with all that is appended to it, is one.
const LONGEST_STEM: usize = 200;

/// The name that a request got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// That of its pod.
    pub namespace: String,
    /// The pod's, and something random.
    pub name: String,
}

/// Why a request was not taken. Nothing of it stays.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Its values cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It is about nothing.
    #[error(transparent)]
    Unassigned(#[from] Unassigned),
    /// What there was before is not known yet: the policy must not take the new one for all there is.
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
    pub async fn submit(
        &self,
        pod: &str,
        mut request: ContainerRecreateRequest,
    ) -> Result<Submitted, SubmitError> {
        request.spec.pod_name = pod.rsplit('/').next().unwrap_or_default().to_owned();
        rules::check(&request)?;
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
        self.give(&entry, &state);
        Ok(Submitted { namespace: assigned.pod.namespace, name })
    }
}

/// The name of a new request: its pod's, and something random.
pub(crate) fn new_name(pod: &str) -> io::Result<String> {
    let stem: String = pod.chars().take(LONGEST_STEM).collect();
    Ok(format!("{stem}-{}", random()?))
}

/// Five letters, as `generateName` has them.
fn random() -> io::Result<String> {
    let mut bytes = [0_u8; 5];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()])).iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_names_are_names() {
        let [one, two] = [random().unwrap(), random().unwrap()];
        assert!(one.len() == 5 && one.bytes().all(|byte| LETTERS.contains(&byte)), "{one}");
        assert_ne!(one, two, "27^5 to 1");
    }
}
