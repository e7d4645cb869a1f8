//! A file that is a `NodeImage`: told apart from the requests, and read as strictly.

use berth_proto::crd::{NodeImage, NodeImageSpec, NodeImageStatus};
use kube::Resource;
use serde::Deserialize;

use super::fields::NODE_IMAGE;
use crate::base::yaml::{Document, YamlError};

/// Reads one; `None` when the file says it is something else, or nothing. The error names field and remedy.
pub(crate) fn read(text: &str) -> Option<Result<NodeImage, String>> {
    let document = Document::parse(text).ok()?;
    is(&document).then(|| parse(&document))
}

/// Reports whether a file says it is one.
pub(crate) fn is_one(text: &str) -> bool {
    Document::parse(text).is_ok_and(|document| is(&document))
}

fn is(document: &Document<'_>) -> bool {
    document.head().is_some_and(|(api_version, kind)| {
        kind == NodeImage::kind(&()) && api_version == NodeImage::api_version(&())
    })
}

fn parse(document: &Document<'_>) -> Result<NodeImage, String> {
    let readable = |error: YamlError| error.to_string();
    NODE_IMAGE.check(document).map_err(readable)?;
    let object: Object = document.typed().map_err(readable)?;
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
