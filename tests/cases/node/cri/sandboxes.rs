//! Pod sandboxes: their life, their network, their names.

use anyhow::{Context, Result};
use berth_proto::cri::*;

use super::same;
use super::way::{Way, sorted};

async fn status(way: &Way, id: &str) -> Result<PodSandboxStatus> {
    let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
    let status = way.must(request).await?.status.context("no status")?;
    let ip = status.network.as_ref().map(|network| network.ip.clone()).unwrap_or_default();
    way.hide(&ip, "address");
    way.say(format!("  {:?} {:?} created {}", status.state(), status.metadata, status.created_at > 0));
    way.say(format!("  at {ip:?} {:?}", status.linux));
    way.say(format!("  {:?} {:?}", sorted(&status.labels), sorted(&status.annotations)));
    Ok(status)
}

#[tokio::test]
async fn sandbox_lives_and_dies() -> Result<()> {
    let shows = [
        "RunPodSandbox: OK",
        "SandboxReady",
        "at \"<address>\"",
        "StopPodSandbox: OK",
        "SandboxNotready",
        "RemovePodSandbox: OK",
        "PodSandboxStatus: NotFound",
    ];
    same("sandbox_lives_and_dies", &shows, async |way| {
        let id = way.sandbox(way.pod("pod")?).await?.id;
        status(way, &id).await?;
        way.must(StopPodSandboxRequest { pod_sandbox_id: id.clone() }).await?;
        status(way, &id).await?;
        way.must(RemovePodSandboxRequest { pod_sandbox_id: id.clone() }).await?;
        way.refused(PodSandboxStatusRequest { pod_sandbox_id: id, verbose: false }).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn sandbox_takes_its_containers_with_it() -> Result<()> {
    let shows = ["StopPodSandbox: OK", "ContainerExited", "exit 137", "ContainerStatus: NotFound"];
    same("sandbox_takes_its_containers_with_it", &shows, async |way| {
        let sandbox = way.sandbox(way.pod("pod")?).await?;
        let id = way.started(&sandbox, way.idle("c")).await?;
        way.must(StopPodSandboxRequest { pod_sandbox_id: sandbox.id.clone() }).await?;
        way.status(&id).await?;
        way.must(RemovePodSandboxRequest { pod_sandbox_id: sandbox.id.clone() }).await?;
        way.refused(ContainerStatusRequest { container_id: id, verbose: false }).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn stopped_twice_and_removed_twice() -> Result<()> {
    let shows = ["StopPodSandbox: OK", "StopPodSandbox: OK", "RemovePodSandbox: OK", "RemovePodSandbox: OK"];
    same("stopped_twice_and_removed_twice", &shows, async |way| {
        let pod_sandbox_id = way.sandbox(way.pod("pod")?).await?.id;
        for _ in 0..2 {
            way.must(StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() }).await?;
        }
        for _ in 0..2 {
            way.must(RemovePodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() }).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn removed_while_it_runs() -> Result<()> {
    same("removed_while_it_runs", &["RunPodSandbox: OK", "RemovePodSandbox: "], async |way| {
        let pod_sandbox_id = way.sandbox(way.pod("pod")?).await?.id;
        let _ = way.ask(RemovePodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() }).await?;
        let status = PodSandboxStatusRequest { pod_sandbox_id, verbose: false };
        way.ask(status).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn pod_that_is_there_already() -> Result<()> {
    let shows = ["RunPodSandbox: OK", "is reserved for", "RunPodSandbox: OK"];
    same("pod_that_is_there_already", &shows, async |way| {
        let mut config = way.pod("pod")?;
        way.sandbox(config.clone()).await?;
        let again = RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
        way.refused(again).await?;
        // Another attempt is another sandbox.
        config.metadata.get_or_insert_default().attempt = 1;
        let id = way.sandbox(config).await?.id;
        status(way, &id).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn runtime_handler_that_is_not_there() -> Result<()> {
    same("runtime_handler_that_is_not_there", &["RunPodSandbox: Unknown", "none-such"], async |way| {
        let request =
            RunPodSandboxRequest { config: Some(way.pod("pod")?), runtime_handler: "none-such".to_owned() };
        way.refused(request).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn host_name_and_name_servers() -> Result<()> {
    let shows = ["\"the-host-name\\n\"", "nameserver 192.0.2.53", "search berth.test", "options ndots:3"];
    same("host_name_and_name_servers", &shows, async |way| {
        let mut config = way.pod("pod")?;
        config.hostname = "the-host-name".to_owned();
        config.dns_config = Some(DnsConfig {
            servers: vec!["192.0.2.53".to_owned()],
            searches: vec!["berth.test".to_owned()],
            options: vec!["ndots:3".to_owned()],
        });
        let sandbox = way.sandbox(config).await?;
        let id = way.started(&sandbox, way.idle("c")).await?;
        way.exec(&id, "hostname").await?;
        let answer = way.exec(&id, "cat /etc/resolv.conf").await?;
        let mut lines: Vec<_> = std::str::from_utf8(&answer.stdout)?.lines().collect();
        lines.sort_by_key(|line| {
            ["nameserver", "search", "options"].iter().position(|key| line.starts_with(key))
        });
        lines.iter().for_each(|line| way.say(*line));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn network_is_the_pods_or_the_nodes() -> Result<()> {
    let shows = ["pod: another", "node: the same"];
    same("network_is_the_pods_or_the_nodes", &shows, async |way| {
        let own = std::fs::read_link("/proc/self/ns/net")?.display().to_string();
        for (name, network) in [("pod", NamespaceMode::Pod), ("node", NamespaceMode::Node)] {
            let options = NamespaceOption { network: network.into(), ..Default::default() };
            let mut config = way.pod(name)?;
            let context = LinuxSandboxSecurityContext {
                namespace_options: Some(options.clone()),
                ..Default::default()
            };
            config.linux.get_or_insert_default().security_context = Some(context);
            let sandbox = way.sandbox(config).await?;
            let mut container = way.idle(name);
            container.linux.get_or_insert_default().security_context = Some(LinuxContainerSecurityContext {
                namespace_options: Some(options),
                ..Default::default()
            });
            let id = way.started(&sandbox, container).await?;
            let answer = way.quietly(super::way::exec_request(&id, "readlink /proc/self/ns/net")).await??;
            let seen = String::from_utf8(answer.stdout)?;
            way.say(format!("{name}: {}", if seen.trim_end() == own { "the same" } else { "another" }));
            way.must(StopPodSandboxRequest { pod_sandbox_id: sandbox.id }).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn container_in_a_stopped_sandbox() -> Result<()> {
    let shows = ["StopPodSandbox: OK", "CreateContainer: "];
    same("container_in_a_stopped_sandbox", &shows, async |way| {
        let sandbox = way.sandbox(way.pod("pod")?).await?;
        way.must(StopPodSandboxRequest { pod_sandbox_id: sandbox.id.clone() }).await?;
        let created = way.ask(way.create_request(&sandbox, way.idle("c"))).await?;
        if let Ok(created) = created {
            way.hide(&created.container_id, "container");
            way.refused(StartContainerRequest { container_id: created.container_id }).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn verbose_sandbox_status() -> Result<()> {
    same("verbose_sandbox_status", &["PodSandboxStatus: OK", "info: [\"info\"]"], async |way| {
        let id = way.home().await?.id.clone();
        let answer = way.must(PodSandboxStatusRequest { pod_sandbox_id: id, verbose: true }).await?;
        let mut keys: Vec<_> = answer.info.keys().collect();
        keys.sort();
        way.say(format!("info: {keys:?}"));
        Ok(())
    })
    .await
}
