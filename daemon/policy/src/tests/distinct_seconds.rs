//! Levels in distinct seconds of the wall clock.

use std::time::{Duration, Instant};

use super::world::{World, latch, pod};
use crate::{Config, ContainerName, Event, HoldReason, Pod, Readiness, RestartPolicy, Verdict};

/// The wall clock when the tests' own clock begins.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);

/// A node whose wall clock goes right; times are milliseconds since it began.
struct Play {
    world: World,
    begin: Instant,
}

impl Play {
    fn of(pod: &Pod, config: Config) -> Self {
        let mut play = Self::unread(pod, config);
        play.world.node.clock_read(BEGIN, play.begin);
        play
    }

    /// The same, and nobody has read the wall clock.
    fn unread(pod: &Pod, config: Config) -> Self {
        let mut world = World::with(config);
        let begin = world.now;
        world.apply(Event::ViewFresh(true));
        world.apply(pod.seen());
        Self { world, begin }
    }

    fn at(&mut self, millis: u64) -> &mut World {
        self.world.now = self.begin + Duration::from_millis(millis);
        &mut self.world
    }

    /// The end of a hold for the second, and for whom.
    fn held(&self, verdict: &Verdict) -> Option<(u128, String)> {
        match verdict {
            Verdict::Hold { until, why: HoldReason::SameSecond(names) } => {
                let names: Vec<&str> = names.iter().map(ContainerName::as_str).collect();
                Some((until.duration_since(self.begin).as_millis(), names.join(" ")))
            }
            Verdict::Latch(_) => None,
            other => panic!("{other:?}"),
        }
    }
}

fn on() -> Config {
    Config { distinct_seconds: true, ..Config::default() }
}

#[test]
fn a_level_begins_in_a_later_second_than_those_above_it() {
    let (two, three) = (pod(&[("a", "3"), ("z", "1")]), pod(&[("a", "3"), ("b", "2"), ("z", "1")]));
    let pair = pod(&[("a", "3"), ("b", "3"), ("z", "1")]);
    let short = Config { hold: Duration::from_millis(200), ..on() };
    let table = [
        (&two, on(), &[("a", 10_900)][..], 10_950, Some((11_000, "a"))),
        (&two, on(), &[("a", 10_000)], 10_001, Some((11_000, "a"))),
        (&two, on(), &[("a", 10_999)], 10_999, Some((11_000, "a"))),
        (&two, on(), &[("a", 10_900)], 11_000, None),
        (&two, on(), &[("a", 10_900)], 11_010, None),
        (&two, Config::default(), &[("a", 10_900)], 10_950, None),
        // The last one above counts; of one level none waits for the other.
        (&three, on(), &[("a", 10_100), ("b", 11_400)], 11_450, Some((12_000, "b"))),
        (&pair, on(), &[("a", 10_100), ("b", 10_300)], 10_500, Some((11_000, "a b"))),
        (&pair, on(), &[("a", 10_900), ("b", 11_100)], 11_200, Some((12_000, "b"))),
        // No call is held longer than any other.
        (&two, short, &[("a", 10_100)], 10_150, Some((10_350, "a"))),
    ];
    for (pod, config, above, asked, expected) in table {
        let row = format!("{above:?} {asked} {}", config.distinct_seconds);
        let mut play = Play::of(pod, config);
        for (name, started) in above {
            play.at(*started).launch(pod, name);
        }
        let (call, verdict) = play.at(asked).create(pod, "z");
        let expected = expected.map(|(until, names)| (until, names.to_owned()));
        assert_eq!(play.held(&verdict), expected, "{row}");
        let Some((until, _)) = expected else { continue };
        let until = u64::try_from(until).unwrap();
        let before = play.at(until - 1).ask(&call);
        assert_eq!(play.held(&before), expected, "{row}");
        assert_eq!(play.at(until).ask(&call), latch(1), "{row}");
    }
}

#[test]
fn a_restart_is_not_held() {
    let pod = pod(&[("a", "2"), ("b", "1")]);
    let mut play = Play::of(&pod, on());
    play.at(10_100).launch(&pod, "a");
    play.at(11_100).launch(&pod, "b");
    play.at(12_000).exit("a-0", 1);
    play.world.exit("b-0", 1);
    let (call, verdict) = play.at(12_100).create(&pod, "a");
    assert_eq!(verdict, Verdict::Forward);
    play.world.start(&call, "a-1");
    assert_eq!(play.at(12_150).create(&pod, "b").1, Verdict::Forward);
}

/// One that is through when the next level begins was started in its second all the same. Rows: when it was
/// started, when it ended, whether the runtime is told of the end, when the next level asks, and the end of
/// the hold.
#[test]
fn the_start_of_one_that_has_ended_counts() {
    let table = [
        (10_100, 10_300, false, 10_400, Some(11_000)),
        (10_100, 10_300, true, 10_400, Some(11_000)),
        (10_900, 11_050, false, 11_100, None),
    ];
    for (started, ended, is_told, asked, expected) in table {
        let row = format!("{started} {is_told}");
        let pod = pod(&[("a", "2"), ("b", "1")]).restarts(RestartPolicy::Never);
        let mut play = Play::of(&pod, on());
        play.at(started).launch(&pod, "a");
        play.at(ended).exit("a-0", 0);
        if is_told {
            play.world.apply(Event::ContainerStopped("a-0".into()));
        }
        let verdict = play.at(asked).create(&pod, "b").1;
        let expected = expected.map(|until| (until, "a".to_owned()));
        assert_eq!(play.held(&verdict), expected, "{row}");
    }
}

/// One that takes a while to become Ready has left its second behind.
#[test]
fn the_start_counts_and_not_readiness() {
    for (ready, expected) in [(12_300, None), (10_400, Some((11_000, "a".to_owned())))] {
        let pod = pod(&[("a", "2"), ("b", "1")]).becomes_ready_by("a", Readiness::ReadinessProbe);
        let mut play = Play::of(&pod, on());
        play.at(10_100).launch(&pod, "a");
        let pod = pod.report("a", "a-0", true);
        play.at(ready).apply(pod.seen());
        let verdict = play.world.create(&pod, "b").1;
        assert_eq!(play.held(&verdict), expected, "{ready}");
    }
}

/// Nobody waits longer than a second for what the clock shows, nor where nobody has read it.
#[test]
fn a_clock_that_was_set_holds_no_longer() {
    let pod = pod(&[("a", "2"), ("b", "1")]);
    for set_to in (0..2_000).step_by(37).map(Some).chain([None]) {
        let mut play = Play::unread(&pod, on());
        play.at(10_900).launch(&pod, "a");
        let now = play.at(10_950).now;
        if let Some(millis) = set_to {
            play.world.node.clock_read(Duration::from_millis(millis), now);
        }
        let (call, verdict) = play.world.create(&pod, "b");
        let until = play.held(&verdict).map_or(10_950, |(until, _)| until);
        assert!((10_950..=11_950).contains(&until), "{set_to:?}: {until}");
        let now = play.at(11_950).now;
        if let Some(millis) = set_to {
            play.world.node.clock_read(Duration::from_millis(millis), now);
        }
        let verdict = play.world.ask(&call);
        assert!(matches!(verdict, Verdict::Latch(_) | Verdict::Forward), "{set_to:?}: {verdict:?}");
    }
}
