//! A pull that the agent does already is not done twice, and any other goes to the runtime as it came.

use berth_policy::Event;
use berth_proto::cri as proto;
use berth_tests::fake::{Exchange, FakeKubelet, FakeRuntime, Reply, framed};
use prost::Message;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::world::{World, within};

/// A runtime whose calls the case answers, and a kubelet before the shim.
struct Scene {
    world: World,
    calls: UnboundedReceiver<Exchange>,
    kubelet: FakeKubelet,
    _runtime: FakeRuntime,
}

impl Scene {
    async fn set() -> Self {
        let world = World::new().await;
        let (_runtime, calls) = world.manual_runtime();
        let kubelet = world.kubelet().await;
        Self { world, calls, kubelet, _runtime }
    }
}

const IMAGE: &str = "127.0.0.1:5000/app:1";

fn request(password: &str) -> Vec<u8> {
    let auth = proto::AuthConfig { password: password.to_owned(), ..Default::default() };
    let image = proto::ImageSpec { image: IMAGE.to_owned(), ..Default::default() };
    proto::PullImageRequest { image: Some(image), auth: Some(auth), sandbox_config: None }.encode_to_vec()
}

async fn pull(kubelet: &FakeKubelet) -> Reply {
    kubelet.call("/runtime.v1.ImageService/PullImage", &request("p")).await.unwrap()
}

fn answer(image_ref: &str) -> Vec<u8> {
    framed(&proto::PullImageResponse { image_ref: image_ref.to_owned() }.encode_to_vec()).to_vec()
}

#[tokio::test]
async fn a_pull_of_the_agent_answers_the_kubelets() {
    within(async {
        let Scene { world, mut calls, kubelet, _runtime } = Scene::set().await;
        world.gate.pulls(IMAGE);
        let (reply, ()) = tokio::join!(pull(&kubelet), async {
            world.gate.joined().await;
            world.gate.pulled(IMAGE, Some("sha256:1"));
        });
        assert_eq!((reply.status(), reply.body()), (Some(0), answer("sha256:1")));
        assert!(calls.try_recv().is_err(), "the runtime was asked as well");
        assert!(world.gate.events().is_empty(), "nothing was passed on");
    })
    .await;
}

#[tokio::test]
async fn when_the_agents_fails_the_kubelets_goes_on() {
    within(async {
        let Scene { world, mut calls, kubelet, _runtime } = Scene::set().await;
        world.gate.pulls(IMAGE);
        let (reply, ()) = tokio::join!(pull(&kubelet), async {
            world.gate.joined().await;
            assert!(calls.try_recv().is_err(), "not before the agent's own has ended");
            world.gate.pulled(IMAGE, None);
            let mut call = calls.recv().await.unwrap();
            assert_eq!(call.read().await.unwrap(), framed(&request("p")));
            let passed = |event: &Event| matches!(event, Event::PullPassed { image, .. } if image == IMAGE);
            world.gate.told(passed).await;
            let message = proto::PullImageResponse { image_ref: "sha256:2".to_owned() }.encode_to_vec();
            call.reply(&message).await.unwrap();
        });
        assert_eq!((reply.status(), reply.body()), (Some(0), answer("sha256:2")));
        world.gate.told(|event| matches!(event, Event::CallEnded(_))).await;
    })
    .await;
}

#[tokio::test]
async fn a_stop_of_the_agent_lets_a_waiting_pull_go() {
    within(async {
        let Scene { world, mut calls, kubelet, _runtime } = Scene::set().await;
        world.gate.pulls(IMAGE);
        let (reply, ()) = tokio::join!(pull(&kubelet), async {
            world.gate.joined().await;
            world.shutdown.cancel();
            let mut call = calls.recv().await.unwrap();
            call.read().await.unwrap();
            call.fail(2, "no such host").unwrap();
        });
        assert_eq!(reply.status(), Some(2), "the runtime's own answer");
    })
    .await;
}

/// It may be unpacked for another snapshotter than the agent's.
#[tokio::test]
async fn a_pull_for_a_handler_of_its_own_waits_for_nobody() {
    within(async {
        let Scene { world, mut calls, kubelet, _runtime } = Scene::set().await;
        world.gate.pulls(IMAGE);
        let image = proto::ImageSpec {
            image: IMAGE.to_owned(),
            runtime_handler: "kata".into(),
            ..Default::default()
        };
        let message = proto::PullImageRequest { image: Some(image), ..Default::default() }.encode_to_vec();
        let asked = kubelet.call("/runtime.v1.ImageService/PullImage", &message);
        let (reply, ()) = tokio::join!(asked, async {
            calls.recv().await.unwrap().reply(b"").await.unwrap();
        });
        assert_eq!(reply.unwrap().status(), Some(0));
        world.gate.told(|event| matches!(event, Event::PullPassed { .. })).await;
    })
    .await;
}

#[tokio::test]
async fn credentials_are_told_apart_and_never_told() {
    within(async {
        let Scene { world, mut calls, kubelet, _runtime } = Scene::set().await;
        for password in ["canary-a", "canary-b", "canary-a"] {
            let message = request(password);
            let asked = kubelet.call("/runtime.v1.ImageService/PullImage", &message);
            let (reply, ()) = tokio::join!(asked, async {
                let call = calls.recv().await.unwrap();
                call.reply(b"").await.unwrap();
            });
            assert_eq!(reply.unwrap().status(), Some(0));
        }
        let passed = |event: &&Event| matches!(event, Event::PullPassed { .. });
        // Over a line they are told a moment later.
        while world.gate.events().iter().filter(passed).count() < 3 {
            tokio::task::yield_now().await;
        }
        let events = world.gate.events();
        assert!(!format!("{events:?}").contains("canary"));
        let keys: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::PullPassed { credential, .. } => Some(*credential),
                _ => None,
            })
            .collect();
        assert_eq!((keys.len(), keys[0] == keys[2], keys[0] == keys[1]), (3, true, false));
    })
    .await;
}
