//! A budget under attack: evictions, deletions and updates of ten pods, all at once, by several clients and
//! through two replicas of the manager. What the API server stored is the witness, in its own order.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use berth_proto::crd::PodUnavailableBudget;
use berth_tests::wait::await_condition;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, EvictParams, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use serde_json::json;
use tokio::task::JoinSet;

use super::super::scene::Scene;
use super::crowd::{Crowd, serves};
use super::story::Story;
use super::{budgets, code, counted, limit};
use crate::case::PATIENCE;

const SPACE: &str = "admission-budgets-attack";
/// Rounds of fifty that are run, unless `BERTH_BUDGET_ROUNDS` says another number.
const ROUNDS: usize = 4;
const AT_ONCE: usize = 50;
const CLIENTS: usize = 5;

#[tokio::test]
async fn never_more_go_than_two_of_ten() -> Result<()> {
    let rounds =
        std::env::var("BERTH_BUDGET_ROUNDS").ok().map(|text| text.parse()).transpose()?.unwrap_or(ROUNDS);
    let scene = Scene::set(SPACE).await?;
    let second = scene.second().await?;
    let crowd = Crowd::make(&scene, SPACE, 10).await?;
    limit(&scene, SPACE, json!(2)).await?;
    counted(&scene, SPACE, 10, 2).await?;

    let witness = Arc::new(Witness::default());
    let mut tasks = JoinSet::new();
    let watching = tasks.spawn(watch(scene.pods.clone(), budgets(&scene, SPACE), witness.clone()));
    let mut life = tokio::spawn(crowd.by(scene.plane.api().client_of_one_try().await?, SPACE).live());
    await_condition("the witness sees all of them", PATIENCE, async || {
        ensure!(witness.seen.load(Ordering::SeqCst) >= 10, "not yet");
        Ok(())
    })
    .await?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Api::<Pod>::namespaced(scene.plane.api().client_of_one_try().await?, SPACE));
    }
    let mut answers: BTreeMap<u16, usize> = BTreeMap::new();
    for round in 0..rounds {
        // The leader is killed in the middle, and comes back.
        if round == rounds / 2 {
            println!("{}: the leader is killed", jiff::Timestamp::now());
            scene.first.service().kill()?;
        }
        let mut asking = JoinSet::new();
        for at in 0..AT_ONCE {
            let pods = clients[at % CLIENTS].clone();
            asking.spawn(async move { ask(&pods, round, at).await });
        }
        while let Some(answer) = asking.join_next().await {
            *answers.entry(answer??).or_default() += 1;
        }
        if round == rounds / 2 {
            scene.first.service().start()?;
            scene.first.ready().await?;
        }
        ensure!(!life.is_finished(), "the pods live no more: {:?}", (&mut life).await);
    }
    counted(&scene, SPACE, 10, 2).await.context("permits are out still")?;
    let status = budgets(&scene, SPACE).get_status("web").await?.status.context("no status")?;
    ensure!(status.disrupted_pods.is_empty() && status.unavailable_pods.is_empty(), "{status:?}");
    life.abort();
    ensure!(!watching.is_finished(), "the witness saw no more: {:?}", tasks.join_next().await);
    let (most, seen) = (witness.most.load(Ordering::SeqCst), witness.seen.load(Ordering::SeqCst));
    println!(
        "{rounds} rounds of {AT_ONCE}: answers {answers:?}, {seen} events, at most {most} of 10 unavailable"
    );
    if let Some(story) = witness.story().told() {
        println!("{story}");
    }
    ensure!(most <= 2, "{most} of 10 pods were unavailable at once");
    ensure!(most == 2, "the budget was never spent: nothing was shown");
    // A replica that is killed leaves those unanswered who asked it.
    let known = [200, 201, 404, 409, 429, 500];
    ensure!(answers.keys().all(|code| known.contains(code)), "{answers:?}");
    ensure!(answers.get(&429).is_some_and(|count| *count > 0), "{answers:?}");
    drop(second);
    Ok(())
}

/// One of them asks for something.
async fn ask(pods: &Api<Pod>, round: usize, at: usize) -> Result<u16> {
    let name = format!("web-{}", (at * 7 + round) % 10);
    match at % 3 {
        0 => code(&pods.evict(&name, &EvictParams::default()).await),
        1 => code(&pods.delete(&name, &DeleteParams::default()).await),
        _ => {
            let image = format!("registry.example/app:{}", round * AT_ONCE + at + 2);
            let patch = json!({ "spec": { "containers": [{ "name": "app", "image": image }] } });
            code(&pods.patch(&name, &PatchParams::default(), &Patch::Strategic(&patch)).await)
        }
    }
}

/// Record of the pods, as they were seen.
#[derive(Default)]
struct Witness {
    /// Events.
    seen: AtomicUsize,
    /// The most pods that were unavailable at once.
    most: AtomicUsize,
    story: Mutex<Story>,
}

impl Witness {
    /// Never held across an await; a panic elsewhere leaves it as it is.
    fn story(&self) -> MutexGuard<'_, Story> {
        self.story.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Version of something.
enum Seen {
    Pod(Box<Event<Pod>>),
    Budget(Box<Event<PodUnavailableBudget>>),
}

/// Watches every version of every pod, and of the budget.
async fn watch(pods: Api<Pod>, budgets: Api<PodUnavailableBudget>, witness: Arc<Witness>) -> Result<()> {
    let config = watcher::Config::default();
    let pods = watcher::watcher(pods, config.clone()).map_ok(|event| Seen::Pod(Box::new(event)));
    let budgets = watcher::watcher(budgets, config).map_ok(|event| Seen::Budget(Box::new(event)));
    let mut events = pin!(stream::select(pods, budgets));
    let mut serving: BTreeMap<String, bool> = BTreeMap::new();
    let mut whole = false;
    while let Some(event) = events.next().await {
        let event = match event? {
            Seen::Pod(event) => *event,
            Seen::Budget(event) => {
                if let Event::Apply(budget) = *event {
                    witness.story().budget(&budget);
                }
                continue;
            }
        };
        match event {
            Event::Init => {
                // A list shows no versions in between.
                ensure!(!whole, "the watch broke: nothing can be said of what it missed");
                serving.clear();
            }
            Event::InitApply(pod) | Event::Apply(pod) => {
                witness.story().pod(&pod, false);
                serving.insert(pod.name_any(), serves(&pod));
                witness.seen.fetch_add(1, Ordering::SeqCst);
            }
            Event::Delete(pod) => {
                witness.story().pod(&pod, true);
                serving.remove(&pod.name_any());
            }
            Event::InitDone => whole = true,
        }
        if whole {
            let unavailable = 10_usize.saturating_sub(serving.values().filter(|serves| **serves).count());
            let before = witness.most.fetch_max(unavailable, Ordering::SeqCst);
            if unavailable > before && unavailable > 2 {
                let away: Vec<_> = (0..10)
                    .map(|at| format!("web-{at}"))
                    .filter(|name| serving.get(name) != Some(&true))
                    .collect();
                let text = format!("{}: {unavailable} are away: {away:?}", jiff::Timestamp::now());
                println!("{text}");
                witness.story().fault(&text);
            }
        }
    }
    bail!("the watch ended")
}
