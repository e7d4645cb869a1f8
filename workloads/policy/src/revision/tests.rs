//! Revisions as they are made, found and compared.

use super::*;

fn template(image: &str) -> Map<String, Value> {
    let template = json!({
        "metadata": { "labels": { "app": "shop" } },
        "spec": { "containers": [{ "name": "main", "image": image }], "aFieldOfLater": { "b": 1 } },
    });
    template.as_object().cloned().unwrap()
}

fn owner(name: &str) -> Owner<'_> {
    static NONE: Labels = Labels::new();
    Owner {
        api_version: "apps.kruise.io/v1alpha1",
        kind: "CloneSet",
        namespace: "ns",
        name,
        uid: "u",
        annotations: &NONE,
    }
}

fn filed(object: &Value, number: i64) -> Revision {
    let mut revision: ControllerRevision = serde_json::from_value(object.clone()).unwrap();
    revision.revision = number;
    Revision::of(&revision).unwrap()
}

fn made(action: Action) -> Value {
    let Action::CreateRevision(object) = action else { panic!("{action:?}") };
    object
}

#[test]
fn a_template_gets_one_revision_and_its_old_one_back() {
    let first = made(*settle(owner("shop"), &template("a:1"), &[], None, 0).unwrap_err());
    assert_eq!(first["revision"], 1);
    assert_eq!(first["metadata"]["labels"]["app"], "shop");
    assert_eq!(first["data"]["spec"]["template"]["$patch"], "replace");
    assert!(first["metadata"]["labels"][REVISION_LABEL].is_null());
    let daemons = Owner { kind: "DaemonSet", ..owner("shop") };
    let of_daemons = made(*settle(daemons, &template("a:1"), &[], None, 0).unwrap_err());
    let labels = &of_daemons["metadata"]["labels"];
    assert_eq!(labels[REVISION_LABEL], labels[HASH_LABEL]);
    let one = filed(&first, 1);
    assert_eq!(one.template, template("a:1"), "newer fields stay");
    let second = made(*settle(owner("shop"), &template("a:2"), &[&one], None, 0).unwrap_err());
    assert_eq!(second["revision"], 2);
    let two = filed(&second, 2);
    let all = [&one, &two];
    let live = settle(owner("shop"), &template("a:2"), &all, Some(&one.name), 0).unwrap();
    assert_eq!((live.update.number, live.current.number), (2, 1));
    // Back to the first.
    let raised = settle(owner("shop"), &template("a:1"), &all, Some(&one.name), 0).unwrap_err();
    assert!(matches!(&*raised, Action::RaiseRevision(target, 3) if target.name == one.name), "{raised:?}");
    // A current one that is gone is the newest.
    let live = settle(owner("shop"), &template("a:2"), &all, Some("shop-gone"), 0).unwrap();
    assert_eq!(live.current.name, live.update.name);
}

#[test]
fn a_template_that_is_written_back_keeps_its_revision() {
    let first = made(*settle(owner("shop"), &template("a:1"), &[], None, 0).unwrap_err());
    let one = filed(&first, 1);
    let mut back = template("a:1");
    back["metadata"]["creationTimestamp"] = Value::Null;
    back["spec"]["containers"][0]["resources"] = json!({});
    assert_eq!(settle(owner("shop"), &back, &[&one], None, 0).unwrap().update.name, one.name);
}

/// It is ours to say in a revision, and an author may write it too: no revision would ever be the
/// template's, and each plan would make one more.
#[test]
fn a_template_with_a_word_of_revisions_has_one_revision() {
    for word in [json!("replace"), json!("merge"), json!(["x"])] {
        let mut given = template("a:1");
        given.insert(PATCH.to_owned(), word);
        let one = filed(&made(*settle(owner("shop"), &given, &[], None, 0).unwrap_err()), 1);
        assert_eq!(settle(owner("shop"), &given, &[&one], None, 0).unwrap().update.name, one.name);
        assert!(one.has(&given) && one.is_named_after_its_template());
    }
}

#[test]
fn a_revision_whose_template_was_changed_has_a_name_of_another_one() {
    let of = |collisions| made(*settle(owner("shop"), &template("a:1"), &[], None, collisions).unwrap_err());
    let is_named = |collisions| filed(&of(collisions), 1).is_named_after_its_template();
    assert!(is_named(0) && is_named(1) && is_named(7));
    let mut changed = of(0);
    changed["data"]["spec"]["template"]["spec"]["priority"] = 1.into();
    assert!(!filed(&changed, 1).is_named_after_its_template());
}

#[test]
fn the_order_of_keys_makes_no_revision() {
    let object = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let (one, other) = (object(r#"{"a":{"x":1,"y":2},"b":1}"#), object(r#"{"b":1,"a":{"y":2,"x":1}}"#));
    assert_eq!(sorted(&one).to_string(), sorted(&other).to_string());
    let name = |collisions| {
        made(*settle(owner("shop"), &template("a:1"), &[], None, collisions).unwrap_err())["metadata"]["name"]
            .clone()
    };
    assert_ne!(name(0), name(1), "a name that is taken is not tried again");
}

#[test]
fn a_long_name_is_cut() {
    let name = "ä".repeat(200);
    let made = made(*settle(owner(&name), &template("a:1"), &[], None, 0).unwrap_err());
    assert!(made["metadata"]["name"].as_str().unwrap().len() <= 253);
}

#[test]
fn long_and_short_labels_mix() {
    let made = made(*settle(owner("shop-a"), &template("a:1"), &[], None, 0).unwrap_err());
    let revision = filed(&made, 1);
    assert!(revision.is_of(&revision.name) && revision.is_of(revision.hash()) && !revision.is_of(""));
    assert!(!revision.is_of("shop-a-bcdfg"));
}

#[test]
fn the_oldest_that_nothing_needs_go() {
    let base = made(*settle(owner("shop"), &template("a:1"), &[], None, 0).unwrap_err());
    let all: Vec<Revision> =
        (1..=5).map(|number| Revision { name: format!("r-{number}"), ..filed(&base, number) }).collect();
    let gone = surplus(&all.iter().collect::<Vec<_>>(), 2, |one| one.number == 2);
    let names: Vec<_> = gone
        .iter()
        .map(|action| match action {
            Action::DeleteRevision(target) => target.name.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["r-1", "r-3"]);
}

#[test]
fn a_revision_without_its_template_is_small_and_older_than_any_other() {
    let action = settle(owner("shop"), &template("a:1"), &[], None, 0).unwrap_err();
    let mut object = made(*action);
    object["metadata"]["resourceVersion"] = "7".into();
    let revision = filed(&object, 3);
    assert!(!revision.is_bare() && revision.version() == 7);
    assert!(revision.memory() > 2000, "{}", revision.memory());
    let bare = revision.clone().bare();
    assert!(bare.is_bare() && bare.version() == 0 && bare.memory() < revision.memory());
    assert_eq!((&bare.name, &bare.owner, bare.number), (&revision.name, &revision.owner, 3));
    let no_template = Revision { template: Map::new(), ..revision };
    assert!(!no_template.is_bare(), "it is known that there is nothing in it");
}
