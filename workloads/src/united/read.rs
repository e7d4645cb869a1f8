//! UnitedDeployments and what they have made, read from the API server at the start of a term: one list of
//! each kind in each namespace with UnitedDeployments, for all of them.

use std::collections::BTreeSet;

use berth_base::sent::Sent;
use berth_workloads_policy::{
    revision::Revision,
    store::Stored,
    united_deployment::{ChildView, KINDS, Kind, SUBSET_LABEL, UID_LABEL},
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
};

use super::{
    object::{Filed, child, resource, united},
    watches::revision,
};
use crate::{
    owned::Listed,
    reading::{Ended, each},
    revisions::SentRevision,
    write::{Failure, Writer},
};

/// Objects of a namespace.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) united: Listed<Filed>,
    pub(super) children: Vec<(Kind, Listed<ChildView>)>,
    pub(super) revisions: Listed<Revision>,
}

/// Reads these namespaces. Of objects that are set `aside` and of their revisions no more is kept than there
/// is room for.
pub(super) async fn all(
    writer: Writer,
    aside: BTreeSet<String>,
    term: u64,
    namespaces: BTreeSet<String>,
) -> Ended<Found> {
    each(term, namespaces, |namespace| found(&writer, &aside, namespace)).await
}

async fn found(writer: &Writer, aside: &BTreeSet<String>, namespace: String) -> Result<Found, Failure> {
    let client = || writer.client.clone();
    let objects =
        |resource: &ApiResource| Api::<Sent<DynamicObject>>::namespaced_with(client(), &namespace, resource);
    let mut children = Vec::new();
    for kind in KINDS {
        let api = objects(&resource(kind));
        children.push((kind, writer.list(&api, SUBSET_LABEL, |object| child(kind, &object)).await?));
    }
    let api = Api::<SentRevision>::namespaced(client(), &namespace);
    let fit = |one: Revision| if aside.contains(&one.owner) { one.bare() } else { one };
    let revisions = writer.list(&api, UID_LABEL, |object| revision(&object).map(fit)).await?;
    // One that nobody can read is set aside when the watch shows it.
    let fit = |filed: Filed| if aside.contains(filed.uid()) { filed.bare() } else { filed };
    let united = writer.list(&objects(&united()), "", |object| Filed::read(object).ok().map(fit)).await?;
    Ok(Found { united, children, revisions })
}
