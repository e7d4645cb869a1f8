//! The hold loop under a paused clock: what it waits for, and for how long.

use std::{
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use berth_policy::{
    CallId, ConnectionId, CreateContainer, Declared, Event, HoldReason, Latch, PodRef, StopContainer,
};

use super::*;
use crate::gate::{Answer, BoxFuture, Query};

const SECOND: Duration = Duration::from_secs(1);

type Script = Box<dyn FnMut(usize) -> Verdict + Send>;

/// Answers by how often it was asked.
struct Scripted {
    script: Mutex<Script>,
    asked: AtomicUsize,
    latched: Mutex<Vec<Latch>>,
    changes: watch::Sender<u64>,
}

impl Scripted {
    fn new(script: impl FnMut(usize) -> Verdict + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            script: Mutex::new(Box::new(script)),
            asked: AtomicUsize::new(0),
            latched: Mutex::new(Vec::new()),
            changes: watch::Sender::new(0),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Gate for Scripted {
    fn answer<'a>(&'a self, _: Query<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(ready(Answer::Pass))
    }

    fn admit(&self, _call: &Call) -> Verdict {
        (self.script.lock().unwrap())(self.asked.fetch_add(1, Ordering::Relaxed))
    }

    fn observe(&self, _event: Event) {}

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn persist(&self, latch: Latch) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Takes its time, as a disk does.
            tokio::time::sleep(SECOND).await;
            self.latched.lock().unwrap().push(latch);
        })
    }
}

fn call(request: Request, deadline: Option<Duration>) -> Call {
    let arrived = Instant::now().into_std();
    Call {
        id: CallId(1),
        connection: ConnectionId(1),
        arrived,
        deadline: deadline.map(|deadline| arrived + deadline),
        request,
    }
}

fn create() -> Request {
    Request::CreateContainer(CreateContainer {
        sandbox: "s".into(),
        pod: PodRef { uid: "u".into(), namespace: "ns".to_owned(), name: "pod".to_owned() },
        container: "c".into(),
        attempt: 0,
        declared: Declared::default(),
        images: Vec::new(),
    })
}

fn stop() -> Request {
    Request::StopContainer(StopContainer { container: "c".into(), timeout: 30 * SECOND })
}

fn hold_until(until: Instant) -> Verdict {
    Verdict::Hold { until: until.into_std(), why: HoldReason::Inspection }
}

async fn passage(gate: &Scripted, call: &Call) -> Passage {
    pass(gate, call, Method::CreateContainer, None, &staying(), &Metrics::default()).await
}

/// Nobody leaves.
fn staying() -> Leaving {
    Leaving { goodbye: CancellationToken::new(), succeeded: CancellationToken::new() }
}

#[tokio::test(start_paused = true)]
async fn asks_again_at_the_end_of_each_hold_and_not_before() {
    let begun = Instant::now();
    let gate = Scripted::new(move |asked| match asked {
        0 => hold_until(begun + 2 * SECOND),
        1 => hold_until(begun + 5 * SECOND),
        _ => Verdict::Forward,
    });
    let passage = passage(&gate, &call(create(), None)).await;
    assert_eq!(passage, Passage::Pass { amended: None, held: 5 * SECOND });
    assert_eq!((begun.elapsed(), gate.asked()), (5 * SECOND, 3));
}

/// Rows: how long the process stands still from the beginning of the hold, and when it is asked again.
#[tokio::test(start_paused = true)]
async fn what_came_in_a_standstill_is_heard_before_a_hold_ends() {
    for (still, after) in [(SECOND, SECOND), (5 * SECOND, 5 * SECOND + HEARD)] {
        let begun = Instant::now();
        let gate = Scripted::new(move |asked| match asked {
            0 => hold_until(begun + SECOND),
            _ => Verdict::Forward,
        });
        let call = call(stop(), None);
        let (passage, ()) = tokio::join!(passage(&gate, &call), tokio::time::advance(still));
        assert_eq!(passage, Passage::Pass { amended: None, held: after });
        assert_eq!(gate.asked(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_ends_the_wait_at_once() {
    let begun = Instant::now();
    let gate = Scripted::new(move |asked| match asked {
        0 => hold_until(begun + 3600 * SECOND),
        _ => Verdict::Refuse(Refusal::Terminating),
    });
    let changed = async {
        tokio::time::sleep(3 * SECOND).await;
        gate.changes.send_modify(|number| *number += 1);
    };
    let call = call(create(), None);
    let (passage, ()) = tokio::join!(passage(&gate, &call), changed);
    assert_eq!(passage, Passage::Refuse(Refusal::Terminating));
    assert_eq!(begun.elapsed(), 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_change_while_it_is_asked_is_not_lost() {
    let begun = Instant::now();
    let gate = Scripted::new(|_| Verdict::Forward);
    let changes = gate.changes.clone();
    *gate.script.lock().unwrap() = Box::new(move |asked| match asked {
        0 => {
            // Just after the state was looked at, and before anybody waits.
            changes.send_modify(|number| *number += 1);
            hold_until(begun + 3600 * SECOND)
        }
        _ => Verdict::Forward,
    });
    passage(&gate, &call(create(), None)).await;
    assert_eq!((begun.elapsed(), gate.asked()), (Duration::ZERO, 2));
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_beyond_its_deadline() {
    for request in [create(), stop()] {
        let begun = Instant::now();
        let gate = Scripted::new(move |_| hold_until(begun + 3600 * SECOND));
        assert_eq!(passage(&gate, &call(request, Some(7 * SECOND))).await, Passage::DeadlinePassed);
        assert_eq!(begun.elapsed(), 7 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_a_create_and_not_a_stop() {
    let table = [
        (create(), false, Passage::Refuse(Refusal::Draining), 4 * SECOND),
        (create(), true, Passage::Unprocessed, 4 * SECOND),
        (stop(), false, Passage::Pass { amended: None, held: 20 * SECOND }, 20 * SECOND),
        (stop(), true, Passage::Pass { amended: None, held: 20 * SECOND }, 20 * SECOND),
    ];
    for (request, succeeded, expected, after) in table {
        let begun = Instant::now();
        let gate = Scripted::new(move |asked| match asked {
            0 => hold_until(begun + 20 * SECOND),
            _ => Verdict::Forward,
        });
        let leaving = staying();
        let drain = async {
            tokio::time::sleep(4 * SECOND).await;
            if succeeded {
                leaving.succeeded.cancel();
            }
            leaving.goodbye.cancel();
        };
        let (call, metrics) = (call(request, None), Metrics::default());
        let passage = pass(&*gate, &call, Method::CreateContainer, None, &leaving, &metrics);
        let (passage, ()) = tokio::join!(passage, drain);
        assert_eq!((passage, begun.elapsed(), metrics.held_now()), (expected, after, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_latch_is_waited_for() {
    let latch = Latch { sandbox: "s".into(), priority: 1 };
    let given = latch.clone();
    let gate = Scripted::new(move |_| Verdict::Latch(given.clone()));
    let begun = Instant::now();
    assert_eq!(
        passage(&gate, &call(create(), None)).await,
        Passage::Pass { amended: None, held: Duration::ZERO }
    );
    assert_eq!((begun.elapsed(), gate.latched.lock().unwrap().clone()), (SECOND, vec![latch]));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_over_before_it_begins_does_not_spin() {
    let begun = Instant::now();
    let gate = Scripted::new(move |_| hold_until(begun));
    let passage = passage(&gate, &call(create(), Some(SECOND))).await;
    assert_eq!(passage, Passage::DeadlinePassed);
    assert!(gate.asked() <= 1001, "asked {} times in a second", gate.asked());
}

#[tokio::test(start_paused = true)]
async fn without_its_gate_it_still_ends() {
    let begun = Instant::now();
    let gate = Scripted::new(move |asked| match asked {
        0 => hold_until(begun + 5 * SECOND),
        _ => Verdict::Forward,
    });
    // A receiver whose sender is gone.
    struct Orphan(Arc<Scripted>);
    impl Gate for Orphan {
        fn answer<'a>(&'a self, _: Query<'a>) -> BoxFuture<'a, Answer> {
            Box::pin(ready(Answer::Pass))
        }

        fn admit(&self, call: &Call) -> Verdict {
            self.0.admit(call)
        }
        fn observe(&self, _event: Event) {}
        fn changes(&self) -> watch::Receiver<u64> {
            watch::channel(0).1
        }
        fn persist(&self, _latch: Latch) -> BoxFuture<'_, ()> {
            Box::pin(ready(()))
        }
    }
    let (call, metrics) = (call(create(), None), Metrics::default());
    let passage = pass(&Orphan(gate), &call, Method::CreateContainer, None, &staying(), &metrics).await;
    assert_eq!(passage, Passage::Pass { amended: None, held: 5 * SECOND });
}
