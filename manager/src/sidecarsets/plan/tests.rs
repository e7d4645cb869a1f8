//! Tables of what is next.

use std::sync::Arc;

use berth_proto::crd::SidecarSetUpdateStrategy;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::store::Phase;

fn strategy(given: Value) -> Strategy {
    let given: SidecarSetUpdateStrategy = serde_json::from_value(given).unwrap();
    Strategy::parse(Some(&given)).unwrap()
}

fn asked(newest: bool, phase: Option<UpdatePhase>, ago: u64) -> Option<PodRequest> {
    Some(PodRequest { newest, given: true, attempt: 0, phase, ago: Duration::from_secs(ago), word: None })
}

/// A pod by one letter; those at odd places have the label `tier: gold`.
fn pod(at: usize, letter: char) -> Candidate<'static> {
    use UpdatePhase::{Failed, Pending, Succeeded, Updating};
    let labels: Labels = if at % 2 == 1 { Arc::new([("tier".into(), "gold".into())]) } else { Arc::new([]) };
    let rank = Rank { scheduled: true, phase: Phase::Running, ready: true, ..Rank::default() };
    let old = Candidate {
        name: format!("{at:03}").leak(),
        labels,
        rank,
        available: true,
        upgradable: true,
        ..Candidate::default()
    };
    let with = |entry| Candidate { entry, ..old.clone() };
    let new = |available, entry| Candidate { updated: true, available, entry, ..old.clone() };
    match letter {
        // Old ones without an entry.
        'o' => old,
        'n' => Candidate { available: false, rank: Rank { ready: false, ..old.rank.clone() }, ..old },
        '-' => Candidate { upgradable: false, ..old },
        'z' => Candidate {
            means: Means::Unscheduled,
            rank: Rank { scheduled: false, ..old.rank.clone() },
            ..old
        },
        'g' => Candidate { means: Means::NoAgent, ..old },
        'h' => Candidate { means: Means::NoSwaps, ..old },
        'c' => Candidate { changing: true, available: false, ..old },
        // Old ones that have been asked for.
        'p' => with(asked(true, None, 0)),
        'P' => with(asked(true, None, 0).map(|asked| PodRequest { given: false, ..asked })),
        'w' => with(asked(true, Some(Pending), 0)),
        'i' => with(asked(true, Some(Updating), 0)),
        'f' => with(asked(true, Some(Failed), 10)),
        'F' => with(asked(true, Some(Failed), 31)),
        's' => with(asked(true, Some(Succeeded), 10)),
        'S' => with(asked(true, Some(Succeeded), 31)),
        'q' => with(asked(false, None, 0)),
        'r' => with(asked(false, Some(Updating), 0)),
        'R' => with(asked(false, Some(Failed), 0)),
        'k' => Candidate { upgradable: false, ..with(asked(true, Some(Updating), 0)) },
        'K' => Candidate { upgradable: false, ..with(asked(true, None, 0)) },
        'v' => Candidate { means: Means::NoAgent, ..with(asked(true, None, 0)) },
        // Those of a silent agent.
        'm' => Candidate { means: Means::Silent, ..old },
        'M' => Candidate { means: Means::Silent, ..with(asked(true, Some(Pending), 0)) },
        'j' => Candidate { means: Means::Silent, ..with(asked(true, Some(Updating), 0)) },
        'J' => Candidate { means: Means::Silent, ..with(asked(true, Some(Failed), 99)) },
        'l' => Candidate { means: Means::Silent, available: false, ..with(asked(true, Some(Updating), 0)) },
        'L' => Candidate { means: Means::Silent, ..new(true, asked(true, Some(Updating), 0)) },
        'y' => Candidate { means: Means::Silent, ..new(false, asked(true, Some(Updating), 0)) },
        // New ones.
        'u' => new(true, None),
        'x' => new(false, None),
        'U' => new(false, asked(true, Some(Updating), 0)),
        'd' => new(true, asked(true, Some(Succeeded), 0)),
        'e' => new(true, asked(true, Some(Failed), 0)),
        'b' => new(false, asked(true, Some(Failed), 99)),
        't' => new(true, asked(false, Some(Updating), 0)),
        other => panic!("{other}"),
    }
}

fn pods(letters: &str) -> Vec<Candidate<'static>> {
    letters.chars().enumerate().map(|(at, letter)| pod(at, letter)).collect()
}

/// Places of the pods that are asked for, and of those that are taken back; then how many are in flight, have
/// failed, wait for others, and are held back.
#[rstest]
#[case::one_at_a_time(json!({}), "ooo", "0", "", [1, 0, 2, 0])]
#[case::nothing(json!({}), "", "", "", [0, 0, 0, 0])]
#[case::all_are_new(json!({}), "uu", "", "", [0, 0, 0, 0])]
#[case::two_at_a_time(json!({"maxUnavailable": 2}), "ooo", "01", "", [2, 0, 1, 0])]
#[case::more_than_there_are(json!({"maxUnavailable": 5}), "ooo", "012", "", [3, 0, 0, 0])]
#[case::half(json!({"maxUnavailable": "50%"}), "oooo", "01", "", [2, 0, 2, 0])]
#[case::small_share_is_one(json!({"maxUnavailable": "5%"}), "oooooo", "0", "", [1, 0, 5, 0])]
#[case::none_by_share(json!({"maxUnavailable": "0%"}), "oo", "", "", [0, 0, 2, 0])]
#[case::none_by_number(json!({"maxUnavailable": 0}), "oo", "", "", [0, 0, 2, 0])]
#[case::not_ready_is_free(json!({"maxUnavailable": 0}), "on", "1", "", [1, 0, 1, 0])]
#[case::not_ready_is_first(json!({}), "onn", "120", "", [3, 0, 0, 0])]
#[case::new_one_not_ready(json!({}), "xo", "", "", [0, 0, 1, 0])]
#[case::new_ones_not_ready(json!({"maxUnavailable": 2}), "xxo", "", "", [0, 0, 1, 0])]
#[case::new_one_ready(json!({}), "uo", "1", "", [1, 0, 0, 0])]
#[case::one_in_flight(json!({}), "io", "", "", [1, 0, 1, 0])]
#[case::one_not_answered(json!({}), "po", "", "", [1, 0, 1, 0])]
#[case::one_pending(json!({}), "wo", "", "", [1, 0, 1, 0])]
#[case::in_flight_and_not_ready(json!({"maxUnavailable": 2}), "ixo", "", "", [1, 0, 1, 0])]
#[case::patched_and_in_flight(json!({}), "Uo", "", "", [1, 0, 1, 0])]
#[case::partition(json!({"partition": 2, "maxUnavailable": 5}), "ooo", "0", "", [1, 0, 0, 2])]
#[case::partition_half(json!({"partition": "50%", "maxUnavailable": 5}), "oooo", "01", "", [2, 0, 0, 2])]
#[case::partition_rounds_down(json!({"partition": "60%", "maxUnavailable": 5}), "ooo", "01", "", [2, 0, 0, 1])]
#[case::partition_lets_one_go(json!({"partition": "99%", "maxUnavailable": 5}), "ooo", "0", "", [1, 0, 0, 2])]
#[case::partition_of_all(json!({"partition": "100%"}), "ooo", "", "", [0, 0, 0, 3])]
#[case::partition_is_large(json!({"partition": 7}), "ooo", "", "", [0, 0, 0, 3])]
#[case::partition_and_new_ones(json!({"partition": 1, "maxUnavailable": 5}), "uoo", "1", "", [1, 0, 0, 1])]
#[case::partition_and_in_flight(json!({"partition": 1, "maxUnavailable": 5}), "ioo", "1", "", [2, 0, 0, 1])]
#[case::partition_keeps_the_best(json!({"partition": 1, "maxUnavailable": 5}), "ono", "10", "", [2, 0, 0, 1])]
#[case::not_upgradable_comes_on_top(json!({"partition": 1, "maxUnavailable": 5}), "-oo", "1", "", [1, 0, 0, 1])]
#[case::paused(json!({"paused": true}), "oon", "", "", [0, 0, 0, 3])]
#[case::paused_ends_what_began(json!({"paused": true}), "io", "", "", [1, 0, 0, 1])]
#[case::paused_keeps_what_was_given(json!({"paused": true}), "po", "", "", [1, 0, 0, 1])]
#[case::paused_keeps_pending(json!({"paused": true}), "wo", "", "", [1, 0, 0, 1])]
#[case::paused_takes_back(json!({"paused": true}), "Po", "", "0", [0, 0, 0, 1])]
#[case::paused_and_not_selected(json!({"paused": true, "selector": {"matchLabels": {"tier": "gold"}}}), "pp", "", "0", [1, 0, 0, 1])]
#[case::paused_no_more_upgradable(json!({"paused": true}), "K", "", "0", [0, 0, 0, 0])]
#[case::paused_agent_went_back(json!({"paused": true}), "v", "", "0", [0, 0, 0, 0])]
#[case::paused_for_new_pods_alone(json!({"paused": true, "type": "NotUpdate"}), "pw", "", "01", [0, 0, 0, 0])]
#[case::paused_older_began(json!({"paused": true}), "r", "", "", [1, 0, 0, 0])]
#[case::paused_older_not_begun(json!({"paused": true}), "q", "", "0", [0, 0, 0, 0])]
#[case::paused_failed(json!({"paused": true}), "F", "", "", [0, 1, 0, 0])]
#[case::paused_older_failed(json!({"paused": true}), "R", "", "0", [0, 0, 0, 0])]
#[case::not_update(json!({"type": "NotUpdate"}), "oo", "", "", [0, 0, 0, 2])]
#[case::not_update_takes_back(json!({"type": "NotUpdate"}), "pw", "", "01", [0, 0, 0, 0])]
#[case::not_update_ends_what_began(json!({"type": "NotUpdate"}), "i", "", "", [1, 0, 0, 0])]
#[case::selector(json!({"selector": {"matchLabels": {"tier": "gold"}}, "maxUnavailable": 5}), "oooo", "13", "", [2, 0, 0, 2])]
#[case::selector_takes_back(json!({"selector": {"matchLabels": {"tier": "gold"}}}), "pp", "", "0", [1, 0, 0, 1])]
#[case::selector_that_is_empty(json!({"selector": {}, "maxUnavailable": 5}), "oo", "01", "", [2, 0, 0, 0])]
#[case::not_upgradable(json!({}), "-", "", "", [0, 0, 0, 0])]
#[case::no_more_upgradable_began(json!({}), "k", "", "", [1, 0, 0, 0])]
#[case::no_more_upgradable(json!({}), "K", "", "0", [0, 0, 0, 0])]
#[case::no_node(json!({}), "zo", "1", "", [1, 0, 0, 0])]
#[case::old_agent(json!({}), "go", "1", "", [1, 0, 0, 0])]
#[case::agent_went_back(json!({}), "vo", "1", "0", [1, 0, 0, 0])]
#[case::silent(json!({}), "mo", "1", "", [1, 0, 0, 0])]
#[case::silent_not_begun(json!({}), "Mo", "1", "0", [1, 0, 0, 0])]
#[case::silent_in_the_midst(json!({}), "jo", "1", "", [1, 0, 0, 0])]
#[case::silent_in_the_midst_and_not_ready(json!({}), "lo", "", "", [0, 0, 1, 0])]
#[case::silent_and_failed(json!({}), "Jo", "1", "", [1, 1, 0, 0])]
#[case::silent_and_came_right(json!({}), "Lo", "1", "", [1, 0, 0, 0])]
#[case::silent_and_patched(json!({}), "yo", "", "", [0, 0, 1, 0])]
#[case::silent_and_paused(json!({"paused": true}), "mMj", "", "1", [0, 0, 0, 1])]
#[case::hot(json!({}), "ho", "1", "", [1, 0, 0, 0])]
#[case::somebody_changes_it(json!({}), "co", "1", "", [1, 0, 1, 0])]
#[case::failed_holds_its_place(json!({}), "fo", "", "", [0, 1, 1, 0])]
#[case::failed_and_room(json!({"maxUnavailable": 2}), "fo", "1", "", [1, 1, 0, 0])]
#[case::failed_is_tried_again(json!({}), "Fo", "0", "", [1, 0, 1, 0])]
#[case::failed_and_came_right(json!({}), "eo", "1", "0", [1, 0, 0, 0])]
#[case::failed_when_patched(json!({}), "bo", "", "", [0, 1, 1, 0])]
#[case::failed_with_an_older_one(json!({}), "Ro", "0", "", [1, 0, 1, 0])]
#[case::succeeded(json!({}), "do", "1", "0", [1, 0, 0, 0])]
#[case::succeeded_not_seen(json!({}), "so", "", "", [1, 0, 1, 0])]
#[case::succeeded_and_undone(json!({}), "So", "0", "", [1, 0, 1, 0])]
#[case::newer_in_the_middle(json!({}), "ro", "0", "", [1, 0, 1, 0])]
#[case::newer_before_it_began(json!({}), "qo", "0", "", [1, 0, 1, 0])]
#[case::back_to_what_it_has(json!({}), "to", "1", "0", [1, 0, 0, 0])]
fn next_steps(
    #[case] given: Value,
    #[case] letters: &str,
    #[case] ask: &str,
    #[case] back: &str,
    #[case] counts: [usize; 4],
) {
    let plan = plan(&strategy(given), &pods(letters));
    let asked: String = plan.ask.iter().map(|(at, _)| at.to_string()).collect();
    let taken: String = plan.take_back.iter().map(usize::to_string).collect();
    let Progress { in_flight, failed, queued, held, .. } = plan.progress;
    assert_eq!((asked.as_str(), taken.as_str()), (ask, back), "{plan:?}");
    assert_eq!([in_flight, failed, queued, held], counts, "{plan:?}");
}

#[rstest]
#[case::first(0, 10, None, Some(20))]
#[case::first_over(0, 30, Some(1), None)]
#[case::second(1, 30, None, Some(30))]
#[case::second_over(1, 60, Some(2), None)]
#[case::no_longer_than_that(30, 599, None, Some(1))]
#[case::for_ever(i32::MAX, 600, Some(i32::MAX), None)]
fn tries(#[case] attempt: i32, #[case] ago: u64, #[case] next: Option<i32>, #[case] rest: Option<u64>) {
    let entry = PodRequest {
        newest: true,
        given: true,
        attempt,
        phase: Some(UpdatePhase::Failed),
        ago: Duration::from_secs(ago),
        word: None,
    };
    let pods = [Candidate { entry: Some(entry), ..pod(0, 'o') }];
    let plan = plan(&strategy(json!({})), &pods);
    assert_eq!(plan.ask.first().map(|(_, attempt)| *attempt), next);
    assert_eq!(plan.again_in, rest.map(Duration::from_secs));
}

/// Pods, each by its letter, the word of its condition and that of its entry (`t`, `f` or `.`); which of them
/// are asked for, are told what, and whose entries are taken back.
#[rstest]
#[case::it_cannot(json!({}), &["-.."], "", "0f", "")]
#[case::it_waits_for_its_agent(json!({}), &["-.f"], "", "", "")]
#[case::it_shows_it(json!({}), &["-ff"], "", "", "0")]
#[case::it_was_told(json!({}), &["-f."], "", "", "")]
#[case::it_was_told_otherwise(json!({}), &["-t."], "", "0f", "")]
#[case::a_set_that_rests(json!({"paused": true}), &["-..", "-.f"], "", "", "1")]
#[case::one_for_new_pods_alone(json!({"type": "NotUpdate"}), &["-.."], "", "", "")]
#[case::it_can_again(json!({"paused": true}), &["of.", "o.."], "", "0t", "")]
#[case::an_upgrade_says_it_later(json!({}), &["of.", "off"], "0", "1t", "")]
#[case::in_the_place_of_a_word(json!({"maxUnavailable": 2}), &["of.", "off", "o.f"], "01", "", "2")]
#[case::an_upgrade_goes_on(json!({}), &["if."], "", "", "")]
#[case::it_has_the_newest(json!({}), &["uf.", "ut.", "u..", "uft"], "", "0t", "")]
fn words(
    #[case] given: Value,
    #[case] of: &[&str],
    #[case] ask: &str,
    #[case] tell: &str,
    #[case] back: &str,
) {
    let word = |letter| match letter {
        't' => Some(true),
        'f' => Some(false),
        _ => None,
    };
    let pods: Vec<_> = of
        .iter()
        .enumerate()
        .map(|(at, letters)| {
            let letters: Vec<char> = letters.chars().collect();
            let known = pod(at, letters[0]);
            let says = |word| PodRequest {
                newest: false,
                given: true,
                attempt: 0,
                phase: None,
                ago: Duration::ZERO,
                word: Some(word),
            };
            let entry = word(letters[2]).map(says).or(known.entry.clone());
            Candidate { told: word(letters[1]), tells: true, entry, ..known }
        })
        .collect();
    let planned = plan(&strategy(given.clone()), &pods);
    let asked: String = planned.ask.iter().map(|(at, _)| at.to_string()).collect();
    let told: String =
        planned.tell.iter().map(|(at, word)| format!("{at}{}", if *word { 't' } else { 'f' })).collect();
    let taken: String = planned.told.iter().map(usize::to_string).collect();
    assert_eq!((&*asked, &*told, &*taken), (ask, tell, back), "{planned:?}");
    // Nothing is planned anew for it: it holds no place.
    assert!(planned.take_back.is_empty(), "{planned:?}");
    // An agent that does not write the condition is asked for none.
    let mute: Vec<_> = pods.into_iter().map(|pod| Candidate { tells: false, ..pod }).collect();
    assert_eq!(plan(&strategy(given), &mute).tell, []);
}

/// Thousands of pods that cannot follow, of which some were asked to be told.
#[rstest]
#[case::none(0, None, Means::Agent, 100)]
#[case::some_wait(30, None, Means::Agent, 70)]
#[case::as_many_as_may(100, None, Means::Agent, 0)]
#[case::some_are_silent(30, None, Means::Silent, 100)]
#[case::some_were_refused(30, Some(UpdatePhase::Failed), Means::Agent, 100)]
fn few_are_told_at_a_time(
    #[case] asked: usize,
    #[case] phase: Option<UpdatePhase>,
    #[case] means: Means,
    #[case] expect: usize,
) {
    let told =
        PodRequest { newest: false, given: true, attempt: 0, phase, ago: Duration::ZERO, word: Some(false) };
    let pods: Vec<_> = (0..5000)
        .map(|at| match at < asked {
            true => Candidate { tells: true, entry: Some(told.clone()), means, ..pod(at, '-') },
            false => Candidate { tells: true, ..pod(at, '-') },
        })
        .collect();
    let planned = plan(&strategy(json!({})), &pods);
    assert_eq!(planned.tell.len(), expect);
    assert_eq!(planned.told.len(), if means == Means::Silent { asked } else { 0 });
}

/// Seconds since a word was refused, whether it is taken back, and when it is looked at again at the latest.
#[rstest]
#[case::now(0, false, Some(600))]
#[case::a_while_ago(599, false, Some(1))]
#[case::long_ago(600, true, Some(0))]
fn a_word_that_was_refused_is_said_anew(#[case] ago: u64, #[case] back: bool, #[case] again_in: Option<u64>) {
    let ago = Duration::from_secs(ago);
    let told = PodRequest {
        newest: false,
        given: true,
        attempt: 0,
        phase: Some(UpdatePhase::Failed),
        ago,
        word: Some(false),
    };
    let planned = plan(&strategy(json!({})), &[Candidate { tells: true, entry: Some(told), ..pod(0, '-') }]);
    assert_eq!(planned.tell, []);
    assert_eq!(planned.told, if back { vec![0] } else { vec![] });
    assert_eq!(planned.again_in, again_in.map(Duration::from_secs));
}

fn ranked<'a>(name: &'a str, labels: &[(&str, &str)], rank: Rank) -> Candidate<'a> {
    let labels: Vec<_> = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Candidate { name, labels: labels.into(), rank, ..pod(0, 'o') }
}

fn running() -> Rank {
    Rank { scheduled: true, phase: Phase::Running, ready: true, ready_since: 100, restarts: 0, created: 50 }
}

fn sorted<'a>(given: Value, pods: &[Candidate<'a>]) -> Vec<&'a str> {
    let mut waiting: Vec<usize> = (0..pods.len()).rev().collect();
    order::sort(&strategy(given), pods, &mut waiting);
    waiting.into_iter().map(|at| &*pods[at].name).collect()
}

#[test]
fn those_first_that_cost_least() {
    let pods = [
        ranked("old", &[], running()),
        ranked("younger", &[], Rank { created: 51, ..running() }),
        ranked("restarted", &[], Rank { restarts: 3, ..running() }),
        ranked("just-ready", &[], Rank { ready_since: 200, ..running() }),
        ranked("not-ready", &[], Rank { ready: false, ..running() }),
        ranked("unknown", &[], Rank { phase: Phase::Unknown, ..running() }),
        ranked("pending", &[], Rank { phase: Phase::Pending, ..running() }),
        ranked("no-node", &[], Rank { scheduled: false, ..running() }),
    ];
    let order = ["no-node", "pending", "unknown", "not-ready", "just-ready", "restarted", "younger", "old"];
    assert_eq!(sorted(json!({}), &pods), order);
}

#[test]
fn priority_by_weights_and_by_labels() {
    let pods = [
        ranked("a", &[("n", "p-2"), ("zone", "x")], running()),
        ranked("b", &[("n", "p-10")], running()),
        ranked("c", &[("n", "none"), ("zone", "y")], running()),
        ranked("d", &[("n", "p-10"), ("zone", "x")], running()),
    ];
    assert_eq!(sorted(json!({}), &pods), ["a", "b", "c", "d"]);
    let labels = json!({ "priorityStrategy": { "orderPriority": [{ "orderedKey": "n" }] } });
    assert_eq!(sorted(labels, &pods), ["b", "d", "a", "c"]);
    // The first label that a pod has counts, and those with none come first.
    let keys = json!([{ "orderedKey": "m" }, { "orderedKey": "n" }]);
    let labels = json!({ "priorityStrategy": { "orderPriority": keys } });
    let pods_of_two = [
        ranked("none", &[], running()),
        ranked("second", &[("n", "p-99")], running()),
        ranked("first", &[("m", "p-1"), ("n", "p-99")], running()),
        ranked("no-number", &[("m", "x")], running()),
        ranked("larger", &[("m", "p-2")], running()),
    ];
    assert_eq!(sorted(labels, &pods_of_two), ["none", "larger", "first", "no-number", "second"]);
    let weights = json!({ "priorityStrategy": { "weightPriority": [
        { "weight": 20, "matchSelector": { "matchLabels": { "zone": "y" } } },
        { "weight": 15, "matchSelector": { "matchLabels": { "zone": "x" } } },
        { "weight": 10, "matchSelector": { "matchLabels": { "n": "p-10" } } },
    ] } });
    assert_eq!(sorted(weights, &pods), ["d", "c", "a", "b"]);
}

#[test]
fn labels_are_spread() {
    let pods: Vec<_> = (0..8)
        .map(|at| ranked(at.to_string().leak(), if at < 2 { &[("zone", "x")] } else { &[] }, running()))
        .collect();
    let spread = ["0", "2", "3", "4", "5", "6", "7", "1"];
    for value in ["x", "*"] {
        assert_eq!(sorted(json!({ "scatterStrategy": [{ "key": "zone", "value": value }] }), &pods), spread);
    }
    let nobody = json!({ "scatterStrategy": [{ "key": "zone", "value": "y" }] });
    assert_eq!(sorted(nobody, &pods), ["0", "1", "2", "3", "4", "5", "6", "7"]);
}
