//! Upkeep of the conditions: written when they change, and again where they do not stand.
//!
//! A client that knows no conditions here, as those of OpenKruise, leaves them out when it writes the status
//! whole. Who does so each time is not raced: the pauses double.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tracing::warn;

use super::{Object, lock};
use crate::{
    base::{
        causes::chain,
        deadline::{later, reached},
    },
    cluster::target::version,
    probes::node_pod_probe::conditions::{MANAGER, are_lost},
};

/// Pause before conditions that could not be written, or that somebody has written over, are written again.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Longest pause where somebody writes over them each time: it doubles.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

impl Object {
    /// Writes the conditions when they change; what cannot be written now, or does not stand any more, is
    /// written with the next change, or in a while.
    pub(super) async fn keep_conditions(&self) {
        let (mut conditions, mut looks) = (self.conditions.subscribe(), self.looks.subscribe());
        let (mut failed, mut written) = (false, 0);
        let (mut again, mut pause) = (None, RETRY_PAUSE);
        loop {
            // Cancel-safe: the newest values and a timer.
            let is_news = tokio::select! {
                changed = conditions.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    pause = RETRY_PAUSE;
                    true
                }
                changed = looks.changed(), if again.is_none() => {
                    if changed.is_err() {
                        return;
                    }
                    if self.is_written_over(written) {
                        again = Some(later(Instant::now(), pause).into_std());
                        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                    }
                    continue;
                }
                () = reached(again) => false,
            };
            again = None;
            // What stands again by now is not written.
            if !is_news && !failed && !self.is_written_over(written) {
                continue;
            }
            let due = conditions.borrow_and_update().clone();
            let answer = self.apply(MANAGER, json!({ "conditions": due })).await;
            failed = !matches!(answer, Some(Ok(_)));
            if failed {
                again = Some(later(Instant::now(), RETRY_PAUSE).into_std());
            }
            match answer {
                Some(Ok(object)) => written = version(&object.metadata),
                Some(Err(error)) => {
                    warn!(node = self.node, error = %chain(&error), "Conditions of NodePodProbe not written, trying again");
                }
                None => {}
            }
        }
    }

    /// Tells whether somebody else has written over the conditions since they were written in this version.
    fn is_written_over(&self, written: u64) -> bool {
        let due = self.conditions.borrow();
        let seen = lock(&self.shown);
        seen.uid.is_some() && seen.version > written && are_lost(&seen.conditions, &due)
    }
}
