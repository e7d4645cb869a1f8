//! Settings of an installed node that are changed and taken back.

use super::*;

#[tokio::test]
async fn settings_come_and_go() {
    let mut world = World { two_programs: true, ..World::new(KUBEADM) };
    let before = world.picture();
    die_after(&world, usize::MAX).await;
    for value in [Some("5%"), Some("10%"), None, Some("5%")] {
        world.settings = value.map(reserve).unwrap_or_default();
        let mut journal = Journal::load(&world.host).unwrap().unwrap();
        for action in &world.plan().actions {
            record(&world.host, &mut journal, action).await.unwrap();
            perform(&world.host, action).await.unwrap();
        }
        journal.settle(&world.host).unwrap();
        assert!(!journal.changes.iter().any(|change| matches!(change, Change::Restarted { .. })));
        let there = world.host.read(ENV_DROP_IN).unwrap();
        let line = value.map(|value| format!("Environment=\"BERTH_IMAGES_RESERVE={value}%\"\n"));
        assert_eq!(there.is_some(), value.is_some());
        assert!(line.is_none_or(|line| there.unwrap().ends_with(&line)));
        assert!(world.calls().ends_with("restart berthd.service\n"), "{}", world.calls());
        let same = world.plan().actions;
        let changes = |action: &Action| matches!(action, Action::Write { .. } | Action::Restart { .. });
        assert!(!same.iter().any(changes), "{same:?}");
    }
    world.undo(0).await;
    assert_eq!(world.picture(), before);
}

/// A berthd that runs with other settings has to have those before it again. Rows: whether it ran, and what
/// systemctl does on the way back.
#[tokio::test]
async fn settings_that_are_taken_back_are_taken() {
    let table =
        [(true, "daemon-reload\nrestart berthd.service\n"), (false, "stop berthd.service\ndaemon-reload\n")];
    for (ran, expected) in table {
        let mut world = World { two_programs: true, ..World::new(KUBEADM) };
        die_after(&world, usize::MAX).await;
        let before = world.picture();
        let active = world.tools.path().join("active.berthd.service");
        world.settings = reserve("5%");
        let mut journal = Journal::load(&world.host).unwrap().unwrap();
        let settled = journal.settled;
        for action in &world.plan().actions {
            if !ran && matches!(action, Action::Restart { .. }) {
                std::fs::remove_file(&active).unwrap();
            }
            record(&world.host, &mut journal, action).await.unwrap();
            perform(&world.host, action).await.unwrap();
        }
        let calls = world.calls();
        world.undo(settled).await;
        assert_eq!(world.calls().strip_prefix(&calls), Some(expected));
        assert_eq!(world.picture(), before);
    }
}
