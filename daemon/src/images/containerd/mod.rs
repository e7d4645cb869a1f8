//! Client of containerd for what it alone tells and takes: how far a pull is, and which images its users want
//! kept.
//!
//! Its own API on the same socket, beside the CRI. Everything here is optional: a pull needs none of it.
//!
//! Found on containerd 1.6.20, and relied on:
//! - The blobs of a pull are labelled
//!   `containerd.io/distribution.source.<host>=<repository>[,<repository>…]`, the host **without** its port,
//!   `docker.io` for Docker Hub.
//! - A manifest has `containerd.io/gc.ref.content.config` and `….l.<n>` before its layers are fetched. A pull
//!   of an image whose manifest is there changes neither `created_at` nor `updated_at`, which is the year 1
//!   for ever.
//! - Downloads that go on are statuses with the refs `layer-<digest>` and `config-<digest>`. One of a pull
//!   that was cancelled stays for a while and does not grow.
//! - In a filter a label is quoted, `labels."containerd.io/x"`; its presence alone is a condition, and a
//!   comma is an "and".
//! - `PullImageResponse.image_ref` is the `Image.id`.

mod lease;
mod manifest;
mod pins;
mod progress;

use std::time::Duration;

use containerd_client::services::v1::{
    Info, InfoRequest, ListContentRequest, ListStatusesRequest, ReadContentRequest, Status as ContentStatus,
    content_client::ContentClient, images_client::ImagesClient,
};
use tonic::{Code, Request, Status, metadata::MetadataValue, transport::Channel};

pub(crate) use self::pins::record_name;
pub(super) use self::progress::Progress;

/// Where the CRI plugin keeps its images.
const NAMESPACE: &str = "k8s.io";
/// No manifest is larger; registries refuse larger ones as well.
const MANIFEST_LIMIT: usize = 4 << 20;

/// A client of containerd's own API.
#[derive(Clone, Debug)]
pub(super) struct Containerd {
    channel: Channel,
}

/// A blob that is being downloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Download {
    /// `layer-<digest>`, `config-<digest>`.
    name: String,
    /// How much of it is there.
    offset: u64,
    /// When it grew last: seconds and nanoseconds since the epoch.
    written: (i64, i32),
}

impl Containerd {
    /// Over a connection that is there already.
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel }
    }

    fn content(&self) -> ContentClient<Channel> {
        ContentClient::new(self.channel.clone())
    }

    fn images(&self) -> ImagesClient<Channel> {
        ImagesClient::new(self.channel.clone())
    }

    /// Fetches the facts about a blob; `None` when it is not there, or not complete.
    async fn info(&self, digest: &str) -> Result<Option<Info>, Status> {
        let request = in_namespace(InfoRequest { digest: digest.to_owned() });
        match self.content().info(request).await {
            Ok(answer) => Ok(answer.into_inner().info),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// All blobs that have this label and that one.
    async fn labelled(&self, one: &str, other: &str) -> Result<Vec<Info>, Status> {
        let filters = vec![format!("labels.{one:?},labels.{other:?}")];
        let mut stream =
            self.content().list(in_namespace(ListContentRequest { filters })).await?.into_inner();
        let mut all = Vec::new();
        while let Some(part) = stream.message().await? {
            all.extend(part.info);
        }
        Ok(all)
    }

    /// The downloads that are not complete, those that were given up included.
    async fn downloads(&self) -> Result<Vec<Download>, Status> {
        let request = in_namespace(ListStatusesRequest::default());
        let statuses = self.content().list_statuses(request).await?.into_inner().statuses;
        let download = |status: ContentStatus| Download {
            name: status.r#ref,
            offset: size(status.offset),
            written: status.updated_at.map_or((0, 0), |at| (at.seconds, at.nanos)),
        };
        Ok(statuses.into_iter().map(download).collect())
    }

    /// A small blob; `None` when it is not there, and nothing of one that is too large for a manifest.
    async fn read(&self, digest: &str) -> Result<Option<Vec<u8>>, Status> {
        let request = in_namespace(ReadContentRequest { digest: digest.to_owned(), offset: 0, size: 0 });
        let mut stream = match self.content().read(request).await {
            Ok(answer) => answer.into_inner(),
            Err(status) if status.code() == Code::NotFound => return Ok(None),
            Err(status) => return Err(status),
        };
        let mut all = Vec::new();
        loop {
            match stream.message().await {
                Ok(Some(part)) => all.extend(part.data),
                Ok(None) => return Ok(Some(all)),
                Err(status) if status.code() == Code::NotFound => return Ok(None),
                Err(status) => return Err(status),
            }
            if all.len() > MANIFEST_LIMIT {
                return Ok(Some(Vec::new()));
            }
        }
    }
}

/// Longest wait for containerd. One that hangs must not stop the work that goes on beside it.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The answer to a question, in time.
pub(super) async fn in_time<T>(answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = |_| Err(Status::deadline_exceeded(format!("no answer of containerd in {CALL_TIMEOUT:?}")));
    tokio::time::timeout(CALL_TIMEOUT, answer).await.unwrap_or_else(late)
}

fn in_namespace<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static(NAMESPACE));
    request
}

#[cfg(any(test, feature = "fuzzing"))]
/// A blob that a registry has sent. What its size is added up from is all in it.
pub(super) fn parse_for_fuzzing(data: &[u8]) {
    match manifest::Document::parse(data) {
        Some(manifest::Document::Image(image)) => assert!(!image.blobs.is_empty()),
        Some(manifest::Document::Index(children)) => assert!(!children.is_empty()),
        None => {}
    }
}

/// Sizes are signed on the wire, and never negative.
fn size(bytes: i64) -> u64 {
    bytes.try_into().unwrap_or(0)
}
