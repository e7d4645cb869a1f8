//! Parts of earlier templates of a CloneSet, noted on the set within its author's own request, so that agents
//! bring pods back to them in place ([`template_history`]). Pure.
//!
//! Only a change of what a running pod can be given notes anything: what berth-workloads writes of a set, the
//! names in `podsToDelete`, leaves the annotation as it is, for its policy lets it change nothing else. A set
//! whose pods are made anew gets none. Clients leave out what they do not know, so an annotation that is
//! missing comes back; an empty one is its author's word that all is to be forgotten.
//!
//! [`template_history`]: berth_proto::template_history

use berth_proto::{
    crd::MOST_ANNOTATION_BYTES,
    template_history::{MOST_PARTS, Part, TEMPLATE_HISTORY},
};
use serde_json::{Value, json};

use super::is_in_place;

/// Characters of a hash.
const HASH: usize = 64;

/// Writes the annotation of a set that is being written: what its stored template has, where the new one has
/// something else, and what was noted before. A value of the author's own is overwritten, and an empty one
/// forgets what was noted before. `old` is the stored set, and null where there is none.
pub(super) fn note(object: &mut Value, old: &Value) {
    let (given, stored) = (annotation(object), annotation(old));
    let had = parts(&old["spec"]["template"]);
    let in_place = object["spec"]["updateStrategy"]["type"].as_str().is_some_and(is_in_place);
    let changes = in_place && had != parts(&object["spec"]["template"]);
    if !changes && given == stored {
        return;
    }
    let before = if given == Some("") { "" } else { stored.unwrap_or_default() };
    let noted = if changes { joined(&had, before, room(object)) } else { before.to_owned() };
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    match metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        Some(annotations) if noted.is_empty() => drop(annotations.remove(TEMPLATE_HISTORY)),
        Some(annotations) => drop(annotations.insert(TEMPLATE_HISTORY.to_owned(), noted.into())),
        None if noted.is_empty() => {}
        None => drop(metadata.insert("annotations".to_owned(), json!({ TEMPLATE_HISTORY: noted }))),
    }
}

fn annotation(set: &Value) -> Option<&str> {
    set["metadata"]["annotations"][TEMPLATE_HISTORY].as_str()
}

/// Hashes that there is room for beside the other annotations: what is noted is no reason to refuse a set.
fn room(object: &Value) -> usize {
    /// Bytes of a hash with its comma.
    const EACH: usize = HASH + 1;
    let others = texts(&object["metadata"]["annotations"]).filter(|(key, _)| *key != TEMPLATE_HISTORY);
    let others = others.map(|(key, value)| key.len().saturating_add(value.len()));
    let taken = others.fold(TEMPLATE_HISTORY.len(), usize::saturating_add);
    MOST_ANNOTATION_BYTES.saturating_sub(taken) / EACH
}

/// Parts of a template that a running pod can be given.
fn parts(template: &Value) -> Vec<Part<'_>> {
    let containers = template["spec"]["containers"].as_array().into_iter().flatten();
    let images = containers.filter_map(|container| {
        Some(Part::Image { container: container["name"].as_str()?, image: container["image"].as_str()? })
    });
    let labels = texts(&template["metadata"]["labels"]).map(|(key, value)| Part::Label { key, value });
    let annotations =
        texts(&template["metadata"]["annotations"]).map(|(key, value)| Part::Annotation { key, value });
    images.chain(labels).chain(annotations).collect()
}

fn texts(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    map.as_object().into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// Hashes of these parts, then those of before, each once, and as many as count and as there is room for.
fn joined(had: &[Part<'_>], before: &str, room: usize) -> String {
    let most = MOST_PARTS.min(room);
    let had = had.iter().take(MOST_PARTS).map(|part| part.digest());
    let before = before.split(',').map(str::trim).filter(|hash| is_hash(hash)).map(str::to_owned);
    let mut noted: Vec<String> = Vec::new();
    for hash in had.chain(before.take(MOST_PARTS)) {
        if noted.len() < most && !noted.contains(&hash) {
            noted.push(hash);
        }
    }
    noted.join(",")
}

fn is_hash(text: &str) -> bool {
    text.len() == HASH && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// A hash of something.
    const NOTED: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn set(type_: &str, image: &str, history: Option<&str>) -> Value {
        let annotations = history.map(|history| json!({ TEMPLATE_HISTORY: history, "a": "b" }));
        json!({
            "kind": "CloneSet",
            "metadata": { "name": "shop", "annotations": annotations },
            "spec": {
                "replicas": 2,
                "updateStrategy": { "type": type_ },
                "template": {
                    "metadata": { "labels": { "app": "shop" } },
                    "spec": { "containers": [{ "name": "main", "image": image }] },
                },
            },
        })
    }

    fn image(image: &str) -> String {
        Part::Image { container: "main", image }.digest()
    }

    fn label() -> String {
        Part::Label { key: "app", value: "shop" }.digest()
    }

    fn noted(mut new: Value, old: &Value) -> Option<Vec<String>> {
        note(&mut new, old);
        let history = new["metadata"]["annotations"].get(TEMPLATE_HISTORY)?.as_str().unwrap();
        Some(history.split(',').map(str::to_owned).collect())
    }

    #[test]
    fn a_change_notes_what_was_there() {
        let first = set("InPlaceOnly", "a:1", None);
        let mut second = set("InPlaceOnly", "a:2", None);
        note(&mut second, &first);
        let now = |set: &Value| set["metadata"]["annotations"][TEMPLATE_HISTORY].as_str().unwrap().to_owned();
        assert_eq!(now(&second), [image("a:1"), label()].join(","));
        let third = set("InPlaceIfPossible", "a:3", None);
        assert_eq!(noted(third, &second), Some(vec![image("a:2"), label(), image("a:1")]));
        // The way back, by a client that leaves the annotation out.
        assert_eq!(noted(first, &second), Some(vec![image("a:2"), label(), image("a:1")]));
    }

    /// Rows: the type, the new image and history, the stored image and history, and what is noted then.
    #[rstest]
    #[case::made("InPlaceOnly", ("a:1", Some("forged")), None, None)]
    #[case::forged("InPlaceOnly", ("a:2", Some("x")), Some(("a:1", None)), Some(vec![image("a:1"), label()]))]
    #[case::forged_alone("InPlaceOnly", ("a:1", Some("forged")), Some(("a:1", None)), None)]
    #[case::kept("InPlaceOnly", ("a:1", Some("x")), Some(("a:1", Some("x"))), Some(vec!["x".to_owned()]))]
    #[case::left_out("InPlaceOnly", ("a:1", None), Some(("a:1", Some("x"))), Some(vec!["x".to_owned()]))]
    #[case::as_it_stands("InPlaceOnly", ("a:1", Some("")), Some(("a:1", Some(""))), Some(vec![String::new()]))]
    #[case::forgotten("InPlaceOnly", ("a:1", Some("")), Some(("a:1", Some("x"))), None)]
    #[case::one_more("InPlaceOnly", ("a:2", None), Some(("a:1", Some(NOTED))),
        Some(vec![image("a:1"), label(), NOTED.to_owned()]))]
    #[case::forgotten_but_for_the_last("InPlaceOnly", ("a:2", Some("")), Some(("a:1", Some(NOTED))),
        Some(vec![image("a:1"), label()]))]
    #[case::made_anew("ReCreate", ("a:2", None), Some(("a:1", None)), None)]
    #[case::made_anew_now("ReCreate", ("a:2", None), Some(("a:1", Some("x"))), Some(vec!["x".to_owned()]))]
    #[case::no_hash("InPlaceOnly", ("a:2", None), Some(("a:1", Some("x"))), Some(vec![image("a:1"), label()]))]
    fn what_is_noted(
        #[case] type_: &str,
        #[case] new: (&str, Option<&str>),
        #[case] old: Option<(&str, Option<&str>)>,
        #[case] expect: Option<Vec<String>>,
    ) {
        let old = old.map_or(Value::Null, |(image, history)| set("InPlaceOnly", image, history));
        assert_eq!(noted(set(type_, new.0, new.1), &old), expect);
    }

    #[test]
    fn the_history_has_a_bound() {
        let mut stored = set("InPlaceOnly", "a:0", None);
        for turn in 1..100 {
            let mut next = set("InPlaceOnly", &format!("a:{turn}"), None);
            note(&mut next, &stored);
            stored = next;
        }
        let all = noted(stored.clone(), &stored).unwrap();
        assert_eq!((all.len(), &all[0]), (MOST_PARTS, &image("a:98")));
        let mut many = set("InPlaceOnly", "a:1", None);
        let labels = (0..100).map(|at| (format!("l{at}"), Value::from("x")));
        many["spec"]["template"]["metadata"]["labels"] = Value::Object(labels.collect());
        assert_eq!(noted(set("InPlaceOnly", "a:1", None), &many).unwrap().len(), MOST_PARTS);
    }

    /// Rows: bytes that are free beside the other annotations, and the hashes that are noted.
    #[rstest]
    #[case::for_all(26 + 2 * 65, 2)]
    #[case::for_one(26 + 2 * 65 - 1, 1)]
    #[case::for_none(26, 0)]
    #[case::more_than_there_may_be(0, 0)]
    fn other_annotations_come_first(#[case] free: usize, #[case] hashes: usize) {
        let mut new = set("InPlaceOnly", "a:2", None);
        let key = "other";
        let other = "x".repeat(MOST_ANNOTATION_BYTES - free - key.len());
        new["metadata"]["annotations"] = json!({ key: other });
        let noted = noted(new, &set("InPlaceOnly", "a:1", None)).unwrap_or_default();
        assert_eq!((noted.len(), TEMPLATE_HISTORY.len()), (hashes, 26));
    }

    #[test]
    fn what_is_no_set_stays() {
        for given in [json!({}), json!({ "metadata": 1, "spec": { "template": [1] } }), json!([])] {
            let mut object = given.clone();
            note(&mut object, &set("InPlaceOnly", "a:1", None));
            assert_eq!(object, given);
        }
    }
}
