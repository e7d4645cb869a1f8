//! Values of variables that a pod reads from its metadata.

use super::{
    super::super::world::{annotation, label},
    *,
};
use crate::in_place_update::EnvReference;

#[test]
fn a_container_that_did_not_get_its_env_is_restarted_again_after_a_while() {
    let mut play = one();
    play.ask(&[], &[("k", "2")]);
    until(&mut play, "restart a");
    // The kubelet starts it with the old value all the same.
    play.world.overrides = [("a".into(), [(annotation("k"), "1".to_owned())].into())].into();
    for _ in 0..3 {
        play.goes_well();
        assert!(!plan(&mut play).contains(&"restart a".to_owned()));
        play.pass(200 * MILLI);
    }
    play.pass(Duration::from_secs(25));
    let begun = play.world.now;
    until(&mut play, "restart a");
    let waited = play.world.now - begun;
    assert!(waited > Duration::from_secs(4) && waited < Duration::from_secs(5), "{waited:?}");
}

#[test]
fn a_value_that_the_kubelet_puts_elsewhere_too_is_not_set() {
    let mut play = Play::of(World::of(&[("a", None, &["k"]), ("b", None, &["k", "l"])]));
    let request = play.ask(&[], &[("k", "2")]);
    let requests = [play.requests[&request].clone()];
    let keys = crate::in_place_update::updates::env::named(&requests);
    assert_eq!(keys, [annotation("k")].into());
    let mut view = play.view();
    let changes = [(annotation("k"), "2".to_owned()), (label("m"), "9".to_owned())].into();
    let values = |view: &_| crate::in_place_update::updates::env::values(view, &changes, &keys);
    let all = values(&view);
    assert_eq!(all.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(
        all.values().map(|env| env.0.len()).collect::<Vec<_>>(),
        [1, 1],
        "only what the request names"
    );
    assert!(all.values().all(|env| env.0[0].1 == "2"));
    view.containers[0].references.values_mut().for_each(|reference| reference.is_expanded = true);
    assert_eq!(values(&view).keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["b"]);
}

/// One long annotation may be read by any number of variables.
#[test]
fn values_of_a_pod_are_set_as_long_as_there_is_room() {
    let mut play = Play::of(World::of(&[("a", None, &["k"]), ("b", None, &["k"]), ("c", None, &["k"])]));
    let request = play.ask(&[], &[("k", "2")]);
    let keys = crate::in_place_update::updates::env::named(&[play.requests[&request].clone()]);
    let mut view = play.view();
    for (container, readers) in view.containers.iter_mut().zip([12, 4, 1]) {
        let reference = EnvReference { key: annotation("k"), is_expanded: false };
        container.references = (0..readers).map(|number| (format!("V{number}"), reference.clone())).collect();
    }
    for (kib, set) in [(1, "a b c"), (60, "a b c"), (100, "b c"), (300, "c"), (2000, "")] {
        let changes = [(annotation("k"), "x".repeat(kib << 10))].into();
        let values = crate::in_place_update::updates::env::values(&view, &changes, &keys);
        let names: Vec<&str> = values.keys().map(|name| name.as_str()).collect();
        assert_eq!(names.join(" "), set, "{kib} KiB");
    }
}
