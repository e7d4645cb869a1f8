//! Directories on a disk, and what a follower tells of them. Nothing here waits for the look that is made in
//! any case.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, timeout};

use super::{Follower, Look};

/// Longer than anything takes that is told, and shorter than the time between two looks in any case.
const PATIENCE: Duration = Duration::from_secs(20);

/// A directory that is followed, in one that can be changed.
struct World {
    dir: tempfile::TempDir,
    follower: Follower,
    /// Content of the files, as it was told.
    told: BTreeMap<String, String>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let follower = Follower::new(vec![dir.path().join("etc/desired")], |content| {
            !content.as_ref().is_ok_and(|text| text.starts_with("other"))
        });
        Self { dir, follower, told: BTreeMap::new() }
    }

    /// With the directory, looked at.
    async fn with_directory() -> Self {
        let mut world = Self::new();
        fs::create_dir_all(world.path("")).unwrap();
        world.look().await;
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("etc/desired").join(name)
    }

    async fn look(&mut self) -> Look {
        let mut look = self.follower.look().await;
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        for (path, content) in &mut look.there {
            if let Some(content) = content.take() {
                self.told.insert(name(path), content.unwrap_or_else(|error| error.to_string()));
            }
        }
        for path in &look.gone {
            self.told.remove(&name(path));
        }
        look
    }

    /// Looks whenever it is time, until this is what was told.
    async fn tells(&mut self, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, String> =
            expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let told = timeout(PATIENCE, async {
            while self.told != expected {
                self.follower.wait(false).await;
                self.look().await;
            }
        });
        assert!(told.await.is_ok(), "not told: {expected:?}, but {:?}", self.told);
    }
}

#[tokio::test]
async fn a_file_is_told_when_its_author_is_done() {
    let mut world = World::with_directory().await;
    let mut file = fs::File::create(world.path("web.yaml")).unwrap();
    for _ in 0..5 {
        file.write_all(b"part ").unwrap();
        let look = world.look().await;
        assert_eq!(look.there.len(), 1, "{look:?}");
        assert!(world.told.is_empty(), "half of it: {:?}", world.told);
    }
    drop(file);
    world.tells(&[("web.yaml", "part part part part part ")]).await;
    // Once.
    let look = world.look().await;
    assert!(look.there[&world.path("web.yaml")].is_none());
    // By an append, by a rename over it, and again by hand.
    fs::OpenOptions::new().append(true).open(world.path("web.yaml")).unwrap().write_all(b"more").unwrap();
    world.tells(&[("web.yaml", "part part part part part more")]).await;
    fs::write(world.path(".web.yaml.swp"), "new").unwrap();
    fs::rename(world.path(".web.yaml.swp"), world.path("web.yaml")).unwrap();
    world.tells(&[("web.yaml", "new")]).await;
    world.follower.again(&world.path("web.yaml"));
    let look = world.look().await;
    assert_eq!((look.there.len(), world.told.len()), (1, 1));
    fs::remove_file(world.path("web.yaml")).unwrap();
    world.tells(&[]).await;
}

#[tokio::test]
async fn a_config_map_is_replaced_as_a_whole() {
    let mut world = World::with_directory().await;
    let put = |world: &World, version: &str| {
        let folder = world.path(version);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("web.yaml"), version).unwrap();
        symlink(version, world.path("..data_tmp")).unwrap();
        fs::rename(world.path("..data_tmp"), world.path("..data")).unwrap();
    };
    put(&world, "..1");
    symlink("..data/web.yaml", world.path("web.yaml")).unwrap();
    world.tells(&[("web.yaml", "..1")]).await;
    put(&world, "..2");
    fs::remove_dir_all(world.path("..1")).unwrap();
    world.tells(&[("web.yaml", "..2")]).await;
}

#[tokio::test]
async fn a_link_leads_to_a_file_that_is_changed_at_its_place() {
    let mut world = World::with_directory().await;
    let elsewhere = world.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(elsewhere.join("x"), world.path("web.yaml")).unwrap();
    world.look().await;
    // It leads nowhere at first.
    fs::write(elsewhere.join("x"), "one").unwrap();
    world.tells(&[("web.yaml", "one")]).await;
    fs::write(elsewhere.join("x"), "second").unwrap();
    world.tells(&[("web.yaml", "second")]).await;
}

#[tokio::test]
async fn a_directory_may_come_later_go_and_be_replaced() {
    let mut world = World::new();
    world.look().await;
    assert!(world.follower.is_complete(), "one that is missing is empty");
    fs::create_dir_all(world.path("")).unwrap();
    fs::write(world.path("web.yaml"), "one").unwrap();
    world.tells(&[("web.yaml", "one")]).await;

    let etc = world.dir.path().join("etc");
    fs::rename(etc.join("desired"), etc.join("aside")).unwrap();
    world.tells(&[]).await;
    fs::create_dir(world.path("")).unwrap();
    fs::write(world.path("api.yaml"), "two").unwrap();
    world.tells(&[("api.yaml", "two")]).await;
    fs::write(etc.join("aside/late.yaml"), "nobody's").unwrap();

    // Another one takes its place in one step.
    fs::create_dir(etc.join("new")).unwrap();
    fs::write(etc.join("new/db.yaml"), "three").unwrap();
    fs::remove_dir_all(world.path("")).unwrap();
    fs::rename(etc.join("new"), world.path("")).unwrap();
    world.tells(&[("db.yaml", "three")]).await;
    // And is followed from then on.
    fs::write(world.path("db.yaml"), "fourth").unwrap();
    world.tells(&[("db.yaml", "fourth")]).await;
    fs::remove_dir_all(&etc).unwrap();
    world.tells(&[]).await;
}

#[tokio::test]
async fn a_file_of_somebody_else_is_left_and_one_that_becomes_that_is_gone() {
    let mut world = World::with_directory().await;
    fs::write(world.path("a.yaml"), "other").unwrap();
    fs::write(world.path("b.yaml"), "mine").unwrap();
    world.tells(&[("b.yaml", "mine")]).await;
    fs::write(world.path("b.yaml"), "other now").unwrap();
    world.tells(&[]).await;
    fs::write(world.path("a.yaml"), "mine now").unwrap();
    world.tells(&[("a.yaml", "mine now")]).await;
}

#[tokio::test]
async fn a_status_without_its_file_is_told_unless_that_is_being_replaced() {
    let mut world = World::with_directory().await;
    let orphan = vec![world.path("web.yaml")];
    fs::write(world.path("web.yaml.status.yaml"), "").unwrap();
    assert!(world.look().await.orphans.is_empty());
    assert_eq!(world.look().await.orphans, orphan);
    let first = Follower::new(vec![world.path("")], |_| true).look().await;
    assert_eq!(first.orphans, orphan, "nobody replaces it while the agent starts");
    fs::write(world.path("web.yaml"), "").unwrap();
    assert!(world.look().await.orphans.is_empty());
}

#[tokio::test]
async fn what_cannot_be_read_stays_and_is_tried_again() {
    let mut world = World::with_directory().await;
    fs::write(world.path("web.yaml"), "one").unwrap();
    world.tells(&[("web.yaml", "one")]).await;
    let aside = world.dir.path().join("etc/aside");
    fs::rename(world.path(""), &aside).unwrap();
    fs::write(world.dir.path().join("etc/desired"), "no directory").unwrap();
    let look = world.look().await;
    assert!(!world.follower.is_complete() && look.gone.is_empty() && world.told.len() == 1);
    fs::remove_file(world.dir.path().join("etc/desired")).unwrap();
    fs::rename(&aside, world.path("")).unwrap();
    fs::write(world.path("web.yaml"), "second").unwrap();
    world.tells(&[("web.yaml", "second")]).await;
    assert!(world.follower.is_complete());
}

#[tokio::test]
async fn nothing_is_done_while_nothing_changes() {
    let mut world = World::with_directory().await;
    fs::write(world.path("web.yaml"), "one").unwrap();
    world.tells(&[("web.yaml", "one")]).await;
    // What the agent writes itself is no change.
    fs::write(world.path(".berthd-x"), "").unwrap();
    fs::rename(world.path(".berthd-x"), world.path("web.yaml.status.yaml")).unwrap();
    let quiet = timeout(Duration::from_secs(3), async {
        let mut looks = 0;
        loop {
            world.follower.wait(false).await;
            world.follower.look().await;
            looks += 1;
            // What was told of the file before is over after a few.
            assert!(looks < 6, "a look although nothing changed");
        }
    });
    assert!(quiet.await.is_err());
    let begin = Instant::now();
    world.follower.look().await;
    world.follower.wait(true).await;
    assert!(begin.elapsed() < PATIENCE, "in a second in any case, for what is to be tried again");
}
