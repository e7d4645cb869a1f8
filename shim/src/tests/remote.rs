//! Both sides of the line over a real socket: agents that come, go, and stand still while calls wait.

#[path = "remote_alone.rs"]
mod alone;
#[path = "remote_bed.rs"]
mod bed;
#[path = "remote_known.rs"]
mod known;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use berth_policy::{
    Amendment, Call, CallId, ConnectionId, ContainerId, CreateContainer, Creations, CredentialKey, Declared,
    EnvValues, Event, HoldReason, InAdvance, Latch, PodRef, Request, Showing, StopContainer, Verdict,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::bed::{Authority, Bed, PASS, call, create, stop, trace};
use super::{
    AgentLink, Foresight, Line, LineEnds, RemoteGate, VERSION,
    line::check_peer,
    message::{Asks, CallMade, Nothing, Question as Asked, ShimHello, ToAgent, Told as Words},
    questions::{Question, locked},
};
use crate::{
    Listener, Metrics, RuntimeEndpoint, bind,
    gate::{Answer, BoxFuture, Decision, Gate, Holds, Query},
    hold::decide_by_asking,
    trace::TraceParent,
};

/// The mode of the socket keeps others out as well; this holds whatever becomes of that.
#[test]
fn only_root_and_our_own_user_may_say_anything() {
    const NOBODY: u32 = 65534;
    // peer, this process, may say anything
    for (peer, own, may) in [
        (0, 0, true),
        (0, 1000, true),
        (1000, 1000, true),
        (1000, 0, false),
        (NOBODY, 0, false),
        (1, 1000, false),
    ] {
        let refused = check_peer(peer, own).map_err(|error| error.to_string());
        let expected = if may { Ok(()) } else { Err(format!("uid {peer} is not root")) };
        assert_eq!(refused, expected, "{peer} at {own}");
    }
}

#[tokio::test]
async fn a_creation_waits_for_the_agent_s_word_and_knows_why() {
    let bed = Bed::new().await;
    let mut agent = bed.agent().await;
    let (decision, mut held) = bed.decide(call(1, create("a")));
    assert_eq!(held.recv().await.as_deref(), Some("not-ready"));
    assert!(!decision.is_finished());
    agent.authority.open("a");
    assert_eq!(decision.await.unwrap(), PASS);
    // Durable before the answer.
    agent.hears("persist 1").await;
    agent.authority.open("b");
    let (decision, _) = bed.decide(call(2, stop("b")));
    let amended = Decision::Pass(Some(Amendment::StopTimeout(Duration::from_secs(3))));
    assert_eq!(decision.await.unwrap(), amended);
}

#[tokio::test]
async fn an_agent_that_traces_hears_where_a_call_belongs_and_another_one_does_not() {
    let bed = Bed::new().await;
    let traced = format!("trace {}", trace().unwrap());
    let mut agent = bed.agent().await;
    assert!(!bed.gate.traces());
    agent.authority.open("a");
    assert_eq!(bed.decide(call(1, create("a"))).0.await.unwrap(), PASS);
    agent.hears("admit a open").await;
    assert!(!agent.heard().contains(&traced));
    agent.kill(&bed).await;

    let (authority, hears) = Authority::new();
    authority.traces.store(true, Ordering::Relaxed);
    let mut agent = bed.agent_of(authority, hears).await;
    assert!(bed.gate.traces());
    let (decision, _held) = bed.decide(call(2, create("b")));
    agent.hears(&traced).await;
    let pull = Query::Pull { call: CallId(3), image: "i", credential: CredentialKey(1), trace: trace() };
    assert_eq!(bed.gate.answer(pull).await, Answer::Pulled("sha256:i".to_owned()));
    agent.hears(&traced).await;
    agent.kill(&bed).await;

    // It still belongs there when the next one is asked, who wants to know no more.
    let mut next = bed.agent().await;
    next.hears(&traced).await;
    assert!(!bed.gate.traces());
    next.authority.open("b");
    assert_eq!(decision.await.unwrap(), PASS);
}

#[tokio::test]
async fn an_agent_that_comes_after_one_that_was_killed_takes_over_what_waits_and_what_goes_on() {
    let bed = Bed::new().await;
    let agent = bed.agent().await;
    agent.authority.open("passing");
    let (passed, _) = bed.decide(call(1, create("passing")));
    assert_eq!(passed.await.unwrap(), PASS);
    let (waits, mut held) = bed.decide(call(2, create("waits")));
    assert_eq!(held.recv().await.as_deref(), Some("not-ready"));
    let connection = ConnectionId(1);
    bed.gate.observe(Event::RelistAsked { call: CallId(3), connection });
    bed.gate.observe(Event::HookAsked { call: CallId(5), container: "h".into(), connection });
    let over = bed.decide(call(4, create("passing"))).0.await.unwrap();
    assert_eq!(over, PASS);
    bed.gate.observe(Event::CallEnded(CallId(4)));
    agent.kill(&bed).await;
    assert_eq!(held.recv().await.as_deref(), Some("agent-away"));

    // Told while nobody was there: the list of the runtime tells.
    bed.gate.observe(Event::ContainerStarted("c".into()));
    let mut next = bed.agent().await;
    next.hears("admit waits closed").await;
    next.authority.open("waits");
    assert_eq!(waits.await.unwrap(), PASS);
    bed.gate.observe(Event::ContainerCreated { call: CallId(2), container: "w".into() });
    next.hears("ContainerCreated { call: CallId(2), container: \"w\" }").await;

    // In the order in which it was told: first of all what goes on, and not what is over.
    let last = bed.agent().await;
    let mut heard = { last }.heard();
    heard.retain(|word| !word.starts_with("ConnectionClosed"));
    let expected = [
        "passed passing",
        "passed waits",
        "RelistAsked { call: CallId(3), connection: ConnectionId(1) }",
        "HookAsked { call: CallId(5), container: \"h\", connection: ConnectionId(1) }",
        "resync",
    ];
    let mut sorted = heard.clone();
    sorted.sort();
    let mut wanted = expected.map(str::to_owned).to_vec();
    wanted.sort();
    assert_eq!(sorted, wanted, "{heard:?}");
    assert_eq!(heard.last().map(String::as_str), Some("resync"));
}

#[tokio::test]
async fn questions_are_answered_by_the_agent() {
    let bed = Bed::new().await;
    let mut agent = bed.agent().await;
    let (connection, container) = (ConnectionId(1), ContainerId::from("c"));
    let ask = async |query| bed.gate.answer(query).await;
    let shown = Answer::Shown(Showing::OtherDefinition);
    assert_eq!(ask(Query::Status { connection, container: &container }).await, shown);
    assert_eq!(ask(Query::Hook { connection, container: &container }).await, Answer::Done);
    let pull = Query::Pull { call: CallId(9), image: "i", credential: CredentialKey(1), trace: None };
    assert_eq!(ask(pull).await, Answer::Pulled("sha256:i".to_owned()));
    // Nobody has to be nudged, says the table.
    assert_eq!(ask(Query::Relist(CallId(10))).await, Answer::Nudged(Vec::new()));
    agent.authority.foretell(|table| table.nudges = true);
    ask(Query::Hook { connection, container: &container }).await;
    ask(Query::Relist(CallId(11))).await;
    agent.hears("relist 11").await;
}

#[tokio::test]
async fn an_answer_that_panics_lets_its_call_pass_and_ends_nothing_else() {
    let bed = Bed::new().await;
    let mut agent = bed.agent().await;
    let (waits, mut held) = bed.decide(call(1, create("a")));
    held.recv().await.unwrap();
    for (id, container) in [(2, "panics"), (3, "panics later")] {
        assert_eq!(bed.decide(call(id, create(container))).0.await.unwrap(), PASS, "{container}");
    }
    agent.authority.open("a");
    assert_eq!(waits.await.unwrap(), PASS);
    bed.gate.observe(Event::CallEnded(CallId(1)));
    agent.hears("CallEnded(CallId(1))").await;
    assert!(!agent.heard().contains(&"resync".to_owned()), "the line is the same one");
}

#[tokio::test]
async fn a_call_whose_client_is_gone_is_withdrawn_and_never_decided() {
    let bed = Bed::new().await;
    let mut agent = bed.agent().await;
    let (decision, mut held) = bed.decide(call(1, create("a")));
    held.recv().await.unwrap();
    decision.abort();
    bed.gate.observe(Event::CallEnded(CallId(1)));
    agent.hears("CallEnded(CallId(1))").await;
    agent.heard();
    agent.authority.open("a");
    let (other, _) = bed.decide(call(2, create("a")));
    other.await.unwrap();
    let admitted = agent.heard().iter().filter(|word| word.starts_with("admit")).count();
    assert_eq!(admitted, 1, "only the call that is there");
}

#[tokio::test]
async fn a_call_that_is_looked_at_again_says_why_it_waits_once() {
    let bed = Bed::new().await;
    let mut agent = bed.agent().await;
    let (decision, mut held) = bed.decide(call(1, create("a")));
    assert_eq!(held.recv().await.as_deref(), Some("not-ready"));
    for other in ["b", "c", "d"] {
        agent.heard();
        agent.authority.open(other);
        agent.hears("admit a closed").await;
    }
    agent.authority.open("a");
    assert_eq!(decision.await.unwrap(), PASS);
    assert_eq!(held.recv().await, None, "said with every look");
}

#[tokio::test]
async fn of_a_connection_that_has_said_nothing_nothing_is_told() {
    let bed = Bed::new().await;
    let mut agent = bed.agent().await;
    bed.decide(call(1, stop("b"))).1.recv().await.unwrap();
    bed.gate.observe(Event::StatusAsked { container: "c".into(), connection: ConnectionId(2) });
    for connection in [7, 2, 1, 1] {
        bed.gate.observe(Event::ConnectionClosed(ConnectionId(connection)));
    }
    bed.gate.observe(Event::ContainerStarted("last".into()));
    agent.hears("StatusAsked { container: \"c\", connection: ConnectionId(2) }").await;
    let mut heard = Vec::new();
    while let Some(word) = timeout(Duration::from_secs(5), agent.hears.recv()).await.unwrap() {
        if word.contains("last") {
            break;
        }
        heard.push(word);
    }
    assert_eq!(heard, ["ConnectionClosed(ConnectionId(2))", "ConnectionClosed(ConnectionId(1))"]);
}

/// The line broke, and neither side did: a call that waits is the same one as before.
#[tokio::test]
async fn a_call_that_waits_goes_on_over_a_new_line_of_the_same_agent() {
    let (authority, mut hears) = Authority::new();
    let resync = Arc::new(|| -> BoxFuture<'static, ()> { Box::pin(async {}) });
    let link = AgentLink::new(authority.clone(), authority, resync, Metrics::default());
    let hello = ShimHello { version: VERSION, process: 1, connections: vec![1], ..Default::default() };
    let waits = Question::Call(Arc::new(call(5, create("a"))), None);
    let waits = waits.to_wire(1, std::time::Instant::now()).unwrap();
    let line = [Words::Hello(hello), Words::Question(waits), Words::CaughtUp(Nothing {})];
    let words = line.iter().chain(&line).map(|told| ToAgent { told: Some(told.clone()) });
    link.play(words).await;
    let heard: Vec<String> = std::iter::from_fn(|| hears.try_recv().ok()).collect();
    let asked = heard.iter().filter(|word| *word == "admit a closed").count();
    let ended: Vec<usize> = (0..heard.len()).filter(|at| heard[*at].starts_with("CallEnded")).collect();
    assert_eq!((asked, ended), (2, vec![heard.len() - 2]), "it ends with the shim: {heard:?}");
}

/// A newer shim asks about calls of a kind that the agent does not know: they pass, and all else goes on.
#[tokio::test]
async fn questions_of_a_later_shim_end_no_line() {
    let (authority, mut hears) = Authority::new();
    let resync = Arc::new(|| -> BoxFuture<'static, ()> { Box::pin(async {}) });
    let link = AgentLink::new(authority.clone(), authority, resync, Metrics::default());
    let hello = ShimHello { version: VERSION, process: 1, connections: vec![1], ..Default::default() };
    let later = CallMade { id: 4, connection: 1, age_ns: 0, left_ns: None, wants: None };
    let asks = |id| Words::Question(Asked { id, asks: Some(Asks::Call(later.clone())), trace: None });
    let known = Question::Call(Arc::new(call(5, create("a"))), None);
    let known = known.to_wire(3, std::time::Instant::now()).unwrap();
    let line = [
        Words::Hello(hello),
        asks(1),
        Words::Passed(later.clone()),
        Words::Question(known),
        Words::CaughtUp(Nothing {}),
        asks(2),
    ];
    link.play(line.into_iter().map(|told| ToAgent { told: Some(told) })).await;
    let heard: Vec<String> = std::iter::from_fn(|| hears.try_recv().ok()).collect();
    assert!(heard.iter().any(|word| word == "admit a closed"), "{heard:?}");
}

#[tokio::test]
async fn connections_that_break_at_once_are_made_ever_more_seldom() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("shim.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let (authority, _hears) = Authority::new();
    let resync = Arc::new(|| -> BoxFuture<'static, ()> { Box::pin(async {}) });
    let link = AgentLink::new(authority.clone(), authority, resync, Metrics::default());
    let task = tokio::spawn(async move { link.run(&socket, CancellationToken::new()).await });
    let mut made = 0;
    let broken = timeout(Duration::from_millis(900), async {
        loop {
            drop(listener.accept().await.unwrap());
            made += 1;
        }
    });
    assert!(broken.await.is_err());
    task.abort();
    // After 20 ms, 40, 80, 160, 320.
    assert!((2..=6).contains(&made), "{made}");
}

#[tokio::test]
async fn the_newest_agent_is_the_agent() {
    let bed = Bed::new().await;
    let old = bed.agent().await;
    old.task.abort();
    let new = bed.agent().await;
    new.authority.open("a");
    assert_eq!(bed.decide(call(1, create("a"))).0.await.unwrap(), PASS);
}

/// An upgrade of the shim: what waits in the old process is still decided there, by the same agent.
#[tokio::test]
async fn the_agent_of_a_shim_that_is_succeeded_has_both_until_the_old_one_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("shim.sock");
    let runtime = RuntimeEndpoint::from(dir.path().join("runtime.sock"));
    let listener = bind(&socket, &runtime).await.unwrap();
    let passed = std::os::unix::net::UnixListener::from(listener.descriptor().unwrap());
    let ends = LineEnds::default();
    let old = Bed { gate: RemoteGate::new(Metrics::default()), socket: socket.clone(), _dir: dir };
    let serving = tokio::spawn(Line::new(listener).serve(old.gate.clone(), ends.clone()));
    let mut agent = old.agent().await;
    let (waits, mut held) = old.decide(call(7, create("a")));
    assert_eq!(held.recv().await.as_deref(), Some("not-ready"));
    agent.hears("admit a closed").await;

    let new = RemoteGate::new(Metrics::default());
    let listener = Listener::adopt(passed, &runtime).unwrap();
    tokio::spawn(Line::new(listener).serve(new.clone(), LineEnds::default()));
    ends.accepting.cancel();
    old.gate.succeeded();
    let new = Bed { gate: new, socket, _dir: tempfile::tempdir().unwrap() };
    new.until(true).await;
    assert!(old.gate.has_agent(), "the agent has left the old one");
    // The same number of another process is another call.
    let (also, mut held) = new.decide(call(7, create("a")));
    assert_eq!(held.recv().await.as_deref(), Some("not-ready"));
    agent.authority.open("a");
    assert_eq!(waits.await.unwrap(), PASS);
    assert_eq!(also.await.unwrap(), PASS);

    // With the old process ends what it had.
    agent.heard();
    ends.all.cancel();
    serving.await.unwrap();
    agent.hears("CallEnded(CallId(7))").await;
    assert!(new.gate.has_agent(), "the agent has left the new one, too");
    let (later, _) = new.decide(call(8, create("a")));
    assert_eq!(later.await.unwrap(), PASS);
}
