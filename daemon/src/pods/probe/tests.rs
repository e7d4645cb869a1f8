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

/// Defaults of a container are the kubelet's, those of a marker OpenKruise's.
#[test]
fn what_is_left_out_or_none_has_a_default() {
    let numbers = |probe: Probe| {
        let seconds = [probe.initial_delay, probe.timeout, probe.period].map(|one| one.as_secs());
        (seconds, probe.success_threshold, probe.failure_threshold)
    };
    let (kubelet, openkruise) = (([0, 1, 10], 1, 3), ([0, 1, 1], 1, 1));
    let given = ([5, 2, 7], 3, 9);
    let table = [
        ("{tcpSocket: {port: 1}}", kubelet, openkruise),
        (
            "{tcpSocket: {port: 1}, initialDelaySeconds: 5, timeoutSeconds: 2, periodSeconds: 7,
              successThreshold: 3, failureThreshold: 9}",
            given,
            given,
        ),
        (
            "{tcpSocket: {port: 1}, initialDelaySeconds: 0, timeoutSeconds: 0, periodSeconds: 0,
              successThreshold: 0, failureThreshold: 0}",
            kubelet,
            openkruise,
        ),
        (
            "{tcpSocket: {port: 1}, initialDelaySeconds: -1, timeoutSeconds: -2, periodSeconds: -3,
              successThreshold: -4, failureThreshold: -2147483648}",
            kubelet,
            openkruise,
        ),
    ];
    for (yaml, of_container, of_a_marker) in table {
        let launch = launch_probe(&container(), &read(yaml)).unwrap();
        assert_eq!(numbers(launch), of_container, "{yaml}");
        assert_eq!(numbers(of_marker(&container(), &read(yaml)).unwrap()), of_a_marker, "{yaml}");
        assert_eq!(numbers(resolved(&read(yaml)).unwrap()), of_a_marker, "{yaml}");
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
        let converted = of_marker(&container(), &read(yaml)).unwrap();
        assert!(converted.action == expected, "{yaml}");
        let launch = launch_probe(&container(), &read(yaml)).unwrap();
        assert_eq!(launch.action, expected, "{yaml}");
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
        let error = of_marker(&container(), &read(yaml)).unwrap_err().to_string();
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
