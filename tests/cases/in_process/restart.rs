//! The shim dies, or another one takes over, while calls are under way.

use std::{os::unix::net::UnixListener, time::Duration};

use berth_policy::{Event, HoldReason, Verdict};
use berth_proto::cri as proto;
use berth_shim::{Clients, Listener};
use berth_tests::fake::{FakeKubelet, framed};
use prost::Message;

use crate::gate::create;
use crate::world::{Shim, World, cri, echo, within};

fn stop() -> Vec<u8> {
    proto::StopContainerRequest { container_id: "container-1".to_owned(), timeout: 30 }.encode_to_vec()
}

#[tokio::test]
async fn killed_in_the_middle_of_a_hold() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        world.gate.answer(|call| Verdict::Hold {
            until: call.arrived + Duration::from_secs(3600),
            why: HoldReason::Inspection,
        });
        let kubelet = world.kubelet().await;
        let mut call = kubelet.open(&cri("StopContainer"), &[]).await.unwrap();
        call.send.send_data(framed(&stop()), true).unwrap();
        while world.metrics.held_now() == 0 {
            tokio::task::yield_now().await;
        }
        world.serving.abort();
        assert!(call.reply().await.is_err(), "an answer from nobody");
        world.gate.told(|event| matches!(event, Event::CallEnded(_))).await;

        // The next one finds a stale socket and a free lock, and serves the kubelet's second try.
        let listener = berth_shim::bind(&world.socket(), &world.runtime_endpoint()).await.unwrap();
        let _next = Shim::serve(listener, world.runtime_endpoint(), Clients::default());
        let kubelet = world.kubelet().await;
        let mut call = kubelet.open(&cri("StopContainer"), &[]).await.unwrap();
        call.send.send_data(framed(&stop()), true).unwrap();
        let exchange = calls.recv().await.unwrap();
        echo(exchange).await;
        assert_eq!(call.reply().await.unwrap().status(), Some(0));
        assert!(calls.try_recv().is_err(), "the first try was sent on as well");
    })
    .await;
}

#[tokio::test]
async fn replaced_while_calls_are_under_way() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        // A socket that outlives those who serve it, as systemd keeps one.
        let path = world.socket().with_file_name("kept.sock");
        let kept = UnixListener::bind(&path).unwrap();
        let serve = || {
            let listener = Listener::adopt(kept.try_clone().unwrap(), &world.runtime_endpoint()).unwrap();
            Shim::serve(listener, world.runtime_endpoint(), Clients::default())
        };
        let old = serve();
        let kubelet = FakeKubelet::connect(&path).await.unwrap();
        let mut pull = kubelet.open("/runtime.v1.ImageService/PullImage", &[]).await.unwrap();
        pull.send.send_data(framed(b"image"), true).unwrap();
        let pulling = calls.recv().await.unwrap();

        // The new one accepts before the old one stops.
        let new = serve();
        old.shutdown.cancel();
        for number in 0..20_u8 {
            let (reply, ()) = tokio::join!(
                async {
                    let kubelet = FakeKubelet::connect(&path).await.unwrap();
                    kubelet.call(&cri("Version"), &[number]).await.unwrap()
                },
                async { echo(calls.recv().await.unwrap()).await }
            );
            assert_eq!((reply.status(), reply.body()), (Some(0), framed(&[number]).to_vec()));
        }
        assert!(!old.serving.is_finished() && !new.serving.is_finished());
        echo(pulling).await;
        let reply = pull.reply().await.unwrap();
        assert_eq!((reply.status(), reply.body()), (Some(0), framed(b"image").to_vec()));
        drop(kubelet);
        old.serving.await.unwrap();
    })
    .await;
}

/// An old process that waited for a stream of containerd's own would be there for ever.
#[tokio::test]
async fn a_stream_of_another_service_ends_some_time_after_a_successor_came_and_calls_do_not() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let path = world.socket().with_file_name("kept.sock");
        let listener = berth_shim::bind(&path, &world.runtime_endpoint()).await.unwrap();
        let old = Shim::serve(listener, world.runtime_endpoint(), Clients::default());
        let open = async |path_of_call: &str, client: &FakeKubelet| {
            let mut call = client.open(path_of_call, &[]).await.unwrap();
            call.send.send_data(framed(b"x"), true).unwrap();
            call
        };
        let (watcher, both) =
            (FakeKubelet::connect(&path).await.unwrap(), FakeKubelet::connect(&path).await.unwrap());
        const EVENTS: &str = "/containerd.services.events.v1.Events/Subscribe";
        let streams = [open(EVENTS, &watcher).await, open(EVENTS, &both).await];
        let pull = open("/runtime.v1.ImageService/PullImage", &both).await;
        let mut exchanges = Vec::new();
        for _ in 0..3 {
            exchanges.push(calls.recv().await.unwrap());
        }
        old.succeeded.cancel();
        old.shutdown.cancel();
        let [alone, beside] = streams;
        assert!(alone.reply().await.is_err(), "its connection is cut");
        assert!(!old.serving.is_finished(), "a pull has all the time that it needs");
        let pulling =
            exchanges.into_iter().find(|exchange| exchange.head.uri.path().ends_with("PullImage")).unwrap();
        echo(pulling).await;
        assert_eq!(pull.reply().await.unwrap().status(), Some(0));
        assert!(beside.reply().await.is_err(), "nothing else is left there");
        old.serving.await.unwrap();
    })
    .await;
}

/// Checks that a call that is held at the gate is asked of the successor, which the reset of an unprocessed
/// call and the GOAWAY before it make of every client library; a stream without end ends in words.
#[tokio::test]
async fn succeeded_while_calls_are_held() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let path = world.socket().with_file_name("kept.sock");
        let kept = UnixListener::bind(&path).unwrap();
        let serve = || {
            let listener = Listener::adopt(kept.try_clone().unwrap(), &world.runtime_endpoint()).unwrap();
            Shim::serve(listener, world.runtime_endpoint(), Clients::default())
        };
        let old = serve();
        old.gate.answer(|call| Verdict::Hold {
            until: call.arrived + Duration::from_secs(3600),
            why: HoldReason::Inspection,
        });
        let kubelet = FakeKubelet::connect(&path).await.unwrap();
        let mut creating = kubelet.open(&cri("CreateContainer"), &[]).await.unwrap();
        creating.send.send_data(framed(&create("a")), true).unwrap();
        while old.metrics.held_now() == 0 {
            tokio::task::yield_now().await;
        }
        let mut events = kubelet.open(&cri("GetContainerEvents"), &[]).await.unwrap();
        events.send.send_data(framed(&[]), true).unwrap();
        let streaming = calls.recv().await.unwrap();

        let _new = serve();
        old.succeeded.cancel();
        old.shutdown.cancel();
        let error = creating.reply().await.unwrap_err();
        assert!(format!("{error:?}").contains("REFUSED_STREAM"), "{error:?}");
        let ended = events.reply().await.unwrap();
        assert_eq!(ended.status(), Some(14), "{ended:?}");
        old.serving.await.unwrap();
        assert!(calls.try_recv().is_err(), "the held call was sent on as well");
        drop(streaming);
    })
    .await;
}
