//! The table on both sides: what is told makes the one from the other, and nothing more than is bounded.

use berth_policy::{CreationEnv, Creations, Declared, InAdvance, PodRef};

use super::{changes::MAX_POD, size::of_text, *};
use crate::remote::{
    calls::{MAX_LIST, MAX_NAME},
    frame::MAX_FRAME,
    message::ContainerRow,
};

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
    Foretold { stop_passes, status: None, hook: None, changing: false, quiet: stop_passes }
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
        pulls_pass: true,
        strangers_pass: true,
    };
    let second = InAdvance {
        sandboxes: [("s".into(), Creations::Of(["other".into()].into()))].into(),
        containers: [("a".into(), plain(false)), ("b".into(), plain(true))].into(),
        env: [("q".into(), env("2"))].into(),
        nudges: false,
        pulls_pass: false,
        strangers_pass: false,
    };
    let strangers =
        CreateContainer { declared: Declared { foreign: true, ..Declared::default() }, ..create("p") };
    let mut table = Table::default();
    told(&mut table, None, &first);
    assert!(table.creates(&create("p")) && table.nudges() && table.pulls_pass());
    assert!(!table.creates_for_stranger(&create("p")) && table.creates_for_stranger(&strangers));
    assert_eq!(["s", "t", "u"].map(|sandbox| table.creates_all(&sandbox.into())), [true, false, false]);
    assert_eq!(table.env(&create("p")), env("1")[&"main".into()]);
    assert!(table.stops(&"a".into()) && table.stops(&"b".into()) && !table.stops(&"c".into()));
    told(&mut table, Some(&first), &second);
    assert!(!table.creates(&create("p")) && !table.nudges() && !table.pulls_pass());
    assert!(!table.creates_for_stranger(&strangers));
    assert_eq!(table.env(&create("p")), EnvValues::default());
    assert_eq!(table.env(&create("q")), env("2")[&"main".into()]);
    assert!(!table.stops(&"a".into()) && table.stops(&"b".into()));
    assert_eq!((table.sandboxes.len(), table.containers.len(), table.env.len()), (1, 2, 1));
    // An agent that is there anew says all of it.
    told(&mut table, None, &InAdvance::default());
    table.check_empty();
}

/// In the order of the messages: which of two tables is in force after each.
#[test]
fn a_table_that_is_told_anew_is_in_force_when_all_of_it_is_told() {
    let of = |id: &'static str| {
        let before =
            TableChange { reset: true, nudges: true, pulls_pass: true, version: 2, ..Default::default() };
        let row =
            |id: &str| ContainerRow { container: id.to_owned(), stop_passes: true, ..Default::default() };
        let first = TableChange { containers: vec![row("first")], ..before.clone() };
        let more = TableChange { containers: vec![row(id)], reset: false, ..before };
        (first, more.clone(), TableChange { complete: true, ..more })
    };
    let (first, more, last) = of("new");
    let old = InAdvance { containers: [("old".into(), plain(true))].into(), ..InAdvance::default() };
    // the messages, whether the agent is gone after them, whether the new table is in force
    for (parts, is_gone, is_new) in [
        (vec![], false, false),
        (vec![&first], false, false),
        (vec![&first, &more], false, false),
        (vec![&first, &more], true, false),
        (vec![&first, &last], false, true),
        (vec![&first, &first, &more, &last], false, true),
        (vec![&first, &last], true, true),
    ] {
        let mut table = Table::default();
        told(&mut table, None, &old);
        parts.iter().for_each(|part| table.change((*part).clone()).unwrap());
        if is_gone {
            table.abandon();
            assert!(table.next.is_none());
        }
        table.check_bounds();
        let known = ["old", "first", "new"].map(|id| table.stops(&id.into()));
        assert_eq!(known, [!is_new, is_new, is_new], "{parts:?}");
        let switches = (table.nudges(), table.pulls_pass());
        assert_eq!((switches, table.version), ((is_new, is_new), if is_new { 2 } else { 1 }));
        assert!(table.is_whole());
        // The next agent tells all of it, and the one after that what has changed.
        told(&mut table, None, &InAdvance::default());
        table.check_empty();
        let first = TableChange { reset: true, ..Default::default() };
        table.change(first).unwrap();
        assert!(table.is_whole(), "of what was told");
    }
    // The first table of all is not one before it is whole.
    let mut table = Table::default();
    table.change(first).unwrap();
    assert!(!table.is_whole() && !table.stops(&"first".into()));
}

#[test]
fn what_is_beyond_the_bounds_is_not_taken_and_so_is_asked_about() {
    let many = 3 * MAX_ROWS / 2;
    let known = InAdvance {
        sandboxes: (0..many).map(|id| (id.to_string().into(), Creations::All)).collect(),
        containers: (0..many).map(|id| (id.to_string().into(), plain(true))).collect(),
        env: (0..30).map(|id| (id.to_string().into(), env(&"x".repeat(MAX_ENV / 20)))).collect(),
        nudges: false,
        pulls_pass: false,
        strangers_pass: false,
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

/// Some hundred kilobytes of names.
fn names() -> Creations {
    Creations::Of((0..1000).map(|number| format!("{number:0>500}").into()).collect())
}

#[test]
fn rows_are_bounded_in_bytes_and_what_goes_makes_room() {
    let full = InAdvance {
        sandboxes: (0..40).map(|id| (id.to_string().into(), names())).collect(),
        containers: [("a".into(), plain(true))].into(),
        ..InAdvance::default()
    };
    let mut table = Table::default();
    told(&mut table, None, &full);
    assert!((10..20).contains(&table.sandboxes.len()), "{}", table.sandboxes.len());
    let few = InAdvance { sandboxes: [("1".into(), Creations::All)].into(), ..InAdvance::default() };
    told(&mut table, Some(&full), &few);
    assert_eq!((table.sandboxes.len(), table.bytes), (1, of_text("1")));
    told(&mut table, Some(&few), &InAdvance::default());
    table.check_empty();
}

#[test]
fn an_agent_tells_no_more_than_the_line_and_the_shim_have_room_for() {
    let values = |bytes: usize| env(&"x".repeat(bytes));
    let long: CreationEnv = [("x".repeat(MAX_NAME + 1).into(), EnvValues::default())].into();
    let many: CreationEnv = (0..=MAX_LIST).map(|n| (n.to_string().into(), EnvValues::default())).collect();
    let mut known = InAdvance {
        sandboxes: (0..40).map(|id| (format!("{id:0>2}").into(), names())).collect(),
        // Before those that take all the room.
        containers: [("a".into(), plain(true)), ("x".repeat(MAX_NAME + 1).into(), plain(true))].into(),
        env: [
            ("a".into(), values(10)),
            ("b".into(), values(MAX_POD)),
            ("c".into(), values(MAX_POD - 1000)),
            ("d".into(), long),
            ("e".into(), many),
            ("f".into(), values(MAX_POD - 1000)),
            ("g".into(), values(MAX_POD - 1000)),
            ("h".into(), values(10)),
        ]
        .into(),
        nudges: true,
        pulls_pass: true,
        strangers_pass: true,
    };
    let sandboxes = known.sandboxes.len();
    let left_out = fit(&mut known);
    let pods: Vec<&str> = known.env.keys().map(PodUid::as_str).collect();
    assert_eq!(pods, ["a", "c", "f", "h"]);
    assert_eq!(left_out, 4 + 1 + sandboxes - known.sandboxes.len());
    assert!((5..10).contains(&known.sandboxes.len()) && known.containers.len() == 1);
    assert!(changes(None, &known, 1).iter().all(|part| prost::Message::encoded_len(part) < MAX_FRAME));
    let mut table = Table::default();
    told(&mut table, None, &known);
    let taken = (table.sandboxes.len(), table.containers.len(), table.env.len());
    assert_eq!(taken, (known.sandboxes.len(), 1, 4), "all that is told is taken");
    assert_eq!(fit(&mut known), 0);
}

/// Somebody's pods of many containers keep nobody else's rows out, and no container's.
#[test]
fn small_rows_are_told_before_large_ones() {
    // Some fifty kilobytes each, and too many of them.
    let wide = || Creations::Of((0..100).map(|number| format!("{number:0>436}").into()).collect());
    let wide_ones = (0..100).map(|id| (SandboxId::from(format!("a-{id:0>3}")), wide()));
    let others = (0..300).map(|id| (SandboxId::from(format!("b-{id:0>3}")), Creations::All));
    let mut known = InAdvance {
        sandboxes: wide_ones.chain(others).collect(),
        containers: (0..2000).map(|id| (format!("c-{id:0>4}").into(), plain(true))).collect(),
        env: (0..8)
            .map(|id| (id.to_string().into(), env(&"x".repeat(MAX_ENV / 10))))
            .chain([("z".into(), env("1"))])
            .collect(),
        ..InAdvance::default()
    };
    let left_out = fit(&mut known);
    let whole = known.sandboxes.values().filter(|row| **row == Creations::All).count();
    assert_eq!((known.containers.len(), whole), (2000, 300));
    assert!((50..100).contains(&(known.sandboxes.len() - whole)), "{}", known.sandboxes.len());
    assert!(known.env.contains_key(&"z".into()) && (3..8).contains(&known.env.len()), "{}", known.env.len());
    assert_eq!(left_out, 400 - known.sandboxes.len() + 9 - known.env.len());
}

/// One that the shim drops in silence would be taken for told.
#[test]
fn more_rows_than_the_shim_takes_are_left_out() {
    for more in [0, 1, 3] {
        let ids = (0..MAX_ROWS + more).map(|id| format!("{id:0>5}"));
        let containers = ids.map(|id| (id.into(), plain(true))).collect();
        let mut known = InAdvance { containers, ..InAdvance::default() };
        assert_eq!(fit(&mut known), more);
        let mut table = Table::default();
        told(&mut table, None, &known);
        assert_eq!((known.containers.len(), table.containers.len()), (MAX_ROWS, MAX_ROWS));
    }
}
