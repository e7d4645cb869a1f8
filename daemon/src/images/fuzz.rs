//! Image references, and what registries, runtimes and the node's administrators say of images.

use berth_proto::{docker_config::DockerConfig, image::Reference, sealing::NodeKey};

use super::{containerd, credentials};

/// A reference stays as it was given, and its parts make the same image again.
pub fn reference(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(reference) = text.parse::<Reference>() else { return };
    assert_eq!(reference.as_str(), text);
    let again: Reference = reference.record().parse().expect("what a runtime calls it is a reference");
    assert_eq!(again.record(), reference.record());
    assert_eq!(again.registry(), reference.registry());
    if let Ok(entry) = Reference::of_entry(reference.name(), reference.entry()) {
        assert_eq!(entry.record(), reference.record());
    }
}

/// Files with credentials, answers of plugins, seals, manifests: an error never has anything of what was
/// read.
pub fn credentials(data: &[u8]) {
    let quotes = |error: &str| {
        let text = String::from_utf8_lossy(data);
        text.split(|character: char| !character.is_ascii_alphanumeric())
            .filter(|word| word.starts_with("hunter2"))
            .any(|word| error.contains(word))
    };
    match DockerConfig::parse(data) {
        Ok(config) => {
            for image in ["docker.io/library/app", "registry.example.com:5000/team/app", ""] {
                let found = config.matching(image);
                assert!(found.credentials.iter().all(|credential| *credential != Default::default()));
            }
        }
        Err(error) => assert!(error.len() < 100 && !quotes(&error), "{error}"),
    }
    credentials::parse_for_fuzzing(data);
    containerd::parse_for_fuzzing(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let context = berth_proto::sealing::Context { node: "node", wish: "wish", image: "image" };
        assert!(NodeKey::generate().open(text, context).is_err(), "nobody has sealed this");
    }
}
