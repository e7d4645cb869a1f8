//! Thirty days: the controller is killed at random, before and after each of its writes, and stays away for
//! seconds or hours. Each time is run once, or told as missed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, tz::TimeZone};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::ChildState,
    world::{World, after, at},
};
use crate::{jobs::Action, schedule::Schedule};

const BEGIN: &str = "2026-03-10T00:00:00Z";
const SECONDS: i64 = 30 * 86_400;

/// Numbers at random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn up_to(&mut self, most: i64) -> i64 {
        i64::try_from(self.below(u64::try_from(most).unwrap())).unwrap()
    }
}

/// Ends jobs, and takes away those that delete themselves.
fn live(
    world: &mut World,
    ends: &mut BTreeMap<String, (Timestamp, Timestamp)>,
    dice: &mut Dice,
    ttl: Option<i64>,
) {
    let new: Vec<String> = world.children.keys().filter(|name| !ends.contains_key(*name)).cloned().collect();
    for name in new {
        let over = after(world.children[&name].started, dice.up_to(5400));
        ends.insert(name, (over, ttl.map_or(Timestamp::MAX, |ttl| after(over, ttl))));
    }
    let now = world.now;
    for child in world.children.values_mut().filter(|child| ends[&child.name].0 <= now) {
        child.state = if dice.below(4) == 0 { ChildState::Failed } else { ChildState::Succeeded };
    }
    world.children.retain(|name, _| ends[name].1 > now);
}

#[rstest]
#[case::every_minute("* * * * *", json!({}), None)]
#[case::allow("*/10 * * * *", json!({}), None)]
#[case::forbid("*/10 * * * *", json!({ "concurrencyPolicy": "Forbid" }), None)]
#[case::replace("*/10 * * * *", json!({ "concurrencyPolicy": "Replace" }), None)]
#[case::a_deadline("*/10 * * * *", json!({ "startingDeadlineSeconds": 120 }), None)]
#[case::forbid_and_a_deadline("*/20 * * * *",
    json!({ "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 300 }), None)]
#[case::over_a_switch("*/15 1-3 * * *", json!({ "timeZone": "Europe/Berlin" }), None)]
#[case::every("@every 17m", json!({ "startingDeadlineSeconds": 400 }), None)]
#[case::deletes_itself("*/10 * * * *", json!({}), Some(0))]
#[case::deletes_itself_later("*/10 * * * *", json!({ "concurrencyPolicy": "Forbid" }), Some(30))]
fn each_time_once_or_told(#[case] schedule: &str, #[case] spec: Value, #[case] ttl: Option<i64>) {
    // The long ones once.
    let seeds = if schedule == "* * * * *" || spec.get("timeZone").is_some() { 1 } else { 3 };
    for seed in 1..=seeds {
        month(schedule, &spec, ttl, seed);
    }
}

fn month(text: &str, spec: &Value, ttl: Option<i64>, seed: u64) {
    let mut dice = Dice(seed);
    let mut spec = spec.clone();
    spec["successfulJobsHistoryLimit"] = json!(0);
    spec["failedJobsHistoryLimit"] = json!(0);
    let mut of_job = json!({ "template": { "spec": { "restartPolicy": "Never" } } });
    if let Some(ttl) = ttl {
        of_job["ttlSecondsAfterFinished"] = ttl.into();
    }
    spec["template"] = json!({ "jobTemplate": { "spec": of_job } });
    let mut world = World::new(BEGIN, text, spec);
    let (begin, end) = (at(BEGIN), after(at(BEGIN), SECONDS));
    let mut ends = BTreeMap::new();
    let mut told: BTreeSet<(Timestamp, Timestamp, i32)> = BTreeSet::new();
    let mut kills = 0;
    while world.now < end {
        live(&mut world, &mut ends, &mut dice, ttl);
        let plan = world.plan();
        let killed = dice.below(40) == 0;
        if dice.below(50) == 0 && plan.actions.iter().any(|one| matches!(one, Action::Create(..))) {
            // The API server refuses it; the controller knows that while it lives.
            let Some(Action::Create(_, object)) = plan.actions.last() else { panic!("{plan:?}") };
            world.refused = object["metadata"]["name"].as_str().map(str::to_owned);
            world.carry_out(&plan, 1 + usize::from(plan.status_first));
        } else {
            let writes = if killed { usize::try_from(dice.below(4)).unwrap() } else { usize::MAX };
            world.carry_out(&plan, writes);
        }
        if let Some(missed) = world.job.status.as_ref().and_then(|status| status.missed.clone()) {
            told.insert((missed.first.unwrap().0, missed.last.unwrap().0, missed.count));
        }
        if killed {
            kills += 1;
            world.refused = None;
            let away = if dice.below(3) == 0 { 20_000 } else { 60 };
            world.now = after(world.now, dice.up_to(away));
        } else if plan.actions.is_empty() && plan.status.is_none() {
            let again = plan.again.map_or(60, |again| i64::try_from(again.as_secs()).unwrap() + 1);
            world.now = after(world.now, again.min(1 + dice.up_to(900)));
        } else {
            world.now = after(world.now, dice.up_to(2));
        }
    }
    assert!(kills > 20, "{kills}");
    let zone = world.job.spec.time_zone.as_deref();
    let schedule = Schedule::parse(text, zone, &TimeZone::UTC).unwrap();
    let made: BTreeSet<Timestamp> = world.made.iter().copied().collect();
    assert_eq!(made.len(), world.made.len(), "{text} {seed}: a time was run twice");
    // The last ones may wait still.
    let settled = after(end, -30_000);
    let (mut time, mut times) = (begin, 0);
    while let Some(next) = schedule.next(time).filter(|next| *next < settled) {
        let in_told = told.iter().filter(|(first, last, _)| (*first..=*last).contains(&next)).count();
        if made.contains(&next) {
            times += 1;
            // Whether one that deletes itself was run nobody knows.
            assert!(in_told == 0 || ttl.is_some(), "{text} {seed}: {next} was run, and told as missed");
        } else {
            assert_eq!(in_told, 1, "{text} {seed}: {next} was not run, and told {in_told} times");
        }
        time = next;
    }
    assert!(times > 100, "{times}");
    assert!(made.iter().all(|time| schedule.next(after(*time, -1)) == Some(*time) || text.starts_with('@')));
}
