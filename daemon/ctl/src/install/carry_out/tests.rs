//! Crashes at every point, and the way back from each.

mod settings;
mod upgrade;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::super::env::Settings;
use super::super::facts::Facts;
use super::super::facts::tests::{K3S, KUBEADM, Tree};
use super::super::journal::Journal;
use super::super::places::{ENV_DROP_IN, JOURNAL};
use super::super::plan::{self, Plan, Wishes};
use super::*;

/// A `systemctl` that keeps what is enabled and active as files, and berthd's folder as systemd would make
/// it.
const SYSTEMCTL: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 9
echo "$@" >> calls
command=$1
for unit; do :; done
case $command in
  enable | disable | start | stop) test -e "ROOT/etc/systemd/system/$unit" || exit 5 ;;
esac
case $command in
  is-enabled) test -e "enabled.$unit" ;;
  is-active) test -e "active.$unit" ;;
  enable) : > "enabled.$unit" ;;
  disable) rm -f "enabled.$unit" ;;
  start) : > "active.$unit"; mkdir -p ROOT/run/berth ROOT/etc/berth/desired; : > ROOT/run/berth/cri.sock ;;
  stop) rm -f "active.$unit" ;;
  restart) cat ROOT/etc/systemd/system/kubelet.service.d/90-berth.conf > seen 2>/dev/null || : > seen ;;
esac
"#;

struct World {
    tree: Tree,
    tools: tempfile::TempDir,
    host: Host,
    programs: tempfile::TempDir,
    two_programs: bool,
    settings: Settings,
}

fn reserve(value: &str) -> Settings {
    [("BERTH_IMAGES_RESERVE".to_owned(), value.to_owned())].into()
}

impl World {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Tree::of(files);
        std::fs::create_dir_all(tree.path().join("run")).unwrap();
        let tools = tempfile::tempdir().unwrap();
        let (source, systemctl) = (tools.path().join("source"), tools.path().join("systemctl"));
        std::fs::write(&source, SYSTEMCTL.replace("ROOT", tree.path().to_str().unwrap())).unwrap();
        // By a process of its own: a file that this one writes while another test forks is "text busy".
        assert!(std::process::Command::new("cp").args([&source, &systemctl]).status().unwrap().success());
        std::fs::set_permissions(&systemctl, std::fs::Permissions::from_mode(0o755)).unwrap();
        let host = Host::with_systemctl(tree.path(), &systemctl);
        let programs = tempfile::tempdir().unwrap();
        for program in ["berthd", "berth-shim", "berthctl"] {
            std::fs::write(programs.path().join(program), program).unwrap();
        }
        Self { tree, tools, host, programs, two_programs: false, settings: Settings::new() }
    }

    fn plan(&self) -> Plan {
        let facts = Facts::gather(&self.host, None).unwrap();
        let programs = self.programs.path().to_owned();
        let two_programs = Some(self.two_programs);
        let settings = self.settings.clone();
        let wishes = Wishes { programs, has_berthd: true, has_shim: true, two_programs, ..Wishes::default() };
        let wishes = Wishes { settings, ..wishes };
        plan::plan(&facts, &wishes).unwrap()
    }

    /// Every file with its mode and content, and every folder.
    fn picture(&self) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut picture = BTreeMap::new();
        look(self.tree.path(), &mut picture);
        picture
    }

    fn units(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.tools.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name.starts_with("enabled.") || name.starts_with("active."));
        names.sort();
        names
    }

    fn calls(&self) -> String {
        std::fs::read_to_string(self.tools.path().join("calls")).unwrap_or_default()
    }

    fn seen_by_kubelet(&self) -> String {
        std::fs::read_to_string(self.tools.path().join("seen")).unwrap_or_default()
    }

    async fn undo(&self, down_to: usize) -> Vec<String> {
        // Another process: it knows what is written down.
        let mut journal = Journal::load(&self.host).unwrap().unwrap();
        let mut remarks = Vec::new();
        for step in journal.undo(down_to) {
            remarks.extend(undo(&self.host, &step).await.unwrap());
        }
        journal.forget(&self.host, down_to).unwrap();
        remarks
    }
}

fn look(dir: &Path, picture: &mut BTreeMap<String, (u32, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let content = if metadata.is_dir() { Vec::new() } else { std::fs::read(&path).unwrap() };
        picture.insert(path.display().to_string(), (metadata.permissions().mode(), content));
        if metadata.is_dir() {
            look(&path, picture);
        }
    }
}

/// Dies after so many steps; a step is a record, or the change itself.
async fn die_after(world: &World, steps: usize) -> bool {
    let plan = world.plan();
    let mut left = steps;
    let mut journal = Journal::begin(&world.host).unwrap();
    for action in &plan.actions {
        if left == 0 {
            return true;
        }
        record(&world.host, &mut journal, action).await.unwrap();
        if left == 1 {
            return true;
        }
        perform(&world.host, action).await.unwrap();
        left -= 2;
    }
    journal.settle(&world.host).unwrap();
    false
}

#[tokio::test]
async fn back_from_every_point() {
    for (files, two_programs) in [(KUBEADM, false), (KUBEADM, true), (K3S, false), (K3S, true)] {
        for steps in 0.. {
            let world = World { two_programs, settings: reserve("5%"), ..World::new(files) };
            // As if a run before this one had left folders and files of its own.
            world.tree.write("/etc/systemd/system/berthd.socket", "somebody's");
            let before = world.picture();
            let died = die_after(&world, steps).await;
            let journal = Journal::load(&world.host).unwrap().unwrap();
            let redirected = journal.changes.iter().any(|change| matches!(change, Change::Redirected { .. }));
            assert_eq!(
                journal.changes.len() > journal.settled,
                died && !journal.changes.is_empty(),
                "{steps}"
            );
            world.undo(0).await;
            assert_eq!(world.picture(), before, "after {steps} steps");
            assert_eq!(world.units(), [""; 0], "after {steps} steps");
            assert_eq!(world.seen_by_kubelet(), "", "the kubelet has left, after {steps} steps");
            if !died {
                assert!(redirected);
                break;
            }
        }
    }
}

#[tokio::test]
async fn back_from_a_way_back_that_was_interrupted() {
    let steps = {
        let world = World::new(KUBEADM);
        assert!(!die_after(&world, usize::MAX).await);
        Journal::load(&world.host).unwrap().unwrap().undo(0).len()
    };
    assert!(steps > 10, "{steps}");
    for done in 0..steps {
        let world = World::new(KUBEADM);
        let before = world.picture();
        die_after(&world, usize::MAX).await;
        assert_ne!(world.seen_by_kubelet(), "");
        for step in &Journal::load(&world.host).unwrap().unwrap().undo(0)[..done] {
            undo(&world.host, step).await.unwrap();
        }
        world.undo(0).await;
        assert_eq!(world.picture(), before, "after {done} steps");
        assert_eq!(world.units(), [""; 0]);
    }
}

#[tokio::test]
async fn a_second_installation_goes_back_to_the_first() {
    let world = World::new(KUBEADM);
    let before = world.picture();
    die_after(&world, usize::MAX).await;
    let drop_in = "/etc/systemd/system/kubelet.service.d/90-berth.conf";
    let first = std::fs::read_to_string(world.host.path(drop_in)).unwrap();
    let mut journal = Journal::load(&world.host).unwrap().unwrap();
    let settled = journal.settled;
    world.tree.write(
        "/usr/lib/systemd/system/kubelet.service.d/20-more.conf",
        "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --more\n",
    );
    for action in &world.plan().actions {
        record(&world.host, &mut journal, action).await.unwrap();
        perform(&world.host, action).await.unwrap();
    }
    assert!(world.seen_by_kubelet().contains("--more"));
    assert_eq!(journal.changes.len(), settled + 1, "only the kubelet's command line is another one");
    world.undo(settled).await;
    assert_eq!(std::fs::read_to_string(world.host.path(drop_in)).unwrap(), first);
    assert_eq!(world.seen_by_kubelet(), first);
    assert_eq!(Journal::load(&world.host).unwrap().unwrap().changes.len(), settled);
    world.host.remove("/usr/lib/systemd/system/kubelet.service.d/20-more.conf").unwrap();
    world.undo(0).await;
    assert_eq!(world.picture(), before);
}

#[tokio::test]
async fn what_the_administrator_changed_stays() {
    let world = World::new(KUBEADM);
    die_after(&world, usize::MAX).await;
    world.tree.write("/etc/berth/berthd.yaml", "mine");
    let remarks = world.undo(0).await;
    assert_eq!(remarks, ["/etc/berth/berthd.yaml was changed since and stays"]);
    assert_eq!(world.host.read("/etc/berth/berthd.yaml").unwrap().as_deref(), Some("mine"));
    assert!(!world.host.exists("/usr/local/bin/berthd") && !world.host.exists(JOURNAL));
}

#[tokio::test]
async fn units_that_ran_before_go_on() {
    let world = World::new(KUBEADM);
    for file in ["enabled.berthd.socket", "active.berthd.socket", "active.berthd.service"] {
        std::fs::write(world.tools.path().join(file), "").unwrap();
    }
    let before = world.units();
    die_after(&world, usize::MAX).await;
    assert_eq!(world.units().len(), 4);
    world.undo(0).await;
    assert_eq!(world.units(), before);
}

#[test]
fn a_journal_that_is_not_one() {
    let world = World::new(KUBEADM);
    assert_eq!(Journal::load(&world.host).unwrap(), None);
    for (text, word) in [
        ("", "cannot be understood"),
        ("{\"version\":1,", "cannot be understood"),
        (r#"{"version":2,"madeDir":false,"settled":0,"changes":[]}"#, "another berthctl"),
        (r#"{"version":1,"madeDir":false,"settled":1,"changes":[]}"#, "damaged"),
    ] {
        world.tree.write(JOURNAL, text);
        let error = format!("{:#}", Journal::load(&world.host).unwrap_err());
        assert!(error.contains(word), "{text:?}: {error}");
    }
}

#[tokio::test]
async fn without_a_journal_what_is_known_is_removed() {
    for two_programs in [false, true] {
        let world = World { two_programs, settings: reserve("5%"), ..World::new(KUBEADM) };
        without_a_journal(&world).await;
    }
}

async fn without_a_journal(world: &World) {
    assert!(Journal::assumed(&world.host).changes.is_empty());
    die_after(world, usize::MAX).await;
    world.tree.write(JOURNAL, "rubbish");
    for step in Journal::assumed(&world.host).undo(0) {
        undo(&world.host, &step).await.unwrap();
    }
    assert_eq!(world.seen_by_kubelet(), "");
    assert_eq!(world.units(), [""; 0]);
    for gone in [
        "/etc/systemd/system/berthd.socket",
        "/etc/systemd/system/berth-shim.service",
        "/etc/systemd/system/berthd.socket.d/50-two-programs.conf",
        "/etc/systemd/system/kubelet.service.d/90-berth.conf",
        ENV_DROP_IN,
    ] {
        assert!(!world.host.exists(gone), "{gone}");
    }
    assert!(world.host.exists("/etc/berth/berthd.yaml"), "the administrator's");
}
