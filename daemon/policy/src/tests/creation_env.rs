use std::{collections::BTreeMap, time::Instant};

use crate::{
    Config, CreateContainer, Declared, EnvValues, Event, Node, PodRef, tests::world::NowForTests as _,
};

fn create(pod: &str, container: &str) -> CreateContainer {
    CreateContainer {
        sandbox: "s".into(),
        pod: PodRef { uid: pod.into(), namespace: "ns".into(), name: "web".into() },
        container: container.into(),
        attempt: 1,
        declared: Declared::default(),
        images: Vec::new(),
    }
}

fn values(value: &str) -> EnvValues {
    EnvValues(vec![("CONFIG".to_owned(), value.to_owned())])
}

#[test]
fn values_are_those_of_the_pod_and_the_container_until_they_are_taken_back() {
    let (mut node, now) = (Node::new(Config::default()), Instant::now_for_tests());
    let mut set = |value: &str| {
        let of_main = [("main".into(), values(value))];
        node.apply(Event::CreationEnvSet("a".into(), of_main.into()), now);
        node.creation_env(&create("a", "main"))
    };
    assert_eq!(set("1"), values("1"));
    assert_eq!(set("2"), values("2"), "the newer ones count");
    for (pod, container) in [("a", "other"), ("b", "main")] {
        assert_eq!(node.creation_env(&create(pod, container)), EnvValues::default(), "{pod} {container}");
    }
    node.apply(Event::CreationEnvSet("a".into(), BTreeMap::new()), now);
    assert_eq!(node.creation_env(&create("a", "main")), EnvValues::default());
    assert!(node.creation_env.is_empty(), "nothing of it stays");
}
