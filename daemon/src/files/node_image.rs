//! A file that is a `NodeImage`: told apart from the requests, and read as strictly.

use std::collections::BTreeMap;

use berth_proto::crd::{NodeImage, NodeImageSpec, NodeImageStatus};
use kube::Resource;
use serde::{Deserialize, de::IgnoredAny};

use super::yaml::{self, Any, MetadataFields};

/// Reads one; `None` when the file says it is something else, or nothing. The error names field and remedy.
pub(crate) fn read(text: &str) -> Option<Result<NodeImage, String>> {
    is_one(text).then(|| parse(text))
}

/// Whether a file says it is one.
pub(crate) fn is_one(text: &str) -> bool {
    yaml::head(text).is_some_and(|(api_version, kind)| {
        kind == NodeImage::kind(&()) && api_version == NodeImage::api_version(&())
    })
}

fn parse(text: &str) -> Result<NodeImage, String> {
    let readable = |error| yaml::readable(error, text).to_string();
    yaml::parse::<Fields>(text).map_err(readable)?;
    let object: Object = yaml::parse(text).map_err(readable)?;
    if object.status.as_ref().is_some_and(|status| *status != NodeImageStatus::default()) {
        return Err("status: is berthd's to write: leave it out".to_owned());
    }
    for (name, image) in &object.spec.images {
        if !image.pull_secrets.is_empty() {
            return Err(format!(
                "spec.images[{name:?}].pullSecrets: there are no Secrets without an API server: leave it out, and give the \
                 credentials in the kubelet's docker configuration"
            ));
        }
        for (index, tag) in image.tags.iter().enumerate() {
            if image.tags[..index].iter().any(|before| before.tag == tag.tag) {
                return Err(format!(
                    "spec.images[{name:?}].tags[{index}].tag: {:?} is listed twice",
                    tag.tag
                ));
            }
        }
    }
    Ok(NodeImage::new("", object.spec))
}

/// An object, but for its name, which no file needs.
#[derive(Deserialize)]
struct Object {
    spec: NodeImageSpec,
    status: Option<NodeImageStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fields {
    #[serde(rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default, rename = "metadata")]
    _metadata: Option<MetadataFields>,
    #[serde(rename = "spec")]
    _spec: SpecFields,
    #[serde(default, rename = "status")]
    _status: Any,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecFields {
    #[serde(rename = "images")]
    _images: BTreeMap<String, ImageFields>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ImageFields {
    #[serde(rename = "pullSecrets")]
    _pull_secrets: Any,
    #[serde(rename = "sandboxConfig")]
    _sandbox_config: Option<SandboxFields>,
    #[serde(rename = "tags")]
    _tags: Option<Vec<TagFields>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SandboxFields {
    #[serde(rename = "labels")]
    _labels: Any,
    #[serde(rename = "annotations")]
    _annotations: Any,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TagFields {
    #[serde(rename = "tag")]
    _tag: Any,
    #[serde(rename = "createdAt")]
    _created_at: Any,
    #[serde(rename = "pullPolicy")]
    _pull_policy: Option<PolicyFields>,
    #[serde(rename = "imagePullPolicy")]
    _image_pull_policy: Any,
    #[serde(rename = "ownerReferences")]
    _owner_references: Any,
    #[serde(rename = "version")]
    _version: Any,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PolicyFields {
    #[serde(rename = "timeoutSeconds")]
    _timeout_seconds: Any,
    #[serde(rename = "backoffLimit")]
    _backoff_limit: Any,
    #[serde(rename = "ttlSecondsAfterFinished")]
    _ttl_seconds_after_finished: Any,
    #[serde(rename = "activeDeadlineSeconds")]
    _active_deadline_seconds: Any,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apps.kruise.io/v1alpha1\nkind: NodeImage\n";

    #[test]
    fn one_with_all_its_fields() {
        let text = format!(
            "{HEAD}spec:\n  images:\n    127.0.0.1:5000/app:\n      sandboxConfig: {{labels: {{a: b}}}}\n      tags:\n      - tag: \
             v1\n        version: 2\n        imagePullPolicy: Always\n        pullPolicy: {{timeoutSeconds: 60, backoffLimit: \
             1}}\n"
        );
        let object = read(&text).unwrap().unwrap();
        assert_eq!(object.spec.images["127.0.0.1:5000/app"].tags[0].version, Some(2));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let table = [
            ("spec:\n  images:\n    a:\n      tags: [{tga: v1}]\n", "tga"),
            ("spec:\n  image: {}\n", "image"),
            ("spec:\n  images:\n    a:\n      tags: [{tag: v1}, {tag: v1}]\n", "listed twice"),
            ("spec:\n  images:\n    a:\n      pullSecrets: [{name: s}]\n      tags: []\n", "pullSecrets"),
            ("spec:\n  images: {}\nstatus: {desired: 1}\n", "status: "),
            ("", "spec"),
        ];
        for (text, part) in table {
            let error = read(&format!("{HEAD}{text}")).unwrap().unwrap_err();
            assert!(error.contains(part), "{part:?} is missing in {error:?}");
        }
    }

    #[test]
    fn other_kinds_are_others_business() {
        for text in ["", "kind: NodeImage\n", "apiVersion: v1\nkind: Pod\n", "[", "a: b: c"] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
