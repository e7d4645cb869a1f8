//! berthd between the kubelet and containerd: its configuration, its process, and what it says of itself.

mod credentials;
mod points;
mod shim;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use self::credentials::{DOCKER_CONFIG, PROVIDER_DIR, PROVIDERS, providers};
use super::api_server::NODE_NAME;
use super::http;
use super::programs;
use super::run_dir::{Port, Run};
use super::service::Service;
use super::tool::run as tool;
use crate::observe::Cri;
use crate::wait::{START_UP, await_condition};

/// Space that berthd leaves free on the disk of images: little, because the machine's disk may be full for
/// reasons of its own.
const RESERVE: &str = "16Mi";

/// The configuration, below the run's directory.
const CONFIG: &str = "berthd.yaml";
/// Where it keeps its store, below the run's directory.
pub(super) const STATE: &str = "berth/state";
const TOKEN: &str = "berth/token";

/// Time that it, and its shim, have to end in when they are told to: what is open ends first, and a runtime's
/// place is given back.
const ENDS_WITHIN: Duration = Duration::from_secs(120);
/// Longer than a new process takes to get ready on a machine with other work to do.
const READY_WITHIN: &str = "--ready-within=120s";

/// Beside the admin socket.
const SHIM_SOCKET: &str = "shim.sock";
/// Set to 1, gives each inline berthd a `berth-shim`, which has the CRI socket and the data path.
const TWO_PROGRAMS: &str = "BERTH_TESTS_TWO_PROGRAMS";

/// Where berthd learns what the pods are.
#[derive(Clone, Debug)]
pub enum PodView {
    /// Watches the API server, as the node.
    Api {
        /// The kubeconfig of the node's identity.
        kubeconfig: PathBuf,
    },
    /// Asks the kubelet's read-only port.
    Kubelet,
    /// Only what CRI shows.
    None,
}

/// Where berthd stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMode {
    /// Between the kubelet and the runtime.
    Inline,
    /// Behind a `berth-shim`, which is between the kubelet and the runtime.
    BehindShim,
    /// Next to them; the kubelet speaks to the runtime itself.
    Beside,
    /// At the runtime's own path.
    Takeover,
    /// Behind a `berth-shim` that is at the runtime's own path, and that it starts itself.
    TakeoverBehindShim,
}

/// A berthd.
#[derive(Debug)]
pub struct Berthd {
    run: Arc<Run>,
    service: Service,
    /// The data path, where it is a program of its own; ends after berthd.
    shim: Option<Service>,
    /// Its socket as systemd keeps it.
    kept: Option<UnixListener>,
    socket: PathBuf,
    admin: PathBuf,
    desired: PathBuf,
    http: String,
    fault_file: PathBuf,
}

impl Berthd {
    /// Starts it in front of a runtime, or beside it, and waits until it is ready. `kubelet` is the name of
    /// the process that it takes for one; `None`: as by default.
    pub async fn start(
        run: &Arc<Run>,
        runtime: &Path,
        place: PathMode,
        view: &PodView,
        kubelet: Option<&str>,
    ) -> Result<Self> {
        let dir = run.make_dir("berth")?;
        let (socket, admin) = (dir.join("cri.sock"), dir.join("admin.sock"));
        let desired = run.make_dir("berth/desired")?;
        let http = run.address(Port::Berthd);
        let wished = match std::env::var(TWO_PROGRAMS).as_deref() {
            Ok("1") => true,
            Ok("" | "0") | Err(_) => false,
            Ok(other) => bail!("{TWO_PROGRAMS} is 1 or nothing, and not {other:?}"),
        };
        let outside = place == PathMode::TakeoverBehindShim;
        let two = place == PathMode::BehindShim || place == PathMode::Inline && wished;
        let shim_socket = dir.join(SHIM_SOCKET);
        let config = format!(
            "apiVersion: berth.dev/v1alpha1
kind: BerthdConfiguration
socket: {socket}
{shim}runtimeEndpoint: unix://{runtime}
adminSocket: {admin}
stateDir: {state}
desiredDir: {desired}
path: {path}
httpAddress: {http}
{kubelets}nodeName: {NODE_NAME}
images:
  reserve: {RESERVE}
  dockerConfig: [{docker_config}]
  credentialProviderConfig: {providers}
  credentialProviderBinDir: {provider_dir}
podView:
{view}",
            socket = socket.display(),
            shim = if two || outside {
                format!("shimSocket: {}\n", shim_socket.display())
            } else {
                String::new()
            },
            runtime = runtime.display(),
            admin = admin.display(),
            state = run.make_dir(STATE)?.display(),
            desired = desired.display(),
            path = match place {
                PathMode::Inline | PathMode::BehindShim => "inline",
                PathMode::Beside => "beside",
                PathMode::Takeover | PathMode::TakeoverBehindShim => "takeover",
            },
            kubelets = kubelet.map(|name| format!("kubeletProcesses: [\"{name}\"]\n")).unwrap_or_default(),
            docker_config = run.write(DOCKER_CONFIG, "{}")?.display(),
            providers = run.write(PROVIDERS, &providers(""))?.display(),
            provider_dir = run.make_dir(PROVIDER_DIR)?.display(),
            view = pod_view(run, view),
        );
        let config = run.write(CONFIG, &config)?;
        let args = vec!["--config".to_owned(), config.display().to_string()];
        let (shim, kept) = match two {
            true => shim::start(run, &socket, &shim_socket, runtime, kubelet)
                .map(|(shim, kept)| (Some(shim), Some(kept)))?,
            false if outside => {
                let shim = Service::new(run, "berth-shim", "berth-shim", Vec::new());
                (Some(shim.grace(ENDS_WITHIN)), None)
            }
            false => (None, None),
        };
        let fault_file = dir.join("fault");
        let berthd = Self {
            run: run.clone(),
            service: Service::new(run, "berthd", programs::berth("berthd")?, args)
                .env("BERTH_FAULT_FILE", fault_file.display().to_string())
                .grace(ENDS_WITHIN),
            shim,
            kept,
            fault_file,
            socket: match place {
                PathMode::Inline | PathMode::BehindShim => socket,
                PathMode::Beside | PathMode::Takeover | PathMode::TakeoverBehindShim => runtime.to_owned(),
            },
            admin,
            desired,
            http,
        };
        berthd.service.start()?;
        berthd.ready().await?;
        if outside {
            berthd.follow_shim().await?;
        }
        Ok(berthd)
    }

    /// Its process.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// The program of its process.
    pub fn program(&self) -> Result<PathBuf> {
        let pid = self.service.pid().context("berthd does not run")?;
        fs::read_link(format!("/proc/{pid}/exe")).context("its program")
    }

    /// The CRI socket the kubelet is given: its own, or the runtime's that it is beside, or at.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The socket of `berthctl`.
    pub fn admin_socket(&self) -> &Path {
        &self.admin
    }

    /// The folder of its store.
    pub fn state_dir(&self) -> PathBuf {
        self.run.path(STATE)
    }

    /// The folder where it looks for requests that are files.
    pub fn desired_dir(&self) -> &Path {
        &self.desired
    }

    /// Starts it anew with one more line among the settings of images.
    pub async fn set_images(&self, line: &str) -> Result<()> {
        let config = fs::read_to_string(self.run.path(CONFIG)).context("its configuration")?;
        self.run.write(CONFIG, &config.replacen("images:\n", &format!("images:\n  {line}\n"), 1))?;
        self.service.stop()?;
        self.service.start()?;
        self.ready().await
    }

    /// Starts it anew with this token of a service account in place of the kubelet's identity.
    pub async fn act_as(&self, token: &str) -> Result<()> {
        let file = self.run.write(TOKEN, token)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).context("keep the token")?;
        self.configure(&format!("cluster:\n  serviceAccount:\n    tokenFile: {}\n", file.display())).await
    }

    /// Starts it anew with one more section of the configuration, which it does not have yet.
    pub async fn configure(&self, section: &str) -> Result<()> {
        let config = fs::read_to_string(self.run.path(CONFIG)).context("its configuration")?;
        self.run.write(CONFIG, &format!("{config}{section}"))?;
        self.service.stop()?;
        self.service.start()?;
        self.ready().await
    }

    /// Crashes it and starts it again; whether it is ready is another question when the API server is away.
    pub async fn crash(&self) -> Result<()> {
        self.service.kill()?;
        self.service.start()?;
        self.serving().await
    }

    /// The same where systemd keeps its socket: whoever connects meanwhile waits. Where the socket is the
    /// shim's that is so in any case.
    pub async fn crash_on_kept_socket(&self) -> Result<()> {
        if self.shim.is_some() {
            return self.crash().await;
        }
        let new = self.socket.with_extension("kept");
        let kept = UnixListener::bind(&new).context("a socket to be kept")?;
        fs::rename(&new, &self.socket).context("put it in the other's place")?;
        self.service.kill()?;
        self.service.start_on(kept.into())?;
        self.serving().await
    }

    /// Tells it to end, waits for that, and starts it again, as systemd's `restart` does.
    pub async fn restart(&self) -> Result<()> {
        self.service.stop()?;
        self.service.start()?;
        self.serving().await
    }

    /// Hands its place over to a process of this program with `berthctl upgrade`, and means that one from
    /// then on. What `berthctl` says when that fails is the error, and whoever answers is meant.
    pub async fn upgrade(&self, program: &Path, flags: &[&str]) -> Result<()> {
        let to = format!("--to={}", program.display());
        let mut args = vec!["upgrade", to.as_str()];
        args.extend(flags);
        if !flags.iter().any(|flag| flag.starts_with("--ready-within")) {
            args.push(READY_WITHIN);
        }
        let upgraded = self.ctl(&args).await.map(drop);
        self.follow().await?;
        upgraded
    }

    /// Starts a second process of the program that takes the place of this one, and means that one from then
    /// on.
    pub async fn succeed_by_itself(&self) -> Result<()> {
        let handover = self.admin.with_file_name("handover.sock").display().to_string();
        self.service.start_successor(&["--take-over", &handover])?;
        self.ready().await
    }

    /// Means the process that answers, whichever it is.
    pub async fn follow(&self) -> Result<()> {
        let pid = await_condition("berthctl status names a process", START_UP, async || {
            let status = self.ctl(&["status", "-o", "json"]).await?;
            let status: serde_json::Value = serde_json::from_str(&status)?;
            status["pid"].as_u64().context("no pid")
        })
        .await?;
        let pid = u32::try_from(pid).context("pid")?;
        if self.service.pid() != Some(pid) {
            self.service.succeeded_by(pid)?;
        }
        Ok(())
    }

    /// Waits until calls go through it, or through its shim, which has heard all from it.
    pub async fn serving(&self) -> Result<()> {
        await_condition("CRI calls go through berthd", START_UP, async || {
            self.check_running()?;
            Cri::connect(&self.socket)?.version().await?;
            if self.shim.is_some() {
                let shim = berth_shim::remote::look(&self.admin.with_file_name(SHIM_SOCKET)).await?;
                ensure!(shim.agent, "the shim is not connected to it");
            }
            Ok(())
        })
        .await
    }

    /// Fails when it has ended, or the shim that the suite has given it: nothing to wait for any more.
    fn check_running(&self) -> Result<()> {
        if let (Some(shim), Some(_)) = (&self.shim, &self.kept) {
            shim.check_running()?;
        }
        self.service.check_running()
    }

    /// Waits until it says that it is ready.
    pub async fn ready(&self) -> Result<()> {
        await_condition("berthd is ready", START_UP, async || {
            self.check_running()?;
            http::is_ready(&self.http).await
        })
        .await
    }

    /// `/metrics`.
    pub async fn metrics(&self) -> Result<String> {
        Ok(http::get(&self.http, "/metrics").await?.body)
    }

    /// Address at which scrapers of the cluster have its metrics.
    pub fn metrics_address(&self) -> String {
        self.run.address(Port::BerthdMetrics)
    }

    /// Runs `berthctl` on it.
    pub async fn ctl(&self, args: &[&str]) -> Result<String> {
        let endpoint = format!("--runtime-endpoint=unix://{}", self.socket.display());
        let admin = format!("--admin-socket={}", self.admin.display());
        let mut all = vec![endpoint.as_str(), admin.as_str()];
        all.extend(args);
        tool(programs::berth("berthctl")?, &all).await
    }
}

fn pod_view(run: &Run, view: &PodView) -> String {
    let kubelet = format!("  kubelet:\n    url: http://{}\n", run.address(Port::KubeletReadOnly));
    match view {
        // The kubelet's view stays configured: it is what goes on when the API server is away.
        PodView::Api { kubeconfig } => {
            let metrics = format!("metrics:\n  address: {}\n", run.address(Port::BerthdMetrics));
            format!("  mode: api\n  kubeconfig: {}\n{kubelet}{metrics}", kubeconfig.display())
        }
        PodView::Kubelet => format!("  mode: kubelet\n{kubelet}"),
        PodView::None => "  mode: none\n".to_owned(),
    }
}
