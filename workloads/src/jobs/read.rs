//! Jobs and what they have made, read from the API server at the start of a term: one list of each kind in
//! each namespace with jobs, for all of them.

use std::collections::BTreeSet;

use berth_base::sent::Sent;
use berth_workloads_policy::{
    broadcast_job::{self, PodView},
    cron_job::ChildView,
    store::Stored,
};
use kube::{Api, api::DynamicObject};

use super::{
    Settings,
    object::{Filed, Kind},
    watches,
};
use crate::{
    owned::Listed,
    reading::{Ended, each},
    trimmed::{TrimmedJob, TrimmedPod},
    write::{Failure, Writer},
};

/// Objects of a namespace; `None`: their controller is left out.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) broadcast_jobs: Listed<Filed>,
    pub(super) pods: Option<Listed<PodView>>,
    pub(super) cron: Option<(Listed<Filed>, Listed<ChildView>)>,
}

async fn found(
    writer: &Writer,
    settings: &Settings,
    aside: &BTreeSet<String>,
    namespace: String,
) -> Result<Found, Failure> {
    let client = || writer.client.clone();
    let jobs = async |kind: Kind| {
        let api = Api::<Sent<DynamicObject>>::namespaced_with(client(), &namespace, &kind.resource());
        // One that nobody can read is set aside when the watch shows it.
        let fit = |filed: Filed| if aside.contains(filed.uid()) { filed.bare() } else { filed };
        writer.list(&api, "", |object| kind.read(object).ok().map(fit)).await
    };
    let pods = match settings.broadcast_jobs {
        true => {
            let api = Api::<TrimmedPod>::namespaced(client(), &namespace);
            Some(writer.list(&api, broadcast_job::UID_LABEL, watches::trimmed_pod).await?)
        }
        false => None,
    };
    let cron = match settings.cron_jobs {
        true => {
            let api = Api::<TrimmedJob>::namespaced(client(), &namespace);
            let made = writer.list(&api, "", watches::job).await?;
            Some((jobs(Kind::Cron).await?, made))
        }
        false => None,
    };
    let broadcast_jobs = jobs(Kind::Broadcast).await?;
    Ok(Found { broadcast_jobs, pods, cron })
}

/// Reads these namespaces. Of jobs that are set `aside` no more is kept than there is room for.
pub(super) async fn all(
    writer: Writer,
    settings: Settings,
    aside: BTreeSet<String>,
    term: u64,
    namespaces: BTreeSet<String>,
) -> Ended<Found> {
    each(term, namespaces, |namespace| found(&writer, &settings, &aside, namespace)).await
}
