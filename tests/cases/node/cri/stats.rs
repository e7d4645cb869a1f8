//! Statistics: whose they are is compared, of the numbers only that they are there.

use anyhow::{Context, Result};
use berth_tests::compare::{
    ContainerStats, ContainerStatsFilter, ContainerStatsRequest, ListContainerStatsRequest,
    ListPodSandboxStatsRequest, PodSandboxStatsFilter, PodSandboxStatsRequest,
};

use super::same;
use super::way::{Way, map, sorted};

fn say(way: &Way, stats: &ContainerStats) -> Result<()> {
    let of = stats.attributes.as_ref().context("no attributes")?;
    way.say(format!("  {} {:?} {:?} {:?}", of.id, of.metadata, sorted(&of.labels), sorted(&of.annotations)));
    let cpu = stats.cpu.as_ref().and_then(|cpu| cpu.usage_core_nano_seconds);
    let memory = stats.memory.as_ref().and_then(|memory| memory.working_set_bytes);
    way.say(format!(
        "  cpu {} memory {}",
        cpu.is_some_and(|cpu| cpu.value > 0),
        memory.is_some_and(|memory| memory.value > 0)
    ));
    Ok(())
}

#[tokio::test]
async fn stats_of_a_container() -> Result<()> {
    same("stats_of_a_container", &["ContainerStats: OK", "cpu true memory true"], async |way| {
        let id = way.running("c").await?;
        let answer = way.must(ContainerStatsRequest { container_id: id }).await?;
        say(way, &answer.stats.context("no stats")?)
    })
    .await
}

#[tokio::test]
async fn stats_of_what_does_not_run() -> Result<()> {
    same("stats_of_what_does_not_run", &["CreateContainer: OK", "ContainerStats: "], async |way| {
        let id = way.create(way.home().await?, way.idle("c")).await?;
        way.ask(ContainerStatsRequest { container_id: id }).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn stats_by_filter() -> Result<()> {
    let shows = ["by id: 1", "by sandbox: 2", "by label: 1", "by nothing that is there: 0"];
    same("stats_by_filter", &shows, async |way| {
        let sandbox = way.sandbox(way.pod("pod")?).await?;
        let one = way.started(&sandbox, way.idle("one")).await?;
        let mut other = way.idle("other");
        other.labels.insert("color".to_owned(), "red".to_owned());
        way.started(&sandbox, other).await?;
        let of_sandbox = ContainerStatsFilter { pod_sandbox_id: sandbox.id.clone(), ..Default::default() };
        let table = [
            ("by id", ContainerStatsFilter { id: one, ..Default::default() }),
            ("by sandbox", of_sandbox.clone()),
            (
                "by label",
                ContainerStatsFilter { label_selector: map(&[("color", "red")]), ..of_sandbox.clone() },
            ),
            (
                "by nothing that is there",
                ContainerStatsFilter { label_selector: map(&[("color", "blue")]), ..of_sandbox },
            ),
        ];
        for (name, filter) in table {
            let mut stats = way.must(ListContainerStatsRequest { filter: Some(filter) }).await?.stats;
            way.say(format!("{name}: {}", stats.len()));
            stats.sort_by_key(|stats| {
                stats.attributes.as_ref().and_then(|of| of.metadata.as_ref()).map(|of| of.name.clone())
            });
            stats.iter().try_for_each(|stats| say(way, stats))?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn stats_of_a_sandbox() -> Result<()> {
    let shows = ["PodSandboxStats: OK", "cpu true memory true", "ListPodSandboxStats: OK", "1 sandbox"];
    same("stats_of_a_sandbox", &shows, async |way| {
        let sandbox = way.sandbox(way.pod("pod")?).await?;
        way.started(&sandbox, way.idle("c")).await?;
        let request = PodSandboxStatsRequest { pod_sandbox_id: sandbox.id.clone() };
        let stats = way.must(request).await?.stats.context("no stats")?;
        way.say(format!("  {:?}", stats.attributes));
        let linux = stats.linux.context("no numbers")?;
        linux.containers.iter().try_for_each(|stats| say(way, stats))?;
        let filter = PodSandboxStatsFilter { id: sandbox.id };
        let listed = way.must(ListPodSandboxStatsRequest { filter: Some(filter) }).await?.stats;
        way.say(format!("{} sandbox", listed.len()));
        way.say(format!("  {:?}", listed.first().context("empty")?.attributes));
        Ok(())
    })
    .await
}
