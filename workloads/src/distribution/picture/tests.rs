use super::*;

fn namespace(name: &str, uid: &str) -> Input {
    let view = NamespaceView { uid: uid.to_owned(), ..NamespaceView::default() };
    Input::Namespace(Shown::Applied((name.to_owned(), view)))
}

/// A picture of two distributions; `one` minds namespaces whose names begin with `a`.
fn take(picture: &mut Picture, input: Input) -> Concerned {
    picture.take(input, |filed, change| filed.uid() == "one" && change.name.starts_with('a'))
}

fn picture() -> Picture {
    let mut picture = Picture::default();
    for uid in ["one", "two"] {
        let object = serde_json::json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution",
            "metadata": { "name": uid, "uid": uid, "resourceVersion": "1" },
            "spec": { "resource": {}, "targets": {} },
        });
        let filed = Filed::read(serde_json::from_value(object).unwrap()).unwrap();
        take(&mut picture, Input::Distribution(Shown::Applied(filed)));
    }
    picture
}

#[test]
fn only_what_changes_of_a_namespace_is_looked_at() {
    let one = || Concerned::Some(vec!["one".to_owned()]);
    let mut picture = picture();
    assert_eq!(
        take(&mut picture, namespace("a", "1")),
        Concerned::None,
        "the end of the list says it of all"
    );
    take(&mut picture, Input::Namespace(Shown::ListBegins));
    take(&mut picture, namespace("a", "1"));
    assert_eq!(take(&mut picture, Input::Namespace(Shown::ListEnds)), Concerned::All);
    assert_eq!(take(&mut picture, namespace("a", "1")), Concerned::None);
    assert_eq!(take(&mut picture, namespace("a", "2")), one(), "made anew");
    assert_eq!(take(&mut picture, namespace("other", "9")), Concerned::Some(Vec::new()), "nobody minds it");
    // The end of the one before it is late.
    assert_eq!(take(&mut picture, Input::Namespace(Shown::Gone("1".to_owned()))), Concerned::None);
    take(&mut picture, Input::Namespace(Shown::ListBegins));
    take(&mut picture, namespace("b", "3"));
    assert_eq!(take(&mut picture, Input::Namespace(Shown::ListEnds)), one());
    assert_eq!(picture.namespaces.keys().collect::<Vec<_>>(), ["b"]);
}

/// A distribution that takes so many KiB.
fn large(uid: &str, kib: usize) -> Filed {
    let object = serde_json::json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution",
        "metadata": { "name": uid, "uid": uid, "resourceVersion": "1" },
        "spec": { "resource": { "data": "x".repeat(kib << 10) }, "targets": {} },
    });
    Filed::read(serde_json::from_value(object).unwrap()).unwrap()
}

/// Nothing is decided on it, as its manifest is not known.
#[test]
fn one_without_room_is_known_by_its_name() {
    let mut picture = Picture::with_room(800 << 10);
    let shown = |uid: &str, kib| Input::Distribution(Shown::Applied(large(uid, kib)));
    take(&mut picture, shown("large", 500));
    assert!(picture.object("large").is_some() && picture.left_out().is_empty());
    let concerned = take(&mut picture, shown("other", 400));
    assert!(matches!(concerned, Concerned::Some(uids) if uids.contains(&"large".to_owned())));
    assert!(picture.object("large").is_none() && picture.object("other").is_some());
    assert_eq!((picture.returning("large"), picture.without_room()), (None, 1));
    let left_out = picture.left_out();
    assert_eq!(left_out.iter().map(|one| one.name.as_deref()).collect::<Vec<_>>(), [Some("large")]);
    assert_eq!(picture.all_left_out().len(), 1);
    // A write to it that was on its way brings nothing back.
    picture.wrote(large("large", 500));
    assert!(picture.object("large").is_none());
    take(&mut picture, Input::Distribution(Shown::Gone("other".to_owned())));
    assert_eq!((picture.returning("large"), picture.without_room()), (Some("large"), 0));
    picture.wrote(large("large", 500));
    assert!(picture.object("large").is_some() && picture.returning("large").is_none());
}
