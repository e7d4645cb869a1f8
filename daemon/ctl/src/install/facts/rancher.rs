//! k3s and RKE2: their flags, and their configuration file with the drop-ins beside it.
//!
//! Taken from k3s' `pkg/configfilearg`, `pkg/util/args.go` and `pkg/daemons/agent`: flags of the files come
//! before those of the command line; a key with `+` adds to the list that the files before it have; of
//! several `kubelet-arg` for one flag of the kubelet the last counts, over k3s' own;
//! `container-runtime-endpoint` (without `kubelet-arg`) is about a runtime that k3s does not start itself.

use anyhow::Result;
use serde_json::Value;

use super::super::host::Host;
use super::super::places::Flavour;
use super::super::unit::{Unit, expand, flag};
use super::{Kubelet, certificate, kubelet};

/// Socket of cri-dockerd in k3s.
const DOCKER: &str = "unix:///run/k3s/cri-dockerd/cri-dockerd.sock";
const ENDPOINT: &str = "container-runtime-endpoint";

pub(super) fn read(host: &Host, flavour: Flavour, name: &str, unit: &Unit) -> Result<Kubelet> {
    let exec_start = unit.values("ExecStart");
    let variables = unit.environment(host)?;
    let args = expand(exec_start.last().map_or("", String::as_str), &variables);
    let config = Config::read(host, name, &flavour.drop_in())?;
    let told = |key: &str| flag(&args, key).map(str::to_owned).or_else(|| config.value(key));
    let of_kubelet = |args: &[String], key: &str| {
        let mut values = args.iter().filter_map(|arg| arg.split_once('='));
        values.rfind(|(name, _)| name.trim_start_matches("--") == key).map(|(_, value)| value.to_owned())
    };
    let by_flags = of_kubelet(&list(&args, "kubelet-arg"), ENDPOINT);
    let by_file = of_kubelet(&config.list("kubelet-arg"), ENDPOINT);
    let own = match told("docker").as_deref() {
        Some("false") | None if !args.iter().any(|arg| arg == "--docker") => told(ENDPOINT),
        _ => Some(DOCKER.to_owned()),
    };
    let elsewhere = flag(&args, "config").map(|path| format!("--config {path}"));
    let overruled = by_flags.as_ref().map(|value| format!("--kubelet-arg={ENDPOINT}={value}")).or(elsewhere);
    let data = told("data-dir");
    let kubeconfig =
        data.map_or_else(|| flavour.kubeconfig(), |dir| format!("{dir}/agent/kubelet.kubeconfig"));
    let kubeconfig = Some(kubeconfig).filter(|path| host.exists(path));
    // An identifier of the machine comes after the name then, and only the certificate has it.
    let with_id = args.iter().any(|arg| arg == "--with-node-id")
        || told("with-node-id").is_some_and(|value| value == "true");
    Ok(Kubelet {
        flavour,
        program: kubelet::program(&args),
        exec_start,
        endpoint: by_flags
            .or(by_file)
            .or(own)
            .map_or_else(|| flavour.runtime().to_owned(), kubelet::endpoint),
        image_endpoint: told("image-service-endpoint").map(kubelet::endpoint),
        overruled,
        configured: None,
        node_name: told("node-name").filter(|_| !with_id).and_then(|name| kubelet::node_name(&name)),
        certified: kubeconfig.as_deref().and_then(|path| certificate::of_kubeconfig(host, path)),
        kubeconfig,
        healthz: kubelet::healthz(None, None),
        // In a file that is not looked at.
        image_policy: None,
        verifies_images: of_kubelet(&list(&args, "kubelet-arg"), "feature-gates")
            .or_else(|| of_kubelet(&config.list("kubelet-arg"), "feature-gates"))
            .and_then(|gates| kubelet::verifies_images(&gates)),
        read_only_port: None,
    })
}

/// All values of a flag.
fn list(args: &[String], name: &str) -> Vec<String> {
    let one = |index: usize| flag(&args[index..args.len().min(index + 2)], name).map(str::to_owned);
    let mut values: Vec<String> = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        let is_it =
            arg.strip_prefix("--").is_some_and(|arg| arg == name || arg.starts_with(&format!("{name}=")));
        values.extend(is_it.then(|| one(index)).flatten());
    }
    values
}

/// `config.yaml` and the files of `config.yaml.d`, without Berth's.
struct Config(Vec<serde_json::Map<String, Value>>);

impl Config {
    fn read(host: &Host, name: &str, left_out: &str) -> Result<Self> {
        let main = format!("/etc/rancher/{name}/config.yaml");
        let mut files = vec![kubelet::yaml(host, &main)?];
        for file in host.list(&format!("{main}.d"))? {
            let path = format!("{main}.d/{file}");
            if (file.ends_with(".yaml") || file.ends_with(".yml")) && path != left_out {
                files.push(kubelet::yaml(host, &path)?);
            }
        }
        Ok(Self(files))
    }

    fn value(&self, key: &str) -> Option<String> {
        self.0.iter().rev().find_map(|file| file.get(key)).map(kubelet::text)
    }

    fn list(&self, key: &str) -> Vec<String> {
        let mut all = Vec::new();
        let more = format!("{key}+");
        for file in &self.0 {
            for (name, value) in file.iter().filter(|(name, _)| *name == key || **name == more) {
                if name == key {
                    all.clear();
                }
                match value {
                    Value::Array(values) => all.extend(values.iter().map(kubelet::text)),
                    value => all.push(kubelet::text(value)),
                }
            }
        }
        all
    }
}
