//! The loop between the policy of images and those who carry out its steps: ask, begin, wait.

use std::sync::Arc;

use berth_policy::ImageStep;
use tokio_util::sync::CancellationToken;

use super::SharedImages;
use crate::base::deadline;

/// Asks what is due after every change and at every deadline, until the shutdown.
pub(crate) async fn reconcile(
    images: Arc<SharedImages>,
    begin: impl Fn(ImageStep),
    shutdown: CancellationToken,
) {
    // Subscribed before the first question, so that no change in between is lost.
    let mut changes = images.changes();
    loop {
        changes.borrow_and_update();
        let (steps, deadline) = images.plan();
        steps.into_iter().for_each(&begin);
        // All cancel-safe: a flag, a version number and a timer.
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
            () = deadline::reached(deadline) => {}
        }
    }
}
