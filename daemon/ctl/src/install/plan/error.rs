//! Reasons why no plan is made.

use std::path::PathBuf;

use super::super::places::{BERTH_SHIM, BERTHD, CONFIG, SHIM_ENV};

/// Why there is nothing to be done; each says what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    /// No kubelet.
    #[error(
        "no kubelet found: there is no unit kubelet.service, k3s.service, k3s-agent.service, rke2-server.service or \
         rke2-agent.service; install Kubernetes first"
    )]
    NoKubelet,
    /// More than one.
    #[error("several services may be the kubelet ({}); name the one with --kubelet-unit", .0.join(", "))]
    Ambiguous(Vec<&'static str>),
    /// A command line that cannot be added to.
    #[error(
        "{unit} has {count} ExecStart=, so the kubelet's command line cannot be added to; set containerRuntimeEndpoint: \
         unix:///run/berth/cri.sock in its configuration by hand"
    )]
    ExecStart {
        /// The unit.
        unit: &'static str,
        /// How many.
        count: usize,
    },
    /// The unit starts something that starts the kubelet.
    #[error(
        "{unit} starts {program:?}, which is no kubelet, so a flag after it may not reach one; set \
         containerRuntimeEndpoint: unix:///run/berth/cri.sock in the kubelet's configuration by hand"
    )]
    Wrapped {
        /// The unit.
        unit: &'static str,
        /// Program that the unit starts.
        program: String,
    },
    /// A flag of k3s or RKE2 counts more than any file.
    #[error(
        "{unit} is started with {flag}, which counts more than the file that would lead its kubelet to Berth; take it \
             out of the unit, or lead the kubelet there by hand"
    )]
    Overruled {
        /// The unit.
        unit: &'static str,
        /// The flag.
        flag: String,
    },
    /// The kubelet is told to be one Node, and its certificate is that of another one.
    #[error(
        "the kubelet is told to be node {told} (--hostname-override, or node-name of k3s and RKE2), and the client \
         certificate in {kubeconfig} is that of node {certified}, so the API server keeps it from its Node; correct the \
         flag or join the node anew, or write nodeName into {CONFIG} if you know which one it is"
    )]
    NodeNames {
        /// By its flags.
        told: String,
        /// By its certificate.
        certified: String,
        /// The file.
        kubeconfig: String,
    },
    /// The kubelet speaks to Berth by its own configuration, so the runtime is not known.
    #[error(
        "the kubelet's own configuration names Berth's socket, so its runtime is not known; name that with --runtime"
    )]
    NoRuntime,
    /// Not a unix socket.
    #[error("the kubelet's runtime is at {0:?}; Berth speaks to runtimes over unix sockets")]
    NotUnix(String),
    /// cri-dockerd.
    #[error(
        "the runtime behind {0:?} is cri-dockerd, which Berth has never been tried with; move the node to containerd"
    )]
    Docker(String),
    /// No program to install.
    #[error("there is no berthd at {BERTHD}, and none beside this berthctl in {}; put them into one folder", .0.display())]
    NoProgram(PathBuf),
    /// No program of the data path.
    #[error(
        "there is no berth-shim at {BERTH_SHIM}, and none beside this berthctl in {}; put them into one folder, or install \
         with --one-program", .0.display()
    )]
    NoShim(PathBuf),
    /// Berth is there, and its socket is berthd's.
    #[error(
        "Berth is installed here as one program, and its socket cannot change hands while the kubelet uses it; berthctl \
         uninstall, and then install it as two"
    )]
    OneProgram,
    /// Berth is there, and its socket is `berth-shim`'s.
    #[error(
        "Berth is installed here as two programs, and its socket cannot change hands while the kubelet uses it; berthctl \
         uninstall, and then install it with --one-program"
    )]
    TwoPrograms,
    /// The administrator's configuration is of the other kind.
    #[error(
        "{CONFIG} has {has}, and for {programs} it needs {needs}; change it, or remove it to have one written"
    )]
    Configured {
        /// Wish.
        programs: &'static str,
        /// As configured.
        has: String,
        /// As it should be.
        needs: String,
    },
    /// Two runtimes.
    #[error(
        "{SHIM_ENV} has BERTH_RUNTIME_ENDPOINT={has}, and the runtime is {runtime}; correct or remove that file"
    )]
    ShimRuntime {
        /// As configured.
        has: String,
        /// The runtime.
        runtime: String,
    },
}
