//! Objects that metrics count.

use super::*;

/// Also between two lists, and by a replica that does not lead.
#[tokio::test]
async fn objects_are_counted_as_they_come_and_go() {
    let replica = Replica::start("one", &Shared::default()).await;
    let (kind, gone) = (KINDS[0], Input::Set(KINDS[0], Shown::Gone("set".to_owned())));
    for (input, count) in [(None, 1), (Some(gone), 0)] {
        if let Some(input) = input {
            replica.inputs.send(input).await.unwrap();
        }
        let counted = async {
            while replica.metrics.count_of(kind.plural) != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(tokio::time::timeout(PATIENCE, counted).await.is_ok(), "{count}");
    }
}
