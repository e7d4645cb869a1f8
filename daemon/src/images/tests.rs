//! The executor against a runtime of the test's own: every step has its answer, and a pull ends in every way
//! it can.

use std::{collections::BTreeMap, time::Duration};

use berth_policy::{CredentialKey, Credentials, PullFailure, PulledImage};
use berth_proto::cri::{
    AuthConfig, FilesystemIdentifier, FilesystemUsage, Image, ImageFsInfoRequest, ImageFsInfoResponse,
    ImageStatusRequest, ImageStatusResponse, ListImagesRequest, ListImagesResponse, PullImageRequest,
    PullImageResponse,
    image_service_server::{ImageService, ImageServiceServer},
    runtime_service_server::RuntimeServiceServer,
};
use tempfile::TempDir;
use tokio::{net::UnixListener, sync::mpsc};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, async_trait};

use super::*;
use crate::config::Images;

const GIVEN: &str = "example.com/team/app:1";

/// Answer to a pull.
type Answer = Box<dyn Fn(&PullImageRequest) -> Option<Result<String, Status>> + Send + Sync>;

struct Registry {
    pulls: Mutex<Vec<PullImageRequest>>,
    answer: Answer,
    /// Calls that were dropped before they were answered.
    dropped: Arc<Mutex<usize>>,
}

struct Service(Arc<Registry>);

#[async_trait]
impl ImageService for Service {
    async fn list_images(
        &self,
        _: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, Status> {
        Err(Status::internal("nobody lists all images for one"))
    }

    async fn image_status(
        &self,
        request: Request<ImageStatusRequest>,
    ) -> Result<Response<ImageStatusResponse>, Status> {
        let image = request.into_inner().image.unwrap_or_default().image;
        if image.contains("broken") {
            return Err(Status::internal("broken"));
        }
        let repo_digests = vec!["example.com/team/app@sha256:d".to_owned()];
        let there = Image { id: "sha256:id".to_owned(), repo_digests, ..Image::default() };
        Ok(Response::new(ImageStatusResponse { image: (!image.contains("absent")).then_some(there) }))
    }

    async fn pull_image(
        &self,
        request: Request<PullImageRequest>,
    ) -> Result<Response<PullImageResponse>, Status> {
        struct Dropped(Option<Arc<Mutex<usize>>>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                if let Some(count) = &self.0 {
                    *count.lock().unwrap() += 1;
                }
            }
        }
        let request = request.into_inner();
        self.0.pulls.lock().unwrap().push(request.clone());
        let mut guard = Dropped(Some(self.0.dropped.clone()));
        let answer = match (self.0.answer)(&request) {
            Some(answer) => answer,
            None => std::future::pending().await,
        };
        guard.0 = None;
        answer.map(|image_ref| Response::new(PullImageResponse { image_ref }))
    }

    async fn image_fs_info(
        &self,
        _: Request<ImageFsInfoRequest>,
    ) -> Result<Response<ImageFsInfoResponse>, Status> {
        let fs_id = Some(FilesystemIdentifier { mountpoint: "/".to_owned() });
        Ok(Response::new(ImageFsInfoResponse {
            image_filesystems: vec![FilesystemUsage { fs_id, ..FilesystemUsage::default() }],
        }))
    }
}

struct Node {
    registry: Arc<Registry>,
    executor: ImageExecutor,
    events: mpsc::UnboundedReceiver<ImageEvent>,
    _dir: TempDir,
}

impl Node {
    fn new(
        answer: impl Fn(&PullImageRequest) -> Option<Result<String, Status>> + Send + Sync + 'static,
    ) -> Self {
        Self::with(Reserve::Bytes(0), answer)
    }

    fn with(
        reserve: Reserve,
        answer: impl Fn(&PullImageRequest) -> Option<Result<String, Status>> + Send + Sync + 'static,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("runtime.sock");
        let registry =
            Arc::new(Registry { pulls: Mutex::default(), answer: Box::new(answer), dropped: Arc::default() });
        let listener = UnixListener::bind(&socket).unwrap();
        let runtime = berth_fake::Node::new(|_, _| Ok(())).fake;
        let server = tonic::transport::Server::builder()
            .add_service(ImageServiceServer::new(Service(registry.clone())))
            .add_service(RuntimeServiceServer::from_arc(runtime));
        tokio::spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));

        let file = dir.path().join("config.json");
        let entries = r#"{"auths": {"example.com": {"username": "one", "password": "first"},
            "example.com/team": {"username": "two", "password": "second"}}}"#;
        std::fs::write(&file, entries).unwrap();
        let config = Images { docker_config: vec![file], ..Images::default() };
        let metrics = ImageMetrics::default();
        let credentials = CredentialFinder::new("node-a".to_owned(), None, &config, metrics.clone());
        let (sender, events) = mpsc::unbounded_channel();
        let runtime = ImageRuntime::new(&format!("unix://{}", socket.display()).parse().unwrap());
        let executor = ImageExecutor::new(runtime, reserve, credentials, metrics, move |event| {
            drop(sender.send(event));
        });
        Self { registry, executor, events, _dir: dir }
    }

    async fn next(&mut self) -> ImageEvent {
        tokio::time::timeout(Duration::from_secs(20), self.events.recv()).await.unwrap().unwrap()
    }

    /// The end of the pull, and with how many credentials it was asked for before.
    async fn ended(&mut self) -> (usize, Result<PulledImage, PullFailure>) {
        let mut keys: Vec<CredentialKey> = Vec::new();
        loop {
            match self.next().await {
                ImageEvent::PullAsked { pull: PullId(7), credential } => keys.push(credential),
                ImageEvent::PullEnded { pull: PullId(7), result } => {
                    let asked = keys.len();
                    keys.dedup();
                    assert_eq!(keys.len(), asked, "each credential is tried once");
                    return (asked, result);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn reference(given: &str) -> ImageReference {
    ImageReference {
        given: given.into(),
        record: given.into(),
        registry: "example.com".into(),
        repository: "team/app".into(),
    }
}

fn order() -> Box<PullOrder> {
    Box::new(PullOrder {
        pull: PullId(7),
        image: reference(GIVEN),
        credentials: Credentials::Node,
        timeout: Duration::from_secs(60),
        labels: BTreeMap::from([("job".to_owned(), "j".to_owned())]),
        annotations: BTreeMap::from([("why".to_owned(), "because".to_owned())]),
    })
}

fn user(request: &PullImageRequest) -> &str {
    request.auth.as_ref().map_or("", |auth| auth.username.as_str())
}

#[tokio::test]
async fn a_pull_that_succeeds_with_the_second_credential() {
    let mut node = Node::new(|request| {
        Some(match user(request) {
            "one" => Ok("example.com/team/app@sha256:d".to_owned()),
            _ => Err(Status::unknown("unauthorized")),
        })
    });
    node.executor.begin(ImageStep::Pull(order()));
    let (asked, result) = node.ended().await;
    assert_eq!(asked, 2);
    let image_ref = "example.com/team/app@sha256:d".to_owned();
    assert_eq!(result, Ok(PulledImage { id: "sha256:id".to_owned(), image_ref }));

    let pulls = node.registry.pulls.lock().unwrap().clone();
    assert_eq!(pulls.iter().map(user).collect::<Vec<_>>(), ["two", "one"]);
    let auth =
        AuthConfig { username: "one".to_owned(), password: "first".to_owned(), ..AuthConfig::default() };
    assert_eq!(pulls[1].auth, Some(auth));
    let image = pulls[1].image.clone().unwrap();
    assert_eq!((image.image.as_str(), image.annotations.len()), (GIVEN, 0));
    let sandbox = pulls[1].sandbox_config.clone().unwrap();
    assert_eq!(sandbox.labels["job"], "j");
    assert_eq!(sandbox.annotations["why"], "because");
    assert_eq!(sandbox.annotations["apps.kruise.io/pulling-image-by"], "berth-agent");
}

#[tokio::test]
async fn the_first_failure_is_told() {
    let mut node = Node::new(|request| Some(Err(Status::unknown(format!("no entry for {}", user(request))))));
    node.executor.begin(ImageStep::Pull(order()));
    let (asked, result) = node.ended().await;
    assert_eq!(asked, 3);
    let text = "no entry for two (tried with 2 credentials and without)".to_owned();
    assert_eq!(result, Err(PullFailure::Refused(text)));
}

#[tokio::test]
async fn what_cannot_succeed_is_asked_once() {
    let mut node = Node::new(|_| Some(Err(Status::invalid_argument("no such form"))));
    node.executor.begin(ImageStep::Pull(order()));
    let (asked, result) = node.ended().await;
    assert_eq!((asked, result), (1, Err(PullFailure::Impossible("no such form".to_owned()))));
}

#[tokio::test]
async fn a_limit_a_cancel_and_a_shutdown_drop_the_call() {
    let mut node = Node::new(|_| None);
    // Long enough to have asked by then on a busy machine.
    let limit = Duration::from_secs(2);
    node.executor.begin(ImageStep::Pull(Box::new(PullOrder { timeout: limit, ..*order() })));
    assert_eq!(node.ended().await, (1, Err(PullFailure::TimedOut(limit))));

    // At once, and once it is asked for.
    node.executor.begin(ImageStep::Pull(order()));
    node.executor.begin(ImageStep::Cancel(PullId(7)));
    assert_eq!(node.ended().await.1, Err(PullFailure::Cancelled));
    node.executor.begin(ImageStep::Pull(order()));
    assert!(matches!(node.next().await, ImageEvent::PullAsked { .. }));
    while node.registry.pulls.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    node.executor.begin(ImageStep::Cancel(PullId(7)));
    assert_eq!(node.ended().await.1, Err(PullFailure::Cancelled));
    // Over: nothing to cancel, nothing to tell.
    node.executor.begin(ImageStep::Cancel(PullId(7)));

    node.executor.begin(ImageStep::Pull(order()));
    assert!(matches!(node.next().await, ImageEvent::PullAsked { .. }));
    node.executor.end().await;
    assert!(node.events.try_recv().is_err(), "nobody is told of what the shutdown dropped");
    let dropped = async {
        while *node.registry.dropped.lock().unwrap() < node.registry.pulls.lock().unwrap().len() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), dropped).await.unwrap();
}

#[tokio::test]
async fn no_room_no_pull() {
    let mut node = Node::with(Reserve::Bytes(u64::MAX), |_| Some(Ok("x".to_owned())));
    node.executor.begin(ImageStep::Pull(order()));
    let (asked, result) = node.ended().await;
    let Err(PullFailure::NoRoom(text)) = result else { panic!("{result:?}") };
    assert!(text.starts_with("no room for example.com/team/app:1: / has "), "{text}");
    assert_eq!((asked, node.registry.pulls.lock().unwrap().len()), (0, 0));
}

#[tokio::test]
async fn looks_and_pins_are_answered() {
    let mut node = Node::new(|_| None);
    for (given, expect) in [(GIVEN, true), ("absent", false)] {
        node.executor.begin(ImageStep::Look(reference(given)));
        let ImageEvent::Looked { image, found } = node.next().await else { panic!("not looked") };
        assert_eq!((image, found.is_some()), (reference(given), expect));
    }
    node.executor.begin(ImageStep::Look(reference("broken")));
    let ImageEvent::LookFailed { message, .. } = node.next().await else { panic!("not failed") };
    assert_eq!(message, "ImageStatus of the runtime: broken (Internal)");

    // Not containerd: there is nothing to pin, and that is an answer.
    node.executor.begin(ImageStep::Pin(GIVEN.into(), std::time::Instant::now()));
    assert!(matches!(node.next().await, ImageEvent::PinDone(_)));
    node.executor.begin(ImageStep::Unpin(GIVEN.into()));
    assert!(matches!(node.next().await, ImageEvent::PinDone(_)));
    node.executor.list_pins().await.unwrap();
    assert!(matches!(node.next().await, ImageEvent::PinsListed(pins) if pins.is_empty()));
}

#[test]
fn clocks() {
    let now = Timestamp::now();
    let hour = SignedDuration::from_hours(1);
    let at = monotonic(now + hour);
    let left = at.duration_since(std::time::Instant::now()).as_secs();
    assert!((3590..=3600).contains(&left), "{left}");
    assert!((wall_clock(at) - hour).duration_since(now).abs() < SignedDuration::from_secs(5));
    assert!(monotonic(Timestamp::UNIX_EPOCH) <= std::time::Instant::now());
    assert!(monotonic(Timestamp::MAX) > at);
}
