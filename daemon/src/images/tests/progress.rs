//! Progress that is recognised as a pull's own.

use super::*;
use crate::{
    cri::played::{Answer, Played},
    images::runtime::ImageRuntime,
};

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
    let download =
        |name: &str, offset, second| Download { name: name.to_owned(), offset, written: (second, 0) };
    let downloads = [download("layer-sha256:a", 5, 100), download("config-sha256:c", 1, 50)];
    let offset = |digest| download_of(&downloads, digest).map(|download| download.offset);
    assert_eq!(offset("sha256:a"), Some(5));
    assert_eq!(offset("sha256:c"), Some(1));
    assert_eq!(offset("sha256:b"), None);
    let under_way = |digest: &str, since| {
        is_under_way(&info((1, 0), &[("containerd.io/gc.ref.content.l.0", digest)]), &downloads, (since, 0))
    };
    assert!(under_way("sha256:a", 100) && !under_way("sha256:b", 100));
    assert!(!under_way("sha256:c", 100), "left behind by a pull that was given up");
}

#[test]
fn the_manifest_of_a_pull() {
    let layer = "containerd.io/gc.ref.content.l.0";
    let manifest = |digest: &str, made, layer_digest: &str| {
        let mut info = info((made, 0), &[(layer, layer_digest)]);
        digest.clone_into(&mut info.digest);
        info
    };
    let download =
        |written| vec![Download { name: "layer-sha256:a".to_owned(), offset: 1, written: (written, 0) }];
    let (old, new) = (manifest("old", 10, "sha256:a"), manifest("new", 110, "sha256:b"));
    let other = manifest("other", 20, "sha256:c");
    let table = [
        ("nothing yet", vec![], download(0), None),
        ("only what was there", vec![old.clone(), other.clone()], vec![], None),
        ("new", vec![old.clone(), new.clone()], vec![], Some("new")),
        ("was there, layers come", vec![other.clone(), old.clone()], download(105), Some("old")),
        ("was there, layers were given up", vec![other, old.clone()], download(95), None),
        ("both, the kubelet pulls too", vec![new, old], download(105), Some("new")),
    ];
    for (case, manifests, downloads, expect) in table {
        let found = touched_last(manifests.into_iter(), &downloads, (100, 0));
        assert_eq!(found.as_deref(), expect, "{case}");
    }
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

#[tokio::test]
async fn a_manifest_that_cannot_be_read_is_read_once() {
    let played = Played::new(|method, _| {
        // A `ReadContentResponse` with the two bytes of a blob, or nothing.
        Answer::Message(if method == "Read" { b"\x12\x02{}".to_vec() } else { Vec::new() })
    });
    let image = ImageReference {
        given: format!("example.com/app@sha256:{}", "0".repeat(64)).into(),
        record: "example.com/app".into(),
        registry: "example.com".into(),
        repository: "app".into(),
    };
    let channel = ImageRuntime::new(&played.endpoint()).channel();
    let mut progress = Progress::new(Containerd::new(channel), &image);
    for _ in 0..3 {
        assert_eq!(progress.look().await.unwrap(), None);
    }
    assert_eq!(played.calls(), ["ListStatuses", "Read"]);
}
