//! Words of the data path on the line: nothing that it sees is lost on the way.

use std::collections::HashMap;

use berth_policy::launch_priority::PLAN_ANNOTATION;

use super::*;
use crate::{
    convert::declared,
    remote::{answers::decision_of, message::Answers},
};

fn pod() -> PodRef {
    PodRef { uid: "u".into(), namespace: "ns".to_owned(), name: "web".to_owned() }
}

/// Everything that the observer of calls tells, each in its variants.
fn observed() -> Vec<Event> {
    let (call, connection) = (CallId(7), ConnectionId(3));
    vec![
        Event::SandboxCreated { sandbox: "s".into(), pod: pod(), declared: Declared::default() },
        Event::SandboxStopping("s".into()),
        Event::SandboxRemoved("s".into()),
        Event::ContainerCreated { call, container: "c".into() },
        Event::ContainerStarted("c".into()),
        Event::ContainerStopped("c".into()),
        Event::ContainerRemoved("c".into()),
        Event::HookAsked { call, container: "c".into(), connection },
        Event::HookEnded("c".into(), true),
        Event::HookEnded("c".into(), false),
        Event::RelistAsked { call, connection },
        Event::RelistAnswered { call, connection },
        Event::StatusAsked { container: "c".into(), connection },
        Event::PullPassed { call, image: "i".to_owned(), credential: CredentialKey(9) },
        Event::CallEnded(call),
        Event::ConnectionClosed(connection),
    ]
}

#[test]
fn all_that_the_data_path_sees_is_told_as_it_was() {
    for event in observed() {
        let told = event_to_wire(&event).unwrap().unwrap_or_else(|| panic!("not told: {event:?}"));
        let heard = event_of(told).unwrap().unwrap();
        assert_eq!(format!("{heard:?}"), format!("{event:?}"));
    }
    assert!(event_to_wire(&Event::HandedOver).unwrap().is_none(), "the agent's own");
}

/// A plan that cannot be told would let everything of its pod pass.
#[test]
fn whatever_a_pod_has_as_its_plan_the_agent_hears_what_one_program_reads() {
    let many: Vec<String> = (0..20_000).map(|number| format!("\"{number}\":{number}")).collect();
    let long = "x".repeat(100_000);
    for plan in [
        r#"{"a": 2, "b": -1}"#.to_owned(),
        format!("{{{}}}", many.join(",")),
        format!(r#"{{"{long}": 1}}"#),
        format!(r#"{{"a": "{long}"}}"#),
        format!(r#"{{"{0}": 1, "{0}": 2}}"#, &long[..MAX_NAME]),
        String::new(),
    ] {
        let read = declared(&HashMap::new(), &HashMap::from([(PLAN_ANNOTATION.to_owned(), plan)]));
        let told = declared_to_wire(&read).unwrap();
        assert_eq!(declared_of(Some(told)), Ok(read));
    }
}

#[test]
fn an_order_with_an_error_of_a_later_version_is_one_that_cannot_be_followed() {
    let error = BadOrder { kind: 99, text: "why".to_owned(), ..BadOrder::default() };
    assert_eq!(order_of(error), Ok(OrderError::MalformedPlan { reason: "why".to_owned() }));
    assert!(order_of(BadOrder::default()).is_err());
}

#[test]
fn a_timeout_that_no_message_can_have_is_no_answer() {
    let most = i64::MAX as u64;
    assert!(decision_of(Answers::StopTimeout(most)).is_ok());
    assert!(decision_of(Answers::StopTimeout(most + 1)).is_err());
}
