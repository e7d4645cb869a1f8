//! Images, by the kubelet's rules of when to pull.

use anyhow::{Context, Result, bail};
use tokio::time::timeout_at;

use super::Playing;
use crate::manifest::types::Container;
use crate::output::progress;

/// Makes sure that the container's image is on the node; its ID.
pub(crate) async fn ensure(playing: &Playing<'_>, container: &Container) -> Result<String> {
    let (name, image) = (&container.name, &container.image);
    let policy = container.image_pull_policy.as_deref().unwrap_or_else(|| default_policy(image));
    if policy != "Always" {
        if let Some(found) = playing.cri.image(image).await? {
            return Ok(found.id);
        }
        if policy == "Never" {
            bail!(
                "container {name:?}: the image {image} is not on the node and imagePullPolicy is Never; pull it or change \
                 the policy"
            );
        }
    }
    progress(&format!("{name}: pulling {image}"));
    let pull = playing.cri.pull(image, playing.sandbox_config.clone());
    let Ok(pulled) = timeout_at(playing.deadline, pull).await else {
        bail!("container {name:?}: the image {image} was not pulled within --timeout; give it more time");
    };
    pulled.with_context(|| {
        let why = if container.image_pull_policy.is_some() { "" } else { ", the default for this tag" };
        match policy {
            "Always" => format!(
                "container {name:?}: imagePullPolicy is Always{why}; set it to IfNotPresent to use an image on the node"
            ),
            _ => format!("container {name:?}: the image is not on the node"),
        }
    })
}

/// Always for `latest`, said or meant; IfNotPresent otherwise.
fn default_policy(image: &str) -> &'static str {
    if image.contains('@') {
        return "IfNotPresent";
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    match last.split_once(':') {
        Some((_, tag)) if tag != "latest" => "IfNotPresent",
        _ => "Always",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policies() {
        for (image, policy) in [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("busybox:1", "IfNotPresent"),
            ("localhost:5000/busybox", "Always"),
            ("localhost:5000/busybox:1", "IfNotPresent"),
            ("busybox@sha256:00", "IfNotPresent"),
        ] {
            assert_eq!(default_policy(image), policy, "{image}");
        }
    }
}
