//! The Secrets of jobs with `pullSecrets`, and the seals made from them.
//!
//! Nobody of Berth may read Secrets. Who wants a job to pull with one gives the manager a Role in the job's
//! namespace that lets it get exactly that name (`deploy/samples/pull-secret.yaml`); nothing else can say
//! that this manager may see this Secret. What is read stays in memory while its job is open, and leaves it
//! only sealed to the node that is to pull. Each node can open what was sealed to it and nothing else.
//! A reader of NodeImages sees which job pulls there, but not with what.
//!
//! No type here that holds credentials has `Debug`, and no error or log line has anything of their content.

mod docker_config;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_base::sent::{Received, Sent};
use berth_proto::{
    image::Reference,
    names::is_dns_subdomain,
    sealing::{Context, RegistryCredential, SealError, SealingKey},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::{sync::mpsc, time::timeout};
use tracing::{info, warn};

use crate::{
    images::Fetch,
    size,
    steps::{self, Queued},
    store::Key,
    telemetry::chain,
};

/// `desiredImages[].sealedCredentials` has room for so many.
const MOST: usize = 16;
/// All credentials of a job together. Sealed they are a third larger, and each node has them in its object.
const MOST_BYTES: usize = 6 << 10;
/// Cause of a Secret that is set aside. The parser's own words may have something of what it holds.
const UNREADABLE: &str = "it cannot be read: it is no Secret, or takes too much memory";
/// A read without an answer has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Credentials that were read, by the UID of the job. A clone opens the same one.
#[derive(Clone, Default)]
pub struct Vault {
    /// A std lock: nothing is awaited under it.
    jobs: Arc<Mutex<HashMap<Arc<str>, Kept>>>,
}

/// Credentials, and the image they were chosen for: they are sealed for no other, whose registry must never
/// see them.
struct Kept {
    image: String,
    credentials: Vec<RegistryCredential>,
}

/// Why nothing was sealed.
#[derive(Debug, thiserror::Error)]
pub enum NotSealed {
    /// The job has ended, or its Secrets have gone.
    #[error("no credentials are kept for job {0}")]
    Gone(String),
    /// The job has another image now.
    #[error("the credentials of job {job} are for another image than {image}")]
    Image {
        /// The job's UID.
        job: String,
        /// Image that was to be pulled.
        image: String,
    },
    /// The node's `sealingKey` is none.
    #[error("the node's sealingKey cannot be used")]
    Key(#[source] SealError),
}

/// Result of reading the Secrets of a job.
pub struct Answer {
    /// Fetch that was asked for.
    pub fetch: Fetch,
    /// Result of the reading; or why nothing is known of a Secret.
    pub result: Result<Found, String>,
}

/// Credentials that were found.
#[derive(Default)]
pub struct Found {
    /// Credentials for the image of the job.
    pub credentials: Vec<RegistryCredential>,
    /// Secrets that are not there, may not be read or have none, with the remedy.
    pub lacks: Option<String>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}

impl Vault {
    /// Keeps what was read, in the place of what was read before.
    pub fn keep(&self, uid: Arc<str>, image: String, credentials: Vec<RegistryCredential>) {
        self.jobs().insert(uid, Kept { image, credentials });
    }

    /// Forgets what nobody needs any more.
    pub fn forget(&self, uid: &str) {
        self.jobs().remove(uid);
    }

    /// Seals each credential of a job to a node.
    ///
    /// # Errors
    /// Nothing is kept for the job, or it is for another image, or the key is none.
    pub fn seal(&self, uid: &str, key: &str, node: &str, image: &str) -> Result<Vec<String>, NotSealed> {
        let jobs = self.jobs();
        let kept = jobs.get(uid).ok_or_else(|| NotSealed::Gone(uid.to_owned()))?;
        if kept.image != image {
            return Err(NotSealed::Image { job: uid.to_owned(), image: image.to_owned() });
        }
        let key = SealingKey::parse(key).map_err(NotSealed::Key)?;
        let context = Context { node, wish: uid, image };
        kept.credentials.iter().map(|one| key.seal(one, context).map_err(NotSealed::Key)).collect()
    }

    fn jobs(&self) -> MutexGuard<'_, HashMap<Arc<str>, Kept>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queued for Fetch {
    fn namespace(&self) -> &Arc<str> {
        &self.job.namespace
    }

    fn object(&self) -> Option<&Key> {
        Some(&self.job)
    }
}

/// Reads what is asked for until nobody asks any more, by turns of the namespaces. A few at a time: a Secret
/// may have a megabyte, and a leader that begins reads those of all open jobs.
pub async fn read(client: Client, asked: mpsc::UnboundedReceiver<Fetch>, answers: mpsc::Sender<Answer>) {
    steps::each(asked, |fetch| {
        let (client, answers) = (client.clone(), answers.clone());
        async move {
            let result = credentials(&client, &fetch).await;
            let (job, secrets) = (&fetch.job, fetch.names.len());
            match &result {
                Ok(Found { credentials, lacks }) => {
                    let (credentials, lacks) = (credentials.len(), lacks.as_deref());
                    info!(%job, secrets, credentials, lacks, "Pull secrets read");
                }
                Err(error) => warn!(%job, error, "Pull secrets cannot be read"),
            }
            // The controller has ended: nobody needs it.
            let _ = answers.send(Answer { fetch, result }).await;
        }
    })
    .await;
}

async fn credentials(client: &Client, fetch: &Fetch) -> Result<Found, String> {
    let image: Reference = fetch.image.parse().map_err(|error| format!("{error}"))?;
    // Its author decides how deep and how large it is.
    let api: Api<Sent<Secret>> = Api::namespaced(client.clone(), &fetch.job.namespace);
    let (mut credentials, mut lacks) = (Vec::new(), None);
    for name in &fetch.names {
        let failed = |why: &str| missing(fetch, name, why);
        // It becomes a part of a path, which may lead elsewhere, or have no end.
        if !is_dns_subdomain(name) {
            lacks.get_or_insert_with(|| failed("it is no name of a Secret"));
            continue;
        }
        let config = match timeout(ANSWER_WITHIN, api.get(name)).await {
            Ok(Ok(sent)) => match sent.read() {
                Ok(secret) => docker_config::of(&secret),
                Err(_) => Err(UNREADABLE.to_owned()),
            },
            Ok(Err(kube::Error::Api(status))) => match status.code {
                403 => Err("the manager may not get it".to_owned()),
                404 => Err("it does not exist".to_owned()),
                code => return Err(failed(&format!("the API server answered {code}"))),
            },
            Ok(Err(error)) => return Err(failed(&chain(&error))),
            Err(_) => return Err(failed("the API server did not answer")),
        };
        match config {
            Ok(config) => {
                let repository = format!("{}/{}", image.registry(), image.repository());
                credentials.extend(config.matching(&repository).credentials);
            }
            Err(why) => drop(lacks.get_or_insert_with(|| failed(&why))),
        }
    }
    credentials.truncate(MOST);
    let size = size::bytes(&credentials);
    if size > MOST_BYTES {
        let names = fetch.names.join(", ");
        return Err(format!(
            "credentials of Secrets {names} of spec.pullSecrets for {} have {size} bytes, and at most {MOST_BYTES} are sealed for a job; \
             name fewer Secrets, or use shorter tokens",
            fetch.image
        ));
    }
    Ok(Found { credentials, lacks })
}

/// Names the Secret and what to make.
fn missing(fetch: &Fetch, name: &str, why: &str) -> String {
    let namespace = &fetch.job.namespace;
    format!(
        "Secret {namespace}/{name} of spec.pullSecrets: {why}. It takes a Secret of type kubernetes.io/dockerconfigjson, and in \
         namespace {namespace} a Role with verb get on secrets, resourceNames [{names}], bound to ServiceAccount berth-manager of the \
         manager's namespace",
        names = fetch.names.join(", ")
    )
}

#[cfg(test)]
mod tests;
