//! containerd's configuration: the same of every release, each in the words it knows.

use std::path::Path;

use super::images;
use super::release::Release;
use crate::node::run_dir::{Port, Run};

/// The configuration of a run's containerd.
pub(super) fn config(release: &Release, run: &Run, socket: &Path, cni: &Path) -> String {
    let own = match release {
        Release::Distribution => one(run, cni),
        Release::Two { dir } => two(run, cni, &dir.join("containerd-shim-runc-v2")),
    };
    let (dir, socket) = (run.dir().display(), socket.display());
    let version = match release {
        Release::Distribution => 2,
        Release::Two { .. } => 3,
    };
    format!(
        r#"version = {version}
root = "{dir}/containerd/root"
state = "{dir}/containerd/state"
# Nothing of the machine's own containerd.
imports = []

[grpc]
  address = "{socket}"

[ttrpc]
  address = "{socket}.ttrpc"

[plugins."io.containerd.internal.v1.opt"]
  path = "{dir}/containerd/opt"
{own}"#
    )
}

/// Writes the part of the configuration as 1.6 and 1.7 call it.
fn one(run: &Run, cni: &Path) -> String {
    let (dir, cni, pause) = (run.dir().display(), cni.display(), images::PAUSE);
    let port = run.port(Port::ContainerdStream);
    format!(
        r#"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "{port}"
  # Test machines may lack CAP_SYS_RESOURCE, and runc ends without a word when it may not lower the score.
  restrict_oom_score_adj = true
  # So that what a crash leaves mounted is found below the run's directory.
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "{dir}/runc"
"#
    )
}

/// Writes the part of the configuration as 2.x calls it; the reasons are those above.
fn two(run: &Run, cni: &Path, shim: &Path) -> String {
    let (dir, cni, pause, shim) = (run.dir().display(), cni.display(), images::PAUSE, shim.display());
    let port = run.port(Port::ContainerdStream);
    format!(
        r#"
# Its socket would be the same for every run.
[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "{port}"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{cni}"

  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    # By its name it would be the distribution's.
    runtime_path = "{shim}"

    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      Root = "{dir}/runc"
"#
    )
}
