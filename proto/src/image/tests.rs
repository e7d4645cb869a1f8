use proptest::prelude::*;

use super::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn parts_and_defaults() {
    let table = [
        // given, registry, repository, tag, digest?, name
        ("busybox", "docker.io", "library/busybox", Some("latest"), false, "busybox"),
        ("busybox:1.36", "docker.io", "library/busybox", Some("1.36"), false, "busybox"),
        ("me/app:v1", "docker.io", "me/app", Some("v1"), false, "me/app"),
        ("localhost/app", "localhost", "app", Some("latest"), false, "localhost/app"),
        ("127.0.0.1:5000/a/b:1", "127.0.0.1:5000", "a/b", Some("1"), false, "127.0.0.1:5000/a/b"),
        ("host:5000/a", "host:5000", "a", Some("latest"), false, "host:5000/a"),
        ("example.com/a@", "", "", None, false, ""),
    ];
    for (given, registry, repository, tag, digest, name) in table {
        let Ok(reference) = given.parse::<Reference>() else {
            assert!(registry.is_empty(), "{given} is refused");
            continue;
        };
        assert_eq!((reference.registry(), reference.repository()), (registry, repository), "{given}");
        assert_eq!((reference.tag(), reference.digest().is_some()), (tag, digest), "{given}");
        assert_eq!(reference.name(), name, "{given}");
    }
    let both: Reference = format!("example.com:443/a/b:v1@{DIGEST}").parse().unwrap();
    assert_eq!((both.name(), both.entry(), both.tag()), ("example.com:443/a/b", DIGEST, Some("v1")));
}

#[test]
fn names_as_people_write_them() {
    for (given, familiar) in [
        ("busybox:1.36", "busybox"),
        ("docker.io/library/busybox", "busybox"),
        ("docker.io/me/app:v1", "me/app"),
        ("docker.io/library/a/b", "library/a/b"),
        ("host:5000/library/a", "host:5000/library/a"),
        ("registry.example/a/b:1", "registry.example/a/b"),
    ] {
        let reference: Reference = given.parse().unwrap();
        assert_eq!(reference.familiar_name(), familiar, "{given}");
        // The same image by it.
        let entry = Reference::of_entry(familiar, reference.entry()).unwrap();
        assert_eq!(entry.normalized(), reference.normalized(), "{given}");
    }
}

#[test]
fn what_is_no_reference() {
    let upper = DIGEST.to_uppercase().replace("SHA256", "sha256");
    for given in [
        "",
        "a b",
        "a:",
        "a@",
        "a@sha256:00",
        "Upper/case",
        "a//b",
        "/a",
        "a/",
        "a:tag:tag",
        "-a",
        "http://a/b",
        "a:täg",
        &format!("a@{upper}"),
        "a\n",
        "a:..",
        "a@md5:0123456789abcdef0123456789abcdef",
    ] {
        assert!(given.parse::<Reference>().is_err(), "{given:?}");
    }
}

#[test]
fn entries_of_a_node_image() {
    let reference = |name, entry| Reference::of_entry(name, entry).map(|image| image.to_string());
    assert_eq!(reference("host:5000/a", "v1").unwrap(), "host:5000/a:v1");
    assert_eq!(reference("a", DIGEST).unwrap(), format!("a@{DIGEST}"));
    assert!(reference("a:v1", "v2").is_err());
    assert!(reference("a:v1", DIGEST).is_err(), "the name must not bring a tag along");
    assert!(reference("a", "").is_err());
    assert!(reference("", "v1").is_err());
}

fn reference() -> impl Strategy<Value = (String, String, Option<String>, Option<String>)> {
    let component = "[a-z0-9]{1,6}((\\.|_|__|-{1,3})[a-z0-9]{1,6}){0,2}";
    let host = "([a-z0-9]{1,5}\\.[a-z]{2,3}|localhost|[a-z0-9]{1,5})";
    let registry = (host, proptest::option::of(1u16..)).prop_map(|(host, port)| match port {
        Some(port) => format!("{host}:{port}/"),
        None => format!("{host}/"),
    });
    let name = (proptest::option::of(registry), proptest::collection::vec(component, 1..4))
        .prop_map(|(registry, path)| format!("{}{}", registry.unwrap_or_default(), path.join("/")));
    let tag = proptest::option::of("[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}");
    let digest = proptest::option::of("sha256:[0-9a-f]{64}");
    (name, tag, digest).prop_map(|(name, tag, digest)| {
        let mut given = name.clone();
        given.extend(tag.iter().flat_map(|tag| [":", tag]));
        given.extend(digest.iter().flat_map(|digest| ["@", digest]));
        (given, name, tag, digest)
    })
}

proptest! {
    /// Whatever the grammar makes is read back as the parts it was made of, and given on as it was given.
    #[test]
    fn what_the_grammar_makes((given, name, tag, digest) in reference()) {
        let read: Reference = given.parse().unwrap();
        prop_assert_eq!(read.as_str(), &given);
        prop_assert_eq!(read.name(), &name);
        prop_assert_eq!(read.digest(), digest.as_deref());
        let latest = (digest.is_none()).then_some("latest");
        prop_assert_eq!(read.tag(), tag.as_deref().or(latest));
        // Its entry stands for the same image, with the digest where there is one.
        let entry = Reference::of_entry(read.name(), read.entry()).unwrap();
        prop_assert_eq!((entry.registry(), entry.repository()), (read.registry(), read.repository()));
        prop_assert_eq!(entry.entry(), read.entry());
        // Nothing is left to defaults in the whole name, and reading that changes nothing.
        let whole: Reference = read.normalized().parse().unwrap();
        prop_assert_eq!(whole.normalized(), read.normalized());
        prop_assert_eq!((whole.registry(), whole.repository()), (read.registry(), read.repository()));
        prop_assert_eq!((whole.tag(), whole.digest()), (read.tag(), read.digest()));
    }

    /// A reader of the same grammar, which others use, takes what is taken here, and reads the same parts.
    #[test]
    fn as_another_reader(given in "([a-zA-Z0-9]{1,4}[-._:/@]{0,2}){0,8}(@sha(256|384|512):[0-9a-fA-F]{64})?") {
        use oci_spec::distribution;
        let known = |reference: &distribution::Reference| {
            let digest = reference.digest().is_none_or(|digest| *digest == digest.to_lowercase());
            digest && reference.repository() == reference.repository().to_lowercase()
        };
        let other = given.parse::<distribution::Reference>().ok().filter(known);
        let read = given.parse::<Reference>().ok();
        prop_assert_eq!(read.is_some(), other.is_some(), "{}", given);
        if let (Some(read), Some(other)) = (read, other) {
            prop_assert_eq!(read.normalized(), other.whole());
            prop_assert_eq!((read.registry(), read.repository()), (other.registry(), other.repository()));
            prop_assert_eq!((read.tag(), read.digest()), (other.tag(), other.digest()));
        }
    }

    /// Parses any text at all: the result is an error, or something whose parts are in the text.
    #[test]
    fn any_text(given in "[a-zA-Z0-9@:/._ -]{0,40}|\\PC{0,20}") {
        if let Ok(read) = given.parse::<Reference>() {
            prop_assert_eq!(read.as_str(), &given);
            prop_assert!(given.starts_with(read.name()));
            prop_assert!(read.tag().is_none_or(|tag| tag == "latest" || given.contains(tag)));
            prop_assert!(read.digest().is_none_or(|digest| given.ends_with(digest)));
            prop_assert!(given.is_ascii() && !given.contains(char::is_whitespace));
        }
    }
}
