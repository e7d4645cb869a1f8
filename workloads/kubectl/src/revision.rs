//! Revisions of an object: which there are, and which one to go back to. Pure.

use anyhow::{bail, ensure};
use berth_proto::text;
use berth_workloads_policy::template::same;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Map, Value, json};

/// Annotation by which authors say why they changed something.
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// Says in a revision that its template replaces the one before whole.
const PATCH: &str = "$patch";

/// One revision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revision {
    pub(crate) name: String,
    pub(crate) number: i64,
    pub(crate) cause: Option<String>,
    pub(crate) template: Map<String, Value>,
}

/// End of an undo.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Undo {
    /// The template is that of the revision already.
    Skipped(i64),
    /// This template takes its place.
    To(Map<String, Value>),
}

/// Revisions that an object decides on, the oldest first.
pub(crate) fn of(owner: &str, all: Vec<ControllerRevision>) -> Vec<Revision> {
    let is_owned = |one: &ControllerRevision| {
        let mut owners = one.metadata.owner_references.iter().flatten();
        owners.any(|reference| reference.controller == Some(true) && reference.uid == owner)
    };
    let read = |one: ControllerRevision| {
        let mut template = one.data.as_ref()?.0.pointer("/spec/template")?.as_object()?.clone();
        template.remove(PATCH);
        let cause = one.metadata.annotations.as_ref().and_then(|all| all.get(CHANGE_CAUSE)).cloned();
        Some(Revision { name: one.metadata.name?, number: one.revision, cause, template })
    };
    let mut revisions: Vec<_> = all.into_iter().filter(is_owned).filter_map(read).collect();
    revisions.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
    revisions
}

/// Decides what an undo goes back to; 0 is the newest revision that has another template.
pub(crate) fn undo(revisions: &[Revision], current: &Value, to: i64) -> anyhow::Result<Undo> {
    // As the controller compares them: an object that a client has written back may have other words.
    let is_current = |one: &Revision| current.as_object().is_some_and(|now| same(&one.template, now));
    if to == 0 {
        return match revisions.iter().rev().find(|one| !is_current(one)) {
            Some(revision) => Ok(Undo::To(revision.template.clone())),
            None => bail!("no last revision to roll back to"),
        };
    }
    let Some(revision) = revisions.iter().find(|one| one.number == to) else {
        bail!("unable to find specified revision {to} in history");
    };
    if is_current(revision) {
        return Ok(Undo::Skipped(to));
    }
    Ok(Undo::To(revision.template.clone()))
}

/// The patch of an undo: the whole template takes the place of the one before, so that nothing of it stays.
/// It is of the object that was decided on.
pub(crate) fn patch(version: &str, template: &Map<String, Value>) -> Value {
    json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": version },
        { "op": "replace", "path": "/spec/template", "value": template },
    ])
}

/// The table of revisions.
pub(crate) fn table(revisions: &[Revision]) -> String {
    if revisions.is_empty() {
        return "No rollout history found.".to_owned();
    }
    let mut lines = vec!["REVISION  CHANGE-CAUSE".to_owned()];
    for one in revisions {
        let cause = one.cause.as_deref().filter(|cause| !cause.is_empty()).unwrap_or("<none>");
        lines.push(format!("{:<8}  {}", one.number, text::one_line(cause)));
    }
    lines.join("\n")
}

/// The template of one revision.
pub(crate) fn shown(revisions: &[Revision], number: i64) -> anyhow::Result<String> {
    let found: Vec<_> = revisions.iter().filter(|one| one.number == number).collect();
    ensure!(!found.is_empty(), "unable to find the specified revision");
    let texts = found.iter().map(|one| template(&one.template));
    Ok(texts.collect::<anyhow::Result<Vec<_>>>()?.join("\n"))
}

/// A template for a person.
pub(crate) fn template(template: &Map<String, Value>) -> anyhow::Result<String> {
    let yaml = text::lines(&serde_saphyr::to_string(template)?);
    let lines: Vec<_> = yaml.trim_end().lines().map(|line| format!("  {line}")).collect();
    Ok(format!("Pod Template:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn object(image: &str) -> Map<String, Value> {
        json!({ "spec": { "containers": [{ "name": "c", "image": image }] } }).as_object().cloned().unwrap()
    }

    fn stored(name: &str, number: i64, owner: &str, image: &str, cause: Option<&str>) -> ControllerRevision {
        let mut content = object(image);
        content.insert(PATCH.to_owned(), "replace".into());
        let annotations = cause.map(|cause| json!({ CHANGE_CAUSE: cause }));
        serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": annotations, "ownerReferences": [
                { "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "s", "uid": owner, "controller": true }] },
            "revision": number, "data": { "spec": { "template": content } },
        }))
        .unwrap()
    }

    fn history() -> Vec<Revision> {
        let all = vec![
            stored("s-3", 3, "u", "i:3", Some("third\n\u{1b}[2J")),
            stored("s-1", 1, "u", "i:1", None),
            stored("s-2", 2, "u", "i:2", Some("")),
            stored("other", 9, "another", "i:9", None),
        ];
        of("u", all)
    }

    #[test]
    fn only_its_own_count_in_their_order() {
        let numbers: Vec<_> = history().iter().map(|one| one.number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(history().iter().all(|one| !one.template.contains_key(PATCH)));
        assert_eq!(
            table(&history()),
            "REVISION  CHANGE-CAUSE\n1         <none>\n2         <none>\n3         third  [2J"
        );
        assert_eq!(table(&[]), "No rollout history found.");
    }

    /// The current image, the wanted number, and the image after it.
    #[rstest]
    #[case::the_one_before("i:3", 0, Ok("i:2"))]
    // The controller has not seen the last change: its revision is not there yet.
    #[case::a_change_that_nobody_saw("i:4", 0, Ok("i:3"))]
    #[case::by_number("i:3", 1, Ok("i:1"))]
    #[case::unknown("i:3", 7, Err("unable to find specified revision 7 in history"))]
    fn an_undo_goes_back(#[case] current: &str, #[case] to: i64, #[case] expected: Result<&str, &str>) {
        match (undo(&history(), &object(current).into(), to), expected) {
            (Ok(Undo::To(template)), Ok(image)) => assert_eq!(template, object(image)),
            (Err(error), Err(text)) => assert_eq!(error.to_string(), text),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn an_undo_to_what_is_is_none() {
        assert_eq!(undo(&history(), &object("i:3").into(), 3).unwrap(), Undo::Skipped(3));
        let one = history().split_off(2);
        let error = undo(&one, &object("i:3").into(), 0).unwrap_err();
        assert_eq!(error.to_string(), "no last revision to roll back to");
    }

    /// A client with types of its own has written the object back: that is no change to go back from.
    #[test]
    fn other_words_for_the_same_template_are_no_revision() {
        let mut current = Value::from(object("i:3"));
        current["metadata"] = json!({ "creationTimestamp": null });
        current["spec"]["containers"][0]["resources"] = json!({});
        assert_eq!(undo(&history(), &current, 0).unwrap(), Undo::To(object("i:2")));
        assert_eq!(undo(&history(), &current, 3).unwrap(), Undo::Skipped(3));
    }

    /// A label that came later goes with the undo.
    #[test]
    fn the_whole_template_is_replaced() {
        let patch = patch("7", &object("i:1"));
        assert_eq!(patch[0], json!({ "op": "test", "path": "/metadata/resourceVersion", "value": "7" }));
        assert_eq!((&patch[1]["op"], &patch[1]["path"]), (&json!("replace"), &json!("/spec/template")));
        assert_eq!(patch[1]["value"], Value::from(object("i:1")));
    }

    #[test]
    fn a_template_is_shown() {
        let text = shown(&history(), 2).unwrap();
        assert!(text.starts_with("Pod Template:\n  spec:\n") && text.contains("i:2"), "{text}");
        assert!(shown(&history(), 8).is_err());
    }
}
