//! Faults of the containers all together, as they would be in one pod: their names, and their ports on the
//! node.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use berth_proto::names::{is_dns_label, is_port_name};

use super::Written;
use crate::{
    fault::Fault,
    json::{Object, objects, text},
    sidecar::Sidecar,
};

pub(super) fn check(written: &Written, faults: &mut Vec<Fault>) {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut host_ports = BTreeSet::new();
    for (field, init) in [("initContainers", true), ("containers", false)] {
        for (at, container) in objects(written.spec, field).enumerate() {
            let path = format!("spec.{field}[{at}]");
            let sidecar = Sidecar::parse(container, init);
            if !is_dns_label(&sidecar.name) {
                let message = format!("{:?} is no DNS label of at most 63 letters: correct it", sidecar.name);
                faults.push(Fault::new(format!("{path}.name"), message));
            }
            if sidecar.hot.is_some() && (62..=63).contains(&sidecar.name.len()) {
                let message = "is too long for its twins, which have two letters more: give at most 61";
                faults.push(Fault::new(format!("{path}.name"), message));
            }
            for name in sidecar.names() {
                if let Some(other) = names.insert(name.clone(), path.clone()) {
                    let message = format!("Duplicate value: {name:?} is in {other} too: rename one of them");
                    faults.push(Fault::new(format!("{path}.name"), message));
                }
            }
            // Init containers run one after another, so their ports do not meet.
            ports(container, &path, sidecar.hot.is_some(), (!init).then_some(&mut host_ports), faults);
        }
    }
}

fn ports(
    container: &Object,
    path: &str,
    hot: bool,
    mut host_ports: Option<&mut BTreeSet<(String, i64, String)>>,
    faults: &mut Vec<Fault>,
) {
    let mut names = BTreeSet::new();
    for (at, port) in objects(container, "ports").enumerate() {
        let path = format!("{path}.ports[{at}]");
        let number = |member: &str| port.get(member).and_then(Value::as_i64).unwrap_or(0);
        if !(1..=65_535).contains(&number("containerPort")) {
            let message = "must be between 1 and 65535, inclusive: correct it";
            faults.push(Fault::new(format!("{path}.containerPort"), message));
        }
        let (protocol, host) = (text(port, "protocol"), number("hostPort"));
        if !matches!(protocol, "" | "TCP" | "UDP" | "SCTP") {
            let message = format!("unsupported value {protocol:?}: give TCP, UDP or SCTP");
            faults.push(Fault::new(format!("{path}.protocol"), message));
        }
        let name = text(port, "name");
        if !name.is_empty() && !is_port_name(name) {
            let message = format!(
                "{name:?} is no name of a port: give at most 15 small letters, digits and single dashes, \
                 a letter among them"
            );
            faults.push(Fault::new(format!("{path}.name"), message));
        }
        if !name.is_empty() && !names.insert(name) {
            faults.push(Fault::new(
                format!("{path}.name"),
                format!("Duplicate value: {name:?}: rename one of them"),
            ));
        }
        if host == 0 {
            continue;
        }
        let taken = (protocol.to_owned(), host, text(port, "hostIP").to_owned());
        let message = if !(1..=65_535).contains(&host) {
            Some("must be between 1 and 65535, inclusive: correct it".to_owned())
        } else if hot {
            Some("both twins of a HotUpgrade would claim it: remove it".to_owned())
        } else if host_ports.as_mut().is_some_and(|all| !all.insert(taken)) {
            Some(format!("Duplicate value: {host}: give each port of the node once"))
        } else {
            None
        };
        faults.extend(message.map(|message| Fault::new(format!("{path}.hostPort"), message)));
    }
}
