//! Objects that are too deep or too large.

use serde_json::json;

use super::*;

/// Lists in lists.
fn lists(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| json!([inner]))
}

#[test]
fn what_is_too_deep_is_passed_over_and_said() {
    let read = |object: &Value| read(object).unwrap();
    let of = |levels| json!({ "metadata": { "name": "a" }, "spec": { "a": lists(levels) } });
    for (levels, fault) in [
        (108, None),
        (109, Some("spec.a is nested deeper than 110 levels")),
        (500, Some("spec.a is nested deeper than 110 levels")),
    ] {
        let object = read(&of(levels));
        assert_eq!(check(&object).err().as_deref(), fault, "{levels}");
        assert_eq!(object.value["metadata"]["name"], "a");
    }
    assert_eq!(read(&of(3)).value, of(3));
    assert_eq!(shallow(&of(3), 4), Err("spec.a is nested deeper than 4 levels".to_owned()));
}

#[test]
fn what_takes_too_much_memory_is_read_to_there_and_said() {
    let maps = |count: usize| json!({ "a": vec![json!({ "a": 1 }); count] });
    for (spec, fits) in [
        (maps(10_000), true),
        // 1.6 MB of text, of which nobody would think so.
        (maps(200_000), false),
        (json!({ "a": vec![json!([[], {}]); 200_000] }), false),
        (json!({ "a": "x".repeat(3 << 20) }), true),
        (json!({ "a": "x".repeat(9 << 20) }), false),
    ] {
        // Metadata come first in what an API server sends, and need not.
        for text in [
            format!(r#"{{"metadata":{{"name":"a"}},"spec":{spec}}}"#),
            format!(r#"{{"data":{spec},"metadata":{{"name":"a"}}}}"#),
        ] {
            let read = read(&mut serde_json::Deserializer::from_str(&text)).unwrap();
            let (is_whole, object) = (check(&read).is_ok(), read.value);
            assert_eq!((is_whole, &object["metadata"]["name"]), (fits, &json!("a")));
            assert!(!fits || object == serde_json::from_str::<Value>(&text).unwrap());
            assert!(memory(&object) < MOST_MEMORY + (10 << 20), "a text is read as a whole");
        }
    }
}

#[test]
fn a_text_is_read_as_far_as_an_object() {
    let maps = |count: usize| json!(vec![json!({ "a": 1 }); count]).to_string();
    for (text, is_read) in [
        (" {\"a\": [1, \"b\"]} ".to_owned(), true),
        (maps(10_000), true),
        // 1.6 MB.
        (maps(200_000), false),
        (lists(100).to_string(), true),
        (lists(500).to_string(), false),
        ("{} {}".to_owned(), false),
        ("{".to_owned(), false),
        (String::new(), false),
    ] {
        let read = read_text(&text);
        assert_eq!(read.is_some(), is_read, "{} bytes", text.len());
        assert!(read.is_none_or(|read| read == serde_json::from_str::<Value>(&text).unwrap()));
    }
}

/// Custom resources come with sorted keys: annotations and labels stand before the name.
#[test]
fn metadata_that_take_too_much_memory_say_whose_they_are() {
    let texts: Value = (0..70_000).map(|at| (format!("{at:05}"), json!("x"))).collect();
    let maps = json!(vec![json!({ "a": 1 }); 20_000]);
    let identity = json!({ "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
        "generation": 3, "deletionTimestamp": "2026-07-02T10:00:00Z" });
    let after = identity.to_string();
    let after = after.trim_matches(['{', '}']);
    for (field, value) in [("labels", &texts), ("annotations", &texts), ("ownerReferences", &maps)] {
        let text = format!(r#"{{"metadata":{{"{field}":{value},{after}}},"spec":{{"a":1}}}}"#);
        let object = read(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        assert!(check(&object).unwrap_err().starts_with(TOO_LARGE), "{field}");
        for (key, value) in identity.as_object().unwrap() {
            assert_eq!(&object.value["metadata"][key], value, "{key} after {field}");
        }
        // A name of maps is none, and takes nothing.
        let text = format!(r#"{{"metadata":{{"name":{value},"uid":"u"}}}}"#);
        let object = read(&mut serde_json::Deserializer::from_str(&text)).unwrap();
        assert!(memory(&object.value) < 10_000 && object.value["metadata"]["uid"] == "u");
    }
}

/// Nobody writes a field twice; should somebody, what stays counts.
#[test]
fn a_field_that_comes_again_counts_once() {
    let (first, twice) = (json!(vec![json!({ "a": 1 }); 10_000]), r#""a":1"#);
    let text = format!(r#"{{{twice},"b":{first},"b":{first},"b":{first}}}"#);
    let object = read(&mut serde_json::Deserializer::from_str(&text)).unwrap();
    assert_eq!((check(&object), object.value["b"].as_array().map(Vec::len)), (Ok(()), Some(10_000)));
}

#[test]
fn managed_fields_are_passed_over() {
    let object = json!({ "metadata": { "name": "a", "managedFields": [lists(500)] }, "managedFields": 1 });
    let object = read(&object).unwrap();
    assert_eq!(
        object.value,
        json!({ "metadata": { "name": "a" }, "managedFields": 1 }),
        "others of that name are"
    );
}
