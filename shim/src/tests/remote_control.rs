//! Words of people to a shim, over a real socket.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{sync::mpsc, task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    Metrics, RuntimeEndpoint, bind,
    remote::{Line, LineEnds, RemoteGate},
};

struct Shim {
    socket: PathBuf,
    ends: LineEnds,
    serving: JoinHandle<()>,
    _dir: tempfile::TempDir,
}

/// Serves people, once `with` has said what it takes from them.
async fn shim(with: impl FnOnce(Line) -> Line) -> Shim {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("shim.sock");
    assert!(matches!(look(&socket).await, Err(ControlError::Away(_))));
    let runtime = RuntimeEndpoint::from(dir.path().join("runtime.sock"));
    let (line, ends) = (with(Line::new(bind(&socket, &runtime).await.unwrap())), LineEnds::default());
    let serving = tokio::spawn(line.serve(RemoteGate::new(Metrics::default()), ends.clone()));
    Shim { socket, ends, serving, _dir: dir }
}

#[tokio::test]
async fn whoever_asks_for_a_drain_hears_of_it_to_its_end() {
    let asked = CancellationToken::new();
    let shim = shim(|line| line.draining(asked.clone())).await;
    let words = Arc::new(AtomicU32::new(0));
    let (socket, heard) = (shim.socket.clone(), words.clone());
    let drained = tokio::spawn(async move {
        drain(&socket, |_| {
            heard.fetch_add(1, Ordering::Relaxed);
        })
        .await
    });
    asked.cancelled().await;
    while words.load(Ordering::Relaxed) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    shim.ends.all.cancel();
    let last = drained.await.unwrap().unwrap();
    assert_eq!((last.pid, last.connections), (std::process::id(), 0));
    assert_eq!(words.load(Ordering::Relaxed), 2, "the last word comes when all has ended");
    shim.serving.await.unwrap();
    let gone = drain(&shim.socket, |_| ()).await.unwrap_err();
    assert!(matches!(gone, ControlError::Away(_)), "{gone:?}");
}

#[tokio::test]
async fn people_learn_how_it_is_and_ask_for_an_upgrade() {
    let (upgrades, mut asked) = mpsc::channel(1);
    let shim = shim(|line| line.upgrading(upgrades)).await;
    let socket = shim.socket.clone();
    let state = look(&socket).await.unwrap();
    assert_eq!((state.pid, state.agent), (std::process::id(), false));
    let upgraded = tokio::spawn({
        let socket = socket.clone();
        async move { upgrade(&socket, |stage| assert_eq!(stage.pid, 5)).await }
    });
    let first: UpgradeAsk = asked.recv().await.unwrap();
    first.tell(UpgradeStage { pid: 5, ..UpgradeStage::default() });
    first.tell(UpgradeStage { pid: 5, ready: true, ..UpgradeStage::default() });
    assert_eq!(upgraded.await.unwrap().unwrap().pid, 5);
    // Nobody takes what is asked for now; the second one finds no room.
    let waiting = tokio::spawn({
        let socket = socket.clone();
        async move { upgrade(&socket, |_| ()).await }
    });
    while asked.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let refused = upgrade(&socket, |_| ()).await.unwrap_err().to_string();
    assert!(refused.contains("an upgrade is under way"), "{refused}");
    asked.recv().await.unwrap().tell(UpgradeStage { error: "no such file".into(), ..Default::default() });
    let refused = waiting.await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("the old berth-shim goes on: no such file"), "{refused}");
}
