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
        };
        assert_eq!(object.is_done(&entry("r")), done, "{answered:?}");
    }
}
