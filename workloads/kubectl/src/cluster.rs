//! The API server, as the user of the kubeconfig.

use anyhow::{Context, anyhow, bail};
use futures::{StreamExt, stream::BoxStream};
use http::{Request, header::CONTENT_TYPE};
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod};
use kube::{
    Api, Client, Config,
    api::{DynamicObject, ListParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

use crate::{
    cli::Global,
    failure::innermost,
    object::Sort,
    revision::{self, Revision},
    target::{Kind, Target},
};

/// The owner of what is written, as `managedFields` shows it.
const FIELD_MANAGER: &str = "kubectl-berth";

/// More pages of a kind are not read.
const PAGES: usize = 1000;

/// Namespaces that a list is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Namespace of the command.
    Own,
    /// All of them, and of kinds that have none.
    Everywhere,
}

impl Space {
    /// Space of the flag.
    pub(crate) fn of(all_namespaces: bool) -> Self {
        if all_namespaces { Self::Everywhere } else { Self::Own }
    }
}

/// Rows of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found<V> {
    pub(crate) rows: Vec<V>,
    /// Rows for which there was no room.
    pub(crate) left: usize,
}

impl<V> Default for Found<V> {
    fn default() -> Self {
        Self { rows: Vec::new(), left: 0 }
    }
}

impl<V> Found<V> {
    /// Keeps a row where there is room for it.
    pub(crate) fn push(&mut self, row: V, most: usize) {
        if self.rows.len() < most { self.rows.push(row) } else { self.left = self.left.saturating_add(1) }
    }
}

/// One namespace of a cluster.
pub(crate) struct Cluster {
    client: Client,
    pub(crate) namespace: String,
    /// Its address, for people.
    server: String,
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
                // It says itself which file.
                std::fs::File::open(path).with_context(read)?;
                let kubeconfig = Kubeconfig::read_from(path).with_context(read)?;
                known(&kubeconfig, global).with_context(read)?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await.with_context(read)?
            }
            None => {
                let read = "no kubeconfig that can be used: give one by --kubeconfig or KUBECONFIG";
                let kubeconfig = Kubeconfig::read().context(read)?;
                known(&kubeconfig, global).context("the kubeconfig")?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await.context(read)?
            }
        };
        // A refused request is said, not repeated for minutes.
        config.default_retry = false;
        let namespace = global.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).context("client of the API server")?;
        Ok(Self { client, namespace, server })
    }

    /// Reads an object.
    pub(crate) async fn get(&self, target: &Target) -> anyhow::Result<Value> {
        let object = self.api(target).get(&target.name).await;
        Ok(serde_json::to_value(object.map_err(|error| self.failed(error))?)?)
    }

    /// Patches an object with a JSON patch. Returns it as it is after.
    pub(crate) async fn patch(&self, target: &Target, patch: Value, dry_run: bool) -> anyhow::Result<Value> {
        let path = self.api(target).resource_url().to_owned();
        let tried = if dry_run { "&dryRun=All" } else { "" };
        let uri = format!("{path}/{}?fieldManager={FIELD_MANAGER}{tried}", target.name);
        let request = Request::patch(uri).header(CONTENT_TYPE, "application/json-patch+json");
        let request = request.body(patch.to_string().into_bytes()).context("a patch")?;
        self.client.request(request).await.map_err(|error| self.failed(error))
    }

    /// Changes of an object, from a version on.
    pub(crate) async fn watch(
        &self,
        target: &Target,
        version: &str,
    ) -> anyhow::Result<BoxStream<'static, kube::Result<WatchEvent<DynamicObject>>>> {
        let params = WatchParams::default().fields(&format!("metadata.name={}", target.name)).timeout(290);
        let events = self.api(target).watch(&params, version).await;
        Ok(events.map_err(|error| self.failed(error))?.boxed())
    }

    /// Revisions of an object, the oldest first.
    pub(crate) async fn revisions(&self, target: &Target, owner: &str) -> anyhow::Result<Vec<Revision>> {
        let api: Api<ControllerRevision> = Api::namespaced(self.client.clone(), self.namespace(target));
        let (mut all, mut params) = (Vec::new(), ListParams::default().limit(500));
        loop {
            let page = api.list(&params).await.map_err(|error| self.failed(error))?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(revision::of(owner, all)),
            }
        }
    }

    /// Objects of a kind, page by page, each reduced to what is kept of it; `None`: there is no such kind.
    pub(crate) async fn all<V>(
        &self,
        sort: &Sort,
        space: Space,
        fields: &str,
        most: usize,
        mut keep: impl FnMut(Value) -> Option<V>,
    ) -> anyhow::Result<Option<Found<V>>> {
        let resource = sort.resource();
        let api: Api<DynamicObject> = match space {
            Space::Own => Api::namespaced_with(self.client.clone(), &self.namespace, &resource),
            Space::Everywhere => Api::all_with(self.client.clone(), &resource),
        };
        let mut params = ListParams::default().limit(sort.page);
        if !fields.is_empty() {
            params = params.fields(fields);
        }
        let mut found = Found::default();
        for _ in 0..PAGES {
            let page = match sort.metadata_only {
                true => api.list_metadata(&params).await.map(|page| {
                    let items = page.items.into_iter().map(serde_json::to_value).collect::<Vec<_>>();
                    (page.metadata, items)
                }),
                false => api.list(&params).await.map(|page| {
                    let items = page.items.into_iter().map(serde_json::to_value).collect::<Vec<_>>();
                    (page.metadata, items)
                }),
            };
            let (metadata, items) = match page {
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
                page => page.map_err(|error| self.failed(error))?,
            };
            for item in items {
                if let Some(row) = keep(item?) {
                    found.push(row, most);
                }
            }
            match metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        Ok(Some(found))
    }

    /// Reads an object by its name; `None`: there is none.
    pub(crate) async fn read(&self, sort: &Sort, name: &str) -> anyhow::Result<Option<Value>> {
        let object = self.api_of(sort).get_opt(name).await.map_err(|error| self.failed(error))?;
        Ok(object.map(serde_json::to_value).transpose()?)
    }

    /// Makes an object. Returns it as it is then.
    pub(crate) async fn create(&self, sort: &Sort, object: Value, dry_run: bool) -> anyhow::Result<Value> {
        let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let object: DynamicObject = serde_json::from_value(object)?;
        let made = self.api_of(sort).create(&params, &object).await;
        let made = made.map_err(|error| match &error {
            kube::Error::Api(status) if status.code == 404 => anyhow!(sort.unknown()),
            _ => self.failed(error),
        });
        Ok(serde_json::to_value(made?)?)
    }

    /// Changes of one object, from a version on.
    pub(crate) async fn changes(
        &self,
        sort: &Sort,
        name: &str,
        version: &str,
    ) -> anyhow::Result<BoxStream<'static, kube::Result<WatchEvent<DynamicObject>>>> {
        let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(290);
        let events = self.api_of(sort).watch(&params, version).await;
        Ok(events.map_err(|error| self.failed(error))?.boxed())
    }

    /// Objects of a kind: those of the namespace, where it has one.
    fn api_of(&self, sort: &Sort) -> Api<DynamicObject> {
        let resource = sort.resource();
        if *sort == Sort::SIDECAR_SET {
            return Api::all_with(self.client.clone(), &resource);
        }
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// Reads a pod; `None`: there is none of this name.
    pub(crate) async fn pod(&self, name: &str) -> anyhow::Result<Option<Value>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = api.get_opt(name).await.map_err(|error| self.failed(error))?;
        Ok(pod.map(serde_json::to_value).transpose()?)
    }

    /// Objects of a kind with these labels, by name.
    pub(crate) async fn select(&self, kind: Kind, labels: &str) -> anyhow::Result<Vec<Target>> {
        let api = self.api_in(kind, &self.namespace);
        let (mut all, mut params) = (Vec::new(), ListParams::default().labels(labels).limit(500));
        loop {
            let page = api.list_metadata(&params).await.map_err(|error| self.failed(error))?;
            let names = page.items.into_iter().filter_map(|one| one.metadata.name);
            all.extend(names.map(|name| Target { kind, name, namespace: None }));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// A failure, with the address where nobody answered.
    fn failed(&self, error: kube::Error) -> anyhow::Error {
        match &error {
            kube::Error::Service(_) | kube::Error::HyperError(_) => {
                let why = innermost(&error);
                anyhow!(
                    "the API server {} is not reached: {why}: start it, or name another --context or --kubeconfig",
                    self.server
                )
            }
            _ => error.into(),
        }
    }

    fn namespace<'a>(&'a self, target: &'a Target) -> &'a str {
        target.namespace.as_deref().unwrap_or(&self.namespace)
    }

    fn api(&self, target: &Target) -> Api<DynamicObject> {
        self.api_in(target.kind, self.namespace(target))
    }

    /// The API of a kind, in a namespace unless it is of the cluster.
    fn api_in(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        let (client, resource) = (self.client.clone(), kind.resource());
        match kind {
            Kind::SidecarSet => Api::all_with(client, &resource),
            _ => Api::namespaced_with(client, namespace, &resource),
        }
    }
}

/// Tells whether what the flags name is in the kubeconfig: a user that is not would be nobody at the API
/// server.
fn known(kubeconfig: &Kubeconfig, global: &Global) -> anyhow::Result<()> {
    let contexts = || kubeconfig.contexts.iter().map(|one| &one.name);
    let clusters = || kubeconfig.clusters.iter().map(|one| &one.name);
    let users = || kubeconfig.auth_infos.iter().map(|one| &one.name);
    one_of(|name| format!("--context {name}"), global.context.as_ref(), contexts())?;
    one_of(|name| format!("--cluster {name}"), global.cluster.as_ref(), clusters())?;
    one_of(|name| format!("--user {name}"), global.user.as_ref(), users())?;
    let named = global.context.as_ref().or(kubeconfig.current_context.as_ref());
    let context = named.and_then(|name| kubeconfig.contexts.iter().find(|one| one.name == *name));
    let Some(named) = context else {
        bail!("it has no current context: give --context, or one that has");
    };
    if let (Some(context), None) = (&named.context, &global.cluster) {
        let what = |name: &str| format!("cluster {name} of its context {}", named.name);
        one_of(what, Some(&context.cluster), clusters())?;
    }
    Ok(())
}

fn one_of<'a>(
    what: impl Fn(&str) -> String,
    name: Option<&String>,
    mut all: impl Iterator<Item = &'a String>,
) -> anyhow::Result<()> {
    match name {
        Some(name) if !all.any(|one| one == name) => {
            bail!("{} is not in it: kubectl config view shows what is", what(name))
        }
        _ => Ok(()),
    }
}
