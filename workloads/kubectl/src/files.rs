//! Objects of files (`-f`): which they are, and, where no API server is asked, what is in them.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;

use crate::target::Named;

/// The most that is read of one file.
const MOST_BYTES: u64 = 16 << 20;
/// Ends of the names of files that are taken from a folder.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// Reads the objects of these files and folders, in their order; `-` is the standard input.
pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<(Named, Value)>> {
    let mut all = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            all.extend(objects(&text(io::stdin().lock())?, "the standard input")?);
            continue;
        }
        let shown = path.display().to_string();
        ensure!(!shown.contains("://"), "{shown}: give a file: what is at an address is not fetched");
        for file in files(path).with_context(|| shown.clone())? {
            let shown = file.display().to_string();
            let opened = File::open(&file).with_context(|| shown.clone())?;
            all.extend(objects(&text(opened).with_context(|| shown.clone())?, &shown)?);
        }
    }
    let shown = || paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    ensure!(!all.is_empty(), "{}: there is no object in it: give the manifest of a workload", shown());
    Ok(all)
}

/// The file, or those of a folder.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let ending = file.extension().and_then(|ending| ending.to_str());
        if file.is_file() && ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            all.push(file);
        }
    }
    all.sort();
    Ok(all)
}

fn text(from: impl Read) -> anyhow::Result<String> {
    let mut text = String::new();
    from.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= MOST_BYTES, "has more than {} MiB", MOST_BYTES >> 20);
    Ok(text)
}

/// Reads the objects of a text, JSON or YAML, several of them or a list; `from`: its name.
fn objects(text: &str, from: &str) -> anyhow::Result<Vec<(Named, Value)>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| {
        // Lines below show the place once more.
        let said = error.to_string();
        let first = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
        anyhow!("{from} is neither YAML nor JSON: {first}")
    })?;
    let mut all = Vec::new();
    for mut document in documents {
        if let Some(items) = document.get_mut("items").and_then(Value::as_array_mut) {
            for item in std::mem::take(items) {
                all.push((named(&item, from)?, item));
            }
        } else if !document.is_null() {
            all.push((named(&document, from)?, document));
        }
    }
    Ok(all)
}

fn named(object: &Value, from: &str) -> anyhow::Result<Named> {
    let field = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (version, kind, name) = (field("/apiVersion"), field("/kind"), field("/metadata/name"));
    ensure!(
        !version.is_empty() && !kind.is_empty(),
        "{from}: an object has no apiVersion or kind: give both"
    );
    ensure!(!name.is_empty(), "{from}: {kind}: metadata.name is not there: give the object's name");
    let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let namespace = Some(field("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
    Ok(Named { group, kind, name, namespace })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, namespace: Option<&str>) -> Named {
        Named {
            group: "apps.kruise.io".to_owned(),
            kind: "CloneSet".to_owned(),
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }

    fn names(all: Vec<(Named, Value)>) -> Vec<Named> {
        all.into_iter().map(|(named, _)| named).collect()
    }

    #[test]
    fn several_documents_lists_and_json_name_objects() {
        let yaml = "
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: a, namespace: shop}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: b}}
";
        let read = objects(yaml, "x").unwrap();
        assert_eq!(read[1].1["metadata"], serde_json::json!({ "name": "b" }));
        assert_eq!(names(read), [object("a", Some("shop")), object("b", None)]);
        let json =
            r#"{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "a"}}"#;
        assert_eq!(names(objects(json, "x").unwrap()), [object("a", None)]);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_file() {
        for (text, says) in [
            ("a: [", "neither YAML nor JSON"),
            ("kind: CloneSet", "no apiVersion or kind"),
            ("{apiVersion: v1, kind: Pod, metadata: {}}", "Pod: metadata.name"),
        ] {
            let error = format!("{:#}", objects(text, "set.yaml").unwrap_err());
            assert!(error.contains(says) && error.contains("set.yaml"), "{error}");
        }
        assert!(text(io::repeat(b'a').take(MOST_BYTES + 5)).is_err());
    }

    #[test]
    fn of_a_folder_its_manifests_are_read() {
        let folder = std::env::temp_dir().join(format!("kubectl-berth-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (file, name) in [("2.yaml", "b"), ("1.json", "a"), ("notes.txt", "c")] {
            let text = format!(
                "{{\"apiVersion\": \"apps.kruise.io/v1alpha1\", \"kind\": \"CloneSet\", \"metadata\": {{\"name\": \"{name}\"}}}}"
            );
            fs::write(folder.join(file), text).unwrap();
        }
        let read = read(std::slice::from_ref(&folder));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(names(read.unwrap()), [object("a", None), object("b", None)]);
        assert!(super::read(&[folder]).is_err());
        assert!(
            super::read(&["https://example.com/a.yaml".into()])
                .unwrap_err()
                .to_string()
                .contains("not fetched")
        );
    }
}
