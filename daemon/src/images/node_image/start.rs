//! Puts the parts together: who wishes, who pulls, who tells.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use berth_policy::ImageLimits;
use berth_shim::RuntimeEndpoint;
use prometheus_client::registry::Registry;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use super::{ImageFiles, NodeImages, SharedImages, reconcile};
use crate::{
    base::causes::chain,
    cluster::Cluster,
    config::Configuration,
    images::{
        ImageExecutor, credentials::CredentialFinder, metrics::ImageMetrics, node_key, runtime::ImageRuntime,
    },
};

/// How soon the pins of an earlier process are asked for again when the runtime does not tell.
const PINS_AGAIN: Duration = Duration::from_secs(5);

/// Returns how many pulls at once.
pub(crate) fn limits(config: &Configuration) -> ImageLimits {
    ImageLimits {
        parallel: config.images.parallel_pulls.get().into(),
        per_registry: config.images.parallel_pulls_per_registry.get().into(),
        seed: RandomState::new().hash_one(()),
    }
}

/// Starts everything about images: the executor, the files, and the `NodeImage` where there is an API server.
/// All of it ends at `stop`.
pub(crate) fn start(
    config: &Configuration,
    endpoint: &RuntimeEndpoint,
    images: &Arc<SharedImages>,
    cluster: Option<&Cluster>,
    registry: &mut Registry,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let key = cluster.and_then(|_| match node_key::load(&config.state_dir) {
        Ok(key) => Some(Arc::new(key)),
        Err(error) => {
            warn!(error = %chain(&error), "No key of this node, nothing can be sealed to it");
            None
        }
    });
    let sealing_key = key.as_ref().map(|key| key.sealing_key().encoded());
    let node = cluster.map(|cluster| cluster.node().to_owned()).unwrap_or_default();
    let metrics = ImageMetrics::register(registry);
    let sink = images.clone();
    let executor = ImageExecutor::new(
        ImageRuntime::new(endpoint),
        config.images.reserve,
        CredentialFinder::new(node, key, &config.images, metrics.clone()),
        metrics,
        move |event| sink.apply(event),
    );
    let pin = Some(config.images.pin_for.0).filter(|pin| !pin.is_zero());
    let files = ImageFiles::new(images.clone(), config.desired_dir.clone(), pin);
    tasks.spawn(files.run(stop.clone()));
    if let Some(cluster) = cluster {
        let images = NodeImages {
            images: images.clone(),
            cluster: cluster.clone(),
            connection: cluster.connection().clone(),
            shows_jobs: config.images.jobs_in_spec,
            node: cluster.node().to_owned(),
            pin,
            sealing_key,
        };
        tasks.spawn(images.run(stop.clone()));
    }
    tasks.spawn(restore_pins(executor.clone(), stop.clone()));
    let (images, stop) = (images.clone(), stop.clone());
    tasks.spawn(async move {
        reconcile(images, |step| executor.begin(step), stop).await;
        executor.end().await;
    });
}

/// Asks the runtime which images are kept since an earlier process, until it has told.
async fn restore_pins(executor: ImageExecutor, stop: CancellationToken) {
    let asked = async {
        let mut told = false;
        while let Err(error) = executor.list_pins().await {
            if !told {
                warn!(error = %chain(&error), "Pins not listed, trying every 5 s");
                told = true;
            }
            tokio::time::sleep(PINS_AGAIN).await;
        }
    };
    // Cancel-safe: the next process asks anew.
    stop.run_until_cancelled(asked).await;
}
