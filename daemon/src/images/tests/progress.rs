//! What is recognised as a pull's own.

use super::*;

fn info(updated: (i64, i32), labels: &[(&str, &str)]) -> Info {
    let mut info = Info { digest: "sha256:m".to_owned(), ..Info::default() };
    let at = info.updated_at.get_or_insert_default();
    (at.seconds, at.nanos) = updated;
    info.labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    info
}

#[test]
fn hosts_have_no_port() {
    let table = [
        ("docker.io", "docker.io"),
        ("127.0.0.1:5000", "127.0.0.1"),
        ("localhost", "localhost"),
        ("[::1]:5000", "::1"),
        ("[::1]", "::1"),
    ];
    for (registry, expect) in table {
        assert_eq!(host(registry), expect);
    }
}

#[test]
fn repositories_are_named_whole() {
    let source = "containerd.io/distribution.source.docker.io";
    let of = |value: &str| of_repository(&info((1, 0), &[(source, value)]), source, "library/app");
    assert!(of("library/app") && of("team/app,library/app"));
    assert!(!of("library/app2") && !of("my/library/app") && !of(""));
    assert!(!of_repository(&info((1, 0), &[("other", "library/app")]), source, "library/app"));
}

#[test]
fn downloads_by_their_digest() {
    let downloads = [("layer-sha256:a".to_owned(), 5), ("config-sha256:c".to_owned(), 1)];
    assert_eq!(under_way(&downloads, "sha256:a"), Some(5));
    assert_eq!(under_way(&downloads, "sha256:c"), Some(1));
    assert_eq!(under_way(&downloads, "sha256:b"), None);
    let with = |digest: &str| {
        is_under_way(&info((1, 0), &[("containerd.io/gc.ref.content.l.0", digest)]), &downloads)
    };
    assert!(with("sha256:a") && !with("sha256:b"));
}

#[test]
fn the_later_one_moved_last() {
    assert!(moved(&info((5, 7), &[])) > moved(&info((5, 6), &[])));
    assert!(moved(&info((6, 0), &[])) > moved(&info((5, 6), &[])));
    assert_eq!(moved(&Info::default()), (0, 0));
    let mut made = info((-62_135_596_800, 0), &[]);
    made.created_at.get_or_insert_default().seconds = 9;
    assert_eq!(moved(&made), (9, 0));
}
