//! The optional right to count custom resources of any kind, and to read how many pods one wants: it is
//! read-only, and no part of what everybody installs.

use super::*;

#[test]
fn the_piece_lets_the_manager_look_and_do_nothing_else() {
    let [role] = &all::<ClusterRole>("count-custom-resources", "ClusterRole")[..] else { panic!("one role") };
    let name = role.name_any();
    let expected = ["list */*", "get */*/scale"].map(|right| format!("{name}: {right}"));
    assert_eq!(name, "berth-counts-custom-resources");
    assert_eq!(grants(&name, role.rules.clone()), expected);
    let [bound] = &all::<ClusterRoleBinding>("count-custom-resources", "ClusterRoleBinding")[..] else {
        panic!("one binding")
    };
    assert_eq!(bound.role_ref.name, name);
    let [subject] = bound.subjects.as_deref().unwrap() else { panic!("{bound:?}") };
    let account = (subject.kind.as_str(), subject.namespace.as_deref(), subject.name.as_str());
    assert_eq!(account, ("ServiceAccount", Some("berth-system"), "berth-manager"));
    assert_eq!(objects("count-custom-resources").unwrap().len(), 2);
}

/// With everything it is there, as OpenKruise's manager has it; without a choice it is not.
#[test]
fn complete_has_it_and_deploy_has_not() {
    let components = |file: &str| {
        let text = std::fs::read_to_string(path(file)).unwrap();
        let file: Value = serde_saphyr::from_str(&text).unwrap();
        let list = |key: &str| file[key].as_array().cloned().unwrap_or_default();
        [list("resources"), list("components")].concat()
    };
    let complete = components("../complete/kustomization.yaml");
    let plain = components("kustomization.yaml");
    for component in ["count-custom-resources", "marker-finalizers"] {
        assert!(complete.contains(&Value::from(format!("../deploy/{component}"))), "{component}");
        assert!(!plain.contains(&Value::from(component)), "{component}");
    }
}
