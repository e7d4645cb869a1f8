//! Pods that come and go on a real node, and what goes wrong meanwhile: what the benches that put load on it
//! have in common.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_tests::manifest::{Container, PodManifest};
use berth_tests::node::{Builder, Node, Registry, images};
use berth_tests::observe::{PodWatch, Seen, is_complaint, node_ready, warnings};
use berth_tests::wait::await_condition;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use tokio::time::sleep;

pub(crate) const NAMESPACE: &str = "default";
/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(1200);
/// Size of the pulled image: small, because nobody wants to measure the registry.
const PULLED: usize = 2 << 20;
/// A busy machine must not be taken for a container that does not end.
const GRACE: i64 = 120;

/// A node, and images that nobody has.
pub(crate) struct Bed {
    pub(crate) node: Node,
    pub(crate) client: Client,
    pub(crate) pods: Api<Pod>,
    registry: Registry,
    /// Image of the first container of each pod; asked for at each start.
    always: String,
    /// Nobody runs it: a client may pull and remove it.
    pub(crate) loose: String,
}

/// Shape of the pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// At once.
    pub(crate) pods: usize,
    /// Number of containers of a pod, in turn.
    pub(crate) containers: &'static [usize],
    /// Whether their first containers have exec probes.
    pub(crate) probes: bool,
}

/// Pods that come and go.
pub(crate) struct Churn<'a> {
    bed: &'a Bed,
    label: String,
    shape: Shape,
    /// Names of the pods that are there, the oldest first.
    pub(crate) names: VecDeque<String>,
    made: usize,
    began: Instant,
    watch: PodWatch,
    complained: Harm,
    ready_since: String,
}

/// Record of everything that went wrong.
#[derive(Clone, Debug, Default)]
pub(crate) struct Harm {
    /// Complaints of the kubelet.
    pub(crate) complaints: i32,
    pub(crate) restarts: i32,
    pub(crate) failed_pods: usize,
    /// Whether the node has not been Ready all the time.
    pub(crate) not_ready: bool,
    /// All pods there were.
    pub(crate) pods: usize,
    /// From the first step to the moment when the last pods were Ready.
    pub(crate) took: Duration,
}

impl Bed {
    pub(crate) async fn up(builder: Builder) -> Result<Self> {
        let node = builder.start().await?;
        let registry = Registry::start(node.run()).await?;
        let mut references = Vec::new();
        for name in ["always:1", "loose:1"] {
            let archive = images::sized(node.run(), name, PULLED).await?;
            references.push(registry.push(&archive, name).await?);
        }
        let (loose, always) = (references.remove(1), references.remove(0));
        let client = node.client().await?;
        Ok(Self { pods: Api::namespaced(client.clone(), NAMESPACE), client, node, registry, always, loose })
    }

    pub(crate) fn down(self) -> Result<()> {
        drop(self.registry);
        self.node.down()
    }

    /// Since when the node is Ready.
    async fn ready_since(&self) -> Result<String> {
        let ready = await_condition("the node is Ready", PATIENCE, || node_ready(&self.client)).await?;
        Ok(format!("{:?}", ready.last_transition_time))
    }
}

impl<'a> Churn<'a> {
    /// Brings up the pods, and looks at the node from then on.
    pub(crate) async fn begin(bed: &'a Bed, label: &str, shape: Shape) -> Result<Self> {
        let watch = PodWatch::start(bed.pods.clone()).await?;
        let mut churn = Self {
            bed,
            label: label.to_owned(),
            shape,
            names: VecDeque::new(),
            made: 0,
            began: Instant::now(),
            watch,
            complained: Harm::default(),
            ready_since: String::new(),
        };
        for _ in 0..shape.pods {
            churn.make().await?;
        }
        churn.await_ready().await?;
        churn.complained = churn.harm().await?;
        churn.ready_since = bed.ready_since().await?;
        churn.began = Instant::now();
        Ok(churn)
    }

    /// Deletes the oldest pods and makes as many.
    pub(crate) async fn step(&mut self, pods: usize) -> Result<()> {
        for _ in 0..pods {
            if let Some(name) = self.names.pop_front() {
                self.bed.pods.delete(&name, &DeleteParams::default()).await.context("delete a pod")?;
            }
            self.make().await?;
        }
        Ok(())
    }

    /// Ordered containers of which the highest may have an exec probe and is pulled; all end at once when
    /// they are told to.
    async fn make(&mut self) -> Result<()> {
        let name = format!("{}-{}", self.label, self.made);
        let mut pod = PodManifest::new(NAMESPACE, &name).label("app", &self.label).grace(GRACE);
        // There is no other DNS here, which the kubelet would otherwise say at each look at the pod.
        pod = pod.spec("dnsPolicy", "Default");
        let containers = self.shape.containers[self.made % self.shape.containers.len()];
        for number in 0..containers {
            let first = number == 0;
            // All but the highest wait for it, and start together.
            let mut container = Container::new(&format!("c{number}")).priority(first.into());
            if first {
                container = container.image(&self.bed.always).field("imagePullPolicy", "Always");
            }
            if first && self.shape.probes {
                container = container.ready_when("true");
            }
            pod = pod.container(container);
        }
        self.bed.pods.create(&PostParams::default(), &pod.pod()?).await.context("create a pod")?;
        self.made += 1;
        self.names.push_back(name);
        Ok(())
    }

    /// Waits until all pods that are meant to be there are Ready.
    pub(crate) async fn await_ready(&self) -> Result<()> {
        await_condition("all pods are Ready", PATIENCE, async || {
            // The machine is busy enough.
            sleep(Duration::from_secs(1)).await;
            let unready = self.unready().await?;
            ensure!(unready == 0, "{unready} of {} are not", self.names.len());
            Ok(())
        })
        .await
    }

    /// How many of the pods that are meant to be there are not Ready.
    pub(crate) async fn unready(&self) -> Result<usize> {
        let label = ListParams::default().labels(&format!("app={}", self.label));
        let pods = self.bed.pods.list(&label).await?.items;
        let ready = |pod: &&Pod| {
            let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            self.names.contains(&pod.name_any())
                && conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
        };
        Ok(self.names.len() - pods.iter().filter(ready).count())
    }

    /// Waits until all are Ready, counts what went wrong, and removes them.
    pub(crate) async fn end(self) -> Result<Harm> {
        self.await_ready().await?;
        let took = self.began.elapsed();
        let not_ready = self.bed.ready_since().await? != self.ready_since;
        let all = ListParams::default().labels(&format!("app={}", self.label));
        self.bed.pods.delete_collection(&DeleteParams::default(), &all).await?;
        await_condition("the pods are gone", PATIENCE, async || {
            sleep(Duration::from_secs(1)).await;
            let left = self.bed.pods.list(&all).await?.items.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await?;
        let harm = self.harm().await?;
        self.tell().await?;
        let complaints = harm.complaints - self.complained.complaints;
        Ok(Harm { complaints, not_ready, took, ..harm })
    }

    /// Returns the harm so far.
    async fn harm(&self) -> Result<Harm> {
        let warnings = warnings(&self.bed.client, NAMESPACE).await?;
        let pods = self.watch.labelled("app", &self.label);
        Ok(Harm {
            complaints: warnings
                .iter()
                .filter(|((reason, pod), _)| is_complaint(reason) && self.is_ours(pod))
                .map(|(_, warned)| warned.times)
                .sum(),
            restarts: pods.iter().flat_map(|pod| pod.restarts.values()).sum(),
            failed_pods: pods.iter().filter(|pod| has_failed(pod)).count(),
            pods: self.made,
            ..Harm::default()
        })
    }

    fn is_ours(&self, pod: &str) -> bool {
        pod.strip_prefix(&self.label).is_some_and(|rest| rest.starts_with('-'))
    }

    /// Warnings by their reasons, and pods that were restarted or failed, for whoever wants to know why.
    async fn tell(&self) -> Result<()> {
        let mut by_reason: BTreeMap<String, (i32, String)> = BTreeMap::new();
        for ((reason, pod), warned) in warnings(&self.bed.client, NAMESPACE).await? {
            if self.is_ours(&pod) {
                let (times, message) = by_reason.entry(reason).or_default();
                *times += warned.times;
                *message = warned.message;
            }
        }
        for (reason, (times, message)) in by_reason {
            eprintln!("{}: {times} x {reason}, the last: {message}", self.label);
        }
        for pod in self.watch.labelled("app", &self.label) {
            let restarts: i32 = pod.restarts.values().sum();
            if restarts > 0 || has_failed(&pod) {
                let statuses = pod.last.status.clone().and_then(|status| status.container_statuses);
                let states: Vec<_> = statuses
                    .into_iter()
                    .flatten()
                    .map(|status| (status.name, status.restart_count, status.last_state, status.state))
                    .collect();
                eprintln!("{}: {:?} {states:?}", pod.last.name_any(), pod.phases);
            }
        }
        Ok(())
    }
}

fn has_failed(pod: &Seen) -> bool {
    pod.phases.iter().any(|(_, phase)| phase == "Failed")
}

/// A number of things, as rows take it.
pub(crate) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}
