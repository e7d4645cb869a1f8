//! The API server, as the user of the kubeconfig.

use anyhow::Context;
use futures::{StreamExt, stream::BoxStream};
use http::{Request, header::CONTENT_TYPE};
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod};
use kube::{
    Api, Client, Config,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

use crate::{
    cli::Global,
    revision::{self, Revision},
    target::{Kind, Target},
};

/// The owner of what is written, as `managedFields` shows it.
const FIELD_MANAGER: &str = "kubectl-berth";

/// One namespace of a cluster.
pub(crate) struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    /// Connects as kubectl would with the same flags.
    pub(crate) async fn connect(global: &Global) -> anyhow::Result<Self> {
        let options = KubeConfigOptions {
            context: global.context.clone(),
            cluster: global.cluster.clone(),
            user: global.user.clone(),
        };
        let mut config = match &global.kubeconfig {
            Some(path) => {
                let read = || format!("--kubeconfig {}", path.display());
                let kubeconfig = Kubeconfig::read_from(path).with_context(read)?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await.with_context(read)?
            }
            None => Config::from_kubeconfig(&options).await.context("no kubeconfig that can be used")?,
        };
        // A refused request is said, not repeated for minutes.
        config.default_retry = false;
        let namespace = global.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).context("client of the API server")?;
        Ok(Self { client, namespace })
    }

    /// Reads an object.
    pub(crate) async fn get(&self, target: &Target) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(self.api(target).get(&target.name).await?)?)
    }

    /// Patches an object with a JSON patch. Returns it as it is after.
    pub(crate) async fn patch(&self, target: &Target, patch: Value, dry_run: bool) -> anyhow::Result<Value> {
        let path = self.api(target).resource_url().to_owned();
        let tried = if dry_run { "&dryRun=All" } else { "" };
        let uri = format!("{path}/{}?fieldManager={FIELD_MANAGER}{tried}", target.name);
        let request = Request::patch(uri).header(CONTENT_TYPE, "application/json-patch+json");
        let request = request.body(patch.to_string().into_bytes()).context("a patch")?;
        Ok(self.client.request(request).await?)
    }

    /// Changes of an object, from a version on.
    pub(crate) async fn watch(
        &self,
        target: &Target,
        version: &str,
    ) -> anyhow::Result<BoxStream<'static, kube::Result<WatchEvent<DynamicObject>>>> {
        let params = WatchParams::default().fields(&format!("metadata.name={}", target.name)).timeout(290);
        Ok(self.api(target).watch(&params, version).await?.boxed())
    }

    /// Revisions of an object, the oldest first.
    pub(crate) async fn revisions(&self, target: &Target, owner: &str) -> anyhow::Result<Vec<Revision>> {
        let api: Api<ControllerRevision> = Api::namespaced(self.client.clone(), self.namespace(target));
        let (mut all, mut params) = (Vec::new(), ListParams::default().limit(500));
        loop {
            let page = api.list(&params).await?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(revision::of(owner, all)),
            }
        }
    }

    /// Reads a pod; `None`: there is none of this name.
    pub(crate) async fn pod(&self, name: &str) -> anyhow::Result<Option<Value>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(api.get_opt(name).await?.map(serde_json::to_value).transpose()?)
    }

    /// Objects of a kind with these labels, by name.
    pub(crate) async fn select(&self, kind: Kind, labels: &str) -> anyhow::Result<Vec<Target>> {
        let resource = kind.resource();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let (mut all, mut params) = (Vec::new(), ListParams::default().labels(labels).limit(500));
        loop {
            let page = api.list_metadata(&params).await?;
            let names = page.items.into_iter().filter_map(|one| one.metadata.name);
            all.extend(names.map(|name| Target { kind, name, namespace: None }));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    fn namespace<'a>(&'a self, target: &'a Target) -> &'a str {
        target.namespace.as_deref().unwrap_or(&self.namespace)
    }

    fn api(&self, target: &Target) -> Api<DynamicObject> {
        let resource = target.kind.resource();
        Api::namespaced_with(self.client.clone(), self.namespace(target), &resource)
    }
}
