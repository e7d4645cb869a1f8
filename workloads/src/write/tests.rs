use super::*;

#[test]
fn a_pod_without_a_node_is_gone_at_once() {
    let stays = |grace: i64, finalizers: &[&str]| {
        let time = "2026-01-01T00:00:00Z";
        let meta = json!({
            "deletionTimestamp": time, "deletionGracePeriodSeconds": grace, "finalizers": finalizers,
        });
        super::stays(&serde_json::from_value(meta).unwrap())
    };
    assert!(stays(30, &[]) && stays(0, &["kubernetes.io/pvc-protection"]));
    assert!(!stays(0, &[]) && !super::stays(&ObjectMeta::default()));
}
