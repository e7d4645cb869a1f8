//! Releases of OpenKruise, told by what their definitions have. Pure.
//!
//! Definitions say no release of their own. Each sign below came with the release beside it, by OpenKruise's
//! change log, and stays in all later ones; definitions without any sign are of 1.4, or of one before it.

use berth_proto::image::Reference;
use serde_json::Value;

/// Release that has no sign.
pub(super) const FIRST: u32 = 4;

/// Definition, path in a version of it, and the minor release since which it is there. An empty path: the
/// definition itself.
const SIGNS: [(&str, &str, u32); 5] = [
    ("imagelistpulljobs.apps.kruise.io", "", 5),
    ("imagepulljobs.apps.kruise.io", "spec/imagePullPolicy", 6),
    ("statefulsets.apps.kruise.io", "spec/ordinals", 7),
    ("uniteddeployments.apps.kruise.io", "spec/topology/scheduleStrategy", 8),
    ("workloadspreads.apps.kruise.io", "spec/targetFilter", 8),
];
/// The longest release that is believed.
const LONGEST: usize = 32;
/// Release that serves this version of a kind that had one version before.
const SECOND_VERSION: (&str, u32) = ("v1beta1", 9);
/// Kind that has had two versions all along.
const OF_TWO: &str = "statefulsets.apps.kruise.io";

/// Minor release, 1.N, that a definition is of at least.
pub(super) fn at_least(name: &str, definition: &Value) -> u32 {
    let versions = || definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let has = |path: &str| {
        let at = path.replace('/', "/properties/");
        let at = format!("/schema/openAPIV3Schema/properties/{at}");
        path.is_empty() || versions().any(|version| version.pointer(&at).is_some())
    };
    let signs = SIGNS.iter().filter(|(of, path, _)| *of == name && has(path)).map(|(_, _, release)| *release);
    let (second, release) = SECOND_VERSION;
    let is_later = name != OF_TWO && versions().any(|version| version["name"] == second);
    signs.chain(is_later.then_some(release)).max().unwrap_or(FIRST)
}

/// Release that the tag of an image names, such as `1.8.2`; `None`: it names none.
pub(super) fn of_image(image: &str) -> Option<String> {
    let image: Reference = image.parse().ok()?;
    let tag = image.tag()?;
    let release = tag.strip_prefix('v').unwrap_or(tag);
    let minor = release.strip_prefix("1.")?.split('.').next()?;
    let is_number = !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && release.len() <= LONGEST).then(|| release.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{at_least, of_image};

    /// Definition of one version with a field.
    fn with(version: &str, path: &str) -> serde_json::Value {
        let mut schema = json!({});
        for part in path.rsplit('/').filter(|part| !part.is_empty()) {
            schema = json!({ "properties": { part: schema } });
        }
        json!({ "spec": { "versions": [{ "name": version, "schema": { "openAPIV3Schema": schema } }] } })
    }

    #[test]
    fn definitions_tell_their_release() {
        for (name, definition, expect) in [
            ("clonesets.apps.kruise.io", with("v1alpha1", "spec/replicas"), 4),
            ("imagelistpulljobs.apps.kruise.io", with("v1alpha1", "spec/images"), 5),
            ("imagepulljobs.apps.kruise.io", with("v1alpha1", "spec/image"), 4),
            ("imagepulljobs.apps.kruise.io", with("v1alpha1", "spec/imagePullPolicy"), 6),
            ("statefulsets.apps.kruise.io", with("v1beta1", "spec/reserveOrdinals"), 4),
            ("statefulsets.apps.kruise.io", with("v1beta1", "spec/ordinals/start"), 7),
            ("uniteddeployments.apps.kruise.io", with("v1alpha1", "spec/topology/subsets"), 4),
            ("uniteddeployments.apps.kruise.io", with("v1alpha1", "spec/topology/scheduleStrategy"), 8),
            ("workloadspreads.apps.kruise.io", with("v1alpha1", "spec/targetFilter"), 8),
            ("sidecarsets.apps.kruise.io", with("v1beta1", "spec/containers"), 9),
            ("sidecarsets.apps.kruise.io", json!({ "spec": { "versions": "v1beta1" } }), 4),
            ("imagepulljobs.apps.kruise.io", json!(7), 4),
        ] {
            assert_eq!(at_least(name, &definition), expect, "{name} {definition}");
        }
    }

    #[test]
    fn images_name_their_release() {
        for (image, expect) in [
            ("openkruise/kruise-manager:v1.8.2", Some("1.8.2")),
            (
                "registry:5000/openkruise/kruise-manager:1.4.0@sha256:abababababababababababababababababababababababababababababababab",
                Some("1.4.0"),
            ),
            ("openkruise/kruise-manager:v1.9.0-rc.1", Some("1.9.0-rc.1")),
            ("openkruise/kruise-manager:latest", None),
            ("openkruise/kruise-manager:v2.0.0", None),
            ("openkruise/kruise-manager:v1", None),
            ("registry:5000/openkruise/kruise-manager", None),
            ("openkruise/kruise-manager@sha256:ab", None),
            ("", None),
        ] {
            assert_eq!(of_image(image).as_deref(), expect, "{image}");
        }
    }
}
