//! Facts about the node: which kubelet, what it is told, and what of Berth is there already. Only reads.

mod certificate;
mod kubelet;
mod rancher;
#[cfg(test)]
pub(crate) mod tests;

use anyhow::Result;

use super::host::Host;
use super::places::{
    self, BERTH_SHIM, BERTHCTL, BERTHD, CONFIG, Flavour, SHIM_ENV, SHIM_UNITS, UNITS, unit_path,
};
use super::plan::texts;
use super::unit::Unit;

/// A file in the folder that systemd makes when it starts berthd (`ConfigurationDirectory=`).
const REQUESTS: &str = "/etc/berth/desired/request.yaml";

/// All that a plan depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The services there are that may be the kubelet; the enabled ones if any is.
    pub candidates: Vec<Flavour>,
    /// Configuration of the only kubelet, or of the one that was asked for.
    pub kubelet: Option<Kubelet>,
    /// Files of Berth that are there.
    pub installed: Installed,
}

/// A kubelet, as it is without Berth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kubelet {
    /// In which service.
    pub flavour: Flavour,
    /// `ExecStart=` as the unit writes it, without Berth's drop-in.
    pub exec_start: Vec<String>,
    /// The program it starts.
    pub program: String,
    /// Its CRI socket.
    pub endpoint: String,
    /// The socket for images, where it is another setting.
    pub image_endpoint: Option<String>,
    /// Endpoint that flags of k3s or RKE2 give it, which count more than any file.
    pub overruled: Option<String>,
    /// Its kubeconfig, where there is that file.
    pub kubeconfig: Option<String>,
    /// `nodeName` of berthd's configuration, which the administrator may have written.
    pub configured: Option<String>,
    /// `--hostname-override`, or `node-name` of k3s and RKE2, as the kubelet takes it: in lower case.
    pub node_name: Option<String>,
    /// The Node that its client certificate is for, where its kubeconfig has one.
    pub certified: Option<String>,
    /// Where it says that it is healthy; `None` where it does not.
    pub healthz: Option<String>,
    /// `imagePullCredentialsVerificationPolicy`, where it is given.
    pub image_policy: Option<String>,
    /// Its feature gate `KubeletEnsureSecretPulledImages`, where it is given.
    pub verifies_images: Option<bool>,
    /// Its port without authentication on loopback, where it is open.
    pub read_only_port: Option<u16>,
}

/// Files of Berth that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    /// `/usr/local/bin/berthd`.
    pub berthd: bool,
    /// `/usr/local/bin/berthctl`.
    pub berthctl: bool,
    /// `/usr/local/bin/berth-shim`.
    pub berth_shim: bool,
    /// The configuration.
    pub config: Option<String>,
    /// The units, in the order of [`UNITS`].
    pub units: [Option<String>; 2],
    /// The rest of them for two programs, in the order of [`SHIM_UNITS`].
    pub shim_units: [Option<String>; 2],
    /// Flags of `berth-shim`.
    pub shim_env: Option<String>,
    /// Drop-in that moves the socket for CRI-O.
    pub crio_drop_in: Option<String>,
    /// Drop-in that gives berthd its settings as env.
    pub env_drop_in: Option<String>,
    /// Drop-ins that lead each kind of kubelet to Berth.
    pub drop_ins: Vec<(Flavour, String)>,
    /// The folders on the way to Berth's files that are not there yet, each after the one it is in.
    pub missing_dirs: Vec<String>,
}

impl Installed {
    /// Tells whether the socket is given to `berth-shim`.
    pub(crate) fn two_programs(&self) -> bool {
        let [_, drop_in] = &self.shim_units;
        drop_in.is_some()
    }
}

impl Facts {
    /// Looks at a node. `wanted` names the kubelet's unit where there are several.
    pub(crate) fn gather(host: &Host, wanted: Option<Flavour>) -> Result<Self> {
        let mut there = Vec::new();
        let mut enabled = Vec::new();
        for flavour in Flavour::ALL {
            if Unit::read(host, flavour.unit(), &flavour.drop_in())?.is_some() {
                there.push(flavour);
                if host.exists(&format!("{}/multi-user.target.wants/{}", places::UNIT_DIR, flavour.unit())) {
                    enabled.push(flavour);
                }
            }
        }
        let candidates = if enabled.is_empty() { there } else { enabled };
        let chosen = match (wanted, candidates.as_slice()) {
            (Some(wanted), _) => Some(wanted),
            (None, [only]) => Some(*only),
            (None, _) => None,
        };
        let mut kubelet = match chosen {
            Some(flavour) => Kubelet::read(host, flavour)?,
            None => None,
        };
        let installed = Installed::read(host, chosen)?;
        if let Some(kubelet) = &mut kubelet {
            kubelet.configured = installed.config.as_deref().and_then(texts::node_name_of);
        }
        Ok(Self { candidates, kubelet, installed })
    }
}

impl Kubelet {
    /// Returns the name of its Node, where something says it; otherwise that is the host name.
    pub(crate) fn named(&self) -> Option<&str> {
        let names = [&self.configured, &self.node_name, &self.certified];
        names.into_iter().flatten().next().map(String::as_str)
    }

    fn read(host: &Host, flavour: Flavour) -> Result<Option<Self>> {
        let Some(unit) = Unit::read(host, flavour.unit(), &flavour.drop_in())? else { return Ok(None) };
        match flavour.rancher() {
            None => kubelet::read(host, flavour, &unit).map(Some),
            Some(name) => rancher::read(host, flavour, name, &unit).map(Some),
        }
    }
}

impl Installed {
    fn read(host: &Host, flavour: Option<Flavour>) -> Result<Self> {
        let mut drop_ins = Vec::new();
        for flavour in Flavour::ALL {
            // k3s and its agent share theirs.
            let text = host.read(&flavour.drop_in())?;
            drop_ins.extend(text.map(|text| (flavour, text)));
        }
        let [socket, service] = UNITS.map(|(unit, _)| host.read(&unit_path(unit)));
        let [shim, shim_socket] = SHIM_UNITS.map(|(path, _)| host.read(path));
        let mut missing_dirs: Vec<String> = Vec::new();
        let drop_in = flavour.map(Flavour::drop_in);
        let unit = unit_path(UNITS[0].0);
        for file in [BERTHD, CONFIG, REQUESTS, &unit].into_iter().chain(drop_in.as_deref()) {
            let dir = places::folder_of(file);
            for (end, _) in dir.match_indices('/').skip(1).chain([(dir.len(), "")]) {
                let dir = dir[..end].to_owned();
                if !host.exists(&dir) && !missing_dirs.contains(&dir) {
                    missing_dirs.push(dir);
                }
            }
        }
        Ok(Self {
            berthd: host.exists(BERTHD),
            berthctl: host.exists(BERTHCTL),
            config: host.read(CONFIG)?,
            units: [socket?, service?],
            berth_shim: host.exists(BERTH_SHIM),
            shim_units: [shim?, shim_socket?],
            shim_env: host.read(SHIM_ENV)?,
            env_drop_in: host.read(places::ENV_DROP_IN)?,
            crio_drop_in: host.read(places::CRIO_SOCKET_DROP_IN)?,
            drop_ins,
            missing_dirs,
        })
    }
}
