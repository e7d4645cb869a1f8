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
