//! Images that not everybody may have: with what the node itself has of credentials.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use berth_proto::crd::{ImagePhase, ImageTagStatus};
use berth_tests::node::{PASSWORD, USER};
use serde_json::{Value, json};

use super::scene::{Wanted, is_phase, private_registry};
use crate::case::{Case, run};

/// No password of anybody.
const WRONG: &str = "canary-of-the-wrong-password";

/// Asks once and waits for the end.
async fn ask(wanted: &Wanted, name: &str, version: i64, end: ImagePhase) -> Result<ImageTagStatus> {
    let tag = json!({ "tag": "v1", "version": version, "pullPolicy": { "backoffLimit": 0 } });
    wanted.ask(name, json!({ "tags": [tag] })).await?;
    let ended = |tag: &ImageTagStatus| {
        is_phase(tag, end)?;
        ensure!(tag.version == Some(version), "{tag:?}");
        Ok(())
    };
    wanted.tag(name, "v1", "ends", ended).await
}

#[tokio::test]
async fn images_by_the_nodes_docker_configuration() -> Result<()> {
    run("images_docker_config", async |case: &Case| {
        let (private, wanted) = (private_registry(case).await?, Wanted::of(case).await?);
        let berthd = case.node.berthd()?;
        let [right, wrong, without] = publish(case, ["docker-right", "docker-wrong", "docker-none"]).await?;
        let entry = |password: &str| json!({ "auth": STANDARD.encode(format!("{USER}:{password}")) });
        let mut config = json!({ "auths": { &right: entry(PASSWORD), &wrong: entry(WRONG) } });
        berthd.docker_config(&config.to_string())?;

        ask(&wanted, &right, 1, ImagePhase::Succeeded).await?;
        let told = ask(&wanted, &wrong, 1, ImagePhase::Failed).await?;
        let message = told.message.context("no reason")?;
        // Not what comes of the attempt without: that one may have had no password at all.
        ensure!(message.contains("401 Unauthorized"), "{message}");
        ensure!(message.contains("(tried with 1 credential and without)"), "{message}");
        let told = ask(&wanted, &without, 1, ImagePhase::Failed).await?;
        let message = told.message.context("no reason")?;
        ensure!(message.ends_with("401 Unauthorized (tried without credentials)"), "{message}");

        // What is mended counts at the next attempt.
        config["auths"][&wrong] = entry(PASSWORD);
        berthd.docker_config(&config.to_string())?;
        ask(&wanted, &wrong, 2, ImagePhase::Succeeded).await?;
        for name in [&right, &wrong, &without] {
            wanted.ask(name, Value::Null).await?;
        }
        berthd.docker_config("{}")?;
        never_told(case, &wanted, &[PASSWORD, WRONG, &STANDARD.encode(format!("{USER}:{PASSWORD}"))]).await?;
        ensure!(private.address() == right.split('/').next().unwrap_or_default(), "{right}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn images_by_a_credential_provider() -> Result<()> {
    run("images_credential_provider", async |case: &Case| {
        let wanted = Wanted::of(case).await?;
        let berthd = case.node.berthd()?;
        let [name] = publish(case, ["provided"]).await?;
        let request = case.node.run().path("berth/provider.request");
        let respond = |password: &str| {
            let response = json!({
                "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
                "cacheKeyType": "Image", "cacheDuration": "0s",
                "auth": { &name: { "username": USER, "password": password } },
            });
            format!("cat > {}; cat <<'END'\n{response}\nEND", request.display())
        };

        berthd.credential_provider(&name, "exit 3")?;
        let told = ask(&wanted, &name, 1, ImagePhase::Failed).await?;
        let message = told.message.context("no reason")?;
        ensure!(message.contains("credential provider provider: ended with exit status: 3"), "{message}");

        berthd.credential_provider(&name, &respond(WRONG))?;
        let told = ask(&wanted, &name, 2, ImagePhase::Failed).await?;
        let message = told.message.context("no reason")?;
        ensure!(message.contains("401 Unauthorized"), "{message}");

        berthd.credential_provider(&name, &respond(PASSWORD))?;
        ask(&wanted, &name, 3, ImagePhase::Succeeded).await?;
        let asked: Value = serde_json::from_slice(&std::fs::read(&request).context("the request")?)?;
        ensure!(asked["kind"] == "CredentialProviderRequest" && asked["image"] == name, "{asked}");
        wanted.ask(&name, Value::Null).await?;
        never_told(case, &wanted, &[PASSWORD, WRONG]).await
    })
    .await
}

/// Puts an image into the private registry under each of these names; their references without tag.
pub(super) async fn publish<const N: usize>(case: &Case, names: [&str; N]) -> Result<[String; N]> {
    let private = private_registry(case).await?;
    for name in names {
        super::scene::publish(case, private, &format!("{name}:v1"), 1000).await?;
    }
    Ok(names.map(|name| format!("{}/{name}", private.address())))
}

/// Looks for secrets wherever the agent says something.
pub(super) async fn never_told(case: &Case, wanted: &Wanted, secrets: &[&str]) -> Result<()> {
    let berthd = case.node.berthd()?;
    let mut places = vec![
        ("the log", std::fs::read_to_string(berthd.service().log_path()).context("log")?),
        ("the metrics", berthd.metrics().await?),
        ("the NodeImage", serde_json::to_string(&wanted.object().await?)?),
        ("berthctl pulls", berthd.ctl(&["pulls", "-o", "json"]).await?),
    ];
    // The kubelet's own pass through it.
    if let Some(shim) = berthd.shim() {
        places.push(("the log of the shim", std::fs::read_to_string(shim.log_path()).context("its log")?));
    }
    for (place, text) in places {
        ensure!(!text.is_empty(), "{place} is empty");
        for secret in secrets {
            ensure!(!text.contains(secret), "{secret:?} is in {place}");
        }
    }
    Ok(())
}
