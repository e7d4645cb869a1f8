use serde_json::json;

use super::*;
use crate::probes::node_pod_probe::convert;

/// A conversation with one pod, `shop/game`, and the marker `m`.
struct Play {
    approval: Approval,
    now: Instant,
}

fn name() -> MarkerName {
    ("shop".into(), "m".into())
}

fn live(label: &str) -> LivePod {
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "game", "namespace": "shop", "uid": "u", "labels": { "app": label } },
        "spec": { "containers": [{ "name": "main" }] },
    }));
    LivePod::of(&pod.unwrap()).unwrap().1
}

fn marker(command: &str) -> MarkerSeen {
    let object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "PodProbeMarker",
        "metadata": { "name": "m", "namespace": "shop" },
        "spec": {
            "selector": { "matchLabels": { "app": "game" } },
            "probes": [{ "name": "a", "containerName": "main", "probe": { "exec": { "command": [command] } },
                "podConditionType": "game.io/a" }],
        },
    });
    MarkerSeen::of(serde_json::from_value(object).unwrap())
}

fn entry(command: &str) -> WantedPods {
    of("u", "shop", "game", "m#a", command)
}

fn of(uid: &str, namespace: &str, name: &str, probe: &str, command: &str) -> WantedPods {
    let pod = json!({ "name": name, "namespace": namespace, "uid": uid, "IP": "", "probes": [
        { "name": probe, "containerName": "main", "probe": { "exec": { "command": [command] } },
            "podConditionType": "game.io/a" },
    ] });
    convert::wanted(&[serde_json::from_value(pod).unwrap()])
}

impl Play {
    fn new() -> Self {
        Self { approval: Approval::default(), now: tokio::time::Instant::now().into_std() }
    }

    /// Everything is there, and agrees.
    fn agreed() -> Self {
        let mut play = Self::new();
        play.show(entry("x"));
        play.see("game");
        play.stands();
        play.hear(marker("x"));
        assert_eq!(play.stands(), "run x");
        play
    }

    fn show(&mut self, desired: WantedPods) {
        self.approval.show(desired, WantedPods::default(), self.now);
    }

    fn see(&mut self, label: &str) {
        self.approval.see("u".to_owned(), live(label));
        self.approval.listed(|_| true);
    }

    fn hear(&mut self, seen: MarkerSeen) {
        self.approval.hear(&name(), seen);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn decide(&mut self) -> Decision {
        self.approval.follow();
        self.approval.decide(self.now)
    }

    /// The fate of the entry.
    fn stands(&mut self) -> String {
        let Some(wanted) = self.decide().wanted else { return "not known".to_owned() };
        let Some(probe) = wanted.first().map(|pod| &pod.probes[0]) else { return "nothing".to_owned() };
        match &probe.probe {
            Err(why) => {
                assert_eq!(probe.condition_type, None, "what is refused marks nothing");
                format!("refused: {why}")
            }
            Ok(run) => {
                let berth_policy::ProbeAction::Exec { command } = &run.action else { panic!("{run:?}") };
                format!("{} {}", if probe.paused { "paused" } else { "run" }, command[0])
            }
        }
    }
}

#[test]
fn the_order_of_the_news_does_not_matter() {
    let show = |play: &mut Play| play.show(entry("x"));
    let see = |play: &mut Play| play.see("game");
    let hear = |play: &mut Play| play.hear(marker("x"));
    let steps: [&dyn Fn(&mut Play); 3] = [&show, &see, &hear];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut play = Play::new();
        for step in order {
            assert_ne!(play.stands(), "run x", "{order:?}");
            steps[step](&mut play);
        }
        // Heard of before it was followed, it is heard of again by the watch that begins now.
        play.stands();
        hear(&mut play);
        assert_eq!(play.stands(), "run x", "{order:?}");
    }
}

#[test]
fn the_first_list_waits_for_the_markers_and_not_for_ever() {
    let mut play = Play::new();
    assert_eq!(play.decide(), Decision::default());
    play.show(entry("x"));
    play.see("game");
    let decision = play.decide();
    assert_eq!((decision.wanted, decision.again), (None, Some(play.now + FIRST)));
    play.pass(FIRST);
    assert_eq!(play.stands(), "nothing");
    play.hear(marker("x"));
    assert_eq!(play.stands(), "run x");
}

/// Pods come one by one: what an earlier process approved is not refused because its pod was not among the
/// first.
#[test]
fn the_first_list_waits_for_the_pods() {
    let mut play = Play::new();
    play.show(entry("x"));
    play.approval.see("other".to_owned(), live("game"));
    assert_eq!(play.stands(), "not known");
    play.see("game");
    play.stands();
    play.hear(marker("x"));
    assert_eq!(play.stands(), "run x");
}

#[test]
fn what_nobody_asks_for_does_not_begin_and_is_said_after_a_while() {
    for seen in [MarkerSeen::Absent, marker("y")] {
        let mut play = Play::new();
        play.show(entry("x"));
        play.see("game");
        play.stands();
        play.hear(seen);
        let decision = play.decide();
        assert_eq!((decision.wanted, decision.again), (Some(Vec::new()), Some(play.now + APART)));
        play.pass(APART);
        assert!(play.stands().starts_with("refused: "));
        assert_eq!(play.decide().refused.len(), 1);
        play.hear(marker("x"));
        assert_eq!(play.stands(), "run x");
        assert_eq!(play.decide().refused, []);
    }
}

/// Whichever says so first.
#[test]
fn a_marker_that_changes_ends_the_old_probe_and_begins_the_new_one() {
    let mut play = Play::agreed();
    play.hear(marker("y"));
    assert_eq!(play.stands(), "paused x");
    play.show(entry("y"));
    assert_eq!(play.stands(), "run y");
    play.show(entry("z"));
    assert_eq!(play.stands(), "paused y");
    play.hear(marker("z"));
    assert_eq!(play.stands(), "run z");
}

#[test]
fn what_was_approved_and_is_not_asked_for_any_more_ends() {
    let endings: [&dyn Fn(&mut Play); 4] = [
        &|play| play.hear(MarkerSeen::Absent),
        &|play| play.hear(marker("y")),
        &|play| play.see("other"),
        &|play| play.show(entry("y")),
    ];
    for (case, end) in endings.iter().enumerate() {
        let mut play = Play::agreed();
        end(&mut play);
        assert_eq!(play.stands(), "paused x", "{case}");
        play.pass(APART);
        assert!(play.stands().starts_with("refused: "), "{case}");
        // Nothing of what was approved before is left.
        play.show(WantedPods::default());
        assert_eq!(play.stands(), "nothing", "{case}");
        assert!(play.approval.approved.is_empty() && play.approval.doubted.is_empty(), "{case}");
    }
}

/// A watch that is lost says nothing; one that is refused takes nothing back.
#[test]
fn what_was_approved_goes_on_while_nobody_tells() {
    let mut play = Play::agreed();
    play.hear(MarkerSeen::Forbidden);
    play.pass(10 * APART);
    assert_eq!(play.stands(), "run x");
    play.show(entry("y"));
    play.pass(APART);
    assert_eq!(play.stands(), "paused x");
    play.pass(APART);
    assert!(play.stands().starts_with("refused: "));
}

#[test]
fn a_marker_that_may_not_be_read_asks_for_nothing() {
    let mut play = Play::new();
    play.show(entry("x"));
    play.see("game");
    play.stands();
    play.hear(MarkerSeen::Forbidden);
    play.stands();
    play.pass(APART);
    assert!(play.stands().contains("may not read PodProbeMarkers"));
}

#[test]
fn another_ones_pod_is_named_and_left_alone() {
    let mut play = Play::agreed();
    play.show(of("u", "mine", "game", "m#a", "x"));
    let decision = play.decide();
    assert_eq!(decision.wanted, Some(Vec::new()));
    assert_eq!(decision.refused[0].why, Refusal::OtherPod);
    // A pod that has gone is asked about for a while: that is nothing to speak of.
    play.show(of("gone", "shop", "game", "m#a", "x"));
    play.stands();
    play.pass(APART);
    assert_eq!(play.decide(), Decision { wanted: Some(Vec::new()), ..Decision::default() });
}

#[test]
fn so_many_markers_are_followed_and_no_others() {
    let mut play = Play::new();
    play.see("game");
    let mut asked = entry("x");
    let probe = asked.pods[0].probes[0].clone();
    asked.pods[0].probes = (0..MOST_MARKERS + 2)
        .map(|number| WantedProbe { name: format!("m{number}#a").into(), ..probe.clone() })
        .collect();
    // Those of pods that are not here are not even looked at.
    asked.pods.push(WantedPod {
        pod: PodRef { uid: "v".into(), ..asked.pods[0].pod.clone() },
        probes: vec![probe],
    });
    play.show(asked);
    let followed = play.approval.follow();
    assert_eq!(followed.len(), MOST_MARKERS);
    for name in &followed {
        play.approval.hear(name, marker("x"));
    }
    play.stands();
    play.pass(APART);
    let refused = play.decide().refused;
    let why: Vec<_> = refused.iter().map(|refused| refused.why.clone()).collect();
    assert_eq!(why, [Refusal::TooMany(MOST_MARKERS), Refusal::TooMany(MOST_MARKERS)]);
    play.show(WantedPods::default());
    assert!(play.approval.follow().is_empty());
}

#[test]
fn what_the_spec_asks_for_needs_no_marker() {
    let mut play = Play::new();
    play.approval.show(WantedPods::default(), entry("x"), play.now);
    assert_eq!(play.stands(), "run x");
}

/// Rows: the markers of each namespace, those of them that are followed already, and how many are followed.
#[test]
fn markers_are_shared_by_namespaces() {
    type Row<'a> = (&'a [(&'a str, usize)], &'a [(&'a str, usize)], &'a [(&'a str, usize)]);
    let table: [Row<'_>; 6] = [
        (&[("a", 3), ("b", 2)], &[], &[("a", 3), ("b", 2)]),
        // One that names many leaves room for the others, whatever their names are.
        (&[("a", 500), ("b", 2), ("c", 70)], &[], &[("a", 63), ("b", 2), ("c", 63)]),
        (&[("z", 500), ("b", 2)], &[], &[("z", 126), ("b", 2)]),
        // It had them all before the other one came.
        (&[("a", 500), ("b", 1)], &[("a", 128)], &[("a", 127), ("b", 1)]),
        (&[("a", 500), ("b", 500)], &[("b", 128)], &[("a", 64), ("b", 64)]),
        (&[("a", 500)], &[], &[("a", 128)]),
    ];
    let all = |counts: &[(&str, usize)]| -> BTreeSet<MarkerName> {
        let names = counts.iter().flat_map(|(namespace, count)| {
            (0..*count).map(move |number| (Arc::from(*namespace), format!("m{number:03}").into()))
        });
        names.collect()
    };
    for (named, followed, expected) in table {
        let before = all(followed);
        let chosen = shared(all(named), |name| before.contains(name));
        for (namespace, count) in expected {
            let of = chosen.iter().filter(|(of, _)| **of == **namespace).count();
            assert_eq!(of, *count, "{namespace} of {named:?} after {followed:?}");
        }
        assert_eq!(shared(all(named), |name| chosen.contains(name)), chosen, "they stay");
    }
    // Of one namespace those that are followed stay, whatever their names.
    let late: BTreeSet<MarkerName> = all(&[("a", 500)]).into_iter().skip(300).take(128).collect();
    assert_eq!(shared(all(&[("a", 500)]), |name| late.contains(name)), late);
}
