//! Declarations that a pod may make, and the order each gives.

use crate::launch_priority::{EnvValue, EnvValue::Plain, LaunchOrder, OrderError};

fn sequence(order: Result<Option<LaunchOrder>, OrderError>) -> Result<String, String> {
    let order = order.map_err(|error| error.to_string())?;
    let describe = |order: LaunchOrder| {
        order
            .launch_sequence()
            .map(|(name, priority)| format!("{name}={priority}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    Ok(order.map_or_else(|| "unordered".to_owned(), describe))
}

#[test]
fn a_declared_order() {
    let plain = |value| Some(Plain(value));
    type Containers<'a> = &'a [(&'a str, Option<EnvValue<'a>>)];
    let table: &[(Option<&str>, Containers<'_>, &str)] = &[
        (None, &[("a", None), ("b", None)], "unordered"),
        (None, &[("a", plain("5"))], "unordered"),
        (None, &[("a", plain("5")), ("b", plain("+5"))], "unordered"),
        (None, &[("a", None), ("b", plain("1"))], "b=1 a=0"),
        (None, &[("a", None), ("b", plain("-1"))], "a=0 b=-1"),
        (None, &[("c", plain("1")), ("b", plain("2")), ("a", plain("2"))], "b=2 a=2 c=1"),
        (
            None,
            &[("low", plain("-2147483647")), ("high", plain("2147483647"))],
            "high=2147483647 low=-2147483647",
        ),
        (Some("Ordered"), &[("a", None), ("b", None), ("c", None)], "a=0 b=-1 c=-2"),
        (Some("Ordered"), &[("a", plain("1")), ("b", plain("nonsense"))], "a=0 b=-1"),
        (Some("Ordered"), &[("a", None)], "unordered"),
        (None, &[("a", plain("nonsense"))], "unordered"),
        (None, &[("a", Some(EnvValue::ValueFrom))], "unordered"),
        (Some("nonsense"), &[("a", None)], "unordered"),
    ];
    for (annotation, containers, expect) in table {
        let order = LaunchOrder::declared(*annotation, containers.iter().copied());
        assert_eq!(sequence(order).as_deref(), Ok(*expect), "{annotation:?} {containers:?}");
    }
}

#[test]
fn a_bad_order_names_the_field_the_object_and_the_remedy() {
    for value in
        ["", "high", "1.5", "0x10", " 1", "1 ", "2147483648", "-2147483648", "99999999999999999999", "1e3"]
    {
        let error =
            LaunchOrder::declared(None, [("a", None), ("b", Some(Plain(value)))]).unwrap_err().to_string();
        for part in ["KRUISE_CONTAINER_PRIORITY", "\"b\"", &format!("{value:?}"), "create the pod anew"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }
    let error = LaunchOrder::declared(None, [("a", None), ("b", Some(EnvValue::ValueFrom))]).unwrap_err();
    assert_eq!(error, OrderError::ValueFrom { container: "b".into() });
    let error = LaunchOrder::declared(Some("ordered"), [("a", None), ("b", None)]).unwrap_err();
    assert_eq!(error, OrderError::NotOrdered { value: "ordered".to_owned() });
}

#[test]
fn a_plan() {
    let plan = |entries: &[(&str, i64)]| {
        sequence(LaunchOrder::planned(entries.iter().map(|(name, value)| ((*name).into(), *value))))
    };
    assert_eq!(plan(&[("a", 0), ("b", 7)]).as_deref(), Ok("b=7 a=0"));
    assert_eq!(plan(&[("a", 0), ("b", 0)]).as_deref(), Ok("unordered"));
    assert_eq!(plan(&[]).as_deref(), Ok("unordered"));
    for value in [i64::from(i32::MIN), i64::from(i32::MAX) + 1, i64::MIN] {
        let error = plan(&[("a", 0), ("b", value)]).unwrap_err();
        assert!(error.contains("\"b\"") && error.contains(&value.to_string()), "{error}");
    }
}

#[test]
fn above_and_below() {
    let order = LaunchOrder::declared(
        None,
        [("c", Some(Plain("1"))), ("a", Some(Plain("3"))), ("b", Some(Plain("2"))), ("b2", Some(Plain("2")))],
    )
    .unwrap()
    .unwrap();
    let names = |names: Vec<&crate::ContainerName>| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(order.above(1)), ["a", "b", "b2"]);
    assert_eq!(names(order.above(2)), ["a"]);
    assert!(order.above(3).is_empty());
    assert_eq!(names(order.below(3)), ["b", "b2", "c"]);
    assert_eq!(names(order.below(2)), ["c"]);
    assert!(order.below(1).is_empty());
    assert_eq!((order.index(&"b".into()), order.index(&"init".into())), (Some(2), None));
}
