//! The way in for `berthctl update`, and the list for `berthctl get updates`.
//!
//! What cannot come to anything is refused at once, before it is kept; everything else ends in the status of
//! the request.

use std::io::{self, Read};

use berth_policy::{
    AssignError, PodRef,
    in_place_update::{UpdateRequest, UpdateSource, WORKING, twins, version_key},
};
use berth_proto::crd::{ContainerUpdateRequest, ContainerUpdateRequestSpec, ContainerUpdateRequestStatus};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use serde_json::Value;

use super::{Permission, Updates};
use crate::{
    base::status::whole_second,
    cluster::{client::CallError, v1 as core},
    files::{self, FileError, Submitted as Taken},
    pods::read,
};

/// Why a request was not taken. Nothing of it stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubmitError {
    /// The agent may not change pods; why.
    #[error("{0}")]
    Forbidden(String),
    /// Requests of before are not known yet.
    #[error("berthd has not read the updates it has yet; try again")]
    Early,
    /// It is about nothing on this node.
    #[error(transparent)]
    NoPod(#[from] AssignError),
    /// The API server does not know the pod any more.
    #[error("pod {0} is on this node, but not at the API server any more: it is being removed")]
    Gone(String),
    /// The API server does not say what the pod is.
    #[error("pod {pod} cannot be looked at")]
    Unseen {
        /// The pod.
        pod: String,
        /// Why.
        source: CallError,
    },
    /// The kubelet made it of a file.
    #[error(
        "pod {0}: a static pod cannot be updated in place: the kubelet replaces the whole pod on any change of its \
         manifest; edit the manifest on the node instead"
    )]
    Static(String),
    /// Its image cannot be changed any more.
    #[error(
        "container {container} of pod {pod} is an init container: only those of spec.containers are updated in place; make \
         a new pod"
    )]
    Init {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// The pod has no such container.
    #[error("pod {pod} has no container {container}; it has {}", known.join(", "))]
    NoContainer {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
        /// Containers of the pod.
        known: Vec<String>,
    },
    /// Its values cannot be; which, and what to do.
    #[error("{0}")]
    Invalid(String),
    /// It could not be kept.
    #[error("the request cannot be kept")]
    Kept(#[from] FileError),
    /// No name could be made.
    #[error("no name for the request")]
    Name(#[source] io::Error),
}

impl Updates {
    /// Takes a request for a pod given as `name` or `namespace/name`. On return it survives the agent.
    pub(crate) async fn submit(
        &self,
        pod: &str,
        mut spec: ContainerUpdateRequestSpec,
    ) -> Result<Taken, SubmitError> {
        let parts = &self.0;
        if let Permission::Denied(why) = parts.permission() {
            return Err(SubmitError::Forbidden(why));
        }
        if !parts.updates.has_heard(&[UpdateSource::Admin]) {
            return Err(SubmitError::Early);
        }
        let pod = parts.agent.read(|node, _| node.pod_named(pod))?;
        spec.pod_name.clone_from(&pod.name);
        let key = || format!("{}/{}", pod.namespace, pod.name);
        let found = parts.writer.look(&pod).await;
        let found = found.map_err(|source| SubmitError::Unseen { pod: key(), source })?;
        let found = found.ok_or_else(|| SubmitError::Gone(key()))?;
        for swap in &mut spec.swaps {
            if swap.empty_image.is_empty() {
                swap.empty_image = resting_image(&found, &swap.name).map_err(SubmitError::Invalid)?;
            }
        }
        let request = object(&pod, spec, parts.writer.node(), Timestamp::now()).map_err(SubmitError::Name)?;
        let name = request.metadata.name.clone().unwrap_or_default();
        let object = parts.admin_requests.prepare(request.clone());
        let object = object.map_err(|unfit| SubmitError::Invalid(unfit.to_string()))?;
        fits(&found, &request.spec)?;
        let parts = parts.clone();
        let keep = async move { parts.admin_requests.keep(object, &parts.updates).await };
        files::kept_whole(name.as_str().into(), keep).await?;
        Ok(Taken { namespace: pod.namespace, name })
    }

    /// The updates of this node, wherever they come from; `None` before those are known that were kept here.
    pub(crate) fn states(&self) -> Option<Vec<UpdateRequest>> {
        let updates = &self.0.updates;
        updates.has_heard(&[UpdateSource::Admin]).then(|| updates.standing())
    }
}

/// The request as an object, assigned.
fn object(
    pod: &PodRef,
    spec: ContainerUpdateRequestSpec,
    node: &str,
    now: Timestamp,
) -> io::Result<ContainerUpdateRequest> {
    Ok(ContainerUpdateRequest {
        metadata: ObjectMeta {
            namespace: Some(pod.namespace.clone()),
            name: Some(files::new_name(&pod.name)?),
            uid: Some(uid(now)?),
            creation_timestamp: Some(Time(whole_second(now))),
            ..ObjectMeta::default()
        },
        spec,
        status: Some(ContainerUpdateRequestStatus {
            node_name: Some(node.to_owned()),
            pod_uid: Some(pod.uid.as_str().to_owned()),
            ..ContainerUpdateRequestStatus::default()
        }),
    })
}

/// A UUID of version 7. They are in the order of time, which decides between two requests of the same second.
fn uid(now: Timestamp) -> io::Result<String> {
    // Not the kernel's own UUIDs: the unit lets the agent see nothing of /proc but processes.
    let mut random = [0_u8; 10];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    // The variant of RFC 9562 is in the two highest bits.
    random[2] = random[2] & 0x3f | 0x80;
    let random = random.map(|byte| format!("{byte:02x}")).concat();
    let time = format!("{:012x}", now.as_millisecond().max(0));
    let (high, low) = time.split_at(8);
    Ok(format!("{high}-{low}-7{}-{}-{}", &random[1..4], &random[4..8], &random[8..]))
}

/// Image of the twin of this sidecar that does not work, by the pod's annotations.
fn resting_image(pod: &core::Pod, name: &str) -> Result<String, String> {
    let remedy = "give --empty-image";
    let annotation = |key: &str| pod.metadata.annotations.as_ref()?.get(key).map(String::as_str);
    let working = annotation(WORKING).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let working = working.as_ref().and_then(|all| all.get(name)?.as_str());
    let [first, second] = twins(name);
    let resting = match working {
        Some(working) if working == first.as_str() => second,
        Some(working) if working == second.as_str() => first,
        _ => {
            return Err(format!(
                "annotation {WORKING} of the pod names no twin of {name} that works: {remedy}"
            ));
        }
    };
    if annotation(&version_key(&resting)).is_none_or(|version| version != "0") {
        return Err(format!(
            "nothing says that container {resting} rests: wait for the swap that goes on, or {remedy}"
        ));
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut resting_ones = containers.filter(|container| container.name == resting.as_str());
    resting_ones.find_map(|container| container.image.clone()).ok_or_else(|| {
        format!("the pod has no container {resting}: only sidecars with two containers, {name}-1 and {name}-2, are swapped")
    })
}

/// The pod has the containers, and can be changed.
fn fits(pod: &core::Pod, spec: &ContainerUpdateRequestSpec) -> Result<(), SubmitError> {
    let meta = &pod.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let key = format!("{}/{}", text(&meta.namespace), text(&meta.name));
    if read::is_mirror(meta) {
        return Err(SubmitError::Static(key));
    }
    let of_pod = pod.spec.iter();
    let known: Vec<&str> =
        of_pod.clone().flat_map(|spec| &spec.containers).map(|container| container.name.as_str()).collect();
    let mut init = of_pod.flat_map(|spec| spec.init_containers.iter().flatten());
    let twins = spec.swaps.iter().flat_map(|swap| twins(&swap.name)).map(|twin| twin.as_str().to_owned());
    let mut asked = spec.containers.iter().map(|asked| asked.name.clone()).chain(twins);
    let Some(container) = asked.find(|asked| !known.contains(&asked.as_str())) else {
        return Ok(());
    };
    if init.any(|init| init.name == container) {
        return Err(SubmitError::Init { pod: key, container });
    }
    let known = known.into_iter().map(str::to_owned).collect();
    Err(SubmitError::NoContainer { pod: key, container, known })
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::UpdateContainer;

    use super::*;

    fn spec(names: &[&str]) -> ContainerUpdateRequestSpec {
        let container =
            |name: &&str| UpdateContainer { name: (*name).to_owned(), image: "web:v2".to_owned() };
        ContainerUpdateRequestSpec {
            containers: names.iter().map(container).collect(),
            ..ContainerUpdateRequestSpec::default()
        }
    }

    fn pod(annotations: &str) -> core::Pod {
        serde_saphyr::from_str(&format!(
            "
metadata: {{name: web, namespace: shop, uid: u, annotations: {{{annotations}}}}}
spec: {{initContainers: [{{name: setup}}], containers: [{{name: main}}, {{name: side}}]}}
"
        ))
        .unwrap()
    }

    #[test]
    fn only_what_the_pod_has() {
        let refused = |names: &[&str]| fits(&pod(""), &spec(names)).unwrap_err().to_string();
        fits(&pod(""), &spec(&["side", "main"])).unwrap();
        fits(&pod(""), &spec(&[])).unwrap();
        assert_eq!(refused(&["main", "app"]), "pod shop/web has no container app; it has main, side");
        assert!(refused(&["setup"]).contains("is an init container"));
        let mirror = fits(&pod("kubernetes.io/config.mirror: x"), &spec(&["main"])).unwrap_err().to_string();
        assert!(mirror.contains("edit the manifest on the node"), "{mirror}");
    }

    #[test]
    fn the_image_that_rests() {
        let twins = |annotations: &str| -> core::Pod {
            serde_saphyr::from_str(&format!(
                "
metadata: {{name: web, annotations: {{{annotations}}}}}
spec: {{containers: [{{name: mesh-1, image: 'mesh:1'}}, {{name: mesh-2, image: 'empty:1'}}]}}
"
            ))
            .unwrap()
        };
        let works = r#"kruise.io/sidecarset-working-hotupgrade-container: '{"mesh":"mesh-1","log":"log-2"}'"#;
        let of = |annotations: &str, name: &str| resting_image(&twins(annotations), name);
        let version =
            |twin: &str, version: u8| format!("{works}, version.sidecarset.kruise.io/{twin}: '{version}'");
        assert_eq!(of(&version("mesh-2", 0), "mesh"), Ok("empty:1".to_owned()));
        for (annotations, name, why) in [
            (String::new(), "mesh", "names no twin of mesh"),
            (works.to_owned(), "mesh", "nothing says that container mesh-2 rests"),
            (version("mesh-2", 7), "mesh", "wait for the swap that goes on"),
            (version("log-1", 0), "log", "the pod has no container log-1"),
            (works.to_owned(), "other", "names no twin of other"),
        ] {
            let refused = of(&annotations, name).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_request_is_assigned_and_has_an_identity() {
        let pod = PodRef { uid: "p-1".into(), namespace: "shop".to_owned(), name: "web".to_owned() };
        let at = |millis: i64| Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap();
        let [first, second] = [1, 2].map(|millis| object(&pod, spec(&["main"]), "node", at(millis)).unwrap());
        assert_eq!(first.metadata.creation_timestamp, second.metadata.creation_timestamp, "whole seconds");
        let [one, two] = [first.metadata.uid.unwrap(), second.metadata.uid.unwrap()];
        assert!(one < two, "{one} {two}");
        assert_eq!((one.len(), one.matches('-').count(), &one[14..15]), (36, 4, "7"));
        assert!("89ab".contains(&one[19..20]), "{one}");
        assert!(first.metadata.name.unwrap().starts_with("web-"));
        let status = first.status.unwrap();
        assert_eq!((status.node_name.as_deref(), status.pod_uid.as_deref()), (Some("node"), Some("p-1")));
    }
}
