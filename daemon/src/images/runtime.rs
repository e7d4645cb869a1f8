//! The agent's own client of the runtime's image service, over a connection of its own: a pull that goes on
//! for minutes shares it with nothing that the data path waits for.

use std::{collections::BTreeMap, time::Duration};

use berth_policy::PulledImage;
use berth_proto::cri::{
    AuthConfig, ImageFsInfoRequest, ImageSpec, ImageStatusRequest, PodSandboxConfig, PullImageRequest,
    VersionRequest, image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient,
};
use berth_shim::RuntimeEndpoint;
use tonic::{Status, transport::Channel};

use crate::{
    base::unix,
    cri::{MESSAGE_LIMIT, RuntimeError, within},
    trace,
};

/// Longest time for a question about an image: the runtime reads its configuration from a disk that pulls
/// keep busy.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);

/// On every pull of ours, so that whoever reads the runtime's log can tell them from the kubelet's.
const PULLED_BY: (&str, &str) = ("apps.kruise.io/pulling-image-by", "berth-agent");

/// A client of the image service. Cheap to clone; connects when it is used, and again after the runtime went
/// away.
#[derive(Clone, Debug)]
pub(crate) struct ImageRuntime {
    channel: Channel,
}

impl ImageRuntime {
    /// A client of the runtime at `endpoint`; nothing is dialled yet.
    pub(crate) fn new(endpoint: &RuntimeEndpoint) -> Self {
        Self { channel: unix::endpoint().connect_with_connector_lazy(unix::connector(endpoint.path())) }
    }

    /// The connection, for what is not the CRI.
    pub(super) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    fn images(&self) -> ImageServiceClient<trace::Joined> {
        ImageServiceClient::new(trace::joined(self.channel.clone())).max_decoding_message_size(MESSAGE_LIMIT)
    }

    /// Asks for the runtime's own name: `containerd`, `cri-o`.
    pub(crate) async fn name(&self) -> Result<String, RuntimeError> {
        let mut client = RuntimeServiceClient::new(self.channel.clone());
        let answer = within("Version", QUESTION_TIMEOUT, client.version(VersionRequest::default())).await?;
        Ok(answer.runtime_name)
    }

    /// Tells whether the image is there, and what it is. One question about one image: a list of all would
    /// cost the more the more there are.
    pub(crate) async fn look(&self, reference: &str) -> Result<Option<PulledImage>, RuntimeError> {
        let request = ImageStatusRequest { image: Some(spec(reference)), verbose: false };
        let answer = within("ImageStatus", QUESTION_TIMEOUT, self.images().image_status(request)).await?;
        Ok(answer.image.map(|image| {
            let image_ref = image.repo_digests.into_iter().next().unwrap_or_else(|| image.id.clone());
            PulledImage { id: image.id, image_ref }
        }))
    }

    /// Tells whether the kubelet is shown the image as pinned.
    pub(super) async fn shows_pinned(&self, reference: &str) -> Result<bool, RuntimeError> {
        let request = ImageStatusRequest { image: Some(spec(reference)), verbose: false };
        let answer = within("ImageStatus", QUESTION_TIMEOUT, self.images().image_status(request)).await?;
        Ok(answer.image.is_some_and(|image| image.pinned))
    }

    /// Pulls, however long it takes, and gives `image_ref`. Whoever drops it ends the pull at the runtime,
    /// too.
    pub(crate) async fn pull(
        &self,
        reference: &str,
        auth: Option<AuthConfig>,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<String, Status> {
        let mut sandbox = PodSandboxConfig {
            labels: labels.clone().into_iter().collect(),
            annotations: annotations.clone().into_iter().collect(),
            ..PodSandboxConfig::default()
        };
        sandbox.annotations.insert(PULLED_BY.0.to_owned(), PULLED_BY.1.to_owned());
        let request = PullImageRequest { image: Some(spec(reference)), auth, sandbox_config: Some(sandbox) };
        let answer = self.images().pull_image(request).await?;
        Ok(answer.into_inner().image_ref)
    }

    /// Finds where the filesystem is mounted that images are unpacked to; `None` where the runtime does not
    /// tell.
    pub(crate) async fn image_fs(&self) -> Result<Option<String>, RuntimeError> {
        let answer =
            within("ImageFsInfo", QUESTION_TIMEOUT, self.images().image_fs_info(ImageFsInfoRequest {}))
                .await?;
        let first = answer.image_filesystems.into_iter().next().and_then(|usage| usage.fs_id);
        Ok(first.map(|id| id.mountpoint).filter(|path| !path.is_empty()))
    }
}

/// The reference as it was given, and nothing else: annotations of the image would be part of its identity.
fn spec(reference: &str) -> ImageSpec {
    ImageSpec { image: reference.to_owned(), ..ImageSpec::default() }
}
