//! Init containers: one after another, each to its end, before anything else starts.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use berth_proto::cri::{ContainerState, CreateContainerRequest};
use tokio::time::{Instant, sleep};

use super::{Playing, hook, image};
use crate::manifest::container;
use crate::output::progress;

/// Interval at which the runtime is asked whether one has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs them all.
pub(crate) async fn run_all(playing: &Playing<'_>) -> Result<()> {
    for one in &playing.manifest.pod.spec.init_containers {
        let name = &one.name;
        let image_ref = image::ensure(playing, one).await?;
        let config = container::config(playing.manifest, one, playing.places, &playing.facts, &image_ref)?;
        let request = CreateContainerRequest {
            pod_sandbox_id: playing.sandbox_id.clone(),
            config: Some(config),
            sandbox_config: Some(playing.sandbox_config.clone()),
        };
        let id = playing.cri.create(request, name).await?;
        playing.cri.start(&id, name).await?;
        progress(&format!("{name}: started (init)"));
        if let Some(hook) = &one.lifecycle.post_start {
            hook::post_start(playing, hook, &id, name).await?;
        }
        to_its_end(playing, &id, name).await.with_context(|| format!("init container {name:?}"))?;
        progress(&format!("{name}: completed"));
    }
    Ok(())
}

async fn to_its_end(playing: &Playing<'_>, id: &str, name: &str) -> Result<()> {
    loop {
        let status = playing.cri.status(id, name).await?;
        if status.state() == ContainerState::ContainerExited {
            if status.exit_code == 0 {
                return Ok(());
            }
            bail!(
                "it ended with exit code {} ({}), and nobody restarts it; see its log in {}",
                status.exit_code,
                status.reason,
                playing.places.logs.join(name).display()
            );
        }
        if Instant::now() > playing.deadline {
            bail!("it has not ended within --timeout; give it more time, or find out what it waits for");
        }
        sleep(POLL_INTERVAL).await;
    }
}
