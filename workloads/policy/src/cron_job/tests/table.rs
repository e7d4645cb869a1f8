//! Tables of cases.

use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::{ChildState, ChildView, SCHEDULED_AT},
    world::{World, after, at},
};
use crate::jobs::{Action, Kind};

/// Jobs that are made at each of the times at which the controller looks.
#[rstest]
#[case::half_hours("*/30 * * * *", json!({}), &[
    ("01T10:29:59", ""), ("01T10:30:00", "01 10:30"), ("01T10:59:59", ""), ("01T11:00:10", "01 11:00"),
])]
#[case::newest_of_the_missed("0 * * * *", json!({}), &[
    ("01T10:10:00", ""), ("01T12:10:00", "01 12:00"), ("01T12:59:59", ""), ("01T13:00:00", "01 13:00"),
])]
#[case::too_late("0 * * * *", json!({ "startingDeadlineSeconds": 200 }), &[
    ("01T12:10:00", ""), ("01T12:59:00", ""), ("01T13:00:00", "01 13:00"), ("01T14:03:20", "01 14:00"),
    ("01T15:03:21", ""),
])]
// OpenKruise stops for ever after a hundred.
#[case::more_than_a_hundred("* * * * *", json!({}), &[
    ("01T13:30:30", "01 13:30"), ("01T13:31:00", "01 13:31"),
])]
#[case::every("@every 40m", json!({}), &[
    ("01T10:40:00", ""), ("01T10:50:00", "01 10:50"), ("01T12:15:00", "01 12:10"),
    ("01T12:50:00", "01 12:50"),
])]
// OpenKruise counts from the deadline on, and makes none.
#[case::every_with_a_deadline("@every 40m", json!({ "startingDeadlineSeconds": 60 }), &[
    ("01T10:50:30", "01 10:50"), ("01T11:35:00", ""), ("01T12:10:00", "01 12:10"),
])]
#[case::a_zone("0 5 * * *", json!({ "timeZone": "Asia/Tokyo" }), &[
    ("01T19:59:59", ""), ("01T20:00:00", "01 20:00"),
])]
#[case::a_clock_that_went_back("*/30 * * * *", json!({}), &[
    ("01T11:00:00", "01 11:00"), ("01T10:00:00", ""), ("01T10:45:00", ""), ("01T11:30:00", "01 11:30"),
])]
fn what_is_made(#[case] schedule: &str, #[case] spec: Value, #[case] looks: &[(&str, &str)]) {
    let mut world = World::new("2026-01-01T10:10:00Z", schedule, spec);
    for (time, made) in looks {
        assert_eq!(world.at(&format!("2026-01-{time}Z")).join(", "), *made, "{time}");
    }
}

#[test]
fn a_job_is_built_of_the_template_and_its_time() {
    let mut world = World::new("2026-01-01T10:10:00Z", "@hourly", json!({}));
    world.now = at("2026-01-01T11:00:02Z");
    let plan = world.plan();
    let [Action::Create(Kind::Job, job)] = &plan.actions[..] else { panic!("{plan:?}") };
    assert_eq!(
        job["metadata"],
        json!({
            "namespace": "ns", "name": "report-1767265200", "labels": { "app": "report" },
            "annotations": { SCHEDULED_AT: "2026-01-01T11:00:00Z" },
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "AdvancedCronJob", "name": "report", "uid": "u",
                "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
    assert_eq!(job["spec"]["aFieldOfLater"], 1);
    world.carry_out(&plan, usize::MAX);
    let plan = world.settle();
    let status = json!(world.job.status);
    assert_eq!(
        (&status["lastScheduleTime"], &status["type"]),
        (&json!("2026-01-01T11:00:00Z"), &json!("Job"))
    );
    assert_eq!(
        status["active"],
        json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": "report-1767265200", "namespace": "ns", "uid": "child-1",
        }])
    );
    assert_eq!(plan.again, Some(Duration::from_millis(3_598_001)));
}

#[test]
fn a_broadcast_job_is_built_too() {
    let template = json!({ "broadcastJobTemplate": { "spec": {
        "template": { "spec": { "restartPolicy": "Never", "containers": [] } },
    }}});
    let mut world = World::new("2026-01-01T10:10:00Z", "@hourly", json!({ "template": template }));
    world.now = at("2026-01-01T11:00:00Z");
    let plan = world.plan();
    let [Action::Create(Kind::BroadcastJob, job)] = &plan.actions[..] else { panic!("{plan:?}") };
    assert_eq!(
        (&job["apiVersion"], &job["kind"]),
        (&json!("apps.kruise.io/v1alpha1"), &json!("BroadcastJob"))
    );
}

/// The jobs of a time that has passed, with what their going on does to the next one.
#[rstest]
#[case::allow("Allow", &["01 11:30"], &[])]
#[case::forbid("Forbid", &[], &[])]
#[case::replace("Replace", &["01 11:30"], &["report-1767265200"])]
fn a_run_that_goes_on(#[case] policy: &str, #[case] made: &[&str], #[case] deleted: &[&str]) {
    let spec = json!({ "concurrencyPolicy": policy });
    let mut world = World::new("2026-01-01T10:50:00Z", "*/30 * * * *", spec);
    assert_eq!(world.at("2026-01-01T11:00:00Z"), ["01 11:00"]);
    assert_eq!(world.at("2026-01-01T11:30:00Z"), made);
    assert_eq!(world.deleted, deleted);
    if policy == "Forbid" {
        // When it ends, the newest that was missed begins, and the one before it is told.
        assert!(world.at("2026-01-01T12:05:00Z").is_empty());
        world.end("report-1767265200", ChildState::Succeeded);
        assert_eq!(world.at("2026-01-01T12:10:00Z"), ["01 12:00"]);
        let missed = json!(world.job.status)["missed"].clone();
        assert_eq!((&missed["first"], &missed["count"]), (&json!("2026-01-01T11:30:00Z"), &json!(1)));
    }
}

/// A time is made once, though its job is gone at once; OpenKruise makes it again without end.
#[test]
fn a_history_of_none_forgets_nothing() {
    let spec = json!({ "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0 });
    let mut world = World::new("2026-01-01T10:50:00Z", "@hourly", spec);
    assert_eq!(world.at("2026-01-01T11:00:00Z"), ["01 11:00"]);
    world.end("report-1767265200", ChildState::Succeeded);
    assert!(world.at("2026-01-01T11:00:05Z").is_empty());
    assert_eq!(world.deleted, ["report-1767265200"]);
    assert!(world.children.is_empty() && world.at("2026-01-01T11:00:10Z").is_empty());
    assert_eq!(json!(world.job.status)["lastScheduleTime"], "2026-01-01T11:00:00Z");
}

/// A job that ended before the status has its time is not deleted before it has.
#[test]
fn nothing_is_deleted_before_it_is_on_file() {
    let spec = json!({ "successfulJobsHistoryLimit": 0 });
    let mut world = World::new("2026-01-01T10:50:00Z", "@hourly", spec);
    world.now = at("2026-01-01T11:00:00Z");
    let plan = world.plan();
    plan.actions.iter().for_each(|action| world.write(action));
    world.end("report-1767265200", ChildState::Succeeded);
    let plan = world.plan();
    assert!(plan.actions.is_empty() && plan.status_first, "{plan:?}");
    world.carry_out(&plan, usize::MAX);
    assert!(matches!(world.plan().actions[..], [Action::Forget(..)]));
}

#[test]
fn the_oldest_of_the_history_go() {
    let spec = json!({ "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1, "paused": true });
    let mut world = World::new("2026-01-01T10:50:00Z", "@hourly", spec);
    for (hour, state) in [(1, 'S'), (2, 'F'), (3, 'S'), (4, 'F'), (5, 'S'), (6, 'A')] {
        let time = after(at("2026-01-01T10:00:00Z"), hour * 3600);
        let mut spec = world.job.clone();
        spec.spec.paused = None;
        let rules = super::super::Rules::of(&spec, &jiff::tz::TimeZone::UTC).unwrap();
        world.write(&Action::Create(Kind::Job, super::super::build::child(&rules, &spec, time)));
        let child = world.children.get_mut(&rules.child(time)).unwrap();
        child.started = time;
        child.state = match state {
            'S' => ChildState::Succeeded,
            'F' => ChildState::Failed,
            _ => ChildState::Active,
        };
    }
    world.now = at("2026-01-01T16:30:00Z");
    world.settle();
    let name = |hour: i64| format!("report-{}", after(at("2026-01-01T10:00:00Z"), hour * 3600).as_second());
    assert_eq!(world.deleted, [name(2), name(1)]);
}

#[test]
fn one_that_rests_makes_none_and_then_the_newest() {
    let mut world = World::new("2026-01-01T10:10:00Z", "*/30 * * * *", json!({ "paused": true }));
    assert!(world.at("2026-01-01T12:10:00Z").is_empty());
    assert_eq!(world.settle().again, None);
    world.job.spec.paused = Some(false);
    assert_eq!(world.at("2026-01-01T12:10:00Z"), ["01 12:00"]);
    let missed = json!(world.job.status)["missed"].clone();
    assert_eq!((&missed["last"], &missed["count"]), (&json!("2026-01-01T11:30:00Z"), &json!(3)));
}

#[test]
fn what_was_missed_is_told_and_stays_so() {
    let mut world = World::new("2026-01-01T10:10:00Z", "* * * * *", json!({}));
    world.now = at("2026-01-01T13:30:30Z");
    let plan = world.plan();
    assert!(plan.status_first && plan.notes[0].reason == "TooManyMissedTimes", "{plan:?}");
    assert!(plan.notes[0].text.contains("more than 100 runs from 2026-01-01T10:11:00Z"), "{plan:?}");
    // Killed between the two writes: nothing is told twice, and the newest run begins.
    world.carry_out(&plan, 2);
    assert!(world.made.is_empty());
    let plan = world.plan();
    assert!(plan.notes.is_empty() && plan.actions.len() == 1, "{plan:?}");
    world.settle();
    assert_eq!(json!(world.job.status)["missed"]["count"], 101);
    assert_eq!(json!(world.job.status)["decidedUntil"], "2026-01-01T13:29:00Z");
}

/// Everybody who looks once a day finds each of them, though runs are missed again and again.
#[test]
fn what_was_missed_before_is_told_too() {
    let spec = json!({ "startingDeadlineSeconds": 60 });
    let mut world = World::new("2026-01-01T00:00:00Z", "@hourly", spec);
    for hour in 1..=20 {
        assert!(world.at(&format!("2026-01-01T{hour:02}:30:00Z")).is_empty());
    }
    let status = json!(world.job.status);
    assert_eq!(status["missed"]["first"], "2026-01-01T20:00:00Z");
    let before = status["missedBefore"].as_array().unwrap();
    let before: Vec<&str> = before.iter().map(|missed| missed["first"].as_str().unwrap()).collect();
    let expected: Vec<String> = (5..20).rev().map(|hour| format!("2026-01-01T{hour:02}:00:00Z")).collect();
    assert_eq!(before, expected);
}

/// A job that deletes itself may be gone before anybody has seen it.
#[test]
fn a_run_that_may_have_been_made_is_not_made_again() {
    let template = json!({ "jobTemplate": { "spec": {
        "ttlSecondsAfterFinished": 65, "template": { "spec": { "restartPolicy": "Never" } },
    }}});
    let new = || {
        let mut world =
            World::new("2026-01-01T10:10:00Z", "@hourly", json!({ "template": template.clone() }));
        world.now = at("2026-01-01T11:00:00Z");
        let plan = world.plan();
        assert!(plan.status_first && plan.actions.len() == 1, "{plan:?}");
        world.carry_out(&plan, 2);
        assert!(world.job.status.as_ref().unwrap().starting.is_some() && world.made.is_empty());
        world
    };
    // It cannot be gone yet: it was not made.
    let mut world = new();
    assert_eq!(world.at("2026-01-01T11:00:04Z"), ["01 11:00"]);
    assert!(world.job.status.as_ref().unwrap().starting.is_none());
    // It could be.
    let mut world = new();
    assert!(world.at("2026-01-01T11:00:05Z").is_empty());
    assert_eq!(json!(world.job.status)["missed"]["first"], "2026-01-01T11:00:00Z");
    assert!(world.job.status.as_ref().unwrap().starting.is_none());
    assert_eq!(world.at("2026-01-01T12:00:00Z"), ["01 12:00"]);
    // It was refused: it is not there, however long that takes.
    let mut world = new();
    world.refused = Some("report-1767265200".to_owned());
    assert_eq!(world.at("2026-01-01T11:30:00Z"), ["01 11:00"]);
}

/// Words of a job are its authors': a time that has not come changes nothing.
#[test]
fn a_job_of_the_future_stops_nothing() {
    let mut world = World::new("2026-01-01T10:50:00Z", "@hourly", json!({}));
    assert_eq!(world.at("2026-01-01T11:00:00Z"), ["01 11:00"]);
    let child = world.children.get_mut("report-1767265200").unwrap();
    child.scheduled_at = Some(Timestamp::MAX);
    assert_eq!(world.at("2026-01-01T12:00:00Z"), ["01 12:00"]);
}

/// A clock was ahead by a year when a run was made: none is run again, and that none is run is said. Clocks
/// of replicas may differ a little.
#[test]
fn a_time_on_file_that_is_yet_to_come_is_told() {
    let mut world = World::new("2026-01-01T10:10:00Z", "@hourly", json!({}));
    assert_eq!(world.at("2027-01-01T11:00:00Z"), ["01 11:00"]);
    let table: [(&str, &[&str]); 4] = [
        ("2026-01-01T12:00:00Z", &["DecidedAhead"]),
        ("2027-01-01T10:58:59Z", &["DecidedAhead"]),
        ("2027-01-01T10:59:00Z", &[]),
        ("2027-01-01T11:30:00Z", &[]),
    ];
    for (now, told) in table {
        world.now = at(now);
        let plan = world.settle();
        let reasons: Vec<&str> = plan.notes.iter().map(|note| note.reason).collect();
        assert_eq!((reasons.as_slice(), world.made.len()), (told, 1), "{now}");
    }
}

/// The status has whole seconds: a time with a fraction would be newer than what is on file for ever.
#[rstest]
#[case::long_ago("2026-01-01T10:00:00.5Z", "2026-01-01T10:00:00Z")]
#[case::in_a_moment("2026-01-01T10:50:59.999999999Z", "2026-01-01T10:50:59Z")]
#[case::before_the_epoch("1969-12-31T23:59:58.5Z", "1969-12-31T23:59:59Z")]
fn a_time_with_a_fraction_is_on_file_after_one_write(#[case] annotated: &str, #[case] recorded: &str) {
    let mut world = World::new("2026-01-01T10:50:00Z", "@hourly", json!({}));
    let run = json!({ "metadata": {
        "namespace": "ns", "name": "by-hand", "uid": "by-hand", "annotations": { SCHEDULED_AT: annotated },
    }});
    let run = ChildView::of_job(&serde_json::from_value(run).unwrap());
    world.children.insert("by-hand".to_owned(), run);
    world.carry_out(&world.plan(), usize::MAX);
    assert_eq!(json!(world.job.status)["lastScheduleTime"], recorded);
    assert_eq!(world.plan().again, Some(Duration::from_millis(600_001)), "the next full hour is waited for");
    assert_eq!(world.at("2026-01-01T11:00:00Z"), ["01 11:00"]);
}

#[rstest]
#[case(json!({ "schedule": "61 * * * *" }), "spec.schedule has \"61\" as minute")]
#[case(json!({ "timeZone": "Mars/Olympus" }), "spec.timeZone names the time zone")]
#[case(json!({ "schedule": "TZ=UTC @daily", "timeZone": "UTC" }), "spec.timeZone goes not with")]
#[case(json!({ "concurrencyPolicy": "Maybe" }), "spec.concurrencyPolicy is \"Maybe\"")]
#[case(json!({ "startingDeadlineSeconds": -1 }), "spec.startingDeadlineSeconds is -1")]
#[case(json!({ "successfulJobsHistoryLimit": -1 }), "spec.successfulJobsHistoryLimit is -1")]
#[case(json!({ "failedJobsHistoryLimit": -1 }), "spec.failedJobsHistoryLimit is -1")]
#[case(json!({ "template": {} }), "spec.template has not exactly one")]
#[case(json!({ "template": { "jobTemplate": {}, "broadcastJobTemplate": {} } }), "spec.template has not exactly one")]
#[case(json!({ "template": { "jobTemplate": {} } }), "spec.template.jobTemplate.spec is missing")]
#[case(json!({ "template": { "jobTemplate": { "spec": { "template": { "spec": {} } } } } }),
    "spec.template.jobTemplate.spec.template.spec.restartPolicy is neither")]
#[case(json!({ "template": { "broadcastJobTemplate": { "spec": { "parallelism": [] } } } }),
    "spec.template.broadcastJobTemplate.spec is no spec of a BroadcastJob")]
#[case(json!({ "template": { "broadcastJobTemplate": { "spec": {
    "template": { "spec": { "restartPolicy": "Never" } },
    "completionPolicy": { "type": "Never", "ttlSecondsAfterFinished": 1 } } } } }),
    "spec.template.broadcastJobTemplate.spec.completionPolicy.ttlSecondsAfterFinished is only for type Always")]
fn bad_input_is_told_and_harms_nothing(#[case] spec: Value, #[case] why: &str) {
    let mut world = World::new("2026-01-01T10:50:00Z", "@hourly", spec);
    world.now = at("2026-01-01T12:00:00Z");
    let plan = world.plan();
    assert!(plan.actions.is_empty() && plan.notes[0].text.starts_with(why), "{plan:?}");
    world.carry_out(&plan, usize::MAX);
    assert_eq!(json!(world.job.status)["conditions"][0]["type"], "InvalidSpec");
    // It is told once.
    assert_eq!(world.plan(), super::super::Plan::default());
}

/// No number that an author writes makes a sum overflow.
#[test]
fn the_largest_numbers() {
    let template = json!({ "jobTemplate": { "spec": {
        "ttlSecondsAfterFinished": i32::MAX, "template": { "spec": { "restartPolicy": "Never" } },
    }}});
    let spec = json!({
        "startingDeadlineSeconds": i64::MAX, "successfulJobsHistoryLimit": i32::MAX,
        "failedJobsHistoryLimit": i32::MAX, "template": template,
    });
    let mut world = World::new("2026-01-01T10:50:00Z", "@hourly", spec);
    assert_eq!(world.at("2026-01-01T12:00:00Z"), ["01 12:00"]);
    world.end("report-1767268800", ChildState::Succeeded);
    assert_eq!(world.at("2026-01-01T13:00:00Z"), ["01 13:00"]);
    assert!(world.deleted.is_empty());
}

/// A status has room for some of them, and the definition refuses more.
#[test]
fn of_the_runs_that_go_on_a_thousand_are_listed() {
    let mut world = World::new("2026-01-01T00:00:00Z", "* * * * *", json!({ "paused": true }));
    for number in 0..1200 {
        let name = format!("report-{}", world.now.as_second() + number);
        let run = json!({ "metadata": { "namespace": "ns", "name": name, "uid": name } });
        world.children.insert(name, ChildView::of_job(&serde_json::from_value(run).unwrap()));
    }
    world.now = at("2026-01-02T00:00:00Z");
    world.settle();
    let active = &world.job.status.as_ref().unwrap().active;
    assert_eq!((active.len(), world.children.len()), (1000, 1200));
}

#[test]
fn a_long_name_leaves_no_room_for_the_time() {
    let mut world = World::new("2026-01-01T10:50:00Z", "@hourly", json!({}));
    world.job.metadata.name = Some("a".repeat(53));
    assert!(world.plan().notes[0].text.starts_with("metadata.name has 53 letters"));
    world.job.metadata.name = Some("a".repeat(52));
    assert!(world.plan().notes.is_empty());
}

#[test]
fn a_schedule_without_a_next_time_says_so() {
    let mut world = World::new("2026-01-01T10:50:00Z", "0 0 30 2 *", json!({}));
    let plan = world.settle();
    assert!(plan.again.is_some());
    assert_eq!(json!(world.job.status)["conditions"][0]["type"], "NoNextTime");
    world.job.spec.schedule = "@hourly".to_owned();
    world.settle();
    assert!(world.job.status.as_ref().unwrap().conditions.is_empty());
}
