//! Berth beside a kubelet that speaks to containerd itself: its manifests, and its programs as processes with
//! the arguments that the manifests give them.

use anyhow::{Context, Result, ensure};
use berth_tests::node::{
    Berthd, Manager, NODE_NAME, Node, PathMode, PodView, Replica, User, Workloads, deploy, token,
};
use berth_tests::wait::{START_UP, await_condition};
use kube::api::DeleteParams;
use kube::{Client, ResourceExt, api::DynamicObject};

use super::objects::kind_of;
use crate::admission::{Door, install_admission};

/// Kinds of `deploy/`, and those that are optional.
const COMPONENTS: [&str; 5] = ["workloads", "jobs", "uniteddeployments", "spreads", "podstates"];
/// Arguments that the harness gives a program itself.
const OWN: [&str; 4] = ["--health-address", "--metrics-address", "--namespace", "--admission-address"];

pub(super) struct Berth {
    client: Client,
    objects: Vec<DynamicObject>,
    berthd: Berthd,
    manager: Manager,
    workloads: Workloads,
    _door: Door,
}

impl Berth {
    /// Applies its manifests and starts its programs.
    pub(super) async fn install(node: &Node, client: &Client, namespace: &str) -> Result<Self> {
        let run = node.run();
        deploy::install(client).await?;
        install_admission(client, run).await?;
        let objects = deploy::built(&COMPONENTS).await?;
        for object in &objects {
            // Programs are processes, and the Service has an address of this run.
            if !matches!(kind_of(object), "Deployment" | "DaemonSet" | "Service") {
                deploy::apply_object(client, object).await?;
            }
        }
        deploy::let_agents_write(client, namespace, "*").await?;
        let door = Door::open(run).await?;
        let view = PodView::Api { kubeconfig: node.api()?.kubeconfig(User::Node)? };
        let berthd = Berthd::start(run, node.containerd().socket(), PathMode::Beside, &view, None).await?;
        berthd.act_as(&token::of(client, "berth-agent", Some(NODE_NAME)).await?).await?;
        let kubeconfig = async |account: &str| {
            let token = token::of(client, account, None).await?;
            node.api()?.kubeconfig_with(account, &token)
        };
        let manager = kubeconfig("berth-manager").await?;
        let [address, _] = Manager::admission_addresses(run);
        let mut given = args(&objects, "berth-manager")?;
        given.push(format!("--admission-address={address}"));
        let given: Vec<_> = given.iter().map(String::as_str).collect();
        let manager = Manager::start_with(run, Replica::First, &manager, ("berth-system", 3), &given).await?;
        let given = args(&objects, "berth-workloads")?;
        let given: Vec<_> = given.iter().map(String::as_str).collect();
        let workloads = kubeconfig("berth-workloads").await?;
        let workloads = Workloads::start_with(run, &workloads, "berth-system", &given).await?;
        Ok(Self { client: client.clone(), objects, berthd, manager, workloads, _door: door })
    }

    /// Waits until the kinds are its own.
    pub(super) async fn decides(&self) -> Result<()> {
        self.yields(0.0).await?;
        self.manager.leads().await
    }

    /// Waits until so many of both programs leave the kinds to OpenKruise.
    pub(super) async fn yields(&self, programs: f64) -> Result<()> {
        await_condition(format!("{programs} of Berth's programs yield"), START_UP, async || {
            let yields = self.manager.metric("berth_manager_yields").await?
                + self.workloads.metric("berth_workloads_yields").await?;
            ensure!((yields - programs).abs() < 0.5, "{yields} do");
            Ok(())
        })
        .await
    }

    /// Stops its programs and deletes what its manifests have, but for definitions and namespaces.
    pub(super) async fn remove(self) -> Result<()> {
        for service in [self.workloads.service(), self.manager.service(), self.berthd.service()] {
            service.stop()?;
        }
        // Webhooks first: nobody answers them.
        let of_webhooks = |object: &&DynamicObject| kind_of(object).ends_with("WebhookConfiguration");
        let (webhooks, others): (Vec<_>, Vec<_>) = self.objects.iter().partition(of_webhooks);
        for object in webhooks.into_iter().chain(others) {
            if matches!(kind_of(object), "CustomResourceDefinition" | "Namespace") {
                continue;
            }
            let (api, name) = (deploy::api(&self.client, object)?, object.name_any());
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error).with_context(|| format!("delete {name}")),
            }
        }
        Ok(())
    }
}

/// Arguments of a program in its Deployment, but for those that the harness gives it.
fn args(objects: &[DynamicObject], name: &str) -> Result<Vec<String>> {
    let mut deployments = objects.iter().filter(|object| kind_of(object) == "Deployment");
    let found = deployments.find(|object| object.name_any() == name).context("its Deployment")?;
    let args = found.data["spec"]["template"]["spec"]["containers"][0]["args"].as_array().context("args")?;
    let args = args.iter().filter_map(|arg| arg.as_str());
    Ok(args.filter(|arg| !OWN.iter().any(|own| arg.starts_with(own))).map(str::to_owned).collect())
}
