//! `berthctl pull` and `berthctl pulls`.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use berth_proto::crd::ImagePhase;
use berth_tests::node::{Day, programs};
use berth_tests::wait::await_condition;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::scene::{
    PATIENCE, Wanted, behind_gateway, has_served, is_phase, is_quiet, publish, pulls, pulls_show, registry,
    split,
};
use crate::case::{Case, run, run_beside};

#[tokio::test]
async fn images_by_berthctl() -> Result<()> {
    run("images_by_berthctl", async |case: &Case| {
        let (registry, berthd) = (registry(case).await?, case.node.berthd()?);
        let reference = publish(case, registry, "ctl:v1", 1000).await?;
        let (name, _) = split(&reference)?;
        let mut digest = String::new();
        for _ in 0..2 {
            let done = berthd.ctl(&["pull", &reference]).await?;
            let image = case.cri.image(&reference).await?.context("not in the runtime")?;
            ensure!(done == format!("Image is up to date for {}\n", image.id), "{done}");
            digest = image.repo_digests.into_iter().next().context("no digest")?;
        }
        // Every form of a reference reaches the runtime as it is given; the registry shows that it counts.
        publish(case, registry, "ctl:latest", 2000).await?;
        let (_, hash) = digest.split_once('@').context("a digest")?;
        let by_tag = case.cri.image(&reference).await?.context("not in the runtime")?.id;
        for (given, same) in
            [(digest.clone(), true), (format!("{name}:v1@{hash}"), true), (name.to_owned(), false)]
        {
            let done = berthd.ctl(&["pull", &given]).await?;
            let image =
                case.cri.image(&given).await?.with_context(|| format!("{given} is not in the runtime"))?;
            ensure!(done == format!("Image is up to date for {}\n", image.id), "{given}: {done}");
            ensure!((image.id == by_tag) == same, "{given} is {}", image.id);
        }
        let missing = format!("{}/ctl-missing:v1", registry.address());
        for (image, part) in [
            (missing.as_str(), "not found"),
            ("Upper/Case:v1", "give [registry/]repository[:tag][@digest]"),
            ("two words", "give [registry/]repository[:tag][@digest]"),
        ] {
            let refused = berthd.ctl(&["pull", "--retries", "0", image]).await;
            let refused = format!("{:#}", refused.err().with_context(|| format!("{image} was pulled"))?);
            ensure!(refused.contains("exit status: 1") && refused.contains(part), "{refused}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn images_of_a_killed_berthctl_are_not_pulled_on() -> Result<()> {
    run("images_of_a_killed_berthctl", async |case: &Case| {
        let (registry, berthd) = (registry(case).await?, case.node.berthd()?);
        let (gateway, reference) = behind_gateway(case, registry, "killed-ctl:v1", 8 << 20).await?;
        gateway.day(Day::Slow(1 << 18));
        let mut client = tokio::process::Command::new(programs::berth("berthctl")?)
            .arg(format!("--admin-socket={}", berthd.admin_socket().display()))
            .args(["pull", &reference])
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("berthctl")?;
        has_served(&gateway, 1 << 20).await?;
        let pull = pulls_show(case.node, &reference, "Pulling").await?;
        ensure!(pull["wantedBy"] == "admin", "{pull}");
        let table = berthd.ctl(&["pulls"]).await?;
        let line = table.lines().find(|line| line.starts_with(&reference)).with_context(|| table.clone())?;
        ensure!(line.contains("admin") && line.contains("Pulling") && line.contains("MiB"), "{table}");

        let mut told = BufReader::new(client.stderr.take().context("no output")?).lines();
        let tells = async {
            let mut steps = 0;
            while steps < 2 {
                let line = told.next_line().await?.context("berthctl has ended")?;
                steps += usize::from(line.starts_with("Pulling ") && line.contains(" MiB of "));
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, tells).await.context("berthctl does not tell how far it is")??;
        // What is left would take a minute, and whoever gives it up takes less.
        gateway.day(Day::Slow(64 << 10));
        client.start_kill().context("kill berthctl")?;
        client.wait().await.context("berthctl")?;
        await_condition("nobody wants it any more", PATIENCE, async || {
            let pulls = pulls(case.node, &reference).await?;
            ensure!(pulls.is_empty(), "{pulls:?}");
            Ok(())
        })
        .await?;
        is_quiet(&gateway).await?;
        ensure!(gateway.served() < 7 << 20, "it was pulled on: {} bytes", gateway.served());
        ensure!(case.cri.image(&reference).await?.is_none(), "it is there all the same");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn images_beside_the_kubelet() -> Result<()> {
    run_beside("images_beside", async |case: &Case| {
        let (registry, wanted) = (registry(case).await?, Wanted::of(case).await?);
        let done = publish(case, registry, "beside-ctl:v1", 1000).await?;
        let done = case.node.berthd()?.ctl(&["pull", &done]).await?;
        ensure!(done.starts_with("Image is up to date for sha256:"), "{done}");
        let reference = publish(case, registry, "beside:v1", 1000).await?;
        let (name, _) = split(&reference)?;
        wanted.ask(name, json!({ "tags": [{ "tag": "v1" }] })).await?;
        wanted.tag(name, "v1", "is there", |tag| is_phase(tag, ImagePhase::Succeeded)).await?;
        ensure!(case.cri.image(&reference).await?.is_some(), "not in the runtime");
        wanted.ask(name, Value::Null).await
    })
    .await
}
