//! A store that cannot be opened at the start.

use std::{sync::Arc, time::Duration};

use berth_policy::{Declared, Event, PodRef};
use berth_shim::Gate;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::agent::{Agent, metrics::AgentMetrics};

fn latch(sandbox: &str) -> Latch {
    Latch { sandbox: sandbox.into(), priority: 1 }
}

/// The data path must not wait for a disk.
#[tokio::test]
async fn a_store_that_cannot_be_opened_is_opened_when_it_can() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state");
    let before = Store::open(&directory).unwrap();
    before.latch(&latch("s")).unwrap();
    drop(before);
    let away = parent.path().join("away");
    std::fs::rename(&directory, &away).unwrap();
    // A file in the place of the directory, for a root whom no permission stops.
    std::fs::write(&directory, "").unwrap();

    let store = Arc::new(Store::open(&directory).unwrap());
    let metrics = AgentMetrics::register(&mut Registry::default());
    let agent = Arc::new(Agent::new(berth_policy::Config::default(), store.clone(), metrics));
    let unread = agent.remembers().unwrap_err();
    assert!(unread.contains("latches") && unread.contains("job sidecars"), "{unread}");
    assert!(store.latch(&latch("t")).is_err());
    let pod = PodRef { uid: "p".into(), namespace: "shop".to_owned(), name: "web".to_owned() };
    agent.observe(Event::SandboxCreated { sandbox: "s".into(), pod, declared: Declared::default() });
    let latches = || agent.read(|node, _| node.size().latches);
    assert_eq!(latches(), 0);
    let waiting = agent.clone();
    let mut remembered = tokio::spawn(async move { waiting.until_remembered().await });
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut remembered).await.is_err());

    std::fs::remove_file(&directory).unwrap();
    std::fs::rename(&away, &directory).unwrap();
    agent.clone().recall_in_time(CancellationToken::new()).await;
    assert_eq!((agent.remembers(), latches()), (Ok(()), 1));
    remembered.await.unwrap();
    agent.until_remembered().await;
    store.latch(&latch("t")).unwrap();
}
