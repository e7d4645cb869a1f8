//! A call that is held: released, asked again, given up, drained.

use std::time::{Duration, Instant};

use berth_policy::{Event, Refusal, Request, Verdict};
use berth_tests::fake::framed;

use super::{begin, begin_with, create, ended, ends, hold, hold_for_ever, stop};
use crate::world::{World, cri, echo, within};

#[tokio::test]
async fn the_gate_sees_the_call_as_it_is() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(echo);
        let kubelet = world.kubelet().await;
        let (seen, mut calls) = tokio::sync::mpsc::unbounded_channel();
        world.gate.answer(move |call| {
            seen.send(call.clone()).unwrap();
            Verdict::Forward
        });
        let before = Instant::now();
        let headers = [("grpc-timeout", "120S")];
        let call = begin_with(&kubelet, "CreateContainer", &create("web"), &headers).await;
        assert_eq!(call.reply().await.unwrap().body(), framed(&create("web")));
        let call = calls.recv().await.unwrap();
        assert!(call.arrived >= before);
        assert_eq!(call.deadline, Some(call.arrived + Duration::from_secs(120)));
        let Request::CreateContainer(create) = call.request else { panic!("{call:?}") };
        assert_eq!((create.container.as_str(), create.sandbox.as_str()), ("web", "sandbox-1"));
        assert_eq!(create.pod.uid.as_str(), "uid-1");

        begin(&kubelet, "StopContainer", &stop(30)).await.reply().await.unwrap();
        let call = calls.recv().await.unwrap();
        assert_eq!(call.deadline, None);
        let Request::StopContainer(stop) = call.request else { panic!("{call:?}") };
        assert_eq!((stop.container.as_str(), stop.timeout), ("container-1", Duration::from_secs(30)));
    })
    .await;
}

#[tokio::test]
async fn held_then_released_by_a_change() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let other = cri("Version");
        for (method, message) in [("CreateContainer", create("web")), ("StopContainer", stop(30))] {
            world.gate.answer(hold_for_ever);
            let asked = world.gate.events().len() as u64;
            let call = begin(&kubelet, method, &message).await;
            while world.metrics.held_now() == 0 {
                tokio::task::yield_now().await;
            }
            assert!(calls.try_recv().is_err(), "sent on while held");
            // Other calls pass meanwhile, over the same connection.
            let (status, ()) = tokio::join!(kubelet.call(&other, b"s"), async {
                echo(calls.recv().await.unwrap()).await;
            });
            assert_eq!(status.unwrap().status(), Some(0));
            world.gate.answer(|_| Verdict::Forward);
            let mut exchange = calls.recv().await.unwrap();
            assert_eq!(exchange.read().await.unwrap(), framed(&message));
            exchange.reply(b"").await.unwrap();
            assert_eq!(call.reply().await.unwrap().status(), Some(0));
            assert_eq!(world.metrics.held_now(), 0);
            assert!(world.gate.events().len() as u64 > asked);
        }
        ended(&world, 2).await;
    })
    .await;
}

#[tokio::test]
async fn held_then_asked_again_at_its_end() {
    within(async {
        let world = World::new().await;
        let _runtime = world.runtime(echo);
        let kubelet = world.kubelet().await;
        let span = Duration::from_millis(80);
        world.gate.answer(move |call| {
            // At or after `until` the verdict is another one: the contract of a hold.
            if Instant::now() < call.arrived + span {
                hold(call, span)
            } else {
                Verdict::Refuse(Refusal::RuntimeSilent)
            }
        });
        let begun = Instant::now();
        let reply = begin(&kubelet, "CreateContainer", &create("web")).await.reply().await.unwrap();
        assert!(begun.elapsed() >= span);
        assert_eq!(reply.status(), Some(9));
        assert_eq!(reply.message(), Refusal::RuntimeSilent.to_string());
        ended(&world, 1).await;
    })
    .await;
}

#[tokio::test]
async fn held_then_cancelled_is_never_sent_on() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let other = cri("Version");
        for (method, message) in [("CreateContainer", create("web")), ("StopContainer", stop(30))] {
            world.gate.answer(hold_for_ever);
            let before = ends(&world).len();
            let call = begin(&kubelet, method, &message).await;
            while world.metrics.held_now() == 0 {
                tokio::task::yield_now().await;
            }
            drop(call);
            while world.metrics.held_now() > 0 {
                tokio::task::yield_now().await;
            }
            ended(&world, before + 1).await;
            world.gate.answer(|_| Verdict::Forward);
            // Had it been sent on, it would be before this one.
            let (reply, ()) = tokio::join!(kubelet.call(&other, b""), async {
                let exchange = calls.recv().await.unwrap();
                assert_eq!(exchange.method(), "Version");
                echo(exchange).await;
            });
            assert_eq!(reply.unwrap().status(), Some(0));
        }
    })
    .await;
}

#[tokio::test]
async fn held_when_the_kubelet_vanishes() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        world.gate.answer(hold_for_ever);
        let kubelet = world.kubelet().await;
        let _call = begin(&kubelet, "CreateContainer", &create("web")).await;
        while world.metrics.held_now() == 0 {
            tokio::task::yield_now().await;
        }
        kubelet.vanish();
        world.gate.told(|event| matches!(event, Event::ConnectionClosed(_))).await;
        assert_eq!((ends(&world).len(), world.metrics.held_now()), (1, 0));
        let events = world.gate.events();
        assert!(
            matches!(events.last(), Some(Event::ConnectionClosed(_))),
            "the calls end before their connection"
        );
        assert!(calls.try_recv().is_err());
    })
    .await;
}

#[tokio::test]
async fn held_beyond_its_deadline() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        world.gate.answer(hold_for_ever);
        let headers = [("grpc-timeout", "60m")];
        let reply =
            begin_with(&kubelet, "CreateContainer", &create("web"), &headers).await.reply().await.unwrap();
        assert_eq!(reply.status(), Some(4));
        ended(&world, 1).await;
        assert!(calls.try_recv().is_err(), "sent on after its deadline");
    })
    .await;
}

#[tokio::test]
async fn what_was_waited_is_taken_off_the_deadline() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let span = Duration::from_millis(50);
        world.gate.answer(move |call| {
            if Instant::now() < call.arrived + span { hold(call, span) } else { Verdict::Forward }
        });
        let headers = [("grpc-timeout", "90S")];
        let _call = begin_with(&kubelet, "CreateContainer", &create("web"), &headers).await;
        let exchange = calls.recv().await.unwrap();
        let left = exchange.head.headers["grpc-timeout"].to_str().unwrap();
        let micros: u64 = left.strip_suffix('u').unwrap().parse().unwrap();
        assert!(micros <= 89_950_000 && micros > 80_000_000, "{left}");
    })
    .await;
}

#[tokio::test]
async fn a_drain_refuses_held_creates_and_keeps_held_stops() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        world.gate.answer(hold_for_ever);
        let created = begin(&kubelet, "CreateContainer", &create("web")).await;
        let stopped = begin(&kubelet, "StopContainer", &stop(30)).await;
        while world.metrics.held_now() < 2 {
            tokio::task::yield_now().await;
        }
        world.shutdown.cancel();
        let reply = created.reply().await.unwrap();
        assert_eq!((reply.status(), reply.message()), (Some(14), "launch order: the agent is restarting"));
        assert_eq!(world.metrics.held_now(), 1);
        world.gate.answer(|_| Verdict::Forward);
        echo(calls.recv().await.unwrap()).await;
        assert_eq!(stopped.reply().await.unwrap().status(), Some(0));
        drop(kubelet);
        world.serving.await.unwrap();
    })
    .await;
}
