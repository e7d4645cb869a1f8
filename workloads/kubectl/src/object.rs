//! Objects of the cluster as they are read: leniently, for one that is odd must not hide the others. Pure.

use berth_proto::remedy::APPLY;
use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

/// A kind that is listed or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    group: &'static str,
    version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    /// Objects of a page.
    pub(crate) page: u32,
    /// Labels and annotations are all that is read of it.
    pub(crate) metadata_only: bool,
}

impl Sort {
    pub(crate) const RECREATE: Self =
        Self::new("apps.kruise.io", "v1alpha1", "ContainerRecreateRequest", "containerrecreaterequests");
    pub(crate) const UPDATE: Self =
        Self::new("berth.dev", "v1alpha1", "ContainerUpdateRequest", "containerupdaterequests");
    /// An object of it may have some hundred kilobytes.
    pub(crate) const NODE_UPDATES: Self =
        Self { page: 50, ..Self::new("berth.dev", "v1alpha1", "NodePodUpdate", "nodepodupdates") };
    /// Histories make it large.
    pub(crate) const SIDECAR_SET: Self =
        Self { page: 50, ..Self::new("apps.kruise.io", "v1alpha1", "SidecarSet", "sidecarsets") };
    pub(crate) const POD: Self = Self::new("", "v1", "Pod", "pods");
    /// Its labels: the rest is long.
    pub(crate) const NODE: Self = Self { metadata_only: true, ..Self::new("", "v1", "Node", "nodes") };

    const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self { group, version, kind, plural, page: 500, metadata_only: false }
    }

    /// Resource of the API.
    pub(crate) fn resource(&self) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }

    /// `GROUP/VERSION`.
    pub(crate) fn api_version(&self) -> String {
        self.resource().api_version
    }

    /// Name in the lines that are printed: `containerrecreaterequest.apps.kruise.io/NAME`.
    pub(crate) fn printed(&self, name: &str) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{}{dot}{}/{name}", self.kind.to_lowercase(), self.group)
    }

    /// Words for a cluster that has no such kind, with the remedy.
    pub(crate) fn unknown(&self) -> String {
        format!("the cluster does not know the kind {}: {APPLY}", self.kind)
    }
}

/// A text of an object, by its path; empty where there is none.
pub(crate) fn text<'a>(object: &'a Value, at: &str) -> &'a str {
    object.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// A number of an object, by its path; 0 where there is none.
pub(crate) fn number(object: &Value, at: &str) -> i64 {
    object.pointer(at).and_then(Value::as_i64).unwrap_or_default()
}

/// A list of an object, by its path; empty where there is none.
pub(crate) fn list<'a>(object: &'a Value, at: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(at).and_then(Value::as_array).into_iter().flatten()
}

/// The condition of this type in the status.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions").find(|one| one["type"] == kind)
}

/// A label of an object; empty where there is none.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// Time since then, as kubectl writes it; empty where it is no time.
pub(crate) fn ago(time: &str, now: Timestamp) -> String {
    let Ok(then) = time.parse::<Timestamp>() else { return String::new() };
    let seconds = now.duration_since(then).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{minutes}m"),
        7200..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

/// The age of an object.
pub(crate) fn age(object: &Value, now: Timestamp) -> String {
    ago(text(object, "/metadata/creationTimestamp"), now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        for (time, age) in [
            ("2026-01-09T23:59:01Z", "59s"),
            ("2026-01-09T23:00:00Z", "60m"),
            ("2026-01-09T00:00:00Z", "24h"),
            ("2026-01-01T00:00:00Z", "9d"),
            // A clock that is ahead.
            ("2026-01-10T00:00:09Z", "0s"),
            ("soon", ""),
        ] {
            assert_eq!(ago(time, now), age, "{time}");
        }
    }

    #[test]
    fn kinds_are_printed_as_kubectl_prints_them() {
        assert_eq!(Sort::UPDATE.printed("a"), "containerupdaterequest.berth.dev/a");
        assert_eq!(Sort::POD.printed("a"), "pod/a");
        assert_eq!(
            (Sort::POD.api_version(), Sort::RECREATE.api_version()),
            ("v1".into(), "apps.kruise.io/v1alpha1".into())
        );
    }
}
