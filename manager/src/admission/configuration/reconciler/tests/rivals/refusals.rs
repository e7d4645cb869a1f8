//! Entries that a policy of the API server refuses.

use super::*;

/// An entry that older policies do not know.
const NEW: &str = "nodeimages.defaults";
const EVICTIONS: &str = "evictions.podunavailablebudgets";

/// The policy is older than the replica: the rest is kept without the entry that it does not know.
#[tokio::test(start_paused = true)]
async fn an_older_policy_keeps_out_what_it_does_not_know_and_nothing_else() {
    let (server, served) = (Server::new(), certificate());
    server.lock().unwrap().policy = Some(|entry: &MutatingWebhook| entry.name.starts_with(NEW));
    let one = replica(&server, &served, 10, false);
    pass(5).await;
    assert!(has(&server, "defaults.sidecarsets") && !has(&server, NEW));
    assert!(*one.bundled.borrow() == b"bundle", "it is ready");
    let written = writes(&server);
    one.sets.send_replace(set(&["a"]));
    pass(5).await;
    assert_eq!((writes(&server), has(&server, "a.sidecarset")), (written + 1, true));
    pass(600).await;
    assert_eq!(writes(&server), written + 1, "what stands is not written again");
    // The policy is applied.
    server.lock().unwrap().policy = None;
    pass(30).await;
    assert_eq!((writes(&server), has(&server, "a.sidecarset"), has(&server, NEW)), (written + 2, true, true));
}

/// An entry in a form that nobody wants any more keeps no budget from being counted.
#[tokio::test(start_paused = true)]
async fn what_was_refused_of_another_budget_is_forgotten() {
    let (server, served) = (Server::new(), certificate());
    server.lock().unwrap().policy = Some(|entry: &MutatingWebhook| {
        let is_of_bad = format!("{:?}", entry.namespace_selector).contains("bad");
        entry.name.starts_with(NEW) || entry.name.starts_with(EVICTIONS) && is_of_bad
    });
    let one = replica(&server, &served, 10, false);
    one.budgets.send_replace(budget("bad"));
    pass(5).await;
    assert!(!has(&server, EVICTIONS) && *one.entered.borrow() == Entered::unknown());
    one.budgets.send_replace(budget("shop"));
    pass(5).await;
    let mut expected = Entered::unknown();
    expected.stand(0, [&"shop/b".to_owned()].into_iter());
    assert!(has(&server, EVICTIONS) && !has(&server, NEW));
    assert_eq!(*one.entered.borrow(), expected);
}

/// One that gives way says of no budget that its entry stands while that is refused, and brings it in later.
#[tokio::test(start_paused = true)]
async fn what_is_refused_is_brought_in_when_it_is_taken() {
    let (server, served) = (Server::new(), certificate());
    server.lock().unwrap().policy = Some(|entry: &MutatingWebhook| entry.name.starts_with(EVICTIONS));
    let older = replica(&server, &served, 10, true);
    pass(1).await;
    let newer = replica(&server, &served, 20, false);
    pass(1).await;
    newer.task.abort();
    older.budgets.send_replace(budget("shop"));
    pass(5).await;
    assert!(!has(&server, EVICTIONS) && *older.entered.borrow() == Entered::unknown());
    server.lock().unwrap().policy = None;
    pass(25).await;
    let mut expected = Entered::unknown();
    expected.stand(0, [&"shop/b".to_owned()].into_iter());
    assert!(has(&server, EVICTIONS) && !has(&server, GATE), "{:?}", standing(&server));
    assert_eq!(*older.entered.borrow(), expected);
}

/// Another replica knows first that an entry is taken, and puts it back at once whenever this one leaves it
/// out.
#[tokio::test(start_paused = true)]
async fn what_is_taken_by_now_is_not_left_out_for_ever() {
    const TAKEN: &str = "workloads.defaults";
    let (server, served) = (Server::new(), certificate());
    let one = replica(&server, &served, 10, false);
    pass(1).await;
    let whole = server.lock().unwrap().stored.webhooks.clone().unwrap();
    let taken = whole.into_iter().find(|entry| entry.name.starts_with(TAKEN)).unwrap();
    server.lock().unwrap().policy =
        Some(|entry: &MutatingWebhook| entry.name.starts_with(NEW) || entry.name.starts_with(TAKEN));
    one.sets.send_replace(set(&["a"]));
    pass(5).await;
    assert!(has(&server, "a.sidecarset") && !has(&server, NEW) && !has(&server, TAKEN));
    server.lock().unwrap().policy = Some(|entry: &MutatingWebhook| entry.name.starts_with(NEW));
    let (begun, mut put) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < Duration::from_secs(120) {
        if !has(&server, TAKEN) {
            let mut server = server.lock().unwrap();
            let mut next = server.stored.clone();
            next.webhooks.get_or_insert_default().push(taken.clone());
            server.store(next);
            put = begun.elapsed();
        }
        sleep(PAUSES[0] / 5).await;
    }
    assert!(put < Duration::from_secs(30), "{put:?}");
    assert!(has(&server, "a.sidecarset") && has(&server, TAKEN) && !has(&server, NEW));
}

/// A search at a slow server takes long, and what changes meanwhile does not wait for its end.
#[tokio::test(start_paused = true)]
async fn a_long_search_keeps_nothing_waiting() {
    let (server, served) = (Server::new(), certificate());
    server.lock().unwrap().policy = Some(|entry: &MutatingWebhook| entry.name.starts_with(NEW));
    server.lock().unwrap().takes = Duration::from_secs(4);
    let _one = replica(&server, &served, 10, false);
    // One write and two trials of four are over, and the next write is on its way.
    pass(14).await;
    assert_eq!(writes(&server), 0);
    server.lock().unwrap().policy = None;
    pass(4).await;
    assert_eq!((writes(&server), has(&server, NEW), has(&server, "defaults.sidecarsets")), (1, true, true));
}

/// Each look of a search writes once and tries twice here, and no pause that grows comes between two.
#[tokio::test(start_paused = true)]
async fn a_long_search_waits_for_nothing_but_answers() {
    const TAKES: Duration = Duration::from_secs(4);
    let (server, served) = (Server::new(), certificate());
    server.lock().unwrap().policy = Some(|entry: &MutatingWebhook| entry.name.starts_with("s07."));
    server.lock().unwrap().takes = TAKES;
    let one = replica(&server, &served, 10, false);
    let names: Vec<String> = (0..64).map(|at| format!("s{at:0>2}")).collect();
    one.sets.send_replace(set(&names.iter().map(String::as_str).collect::<Vec<_>>()));
    let begun = Instant::now();
    while writes(&server) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(1_000), "no end");
        pass(1).await;
    }
    assert!(has(&server, "s06.sidecarset") && !has(&server, "s07.sidecarset"));
    let (took, tried) = (begun.elapsed(), server.lock().unwrap().tried);
    let looks = u32::try_from(tried.div_ceil(2)).unwrap();
    assert!(looks >= 7 && took < TAKES * (3 * looks + 5), "{tried} trials in {took:?}");
}
