//! Where things are on a node: Berth's own files, and the services that are, or contain, a kubelet.

/// The program of the unit.
pub(crate) const BERTHD: &str = "/usr/local/bin/berthd";
/// The program of the data path, where that is one of its own.
pub(crate) const BERTH_SHIM: &str = "/usr/local/bin/berth-shim";
/// This program.
pub(crate) const BERTHCTL: &str = "/usr/local/bin/berthctl";
/// The name of a program, without its folder.
pub(crate) fn name_of(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

/// The agent's configuration; the administrator's to change.
pub(crate) const CONFIG: &str = "/etc/berth/berthd.yaml";
/// The socket unit.
pub(crate) const SOCKET_UNIT: &str = "berthd.socket";
/// The service unit.
pub(crate) const SERVICE_UNIT: &str = "berthd.service";
/// The service unit of the data path, where that is a program of its own.
pub(crate) const SHIM_UNIT: &str = "berth-shim.service";
/// Its flags, as variables; the administrator's to change.
pub(crate) const SHIM_ENV: &str = "/etc/berth/shim.env";
/// Where they are written.
pub(crate) const UNIT_DIR: &str = "/etc/systemd/system";
/// Moves the CRI socket where CRI-O is the runtime.
pub(crate) const CRIO_SOCKET_DROP_IN: &str = "/etc/systemd/system/berthd.socket.d/50-crio.conf";
/// Gives the socket unit to `berth-shim`, and a second socket.
pub(crate) const SHIM_SOCKET_DROP_IN: &str = "/etc/systemd/system/berthd.socket.d/50-two-programs.conf";
/// Gives berthd the settings that an installation had as env.
pub(crate) const ENV_DROP_IN: &str = "/etc/systemd/system/berthd.service.d/50-env.conf";
/// State of the agent.
pub(crate) const STATE_DIR: &str = "/var/lib/berth";
/// Journal of the changes of an installation.
pub(crate) const JOURNAL: &str = "/var/lib/berth/install.json";
/// The agent's sockets. They outlive it.
pub(crate) const RUN_DIR: &str = "/run/berth";
/// The CRI socket of Berth.
pub(crate) const SOCKET: &str = "/run/berth/cri.sock";
/// The same where CRI-O is the runtime: by the end of this path the kubelet decides where it takes its
/// statistics from (`UsingLegacyCadvisorStats`).
pub(crate) const CRIO_SOCKET: &str = "/run/berth/run/crio/crio.sock";
/// The end of that path, below the node's root.
pub(crate) const CRIO_PATH: &str = "run/crio/crio.sock";
/// The kubelet's default (`containerRuntimeEndpoint` of KubeletConfiguration).
pub(crate) const CONTAINERD: &str = "unix:///run/containerd/containerd.sock";

/// The units, as they are in this repository.
pub(crate) const UNITS: [(&str, &str); 2] = [
    (SOCKET_UNIT, include_str!("../../../../systemd/berthd.socket")),
    (SERVICE_UNIT, include_str!("../../../../systemd/berthd.service")),
];

/// The rest of the units where the data path is a program of its own, by their paths.
pub(crate) const SHIM_UNITS: [(&str, &str); 2] = [
    ("/etc/systemd/system/berth-shim.service", include_str!("../../../../systemd/berth-shim.service")),
    (SHIM_SOCKET_DROP_IN, include_str!("../../../../systemd/berthd.socket.d-two-programs.conf")),
];

/// The units that are started, each after those that it needs.
pub(crate) fn started(two_programs: bool) -> &'static [&'static str] {
    match two_programs {
        true => &[SOCKET_UNIT, SHIM_UNIT, SERVICE_UNIT],
        false => &[SOCKET_UNIT, SERVICE_UNIT],
    }
}

/// A service that is, or contains, a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// A kubelet in a service of its own: kubeadm, or by hand.
    Kubelet,
    /// k3s, with a control plane.
    K3s,
    /// k3s without one.
    K3sAgent,
    /// RKE2, with a control plane.
    Rke2Server,
    /// RKE2 without one.
    Rke2Agent,
}

impl Flavour {
    /// All of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Kubelet, Self::K3s, Self::K3sAgent, Self::Rke2Server, Self::Rke2Agent];

    /// Its systemd unit.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet.service",
            Self::K3s => "k3s.service",
            Self::K3sAgent => "k3s-agent.service",
            Self::Rke2Server => "rke2-server.service",
            Self::Rke2Agent => "rke2-agent.service",
        }
    }

    /// Its folder below `/etc/rancher` and `/var/lib/rancher`; `None` for a kubelet of its own.
    pub(crate) fn rancher(self) -> Option<&'static str> {
        match self {
            Self::Kubelet => None,
            Self::K3s | Self::K3sAgent => Some("k3s"),
            Self::Rke2Server | Self::Rke2Agent => Some("rke2"),
        }
    }

    /// The one file that leads its kubelet to Berth.
    pub(crate) fn drop_in(self) -> String {
        match self.rancher() {
            None => format!("{UNIT_DIR}/{}.d/90-berth.conf", self.unit()),
            Some(name) => format!("/etc/rancher/{name}/config.yaml.d/90-berth.yaml"),
        }
    }

    /// The kubelet's kubeconfig where nothing else is said.
    pub(crate) fn kubeconfig(self) -> String {
        match self.rancher() {
            None => "/etc/kubernetes/kubelet.conf".to_owned(),
            Some(name) => format!("/var/lib/rancher/{name}/agent/kubelet.kubeconfig"),
        }
    }

    /// The CRI socket it uses where nothing else is said. k3s and RKE2 bring their own containerd, at the
    /// same place.
    pub(crate) fn runtime(self) -> &'static str {
        match self.rancher() {
            None => CONTAINERD,
            Some(_) => "unix:///run/k3s/containerd/containerd.sock",
        }
    }
}

/// The folder of a file.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns where a unit of ours is written.
pub(crate) fn unit_path(unit: &str) -> String {
    format!("{UNIT_DIR}/{unit}")
}

/// Berth's CRI socket in front of this runtime.
pub(crate) fn socket_for(runtime: &str) -> &'static str {
    if is_crio(runtime) { CRIO_SOCKET } else { SOCKET }
}

/// Tells whether an endpoint is CRI-O's, by the kubelet's rule.
pub(crate) fn is_crio(endpoint: &str) -> bool {
    endpoint.ends_with(CRIO_PATH)
}

/// Tells whether an endpoint is Berth's own.
pub(crate) fn is_ours(endpoint: &str) -> bool {
    let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
    let path = path.strip_prefix("/var").filter(|rest| rest.starts_with("/run/")).unwrap_or(path);
    path == SOCKET || path == CRIO_SOCKET
}
