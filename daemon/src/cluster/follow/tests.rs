//! Watches of an API server that falls silent: nobody ends their connections.

use std::{future::ready, time::Duration};

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use rstest::rstest;
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};

use super::{Shown, Watch, follow};
use crate::cluster::{
    fake::{Answer, FakeApi},
    raw::{self, Raw},
};

/// Shorter than the library bears it in a watch, which it then asks for again without a word.
const LIMIT: Duration = Duration::from_secs(280);

#[rstest]
#[case::in_a_list(false)]
#[case::in_a_watch(true)]
#[tokio::test]
async fn an_api_server_that_falls_silent_is_left(#[case] in_a_watch: bool) {
    let (asks, mut asked) = mpsc::unbounded_channel();
    let api = FakeApi::new(move |question| {
        let _ = asks.send(question.watches);
        if question.watches == in_a_watch {
            // It begins, and nothing comes.
            return Answer::Events(Vec::new());
        }
        Answer::Object(json!({
            "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": [],
        }))
    })
    .await;
    let (shows, mut shown) = mpsc::unbounded_channel();
    let watch = Watch { what: "pods", single: false, insists: true, selected: watcher::Config::default() };
    let each = |event: Shown<Raw>| {
        let _ = shows.send(matches!(event, Shown::Lost(_)));
    };
    let followed = follow(&api.connection, &watch, raw::all::<Pod>, Ok, |_| ready(Ok(true)).boxed(), each);
    let left = async {
        while asked.recv().await != Some(in_a_watch) {}
        tokio::time::pause();
        let lost = async { while shown.recv().await != Some(true) {} };
        timeout(LIMIT, lost).await.expect("it is given up");
    };
    tokio::select! {
        () = followed => unreachable!("it follows for ever"),
        () = left => {}
    }
}
