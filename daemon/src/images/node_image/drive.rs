//! The loop between the policy of images and those who carry out its steps: ask, begin, wait.

use std::sync::Arc;

use berth_policy::ImageStep;
use tokio_util::sync::CancellationToken;

use super::Keeper;
use crate::base::deadline;

/// Asks what is owed after every change and at every deadline, until the shutdown.
pub(crate) async fn drive(keeper: Arc<Keeper>, begin: impl Fn(ImageStep), shutdown: CancellationToken) {
    // Subscribed before the first question, so that no change in between is lost.
    let mut changes = keeper.changes();
    loop {
        changes.borrow_and_update();
        let (steps, deadline) = keeper.plan();
        steps.into_iter().for_each(&begin);
        // All cancel-safe: a flag, a version number and a timer.
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
            () = deadline::reached(deadline) => {}
        }
    }
}
