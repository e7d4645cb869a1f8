//! More than one main container, more than one sidecar, and everything else a pod may have that touches their
//! end.

use anyhow::{Context, Result, ensure};
use berth_tests::jobs::{exits, sidecar};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::observe::{Instance, Seen};
use berth_tests::recreate::Evidence;
use kube::ResourceExt;
use serde_json::json;

use super::{LISTENS, Outcome, Scene};
use crate::case::{Case, run_updating};

/// Function that fills a pod.
type Fill = fn(PodManifest, &Evidence) -> PodManifest;

/// One of the Jobs that run at the same time.
struct Row {
    job: &'static str,
    policy: &'static str,
    fill: Fill,
    succeeds: bool,
    codes: &'static [(&'static str, i32)],
    /// Containers that are ended by us.
    ended: &'static [&'static str],
}

const TABLE: [Row; 9] = [
    Row {
        job: "two-mains",
        policy: "OnFailure",
        fill: two_mains,
        succeeds: true,
        codes: &[("early", 0), ("late", 0), ("proxy", 0)],
        ended: &["proxy"],
    },
    Row {
        job: "one-main-fails",
        policy: "Never",
        fill: one_main_fails,
        succeeds: false,
        codes: &[("early", 3), ("late", 0), ("proxy", 0)],
        ended: &["proxy"],
    },
    Row {
        job: "together",
        policy: "Never",
        fill: together,
        succeeds: true,
        codes: &[("main", 0), ("first", 0), ("second", 0)],
        ended: &["first", "second"],
    },
    Row {
        job: "in-order",
        policy: "OnFailure",
        fill: in_order,
        succeeds: true,
        codes: &[("main", 0), ("first", 0), ("second", 0)],
        ended: &["first", "second"],
    },
    Row {
        job: "gives-up-never",
        policy: "Never",
        fill: gives_up,
        succeeds: true,
        codes: &[("main", 0), ("first", 0), ("second", 0)],
        ended: &["first", "second"],
    },
    Row {
        job: "gives-up-on-failure",
        policy: "OnFailure",
        fill: gives_up,
        succeeds: true,
        codes: &[("main", 0), ("first", 0), ("second", 0)],
        ended: &["first", "second"],
    },
    Row {
        job: "by-itself",
        policy: "Never",
        fill: by_itself,
        succeeds: false,
        codes: &[("main", 0), ("gone", 5), ("proxy", 0)],
        ended: &["proxy"],
    },
    Row {
        job: "native",
        policy: "Never",
        fill: native,
        succeeds: true,
        codes: &[("main", 0), ("proxy", 0)],
        ended: &["proxy"],
    },
    Row {
        job: "over-at-once",
        policy: "Never",
        fill: over_at_once,
        succeeds: true,
        codes: &[("main", 0), ("proxy", 0)],
        ended: &["proxy"],
    },
];

fn main(script: &str) -> Container {
    Container::new("main").only(script)
}

/// Notes when it is told to end, takes so many seconds, and fails.
fn slow(evidence: &Evidence, name: &str, seconds: u32) -> Container {
    evidence.mounted(exits(name, &format!("touch /evidence/{name}; sleep {seconds};"), 143))
}

/// Notes that it has ended, so that the other one can end later for sure.
fn early(evidence: &Evidence, code: i32) -> Container {
    evidence.mounted(Container::new("early").only(&format!("sleep 1; touch /evidence/early; exit {code}")))
}

fn late(evidence: &Evidence) -> Container {
    let script = "until test -f /evidence/early; do sleep 0.1; done; sleep 3; touch /evidence/late";
    evidence.mounted(Container::new("late").only(script))
}

fn two_mains(pod: PodManifest, evidence: &Evidence) -> PodManifest {
    pod.container(early(evidence, 0)).container(slow(evidence, "proxy", 1)).container(late(evidence))
}

fn one_main_fails(pod: PodManifest, evidence: &Evidence) -> PodManifest {
    pod.container(early(evidence, 3)).container(slow(evidence, "proxy", 1)).container(late(evidence))
}

fn together(pod: PodManifest, evidence: &Evidence) -> PodManifest {
    // Accepted, and the normal case here.
    let second = slow(evidence, "second", 5).env("KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE", "true");
    pod.container(slow(evidence, "first", 5)).container(second).container(main("sleep 2")).grace(LISTENS)
}

/// The higher one is started first, and ends last.
fn in_order(pod: PodManifest, evidence: &Evidence) -> PodManifest {
    pod.container(slow(evidence, "second", 1).priority(5))
        .container(slow(evidence, "first", 1).priority(3))
        .container(main("sleep 2"))
        .grace(LISTENS)
}

/// The one that is to be stopped last fails as soon as the other one is being stopped.
fn gives_up(pod: PodManifest, evidence: &Evidence) -> PodManifest {
    let second = Container::new("second").only("until test -f /evidence/first; do sleep 0.1; done; exit 1");
    let first = exits("first", "touch /evidence/first; sleep 3;", 143);
    pod.container(evidence.mounted(sidecar(second)).priority(5))
        .container(evidence.mounted(first).priority(3))
        .container(main("sleep 2"))
        .grace(LISTENS)
}

fn by_itself(pod: PodManifest, evidence: &Evidence) -> PodManifest {
    let gone = sidecar(Container::new("gone").only("sleep 1; touch /evidence/gone; exit 5"));
    let main = main("until test -f /evidence/gone; do sleep 0.1; done; sleep 3");
    pod.container(evidence.mounted(gone)).container(exits("proxy", "", 143)).container(evidence.mounted(main))
}

/// It has the env too, and is the kubelet's all the same.
fn native(pod: PodManifest, _: &Evidence) -> PodManifest {
    pod.init_container(exits("native", "", 143).field("restartPolicy", "Always"))
        .container(exits("proxy", "", 143))
        .container(main("sleep 2"))
        .grace(LISTENS)
}

/// Before its sidecar was even made.
fn over_at_once(pod: PodManifest, _: &Evidence) -> PodManifest {
    pod.container(main("exit 0")).container(exits("proxy", "", 143))
}

#[tokio::test]
async fn job_with_several_containers() -> Result<()> {
    run_updating("job_with_several_containers", async |case: &Case| {
        let scene = Scene::begin(case).await?;
        for row in &TABLE {
            let (pod, evidence) = scene.pod(row.job, row.policy)?;
            scene.jobs.create(&(row.fill)(pod, &evidence), 0).await?;
        }
        for Row { job, succeeds, codes, ended, .. } in TABLE {
            let seen = scene.judge(&Outcome { job, succeeds, codes, restarted: &[] }).await?;
            let judged = async {
                scene.told(&seen, ended).await?;
                let (_, evidence) = scene.pod(job, "Never")?;
                let ends = Ends { instances: instances(case, &seen).await?, evidence };
                match job {
                    "two-mains" | "one-main-fails" => ends.after("late", "proxy"),
                    "together" => {
                        // Neither waited for the other.
                        ends.before("first", "second")?;
                        ends.before("second", "first")
                    }
                    "in-order" => ends.after("first", "second"),
                    "native" => native_is_itself(&seen),
                    _ => Ok(()),
                }
            };
            judged.await.with_context(|| format!("Job {job}"))?;
        }
        Ok(())
    })
    .await
}

async fn instances(case: &Case, seen: &Seen) -> Result<Vec<Instance>> {
    case.cri.containers(&case.namespace, &seen.last.name_any()).await
}

/// When containers were told to end, which they wrote down themselves, and when they had.
struct Ends {
    instances: Vec<Instance>,
    evidence: Evidence,
}

impl Ends {
    /// `second` was told after `first` had ended.
    fn after(&self, first: &str, second: &str) -> Result<()> {
        let (ended, told) = (self.ended(first)?, self.evidence.written_at(second)?);
        ensure!(ended <= told, "{first} ended at {ended}, {second} was told at {told}");
        Ok(())
    }

    /// `second` was told before `first` had ended.
    fn before(&self, first: &str, second: &str) -> Result<()> {
        let (ended, told) = (self.ended(first)?, self.evidence.written_at(second)?);
        ensure!(told < ended, "{first} ended at {ended}, {second} was told at {told}");
        Ok(())
    }

    fn ended(&self, name: &str) -> Result<i64> {
        let instance = self.instances.iter().find(|instance| instance.name == name);
        Ok(instance.with_context(|| format!("no instance of {name}"))?.finished_at)
    }
}

/// The kubelet ended it, and shows how it did.
fn native_is_itself(seen: &Seen) -> Result<()> {
    let status = seen.last.status.as_ref().context("no status")?;
    let native = status.init_container_statuses.iter().flatten().next().context("no native sidecar")?;
    let ended = native.state.as_ref().and_then(|state| state.terminated.as_ref());
    ensure!(ended.is_some_and(|ended| ended.exit_code == 143), "{native:?}");
    ensure!(native.restart_count == 0, "it was restarted");
    Ok(())
}

/// Everything a sidecar may want to do before it ends, it does, once.
#[tokio::test]
async fn job_sidecar_has_its_hook() -> Result<()> {
    run_updating("job_sidecar_has_its_hook", async |case: &Case| {
        let scene = Scene::begin(case).await?;
        for policy in ["Never", "OnFailure"] {
            let (pod, evidence) = scene.pod(&policy.to_lowercase(), policy)?;
            let last = "echo term >> /evidence/proxy;";
            let hook = "echo hook >> /evidence/proxy; sleep 2; echo over >> /evidence/proxy";
            let hook = json!({ "preStop": { "exec": { "command": ["/bin/sh", "-c", hook] } } });
            let proxy = evidence.mounted(exits("proxy", last, 143)).field("lifecycle", hook);
            scene.jobs.create(&pod.grace(LISTENS).container(proxy).container(main("sleep 2")), 0).await?;
        }
        for job in ["never", "onfailure"] {
            let codes: &[_] = &[("main", 0), ("proxy", 0)];
            scene.judge(&Outcome { job, succeeds: true, codes, restarted: &[] }).await?;
            let (_, evidence) = scene.pod(job, "Never")?;
            let words = evidence.words("proxy")?;
            ensure!(words == ["hook", "over", "term"], "{words:?}");
        }
        Ok(())
    })
    .await
}
