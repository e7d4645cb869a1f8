//! Calls for what is not there, and calls that make no sense. Each line of a table is a case.

use std::time::Duration;

use anyhow::{Context, Result};
use berth_proto::cri::*;
use berth_tests::compare::{
    AttachRequest, CheckpointContainerRequest, ContainerStatsRequest, ExecRequest, GetEventsRequest,
    ListMetricDescriptorsRequest, NetworkConfig, PodSandboxStatsRequest, PortForwardRequest,
    ReopenContainerLogRequest, RuntimeConfig, RuntimeConfigRequest, UpdateContainerResourcesRequest,
    UpdateRuntimeConfigRequest,
};
use tokio::time::timeout;

use super::way::exec_request;
use super::{is_newer, same};

macro_rules! answers {
    ($($name:ident: $request:expr => $shows:literal;)*) => {$(
        #[tokio::test]
        async fn $name() -> Result<()> {
            same(stringify!($name), &[$shows], async |way| way.ask($request).await.map(drop)).await
        }
    )*};
}

/// Time for the first event of a container that is made.
const PATIENCE: Duration = Duration::from_secs(60);
/// An ID of nothing.
const ABSENT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn absent() -> String {
    ABSENT.to_owned()
}

// What is not there.
answers! {
    absent_sandbox_status: PodSandboxStatusRequest { pod_sandbox_id: absent(), verbose: false }
        => "PodSandboxStatus: NotFound";
    absent_sandbox_stop: StopPodSandboxRequest { pod_sandbox_id: absent() } => "StopPodSandbox: ";
    absent_sandbox_remove: RemovePodSandboxRequest { pod_sandbox_id: absent() } => "RemovePodSandbox: OK";
    absent_sandbox_stats: PodSandboxStatsRequest { pod_sandbox_id: absent() } => "PodSandboxStats: ";
    absent_sandbox_port_forward: PortForwardRequest { pod_sandbox_id: absent(), port: vec![80] }
        => "PortForward: NotFound";
    absent_container_start: StartContainerRequest { container_id: absent() } => "StartContainer: NotFound";
    absent_container_stop: StopContainerRequest { container_id: absent(), timeout: 1 } => "StopContainer: ";
    absent_container_remove: RemoveContainerRequest { container_id: absent() } => "RemoveContainer: OK";
    absent_container_status: ContainerStatusRequest { container_id: absent(), verbose: true }
        => "ContainerStatus: NotFound";
    absent_container_exec_sync: exec_request(ABSENT, "true") => "ExecSync: NotFound";
    absent_container_exec: ExecRequest { container_id: absent(), stdout: true, ..Default::default() }
        => "Exec: NotFound";
    absent_container_attach: AttachRequest { container_id: absent(), stdout: true, ..Default::default() }
        => "Attach: NotFound";
    absent_container_stats: ContainerStatsRequest { container_id: absent() } => "ContainerStats: NotFound";
    absent_container_update: UpdateContainerResourcesRequest { container_id: absent(), linux: None }
        => "UpdateContainerResources: NotFound";
    absent_container_log: ReopenContainerLogRequest { container_id: absent() } => "ReopenContainerLog: ";
}

// What makes no sense. Through berthd they are requests of its table that it cannot read.
answers! {
    empty_run_sandbox: RunPodSandboxRequest::default() => "RunPodSandbox: Unknown";
    empty_sandbox_status: PodSandboxStatusRequest::default() => "PodSandboxStatus: ";
    empty_create: CreateContainerRequest::default() => "CreateContainer: ";
    empty_start: StartContainerRequest::default() => "StartContainer: ";
    empty_stop: StopContainerRequest::default() => "StopContainer: ";
    empty_status: ContainerStatusRequest::default() => "ContainerStatus: ";
    empty_exec_sync: ExecSyncRequest::default() => "ExecSync: ";
    empty_image_status: ImageStatusRequest::default() => "ImageStatus: ";
    empty_pull: PullImageRequest::default() => "PullImage: ";
}

// The runtime itself.
answers! {
    version: VersionRequest { version: "v1".to_owned() } => "Version: OK";
    version_of_the_kubelets_api: VersionRequest { version: "0.1.0".to_owned() } => "Version: OK";
    runtime_config_update: UpdateRuntimeConfigRequest {
        runtime_config: Some(RuntimeConfig {
            network_config: Some(NetworkConfig { pod_cidr: "192.0.2.0/24".to_owned() }),
        }),
    } => "UpdateRuntimeConfig: OK";
    runtime_config: RuntimeConfigRequest {} => "RuntimeConfig: ";
    checkpoint: CheckpointContainerRequest { container_id: absent(), location: String::new() }
        => "CheckpointContainer: ";
    metric_descriptors: ListMetricDescriptorsRequest {} => "ListMetricDescriptors: ";
}

/// containerd 1.6 has no events. The stream of a newer one begins with the first of them, and has no end.
#[tokio::test]
async fn container_events() -> Result<()> {
    if !is_newer() {
        let shows = ["GetContainerEvents: "];
        return same("container_events", &shows, async |way| way.ask(GetEventsRequest {}).await.map(drop))
            .await;
    }
    same("container_events", &["StartContainer: OK", "the stream begins"], async |way| {
        let stream = way.begin(GetEventsRequest {}).await?;
        way.running("c").await?;
        timeout(PATIENCE, stream.begins()).await.context("no event")??;
        way.say("the stream begins");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_the_runtime_says_of_itself() -> Result<()> {
    let shows = ["containerd", "RuntimeReady", "NetworkReady", "verbose: [\"cniconfig\""];
    same("what_the_runtime_says_of_itself", &shows, async |way| {
        let version = way.must(VersionRequest::default()).await?;
        way.say(format!("{version:?}"));
        let status = way.must(StatusRequest { verbose: false }).await?.status.unwrap_or_default();
        status.conditions.iter().for_each(|condition| way.say(format!("  {condition:?}")));
        // What a verbose answer has besides, our subset of CRI leaves out.
        let body = super::way::message(StatusRequest { verbose: true });
        let reply = way.raw("/runtime.v1.RuntimeService/Status", &[], body).await?;
        let text = String::from_utf8_lossy(&reply.body()).into_owned();
        let keys: Vec<_> =
            ["cniconfig", "config", "golang"].into_iter().filter(|key| text.contains(key)).collect();
        way.say(format!("verbose: {keys:?}"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn container_in_a_sandbox_that_is_not_there() -> Result<()> {
    same("container_in_a_sandbox_that_is_not_there", &["CreateContainer: NotFound"], async |way| {
        let mut request = way.create_request(way.home().await?, way.idle("c"));
        request.pod_sandbox_id = absent();
        way.refused(request).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn container_of_an_image_that_is_not_there() -> Result<()> {
    same("container_of_an_image_that_is_not_there", &["CreateContainer: "], async |way| {
        let mut config = way.idle("c");
        config.image.get_or_insert_default().image = "berth.test/no-such-image:1".to_owned();
        way.refused(way.create_request(way.home().await?, config)).await.map(drop)
    })
    .await
}

// Not a case: a container whose request lacks its sandbox's metadata. containerd 1.6 dies of it.

#[tokio::test]
async fn container_without_a_name() -> Result<()> {
    same("container_without_a_name", &["CreateContainer: Unknown"], async |way| {
        let mut config = way.idle("c");
        config.metadata = None;
        way.refused(way.create_request(way.home().await?, config)).await.map(drop)
    })
    .await
}
