//! The runtime of the benchmark, in a process of its own.

use std::{collections::HashMap, future, path::Path, sync::Arc};

use anyhow::Result;
use berth_proto::cri::{
    Container, ContainerMetadata, ContainerState, ImageSpec, ListContainersResponse, VersionResponse,
};
use berth_tests::fake::FakeRuntime;
use prost::Message;

/// A well-filled node: 445 kB of answer.
pub(super) const CONTAINERS: usize = 500;

/// Serves until it is killed.
pub(crate) async fn serve(socket: &Path) -> Result<()> {
    let list = Arc::new(ListContainersResponse { containers: (0..CONTAINERS).map(container).collect() });
    let _runtime = FakeRuntime::start(socket, move |mut exchange| {
        let list = list.clone();
        async move {
            if exchange.read().await.is_err() {
                return;
            }
            // Encoded anew for each call, as every runtime does.
            let answer = match exchange.method() {
                "Version" => version().encode_to_vec(),
                "ListContainers" => list.encode_to_vec(),
                _ => Vec::new(),
            };
            // The client may be gone; the next one will tell.
            let _ = exchange.reply(&answer).await;
        }
    })?;
    future::pending().await
}

fn version() -> VersionResponse {
    VersionResponse {
        version: "0.1.0".to_owned(),
        runtime_name: "stub".to_owned(),
        runtime_version: "v0.0.0".to_owned(),
        runtime_api_version: "v1".to_owned(),
    }
}

/// One as containerd lists it.
fn container(number: usize) -> Container {
    let image = format!("sha256:{number:064x}");
    Container {
        id: format!("{:064x}", number * 7919),
        pod_sandbox_id: format!("{:064x}", number * 104_729),
        metadata: Some(ContainerMetadata { name: format!("container-{}", number % 3), attempt: 0 }),
        image: Some(ImageSpec { image: image.clone(), ..Default::default() }),
        image_ref: image,
        state: ContainerState::ContainerRunning.into(),
        created_at: 1_700_000_000_000_000_000,
        labels: strings(&[
            ("io.kubernetes.container.name", &format!("container-{}", number % 3)),
            ("io.kubernetes.pod.name", &format!("deployment-{number}-5d8f7c6b9-x2x{number}")),
            ("io.kubernetes.pod.namespace", "some-namespace"),
            ("io.kubernetes.pod.uid", &format!("3f1c9a52-7d64-4b0e-9c11-{number:012x}")),
        ]),
        annotations: strings(&[
            ("io.kubernetes.container.hash", &format!("{number:08x}")),
            ("io.kubernetes.container.ports", r#"[{"name":"http","containerPort":8080,"protocol":"TCP"}]"#),
            ("io.kubernetes.container.restartCount", "0"),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
            ("io.kubernetes.container.terminationMessagePolicy", "File"),
            ("io.kubernetes.pod.terminationGracePeriod", "30"),
        ]),
    }
}

fn strings(entries: &[(&str, &str)]) -> HashMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
