//! Revision that has the name which a new one was to have: the name comes from the template, so a set that is
//! made anew under its name meets those of the one before.

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Map, Value, json};

use super::{Owner, Revision};
use crate::action::Target;

/// Namesake of a new revision.
#[derive(Clone, Debug, PartialEq)]
pub enum Namesake {
    /// It has the template and is the owner's: what was known is old.
    Own,
    /// It has the template, and nothing decides on it: the patch makes it the owner's.
    Free(Target, Value),
    /// It has the template, and goes with the owner of before, or goes already: its name is free then.
    Going,
    /// It has another template, or is somebody else's: the new one needs another name.
    Other,
}

impl Owner<'_> {
    /// Tells what is to be done about a revision that has the name of a new one with this template.
    pub fn namesake(&self, revision: &ControllerRevision, template: &Map<String, Value>) -> Namesake {
        let Some(view) = Revision::of(revision).filter(|view| view.has(template)) else {
            return Namesake::Other;
        };
        let meta = &revision.metadata;
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let group = |api_version: &str| api_version.split_once('/').map(|(group, _)| group.to_owned());
        match owners.iter().find(|owner| owner.controller == Some(true)) {
            Some(owner) if owner.uid == self.uid => Namesake::Own,
            // There is one object of a kind and name at a time, so that one is gone.
            Some(owner)
                if owner.name == self.name
                    && owner.kind == self.kind
                    && group(&owner.api_version) == group(self.api_version) =>
            {
                Namesake::Going
            }
            Some(_) => Namesake::Other,
            None if meta.deletion_timestamp.is_some() => Namesake::Going,
            None => {
                let others = owners.iter().map(|owner| json!(owner)).collect();
                Namesake::Free(view.target(), self.adopting(others))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::selector::Labels;

    /// Owners of one, as `Kind.group/name/uid`; one that decides not has a `?` behind it.
    fn owners(text: &str) -> Value {
        let Some((kind, rest)) = text.split_once('.') else { return json!([]) };
        let mut parts = rest.trim_end_matches('?').split('/');
        let mut part = || parts.next().unwrap();
        json!([{
            "kind": kind, "apiVersion": format!("{}/v1alpha1", part()), "name": part(), "uid": part(),
            "controller": !text.ends_with('?'),
        }])
    }

    /// Rows: image of its template, its owners, whether it is being deleted, and what it is.
    #[rstest]
    #[case::nobodys("a:1", "", false, "free")]
    #[case::one_that_does_not_decide("a:1", "CloneSet.apps.kruise.io/web/old?", false, "free")]
    #[case::nobodys_and_going("a:1", "", true, "going")]
    #[case::of_the_one_before("a:1", "CloneSet.apps.kruise.io/web/old", false, "going")]
    #[case::its_own("a:1", "CloneSet.apps.kruise.io/web/new", false, "own")]
    #[case::of_another_name("a:1", "CloneSet.apps.kruise.io/web-2/old", false, "other")]
    #[case::of_another_kind("a:1", "StatefulSet.apps.kruise.io/web/old", false, "other")]
    #[case::of_another_group("a:1", "CloneSet.example.com/web/old", false, "other")]
    #[case::another_template("a:2", "", false, "other")]
    #[case::another_template_of_its_own("a:2", "CloneSet.apps.kruise.io/web/new", false, "other")]
    fn whose_it_is(
        #[case] image: &str,
        #[case] owned_by: &str,
        #[case] is_going: bool,
        #[case] expected: &str,
    ) {
        let template =
            |image: &str| json!({ "spec": { "containers": [{ "name": "main", "image": image }] } });
        let mut data = template(image);
        data["$patch"] = "replace".into();
        let revision = serde_json::from_value(json!({
            "metadata": {
                "name": "web-5d4b", "uid": "r", "resourceVersion": "7", "ownerReferences": owners(owned_by),
                "deletionTimestamp": is_going.then_some("2026-01-01T00:00:00Z"),
            },
            "data": { "spec": { "template": data } },
            "revision": 1,
        }))
        .unwrap();
        let none = Labels::new();
        let owner = Owner {
            // Another version of the kind is the same kind.
            api_version: "apps.kruise.io/v1beta1",
            kind: "CloneSet",
            namespace: "ns",
            name: "web",
            uid: "new",
            annotations: &none,
        };
        let is = match owner.namesake(&revision, template("a:1").as_object().unwrap()) {
            Namesake::Own => "own",
            Namesake::Free(target, patch) => {
                assert_eq!((target.name.as_str(), target.version.as_str()), ("web-5d4b", "7"));
                let owners = patch["metadata"]["ownerReferences"].as_array().unwrap();
                assert_eq!(owners.last().unwrap()["uid"], "new");
                "free"
            }
            Namesake::Going => "going",
            Namesake::Other => "other",
        };
        assert_eq!(is, expected);
    }
}
