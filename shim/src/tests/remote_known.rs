//! Words of an agent in advance: which calls wait for nobody, and what it knows that the shim was told.

use berth_policy::Foretold;

use super::*;
use crate::remote::message::{Said, SandboxRow, TableChange, ToShim};

#[tokio::test]
async fn what_the_table_says_waits_for_nobody_and_is_told() {
    let bed = Bed::new().await;
    let mut agent = bed.agent().await;
    agent.authority.foretell(|table| {
        table.sandboxes.insert("s".into(), Creations::All);
        table.env.insert(
            "u".into(),
            BTreeMap::from([("a".into(), EnvValues(vec![("K".to_owned(), "V".to_owned())]))]),
        );
    });
    // An answer never overtakes the table.
    bed.gate.answer(Query::Hook { connection: ConnectionId(1), container: &"x".into() }).await;
    assert_eq!(bed.decide(call(1, create("a"))).0.await.unwrap(), PASS);
    agent.hears("passed a").await;
    let Request::CreateContainer(asked) = create("a") else { unreachable!() };
    let env = Answer::WithEnv(EnvValues(vec![("K".to_owned(), "V".to_owned())]));
    assert_eq!(bed.gate.answer(Query::Create(&asked)).await, env);
    agent.kill(&bed).await;
    assert_eq!(bed.decide(call(2, create("a"))).0.await.unwrap(), PASS);
    assert_eq!(bed.gate.answer(Query::Create(&asked)).await, env);
    let mut next = bed.agent().await;
    next.hears("passed a").await;
}

/// A barrier closes with the last container of its pod, and the table says so a moment after the agent knows.
#[tokio::test]
async fn a_creation_in_an_order_is_asked_about_while_an_agent_is_there() {
    let bed = Bed::new().await;
    let mut agent = bed.agent().await;
    agent.authority.foretell(|table| {
        table.sandboxes.insert("s".into(), Creations::Of(["a".into()].into()));
    });
    // An answer never overtakes the table.
    bed.gate.answer(Query::Hook { connection: ConnectionId(1), container: &"x".into() }).await;
    let (waits, mut held) = bed.decide(call(1, create("a")));
    assert_eq!(held.recv().await.as_deref(), Some("not-ready"));
    agent.hears("admit a closed").await;
    // Without it the table decides at once: who waits for an agent says so.
    agent.kill(&bed).await;
    assert_eq!(timeout(PATIENCE, waits).await.unwrap().unwrap(), PASS);
    assert_eq!(held.recv().await, None);
    let (decided, mut held) = bed.decide(call(2, create("a")));
    assert_eq!(timeout(PATIENCE, decided).await.unwrap().unwrap(), PASS);
    assert_eq!(held.recv().await, None);
    let mut next = bed.agent().await;
    next.hears("passed a").await;
}

#[tokio::test]
async fn an_agent_knows_what_the_shim_was_told() {
    let bed = Bed::new().await;
    let agent = bed.agent().await;
    let authority = agent.authority.clone();
    assert_eq!(*locked(&authority.told), Some(0));
    authority.foretell(|table| table.nudges = true);
    let told = async {
        while *locked(&authority.told) != Some(1) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, told).await.expect("the shim is told");
    // What it cannot say, or the line has no room for, the shim was not told.
    let hook =
        async || bed.gate.answer(Query::Hook { connection: ConnectionId(1), container: &"x".into() }).await;
    authority.fails.store(true, Ordering::Relaxed);
    authority.foretell(|table| table.nudges = false);
    for _ in 0..2 {
        hook().await;
        assert_eq!(*locked(&authority.told), Some(1));
    }
    authority.fails.store(false, Ordering::Relaxed);
    let row = Foretold { stop_passes: true, status: None, hook: None, changing: false, quiet: false };
    let long = ContainerId::from("x".repeat(1000));
    for (is_there, told) in [(true, Some(1)), (false, Some(4))] {
        let rows = is_there.then(|| (long.clone(), row)).into_iter().collect();
        authority.foretell(|table| table.containers = rows);
        hook().await;
        assert_eq!(*locked(&authority.told), told);
    }
    agent.kill(&bed).await;
}

/// Everything else would be: rows that go because nobody can say them are calls that wait.
#[tokio::test]
async fn a_table_that_cannot_be_said_is_the_one_of_before() {
    let bed = Bed::new().await;
    let mut agent = bed.agent().await;
    let creates = |table: &mut InAdvance| {
        table.sandboxes.insert("s".into(), Creations::All);
    };
    agent.authority.foretell(creates);
    let hook =
        async || bed.gate.answer(Query::Hook { connection: ConnectionId(1), container: &"x".into() }).await;
    hook().await;
    agent.authority.fails.store(true, Ordering::Relaxed);
    agent.authority.foretell(|table| table.sandboxes.clear());
    hook().await;
    assert_eq!(bed.decide(call(1, create("a"))).0.await.unwrap(), PASS);
    agent.hears("passed a").await;
    // Said again when it can be.
    agent.authority.fails.store(false, Ordering::Relaxed);
    agent.authority.foretell(|_| {});
    hook().await;
    let (_waits, mut held) = bed.decide(call(2, create("a")));
    assert_eq!(held.recv().await.as_deref(), Some("not-ready"));
    // One that never could is asked about everything.
    agent.kill(&bed).await;
    let (authority, hears) = Authority::new();
    authority.fails.store(true, Ordering::Relaxed);
    let mut next = bed.agent_of(authority, hears).await;
    next.hears("admit a closed").await;
}

/// An agent that was cut off for the values of one pod would be cut off again and again.
#[tokio::test]
async fn values_that_the_line_has_no_room_for_are_left_out_and_all_else_is_told() {
    let bed = Bed::new().await;
    let mut agent = bed.agent().await;
    let env = |bytes| EnvValues(vec![("K".to_owned(), "V".repeat(bytes))]);
    agent.authority.foretell(|table| {
        table.sandboxes.insert("s".into(), Creations::All);
        for (pod, bytes) in [("huge", 4_300_000), ("u", 10)] {
            table.env.insert(pod.into(), BTreeMap::from([("a".into(), env(bytes))]));
        }
    });
    bed.gate.answer(Query::Hook { connection: ConnectionId(1), container: &"x".into() }).await;
    assert_eq!(bed.decide(call(1, create("a"))).0.await.unwrap(), PASS);
    agent.hears("passed a").await;
    let Request::CreateContainer(mut asked) = create("a") else { unreachable!() };
    for (pod, expected) in [("u", env(10)), ("huge", EnvValues::default())] {
        asked.pod.uid = pod.into();
        assert_eq!(bed.gate.answer(Query::Create(&asked)).await, Answer::WithEnv(expected), "{pod}");
    }
    assert!(bed.gate.has_agent());
}

/// An agent that stands still is asked, too, and does not keep such a creation longer than others.
#[tokio::test(start_paused = true)]
async fn a_creation_in_an_order_passes_by_the_table_when_the_agent_stands_still() {
    let open = SandboxRow { sandbox: "s".to_owned(), open: vec!["a".to_owned()], ..Default::default() };
    let gate = said_and_stands_still(TableChange { sandboxes: vec![open], ..Default::default() });
    let (begun, (told, _held)) = (Instant::now(), mpsc::unbounded_channel());
    assert_eq!(gate.decide(&call(1, create("a")), &bed::Told(told, None)).await, PASS);
    assert!((3..=4).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert!(!gate.has_agent());
}

/// A gate whose agent says this table, and nothing after it.
fn said_and_stands_still(table: TableChange) -> Arc<RemoteGate> {
    let gate = RemoteGate::new(Metrics::default());
    let (number, _) = gate.begin();
    let whole = TableChange { reset: true, complete: true, ..table };
    gate.heard(number, ToShim { said: Some(Said::Table(whole)) }).unwrap();
    let looks = gate.clone();
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(500)).await;
            looks.look(number);
        }
    });
    gate
}

async fn pull(gate: &RemoteGate) -> Answer {
    let (call, credential) = (CallId(1), CredentialKey(1));
    gate.answer(Query::Pull { call, image: "i", credential, trace: None }).await
}

#[tokio::test]
async fn a_pull_is_asked_about_only_while_the_agent_may_have_one_itself() {
    let bed = Bed::new().await;
    assert_eq!(pull(&bed.gate).await, Answer::Pass, "no agent has come yet");
    let agent = bed.agent().await;
    let joined = Answer::Pulled("sha256:i".to_owned());
    // As of an agent of before, which says nothing of them.
    assert_eq!(pull(&bed.gate).await, joined);
    for (passes, expected) in [(true, Answer::Pass), (false, joined)] {
        agent.authority.foretell(|table| table.pulls_pass = passes);
        // An answer never overtakes the table.
        bed.gate.answer(Query::Hook { connection: ConnectionId(1), container: &"x".into() }).await;
        assert_eq!(pull(&bed.gate).await, expected, "{passes}");
    }
    agent.kill(&bed).await;
    assert_eq!(pull(&bed.gate).await, Answer::Pass, "its own has ended with it");
}

/// Rows: whether the agent has said that pulls pass, and the seconds for which one waits until it is known
/// that the agent stands still.
#[tokio::test(start_paused = true)]
async fn an_agent_that_stands_still_keeps_a_pull_only_where_it_may_have_one_itself() {
    for (pulls_pass, seconds) in [(true, 0..=0), (false, 3..=4)] {
        let gate = said_and_stands_still(TableChange { pulls_pass, ..Default::default() });
        let begun = Instant::now();
        assert_eq!(pull(&gate).await, Answer::Pass);
        assert!(seconds.contains(&begun.elapsed().as_secs()), "{pulls_pass}: {:?}", begun.elapsed());
    }
}
