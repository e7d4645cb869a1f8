//! OpenKruise as it is installed: its manifests, and its manager as a process. Its Deployment wants a pod
//! that no node takes, and the API server finds its webhooks at this machine.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use berth_tests::node::{Node, Port, Service, deploy, http, token};
use berth_tests::wait::{START_UP, await_condition};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::objects::{Definition, kind_of};

/// Names the folder that `openkruise/build.sh` prints.
const FOLDER: &str = "BERTH_TESTS_OPENKRUISE";
const NAMESPACE: &str = "kruise-system";
const MANAGER: &str = "kruise-controller-manager";
const MUTATING: &str = "kruise-mutating-webhook-configuration";
const VALIDATING: &str = "kruise-validating-webhook-configuration";
/// Definition whose objects its manager converts.
const CONVERTED: &str = "statefulsets.apps.kruise.io";

pub(super) struct OpenKruise {
    client: Client,
    /// Field manager that applies its manifests.
    by: &'static str,
    objects: Vec<DynamicObject>,
    service: Service,
    health: String,
}

impl OpenKruise {
    /// Applies its manifests, as this field manager, to a cluster that has none of its kinds. Its manager
    /// does not run yet.
    pub(super) async fn install(node: &Node, client: &Client, by: &'static str) -> Result<Self> {
        let (run, api) = (node.run(), node.api()?);
        let folder = env::var_os(FOLDER).map(PathBuf::from);
        let folder = folder.with_context(|| format!("{FOLDER} is not set: tests/openkruise.sh sets it"))?;
        let text = fs::read_to_string(folder.join("objects.yaml")).context("OpenKruise's manifests")?;
        let mut objects: Vec<DynamicObject> = serde_saphyr::from_multiple(&text).context("its manifests")?;
        // Its agent would need a folder at the root of this machine.
        objects.retain(|object| kind_of(object) != "DaemonSet");
        let deployment = objects.iter_mut().find(|object| kind_of(object) == "Deployment");
        let deployment = deployment.context("no Deployment in its manifests")?;
        let pod = &mut deployment.data["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({ "no": "node" });
        let args = pod["containers"][0]["args"].as_array().context("arguments of its manager")?;
        let mut args: Vec<_> = args.iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect();
        for object in &objects {
            deploy::apply_as(client, object, by).await?;
        }

        let token = token::of_namespace(client, NAMESPACE, "kruise-manager", None).await?;
        let health = run.address(Port::ManagerNext);
        args.extend([
            format!("--kubeconfig={}", api.kubeconfig_with("kruise-manager", &token)?.display()),
            format!("--health-probe-addr={health}"),
            format!("--metrics-addr={}", run.address(Port::ManagerNextMetrics)),
            "--enable-pprof=false".to_owned(),
        ]);
        let service = Service::new(run, "openkruise", folder.join("manager"), args)
            .env("POD_NAMESPACE", NAMESPACE)
            .env("WEBHOOK_HOST", "localhost")
            .env("WEBHOOK_PORT", run.port(Port::ManagerNextAdmission).to_string())
            .env("WEBHOOK_CERT_DIR", run.make_dir("openkruise")?.display().to_string());
        Ok(Self { client: client.clone(), by, objects, service, health })
    }

    /// Starts its manager, and waits until it is ready.
    pub(super) async fn start(&self) -> Result<()> {
        // Webhooks that went with the manager, as well.
        for object in &self.objects {
            if kind_of(object).ends_with("WebhookConfiguration") {
                deploy::apply_as(&self.client, object, self.by).await?;
            }
        }
        self.wants(1).await?;
        self.service.start()?;
        await_condition("OpenKruise's manager is ready", START_UP, async || {
            self.service.check_running()?;
            http::is_ready(&self.health).await
        })
        .await
    }

    /// Stops its manager, and takes its webhooks away, also the one that converts StatefulSets: a definition
    /// that is applied over it could not leave it out.
    pub(super) async fn stop(&self) -> Result<()> {
        self.wants(0).await?;
        self.service.stop()?;
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        mutating.delete(MUTATING, &DeleteParams::default()).await.context("its webhooks")?;
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        validating.delete(VALIDATING, &DeleteParams::default()).await.context("its webhooks")?;
        let definitions: Api<Definition> = Api::all(self.client.clone());
        let none = Patch::Merge(json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } }));
        definitions.patch(CONVERTED, &PatchParams::default(), &none).await.context("its conversion")?;
        Ok(())
    }

    /// Definitions of its kinds, as the cluster has them now.
    pub(super) async fn definitions(&self) -> Result<Vec<Definition>> {
        let all: Api<Definition> = Api::all(self.client.clone());
        let mut found = Vec::new();
        for object in self.objects.iter().filter(|object| kind_of(object) == "CustomResourceDefinition") {
            found.push(all.get(&object.name_any()).await?);
        }
        Ok(found)
    }

    /// Last lines of its log.
    pub(super) fn last_words(&self) -> String {
        self.service.last_words()
    }

    async fn wants(&self, pods: i32) -> Result<()> {
        let all: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({ "spec": { "replicas": pods } }));
        all.patch(MANAGER, &PatchParams::default(), &patch).await.context("scale its manager")?;
        Ok(())
    }
}
