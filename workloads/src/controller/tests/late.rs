//! A replica that begins to lead, and whose watches are late.

use super::*;

/// The leader before this one has seen that the set is to have five pods, and made some of them. Decided by
/// what the watch has shown here, they would go again.
#[tokio::test]
async fn a_set_that_the_watch_shows_late_is_decided_on_as_it_is() {
    let server = Shared::default();
    let mut now = set(50);
    now["spec"]["replicas"] = 5.into();
    server.lock().unwrap().objects.insert("clonesets".to_owned(), vec![now]);
    let replica = Replica::start("one", &server).await;
    replica.leads(true);
    until(&server, "it has five pods", |server| server.count("one", "POST pods") == 5).await;
}
