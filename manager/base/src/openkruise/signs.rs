//! Watches of what an OpenKruise shows itself by: a cluster at rest is not asked again and again.

use std::{collections::BTreeSet, fmt::Debug, time::Duration};

use futures::{FutureExt, StreamExt, stream::BoxStream, stream::SelectAll};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::look::{DEPLOYMENT, LEASE, MUTATING, VALIDATING};

/// Time within which changes count as one.
const DEBOUNCE: Duration = Duration::from_secs(1);

/// A watch broke or may not be made, or there is none.
#[derive(Debug)]
pub(super) struct Broken;

/// Watches of the objects by name, each in the namespaces that OpenKruise may be in.
pub(super) struct Signs {
    namespaces: BTreeSet<String>,
    changes: SelectAll<BoxStream<'static, Result<(), Broken>>>,
}

impl Signs {
    /// Watches that begin when they are waited for.
    pub(super) fn new(client: &Client, namespaces: BTreeSet<String>) -> Self {
        let mut changes = SelectAll::new();
        changes
            .push(of(Api::<PartialObjectMeta<MutatingWebhookConfiguration>>::all(client.clone()), MUTATING));
        changes.push(of(
            Api::<PartialObjectMeta<ValidatingWebhookConfiguration>>::all(client.clone()),
            VALIDATING,
        ));
        for namespace in &namespaces {
            changes.push(of(Api::<PartialObjectMeta<Lease>>::namespaced(client.clone(), namespace), LEASE));
            changes.push(of(
                Api::<PartialObjectMeta<Deployment>>::namespaced(client.clone(), namespace),
                DEPLOYMENT,
            ));
        }
        Self { namespaces, changes }
    }

    /// Tells whether they look into these namespaces, and no others.
    pub(super) fn are_of(&self, namespaces: &BTreeSet<String>) -> bool {
        self.namespaces == *namespaces
    }

    /// Comes back when an object has changed, and once each watch has begun: what changed before it is not
    /// told otherwise. Not cancel-safe.
    ///
    /// # Errors
    ///
    /// When one of the watches breaks: what it would have told is not known.
    pub(super) async fn changed(&mut self) -> Result<(), Broken> {
        self.changes.next().await.unwrap_or(Err(Broken))?;
        sleep(DEBOUNCE).await;
        while let Some(more) = self.changes.next().now_or_never() {
            more.unwrap_or(Err(Broken))?;
        }
        Ok(())
    }
}

/// Changes of one object.
fn of<K>(api: Api<K>, name: &str) -> BoxStream<'static, Result<(), Broken>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let events = watcher(api, Config::default().fields(&format!("metadata.name={name}")));
    events
        .filter_map(async |event| match event {
            Ok(Event::Init | Event::InitApply(_)) => None,
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => Some(Ok(())),
            Err(_) => Some(Err(Broken)),
        })
        .boxed()
}
