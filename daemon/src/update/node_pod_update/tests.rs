//! Tests of what is asked of owners.

use super::*;

/// After a restart nothing is remembered but what the object says.
#[test]
fn what_is_done_needs_no_word_of_its_owner() {
    let entry = |revision: &str| DesiredPod {
        uid: "p".to_owned(),
        owner: "SidecarSet/s".to_owned(),
        revision: revision.to_owned(),
        ..DesiredPod::default()
    };
    let answer = |(phase, revision): (UpdatePhase, &str)| {
        let answer = report::pod(&entry(revision), &UpdateReport::default(), None, Timestamp::UNIX_EPOCH);
        (desired_key(&entry(revision)), UpdatedPod { phase, ..answer })
    };
    let table = [
        (None, false),
        (Some((UpdatePhase::Updating, "r")), false),
        (Some((UpdatePhase::Succeeded, "r")), true),
        (Some((UpdatePhase::Succeeded, "q")), false),
        // One that was refused has failed.
        (Some((UpdatePhase::Failed, "r")), false),
    ];
    for (answered, done) in table {
        let object = Object {
            uid: String::new(),
            version: 1,
            status: NodePodUpdateStatus::default(),
            pods: answered.map(answer).into_iter().collect(),
            unread: BTreeSet::new(),
            renewed: None,
        };
        assert_eq!(object.is_done(&entry("r")), done, "{answered:?}");
    }
}

/// Each answer is one; without anything to answer one is due all the same.
#[test]
fn a_sign_of_life_is_due_every_two_minutes() {
    let object = |renewed| Object {
        uid: String::new(),
        version: 1,
        status: NodePodUpdateStatus::default(),
        pods: BTreeMap::new(),
        unread: BTreeSet::new(),
        renewed,
    };
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    assert!(object(None).is_to_renew(start), "after a restart");
    assert!(!object(Some(start)).is_to_renew(after(119)));
    assert!(object(Some(start)).is_to_renew(after(120)));
    // Another clock of the machine was behind.
    assert!(!object(Some(after(5))).is_to_renew(start));
}
