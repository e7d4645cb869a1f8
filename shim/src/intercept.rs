//! The closed table of calls that are looked at. Whatever is not in it passes without being read.

use berth_cri as cri;
use berth_policy::{ContainerId, Declared, PodRef, Request, SandboxId};
use bytes::Bytes;
use prost::Message;

use crate::{
    convert::{self, Missing, PullImage},
    edit,
};

/// A method of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    CreateContainer,
    StopContainer,
    RunPodSandbox,
    StopPodSandbox,
    RemovePodSandbox,
    StartContainer,
    RemoveContainer,
    ListPodSandbox,
    ListContainers,
    ContainerStatus,
    ExecSync,
    PodSandboxStatus,
    GetContainerEvents,
    PullImage,
    StreamPodSandboxes,
    StreamContainers,
}

/// Request of a call of the table.
#[derive(Debug)]
pub(crate) enum Asked {
    /// May have to wait: the gate is asked.
    Gated(Request),
    /// Known when it is answered.
    RunPodSandbox(PodRef, Declared),
    /// Known when it is asked, before the runtime hears of it.
    StopPodSandbox(SandboxId),
    /// Known when it succeeded.
    RemovePodSandbox(SandboxId),
    /// Known when it succeeded.
    StartContainer(ContainerId),
    /// Known when it succeeded.
    RemoveContainer(ContainerId),
    /// All sandboxes, as PLEG asks for them: the first half of its relist.
    AllSandboxes {
        /// With a filter that says nothing.
        empty_filter: bool,
    },
    /// All containers: the second half.
    Relist,
    /// The kubelet looks at this container.
    ContainerStatus(ContainerId),
    /// A command without a time limit: the kubelet runs its lifecycle hooks so, and nothing else.
    Hook(ContainerId),
    /// The answer has the status of several containers, in this field of its messages.
    Statuses(u64),
    /// An image: the agent may be pulling it already.
    Pull(PullImage),
    /// In the table, but this one says nothing new: a filtered list, a command with a time limit.
    Nothing,
}

/// The request cannot be looked at; the runtime will judge it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undecodable {
    #[error("not the message of this method")]
    Message(#[source] prost::DecodeError),
    #[error("incomplete message")]
    Incomplete(#[source] Missing),
}

// === impl Method ===

impl Method {
    /// All of them, in the order of their discriminants.
    pub(crate) const ALL: [Self; 16] = [
        Self::CreateContainer,
        Self::StopContainer,
        Self::RunPodSandbox,
        Self::StopPodSandbox,
        Self::RemovePodSandbox,
        Self::StartContainer,
        Self::RemoveContainer,
        Self::ListPodSandbox,
        Self::ListContainers,
        Self::ContainerStatus,
        Self::ExecSync,
        Self::PodSandboxStatus,
        Self::GetContainerEvents,
        Self::PullImage,
        Self::StreamPodSandboxes,
        Self::StreamContainers,
    ];

    /// The method behind this path, if it is in the table.
    pub(crate) fn of(path: &str) -> Option<Self> {
        if path == "/runtime.v1.ImageService/PullImage" {
            return Some(Self::PullImage);
        }
        match path.strip_prefix("/runtime.v1.RuntimeService/")? {
            "CreateContainer" => Some(Self::CreateContainer),
            "StopContainer" => Some(Self::StopContainer),
            "RunPodSandbox" => Some(Self::RunPodSandbox),
            "StopPodSandbox" => Some(Self::StopPodSandbox),
            "RemovePodSandbox" => Some(Self::RemovePodSandbox),
            "StartContainer" => Some(Self::StartContainer),
            "RemoveContainer" => Some(Self::RemoveContainer),
            "ListPodSandbox" => Some(Self::ListPodSandbox),
            "ListContainers" => Some(Self::ListContainers),
            "ContainerStatus" => Some(Self::ContainerStatus),
            "ExecSync" => Some(Self::ExecSync),
            "PodSandboxStatus" => Some(Self::PodSandboxStatus),
            "GetContainerEvents" => Some(Self::GetContainerEvents),
            "StreamPodSandboxes" => Some(Self::StreamPodSandboxes),
            "StreamContainers" => Some(Self::StreamContainers),
            _ => None,
        }
    }

    /// Tells whether what it was about to do is wanted when nobody waits for it any more: whoever asked will
    /// ask for the same. What makes something new is not: the runtime removes what is half made, and the next
    /// one has the name.
    pub(crate) fn survives_restart(self) -> bool {
        match self {
            Self::StartContainer
            | Self::StopContainer
            | Self::StopPodSandbox
            | Self::RemoveContainer
            | Self::RemovePodSandbox
            | Self::ExecSync
            | Self::PullImage => true,
            Self::CreateContainer
            | Self::RunPodSandbox
            | Self::ListPodSandbox
            | Self::ListContainers
            | Self::ContainerStatus
            | Self::PodSandboxStatus
            | Self::GetContainerEvents
            | Self::StreamPodSandboxes
            | Self::StreamContainers => false,
        }
    }

    /// Its name, for logs and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CreateContainer => "CreateContainer",
            Self::StopContainer => "StopContainer",
            Self::RunPodSandbox => "RunPodSandbox",
            Self::StopPodSandbox => "StopPodSandbox",
            Self::RemovePodSandbox => "RemovePodSandbox",
            Self::StartContainer => "StartContainer",
            Self::RemoveContainer => "RemoveContainer",
            Self::ListPodSandbox => "ListPodSandbox",
            Self::ListContainers => "ListContainers",
            Self::ContainerStatus => "ContainerStatus",
            Self::ExecSync => "ExecSync",
            Self::PodSandboxStatus => "PodSandboxStatus",
            Self::GetContainerEvents => "GetContainerEvents",
            Self::PullImage => "PullImage",
            Self::StreamPodSandboxes => "StreamPodSandboxes",
            Self::StreamContainers => "StreamContainers",
        }
    }

    /// Reads a request of this method.
    pub(crate) fn read(self, message: Bytes) -> Result<Asked, Undecodable> {
        Ok(match self {
            Self::CreateContainer => Asked::Gated(Request::CreateContainer(
                convert::create_container(decoded(message)?).map_err(Undecodable::Incomplete)?,
            )),
            Self::StopContainer => {
                Asked::Gated(Request::StopContainer(convert::stop_container(decoded(message)?)))
            }
            Self::RunPodSandbox => {
                let (pod, declared) =
                    convert::run_pod_sandbox(decoded(message)?).map_err(Undecodable::Incomplete)?;
                Asked::RunPodSandbox(pod, declared)
            }
            Self::StopPodSandbox => {
                let request: cri::StopPodSandboxRequest = decoded(message)?;
                Asked::StopPodSandbox(request.pod_sandbox_id.into())
            }
            Self::RemovePodSandbox => {
                let request: cri::RemovePodSandboxRequest = decoded(message)?;
                Asked::RemovePodSandbox(request.pod_sandbox_id.into())
            }
            Self::StartContainer => {
                let request: cri::StartContainerRequest = decoded(message)?;
                Asked::StartContainer(request.container_id.into())
            }
            Self::RemoveContainer => {
                let request: cri::RemoveContainerRequest = decoded(message)?;
                Asked::RemoveContainer(request.container_id.into())
            }
            // The streams of CRI 0.36 (kubelet's gate `CRIListStreaming`) have the messages of the lists.
            Self::ListPodSandbox | Self::StreamPodSandboxes => {
                let request: cri::ListPodSandboxRequest = decoded(message)?;
                match request.filter {
                    None => Asked::AllSandboxes { empty_filter: false },
                    Some(filter) if filter == cri::PodSandboxFilter::default() => {
                        Asked::AllSandboxes { empty_filter: true }
                    }
                    Some(_) => Asked::Nothing,
                }
            }
            Self::ListContainers | Self::StreamContainers => {
                let request: cri::ListContainersRequest = decoded(message)?;
                let unfiltered =
                    request.filter.is_none_or(|filter| filter == cri::ContainerFilter::default());
                if unfiltered { Asked::Relist } else { Asked::Nothing }
            }
            Self::ContainerStatus => {
                let request: cri::ContainerStatusRequest = decoded(message)?;
                Asked::ContainerStatus(request.container_id.into())
            }
            Self::ExecSync => {
                let request: cri::ExecSyncRequest = decoded(message)?;
                if request.timeout == 0 { Asked::Hook(request.container_id.into()) } else { Asked::Nothing }
            }
            Self::PodSandboxStatus => Asked::Statuses(edit::OF_SANDBOX),
            Self::GetContainerEvents => Asked::Statuses(edit::OF_EVENT),
            Self::PullImage => {
                Asked::Pull(convert::pull_image(decoded(message)?).map_err(Undecodable::Incomplete)?)
            }
        })
    }
}

fn decoded<M: Message + Default>(message: Bytes) -> Result<M, Undecodable> {
    M::decode(message).map_err(Undecodable::Message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_closed() {
        for (index, method) in Method::ALL.into_iter().enumerate() {
            assert_eq!(index, method as usize);
            let service = if method == Method::PullImage { "Image" } else { "Runtime" };
            let path = format!("/runtime.v1.{service}Service/{}", method.name());
            assert_eq!(Method::of(&path), Some(method));
        }
        for path in [
            "/runtime.v1.RuntimeService/Version",
            "/runtime.v1.RuntimeService/PullImage",
            "/runtime.v1.ImageService/ListImages",
            "/runtime.v2.RuntimeService/CreateContainer",
            "/runtime.v1.RuntimeService/CreateContainerAgain",
            "/runtime.v1.RuntimeService/",
            "",
        ] {
            assert_eq!(Method::of(path), None, "{path}");
        }
    }

    #[test]
    fn only_an_unfiltered_list_is_a_relist() {
        let read = |filter| {
            let message: Bytes = cri::ListContainersRequest { filter }.encode_to_vec().into();
            let relists = [Method::ListContainers, Method::StreamContainers]
                .map(|method| matches!(method.read(message.clone()).unwrap(), Asked::Relist));
            assert_eq!(relists[0], relists[1]);
            relists[0]
        };
        assert!(read(None));
        assert!(read(Some(cri::ContainerFilter::default())));
        let by_label = [("io.kubernetes.pod.uid".to_owned(), "u".to_owned())].into();
        assert!(!read(Some(cri::ContainerFilter { label_selector: by_label, ..Default::default() })));
        // CONTAINER_CREATED is 0 on the wire, and a filter all the same.
        let by_state = Some(cri::ContainerStateValue { state: 0 });
        assert!(!read(Some(cri::ContainerFilter { state: by_state, ..Default::default() })));
    }

    #[test]
    fn plegs_list_of_sandboxes_has_no_filter_or_an_empty_one() {
        let read = |method: Method, filter| {
            let message = cri::ListPodSandboxRequest { filter }.encode_to_vec();
            match method.read(message.into()).unwrap() {
                Asked::AllSandboxes { empty_filter } => Some(empty_filter),
                _ => None,
            }
        };
        // SANDBOX_READY is 0 on the wire.
        let ready = || {
            let state = Some(cri::PodSandboxStateValue { state: 0 });
            cri::PodSandboxFilter { state, ..Default::default() }
        };
        for method in [Method::ListPodSandbox, Method::StreamPodSandboxes] {
            assert_eq!(read(method, None), Some(false));
            assert_eq!(read(method, Some(cri::PodSandboxFilter::default())), Some(true));
            assert_eq!(read(method, Some(ready())), None);
        }
    }

    #[test]
    fn garbage_is_an_error_for_every_method() {
        // Of these two nothing is read.
        let unread = [Method::PodSandboxStatus, Method::GetContainerEvents];
        for method in Method::ALL.into_iter().filter(|method| !unread.contains(method)) {
            assert!(method.read(Bytes::from_static(&[0xff, 0xff])).is_err(), "{}", method.name());
        }
    }
}
