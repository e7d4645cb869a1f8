//! Each kind of call, for each thing that the table may say, before the patience has ended and after.

use berth_policy::{
    CreateContainer, Creations, Declared, Foretold, InAdvance, PodRef, ShownInAdvance, StopContainer,
};

use super::*;
use crate::remote::table::changes;

const SECOND: Duration = Duration::from_secs(1);
const KUBELET: ConnectionId = ConnectionId(7);

fn table() -> Table {
    let plain = Foretold {
        stop_passes: true,
        status: Some(ShownInAdvance { showing: Showing::Truth, only_to: None }),
        hook: Some(HookTurn::Run),
        changing: false,
        quiet: false,
    };
    let shown = |showing, only_to| Foretold {
        status: Some(ShownInAdvance { showing, only_to }),
        stop_passes: false,
        changing: true,
        ..plain
    };
    let known = InAdvance {
        sandboxes: [
            ("plain".into(), Creations::All),
            ("ordered".into(), Creations::Of(["open".into()].into())),
        ]
        .into(),
        containers: [
            ("plain".into(), plain),
            ("ordered".into(), Foretold { stop_passes: false, ..plain }),
            ("ended".into(), shown(Showing::Completed, None)),
            ("replaced".into(), shown(Showing::OtherDefinition, Some(KUBELET))),
            ("hooked".into(), Foretold { hook: Some(HookTurn::AlreadyRun), ..plain }),
            ("undecided".into(), Foretold { status: None, hook: None, ..plain }),
        ]
        .into(),
        strangers_pass: true,
        ..InAdvance::default()
    };
    let mut table = Table::default();
    changes(None, &known, 1).into_iter().for_each(|change| table.change(change).unwrap());
    table
}

fn create(sandbox: &str, container: &str) -> Request {
    Request::CreateContainer(CreateContainer {
        sandbox: sandbox.into(),
        pod: PodRef { uid: "u".into(), namespace: "ns".to_owned(), name: "pod".to_owned() },
        container: container.into(),
        attempt: 0,
        declared: Declared::default(),
        images: Vec::new(),
    })
}

/// A creation in a sandbox that is not the kubelet's, with a plan or without.
fn strangers(priority: Option<i64>) -> Request {
    let Request::CreateContainer(create) = create("unknown", "a") else { panic!("not a create") };
    let plan = priority.map(|priority| Ok(vec![("a".into(), priority)]));
    let declared = Declared { plan, hinted: true, foreign: true };
    Request::CreateContainer(CreateContainer { declared, ..create })
}

fn stop(container: &str, timeout: u64) -> Request {
    Request::StopContainer(StopContainer {
        container: container.into(),
        timeout: Duration::from_secs(timeout),
    })
}

#[test]
fn calls() {
    let pass = Some(Decision::Pass(None));
    let refused = Some(Decision::Refuse(Refusal::AgentAway));
    let shorter = |seconds| Some(Decision::Pass(Some(Amendment::StopTimeout(seconds * SECOND))));
    // call, at once, a moment before the end of the patience, at it
    let table_of_calls = [
        (create("plain", "any"), pass.clone(), pass.clone(), pass.clone()),
        (create("ordered", "open"), pass.clone(), pass.clone(), pass.clone()),
        (create("ordered", "closed"), None, None, refused.clone()),
        (create("unknown", "open"), None, None, refused.clone()),
        (strangers(None), pass.clone(), pass.clone(), pass.clone()),
        (strangers(Some(1)), None, None, refused.clone()),
        (stop("plain", 30), pass.clone(), pass.clone(), pass.clone()),
        (stop("ordered", 30), None, None, shorter(25)),
        (stop("unknown", 30), None, None, shorter(25)),
        // Never below the kubelet's own floor, and never more than was asked for: these wait for less.
        (stop("ordered", 7), None, None, shorter(2)),
        (stop("ordered", 6), None, shorter(2), shorter(2)),
        (stop("ordered", 3), None, shorter(2), shorter(2)),
        (stop("ordered", 2), pass.clone(), pass.clone(), pass.clone()),
        (stop("ordered", 0), pass.clone(), pass.clone(), pass),
    ];
    let table = table();
    let moment = Duration::from_nanos(1);
    for (request, first, before, last) in table_of_calls {
        assert_eq!(of_call(&table, &request, Duration::ZERO, Duration::ZERO), first, "{request:?}");
        assert_eq!(of_call(&table, &request, PATIENCE - moment, PATIENCE - moment), before, "{request:?}");
        assert_eq!(of_call(&table, &request, PATIENCE, PATIENCE), last, "{request:?}");
    }
    // One that an agent is there to be asked about: where nothing is ordered, none.
    for (request, here) in [
        (create("plain", "any"), true),
        (create("ordered", "open"), false),
        (create("ordered", "closed"), false),
        (create("unknown", "open"), false),
        (stop("plain", 30), true),
        (stop("ordered", 30), false),
    ] {
        assert_eq!(passes(&table, &request, true), here, "{request:?}");
        let alone = of_call(&table, &request, Duration::ZERO, Duration::ZERO).is_some();
        assert_eq!(passes(&table, &request, false), alone, "{request:?}");
    }
    // An agent that is there is asked about these, too, and none has said anything of them in the beginning.
    assert!(!passes(&table, &strangers(None), true));
    assert_eq!(of_call(&Table::default(), &strangers(None), PATIENCE, PATIENCE), refused);
    let endless = stop("unknown", u64::MAX / 1_000_000_000_000);
    assert_eq!(of_call(&table, &endless, Duration::MAX, Duration::MAX), shorter(2));

    // An agent held it before: its grace counts from its arrival. wait without an agent, age
    let held = stop("ordered", 30);
    let table_of_ages = [
        (0, 27, None),
        (0, 28, shorter(2)),
        (1, 28, shorter(2)),
        (4, 24, None),
        (5, 24, shorter(6)),
        (5, 40, shorter(2)),
    ];
    for (waited, age, expected) in table_of_ages {
        assert_eq!(of_call(&table, &held, waited * SECOND, age * SECOND), expected, "{waited} {age}");
    }
}

#[test]
fn statuses() {
    let shown = |showing| Some(Answer::Shown(showing));
    let (truth, other) = (shown(Showing::Truth), shown(Showing::OtherDefinition));
    // container, connection, at once, at the end of the patience
    let table_of_statuses = [
        ("plain", 7, truth.clone(), truth.clone()),
        // These may have changed.
        ("ended", 7, None, shown(Showing::Completed)),
        ("replaced", 7, None, other),
        ("replaced", 8, None, truth.clone()),
        ("undecided", 7, None, truth.clone()),
        ("unknown", 7, truth.clone(), truth),
    ];
    let table = table();
    for (container, connection, first, last) in table_of_statuses {
        let of = |waited| of_status(&table, ConnectionId(connection), &container.into(), waited);
        assert_eq!((of(Duration::ZERO), of(PATIENCE)), (first, last), "{container} {connection}");
    }
}

#[test]
fn hooks() {
    let (runs, done) = (Some(Answer::Pass), Some(Answer::Done));
    let table_of_hooks = [
        ("plain", runs.clone(), runs.clone()),
        ("hooked", done.clone(), done),
        ("undecided", None, runs.clone()),
        ("unknown", runs.clone(), runs),
    ];
    let table = table();
    for (container, first, last) in table_of_hooks {
        let of = |waited| of_hook(&table, &container.into(), waited);
        assert_eq!((of(Duration::ZERO), of(PATIENCE)), (first, last), "{container}");
    }
}

#[test]
fn before_the_first_agent_has_come_everything_is_undecided() {
    let table = Table::default();
    let container = "plain".into();
    let status = |waited| of_status(&table, KUBELET, &container, waited);
    assert_eq!((status(Duration::ZERO), status(PATIENCE)), (None, Some(Answer::Shown(Showing::Truth))));
    assert!(!table.pulls_pass(), "an agent that comes may be pulling");
    let hook = |waited| of_hook(&table, &container, waited);
    let moment = Duration::from_nanos(1);
    assert_eq!((hook(HOOK_PATIENCE - moment), hook(HOOK_PATIENCE)), (None, Some(Answer::Pass)));
}

/// The agent's own pod can come when there is none, and nothing else can by that.
#[test]
fn containers_of_the_agents_namespace_are_created_without_one() {
    let Request::CreateContainer(mut create) = create("new", "berthd") else { panic!("a creation") };
    for (namespace, agents, expected) in [
        ("berth-system", Some("berth-system"), Some(Decision::Pass(None))),
        ("berth-system", None, None),
        ("shop", Some("berth-system"), None),
    ] {
        create.pod.namespace = namespace.into();
        let decision = of_agents(agents, &Request::CreateContainer(create.clone()));
        assert_eq!(decision, expected, "{namespace} {agents:?}");
    }
    assert_eq!(of_agents(Some("ns"), &stop("c", 1)), None);
}
