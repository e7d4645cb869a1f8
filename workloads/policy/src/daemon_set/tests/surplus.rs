//! Nodes with a pod too many, such as those whose template has changed while a new pod was beside the old
//! one.

use super::*;

/// Rows: the pods of node j, those of the others, and which of the former is deleted.
#[rstest]
#[case::the_oldest_stays("o", "j:o j:m", "log-10-j")]
#[case::one_that_serves_stays("o", "j:o! j:m", "log-9-j")]
#[case::one_that_is_held_is_going("o", "j:oP j:m", "")]
#[case::of_new_ones_too("n", "j:n! j:n", "log-9-j")]
fn one_of_each_template_is_left(#[case] others: &str, #[case] pods: &str, #[case] deleted: &str) {
    let all = ten(others).replace(&format!("j:{others}"), pods);
    assert_eq!(goes(json!({ "maxSurge": 1, "maxUnavailable": 0 }), &all), deleted);
}

#[test]
fn one_that_is_held_before_its_deletion_is_none_that_is_left() {
    assert_eq!(goes(json!({}), &ten("n").replace("j:n", "j:nP j:n")), "");
    assert_eq!(goes(json!({}), &ten("n").replace("j:n", "j:n! j:n")), "log-10-j", "the oldest may be mended");
}

/// Names of the pods that are deleted; a hook holds those that are marked so.
fn goes(rolling: Value, pods: &str) -> String {
    let mut world = World::new(rolling, pods);
    world.spec["lifecycle"] = json!({ "preDelete": { "labelsHandler": { "hook": "true" } } });
    let deleted = world.plan().actions.into_iter().filter_map(|action| match action {
        Action::DeletePod(target) => Some(target.name),
        _ => None,
    });
    deleted.collect::<Vec<_>>().join(" ")
}
