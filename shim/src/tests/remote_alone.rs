//! The side of the shim by itself, on paused time: nobody is there, one comes and dies, one stands still.

use std::{sync::Arc, time::Duration};

use berth_policy::{
    Amendment, CallId, ConnectionId, ContainerId, CredentialKey, Event, HoldReason, Refusal, Showing,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use super::bed::{Told, call, create, stop};
use crate::{
    Metrics,
    gate::{Answer, Decision, Gate, Query},
    remote::{
        RemoteGate,
        answers::held_to_wire,
        message::{AnswerTo, Answers, ContainerRow, Nothing, Said, TableChange, ToShim},
    },
};

#[tokio::test(start_paused = true)]
async fn without_an_agent_each_call_has_its_default_after_the_patience() {
    let gate = RemoteGate::new(Metrics::default());
    let (told, _held) = mpsc::unbounded_channel();
    let told = Told(told, None);
    let begun = Instant::now();
    let decide = async |request| gate.decide(&call(1, request), &told).await;
    assert_eq!(decide(create("a")).await, Decision::Refuse(Refusal::AgentAway));
    assert_eq!(begun.elapsed().as_secs(), 5);
    let rest = Amendment::StopTimeout(Duration::from_secs(25));
    assert_eq!(decide(stop("a")).await, Decision::Pass(Some(rest)));
    assert_eq!(begun.elapsed().as_secs(), 10);
    sleep(Duration::from_secs(5)).await;
    let (connection, container) = (ConnectionId(1), ContainerId::from("c"));
    let truth = Answer::Shown(Showing::Truth);
    assert_eq!(gate.answer(Query::Status { connection, container: &container }).await, truth);
    assert_eq!(gate.answer(Query::Hook { connection, container: &container }).await, Answer::Pass);
    assert_eq!(begun.elapsed().as_secs(), 15, "none has come for longer than a look waits");
    let (number, _outgoing) = gate.begin();
    let whole = TableChange { reset: true, complete: true, ..Default::default() };
    gate.heard(number, ToShim { said: Some(Said::Table(whole)) }).unwrap();
    gate.ended(number);
    assert_eq!(gate.answer(Query::Status { connection, container: &container }).await, truth);
    assert_eq!(gate.answer(Query::Hook { connection, container: &container }).await, Answer::Pass);
    let pull = Query::Pull { call: CallId(9), image: "i", credential: CredentialKey(1), trace: None };
    assert_eq!(gate.answer(pull).await, Answer::Pass);
    assert_eq!(begun.elapsed().as_secs(), 15, "nobody waits for these");
}

#[tokio::test(start_paused = true)]
async fn the_grace_of_a_stop_counts_from_its_arrival() {
    // seconds before the agent goes, and the rest that is left at the end of the wait of so long
    for (held, waits, rest) in [(0, 5, 25), (20, 5, 5), (27, 1, 2), (40, 0, 2)] {
        let gate = RemoteGate::new(Metrics::default());
        let (told, _held) = mpsc::unbounded_channel();
        let stopped = call(1, stop("a"));
        sleep(Duration::from_secs(held)).await;
        let begun = Instant::now();
        let rest = Decision::Pass(Some(Amendment::StopTimeout(Duration::from_secs(rest))));
        assert_eq!(gate.decide(&stopped, &Told(told, None)).await, rest, "held for {held} s");
        assert_eq!(begun.elapsed().as_secs(), waits, "held for {held} s");
    }
}

#[tokio::test(start_paused = true)]
async fn agents_that_come_and_die_again_and_again_are_waited_for_no_longer_than_one_that_is_away() {
    let gate = RemoteGate::new(Metrics::default());
    let crashing = gate.clone();
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(1500)).await;
            let (number, _outgoing) = crashing.begin();
            let whole = TableChange { reset: true, complete: true, ..Default::default() };
            crashing.heard(number, ToShim { said: Some(Said::Table(whole)) }).unwrap();
            assert!(crashing.has_agent());
            sleep(Duration::from_millis(100)).await;
            crashing.ended(number);
        }
    });
    let (told, _held) = mpsc::unbounded_channel();
    let told = Told(told, None);
    let rest = |seconds| Decision::Pass(Some(Amendment::StopTimeout(Duration::from_secs(seconds))));
    for (request, expected) in [(create("a"), Decision::Refuse(Refusal::AgentAway)), (stop("a"), rest(25))] {
        let begun = Instant::now();
        assert_eq!(gate.decide(&call(1, request), &told).await, expected);
        // Five seconds alone, and the three or four times that somebody was there.
        let waited = begun.elapsed();
        assert!((5000..5500).contains(&waited.as_millis()), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stands_still_is_one_that_is_away_until_it_goes_on() {
    let gate = RemoteGate::new(Metrics::default());
    let (number, _outgoing) = gate.begin();
    let whole = TableChange { reset: true, complete: true, ..Default::default() };
    gate.heard(number, ToShim { said: Some(Said::Table(whole)) }).unwrap();
    assert!(gate.has_agent());
    let looks = gate.clone();
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_secs(1)).await;
            looks.look(number);
        }
    });
    sleep(Duration::from_secs(60)).await;
    assert!(gate.has_agent(), "nobody has asked it anything");
    let begun = Instant::now();
    let (told, _held) = mpsc::unbounded_channel();
    let decision = gate.decide(&call(1, create("a")), &Told(told, None)).await;
    assert_eq!(decision, Decision::Refuse(Refusal::AgentAway));
    assert!(begun.elapsed() <= Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(!gate.has_agent());
    gate.heard(number, ToShim { said: Some(Said::Pong(Default::default())) }).unwrap();
    assert!(gate.has_agent());
}

/// An agent that goes at once, and one that says more. Without an answer the hook would run.
#[tokio::test(start_paused = true)]
async fn an_agent_that_has_answered_has_answered() {
    for goes in [true, false] {
        let gate = RemoteGate::new(Metrics::default());
        let (number, _outgoing) = gate.begin();
        let say = |said| gate.heard(number, ToShim { said: Some(said) }).unwrap();
        say(Said::Table(TableChange { reset: true, complete: true, ..Default::default() }));
        let answers = async {
            // The question is asked first.
            tokio::task::yield_now().await;
            say(Said::Answer(AnswerTo { question: 1, answer: Some(Answers::Done(Nothing {})) }));
            match goes {
                true => gate.ended(number),
                false => say(Said::Held(held_to_wire(1, &HoldReason::Inspection))),
            }
        };
        let (connection, container) = (ConnectionId(1), ContainerId::from("c"));
        let asks = gate.answer(Query::Hook { connection, container: &container });
        let both = async { tokio::join!(asks, answers) };
        let (answer, ()) = timeout(Duration::from_secs(60), both).await.expect("it waits for nothing more");
        assert_eq!(answer, Answer::Done, "{goes}");
    }
}

/// Calls that wait meanwhile are answered by the table before it, and never by half of the new one.
#[tokio::test(start_paused = true)]
async fn an_agent_that_dies_while_it_tells_its_table_leaves_the_one_before_in_force() {
    let gate = RemoteGate::new(Metrics::default());
    let ended =
        |id: &str| ContainerRow { container: id.to_owned(), status: 5, hook: 2, ..Default::default() };
    let part = |containers, reset, complete| ToShim {
        said: Some(Said::Table(TableChange { containers, reset, complete, ..Default::default() })),
    };
    let (first, _outgoing) = gate.begin();
    gate.heard(first, part(vec![ended("a"), ended("b")], true, true)).unwrap();
    gate.ended(first);
    let (connection, b) = (ConnectionId(1), ContainerId::from("b"));
    let check = async |expected: bool| {
        let begun = Instant::now();
        let shown = if expected { Showing::Completed } else { Showing::Truth };
        let status = gate.answer(Query::Status { connection, container: &b }).await;
        assert_eq!(status, Answer::Shown(shown));
        let hook = gate.answer(Query::Hook { connection, container: &b }).await;
        assert_eq!(hook, if expected { Answer::Done } else { Answer::Pass });
        assert_eq!(gate.is_completed(&b), expected);
        assert_eq!(begun.elapsed(), Duration::ZERO, "nothing that has to be waited for");
    };
    check(true).await;
    for _ in 0..3 {
        let (number, _outgoing) = gate.begin();
        gate.heard(number, part(vec![ended("a")], true, false)).unwrap();
        assert!(!gate.has_agent());
        check(true).await;
        gate.ended(number);
        check(true).await;
    }
    let (last, _outgoing) = gate.begin();
    gate.heard(last, part(vec![ended("a")], true, false)).unwrap();
    gate.heard(last, part(vec![], false, true)).unwrap();
    gate.ended(last);
    check(false).await;
}

/// The kubelet asks about forty pods some eight times a second, for their logs.
#[tokio::test(start_paused = true)]
async fn looks_that_mean_nothing_are_told_to_nobody() {
    let gate = RemoteGate::new(Metrics::default());
    let (number, outgoing) = gate.begin();
    let row =
        |id: &str, quiet| ContainerRow { container: id.to_owned(), status: 1, quiet, ..Default::default() };
    let containers = vec![row("plain", true), row("followed", false)];
    let whole = TableChange { containers, reset: true, complete: true, ..Default::default() };
    gate.heard(number, ToShim { said: Some(Said::Table(whole)) }).unwrap();
    let connection = ConnectionId(1);
    let look = |id: &str| {
        let before = outgoing.waiting();
        gate.observe(Event::StatusAsked { container: id.into(), connection });
        outgoing.waiting() > before
    };
    assert!(look("plain"), "the first word of a connection is told, so that its end is");
    assert_eq!([look("plain"), look("followed"), look("unknown"), look("plain")], [false, true, true, false]);
}

/// The kubelet looks at one container after the other: with 5 s for each its node would not be Ready. Few are
/// in the middle of a change, and their answers are what matters; before an agent has said anything, any may
/// be. A hook waits out of the grace of its pod, so it waits less then.
#[tokio::test(start_paused = true)]
async fn looks_wait_for_an_agent_all_together() {
    let plain = ContainerRow { status: 1, hook: 1, ..Default::default() };
    let changing = ContainerRow { changing: true, ..plain.clone() };
    let undecided = ContainerRow { status: 0, hook: 0, ..plain.clone() };
    let (none, longer) = (([0; 4], 0), ([5, 5, 5, 0], 15));
    // the row of each in a whole table, what is asked, how long the first ones wait, and all
    for (what, row, is_hook, expected) in [
        ("no table", None, false, longer),
        ("no table, hooks", None, true, ([2, 0, 0, 0], 2)),
        ("plain", Some(plain.clone()), false, none),
        ("plain, hooks", Some(plain), true, none),
        ("changing", Some(changing.clone()), false, longer),
        ("undecided", Some(undecided.clone()), false, longer),
        ("hooks that are undecided", Some(undecided), true, longer),
        ("hooks that run", Some(changing), true, none),
    ] {
        let gate = RemoteGate::new(Metrics::default());
        if let Some(row) = row {
            let (number, _outgoing) = gate.begin();
            let containers =
                (0..40).map(|id| ContainerRow { container: id.to_string(), ..row.clone() }).collect();
            let whole = TableChange { containers, reset: true, complete: true, ..Default::default() };
            gate.heard(number, ToShim { said: Some(Said::Table(whole)) }).unwrap();
            gate.ended(number);
        }
        let begun = Instant::now();
        let mut waited = Vec::new();
        for container in 0..40 {
            let (begun, container) = (Instant::now(), ContainerId::from(container.to_string()));
            let (connection, container) = (ConnectionId(1), &container);
            let (query, answer) = match is_hook {
                true => (Query::Hook { connection, container }, Answer::Pass),
                false => (Query::Status { connection, container }, Answer::Shown(Showing::Truth)),
            };
            assert_eq!(gate.answer(query).await, answer, "{what}");
            waited.push(begun.elapsed().as_secs());
        }
        let (first, all) = expected;
        assert_eq!((&waited[..4], begun.elapsed().as_secs()), (&first[..], all), "{what}");
    }
}

/// A sidecar that was being stopped exits while a new process of the shim waits for its first table.
#[tokio::test(start_paused = true)]
async fn a_look_at_a_shim_that_has_just_begun_waits_for_its_first_table() {
    let completed = Answer::Shown(Showing::Completed);
    // when an agent comes, when it is looked, what is asked, and what is answered after how long
    for (comes, looked, what, expected, waits) in [
        (8, 6, "status", completed.clone(), 2),
        (8, 6, "hook", Answer::Pass, 0),
        (1, 0, "status", completed, 1),
        (1, 0, "hook", Answer::Done, 1),
        (8, 0, "hook", Answer::Pass, 2),
    ] {
        let gate = begins_alone(comes);
        sleep(Duration::from_secs(looked)).await;
        let (begun, connection, container) = (Instant::now(), ConnectionId(1), &ContainerId::from("c"));
        let query = match what {
            "hook" => Query::Hook { connection, container },
            _ => Query::Status { connection, container },
        };
        assert_eq!(gate.answer(query).await, expected, "{what} at {looked} s");
        assert_eq!(begun.elapsed().as_secs(), waits, "{what} at {looked} s");
    }
}

/// With Evented PLEG the kubelet has all statuses of a sandbox at once, and asks for no others.
#[tokio::test(start_paused = true)]
async fn statuses_of_sandboxes_wait_for_the_first_table_as_looks_do() {
    // when an agent comes, and how long the first ones wait
    for (comes, waits) in [(100, [5, 5, 5, 0]), (8, [5, 3, 0, 0]), (0, [0; 4])] {
        let gate = begins_alone(comes);
        sleep(Duration::from_millis(1)).await;
        let mut waited = Vec::new();
        for _ in waits {
            let begun = Instant::now();
            gate.can_tell().await;
            waited.push((begun.elapsed().as_millis() + 500) / 1000);
        }
        assert_eq!(waited, waits, "{comes}");
        assert_eq!(gate.is_completed(&"c".into()), comes < 100);
    }
}

/// A gate to which an agent comes after so many seconds, tells that `c` is completed, and goes.
fn begins_alone(comes: u64) -> Arc<RemoteGate> {
    let gate = RemoteGate::new(Metrics::default());
    let comes_to = gate.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(comes)).await;
        let (number, _outgoing) = comes_to.begin();
        let row = ContainerRow { container: "c".to_owned(), status: 5, hook: 2, ..Default::default() };
        let whole = TableChange { containers: vec![row], reset: true, complete: true, ..Default::default() };
        comes_to.heard(number, ToShim { said: Some(Said::Table(whole)) }).unwrap();
        comes_to.ended(number);
    });
    gate
}
