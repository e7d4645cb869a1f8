//! The admission server's own door: reviews of pods come at a fixed rate, whether the ones before have been
//! answered or not.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_proto::crd::SidecarSet;
use berth_tests::node::{ControlPlane, Manager, Replica, User, crds, deploy, programs};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{BENCH, Scale, percentile, set};
use crate::report::Row;

pub(super) const CASE: &str = "door-50-sets";
/// A hundred pods a second.
const EVERY: Duration = Duration::from_millis(10);
const NAMESPACE: &str = "berth-system";
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run(options: &Scale) -> Result<Vec<Row>> {
    let plane = ControlPlane::without_controllers().await?;
    let client = plane.client().await?;
    crds::install(&client).await?;
    deploy::apply(&client, "namespace.yaml").await?;
    let sets: Api<SidecarSet> = Api::all(client.clone());
    // Before there is an entry that asks a manager about them.
    for number in 0..options.sets {
        let set = set(&format!("set-{number}"), &format!("app-{number}"), "registry.example/log:1", None)?;
        sets.create(&PostParams::default(), &set).await.context("make a set")?;
    }
    deploy::apply(&client, "manager/admission.yaml").await?;
    programs::manager()?;
    let kubeconfig = plane.api().kubeconfig(User::Admin)?;
    let manager = Manager::admitting(plane.run(), Replica::First, &kubeconfig, (NAMESPACE, 15)).await?;
    manager.leads().await?;
    let door = door(&client, &Manager::admission_addresses(plane.run())[0]).await?;
    let first = review(&door, 0, 0).await?;
    ensure!(first.is_injected, "the pod got no sidecar");

    let mut answers = JoinSet::new();
    let begun = Instant::now();
    let mut tick = tokio::time::interval(EVERY);
    let mut number = 0;
    while begun.elapsed() < Duration::from_secs(options.seconds) {
        tick.tick().await;
        number += 1;
        let (door, sets) = (door.clone(), options.sets);
        answers.spawn(async move { review(&door, number % sets, number).await });
    }
    let (mut times, mut failed) = (Vec::new(), 0);
    while let Some(answer) = answers.join_next().await {
        match answer? {
            Ok(answer) if answer.is_injected => times.push(answer.millis),
            Ok(_) => failed += 1,
            Err(error) => {
                failed += 1;
                eprintln!("no answer: {error:#}");
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |percent| percentile(&times, percent).context("nothing was answered");
    let (half, most, longest) = (at(50)?, at(99)?, at(100)?);
    eprintln!(
        "{number} pods in {:.1} s: {half:.2} ms, 99% below {most:.2} ms, the longest {longest:.2} ms, {failed} failed",
        begun.elapsed().as_secs_f64()
    );
    manager.service().stop()?;
    let row = |metric, unit| Row::new(&BENCH, CASE, metric, unit);
    Ok(vec![
        row("p50_ms", "ms").measured(half, None, times.len()),
        row("p99_ms", "ms").measured(most, None, times.len()),
        row("failed", "").measured(f64::from(failed), None, times.len()),
    ])
}

/// A client of the admission server, which trusts its CA as the API server does.
async fn door(client: &Client, address: &str) -> Result<Client> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let bundle = await_condition("there is a certificate", PATIENCE, async || {
        let data = secrets.get("berth-manager-admission").await?.data.context("no data")?;
        data.get("ca.crt").cloned().context("no CA")
    })
    .await?;
    let roots: Vec<_> = CertificateDer::pem_slice_iter(&bundle.0).collect::<Result<_, _>>()?;
    let mut config = Config::new(format!("https://{address}").parse()?);
    config.root_cert = Some(roots.into_iter().map(|root| root.to_vec()).collect());
    config.tls_server_name = Some("berth-manager.berth-system.svc".to_owned());
    Ok(Client::try_from(config)?)
}

struct Answer {
    millis: f64,
    is_injected: bool,
}

async fn review(door: &Client, set: u32, number: u32) -> Result<Answer> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": { "uid": format!("review-{number}"), "namespace": "default", "operation": "CREATE",
            "kind": { "group": "", "version": "v1", "kind": "Pod" }, "object": pod(set) },
    });
    let request = http::Request::post(format!("/mutate/pods/set-{set}"))
        .header("Content-Type", "application/json")
        .body(serde_json::to_vec(&review)?)?;
    let begun = Instant::now();
    let answer: Value = door.request(request).await?;
    let millis = begun.elapsed().as_secs_f64() * 1000.0;
    Ok(Answer { millis, is_injected: answer["response"]["patch"].is_string() })
}

/// A pod of two containers, as large as most are.
fn pod(set: u32) -> Value {
    let variable = |number: u32| json!({ "name": format!("SETTING_{number}"), "value": format!("value of setting {number}") });
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example/shop/{name}:1.2.3"),
            "env": (0..10).map(variable).collect::<Vec<_>>(),
            "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
            "readinessProbe": { "httpGet": { "path": "/ready", "port": 8080 }, "periodSeconds": 5 },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/shop" }, { "name": "tmp", "mountPath": "/tmp" }],
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "generateName": "shop-", "namespace": "default", "labels": { "app": format!("app-{set}"), "team": "checkout" } },
        "spec": { "containers": [container("app"), container("side")],
            "volumes": [{ "name": "config", "configMap": { "name": "c" } }, { "name": "tmp", "emptyDir": {} }] },
    })
}
