//! The loop between the policy of images and those who carry out its steps: ask, begin, wait.

use std::{sync::Arc, time::Duration};

use berth_policy::ImageStep;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::Keeper;

/// Asks what is owed after every change and at every deadline, until the shutdown.
pub async fn drive(keeper: Arc<Keeper>, begin: impl Fn(ImageStep), shutdown: CancellationToken) {
    // Subscribed before the first question, so that no change in between is lost.
    let mut changes = keeper.changes();
    loop {
        changes.borrow_and_update();
        let (steps, deadline) = keeper.plan();
        steps.into_iter().for_each(&begin);
        let deadline = async {
            match deadline {
                // Never spin: a deadline that has passed is somebody else's to act on.
                Some(deadline) => {
                    let soon = Instant::now() + Duration::from_millis(1);
                    sleep_until(Instant::from_std(deadline).max(soon)).await;
                }
                None => std::future::pending().await,
            }
        };
        // All cancel-safe: a flag, a version number and a timer.
        tokio::select! {
            () = shutdown.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
            () = deadline => {}
        }
    }
}
