//! Every way a call can end.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use berth_tests::fake::{framed, grpc_status};
use h2::Reason;

use crate::{
    gate::create,
    world::{DRAIN_LIMIT, World, cri, echo, within},
};

const CODES: [Reason; 5] = [
    Reason::CANCEL,
    Reason::INTERNAL_ERROR,
    Reason::ENHANCE_YOUR_CALM,
    Reason::NO_ERROR,
    Reason::INADEQUATE_SECURITY,
];

#[tokio::test]
async fn a_reset_of_the_runtime_keeps_its_code() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        for method in ["ExecSync", "CreateContainer", "ListContainers"] {
            for reason in CODES {
                // Before the answer began.
                let path = cri(method);
                let (reply, ()) = tokio::join!(kubelet.call(&path, &[]), async {
                    let mut exchange = calls.recv().await.unwrap();
                    exchange.read().await.unwrap();
                    exchange.respond.send_reset(reason);
                });
                let error = reply.unwrap_err().downcast::<h2::Error>().unwrap();
                assert_eq!((error.is_reset(), error.reason()), (true, Some(reason)), "{method}");

                // In the middle of it.
                let (reply, ()) = tokio::join!(kubelet.call(&path, &[]), async {
                    let mut exchange = calls.recv().await.unwrap();
                    let mut send = exchange.begin().unwrap();
                    send.send_data(framed(b"half"), false).unwrap();
                    // Sent, and only then reset: a reset overtakes what is still queued.
                    while send.capacity() == 0 {
                        send.reserve_capacity(1);
                        std::future::poll_fn(|cx| send.poll_capacity(cx)).await.unwrap().unwrap();
                    }
                    tokio::task::yield_now().await;
                    send.send_reset(reason);
                });
                let error = reply.unwrap_err().downcast::<h2::Error>().unwrap();
                assert_eq!((error.is_reset(), error.reason()), (true, Some(reason)), "{method}, in its body");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_reset_of_the_kubelet_keeps_its_code() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        for reason in CODES {
            // While it waits for an answer.
            let mut call = kubelet.open(&cri("ExecSync"), &[]).await.unwrap();
            call.send.send_data(framed(b""), true).unwrap();
            let mut exchange = calls.recv().await.unwrap();
            call.send.send_reset(reason);
            let seen = std::future::poll_fn(|cx| exchange.respond.poll_reset(cx)).await.unwrap();
            assert_eq!(seen, reason);

            // While it reads one.
            let mut call = kubelet.open(&cri("GetContainerEvents"), &[]).await.unwrap();
            call.send.send_data(framed(b""), true).unwrap();
            let mut exchange = calls.recv().await.unwrap();
            let mut send = exchange.begin().unwrap();
            let _answer = (&mut call.response).await.unwrap();
            call.send.send_reset(reason);
            let seen = std::future::poll_fn(|cx| send.poll_reset(cx)).await.unwrap();
            assert_eq!(seen, reason, "in its body");

            // While it sends its request.
            let mut call = kubelet.open("/some.Service/Chat", &[]).await.unwrap();
            call.send.send_data(framed(b"half"), false).unwrap();
            let mut exchange = calls.recv().await.unwrap();
            call.send.send_reset(reason);
            let seen = loop {
                match exchange.body.data().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break error,
                    None => panic!("a request that was taken back looks whole"),
                }
            };
            assert_eq!(seen.reason(), Some(reason), "in its request");
        }
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_runtime() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        for method in ["PullImage", "CreateContainer", "StopContainer", "ListContainers", "Version"] {
            let mut call = kubelet.open(&cri(method), &[]).await.unwrap();
            call.send.send_data(framed(b""), true).unwrap();
            let mut exchange = calls.recv().await.unwrap();
            drop(call);
            let seen = std::future::poll_fn(|cx| exchange.respond.poll_reset(cx)).await.unwrap();
            assert_eq!(seen, Reason::CANCEL, "{method}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_deadline_is_the_business_of_the_runtime() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(|exchange| async {
            assert_eq!(exchange.head.headers["grpc-timeout"], "1n");
            exchange.fail(4, "context deadline exceeded").unwrap();
        });
        let kubelet = world.kubelet().await;
        let reply =
            kubelet.call_with(&cri("ExecSync"), &[("grpc-timeout", "1n")], framed(b"")).await.unwrap();
        assert_eq!((reply.status(), reply.message()), (Some(4), "context deadline exceeded"));
    })
    .await;
}

#[tokio::test]
async fn a_runtime_that_is_down_is_unavailable_and_then_back() {
    within(async {
        let world = World::new().await;
        let kubelet = world.kubelet().await;
        let endpoint = format!("unix://{}", world.runtime_socket().display());
        for _ in 0..3 {
            for method in ["ListContainers", "ListPodSandbox", "CreateContainer", "Invented"] {
                let reply = kubelet.call(&cri(method), &[]).await.unwrap();
                assert_eq!(reply.status(), Some(14), "{method}");
                assert!(reply.frames.is_empty(), "an answer from nobody");
                assert!(reply.message().contains(&endpoint), "{}", reply.message());
                assert!(reply.message().contains("No such file or directory"), "{}", reply.message());
            }
            let runtime = world.runtime(echo);
            let reply = kubelet.call(&cri("Version"), b"back").await.unwrap();
            assert_eq!((reply.status(), reply.body()), (Some(0), framed(b"back").to_vec()));
            runtime.kill().await;
            let reply = kubelet.call(&cri("Version"), b"gone").await.unwrap();
            assert_eq!(reply.status(), Some(14));
            std::fs::remove_file(world.runtime_socket()).unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_runtime_that_dies_in_the_middle() {
    within(async {
        let world = World::new().await;
        let kubelet = world.kubelet().await;
        for (method, begun) in
            [("ListContainers", false), ("ListContainers", true), ("PullImage", false), ("Stream", true)]
        {
            let (runtime, mut calls) = world.manual_runtime();
            let mut call = kubelet.open(&cri(method), &[]).await.unwrap();
            call.send.send_data(framed(b""), true).unwrap();
            let mut exchange = calls.recv().await.unwrap();
            exchange.read().await.unwrap();
            let reply = if begun {
                let mut send = exchange.begin().unwrap();
                send.send_data(framed(b"half"), false).unwrap();
                let answer = call.begins().await.unwrap();
                runtime.kill().await;
                drop((send, exchange));
                answer.rest().await
            } else {
                runtime.kill().await;
                drop(exchange);
                call.reply().await
            };
            let reply = reply.unwrap();
            assert_eq!(reply.status(), Some(14), "{method}, begun: {begun}");
            assert!(reply.message().contains("was lost"), "{}", reply.message());
            assert_eq!(reply.trailers.is_some(), begun);
        }
        assert_eq!(world.metrics.replays(), 0, "what may have been processed is never sent again");
    })
    .await;
}

#[tokio::test]
async fn a_kubelet_that_vanishes_takes_its_calls_with_it() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let mut open = Vec::new();
        let mut exchanges = Vec::new();
        // The gate is told the end of a connection that it has heard of: it is asked about the creation.
        let created = create("a");
        let begun: [(&str, &[u8]); 3] =
            [("PullImage", b""), ("CreateContainer", &created), ("GetContainerEvents", b"")];
        for (method, message) in begun {
            let mut call = kubelet.open(&cri(method), &[]).await.unwrap();
            call.send.send_data(framed(message), true).unwrap();
            exchanges.push(calls.recv().await.unwrap());
            open.push(call);
        }
        kubelet.vanish();
        for mut exchange in exchanges {
            // Reset, or the connection is gone: either tells the runtime.
            let _ = std::future::poll_fn(|cx| exchange.respond.poll_reset(cx)).await;
        }
        world.gate.told(|event| matches!(event, berth_policy::Event::ConnectionClosed(_))).await;
    })
    .await;
}

#[tokio::test]
async fn ten_thousand_rapid_cancels() {
    within(async {
        let world = World::new().await;
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = seen.clone();
        let _runtime = world.runtime(move |mut exchange| {
            let counted = counted.clone();
            async move {
                counted.fetch_add(1, Ordering::Relaxed);
                if exchange.head.headers.contains_key("x-stay") {
                    // Waits for the cancel, or for as long as it takes.
                    let _ = std::future::poll_fn(|cx| exchange.respond.poll_reset(cx)).await;
                } else {
                    echo(exchange).await;
                }
            }
        });
        let kubelet = world.kubelet().await;
        kubelet.call(&cri("Version"), b"warm").await.unwrap();
        let before = world.open_sockets();
        for round in 0..100 {
            let mut burst = Vec::new();
            for number in 0..100 {
                let method = ["PullImage", "ListContainers", "StopContainer", "Invented"][number % 4];
                let headers: &[_] = if number % 3 == 0 { &[("x-stay", "1")] } else { &[] };
                let mut call = kubelet.open(&cri(method), headers).await.unwrap();
                // Some are cancelled before their request is whole.
                call.send.send_data(framed(b""), number % 5 != 0).unwrap();
                burst.push(call);
            }
            if round % 2 == 0 {
                tokio::task::yield_now().await;
            }
            drop(burst);
            // Every other call is as good as before.
            let reply = kubelet.call(&cri("Version"), b"alive").await.unwrap();
            assert_eq!((reply.status(), reply.body()), (Some(0), framed(b"alive").to_vec()), "round {round}");
        }
        assert_eq!(world.open_sockets(), before);
        assert!(seen.load(Ordering::Relaxed) > 100);
    })
    .await;
}

#[tokio::test]
async fn many_connections_leave_nothing_open() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(echo);
        let before = world.open_sockets();
        for number in 0..300 {
            let kubelet = world.kubelet().await;
            kubelet.call(&cri("Version"), b"").await.unwrap();
            if number % 2 == 0 { kubelet.vanish() } else { kubelet.closed().await.unwrap() }
        }
        // The last ones may still be closing.
        while world.metrics.connections_open() > 0 || world.open_sockets() > before {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_lets_open_calls_finish() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let mut call = kubelet.open(&cri("PullImage"), &[]).await.unwrap();
        call.send.send_data(framed(b""), true).unwrap();
        let exchange = calls.recv().await.unwrap();
        world.shutdown.cancel();
        // New calls have to go to whoever listens next. The GOAWAY is on its way; until it is here, calls
        // still pass.
        let refused = async {
            while let Ok(mut call) = kubelet.open(&cri("Version"), &[]).await {
                call.send.send_data(framed(b""), true).unwrap();
                tokio::select! {
                    _ = call.reply() => break,
                    Some(exchange) = calls.recv() => drop(exchange),
                }
            }
        };
        refused.await;
        assert!(!world.serving.is_finished());
        exchange.reply(b"pulled").await.unwrap();
        let reply = call.reply().await.unwrap();
        assert_eq!((reply.status(), reply.body()), (Some(0), framed(b"pulled").to_vec()));
        drop(kubelet);
        let begun = tokio::time::Instant::now();
        world.serving.await.unwrap();
        assert!(begun.elapsed() < DRAIN_LIMIT / 2, "ended by the limit");
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_is_whole() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let mut call = kubelet.open("/some.Service/Upload", &[]).await.unwrap();
        call.send.send_data(framed(b"half"), false).unwrap();
        let mut exchange = calls.recv().await.unwrap();
        let mut send = exchange.begin().unwrap();
        send.send_data(framed(b"enough"), false).unwrap();
        send.send_trailers(grpc_status(0, "")).unwrap();
        drop((exchange, send));
        let reply = call.reply().await.unwrap();
        assert_eq!((reply.status(), reply.body()), (Some(0), framed(b"enough").to_vec()));
    })
    .await;
}
