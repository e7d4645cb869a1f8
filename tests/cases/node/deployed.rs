//! `deploy/` as it is: its images made and pulled, its pods run by a real kubelet that speaks to containerd
//! itself, and a user's request assigned by the manager and carried out by the agent beside the kubelet.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use berth_proto::crd::{
    ContainerRecreateRequest, ContainerUpdateRequest, ImagePullJob, NodeImage, PodProbeMarker, RecreatePhase,
};
use berth_proto::cri::ContainerState;
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::markers::{self, APP, Marker};
use berth_tests::node::{
    ClusterAddress, NODE_NAME, Node, PASSWORD, Registry, USER, User, deploy, images, programs, tool,
};
use berth_tests::recreate::Ask;
use berth_tests::wait::await_condition;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::process::Command;

use crate::case::{container, is_ready};

/// Pulls, starts and lease: many things in a row on a machine with other work to do.
const PATIENCE: Duration = Duration::from_secs(300);
/// Where `deploy/` puts everything.
const NAMESPACE: &str = "berth-system";

#[tokio::test]
async fn deploy_works_as_it_is() -> Result<()> {
    crate::slots::take().await;
    let node = Node::builder().berth(false).controllers(true).accounts(true).start().await?;
    let outcome = deployed(&node).await;
    if outcome.is_err()
        && let Err(error) = picture(&node).await
    {
        eprintln!("no picture: {error:#}");
    }
    outcome?;
    node.down()
}

async fn deployed(node: &Node) -> Result<()> {
    let client = node.client().await?;
    let (before, said) = check(node, &["--pre"]).await?;
    ensure!(before && said.contains("none runs"), "{said}");
    let (before, said) = check(node, &[]).await?;
    ensure!(!before && said.contains("there is no Deployment berth-system/berth-manager"), "{said}");
    let registry = Registry::start(node.run()).await?;
    let _address = ClusterAddress::serve(node.run()).await?;
    let [agent, manager] = released(node, &registry).await?;
    deploy::install(&client).await?;
    deploy::apply(&client, "manager/admission.yaml").await?;
    for object in deploy::built(&[]).await? {
        let image = match object.types.as_ref().map(|types| types.kind.as_str()) {
            Some("Deployment") => manager.as_str(),
            Some("DaemonSet") => agent.as_str(),
            Some("ConfigMap") => "",
            _ => continue,
        };
        deploy::apply_object(&client, &adapted(node, object, image)?).await?;
    }

    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    await_condition("two managers and an agent are Ready", PATIENCE, async || {
        for (name, count) in [("berth-manager", 2), ("berth-agent", 1)] {
            let label = format!("app.kubernetes.io/name={name}");
            let found = pods.list(&ListParams::default().labels(&label)).await?.items;
            ensure!(found.len() == count, "{} pods of {name}", found.len());
            found.iter().try_for_each(is_ready)?;
        }
        Ok(())
    })
    .await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    await_condition("one of them leads", PATIENCE, async || {
        let lease = leases.get("berth-manager").await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        ensure!(holder.starts_with("berth-manager-"), "{holder:?} does");
        Ok(())
    })
    .await?;
    let (all_is_well, said) = check(node, &["--wait=300s"]).await?;
    ensure!(all_is_well && !said.contains("fail ") && said.contains("all 1 nodes have one"), "{said}");
    // What the samples ask for, and nothing else.
    deploy::let_agents_write(&client, "default", "example.com/app-config, marked").await?;
    a_request_is_carried_out(&client).await?;
    a_pod_is_updated(&client, node, &registry).await?;
    an_image_is_pulled(&client, &manager).await?;
    a_secret_is_used_where_it_may_be(&client, node).await?;
    a_marker_marks_its_pod(&client).await
}

/// Images of the agent and of the manager, as release/ makes them of the programs under test.
async fn released(node: &Node, registry: &Registry) -> Result<[String; 2]> {
    let script = programs::package_dir().join("../release/containers.sh");
    let (built, out) = (programs::berth("berthd")?, node.run().make_dir("released")?);
    let from = built.parent().context("a program without a folder")?.display().to_string();
    tool::run(&script, &[&from, &out.display().to_string(), "berthd", "berth-manager"]).await?;
    let push = async |name: &str| {
        let archive = format!("oci-archive:{}", out.join(format!("{name}.tar")).display());
        registry.push_from(&archive, &format!("{name}:0.1.0")).await
    };
    Ok([push("berthd").await?, push("berth-manager").await?])
}

/// `berthctl check`: whether no check fails, and its table.
async fn check(node: &Node, args: &[&str]) -> Result<(bool, String)> {
    let mut command = Command::new(programs::berth("berthctl")?);
    command.arg("check").arg("--kubeconfig").arg(node.api()?.kubeconfig(User::Admin)?).args(args);
    let done = command.kill_on_drop(true).output().await.context("run berthctl check")?;
    Ok((done.status.success(), String::from_utf8(done.stdout)? + &String::from_utf8(done.stderr)?))
}

/// The images of this run's registry and the folders of this run; nothing else.
fn adapted(node: &Node, object: DynamicObject, image: &str) -> Result<DynamicObject> {
    let mut value = serde_json::to_value(object)?;
    if let Some(spec) = value.pointer_mut("/spec/template/spec") {
        spec["containers"][0]["image"] = image.into();
        for volume in spec["volumes"].as_array_mut().into_iter().flatten() {
            match volume["name"].as_str() {
                Some("runtime") => volume["hostPath"]["path"] = json!(node.run().dir()),
                Some("images") => volume["hostPath"]["path"] = json!(node.run().path("containerd/root")),
                Some("state") => volume["hostPath"]["path"] = json!(node.run().path("agent-state")),
                Some("run") => volume["hostPath"]["path"] = json!(node.run().path("agent-run")),
                _ => {}
            }
        }
    }
    Ok(serde_json::from_value(value)?)
}

async fn a_request_is_carried_out(client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let manifest = PodManifest::new("default", "pod").container(Container::new("a"));
    await_condition("the namespace takes pods", PATIENCE, async || {
        pods.create(&PostParams::default(), &manifest.pod()?).await.map(drop).context("create a pod")
    })
    .await?;
    let before = await_condition("the pod is Ready", PATIENCE, async || {
        let pod = pods.get("pod").await?;
        is_ready(&pod).map(|()| pod)
    })
    .await?;
    let asked = Ask::new("pod", &["a"]).create(client, "default", "again").await?;
    let status = asked.succeeded(PATIENCE).await?;
    ensure!(status.phase == Some(RecreatePhase::Completed), "{status:?}");
    let old = container(&before, "a")?;
    await_condition("the pod shows its second instance", PATIENCE, async || {
        let pod = pods.get("pod").await?;
        let new = container(&pod, "a")?;
        ensure!(
            new.restart_count == old.restart_count + 1 && new.container_id != old.container_id,
            "{new:?}"
        );
        ensure!(pod.uid() == before.uid(), "another pod");
        Ok(())
    })
    .await?;
    let request: ContainerRecreateRequest = asked.now().await?.context("the request is gone")?;
    let writers: Vec<_> =
        request.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
    ensure!(writers.contains(&"berth-manager"), "not assigned by the manager: {writers:?}");
    Ok(())
}

/// The sample as it is, but for its images and what they run: the image of the one container and a value of
/// the other.
async fn a_pod_is_updated(client: &Client, node: &Node, registry: &Registry) -> Result<()> {
    let [mut pod, mut request] = <[DynamicObject; 2]>::try_from(deploy::objects("samples/update.yaml")?)
        .map_err(|found| anyhow!("the sample has {} objects", found.len()))?;
    let (name, next) = (pod.name_any(), images::archives().await?);
    let next = next.get(1).context("no second image")?;
    let next = registry.push(next, "proxy:2").await?;
    for object in [&mut pod, &mut request] {
        object.metadata.namespace = Some("default".to_owned());
    }
    let spec = &mut pod.data["spec"];
    (spec["nodeName"], spec["terminationGracePeriodSeconds"]) = (NODE_NAME.into(), 1.into());
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        container["image"] = images::BUSYBOX.into();
        container["command"] = json!(["/bin/busybox", "httpd", "-f", "-p", "15001"]);
        if container["name"] == "app" {
            container["command"] = json!(["/bin/sleep", "1000000"]);
        }
    }
    request.data["spec"]["containers"][0]["image"] = next.as_str().into();

    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    deploy::apply_object(client, &pod).await?;
    // Whoever makes such pods opens their gate.
    let open = json!({ "status": { "conditions": [{ "type": "InPlaceUpdateReady", "status": "True" }] } });
    pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&open))
        .await
        .context("open the gate")?;
    let before = await_condition("the pod of the sample is Ready", PATIENCE, async || {
        let pod = pods.get(&name).await?;
        is_ready(&pod).map(|()| pod)
    })
    .await?;
    deploy::apply_object(client, &request).await?;
    let requests: Api<ContainerUpdateRequest> = Api::namespaced(client.clone(), "default");
    let request = await_condition("the update is complete", PATIENCE, async || {
        let request = requests.get(&request.name_any()).await?;
        let status = request.status.as_ref().context("no status yet")?;
        let complete = |condition: &Condition| condition.type_ == "Complete" && condition.status == "True";
        ensure!(status.conditions.iter().any(complete), "{}", serde_json::to_string(status)?);
        Ok(request)
    })
    .await?;
    let writers: Vec<_> =
        request.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
    ensure!(writers.contains(&"berth-manager"), "not assigned by the manager: {writers:?}");

    let made_of = [("proxy", next.as_str()), ("app", images::BUSYBOX)];
    let after = await_condition("the pod is Ready again, restarted once", PATIENCE, async || {
        let pod = pods.get(&name).await?;
        is_ready(&pod)?;
        for (container_name, _) in made_of {
            let now = container(&pod, container_name)?;
            ensure!(now.restart_count == container(&before, container_name)?.restart_count + 1, "{now:?}");
        }
        Ok(pod)
    })
    .await?;
    ensure!(after.uid() == before.uid(), "another pod");
    for (container_name, image) in made_of {
        let spec =
            after.spec.iter().flat_map(|spec| &spec.containers).find(|other| other.name == container_name);
        ensure!(
            spec.and_then(|spec| spec.image.as_deref()) == Some(image),
            "{container_name} is not of {image}"
        );
    }
    let cri = node.containerd().cri()?;
    let instances = cri.containers("default", &name).await?;
    let app = instances
        .iter()
        .find(|instance| instance.name == "app" && instance.state == ContainerState::ContainerRunning);
    let app = app.with_context(|| format!("app does not run: {instances:?}"))?;
    let (code, value) = cri.exec(&app.id, &["/bin/sh", "-c", "printf %s \"$APP_CONFIG\""]).await?;
    ensure!((code, value.as_str()) == (0, "v2"), "exit {code}, {value:?}");
    Ok(())
}

/// By the manager's assignment and the agent's pull, with no more rights than `deploy/` gives them.
async fn an_image_is_pulled(client: &Client, image: &str) -> Result<()> {
    let job: ImagePullJob = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob",
        "metadata": { "namespace": "default", "name": "job" },
        "spec": {
            "image": image,
            "imagePullPolicy": "Always",
            "completionPolicy": { "type": "Always", "ttlSecondsAfterFinished": 15 },
        },
    }))?;
    let jobs: Api<ImagePullJob> = Api::namespaced(client.clone(), "default");
    jobs.create(&PostParams::default(), &job).await.context("create an ImagePullJob")?;
    let status = await_condition("the job has ended", PATIENCE, async || {
        let status = jobs.get("job").await?.status.unwrap_or_default();
        ensure!(status.completion_time.is_some(), "{status:?}");
        Ok(status)
    })
    .await?;
    ensure!((status.desired, status.succeeded) == (Some(1), Some(1)), "{status:?}");
    await_condition("the manager deletes it when its time is over", PATIENCE, async || {
        ensure!(jobs.get_opt("job").await?.is_none(), "it is there");
        Ok(())
    })
    .await
}

/// The manager may read no Secret, and then this one; the agent none at all.
async fn a_secret_is_used_where_it_may_be(client: &Client, node: &Node) -> Result<()> {
    let registry = Registry::start_private(node.run()).await?;
    let archive = images::sized(node.run(), "private:v1", 50_000).await?;
    let image = registry.push(&archive, "private:v1").await?;
    let auths = json!({ "auths": { registry.address(): { "username": USER, "password": PASSWORD } } });
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "registry" },
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": auths.to_string() },
    }))?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &secret).await.context("create a Secret")?;
    let job: ImagePullJob = serde_json::from_value(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob",
        "metadata": { "namespace": "default", "name": "private" },
        "spec": { "image": image, "pullSecrets": ["registry"], "completionPolicy": {} },
    }))?;
    let jobs: Api<ImagePullJob> = Api::namespaced(client.clone(), "default");
    jobs.create(&PostParams::default(), &job).await.context("create an ImagePullJob")?;
    await_condition("the job says which Role it takes", PATIENCE, async || {
        let status = jobs.get("private").await?.status.unwrap_or_default();
        let refused = status.conditions.iter().find(|found| found.reason == "SecretUnavailable");
        let message = &refused.context("not refused")?.message;
        ensure!(message.contains("default/registry") && message.contains("Role"), "{message}");
        Ok(())
    })
    .await?;
    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": "pull" },
        "rules": [{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["registry"], "verbs": ["get"] }],
    }))?;
    Api::namespaced(client.clone(), "default")
        .create(&PostParams::default(), &role)
        .await
        .context("a Role")?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "pull" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pull" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": NAMESPACE, "name": "berth-manager" }],
    }))?;
    Api::namespaced(client.clone(), "default")
        .create(&PostParams::default(), &binding)
        .await
        .context("a RoleBinding")?;
    await_condition("the job has succeeded", PATIENCE, async || {
        let status = jobs.get("private").await?.status.unwrap_or_default();
        ensure!(status.succeeded == Some(1), "{status:?}");
        Ok(())
    })
    .await?;
    let sealed = Api::<NodeImage>::all(client.clone()).get(NODE_NAME).await?;
    let text = serde_json::to_string(&sealed)?;
    ensure!(text.contains("sealedCredentials") && !text.contains(PASSWORD), "{text}");
    Ok(())
}

/// With no more rights on the API and the node than `deploy/` gives manager and agent: commands, and the way
/// into the network of a pod.
async fn a_marker_marks_its_pod(client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let container = Container::new("a").shell("nc -ll -p 9090 -e cat &");
    let manifest = PodManifest::new("default", "marked").label(APP, "marked").container(container);
    pods.create(&PostParams::default(), &manifest.pod()?).await.context("create a pod")?;
    let marker = Marker::new("marker", "marked")
        .probe("command", "a", json!({ "exec": { "command": ["true"] }, "periodSeconds": 1 }))
        .label("marked")
        .probe("dial", "a", json!({ "tcpSocket": { "port": 9090 }, "periodSeconds": 1 }));
    marker.apply(client, "default").await?;
    await_condition("the pod is marked", PATIENCE, async || {
        let pod = pods.get("marked").await?;
        markers::says(&pod, "command", "True", "")?;
        markers::says(&pod, "dial", "True", "")?;
        ensure!(pod.labels().get("marked").is_some_and(|value| value == "true"), "{:?}", pod.labels());
        Ok(())
    })
    .await?;
    let markers: Api<PodProbeMarker> = Api::namespaced(client.clone(), "default");
    await_condition("the marker is accepted", PATIENCE, async || {
        let status = markers.get("marker").await?.status.unwrap_or_default();
        let accepted = |found: &Condition| found.type_ == "Accepted" && found.status == "True";
        ensure!(status.matched_pods == Some(1) && status.conditions.iter().any(accepted), "{status:?}");
        Ok(())
    })
    .await
}

/// How the pods look at the end, for the reader of a failure.
async fn picture(node: &Node) -> Result<()> {
    for pod in Api::<Pod>::all(node.client().await?).list(&ListParams::default()).await?.items {
        eprintln!("pod {}: {}", pod.name_any(), serde_json::to_string(&pod.status)?);
    }
    Ok(())
}
