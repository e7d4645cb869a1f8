//! From CRI messages to the words of the policy: the only file that sees both.
//!
//! Env values may be secrets. They are looked at for the name of one variable and never kept or logged.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use berth_cri as cri;
use berth_policy::{
    Container, ContainerId, ContainerName, ContainerState, CreateContainer, CredentialKey, Declared,
    ListedSandbox, PodRef, SandboxId, StopContainer,
    launch_priority::{ORDERED_ANNOTATION, OrderError, PLAN_ANNOTATION, PRIORITY_ENV},
};
use serde::{
    Deserializer,
    de::{Error as _, MapAccess, Visitor},
};

use crate::remote::{MAX_LIST, MAX_NAME, cut};

/// On each sandbox and container of a kubelet.
pub const POD_UID_LABEL: &str = "io.kubernetes.pod.uid";

/// A message that is valid protobuf but lacks what every kubelet fills in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is missing")]
pub struct Missing(&'static str);

/// `CreateContainerRequest`.
pub fn create_container(request: cri::CreateContainerRequest) -> Result<CreateContainer, Missing> {
    let config = request.config.ok_or(Missing("config"))?;
    let metadata = config.metadata.ok_or(Missing("config.metadata"))?;
    let sandbox = request.sandbox_config.ok_or(Missing("sandbox_config"))?;
    let mut declared = declared(&sandbox.labels, &sandbox.annotations);
    declared.hinted |= config.envs.iter().any(|env| env.key == PRIORITY_ENV);
    let image = config.image.unwrap_or_default();
    let mut images = vec![image.image, image.user_specified_image];
    images.retain(|image| !image.is_empty());
    Ok(CreateContainer {
        sandbox: request.pod_sandbox_id.into(),
        pod: pod(sandbox.metadata.ok_or(Missing("sandbox_config.metadata"))?),
        container: metadata.name.into(),
        attempt: metadata.attempt,
        declared,
        images,
    })
}

/// Pull that a `PullImageRequest` asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct PullImage {
    /// As it asks for it.
    pub image: String,
    /// With what.
    pub credential: CredentialKey,
    /// It is for a runtime handler of its own, which may unpack it for another snapshotter than a pull
    /// without one.
    pub handler: bool,
}

/// By which containerd 1.6 and 1.7 are told the handler.
const HANDLER_ANNOTATION: &str = "io.containerd.cri.runtime-handler";

/// `PullImageRequest`.
pub fn pull_image(request: cri::PullImageRequest) -> Result<PullImage, Missing> {
    let image = request.image.ok_or(Missing("image"))?;
    let annotations = request.sandbox_config.map(|sandbox| sandbox.annotations).unwrap_or_default();
    Ok(PullImage {
        handler: !image.runtime_handler.is_empty() || annotations.contains_key(HANDLER_ANNOTATION),
        image: image.image,
        credential: credential_key(request.auth.as_ref()),
    })
}

/// `StopContainerRequest`. A negative timeout means none, as it does to the runtime.
pub fn stop_container(request: cri::StopContainerRequest) -> StopContainer {
    StopContainer {
        container: request.container_id.into(),
        timeout: Duration::from_secs(request.timeout.try_into().unwrap_or(0)),
    }
}

/// Reads whose sandbox a `RunPodSandboxRequest` makes, and what it declares.
pub fn run_pod_sandbox(request: cri::RunPodSandboxRequest) -> Result<(PodRef, Declared), Missing> {
    let config = request.config.ok_or(Missing("config"))?;
    Ok((
        pod(config.metadata.ok_or(Missing("config.metadata"))?),
        declared(&config.labels, &config.annotations),
    ))
}

/// One entry of `ListPodSandboxResponse`.
pub fn listed_sandbox(sandbox: cri::PodSandbox) -> Result<ListedSandbox, Missing> {
    Ok(ListedSandbox {
        declared: declared(&sandbox.labels, &sandbox.annotations),
        pod: pod(sandbox.metadata.ok_or(Missing("metadata"))?),
        sandbox: sandbox.id.into(),
    })
}

/// One entry of `ListContainersResponse`, which knows no exit code.
pub fn listed_container(container: cri::Container) -> Result<(SandboxId, Container), Missing> {
    let state = state(container.state, None);
    let metadata = container.metadata.ok_or(Missing("metadata"))?;
    let listed =
        Container { id: container.id.into(), name: metadata.name.into(), attempt: metadata.attempt, state };
    Ok((container.pod_sandbox_id.into(), listed))
}

/// `ContainerStatus`, which knows the exit code.
pub fn container_status(status: cri::ContainerStatus) -> Result<Container, Missing> {
    let state = state(status.state, Some(status.exit_code));
    let metadata = status.metadata.ok_or(Missing("metadata"))?;
    Ok(Container {
        id: ContainerId::from(status.id),
        name: metadata.name.into(),
        attempt: metadata.attempt,
        state,
    })
}

/// The key of the hash of credentials, anew in each process, so that it says nothing about them to whoever
/// should see it.
static HASH_KEY: Mutex<Option<HashKey>> = Mutex::new(None);

/// Key of the hash of credentials. Two processes that compare hashes have to have one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey(pub u64, pub u64);

impl HashKey {
    /// The key of this process.
    pub fn own() -> Self {
        let random = || RandomState::new().hash_one(());
        *HASH_KEY
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| Self(random(), random()))
    }

    /// Makes this process use the key of another one.
    pub fn adopt(self) {
        *HASH_KEY.lock().unwrap_or_else(PoisonError::into_inner) = Some(self);
    }
}

/// Key of the credentials that a pull has: equal for equal ones, and for none and empty ones.
pub fn credential_key(auth: Option<&cri::AuthConfig>) -> CredentialKey {
    let nothing = cri::AuthConfig::default();
    let auth = auth.unwrap_or(&nothing);
    // Each by its name: a field that the message may get is missed here by the compiler. Where a credential
    // was found is no part of it.
    let cri::AuthConfig { username, password, auth, server_address: _, identity_token, registry_token } =
        auth;
    let fields = (username, password, auth, identity_token, registry_token);
    let HashKey(key, other) = HashKey::own();
    #[expect(deprecated, reason = "the only hasher of std that takes a key, which two processes share")]
    let mut hasher = std::hash::SipHasher::new_with_keys(key, other);
    fields.hash(&mut hasher);
    CredentialKey(hasher.finish())
}

/// Reads the declarations about the order of its pod from the labels and annotations of a sandbox.
pub fn declared(labels: &HashMap<String, String>, annotations: &HashMap<String, String>) -> Declared {
    Declared {
        plan: annotations.get(PLAN_ANNOTATION).map(|text| plan(text)),
        hinted: annotations.contains_key(ORDERED_ANNOTATION),
        foreign: !labels.contains_key(POD_UID_LABEL),
    }
}

fn pod(metadata: cri::PodSandboxMetadata) -> PodRef {
    PodRef { uid: metadata.uid.into(), namespace: metadata.namespace, name: metadata.name }
}

fn state(state: i32, code: Option<i32>) -> ContainerState {
    match cri::ContainerState::try_from(state) {
        Ok(cri::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(cri::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(cri::ContainerState::ContainerExited) => ContainerState::Exited { code },
        // A state that a newer runtime may have: not running, and not gone.
        Ok(cri::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    }
}

fn plan(text: &str) -> Result<Vec<(ContainerName, i64)>, OrderError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let entries = json.deserialize_map(PlanVisitor).and_then(|entries| json.end().map(|()| entries));
    entries.map_err(|error| OrderError::MalformedPlan { reason: cut(&error.to_string()) })
}

/// Reads the map entry by entry: serde's own maps keep the last of two equal names and say nothing. More
/// than a pod can have is an error here, so that one program and two see the same.
struct PlanVisitor;

impl<'de> Visitor<'de> for PlanVisitor {
    type Value = Vec<(ContainerName, i64)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from container name to integer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut entries, mut names): (Self::Value, _) = (Vec::new(), HashSet::new());
        while let Some((name, priority)) = map.next_entry::<String, i64>()? {
            if name.len() > MAX_NAME {
                return Err(A::Error::custom(format_args!("a name has more than {MAX_NAME} bytes")));
            }
            if entries.len() >= MAX_LIST {
                return Err(A::Error::custom(format_args!("it has more than {MAX_LIST} entries")));
            }
            let name = ContainerName::from(name);
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("there twice: {name:?}")));
            }
            entries.push((name, priority));
        }
        Ok(entries)
    }
}

#[cfg(test)]
#[path = "tests/convert.rs"]
mod tests;
