//! Lists of an API server that falls silent: nobody ends their connections.

use std::{future::ready, time::Duration};

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use tokio::{sync::mpsc, time::timeout};

use super::{Shown, Watch, follow};
use crate::cluster::{
    fake::{Answer, FakeApi},
    raw::{self, Raw},
};

/// Longer than a silence is borne, where a list had no end at all.
const LIMIT: Duration = Duration::from_secs(400);

#[tokio::test]
async fn an_api_server_that_falls_silent_in_a_list_is_left() {
    let (asks, mut asked) = mpsc::unbounded_channel();
    let api = FakeApi::new(move |question| {
        let _ = asks.send(question.watches);
        // It begins, and nothing comes.
        Answer::Events(Vec::new())
    })
    .await;
    let (shows, mut shown) = mpsc::unbounded_channel();
    let watch = Watch { what: "pods", single: false, insists: true, selected: watcher::Config::default() };
    let each = |event: Shown<Raw>| {
        let _ = shows.send(matches!(event, Shown::Lost(_)));
    };
    let followed = follow(&api.connection, &watch, raw::all::<Pod>, Ok, |_| ready(Ok(true)).boxed(), each);
    let left = async {
        assert_eq!(asked.recv().await, Some(false));
        tokio::time::pause();
        timeout(LIMIT, shown.recv()).await.expect("it is given up")
    };
    tokio::select! {
        () = followed => unreachable!("it follows for ever"),
        lost = left => assert_eq!(lost, Some(true)),
    }
}
