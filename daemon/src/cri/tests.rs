//! Looks at a sandbox: a runtime that answers otherwise than it was asked, and what it need not be asked.

use std::collections::BTreeMap;

use berth_policy::{ContainerState, SandboxId};
use berth_proto::cri;

use super::{
    RuntimeError,
    played::{Answer, Played},
};

fn named(id: &str) -> Option<cri::ContainerMetadata> {
    Some(cri::ContainerMetadata { name: id.to_owned(), attempt: 0 })
}

/// Answer of a runtime that passes over the filter.
fn lists() -> Answer {
    let listed = |id: &str, sandbox: &str| cri::Container {
        id: id.to_owned(),
        pod_sandbox_id: sandbox.to_owned(),
        metadata: named(id),
        state: cri::ContainerState::ContainerExited.into(),
        ..Default::default()
    };
    let containers = vec![listed("a", "s"), listed("b", "t"), listed("c", "")];
    Answer::message(&cri::ListContainersResponse { containers })
}

/// Rows: the container that the answer to `ContainerStatus` is about, and whether it is taken.
#[tokio::test]
async fn what_was_not_asked_for_is_not_taken() {
    for (answered, is_taken) in [("a", true), ("b", false), ("", false)] {
        let played = Played::new(move |method, _| match method {
            "ListContainers" => lists(),
            _ => {
                let status = cri::ContainerStatus {
                    id: answered.to_owned(),
                    metadata: named(answered),
                    state: cri::ContainerState::ContainerExited.into(),
                    ..Default::default()
                };
                Answer::message(&cri::ContainerStatusResponse { status: Some(status), ..Default::default() })
            }
        });
        let found = played.client().inspect(&SandboxId::from("s"), &BTreeMap::new()).await;
        match found {
            Ok(containers) => {
                let ids: Vec<&str> = containers.iter().map(|container| container.id.as_str()).collect();
                assert!(is_taken && ids == ["a"], "{answered:?} {ids:?}");
            }
            Err(error) => {
                assert!(!is_taken && matches!(error, RuntimeError::Another { .. }), "{answered:?} {error}");
            }
        }
    }
}

#[tokio::test]
async fn an_exit_code_that_is_known_is_not_asked_for() {
    let played = Played::new(|_, _| lists());
    let known = BTreeMap::from([("a".into(), 7)]);
    let found = played.client().inspect(&SandboxId::from("s"), &known).await.unwrap();
    let states: Vec<ContainerState> = found.iter().map(|container| container.state).collect();
    assert_eq!(states, [ContainerState::Exited { code: Some(7) }]);
    assert_eq!(played.calls(), ["ListContainers"]);
}
