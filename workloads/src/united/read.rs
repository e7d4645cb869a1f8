//! UnitedDeployments and what they have made, read from the API server at the start of a term: one list of
//! each kind in each namespace with UnitedDeployments, for all of them.

use std::collections::BTreeSet;

use berth_base::sent::Sent;
use berth_workloads_policy::{
    revision::Revision,
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

/// Reads these namespaces.
pub(super) async fn all(writer: Writer, term: u64, namespaces: BTreeSet<String>) -> Ended<Found> {
    each(term, namespaces, |namespace| found(&writer, namespace)).await
}

async fn found(writer: &Writer, namespace: String) -> Result<Found, Failure> {
    let client = || writer.client.clone();
    let objects =
        |resource: &ApiResource| Api::<Sent<DynamicObject>>::namespaced_with(client(), &namespace, resource);
    let mut children = Vec::new();
    for kind in KINDS {
        let api = objects(&resource(kind));
        children.push((kind, writer.list(&api, SUBSET_LABEL, |object| child(kind, &object)).await?));
    }
    let api = Api::<SentRevision>::namespaced(client(), &namespace);
    let revisions = writer.list(&api, UID_LABEL, |object| revision(&object)).await?;
    // One that nobody can read is set aside when the watch shows it.
    let united = writer.list(&objects(&united()), "", |object| Filed::read(object).ok()).await?;
    Ok(Found { united, children, revisions })
}
