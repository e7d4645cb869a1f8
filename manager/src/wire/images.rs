//! NodeImages and ImagePullJobs, for the image index.

use berth_base::ownership::SharedKind;
use berth_proto::crd::{DesiredImage, PullStatus};
use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::{FreeForm, Watchable, custom, readable};
use crate::store::{Kind, NodeImageSeen, Object};

/// Label of a NodeImage without a Node: jobs take it for a node, which never answers.
const ALONE: &str = "apps.kruise.io/fake-nodeimage";

/// NodeImages, without what is only for OpenKruise's tools.
#[derive(Clone, Debug)]
pub struct NodeImages;

/// Entries that another version wrote are passed over one by one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeImageStatus {
    desired_images: Option<Vec<Value>>,
    pulls: Option<Vec<Value>>,
    sealing_key: Option<String>,
}

impl Watchable for NodeImages {
    const KIND: Kind = Kind::NodeImage;
    const SHARED: Option<SharedKind> = Some(SharedKind::ImagePullJob);
    const GROUP: &str = "apps.kruise.io";
    const VERSION: &str = "v1alpha1";
    const NAME: &str = "NodeImage";
    const METADATA_ONLY: bool = false;
    type Scope = ClusterResourceScope;
    type Spec = IgnoredAny;
    type Status = NodeImageStatus;

    fn object(meta: &ObjectMeta, _: Option<IgnoredAny>, status: Option<NodeImageStatus>) -> Object {
        let (desired, pulls, sealing_key) = status.map_or_else(Default::default, |status| {
            (status.desired_images, status.pulls, status.sealing_key)
        });
        let owners = meta.owner_references.iter().flatten();
        let owner = owners.filter(|owner| owner.kind == "Node").map(|owner| owner.uid.clone()).next();
        let alone = meta.labels.as_ref().filter(|labels| labels.contains_key(ALONE)).cloned();
        Object::NodeImage(Box::new(NodeImageSeen {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            owner,
            alone,
            desired: readable::<DesiredImage>(meta, "desiredImages", desired),
            pulls: readable::<PullStatus>(meta, "pulls", pulls),
            sealing_key,
        }))
    }
}

/// ImagePullJobs.
#[derive(Clone, Debug)]
pub struct Jobs;

impl Watchable for Jobs {
    const KIND: Kind = Kind::ImagePullJob;
    const SHARED: Option<SharedKind> = Some(SharedKind::ImagePullJob);
    const GROUP: &str = "apps.kruise.io";
    const VERSION: &str = "v1alpha1";
    const NAME: &str = "ImagePullJob";
    const METADATA_ONLY: bool = false;
    const IS_LARGE: bool = true;
    type Scope = NamespaceResourceScope;
    // In two steps, as requests are.
    type Spec = FreeForm;
    type Status = FreeForm;

    fn object(meta: &ObjectMeta, spec: Option<FreeForm>, status: Option<FreeForm>) -> Object {
        Object::ImagePullJob(Box::new(custom(meta, spec, status)))
    }
}
