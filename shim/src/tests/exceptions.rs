//! Changed answers as a client reads them; the runtime's bytes are all still there.

use berth_policy::PodRef;
use proptest::prelude::*;

use super::*;
use crate::frames::{PREFIX, framed};

fn nudge(pod: &str) -> Nudge {
    Nudge {
        pod: PodRef {
            uid: format!("uid-of-{pod}").into(),
            namespace: "shop".to_owned(),
            name: pod.to_owned(),
        },
        sandbox: "sandbox-1".into(),
        container: format!("nudge-of-{pod}").into(),
    }
}

/// The message that comes out for this one.
fn changed(mut exception: Exception, message: &[u8]) -> Bytes {
    let mut out = exception.frame(framed(message));
    assert_eq!(exception.end(), b""[..]);
    out.split_off(PREFIX)
}

fn status(annotations: &[(&str, &str)]) -> cri::ContainerStatusResponse {
    let annotations =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let metadata = Some(cri::ContainerMetadata { name: "web".to_owned(), attempt: 3 });
    let status = cri::ContainerStatus {
        id: "c".to_owned(),
        metadata,
        state: 1,
        annotations,
        log_path: "/var/log/pods/web/3.log".to_owned(),
        ..Default::default()
    };
    cri::ContainerStatusResponse { status: Some(status), ..Default::default() }
}

#[test]
fn only_the_hash_is_another() {
    let others = [("io.kubernetes.container.restartCount", "3"), ("mine", "kept")];
    let hashes: [&[(&str, &str)]; 3] = [&[], &[(HASH_ANNOTATION, "9f8a7b6c")], &[(HASH_ANNOTATION, "")]];
    for hash in hashes {
        let before = status(&[&others[..], hash].concat());
        let after = changed(Exception::restated(), &before.encode_to_vec());
        let expected = status(&[&others[..], &[(HASH_ANNOTATION, OTHER_HASH)]].concat());
        assert_eq!(cri::ContainerStatusResponse::decode(after).unwrap(), expected);
    }
}

#[test]
fn an_exit_is_shown_as_one_that_went_well() {
    let mut before = status(&[]);
    let ended = before.status.as_mut().unwrap();
    (ended.state, ended.exit_code, ended.reason) = (2, 137, "Error".to_owned());
    let after = changed(Exception::shown(Showing::Completed).unwrap(), &before.encode_to_vec());
    let ended = before.status.as_mut().unwrap();
    (ended.exit_code, ended.reason) = (0, "Completed".to_owned());
    assert_eq!(cri::ContainerStatusResponse::decode(after).unwrap(), before);
}

#[test]
fn no_definition_has_that_hash() {
    assert_eq!(u64::from_str_radix(OTHER_HASH, 16).unwrap(), u64::from(u32::MAX) + 1);
}

#[test]
fn what_nobody_knows_stays() {
    // Field 4000 of the answer, and field 4001 of the status.
    let unknown_inside = [0x8a, 0xfa, 0x01, 2, b'h', b'i'];
    let inside = [&status(&[]).status.unwrap().encode_to_vec()[..], &unknown_inside].concat();
    let mut message = vec![0x0a, inside.len() as u8];
    message.extend(&inside);
    message.extend([0x82, 0xfa, 0x01, 1, b'x']);
    let after = changed(Exception::restated(), &message);
    assert_eq!(after[..message.len()], message);
}

#[test]
fn nudges_come_after_what_is_there() {
    let containers: Vec<_> =
        (0..500).map(|number| cri::Container { id: format!("c{number}"), ..Default::default() }).collect();
    let before = cri::ListContainersResponse { containers };
    let message = before.encode_to_vec();
    let after = changed(Exception::nudged(vec![nudge("a"), nudge("b")]).unwrap(), &message);
    assert_eq!(after[..message.len()], message);
    let after = cri::ListContainersResponse::decode(after).unwrap().containers;
    assert_eq!(after[..500], before.containers);
    let names: Vec<_> = after[500..].iter().map(|entry| &entry.labels["io.kubernetes.pod.name"]).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn an_entry_has_all_the_kubelet_reads() {
    let entry = entry(nudge("a"));
    assert_eq!((entry.id.as_str(), entry.pod_sandbox_id.as_str()), ("nudge-of-a", "sandbox-1"));
    assert_eq!(entry.state(), cri::ContainerState::ContainerRunning);
    assert_eq!(entry.metadata.unwrap().name, NUDGE_NAME);
    assert_eq!((entry.image.unwrap().image.as_str(), entry.image_ref.as_str()), (NUDGE_IMAGE, NUDGE_IMAGE));
    assert!(entry.created_at > 0);
    assert_eq!(entry.labels["io.kubernetes.pod.uid"], "uid-of-a");
    assert_eq!(entry.labels["io.kubernetes.pod.namespace"], "shop");
    // Read as numbers by the kubelet.
    assert!(u64::from_str_radix(&entry.annotations[HASH_ANNOTATION], 16).is_ok());
    assert!(entry.annotations["io.kubernetes.container.restartCount"].parse::<i64>().is_ok());
}

#[test]
fn a_container_is_shown_as_not_started() {
    let status = cri::ContainerStatus { state: 2, exit_code: 3, id: "a".to_owned(), ..Default::default() };
    let before = cri::ContainerStatusResponse { status: Some(status), ..Default::default() };
    let after = changed(Exception::shown(Showing::NotStarted).unwrap(), &before.encode_to_vec());
    let after = cri::ContainerStatusResponse::decode(&after[..]).unwrap().status.unwrap();
    assert_eq!((after.state, after.exit_code, after.id.as_str()), (0, 3, "a"));
    assert!(Exception::shown(Showing::Truth).is_none());
}

#[test]
fn an_exited_container_is_shown_as_running_and_made_from_another_definition() {
    let annotations = [(HASH_ANNOTATION.to_owned(), "1f".to_owned())].into();
    let status = cri::ContainerStatus { state: 2, annotations, id: "a".to_owned(), ..Default::default() };
    let before = cri::ContainerStatusResponse { status: Some(status), ..Default::default() };
    let after = changed(Exception::shown(Showing::StillRunning).unwrap(), &before.encode_to_vec());
    let after = cri::ContainerStatusResponse::decode(&after[..]).unwrap().status.unwrap();
    assert_eq!((after.state(), after.id.as_str()), (cri::ContainerState::ContainerRunning, "a"));
    assert_eq!(after.annotations[HASH_ANNOTATION], OTHER_HASH);
}

#[test]
fn nothing_to_nudge_is_nothing_to_change() {
    assert!(Exception::nudged(Vec::new()).is_none());
}

#[test]
fn what_became_of_it_is_counted() {
    let metrics = Metrics::default();
    let mut exceptions = [Exception::restated(), Exception::nudged(vec![nudge("a"), nudge("b")]).unwrap()];
    for exception in &mut exceptions {
        // Nothing has come yet: an error would end so.
        exception.count(&metrics);
        exception.frame(framed(b"\x0a\0"));
        exception.count(&metrics);
    }
    let mut compressed = Exception::restated();
    compressed.frame(Bytes::from_static(&[1, 0, 0, 0, 1, 0]));
    compressed.count(&metrics);
    assert_eq!((metrics.restated_answers(), metrics.nudges(), metrics.unchanged()), (1, 2, 1));
}

proptest! {
    #[test]
    fn the_runtimes_bytes_are_all_there(message in proptest::collection::vec(any::<u8>(), 1..300)) {
        for exception in [Exception::restated(), Exception::nudged(vec![nudge("a")]).unwrap()] {
            let after = changed(exception, &message);
            prop_assert_eq!(&after[..message.len()], &message);
        }
    }
}
