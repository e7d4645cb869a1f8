//! The table on both sides: what is told makes the one from the other, and nothing more than is bounded.

use berth_policy::{CreationEnv, Declared, PodRef};

use super::*;

fn env(value: &str) -> CreationEnv {
    [("main".into(), EnvValues(vec![("CONFIG".to_owned(), value.to_owned())]))].into()
}

fn create(pod: &str) -> CreateContainer {
    CreateContainer {
        sandbox: "s".into(),
        pod: PodRef { uid: pod.into(), namespace: "ns".to_owned(), name: "web".to_owned() },
        container: "main".into(),
        attempt: 0,
        declared: Declared::default(),
        images: Vec::new(),
    }
}

fn plain(stop_passes: bool) -> Foretold {
    Foretold { stop_passes, status: None, hook: None, changing: false }
}

fn told(table: &mut Table, before: Option<&InAdvance>, after: &InAdvance) -> usize {
    let parts = changes(before, after, 1);
    let count = parts.len();
    assert_eq!(parts.iter().filter(|part| part.complete).count(), 1);
    assert_eq!(parts.iter().filter(|part| part.reset).count(), usize::from(before.is_none()));
    parts.into_iter().for_each(|part| table.change(part).unwrap());
    table.check_bounds();
    count
}

#[test]
fn changes_make_what_is_said_now_of_what_was_said_before() {
    let first = InAdvance {
        sandboxes: [("s".into(), Creations::All), ("t".into(), Creations::Of(["main".into()].into()))].into(),
        containers: [("a".into(), plain(true)), ("b".into(), plain(true))].into(),
        env: [("p".into(), env("1")), ("q".into(), env("1"))].into(),
        nudges: true,
    };
    let second = InAdvance {
        sandboxes: [("s".into(), Creations::Of(["other".into()].into()))].into(),
        containers: [("a".into(), plain(false)), ("b".into(), plain(true))].into(),
        env: [("q".into(), env("2"))].into(),
        nudges: false,
    };
    let mut table = Table::default();
    told(&mut table, None, &first);
    assert!(table.creates(&create("p")) && table.nudges());
    assert_eq!(table.env(&create("p")), env("1")[&"main".into()]);
    assert!(table.stops(&"a".into()) && table.stops(&"b".into()) && !table.stops(&"c".into()));
    told(&mut table, Some(&first), &second);
    assert!(!table.creates(&create("p")) && !table.nudges());
    assert_eq!(table.env(&create("p")), EnvValues::default());
    assert_eq!(table.env(&create("q")), env("2")[&"main".into()]);
    assert!(!table.stops(&"a".into()) && table.stops(&"b".into()));
    assert_eq!((table.sandboxes.len(), table.containers.len(), table.env.len()), (1, 2, 1));
    // An agent that is there anew says all of it.
    told(&mut table, None, &InAdvance::default());
    table.check_empty();
}

#[test]
fn what_is_beyond_the_bounds_is_not_taken_and_so_is_asked_about() {
    let many = 3 * MAX_ROWS / 2;
    let known = InAdvance {
        sandboxes: (0..many).map(|id| (id.to_string().into(), Creations::All)).collect(),
        containers: (0..many).map(|id| (id.to_string().into(), plain(true))).collect(),
        env: (0..30).map(|id| (id.to_string().into(), env(&"x".repeat(MAX_ENV / 20)))).collect(),
        nudges: false,
    };
    let mut table = Table::default();
    assert!(told(&mut table, None, &known) > 10, "more than one message has room for");
    assert_eq!((table.sandboxes.len(), table.containers.len()), (MAX_ROWS, MAX_ROWS));
    assert!((10..20).contains(&table.env.len()), "{}", table.env.len());
    let long = ContainerRow { container: "x".repeat(600), ..Default::default() };
    let change = TableChange { containers: vec![long], reset: true, ..Default::default() };
    assert!(table.change(change).is_err());
    assert_eq!(table.containers.len(), MAX_ROWS, "all of a change or nothing");
}
