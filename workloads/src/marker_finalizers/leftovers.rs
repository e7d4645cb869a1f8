//! Finalizers that are left from a time with the option: they are taken off markers that are being deleted,
//! so that none waits for ever.
//!
//! Nothing is watched. Once in a term the markers are listed, and again only while one has the finalizer; who
//! has no right to list them has it with the one refusal.

use std::time::Duration;

use berth_base::{lease::Tenure, sent::Sent};
use berth_proto::crd::PodProbeMarker;
use berth_workloads_policy::marker_finalizers::{FINALIZER, Given, Next, next};
use kube::{Api, core::PartialObjectMeta};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::{view::MarkerView, write};
use crate::write::{Failure, Writer};

/// Markers that have the finalizer are looked at again after it.
const EVERY: Duration = Duration::from_secs(30);

/// Takes the finalizer off, for ever.
pub(crate) async fn let_go(writer: Writer, mut tenure: Tenure) {
    let mut done = None;
    loop {
        let term = tenure.term();
        if term.is_none() || term == done {
            tenure.changed().await;
            continue;
        }
        if is_done(&writer, &tenure, term).await {
            done = term;
            continue;
        }
        // What is left counts in the next term as well.
        let lost = async {
            while tenure.term() == term {
                tenure.changed().await;
            }
        };
        let _ = timeout(EVERY, lost).await;
    }
}

/// Looks at all markers once; whether that was for the last time.
async fn is_done(writer: &Writer, tenure: &Tenure, term: Option<u64>) -> bool {
    let api = Api::<Sent<PartialObjectMeta<PodProbeMarker>>>::all(writer.client.clone());
    let has_it = |marker: PartialObjectMeta<PodProbeMarker>| {
        MarkerView::of(marker.metadata).filter(|marker| marker.finalizers.iter().any(|one| one == FINALIZER))
    };
    let left = match writer.list(&api, "", has_it).await {
        Ok(listed) => listed.objects,
        Err(Failure::Gone | Failure::Refused(_)) => {
            debug!("PodProbeMarkers may not be listed, finalizers of theirs stay");
            return true;
        }
        Err(failure) => {
            warn!(error = failure.text(), "PodProbeMarkers not listed, trying again");
            return false;
        }
    };
    let mut is_done = true;
    for marker in &left {
        let given = Given {
            finalizers: &marker.finalizers,
            deleted_for: marker.is_deleted.then_some(Duration::ZERO),
            has_entries: false,
            on: false,
        };
        let Next::Write(finalizers) = next(&given) else {
            is_done = false;
            continue;
        };
        if tenure.term() != term {
            return false;
        }
        match write(writer, marker, &finalizers).await {
            Ok(_) | Err(Failure::Gone) => {
                info!(marker = marker.key(), "Finalizer taken off, the option is off");
            }
            Err(failure) => {
                warn!(marker = marker.key(), error = failure.text(), "Finalizer not taken off, trying again");
                is_done = false;
            }
        }
    }
    is_done
}

#[cfg(test)]
mod tests;
