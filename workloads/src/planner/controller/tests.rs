//! A controller of ConfigMaps that decides as a test says.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use berth_base::lease::{Tenure, Term};
use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use tokio::sync::watch;

use super::*;
use crate::{
    event_loop::Listed,
    planner::Work,
    served::Served,
    write::{Failure, Writer},
};

/// Plans and reads that were begun.
#[derive(Debug, Default)]
struct Counts {
    plans: AtomicUsize,
    reads: AtomicUsize,
}

/// A picture of one object. Its writes end in a panic, up to this version of it.
struct Fake {
    object: Arc<ConfigMap>,
    panics_at: &'static str,
    /// It is never known as a whole.
    lacks: bool,
    counts: Arc<Counts>,
}

fn object(version: &str) -> Arc<ConfigMap> {
    let meta = ObjectMeta {
        namespace: Some("ns".to_owned()),
        name: Some("one".to_owned()),
        uid: Some("u".to_owned()),
        resource_version: Some(version.to_owned()),
        ..ObjectMeta::default()
    };
    Arc::new(ConfigMap { metadata: meta, ..ConfigMap::default() })
}

impl Picture for Fake {
    type Input = Arc<ConfigMap>;
    type Object = Arc<ConfigMap>;
    type Action = ();
    type Wrote = Arc<Counts>;
    type Found = ();

    fn listed(&self) -> Listed {
        vec![("configmaps", true)]
    }

    fn sizes(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    fn ends_list(_input: &Self::Input) -> bool {
        false
    }

    fn take(&mut self, input: Self::Input) -> Concerned {
        self.object = input;
        Concerned::All
    }

    fn objects(&self) -> impl Iterator<Item = &Self::Object> {
        std::iter::once(&self.object)
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.objects().map(|object| (object.namespace(), object.uid()))
    }

    fn object(&self, uid: &str) -> Option<&Self::Object> {
        Some(&self.object).filter(|object| object.uid() == uid)
    }

    fn lacks(&self, _uid: &str) -> bool {
        self.lacks
    }

    fn read_all(
        &self,
        _writer: Writer,
        term: u64,
        namespaces: std::collections::BTreeSet<String>,
    ) -> BoxFuture<'static, Ended<()>> {
        let found = namespaces.into_iter().map(|namespace| (namespace, ())).collect();
        async move { Ended { term, found, failed: Vec::new() } }.boxed()
    }

    fn found(&mut self, _known: &[String], (): ()) -> Vec<String> {
        Vec::new()
    }

    /// One that wants to be asked again at once, for ever.
    fn plan(&self, object: &Self::Object, _memory: &Memory, _now: Timestamp) -> Plan<()> {
        self.counts.plans.fetch_add(1, Ordering::Relaxed);
        let panics = object.metadata.resource_version.as_deref() == Some(self.panics_at);
        Plan {
            actions: panics.then_some(()).into_iter().collect(),
            status: None,
            status_first: false,
            again: Some(Duration::ZERO),
            notes: Vec::new(),
        }
    }

    async fn carry_out(_work: &mut Work<Self>, _plan: Plan<()>) -> End {
        panic!("a write of a test");
    }

    async fn read(work: &mut Work<Self>) -> Result<(), Failure> {
        let read = Arc::new(Counts::default());
        read.reads.fetch_add(1, Ordering::Relaxed);
        work.wrote.push(read);
        Ok(())
    }

    fn wrote(&mut self, _uid: &str, wrote: Self::Wrote) -> Vec<String> {
        self.counts.reads.fetch_add(wrote.reads.load(Ordering::Relaxed), Ordering::Relaxed);
        Vec::new()
    }
}

type Replica = (Arc<Counts>, mpsc::Sender<Arc<ConfigMap>>, watch::Sender<Option<Term>>);

/// A replica that leads.
fn replica(panics_at: &'static str) -> Replica {
    replica_of(panics_at, false)
}

fn replica_of(panics_at: &'static str, lacks: bool) -> Replica {
    let (inputs, receiver) = mpsc::channel(1);
    let (lease, tenure) = Tenure::of_test();
    let (listed, _) = watch::channel(Listed::default());
    let connections = Connections { tenure, writer: Served::default().writer(), listed };
    let counts = Arc::<Counts>::default();
    let picture = Fake { object: object("1"), panics_at, lacks, counts: counts.clone() };
    tokio::spawn(Controller::new(picture, connections, receiver).run());
    lease.send_replace(Some(Term::of_test(tokio::time::Instant::now() + Duration::from_secs(3600))));
    (counts, inputs, lease)
}

/// Whatever an object says, it takes no whole processor.
#[tokio::test]
async fn what_is_due_again_at_once_is_planned_a_few_times_a_second() {
    let begun = Instant::now();
    let (counts, _inputs, _lease) = replica("");
    let planned = async {
        while counts.plans.load(Ordering::Relaxed) < 6 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), planned).await.is_ok(), "{counts:?}");
    // The term may make it due once more.
    assert!(begun.elapsed() >= SHORTEST_WAIT * 4, "{:?}", begun.elapsed());
}

/// It is left alone until it changes; then it is read, for nobody knows what was written.
#[tokio::test]
async fn after_a_panic_of_a_write_the_objects_are_read_first() {
    let (counts, inputs, _lease) = replica("1");
    let plans = async |most: usize| {
        while counts.plans.load(Ordering::Relaxed) < most {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    plans(1).await;
    inputs.send(object("1")).await.unwrap();
    plans(1).await;
    let seen = || (counts.plans.load(Ordering::Relaxed), counts.reads.load(Ordering::Relaxed));
    assert_eq!(seen(), (1, 0), "it is set aside");
    inputs.send(object("2")).await.unwrap();
    plans(2).await;
    assert_eq!(seen().1, 1);
}

/// Each reading lists its namespace: after a few of them it waits until that is read.
#[tokio::test]
async fn what_is_never_known_as_a_whole_is_read_a_few_times_and_not_planned() {
    let (counts, _inputs, _lease) = replica_of("", true);
    let reads = || counts.reads.load(Ordering::Relaxed);
    let read = async {
        while reads() < 8 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), read).await.is_ok(), "{counts:?}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((reads(), counts.plans.load(Ordering::Relaxed)), (8, 0));
}
