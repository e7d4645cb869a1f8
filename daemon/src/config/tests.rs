use super::*;

const HEADER: &str = "apiVersion: berth.dev/v1alpha1\nkind: BerthdConfiguration\n";

fn parse(body: &str) -> Result<Configuration, String> {
    Configuration::parse(&format!("{HEADER}{body}")).map_err(|error| error.to_string())
}

#[test]
fn the_printed_defaults_are_the_defaults() {
    assert_eq!(Configuration::parse(DEFAULTS).unwrap(), Configuration::default());
}

#[test]
fn the_commented_fields_of_the_printed_defaults_are_valid_too() {
    let uncommented: String = DEFAULTS
        .lines()
        .map(|line| match line.split_once("# ") {
            Some((indent, field))
                if field.split_whitespace().next().is_some_and(|word| word.ends_with(':')) =>
            {
                let known = [
                    "runtimeEndpoint:",
                    "shimSocket:",
                    "agentNamespace:",
                    "nodeName:",
                    "kubeconfig:",
                    "kubelet:",
                    "  url:",
                    "  tokenFile:",
                    "  caFile:",
                    "cluster:",
                    "  serviceAccount:",
                    "    namespace:",
                    "    name:",
                    "    tokenFile:",
                    "    boundToPod:",
                    "credentialProviderConfig:",
                    "credentialProviderBinDir:",
                    "endpoint:",
                    "metrics:",
                    "  address:",
                    "  certificateFile:",
                    "  keyFile:",
                ];
                let is_field = known.iter().any(|name| field.starts_with(name));
                if is_field { format!("{indent}{field}\n") } else { format!("{line}\n") }
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let config = Configuration::parse(&uncommented).unwrap();
    assert_eq!(config.tracing.endpoint, "127.0.0.1:4317".parse().ok());
    // Not every build takes it.
    let config = Configuration { tracing: Tracing::default(), ..config }.check().unwrap();
    assert_eq!(config.pod_view.mode, ViewMode::Api);
    assert_eq!(config.pod_view.kubelet.unwrap().url, "https://127.0.0.1:10250");
    assert_eq!(config.cluster.service_account, Some(ServiceAccount::default()));
    assert_eq!(config.node_name.as_deref(), Some("node-a"));
    assert!(config.images.credential_provider_config.is_some());
    assert!(config.metrics.address.is_some() && config.metrics.key_file.is_some());
}

#[test]
fn an_error_names_line_and_field() {
    let table = [
        ("sockt: /run/x.sock\n", ["line 3", "sockt"]),
        ("launchOrder:\n  holdTimeout: soon\n", ["line 4", "soon"]),
        ("podView:\n  mode: sometimes\n", ["line 4", "sometimes"]),
        ("socket: relative.sock\n", ["line 3", "relative.sock"]),
        ("runtimeEndpoint: tcp://127.0.0.1:1\n", ["line 3", "tcp://127.0.0.1:1"]),
        ("httpAddress: nowhere\n", ["line 3", "address"]),
        ("socket: /a.sock\nsocket: /b.sock\n", ["line 4", "socket"]),
        ("launchOrder: {failurePolicy: open}\n", ["line 3", "open"]),
        ("launchOrder:\n  distinctSeconds: 2\n", ["line 4", "2"]),
        ("exitOrder:\n  enabled: maybe\n", ["line 4", "maybe"]),
        ("images:\n  reserve: half\n", ["line 4", "half"]),
        ("images:\n  parallelPulls: 0\n", ["line 4", "nonzero"]),
        ("images:\n  pinFor: long\n", ["line 4", "long"]),
        ("images:\n  pinfor: 1h\n", ["line 4", "pinfor"]),
        ("updates:\n  containersMeta: some\n", ["line 4", "some"]),
        ("cluster:\n  serviceAcount: {}\n", ["line 4", "serviceAcount"]),
        ("cluster:\n  serviceAccount:\n    token: x\n", ["line 5", "token"]),
    ];
    for (body, parts) in table {
        let error = parse(body).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{part:?} is missing for {body:?} in:\n{error}");
        }
    }
}

#[test]
fn a_foreign_document_is_refused() {
    for text in [
        "",
        "kind: BerthdConfiguration\n",
        "apiVersion: berth.dev/v2\nkind: BerthdConfiguration\n",
        "apiVersion: v1\nkind: Pod\n",
    ] {
        assert!(Configuration::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn contradictions_name_the_field() {
    let table = [
        ("httpAddress: 0.0.0.0:80\n", "httpAddress"),
        ("metrics: {address: '0.0.0.0:10354'}\n", "metrics.address"),
        (
            "podView: {kubeconfig: /k}\nmetrics: {certificateFile: /c, keyFile: /k}\n",
            "metrics.certificateFile",
        ),
        ("podView: {kubeconfig: /k}\nmetrics: {address: '[::]:1', certificateFile: /c}\n", "metrics.keyFile"),
        ("podView: {kubeconfig: /k}\nmetrics: {address: '[::]:1', keyFile: k}\n", "metrics.keyFile"),
        ("kubeletProcesses: ['']\n", "kubeletProcesses"),
        ("kubeletProcesses: [sixteen-bytes-xx]\n", "kubeletProcesses"),
        ("launchOrder: {holdTimeout: 0s}\n", "launchOrder.holdTimeout"),
        ("launchOrder: {holdTimeout: 31s}\n", "launchOrder.holdTimeout"),
        ("launchOrder: {earlyHoldTimeout: 0s}\n", "launchOrder.earlyHoldTimeout"),
        ("adminSocket: /run/berth/cri.sock\n", "adminSocket"),
        ("desiredDir: desired\n", "desiredDir"),
        ("desiredDir: /var/lib/berth/requests\n", "desiredDir"),
        ("images: {dockerConfig: [config.json]}\n", "images.dockerConfig"),
        ("images: {credentialProviderConfig: /a}\n", "images.credentialProviderBinDir"),
        ("images: {credentialProviderBinDir: /a}\n", "images.credentialProviderConfig"),
        (
            "images: {credentialProviderConfig: a, credentialProviderBinDir: /b}\n",
            "images.credentialProviderConfig",
        ),
        ("podView: {mode: api}\n", "podView.kubeconfig"),
        ("podView: {mode: kubelet}\n", "podView.kubelet"),
        ("podView: {kubelet: {url: 'ftp://x'}}\n", "podView.kubelet.url"),
        ("podView: {kubelet: {url: 'https://x', clientKey: /k}}\n", "podView.kubelet.clientKey"),
        ("cluster: {serviceAccount: {}}\n", "cluster.serviceAccount"),
        ("podView: {kubeconfig: /k}\ncluster: {serviceAccount: {name: ''}}\n", "cluster.serviceAccount"),
        (
            "podView: {kubeconfig: /k}\ncluster: {serviceAccount: {tokenFile: t}}\n",
            "cluster.serviceAccount.tokenFile",
        ),
    ];
    for (body, field) in table {
        let error = parse(body).unwrap().check_in(false).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{field}: ")), "{error}");
    }
}

#[test]
fn auto_picks_what_is_there() {
    let mode = |body: &str| parse(body).unwrap().check_in(false).unwrap().pod_view.mode;
    assert_eq!(mode(""), ViewMode::None);
    assert_eq!(mode("podView: {kubelet: {url: 'http://127.0.0.1:10255'}}\n"), ViewMode::Kubelet);
    assert_eq!(mode("podView: {kubeconfig: /k, kubelet: {url: 'http://127.0.0.1:10255'}}\n"), ViewMode::Api);
    assert_eq!(mode("podView: {mode: none, kubeconfig: /k}\n"), ViewMode::None);
    let in_a_pod = |body: &str| parse(body).unwrap().check_in(true).unwrap().pod_view.mode;
    assert_eq!(in_a_pod(""), ViewMode::Api);
    assert_eq!(in_a_pod("podView: {mode: api}\n"), ViewMode::Api);
    assert_eq!(
        in_a_pod("podView: {mode: kubelet, kubelet: {url: 'http://127.0.0.1:10255'}}\n"),
        ViewMode::Kubelet
    );
}

#[test]
fn tracing_needs_a_build_that_exports() {
    let check = |body: &str, exports| {
        let config = parse(body).unwrap();
        config.tracing.check(exports).map_err(|(field, reason)| format!("{field}: {reason}"))
    };
    let endpoint = "tracing: {endpoint: 'localhost:4317'}\n";
    let sampled = "tracing: {endpoint: 'localhost:4317', samplingRatePerMillion: 1000000}\n";
    let table: [(&str, bool, Option<[&str; 2]>); 7] = [
        ("", false, None),
        ("tracing: {}\n", true, None),
        (endpoint, true, None),
        (sampled, true, None),
        (endpoint, false, Some(["tracing.endpoint: ", "--features otlp"])),
        (
            "tracing: {samplingRatePerMillion: 1}\n",
            true,
            Some(["samplingRatePerMillion: ", "tracing.endpoint"]),
        ),
        (
            "tracing: {endpoint: 'a:1', samplingRatePerMillion: 1000001}\n",
            true,
            Some(["samplingRatePerMillion: ", "1000000"]),
        ),
    ];
    for (body, exports, expect) in table {
        match (check(body, exports), expect) {
            (Ok(()), None) => {}
            (Err(error), Some(parts)) => {
                assert!(parts.iter().all(|part| error.contains(part)), "{body:?}: {error}");
            }
            (result, _) => panic!("{body:?}: {result:?}"),
        }
    }
    // This build, as it is.
    assert_eq!(parse(endpoint).unwrap().check_in(false).is_ok(), cfg!(feature = "otlp"));
}

#[test]
fn collectors() {
    let long = format!("{}:4317", "a".repeat(254));
    let table = [
        ("127.0.0.1:4317", Some("127.0.0.1:4317")),
        ("http://collector.observability.svc:4317", Some("collector.observability.svc:4317")),
        ("[::1]:4317", Some("[::1]:4317")),
        ("https://collector:4317", None),
        ("unix:///run/otel.sock", None),
        ("collector", None),
        ("collector:", None),
        (":4317", None),
        ("collector:0", None),
        ("collector:65536", None),
        ("collector:+1", None),
        ("[collector]:4317", None),
        ("::1:4317", None),
        ("collector:4317/v1/traces", None),
        ("user@collector:4317", None),
        ("a b:1", None),
        (&long, None),
        ("", None),
    ];
    for (text, expect) in table {
        let read = text.parse::<Collector>();
        assert_eq!(read.as_ref().map(ToString::to_string).ok().as_deref(), expect, "{text:?}");
        if let Err(error) = read {
            assert!(error.to_string().contains("127.0.0.1:4317"), "{error}");
        }
    }
}

#[test]
fn go_durations() {
    let millis = |text: &str| text.parse::<GoDuration>().map(|duration| duration.0.as_millis()).ok();
    let table = [
        ("5s", Some(5000)),
        ("1h30m", Some(5_400_000)),
        ("1.5s", Some(1500)),
        ("250ms", Some(250)),
        ("0", Some(0)),
        ("", None),
        ("5", None),
        ("s", None),
        ("-1s", None),
        ("5 s", None),
        ("1d", None),
        ("1..5s", None),
        ("99999999999999999999h", None),
    ];
    for (text, expect) in table {
        assert_eq!(millis(text), expect, "{text:?}");
    }
    // Exact, however long, and written as it was read.
    for (text, expect) in [
        ("2834h", "10202400s"),
        ("10206495500.500001ms", "10206495500.500001ms"),
        (".0000000019s", "0.000001ms"),
        ("1.5ms", "1.5ms"),
        ("500us", "0.5ms"),
    ] {
        let read: GoDuration = text.parse().unwrap();
        assert_eq!(read.to_string(), expect);
        assert_eq!(expect.parse(), Ok(read), "{text:?}");
    }
}

#[test]
fn endpoints_and_paths() {
    assert_eq!(String::from("/run/x.sock".parse::<Endpoint>().unwrap()), "unix:///run/x.sock");
    assert_eq!("unix:///run/x.sock".parse::<SocketPath>().unwrap().to_string(), "/run/x.sock");
    assert!(format!("/{}", "x".repeat(107)).parse::<SocketPath>().is_err());
    assert!("run/x.sock".parse::<Endpoint>().is_err());
}
