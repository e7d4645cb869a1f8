//! A real systemd for a run, as the first process of a PID namespace of its own, and a node whose programs
//! are its services.
//!
//! It has its own mounts and cgroups, so it changes nothing of the machine; the network is shared, so the API
//! server of the run is where it always is. What the services keep is below the run's directory, as with
//! every other node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use tokio::process::Command;

use super::api_server::User;
use super::control_plane::ControlPlane;
use super::run_dir::{Port, Run};
use super::service::Service;
use super::tool::run as tool;
use super::{containerd, deploy, images, kubelet, programs};
use crate::observe::{Cri, node_ready};
use crate::wait::{START_UP, await_condition};

/// Targets that every unit depends on, without the work that a machine has to do at its boot.
const TARGETS: [(&str, &str); 9] = [
    ("sysinit.target", "Wants=systemd-journald.service\n"),
    ("basic.target", "Requires=sysinit.target\nAfter=sysinit.target sockets.target\nWants=sockets.target\n"),
    ("sockets.target", ""),
    ("paths.target", ""),
    ("slices.target", ""),
    ("timers.target", ""),
    ("network.target", ""),
    ("shutdown.target", ""),
    ("multi-user.target", "Requires=basic.target\nAfter=basic.target\n"),
];
/// Without its other sockets: one of them would put a link into the machine's /dev.
const JOURNALD: &str = "[Unit]
DefaultDependencies=no
Requires=systemd-journald.socket
After=systemd-journald.socket
[Service]
Type=notify
ExecStart=/lib/systemd/systemd-journald
Sockets=systemd-journald.socket
RuntimeDirectory=systemd/journal
RuntimeDirectoryPreserve=yes
StandardOutput=null
";
const JOURNALD_SOCKET: &str = "[Unit]
DefaultDependencies=no
[Socket]
ListenStream=/run/systemd/journal/stdout
ListenDatagram=/run/systemd/journal/socket
SocketMode=0666
PassCredentials=yes
PassSecurity=yes
Service=systemd-journald.service
";
/// Neither the kernel's messages nor a disk.
const JOURNALD_CONF: &str = "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\nForwardToConsole=no\n";

/// A systemd that runs.
#[derive(Debug)]
pub struct PrivateSystemd {
    run: Arc<Run>,
    service: Service,
    /// Its process, as the machine counts.
    init: u32,
}

impl PrivateSystemd {
    /// Boots it with these units of a distribution; those of `wanted` are started.
    pub async fn start(run: &Arc<Run>, units: &[(&str, String)], wanted: &[&str]) -> Result<Self> {
        for dir in ["systemd/lib/multi-user.target.wants", "systemd/etc", "systemd/bin"] {
            run.make_dir(dir)?;
        }
        for (name, text) in TARGETS {
            run.write(&format!("systemd/lib/{name}"), &format!("[Unit]\nDefaultDependencies=no\n{text}"))?;
        }
        run.write("systemd/lib/systemd-journald.service", JOURNALD)?;
        run.write("systemd/lib/systemd-journald.socket", JOURNALD_SOCKET)?;
        run.make_dir("systemd/overlay/etc/systemd/journald.conf.d")?;
        run.write("systemd/overlay/etc/systemd/journald.conf.d/tests.conf", JOURNALD_CONF)?;
        for (name, text) in units {
            run.write(&format!("systemd/lib/{name}"), text)?;
        }
        for name in wanted {
            let link = run.path("systemd/lib/multi-user.target.wants").join(name);
            std::os::unix::fs::symlink(format!("../{name}"), link).context("want a unit")?;
        }
        let script = programs::package_dir().join("systemd/boot.sh");
        let args = vec![run.path("systemd").display().to_string(), run.names().cgroup];
        let service = Service::new(run, "systemd", script, args);
        service.start()?;
        let mut systemd = Self { run: run.clone(), service, init: 0 };
        systemd.init = await_condition("systemd is the first process", START_UP, async || {
            systemd.service.check_running()?;
            let namespace = systemd.service.pid().context("no process")?;
            child_named(namespace, "systemd")
        })
        .await?;
        await_condition("systemd has booted", START_UP, async || {
            systemd.service.check_running()?;
            let said = systemd.run("systemctl", &["is-active", "multi-user.target"]).await?;
            let state = String::from_utf8_lossy(&said.stdout);
            ensure!(said.status.success(), "{state}{}", String::from_utf8_lossy(&said.stderr));
            Ok(())
        })
        .await?;
        Ok(systemd)
    }

    /// The run.
    pub fn of(&self) -> &Arc<Run> {
        &self.run
    }

    /// Runs a program inside, to its end.
    pub async fn run(&self, program: impl AsRef<Path>, args: &[&str]) -> Result<Output> {
        let program = program.as_ref();
        let done = Command::new("nsenter")
            .args([
                "--target",
                &self.init.to_string(),
                "--mount",
                "--uts",
                "--ipc",
                "--cgroup",
                "--pid",
                "--",
            ])
            .arg(program)
            .args(args)
            .env("PATH", "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await;
        done.with_context(|| format!("run {}", program.display()))
    }

    /// Runs a program that must succeed; what it printed.
    pub async fn succeed(&self, program: impl AsRef<Path>, args: &[&str]) -> Result<String> {
        let done = self.run(&program, args).await?;
        if !done.status.success() {
            let (out, error) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
            bail!("{} {}: {}: {out}{error}", program.as_ref().display(), args.join(" "), done.status);
        }
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// Runs its `systemctl`, which must succeed.
    pub async fn systemctl(&self, args: &[&str]) -> Result<String> {
        self.succeed("systemctl", args).await
    }

    /// One property of a unit.
    pub async fn property(&self, unit: &str, name: &str) -> Result<String> {
        let said = self.systemctl(&["show", "--value", "--property", name, unit]).await?;
        Ok(said.trim().to_owned())
    }

    /// A path inside, as it is seen from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.init))
    }
}

impl Drop for PrivateSystemd {
    fn drop(&mut self) {
        // SIGTERM means something else to it. Its end is the end of all that runs in it.
        if let Err(error) = self.service.kill() {
            eprintln!("{error:#}");
        }
    }
}

/// The child of a process that has this name; a shell at first.
fn child_named(parent: u32, name: &str) -> Result<u32> {
    let children =
        fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).context("its children")?;
    let child: u32 = children.trim().parse().with_context(|| format!("not one child: {children:?}"))?;
    let found = fs::read_to_string(format!("/proc/{child}/comm")).context("its name")?;
    ensure!(found.trim() == name, "it is {} yet", found.trim());
    Ok(child)
}

/// A node whose containerd and kubelet are services of a systemd, as packages have them; no Berth yet.
#[derive(Debug)]
pub struct SystemdNode {
    systemd: PrivateSystemd,
    plane: ControlPlane,
}

impl SystemdNode {
    /// Brings it up and waits until it is Ready.
    pub async fn start() -> Result<Self> {
        let plane = ControlPlane::without_controllers().await?;
        let run = plane.run().clone();
        deploy::install_kinds(&plane.client().await?).await?;
        let socket = run.path(containerd::SOCKET);
        let release = containerd::Release::asked_for()?;
        let command = |program: &Path, args: Vec<String>| format!("{} {}", program.display(), args.join(" "));
        let containerd = command(&release.daemon(), containerd::arguments(&release, &run, &socket)?);
        let kubeconfig = plane.api().kubeconfig(User::Node)?;
        let kubelet = kubelet::arguments(&run, &socket, Some(&kubeconfig))?;
        let kubelet = command(&programs::kubernetes("kubelet")?, kubelet);
        let units = [
            (
                "containerd.service",
                format!(
                    "[Service]\nType=notify\nExecStart={containerd}\nDelegate=yes\nKillMode=process\nRestart=always\n\
                     [Install]\nWantedBy=multi-user.target\n"
                ),
            ),
            (
                "kubelet.service",
                format!(
                    "[Unit]\nAfter=containerd.service\nStartLimitIntervalSec=0\n\
                     [Service]\nExecStart={kubelet} $KUBELET_EXTRA_ARGS\nEnvironment=KUBELET_EXTRA_ARGS=--v=2\n\
                     Restart=always\nRestartSec=1\n[Install]\nWantedBy=multi-user.target\n"
                ),
            ),
        ];
        let systemd = PrivateSystemd::start(&run, &units, &["containerd.service", "kubelet.service"]).await?;
        let node = Self { systemd, plane };
        await_condition("containerd answers", START_UP, async || node.cri()?.version().await).await?;
        images::import(&release.ctr(), &socket).await?;
        for program in ["berthd", "berth-shim", "berthctl"] {
            let to = node.programs().join(program);
            fs::create_dir_all(node.programs()).context("folder of programs")?;
            fs::copy(programs::berth(program)?, &to).with_context(|| to.display().to_string())?;
        }
        // Its port is the run's own, and systemd gives services a /var/tmp of their own: that is where the
        // run is.
        let dir = run.dir().display();
        let settings = format!(
            "[Service]\nEnvironment=BERTH_HTTP_ADDRESS={}\nBindPaths={dir}\n",
            run.address(Port::Berthd)
        );
        for unit in ["berthd.service", "berth-shim.service"] {
            run.make_dir(&format!("systemd/etc/{unit}.d"))?;
            run.write(&format!("systemd/etc/{unit}.d/10-tests.conf"), &settings)?;
        }
        node.systemd.systemctl(&["daemon-reload"]).await?;
        node.ready().await?;
        Ok(node)
    }

    /// Ends it and removes every trace.
    pub fn down(self) -> Result<()> {
        drop(self.systemd);
        self.plane.down()
    }

    /// Its systemd.
    pub fn systemd(&self) -> &PrivateSystemd {
        &self.systemd
    }

    /// The API server and what belongs to it.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// A client with all rights.
    pub async fn client(&self) -> Result<Client> {
        self.plane.client().await
    }

    /// A CRI client that goes past Berth.
    pub fn cri(&self) -> Result<Cri> {
        Cri::connect(&self.systemd.of().path(containerd::SOCKET))
    }

    /// Puts the image of an archive on the node.
    pub async fn import(&self, archive: &Path) -> Result<()> {
        let socket = self.systemd.of().path(containerd::SOCKET).display().to_string();
        let archive = archive.display().to_string();
        tool("ctr", &["--address", &socket, "-n", "k8s.io", "image", "import", &archive]).await.map(drop)
    }

    /// Where the programs of a release are unpacked; `berthctl install` copies them from there.
    pub fn programs(&self) -> PathBuf {
        self.systemd.of().path("release")
    }

    /// Runs `berthctl` as root on the node.
    pub async fn berthctl(&self, args: &[&str]) -> Result<Output> {
        self.systemd.run(self.programs().join("berthctl"), args).await
    }

    /// Runs `berthctl`, which must succeed; what it said on both of its outputs.
    pub async fn ctl(&self, args: &[&str]) -> Result<String> {
        let done = self.berthctl(args).await?;
        let said =
            format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        ensure!(done.status.success(), "berthctl {}: {}\n{said}", args.join(" "), done.status);
        Ok(said)
    }

    /// The command line of the kubelet that runs.
    pub async fn kubelet_command(&self) -> Result<String> {
        let pid = self.systemd.property("kubelet.service", "MainPID").await?;
        let line = self.systemd.succeed("cat", &[&format!("/proc/{pid}/cmdline")]).await?;
        Ok(line.replace('\0', " "))
    }

    /// Waits until the API server calls the node Ready.
    pub async fn ready(&self) -> Result<()> {
        let client = self.client().await?;
        await_condition("the node is Ready", START_UP, async || node_ready(&client).await.map(drop)).await
    }
}
