//! Terms, what wakes a controller, and how its plans end.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use berth_base::lease::Term;
use rstest::rstest;

use super::*;
use crate::agenda::Share;

fn in_seconds(seconds: u64) -> tokio::time::Instant {
    tokio::time::Instant::now().checked_add(Duration::from_secs(seconds)).unwrap()
}

/// The clock goes on, and nobody says that the lease is lost: so it is for a process that was stopped.
#[tokio::test(start_paused = true)]
async fn a_plan_writes_nothing_after_its_term() {
    let (_sender, inputs) = mpsc::channel::<()>(1);
    let (lease, tenure) = Tenure::of_test();
    lease.send_replace(Some(Term::of_test(in_seconds(5))));
    let mut turns = EventLoop::<(), ()>::new(inputs, tenure);
    turns.tenure.changed().await;
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    turns.spawn("long".to_owned(), async move {
        for _ in 0..100 {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    });
    assert!(matches!(turns.next(false).await, Some(Turn::Due)));
    assert!(turns.agenda.in_flight().is_empty(), "the next term begins another one");
    assert_eq!(written.load(Ordering::SeqCst), 3, "at 0, 2 and 4 s");
    // One that is begun too late writes nothing at all.
    let count = written.clone();
    turns.spawn("late".to_owned(), async move {
        count.fetch_add(1, Ordering::SeqCst);
    });
    assert!(matches!(turns.next(false).await, Some(Turn::Due)));
    assert_eq!(written.load(Ordering::SeqCst), 3);
}

/// A webhook hangs, and the API server cannot be reached to renew the lease, or another one has taken it.
/// Nothing else ever wakes the plan.
#[rstest]
#[case::nobody_renews_it(None, 10)]
#[case::it_is_lost(Some(4), 4)]
#[tokio::test(start_paused = true)]
async fn a_plan_that_waits_for_an_answer_ends_with_its_term(#[case] lost: Option<u64>, #[case] ends: u64) {
    let (_sender, inputs) = mpsc::channel::<()>(1);
    let (lease, tenure) = Tenure::of_test();
    lease.send_replace(Some(Term::of_test(in_seconds(10))));
    let mut turns = EventLoop::<(), ()>::new(inputs, tenure);
    let (asks, asked) = tokio::sync::oneshot::channel::<()>();
    turns.spawn("hangs".to_owned(), async move {
        // Dropped with the plan, as its request is.
        let _asks = asks;
        std::future::pending::<()>().await;
    });
    let begun = tokio::time::Instant::now();
    if let Some(seconds) = lost {
        tokio::time::sleep_until(in_seconds(seconds)).await;
        lease.send_replace(None);
    }
    let dropped = tokio::time::timeout(Duration::from_secs(60), asked).await;
    assert!(matches!(dropped, Ok(Err(_))), "it still waits");
    let (lasted, from) = (begun.elapsed(), Duration::from_secs(ends));
    assert!(lasted >= from && lasted <= from + LOOK_EVERY, "{lasted:?}");
}

#[test]
fn a_panic_ends_one_plan_and_no_other() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let plans = [1_usize, 9, 2].map(|at| guarded(|| [7, 8, 9][at]).ok());
    std::panic::set_hook(hook);
    assert_eq!(plans, [Some(8), None, Some(9)]);
}

/// A replica that may begin nothing is woken by nothing that is due, and costs nothing.
#[tokio::test]
async fn what_is_due_wakes_only_one_that_may_begin_it() {
    let (_sender, inputs) = mpsc::channel::<()>(1);
    let (lease, tenure) = Tenure::of_test();
    let mut turns = EventLoop::<_, ()>::new(inputs, tenure);
    turns.agenda.add("uid".to_owned(), Instant::now());
    let wakes = async |turns: &mut EventLoop<(), ()>, listed| {
        tokio::time::timeout(Duration::from_millis(50), turns.next(listed)).await.is_ok()
    };
    assert!(!wakes(&mut turns, true).await, "another one leads");
    lease.send_replace(Some(Term::of_test(in_seconds(3600))));
    assert!(wakes(&mut turns, false).await && turns.begins_term() && !turns.begins_term());
    assert!(!wakes(&mut turns, false).await, "not all is listed");
    assert!(wakes(&mut turns, true).await);
    turns.reading = Some(Reading::default());
    assert!(wakes(&mut turns, true).await, "all is to be read");
    let (term, _) = turns.term_to_read(BTreeSet::new).unwrap();
    assert!(!wakes(&mut turns, true).await && turns.term_to_plan().is_none(), "it is on its way");
    let missing = BTreeSet::from(["ns".to_owned()]);
    turns.reading.as_mut().unwrap().ends(term, BTreeSet::new(), missing, Instant::now());
    assert!(wakes(&mut turns, true).await && turns.term_to_plan() == Some(term));
    let first = turns.reads_first("ns", &mut Unread::default(), None, Instant::now());
    assert_eq!(first, Some(ReadFirst::WithNamespace), "it is missing");
    assert!(turns.term_to_read(BTreeSet::new).is_none(), "it is read after a pause");
    lease.send_replace(None);
    assert!(wakes(&mut turns, true).await && !wakes(&mut turns, true).await, "it leads no more");
    turns.wakes = Some(Instant::now());
    assert!(wakes(&mut turns, false).await);
}

/// A replica stands by for months, and thousands of jobs come and go each hour: nothing of them stays.
#[tokio::test]
async fn nothing_is_due_at_a_replica_that_does_not_lead() {
    let (_sender, inputs) = mpsc::channel::<()>(1);
    let (lease, tenure) = Tenure::of_test();
    let mut turns = EventLoop::<_, ()>::new(inputs, tenure);
    let show = |turns: &mut EventLoop<(), ()>, uid: &str| {
        turns.take(Concerned::Some(vec![uid.to_owned()]), Vec::new);
    };
    let due =
        |turns: &mut EventLoop<(), ()>| turns.agenda.take(Instant::now(), AT_ONCE, |_| Share::default());
    show(&mut turns, "gone");
    assert!(!turns.begins_term());
    lease.send_replace(Some(Term::of_test(in_seconds(3600))));
    assert!(turns.begins_term());
    turns.take(Concerned::All, || vec!["there".to_owned()]);
    show(&mut turns, "new");
    assert!(!turns.begins_term(), "the same one");
    let mut all = due(&mut turns);
    all.sort();
    assert_eq!(all, ["new", "there"]);
    show(&mut turns, "later");
    lease.send_replace(None);
    assert!(!turns.begins_term());
    assert_eq!(due(&mut turns), [""; 0], "it leads no more");
}

#[tokio::test]
async fn a_plan_ends_with_its_report_or_its_panic() {
    let (_sender, inputs) = mpsc::channel::<()>(1);
    let (lease, tenure) = Tenure::of_test();
    lease.send_replace(Some(Term::of_test(in_seconds(3600))));
    let mut turns = EventLoop::new(inputs, tenure);
    turns.tenure.changed().await;
    turns.spawn("well".to_owned(), async { 7 });
    assert!(turns.agenda.in_flight() == ["well"]);
    assert!(matches!(turns.next(false).await, Some(Turn::Report(7))));
    turns.spawn("ill".to_owned(), async { panic!("a plan of a test") });
    assert!(
        matches!(turns.next(false).await, Some(Turn::Panic(uid, text)) if uid == "ill" && text == "a plan of a test")
    );
    assert!(turns.agenda.in_flight().is_empty());
}
