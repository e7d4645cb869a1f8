//! Programs that are replaced, with crashes at every point.

use super::*;

const PROGRAMS: [&str; 3] = ["/usr/local/bin/berthd", "/usr/local/bin/berth-shim", "/usr/local/bin/berthctl"];
const KEPT: [&str; 3] =
    ["/var/lib/berth/berthd.before", "/var/lib/berth/berth-shim.before", "/var/lib/berth/berthctl.before"];

/// Upgrades an installed node, and dies after so many steps. Then the node has the old programs; where it has
/// not died, the new ones and nothing else. `left` is what an upgrade before it has left in the place of the
/// programs that are kept.
async fn upgrade_dies_after(steps: usize, left: Option<&str>) -> bool {
    let world = World { two_programs: true, ..World::new(KUBEADM) };
    let clean = world.picture();
    die_after(&world, usize::MAX).await;
    let mut journal = Journal::load(&world.host).unwrap().unwrap();
    assert!(PROGRAMS.iter().all(|path| journal.has_put(path)));
    let (before, settled) = (world.picture(), journal.settled);
    for (path, kept) in PROGRAMS.iter().zip(KEPT) {
        let name = path.rsplit('/').next().unwrap();
        std::fs::write(world.programs.path().join(name), format!("new {name}")).unwrap();
        left.into_iter().for_each(|left| world.tree.write(kept, left));
    }
    let facts = Facts::gather(&world.host, None).unwrap();
    let programs = world.programs.path().to_owned();
    let wishes = Wishes { programs, has_berthd: true, replace: PROGRAMS.to_vec(), ..Wishes::default() };
    let plan = plan::plan(&facts, &wishes).unwrap();
    assert_eq!(plan.actions.last(), Some(&Action::HandOver));

    let mut ahead = steps;
    for action in &plan.actions {
        for record_it in [true, false].into_iter().take(ahead) {
            match record_it {
                true => record(&world.host, &mut journal, action).await.unwrap(),
                false => perform(&world.host, action).await.unwrap(),
            }
        }
        ahead = ahead.saturating_sub(2);
    }
    let died = steps < 2 * plan.actions.len();
    if died {
        world.undo(settled).await;
        let mut picture = world.picture();
        // One that was not come to is not touched.
        picture.retain(|path, _| left.is_none() || !path.ends_with(".before"));
        assert_eq!(picture, before, "after {steps} steps, {left:?} left");
        return died;
    }
    journal.settle(&world.host).unwrap();
    assert_eq!(journal.changes.len(), settled);
    let mut expected = before;
    for path in PROGRAMS {
        let program = expected.get_mut(&world.host.path(path).display().to_string()).unwrap();
        program.1 = format!("new {}", path.rsplit('/').next().unwrap()).into_bytes();
    }
    assert_eq!(world.picture(), expected);
    world.undo(0).await;
    assert_eq!(world.picture(), clean);
    died
}

#[tokio::test]
async fn programs_are_replaced_whole_or_not_at_all() {
    for left in [None, Some("a program that is older than both")] {
        let mut steps = 0;
        while upgrade_dies_after(steps, left).await {
            steps += 1;
        }
        assert!(steps > 2 * PROGRAMS.len(), "{steps}");
    }
}
