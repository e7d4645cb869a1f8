//! Hot upgrades under requests: a web server (`berth-web`) as a sidecar with twins, and clients that ask it
//! all the time.

mod load;
mod parts;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

pub use self::load::{Load, Pace};
pub use self::parts::{Endings, Parts};
use crate::node::{Node, program_images, programs};

/// Image of the twin that rests.
pub const EMPTY: &str = "berth.test/web:empty";
/// Label by which a set finds its pods; its value is the name of the set.
pub const LABEL: &str = "swapped";
/// Containers of the server.
pub const TWINS: [&str; 2] = ["web-1", "web-2"];
/// Port of the server.
pub const PORT: u16 = 8080;

/// Line in the server's log when connections come to it.
pub const ACCEPTS: &str = "accepts";
/// Line in its log when it was told to end.
pub const TOLD_TO_END: &str = "told to end";

/// Way in which the next version comes to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// The old one hands its listening socket over.
    HandedOver,
    /// Both listen, with SO_REUSEPORT.
    Shared,
}

/// Name of the image with this tag.
pub fn web(tag: &str) -> String {
    format!("berth.test/web:{tag}")
}

/// Brings the server to the node as images: so many that work, the empty one, one whose hook takes ten
/// seconds, one whose hook hangs, and one that dies. Each has an ID of its own.
pub async fn bring_images(node: &Node, working: u32) -> Result<()> {
    let program = programs::own("berth-web")?;
    let tags = (1..=working).map(|number| number.to_string());
    let tags = tags.chain(["empty", "slow", "hangs", "dies"].map(str::to_owned));
    let images: Vec<(String, String)> = tags.map(|tag| (web(&tag), format!("WEB={tag}"))).collect();
    let images: Vec<(&str, &str)> = images.iter().map(|(image, env)| (&**image, &**env)).collect();
    for archive in program_images::variants(node.run(), &program, &images).await? {
        let archive = archive.to_str().context("path of an archive")?;
        node.containerd().ctr(&["images", "import", archive]).await?;
    }
    Ok(())
}

/// The server as a sidecar with twins.
pub fn sidecar(tag: &str, sockets: Sockets) -> Value {
    let sockets = match sockets {
        Sockets::HandedOver => "handed-over",
        Sockets::Shared => "shared",
    };
    json!({
        "name": "web",
        "image": web(tag),
        "env": [{ "name": "SOCKETS", "value": sockets }],
        "lifecycle": { "postStart": { "exec": { "command": ["/bin/berth-web", "post-start"] } } },
        "upgradeStrategy": { "upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY },
    })
}

/// A set with it. `migration` is the time that a new version has, in seconds.
pub fn set(name: &str, tag: &str, sockets: Sockets, migration: u32) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet",
        "metadata": { "name": name, "annotations": { "berth.dev/migration-seconds": migration.to_string() } },
        "spec": {
            "selector": { "matchLabels": { LABEL: name } },
            "containers": [sidecar(tag, sockets)],
        },
    })
}

/// Accepts a pod both twins of which run what the spec says: one this version, the other one the empty image.
pub fn is_swapped(pod: &Pod, tag: &str) -> Result<()> {
    serves(pod, "web", &web(tag), EMPTY)
}

/// The same of any sidecar, by its name and its images.
pub fn serves(pod: &Pod, sidecar: &str, image: &str, empty: &str) -> Result<()> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let mut images = Vec::new();
    for twin in [1, 2].map(|number| format!("{sidecar}-{number}")) {
        let status = statuses.clone().find(|status| status.name == twin).context("no status of a twin")?;
        let of_spec = pod.spec.iter().flat_map(|spec| &spec.containers).find(|one| one.name == twin);
        let asked = of_spec.and_then(|one| one.image.as_deref()).unwrap_or_default();
        // After the second patch the status is still that of the version that is about to be stopped.
        ensure!(status.ready && status.image == asked, "{status:?}");
        images.push(asked);
    }
    images.sort_unstable();
    let mut wanted = [image, empty];
    wanted.sort_unstable();
    ensure!(images == wanted, "{images:?}");
    let restarts = statuses.clone().find(|status| status.name == "app").map(|app| app.restart_count);
    ensure!(restarts == Some(0), "the app was restarted: {restarts:?}");
    Ok(())
}

/// Address of the server in a pod.
pub fn address(pod: &Pod) -> Result<String> {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref());
    Ok(format!("{}:{PORT}", address.context("no address")?))
}
