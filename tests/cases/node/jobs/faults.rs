//! berthd dies at each step of a sidecar's end, and kubelet and berthd are restarted after it. The Job is
//! right all the same.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_proto::cri::ContainerState;
use berth_tests::jobs::{exits, ignores_term};
use berth_tests::manifest::Container;
use berth_tests::recreate::Evidence;
use berth_tests::wait::await_condition;
use berthd::agent::fault::{Point, Way};
use kube::ResourceExt;
use serde_json::json;

use super::{LISTENS, Outcome, Scene};
use crate::case::{Case, PATIENCE, container, run_updating_alone};

/// A kubelet that lost a call comes back after 10 to 15 s; twice that, and the machine has other work.
const LONG: Duration = Duration::from_secs(180);

/// A Job whose sidecar's end berthd does not live to see, several times over.
struct Round {
    job: &'static str,
    policy: &'static str,
    /// Where it dies, one time after the other. Without any it dies while the hook runs.
    points: Vec<Point>,
    /// How often the sidecar's hook begins; `None`: it has none, and does not listen.
    hooks: Option<usize>,
}

fn rounds() -> Vec<Round> {
    let all = Point::on(Way::JobSidecar).collect();
    vec![
        Round { job: "ending", policy: "Never", points: vec![Point::Ending], hooks: Some(1) },
        Round { job: "ended", policy: "OnFailure", points: vec![Point::Ended], hooks: Some(1) },
        Round { job: "stopped", policy: "Never", points: vec![Point::DirectlyStopped], hooks: Some(1) },
        Round {
            job: "stopped-too",
            policy: "OnFailure",
            points: vec![Point::DirectlyStopped],
            hooks: Some(1),
        },
        // The second time the mark says that the hook may have begun, which cannot be known: it is not begun
        // again.
        Round {
            job: "before-hook",
            policy: "Never",
            points: vec![Point::Ended, Point::Ended],
            hooks: Some(0),
        },
        Round { job: "in-hook", policy: "OnFailure", points: vec![], hooks: Some(1) },
        Round { job: "all", policy: "OnFailure", points: all, hooks: None },
    ]
}

impl Round {
    fn sidecar(&self, evidence: &Evidence) -> Container {
        if self.hooks.is_none() {
            return ignores_term("proxy", "");
        }
        let hook = "echo hook >> /evidence/proxy; sleep 1";
        let hook = json!({ "preStop": { "exec": { "command": ["/bin/sh", "-c", hook] } } });
        evidence.mounted(exits("proxy", "echo term >> /evidence/proxy;", 143)).field("lifecycle", hook)
    }

    /// The job ends, and berthd does, and is started again each time.
    async fn play(&self, scene: &Scene<'_>) -> Result<()> {
        let berthd = scene.case.node.berthd()?;
        let (_, evidence) = scene.pod(self.job, self.policy)?;
        let mut points = self.points.iter();
        if let Some(first) = points.next() {
            berthd.die_at(first.name())?;
        }
        evidence.put("go")?;
        if self.points.is_empty() {
            await_condition("the hook runs", PATIENCE, async || {
                ensure!(evidence.count("proxy", "hook")? == 1, "no hook yet");
                Ok(())
            })
            .await?;
            return berthd.crash().await;
        }
        for point in &self.points {
            await_condition(format!("berthd dies at {}", point.name()), PATIENCE, async || {
                ensure!(berthd.service().has_ended()?, "it lives");
                Ok(())
            })
            .await?;
            if let Some(next) = points.next() {
                berthd.die_at(next.name())?;
            }
            berthd.service().start()?;
        }
        berthd.serving().await
    }
}

#[tokio::test]
async fn job_berthd_killed_at_every_step() -> Result<()> {
    run_updating_alone("job_berthd_killed_at_every_step", async |case: &Case| {
        let (scene, rounds) = (Scene::begin(case).await?, rounds());
        for round in &rounds {
            let (pod, evidence) = scene.pod(round.job, round.policy)?;
            let main = Container::new("main").only("until test -f /evidence/go; do sleep 0.1; done");
            let pod = pod.container(evidence.mounted(main)).container(round.sidecar(&evidence));
            let pod = if round.hooks.is_some() { pod.grace(LISTENS) } else { pod };
            scene.jobs.create(&pod, 0).await?;
        }
        for round in &rounds {
            scene.runs(round.job).await?;
        }
        for round in &rounds {
            let played = async {
                round.play(&scene).await?;
                scene.down(round.job).await
            };
            played.await.with_context(|| format!("Job {}", round.job))?;
        }
        for Round { job, hooks, .. } in &rounds {
            scene.judge(&Outcome { job, succeeds: true, codes: CODES, restarted: &[] }).await?;
            let (_, evidence) = scene.pod(job, "Never")?;
            if let Some(hooks) = hooks {
                let words = evidence.words("proxy")?;
                let expected: Vec<_> = std::iter::repeat_n("hook", *hooks).chain(["term"]).collect();
                ensure!(words == expected, "Job {job}: {words:?}");
            }
        }
        // What the kubelet was told stays true, whoever starts anew.
        for anew in ["the kubelet", "berthd and the kubelet"] {
            if anew != "the kubelet" {
                case.node.berthd()?.crash().await?;
                case.node.berthd()?.ready().await?;
            }
            let before = restated(case).await?;
            case.node.kubelet()?.restart().await?;
            scene.asked_again(before + rounds.len()).await?;
            for Round { job, .. } in &rounds {
                scene
                    .judge(&Outcome { job, succeeds: true, codes: CODES, restarted: &[] })
                    .await
                    .context(anew)?;
            }
        }
        Ok(())
    })
    .await
}

const CODES: &[(&str, i32)] = &[("main", 0), ("proxy", 0)];

impl Scene<'_> {
    async fn runs(&self, job: &str) -> Result<()> {
        await_condition(format!("Job {job} runs"), PATIENCE, async || {
            let seen = self.jobs.pod_of(job)?;
            let running = |name| -> Result<bool> {
                let state = container(&seen.last, name)?.state.as_ref();
                Ok(state.is_some_and(|state| state.running.is_some()))
            };
            ensure!(running("main")? && running("proxy")?, "{:?}", seen.last.status);
            Ok(())
        })
        .await
    }

    /// All of the pod's containers have ended, as the runtime says.
    async fn down(&self, job: &str) -> Result<()> {
        let pod = self.jobs.pod_of(job)?.last.name_any();
        await_condition(format!("the containers of Job {job} are down"), LONG, async || {
            let states = self.case.cri.states(&self.case.namespace, &pod).await?;
            ensure!(states.iter().all(|(_, state)| *state == ContainerState::ContainerExited), "{states:?}");
            Ok(())
        })
        .await
    }

    /// The kubelet has asked so often about containers of which it is not told the truth, and has then had a
    /// turn.
    async fn asked_again(&self, times: usize) -> Result<()> {
        await_condition("the kubelet has asked again", LONG, async || {
            let asked = restated(self.case).await?;
            ensure!(asked >= times, "{asked} answers of {times}");
            Ok(())
        })
        .await?;
        let name = format!("witness-{times}");
        self.case.create(&self.case.manifest(&name).container(Container::new("a"))).await?;
        self.case.await_ready(&name).await?;
        Ok(())
    }
}

/// How many answers were not the runtime's own words.
async fn restated(case: &Case) -> Result<usize> {
    let metrics = case.node.berthd()?.metrics().await?;
    let line = metrics.lines().find_map(|line| line.strip_prefix("berth_shim_restated_total "));
    Ok(line.context("no metric")?.parse()?)
}
