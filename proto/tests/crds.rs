//! The committed definitions are those of the types, and the types hold whatever an OpenKruise manifest says.

use std::{fs, path::PathBuf};

use berth_proto::crd::{
    ContainerRecreateRequest, ContainerUpdateRequest, ImagePullJob, NodeImage, NodePodProbe, NodePodUpdate,
    PodProbeMarker, documents,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

fn read(path: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn committed_definitions_are_current() {
    for (file, document) in documents() {
        let committed = read(&format!("../deploy/crds/{file}"));
        assert!(
            committed == document,
            "deploy/crds/{file} is old: run `cargo run -p berth-proto --example crds`"
        );
    }
}

/// What two field managers write in one status is merged by the API server, and each says only its part.
#[test]
fn no_status_requires_a_field() {
    for (file, document) in documents() {
        let schema = &document["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let status = &schema["properties"]["status"];
        assert!(status["required"].is_null(), "{file}: {}", status["required"]);
        assert_eq!(status["properties"]["conditions"]["x-kubernetes-list-type"], "map", "{file}");
    }
}

/// Goes through the type and comes out as it went in.
fn keeps<T: DeserializeOwned + Serialize>(file: &str) {
    let manifest = read(&format!("tests/manifests/{file}.yaml"));
    let typed: T = serde_json::from_value(manifest.clone()).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert_eq!(serde_json::to_value(typed).unwrap(), manifest, "{file}");
}

#[test]
fn no_field_of_an_openkruise_manifest_is_lost() {
    keeps::<ContainerRecreateRequest>("recreate-plain");
    keeps::<ContainerRecreateRequest>("recreate-all-fields");
    keeps::<ImagePullJob>("image-pull-job-names");
    keeps::<ImagePullJob>("image-pull-job-labels");
    keeps::<ImagePullJob>("image-pull-job-pods");
    keeps::<NodeImage>("node-image");
    keeps::<PodProbeMarker>("pod-probe-marker");
    keeps::<NodePodProbe>("node-pod-probe");
}

/// With everything a status can say.
#[test]
fn no_field_of_an_update_is_lost() {
    keeps::<ContainerUpdateRequest>("update-all-fields");
    keeps::<NodePodUpdate>("node-pod-update");
}
