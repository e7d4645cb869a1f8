//! Which method a request belongs to, and what it is answered with.

use berth_proto::cri::*;
use prost::Message;

use super::messages::*;

/// A request that says by its type where it goes.
pub trait Call: Message {
    /// The HTTP/2 path.
    const PATH: &'static str;
    /// The method's name alone, as transcripts show it.
    const NAME: &'static str;
    /// Message that comes back.
    type Answer: Message + Default + std::fmt::Debug;
}

macro_rules! methods {
    ($service:literal: $($name:ident($request:ty) -> $answer:ty;)*) => {
        $(impl Call for $request {
            const PATH: &'static str = concat!("/runtime.v1.", $service, "/", stringify!($name));
            const NAME: &'static str = stringify!($name);
            type Answer = $answer;
        })*
    };
}

methods! { "RuntimeService":
    Version(VersionRequest) -> VersionResponse;
    Status(StatusRequest) -> StatusResponse;
    RunPodSandbox(RunPodSandboxRequest) -> RunPodSandboxResponse;
    StopPodSandbox(StopPodSandboxRequest) -> StopPodSandboxResponse;
    RemovePodSandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
    PodSandboxStatus(PodSandboxStatusRequest) -> PodSandboxStatusResponse;
    ListPodSandbox(ListPodSandboxRequest) -> ListPodSandboxResponse;
    CreateContainer(CreateContainerRequest) -> CreateContainerResponse;
    StartContainer(StartContainerRequest) -> StartContainerResponse;
    StopContainer(StopContainerRequest) -> StopContainerResponse;
    RemoveContainer(RemoveContainerRequest) -> RemoveContainerResponse;
    ListContainers(ListContainersRequest) -> ListContainersResponse;
    ContainerStatus(ContainerStatusRequest) -> ContainerStatusResponse;
    UpdateContainerResources(UpdateContainerResourcesRequest) -> Nothing;
    ReopenContainerLog(ReopenContainerLogRequest) -> Nothing;
    ExecSync(ExecSyncRequest) -> ExecSyncResponse;
    Exec(ExecRequest) -> StreamingResponse;
    Attach(AttachRequest) -> StreamingResponse;
    PortForward(PortForwardRequest) -> StreamingResponse;
    ContainerStats(ContainerStatsRequest) -> ContainerStatsResponse;
    ListContainerStats(ListContainerStatsRequest) -> ListContainerStatsResponse;
    PodSandboxStats(PodSandboxStatsRequest) -> PodSandboxStatsResponse;
    ListPodSandboxStats(ListPodSandboxStatsRequest) -> ListPodSandboxStatsResponse;
    UpdateRuntimeConfig(UpdateRuntimeConfigRequest) -> Nothing;
    CheckpointContainer(CheckpointContainerRequest) -> Nothing;
    GetContainerEvents(GetEventsRequest) -> Nothing;
    RuntimeConfig(RuntimeConfigRequest) -> Nothing;
    ListMetricDescriptors(ListMetricDescriptorsRequest) -> Nothing;
}

methods! { "ImageService":
    ListImages(ListImagesRequest) -> ListImagesResponse;
    ImageStatus(ImageStatusRequest) -> ImageStatusResponse;
    ImageFsInfo(ImageFsInfoRequest) -> ImageFsInfoResponse;
    PullImage(PullImageRequest) -> PullImageResponse;
    RemoveImage(RemoveImageRequest) -> Nothing;
}
