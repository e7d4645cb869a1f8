//! Too much of everything: what is shed, that it is said, and that the kubelet goes on.

use std::time::Duration;

use berth_policy::{HoldReason, Request, Verdict};
use berth_shim::{Clients, RuntimeEndpoint};
use berth_tests::fake::{FakeKubelet, framed};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::{net::UnixStream, time::sleep};

use crate::gate::create;
use crate::world::{Shim, World, cri, echo, own_process, within};

/// `CONNECTIONS` of the shim.
const CONNECTIONS: usize = 1024;
/// `MEMORY` of the shim, in requests of nearly the largest size.
const LARGEST_REQUESTS: usize = 8;

/// As many descriptors as the system allows: each connection takes two of this process.
fn many_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

#[tokio::test]
async fn connections() {
    many_descriptors();
    within(async {
        for (clients, taken) in [(Clients::default(), false), (own_process(), true)] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("cri.sock");
            let runtime = RuntimeEndpoint::from(directory.path().join("runtime.sock"));
            let listener = berth_shim::bind(&path, &runtime).await.unwrap();
            let shim = Shim::serve(listener, runtime, clients);
            let mut open = Vec::new();
            while open.len() < CONNECTIONS {
                match UnixStream::connect(&path).await {
                    Ok(stream) => open.push(stream),
                    // The backlog is full: let the other side accept.
                    Err(_) => tokio::task::yield_now().await,
                }
            }
            while shim.metrics.connections_open() < CONNECTIONS.try_into().unwrap() {
                tokio::task::yield_now().await;
            }
            let one_more = async {
                let kubelet = FakeKubelet::connect(&path).await?;
                kubelet.call(&cri("Version"), &[]).await
            };
            assert_eq!(one_more.await.is_ok(), taken, "the kubelet: {taken}");
            assert_eq!(shim.metrics.shed_so_far() > 0, !taken);

            // Those that are there are served, and when they go there is room again.
            open.clear();
            let again = async {
                while shim.metrics.connections_open() > 1 {
                    tokio::task::yield_now().await;
                }
                let kubelet = FakeKubelet::connect(&path).await.unwrap();
                kubelet.call(&cri("Version"), &[]).await.unwrap()
            };
            assert_eq!(again.await.status(), Some(14), "there is no runtime");
        }
    })
    .await;
}

/// A creation with much in a field nobody knows: with its headers, nearly the largest request.
fn large(container: &str) -> Vec<u8> {
    let mut message = create(container);
    let filler = vec![b'x'; (16 << 20) - message.len() - 1024];
    prost::encoding::bytes::encode(1000, &filler, &mut message);
    message
}

#[tokio::test]
async fn memory_for_requests() {
    within(async {
        let world = World::of(Clients::default()).await;
        let (_runtime, mut calls) = world.manual_runtime();
        world.gate.answer(|call| match call.id.0 as usize <= LARGEST_REQUESTS {
            true => {
                Verdict::Hold { until: call.arrived + Duration::from_secs(3600), why: HoldReason::Inspection }
            }
            false => Verdict::Forward,
        });
        let kubelet = world.kubelet().await;
        let large = || large("large");
        let mut held = Vec::new();
        for _ in 0..LARGEST_REQUESTS {
            let mut call = kubelet.open(&cri("CreateContainer"), &[]).await.unwrap();
            call.send.send_data(framed(&large()), true).unwrap();
            held.push(call);
        }
        while world.metrics.held_now() < LARGEST_REQUESTS.try_into().unwrap() {
            tokio::task::yield_now().await;
        }
        let shed = kubelet.call(&cri("CreateContainer"), &large()).await.unwrap();
        assert_eq!(shed.status(), Some(8), "{shed:?}");
        assert!(world.metrics.shed_so_far() > 0);
        // What is small passes.
        let mut pass = async |message: Vec<u8>| {
            let mut call = kubelet.open(&cri("CreateContainer"), &[]).await.unwrap();
            call.send.send_data(framed(&message), true).unwrap();
            let answer = async { echo(calls.recv().await.unwrap()).await };
            let (reply, ()) = tokio::join!(call.reply(), answer);
            reply.unwrap().status()
        };
        assert_eq!(pass(create("small")).await, Some(0));
        drop(held);
        while world.metrics.held_now() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pass(large()).await, Some(0));
    })
    .await;
}

/// No window bounds them. Who opens calls with much in their headers, and lets them wait, takes no more
/// memory than with large requests, and nothing from others.
#[tokio::test]
async fn memory_for_headers() {
    within(async {
        let world = World::of(Clients::default()).await;
        let (_runtime, mut calls) = world.manual_runtime();
        world.gate.answer(|call| match &call.request {
            Request::CreateContainer(request) if request.container.as_str() == "waits" => {
                Verdict::Hold { until: call.arrived + Duration::from_secs(3600), why: HoldReason::Inspection }
            }
            _ => Verdict::Forward,
        });
        let kubelet = world.kubelet().await;
        // 4 MiB, and what is around them.
        let (names, value) = ((0..64).map(|n| format!("x-{n}")).collect::<Vec<_>>(), "x".repeat(64 << 10));
        let headers: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), value.as_str())).collect();
        // What the large ones leave room for.
        let large_ones = (1..LARGEST_REQUESTS).map(|_| (&[][..], large("waits")));
        let mut held = Vec::new();
        for (headers, message) in large_ones.chain((0..3).map(|_| (&headers[..], create("waits")))) {
            let mut call = kubelet.open(&cri("CreateContainer"), headers).await.unwrap();
            call.send.send_data(framed(&message), true).unwrap();
            held.push(call);
        }
        while world.metrics.held_now() < held.len().try_into().unwrap() {
            sleep(Duration::from_millis(1)).await;
        }
        for path in [cri("CreateContainer"), cri("Version"), "/unknown.Service/Method".to_owned()] {
            let shed = kubelet.call_with(&path, &headers, framed(&create("late"))).await.unwrap();
            assert_eq!(shed.status(), Some(8), "{path}: {shed:?}");
        }
        assert_eq!(world.metrics.shed_so_far(), 3);
        let mut pass = async |path: &str, headers: &[(&str, &str)]| {
            let call = kubelet.call_with(path, headers, framed(&create("small")));
            let answer = async { echo(calls.recv().await.unwrap()).await };
            let (reply, ()) = tokio::join!(call, answer);
            reply.unwrap().status()
        };
        for path in [cri("CreateContainer"), cri("Version"), "/unknown.Service/Method".to_owned()] {
            assert_eq!(pass(&path, &[]).await, Some(0), "{path}");
        }
        drop(held);
        while world.metrics.held_now() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(pass(&cri("Version"), &headers).await, Some(0));
    })
    .await;
}
