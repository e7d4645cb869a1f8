//! What the gate decides is what happens, and what happens is what the gate hears.

use std::time::{Duration, Instant};

use berth_policy::{Amendment, Call, Event, HoldReason, Latch, Refusal, Request, Verdict};
use berth_proto::cri as proto;
use berth_tests::fake::{Exchange, FakeKubelet, OpenCall, framed};
use prost::Message;

use crate::world::{World, cri, echo, within};

pub(crate) fn create(name: &str) -> Vec<u8> {
    let metadata = proto::PodSandboxMetadata {
        uid: "uid-1".to_owned(),
        namespace: "default".to_owned(),
        name: "pod".to_owned(),
        attempt: 0,
    };
    proto::CreateContainerRequest {
        pod_sandbox_id: "sandbox-1".to_owned(),
        config: Some(proto::ContainerConfig {
            metadata: Some(proto::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            ..Default::default()
        }),
        sandbox_config: Some(proto::PodSandboxConfig { metadata: Some(metadata), ..Default::default() }),
    }
    .encode_to_vec()
}

fn stop(timeout: i64) -> Vec<u8> {
    proto::StopContainerRequest { container_id: "container-1".to_owned(), timeout }.encode_to_vec()
}

/// A hold until `after` from the call's arrival.
fn hold(call: &Call, after: Duration) -> Verdict {
    Verdict::Hold { until: call.arrived + after, why: HoldReason::Inspection }
}

fn hold_for_ever(call: &Call) -> Verdict {
    hold(call, Duration::from_secs(3600))
}

async fn begin(kubelet: &FakeKubelet, method: &str, message: &[u8]) -> OpenCall {
    begin_with(kubelet, method, message, &[]).await
}

async fn begin_with(
    kubelet: &FakeKubelet,
    method: &str,
    message: &[u8],
    headers: &[(&str, &str)],
) -> OpenCall {
    let mut call = kubelet.open(&cri(method), headers).await.unwrap();
    call.send.send_data(framed(message), true).unwrap();
    call
}

/// How often each call ended, by what the gate was told.
fn ends(world: &World) -> Vec<u64> {
    let events = world.gate.events();
    events
        .iter()
        .filter_map(|event| if let Event::CallEnded(call) = event { Some(call.0) } else { None })
        .collect()
}

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
        assert_eq!(ends(&world).len(), 2);
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
        assert_eq!(
            reply.message(),
            "launch order: the runtime does not tell which containers of the pod run"
        );
        assert_eq!(ends(&world).len(), 1);
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
            assert_eq!(ends(&world).len(), before + 1, "{method}");
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
        assert_eq!(ends(&world).len(), 1);
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

#[tokio::test]
async fn refused_with_the_code_of_its_reason() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let table = [
            (
                Refusal::Waiting(vec!["größe".into()]),
                9,
                "launch order: waiting for container(s) gr%C3%B6%C3%9Fe",
            ),
            (Refusal::Terminating, 9, "launch order: the pod is terminating"),
            (Refusal::Draining, 14, "launch order: the agent is restarting"),
        ];
        for (refusal, code, message) in table {
            world.gate.answer(move |_| Verdict::Refuse(refusal.clone()));
            let reply = kubelet.call(&cri("CreateContainer"), &create("web")).await.unwrap();
            assert_eq!((reply.status(), reply.message()), (Some(code), message));
            assert!(reply.trailers.is_none());
        }
        assert!(calls.try_recv().is_err());
        assert_eq!(ends(&world).len(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_latch_is_durable_before_its_call_is_sent_on() {
    within(async {
        let world = World::new().await;
        let latch = Latch { sandbox: "sandbox-1".into(), priority: 3 };
        let given = latch.clone();
        world.gate.answer(move |_| Verdict::Latch(given.clone()));
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let _call = begin(&kubelet, "CreateContainer", &create("web")).await;
        let mut exchange = calls.recv().await.unwrap();
        assert_eq!(world.gate.latched(), [latch]);
        assert_eq!(exchange.read().await.unwrap(), framed(&create("web")));
    })
    .await;
}

#[tokio::test]
async fn a_changed_stop_timeout_changes_nothing_else() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        world.gate.answer(|_| Verdict::Amend(Amendment::StopTimeout(Duration::from_secs(300))));
        // Unknown fields before, between and after.
        let unknown = [0xfa, 0x7f, 3, 0xff, 0, 0xff];
        let id = [0x0a, 2, b'c', b'1'];
        let message = [&unknown[..], &id, &[0x10, 30], &unknown].concat();
        let expected = [&unknown[..], &id, &[0x10, 0xac, 0x02], &unknown].concat();
        // However the request is cut.
        for cut in [1, 5, 7, 16] {
            let mut call = kubelet.open(&cri("StopContainer"), &[]).await.unwrap();
            let mut rest = framed(&message);
            while !rest.is_empty() {
                let piece = rest.split_to(cut.min(rest.len()));
                call.send.send_data(piece, rest.is_empty()).unwrap();
            }
            let mut exchange: Exchange = calls.recv().await.unwrap();
            assert_eq!(exchange.read().await.unwrap(), framed(&expected));
            exchange.reply(b"").await.unwrap();
            assert_eq!(call.reply().await.unwrap().status(), Some(0));
        }
    })
    .await;
}

/// The events of one call, without its numbers.
fn words(world: &World, from: usize) -> Vec<String> {
    let word = |event: &Event| match event {
        Event::SandboxCreated { sandbox, pod, declared } => {
            format!("sandbox {sandbox} of {} created, {declared:?}", pod.name)
        }
        Event::SandboxStopping(sandbox) => format!("sandbox {sandbox} stopping"),
        Event::SandboxRemoved(sandbox) => format!("sandbox {sandbox} removed"),
        Event::ContainerCreated { container, .. } => format!("container {container} created"),
        Event::ContainerStarted(container) => format!("container {container} started"),
        Event::ContainerStopped(container) => format!("container {container} stopped"),
        Event::ContainerRemoved(container) => format!("container {container} removed"),
        Event::RelistAsked { .. } => "relist asked".to_owned(),
        Event::RelistAnswered { .. } => "relist answered".to_owned(),
        Event::StatusAsked { container, .. } => format!("status of {container} asked"),
        Event::CallEnded(_) => "call ended".to_owned(),
        other => format!("{other:?}"),
    };
    world.gate.events()[from..].iter().map(word).collect()
}

#[tokio::test]
async fn what_the_policy_hears() {
    within(async {
        let world = World::new().await;
        let (_runtime, mut calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        let id = |id: &str| proto::StartContainerRequest { container_id: id.to_owned() }.encode_to_vec();
        let sandbox = proto::RunPodSandboxRequest {
            config: Some(proto::PodSandboxConfig {
                metadata: Some(proto::PodSandboxMetadata { name: "pod".to_owned(), ..Default::default() }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let filtered = proto::ListContainersRequest {
            filter: Some(proto::ContainerFilter { id: "c".to_owned(), ..Default::default() }),
        };
        // Method, request, answer; what is heard when it is asked, and when it succeeded.
        type Row<'a> = (&'a str, Vec<u8>, Vec<u8>, &'a [&'a str], &'a [&'a str]);
        let table: [Row<'_>; 11] = [
            (
                "RunPodSandbox",
                sandbox.encode_to_vec(),
                id("s1"),
                &[],
                &["sandbox s1 of pod created, Declared { plan: None, hinted: false, foreign: true }"],
            ),
            ("CreateContainer", create("web"), id("c1"), &[], &["container c1 created", "call ended"]),
            ("StartContainer", id("c1"), vec![], &[], &["container c1 started"]),
            ("StopContainer", stop(30), vec![], &[], &["container container-1 stopped", "call ended"]),
            ("RemoveContainer", id("c1"), vec![], &[], &["container c1 removed"]),
            ("StopPodSandbox", id("s1"), vec![], &["sandbox s1 stopping"], &[]),
            ("RemovePodSandbox", id("s1"), vec![], &[], &["sandbox s1 removed"]),
            (
                "ListContainers",
                vec![],
                vec![0xff; 100],
                &["relist asked"],
                &["relist answered", "call ended"],
            ),
            ("ListContainers", filtered.encode_to_vec(), vec![], &[], &[]),
            ("ContainerStatus", id("c1"), vec![], &["status of c1 asked"], &[]),
            ("Version", vec![], vec![], &[], &[]),
        ];
        for (method, request, answer, asked, succeeded) in table {
            for ok in [true, false] {
                let from = world.gate.events().len();
                let call = begin(&kubelet, method, &request).await;
                let exchange = calls.recv().await.unwrap();
                assert_eq!(words(&world, from), asked, "{method}, asked");
                if ok {
                    exchange.reply(&answer).await.unwrap();
                } else {
                    exchange.fail(13, "no").unwrap();
                }
                call.reply().await.unwrap();
                // The client has the end of its answer, so all of it was told.
                let mut expected = asked.to_vec();
                expected.extend(succeeded.iter().filter(|word| ok || **word == "call ended"));
                assert_eq!(words(&world, from), expected, "{method}, ok: {ok}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_is_lost_is_no_success() {
    within(async {
        let world = World::new().await;
        let kubelet = world.kubelet().await;
        for method in ["StopContainer", "CreateContainer", "ListContainers"] {
            let (runtime, mut calls) = world.manual_runtime();
            let from = world.gate.events().len();
            let message = match method {
                "CreateContainer" => create("web"),
                "StopContainer" => stop(30),
                _ => vec![],
            };
            let call = begin(&kubelet, method, &message).await;
            let exchange = calls.recv().await.unwrap();
            runtime.kill().await;
            drop(exchange);
            assert_eq!(call.reply().await.unwrap().status(), Some(14));
            let words = words(&world, from);
            assert_eq!(words.last().unwrap(), "call ended");
            assert_eq!(words.iter().filter(|word| *word == "call ended").count(), 1);
            assert!(words.iter().all(|word| word == "call ended" || word == "relist asked"), "{words:?}");
        }
    })
    .await;
}
