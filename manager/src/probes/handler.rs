//! Action of a probe, and how often it runs: the kubelet's Probe, with what the kubelet takes and what Berth
//! does not.

use k8s_openapi::{
    api::core::v1::{HTTPGetAction, Probe},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::spec::Fault;

/// The field is what follows `probe`.
pub(super) fn check(probe: &Probe) -> Result<(), Fault> {
    let Probe { exec, http_get, tcp_socket, grpc, .. } = probe;
    let handlers = [
        ("exec", exec.is_some()),
        ("httpGet", http_get.is_some()),
        ("tcpSocket", tcp_socket.is_some()),
        ("grpc", grpc.is_some()),
    ];
    let given: Vec<_> = handlers.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
    if given.len() != 1 {
        let has = if given.is_empty() { "no handler".to_owned() } else { given.join(" and ") };
        return fault("", format!("has {has}; give exactly one of exec, httpGet, tcpSocket and grpc"));
    }
    if exec.as_ref().is_some_and(|exec| exec.command.as_ref().is_none_or(Vec::is_empty)) {
        return fault(".exec.command", "is empty; give the program and its arguments".to_owned());
    }
    if let Some(http) = http_get {
        own_address(http.host.as_ref(), ".httpGet.host")?;
        scheme(http)?;
        port(&http.port, ".httpGet.port")?;
    }
    if let Some(tcp) = tcp_socket {
        own_address(tcp.host.as_ref(), ".tcpSocket.host")?;
        port(&tcp.port, ".tcpSocket.port")?;
    }
    if let Some(grpc) = grpc {
        port(&IntOrString::Int(grpc.port), ".grpc.port")?;
    }
    numbers(probe)
}

fn fault<T>(field: &str, problem: String) -> Result<T, Fault> {
    Err((field.to_owned(), problem))
}

/// Checks that no host is named: from the node, any would be within reach.
fn own_address(host: Option<&String>, field: &str) -> Result<(), Fault> {
    match host.filter(|host| !host.is_empty()) {
        Some(host) => fault(
            field,
            format!("is {host:?}; leave it out: a probe goes to the pod's own address and nowhere else"),
        ),
        None => Ok(()),
    }
}

fn scheme(http: &HTTPGetAction) -> Result<(), Fault> {
    match http.scheme.as_deref() {
        None | Some("" | "HTTP" | "HTTPS") => Ok(()),
        Some(other) => fault(".httpGet.scheme", format!("is {other:?}; give HTTP or HTTPS")),
    }
}

/// A name is looked up in each pod.
fn port(port: &IntOrString, field: &str) -> Result<(), Fault> {
    match port {
        IntOrString::Int(1..=65535) => Ok(()),
        IntOrString::String(name) if !name.is_empty() => Ok(()),
        IntOrString::Int(number) => {
            fault(field, format!("is {number}; give a port from 1 to 65535, or its name"))
        }
        IntOrString::String(_) => {
            fault(field, "is empty; give a port from 1 to 65535, or its name".to_owned())
        }
    }
}

/// Zero is the default.
fn numbers(probe: &Probe) -> Result<(), Fault> {
    let numbers = [
        (".initialDelaySeconds", probe.initial_delay_seconds.map(i64::from)),
        (".timeoutSeconds", probe.timeout_seconds.map(i64::from)),
        (".periodSeconds", probe.period_seconds.map(i64::from)),
        (".successThreshold", probe.success_threshold.map(i64::from)),
        (".failureThreshold", probe.failure_threshold.map(i64::from)),
        (".terminationGracePeriodSeconds", probe.termination_grace_period_seconds),
    ];
    match numbers.into_iter().find_map(|(field, number)| Some((field, number.filter(|number| *number < 0)?)))
    {
        Some((field, number)) => {
            fault(field, format!("is {number}; give 0 or more, or leave it out for the default"))
        }
        None => Ok(()),
    }
}
