//! While the disk is slow nobody waits for it who has calls to answer.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use prometheus_client::registry::Registry;

use super::*;
use crate::agent::{Agent, metrics::AgentMetrics};

#[tokio::test]
async fn latches_are_forgotten_without_waiting_for_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(dir.path()).unwrap());
    store.latch(&Latch { sandbox: "gone".into(), priority: 1 }).unwrap();
    let metrics = AgentMetrics::register(&mut Registry::default());
    let agent = Arc::new(Agent::new(berth_policy::Config::default(), store.clone(), metrics));

    let waited = {
        // Whoever writes next waits for the one that writes now.
        let state = store.database.read().unwrap();
        let State::Open(database) = &*state else { panic!("closed") };
        let writes = database.begin_write().unwrap();
        let (told, forgotten) = mpsc::channel();
        let (tokio, forgets) = (tokio::runtime::Handle::current(), agent.clone());
        std::thread::spawn(move || {
            let _entered = tokio.enter();
            forgets.forget_latches(&"gone".into());
            told.send(()).unwrap();
        });
        let waited = forgotten.recv_timeout(Duration::from_secs(10)).is_err();
        writes.abort().unwrap();
        waited
    };
    assert!(!waited, "it waited for the disk");
    let forgotten = async {
        while !store.latches().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), forgotten).await.expect("they are forgotten");
}
