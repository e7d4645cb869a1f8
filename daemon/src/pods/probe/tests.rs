//! Probes as users write them.

use super::*;

fn container() -> core::Container {
    serde_saphyr::from_str(
        "{name: web, ports: [{name: http, containerPort: 8080}, {name: '9090', containerPort: 1}]}",
    )
    .unwrap()
}

fn read(yaml: &str) -> core::Probe {
    serde_saphyr::from_str(yaml).unwrap()
}

#[test]
fn what_is_left_out_is_as_the_kubelet_has_it() {
    let numbers = |yaml: &str| {
        let probe = probe(&container(), &read(yaml)).unwrap();
        let seconds = [probe.initial_delay, probe.timeout, probe.period].map(|one| one.as_secs());
        (seconds, probe.success_threshold, probe.failure_threshold)
    };
    let table = [
        ("{tcpSocket: {port: 1}}", ([0, 1, 10], 1, 3)),
        (
            "{tcpSocket: {port: 1}, initialDelaySeconds: 5, timeoutSeconds: 2, periodSeconds: 7,
              successThreshold: 3, failureThreshold: 9}",
            ([5, 2, 7], 3, 9),
        ),
        (
            "{tcpSocket: {port: 1}, initialDelaySeconds: 0, timeoutSeconds: 0, periodSeconds: 0,
              successThreshold: 0, failureThreshold: 0}",
            ([0, 1, 10], 1, 3),
        ),
        (
            "{tcpSocket: {port: 1}, initialDelaySeconds: -1, timeoutSeconds: -2, periodSeconds: -3,
              successThreshold: -4, failureThreshold: -2147483648}",
            ([0, 1, 10], 1, 3),
        ),
    ];
    for (yaml, expected) in table {
        assert_eq!(numbers(yaml), expected, "{yaml}");
    }
}

#[test]
fn what_is_done() {
    let http = |port, path: &str, https, headers: &[(&str, &str)]| ProbeAction::Http {
        port,
        path: path.to_owned(),
        https,
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    let table = [
        (
            "{exec: {command: [sh, -c, 'exit 0']}}",
            ProbeAction::Exec { command: ["sh", "-c", "exit 0"].map(str::to_owned).to_vec() },
        ),
        ("{httpGet: {port: http}}", http(8080, "/", false, &[])),
        ("{httpGet: {port: 80, path: '', host: '', scheme: ''}}", http(80, "/", false, &[])),
        (
            "{httpGet: {port: 443, path: '/a?b', scheme: HTTPS, httpHeaders: [{name: Host, value: x}, {name: A, value: ''}]}}",
            http(443, "/a?b", true, &[("Host", "x"), ("A", "")]),
        ),
        ("{tcpSocket: {port: http, host: ''}}", ProbeAction::Tcp { port: 8080 }),
        // A name first, then a number.
        ("{tcpSocket: {port: '9090'}}", ProbeAction::Tcp { port: 1 }),
        ("{tcpSocket: {port: '9091'}}", ProbeAction::Tcp { port: 9091 }),
        ("{grpc: {port: 5000}}", ProbeAction::Grpc { port: 5000, service: String::new() }),
        ("{grpc: {port: 5000, service: live}}", ProbeAction::Grpc { port: 5000, service: "live".to_owned() }),
    ];
    for (yaml, expected) in table {
        let converted = probe(&container(), &read(yaml)).unwrap();
        assert!(converted.action == expected, "{yaml}");
        assert_eq!(launch_probe(&container(), &read(yaml)), Some(converted), "{yaml}");
    }
}

#[test]
fn what_is_refused_names_its_field() {
    let table = [
        ("{}", "0 are there"),
        ("{exec: {command: [x]}, grpc: {port: 1}}", "2 are there"),
        ("{exec: {command: [x]}, httpGet: {port: 1}, tcpSocket: {port: 1}, grpc: {port: 1}}", "4 are there"),
        ("{exec: {}}", "exec.command is empty"),
        ("{exec: {command: []}}", "exec.command is empty"),
        ("{httpGet: {port: 80, host: 169.254.169.254}}", "httpGet.host is refused"),
        ("{tcpSocket: {port: 80, host: db}}", "tcpSocket.host is refused"),
        ("{httpGet: {port: 80, scheme: FTP}}", "httpGet.scheme \"FTP\""),
        ("{httpGet: {port: nope}}", "httpGet.port \"nope\""),
        ("{httpGet: {port: 0}}", "httpGet.port \"0\""),
        ("{tcpSocket: {port: 65536}}", "tcpSocket.port \"65536\""),
        ("{tcpSocket: {port: -1}}", "tcpSocket.port \"-1\""),
        ("{grpc: {port: 0}}", "grpc.port \"0\""),
    ];
    for (yaml, part) in table {
        let error = probe(&container(), &read(yaml)).unwrap_err().to_string();
        assert!(error.contains(part), "{yaml}: {error}");
        assert_eq!(launch_probe(&container(), &read(yaml)), None, "{yaml}");
    }
}

#[test]
fn names_of_ports_are_resolved_before_a_node_sees_them() {
    assert!(resolved(&read("{tcpSocket: {port: 8080}}")).is_ok());
    let error = resolved(&read("{tcpSocket: {port: http}}")).unwrap_err();
    assert_eq!(error, ProbeError::Port { field: "tcpSocket.port", port: "http".to_owned() });
}
