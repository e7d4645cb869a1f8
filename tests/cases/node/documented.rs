//! Commands of README and the pages, run as they stand there, at an API server with a node on paper: a
//! cluster from nothing is installed by Helm and by kustomize, looked at, and taken apart. What belongs to
//! others stays.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use berth_tests::commands::{AT_API_SERVER, BEFORE, STORED_ANEW, WAY_BACK};
use berth_tests::node::{ControlPlane, User, crds, deploy, programs};
use berth_tests::wait::{START_UP, await_condition};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::process::Command;

/// Node of the commands that name one.
const NODE: &str = "on-paper";
/// Kind of the commands that name one.
const KIND: &str = "sidecarsets.apps.kruise.io";
/// Time for which a command that watches is looked at.
const WATCHED: &str = "2";
/// Most bytes of an object that etcd takes: a release of Helm is one.
const LARGEST: usize = 1_048_576;

/// A shell in a folder that looks like the root of the repository.
struct Shell {
    folder: tempfile::TempDir,
    path: String,
    kubeconfig: String,
}

impl Shell {
    /// Has the repository's folders, the values of a chart, and a kustomization as the page of components
    /// shows one.
    fn at(plane: &ControlPlane) -> Result<Self> {
        let folder = tempfile::tempdir().context("a folder")?;
        let root = programs::package_dir().join("..").canonicalize().context("the repository")?;
        for name in ["deploy", "charts", "complete"] {
            std::os::unix::fs::symlink(root.join(name), folder.path().join(name)).context(name)?;
        }
        fs::write(folder.path().join("values.yaml"), "registry: registry.example.com/berth\n")?;
        // kubectl follows no link that leads out of the folder of a kustomization.
        let up = "../".repeat(folder.path().components().count().saturating_sub(1));
        let base = format!("{up}{}/deploy", root.strip_prefix("/").context("an absolute path")?.display());
        let components = ["takeover", "workloads", "jobs", "without-protection"];
        let components: Vec<_> = components.iter().map(|name| format!("{base}/{name}")).collect();
        let own = json!({ "resources": [base], "components": components });
        fs::write(folder.path().join("kustomization.yaml"), own.to_string())?;
        let programs = [programs::kubernetes("kubectl")?, programs::helm()?, programs::berth("berthctl")?];
        let path =
            programs.iter().filter_map(|program| program.parent()).map(|dir| dir.display().to_string());
        let path = path.chain(std::env::var("PATH")).collect::<Vec<_>>().join(":");
        let kubeconfig = plane.api().kubeconfig(User::Admin)?.display().to_string();
        Ok(Self { folder, path, kubeconfig })
    }

    /// Runs a command and returns what it prints. One that watches is ended after a while.
    async fn run(&self, command: &str) -> Result<String> {
        let line = command.replace("NODE", NODE).replace("NAME", KIND);
        let watches = line.ends_with(" -w");
        let line = if watches { format!("timeout {WATCHED} {line}") } else { line };
        let done = Command::new("bash")
            .args(["-o", "pipefail", "-c", &line])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| command.to_owned())?;
        let said = String::from_utf8_lossy(&done.stderr);
        let well = done.status.success() || watches && done.status.code() == Some(124);
        ensure!(well, "{command}: {}: {said}", done.status);
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

#[tokio::test]
async fn commands_of_the_pages_do_what_they_say() -> Result<()> {
    crate::slots::take().await;
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    let shell = Shell::at(&plane)?;
    let node: Node = serde_json::from_value(json!({ "metadata": { "name": NODE } }))?;
    Api::<Node>::all(client.clone()).create(&PostParams::default(), &node).await.context("a node")?;
    shell.run("kubectl create namespace shop").await?;

    // All of them: one that fails says nothing about the next.
    let mut failed = Vec::new();
    for command in AT_API_SERVER {
        let outcome = async {
            let said = shell.run(command).await?;
            follows(command, &said, &shell, &client).await.with_context(|| format!("after {command}: {said}"))
        };
        failed.extend(outcome.await.err().map(|error| format!("{error:#}")));
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    plane.down()
}

/// A later OpenKruise's definition has one version more, in which objects are stored, and is part of a
/// release of Helm. It is as it was when all is taken back.
#[tokio::test]
async fn what_is_stored_in_another_version_comes_over() -> Result<()> {
    crate::slots::take().await;
    let plane = ControlPlane::without_controllers().await?;
    let client = plane.client().await?;
    let shell = Shell::at(&plane)?;
    let version = |name: &str, stored: bool| {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        json!({ "name": name, "served": true, "storage": stored, "schema": { "openAPIV3Schema": schema } })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": KIND },
        "spec": {
            "group": "apps.kruise.io", "scope": "Cluster",
            "names": { "kind": "SidecarSet", "plural": "sidecarsets", "singular": "sidecarset", "listKind": "SidecarSetList" },
            "versions": [version("v1alpha1", false), version("v1beta1", true)],
        },
    });
    let chart = shell.path().join("kruise/templates");
    fs::create_dir_all(&chart)?;
    fs::write(chart.join("sidecarsets.yaml"), definition.to_string())?;
    fs::write(shell.path().join("kruise/Chart.yaml"), "apiVersion: v2\nname: kruise\nversion: 1.9.0\n")?;
    shell.run("helm install kruise kruise").await?;
    let set: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": { "name": "set" },
        "spec": { "selector": { "matchLabels": { "app": "web" } }, "containers": [] },
    }))?;
    await_condition("the kind is served", START_UP, async || {
        deploy::apply_object(&client, &set).await.map(drop)
    })
    .await?;
    for command in BEFORE {
        shell.run(command).await?;
    }
    let kept = fs::read_to_string(shell.path().join("objects.json"))?;
    ensure!(kept.contains("\"name\": \"set\""), "{kept}");
    ensure!(!shell.run("helm list -A -q").await?.contains("kruise"), "Helm knows it still");
    let words = format!("{KIND} has stored objects as v1beta1");
    let said = shell.run("berthctl check --pre || true").await?;
    ensure!(said.contains(&words), "{said}");
    let apply = "kubectl apply --server-side --force-conflicts -f deploy/crds/sidecarsets.yaml";
    let refused = shell.run(apply).await.err().context("a stored version was dropped")?;
    ensure!(format!("{refused:#}").contains("storedVersions"), "{refused:#}");

    for command in STORED_ANEW {
        shell.run(command).await?;
    }
    let said = shell.run("berthctl check --pre || true").await?;
    ensure!(!said.contains(&words), "{said}");
    shell.run(apply).await?;
    let said =
        shell.run("kubectl get sidecarsets.v1alpha1.apps.kruise.io set -o jsonpath={.spec.selector}").await?;
    ensure!(said.contains("web"), "{said}");

    for command in WAY_BACK {
        shell.run(command).await?;
    }
    await_condition("the other version is served again", START_UP, async || {
        let get = "kubectl get sidecarsets.v1beta1.apps.kruise.io set -o jsonpath={.spec.selector}";
        let said = shell.run(get).await?;
        ensure!(said.contains("web"), "{said}");
        Ok(())
    })
    .await?;
    let said = shell.run("kubectl get crd NAME -o jsonpath={.spec.names.categories}").await?;
    ensure!(said.is_empty(), "a field of Berth's definition is left: {said}");
    plane.down()
}

/// Checks what is there after a command, where that is worth a look.
async fn follows(command: &str, said: &str, shell: &Shell, client: &Client) -> Result<()> {
    match command.split(" -").next().unwrap_or(command) {
        "helm install berth charts/berth" => {
            installed(client, "registry.example.com/berth/berthd:0.1.0").await?;
            fits(client).await?;
            // A release changes by its values alone.
            fs::write(
                shell.path().join("values.yaml"),
                "registry: other.example.com\nagent: {configuration: {launchOrder: {enabled: false}}}\n",
            )?;
            probe_objects(client).await
        }
        "helm upgrade berth charts/berth" => {
            installed(client, "other.example.com/berthd:0.1.0").await?;
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "berth-system");
            let maps = maps.list(&ListParams::default()).await?.items;
            let maps: Vec<_> = maps.iter().filter(|map| map.name_any().starts_with("berth-agent")).collect();
            ensure!(maps.len() == 1, "{} configurations", maps.len());
            let text = serde_json::to_string(&maps[0].data)?;
            ensure!(text.contains("enabled: false"), "{text}");
            Ok(())
        }
        "helm uninstall berth" => {
            gone(client).await?;
            others_are_there(client).await
        }
        "kubectl apply" if command.ends_with("-k deploy") => installed(client, "berthd:0.1.0").await,
        "kubectl apply" if command.ends_with("-k .") => {
            let deployments: Api<Deployment> = Api::namespaced(client.clone(), "berth-system");
            deployments.get("berth-workloads").await.context("berth-workloads")?;
            served(client).await
        }
        "kubectl apply" if command.ends_with("-k complete") => {
            let deployments: Api<Deployment> = Api::namespaced(client.clone(), "berth-system");
            for program in ["berth-manager", "berth-workloads", "berth-distribution"] {
                deployments.get(program).await.with_context(|| program.to_owned())?;
            }
            installed(client, "berthd:0.1.0").await
        }
        "kubectl api-resources" => {
            ensure!(said.contains("1 containerrecreaterequest.apps.kruise.io"), "not counted");
            Ok(())
        }
        "kubectl delete" if command.contains("openkruise/writers.yaml") => {
            gone(client).await?;
            others_are_there(client).await
        }
        _ => Ok(()),
    }
}

/// The agent and the manager are there, and the agent is of this image.
async fn installed(client: &Client, image: &str) -> Result<()> {
    let agents: Api<DaemonSet> = Api::namespaced(client.clone(), "berth-system");
    let agent = agents.get("berth-agent").await.context("the agent")?;
    let containers = agent.spec.and_then(|spec| spec.template.spec).context("a template")?.containers;
    let of = containers.first().and_then(|container| container.image.as_deref());
    ensure!(of == Some(image), "{of:?}");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "berth-system");
    deployments.get("berth-manager").await.context("the manager")?;
    served(client).await
}

/// Waits until all kinds are served: who reads a page types slower than this.
async fn served(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    await_condition("all kinds are served", START_UP, async || {
        for definition in definitions.list(&ListParams::default()).await? {
            crds::is_served(&definition).with_context(|| definition.name_any())?;
        }
        Ok(())
    })
    .await
}

/// The release is one Secret, with the chart and all its objects: it must not come near what etcd takes.
async fn fits(client: &Client) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "berth-system");
    let release = secrets.get("sh.helm.release.v1.berth.v1").await.context("the release")?;
    let size = release.data.iter().flatten().map(|(_, value)| value.0.len()).sum::<usize>();
    eprintln!("release of helm: {size} bytes");
    ensure!(size < LARGEST / 4 * 3, "{size} bytes of {LARGEST}");
    Ok(())
}

/// Object that the manager would make for the node: it does not run here.
async fn probe_objects(client: &Client) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe",
        "metadata": ObjectMeta { name: Some(NODE.to_owned()), ..ObjectMeta::default() }, "spec": {},
    }))?;
    await_condition("the kind is served", START_UP, async || {
        deploy::apply_object(client, &object).await.map(drop)
    })
    .await
}

/// Neither programs nor rights nor webhooks nor policies of Berth are left.
async fn gone(client: &Client) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "berth-system");
    let agents: Api<DaemonSet> = Api::namespaced(client.clone(), "berth-system");
    await_condition("the programs are gone", START_UP, async || {
        let programs = deployments.list(&ListParams::default()).await?.items.len();
        let agents = agents.list(&ListParams::default()).await?.items.len();
        ensure!((programs, agents) == (0, 0), "{programs} deployments, {agents} daemonsets");
        Ok(())
    })
    .await?;
    let webhooks: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let webhooks = webhooks.list(&ListParams::default()).await?.items;
    ensure!(
        webhooks.is_empty(),
        "webhooks are left: {:?}",
        webhooks.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    );
    let left = [
        left::<ClusterRole>(client).await?,
        left::<ClusterRoleBinding>(client).await?,
        left::<Role>(client).await?,
        left::<RoleBinding>(client).await?,
        left::<ServiceAccount>(client).await?,
        left::<ValidatingAdmissionPolicy>(client).await?,
        left::<ValidatingAdmissionPolicyBinding>(client).await?,
    ]
    .concat();
    ensure!(left.is_empty(), "left: {left:?}");
    Ok(())
}

/// Objects of a kind, in all namespaces, whose names are Berth's.
async fn left<K>(client: &Client) -> Result<Vec<String>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let all = Api::<K>::all(client.clone()).list(&ListParams::default()).await?.items;
    let named = all.into_iter().map(|object| format!("{} {}", K::kind(&()), object.name_any()));
    Ok(named.filter(|name| name.contains(" berth-")).collect())
}

/// The definitions, and the objects and pods that users made.
async fn others_are_there(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definitions = definitions.list(&ListParams::default()).await?.items.len();
    ensure!(definitions > 10, "{definitions} definitions");
    for sample in ["recreate", "update", "images", "probe-marker"] {
        for mut object in deploy::objects(&format!("samples/{sample}.yaml"))? {
            object.metadata.namespace.get_or_insert_with(|| "default".to_owned());
            let name = object.name_any();
            deploy::api(client, &object)?.get(&name).await.with_context(|| format!("{name} of {sample}"))?;
        }
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    pods.get("game-server").await.map(drop).context("a user's pod")
}
