//! Checks of the repository's own text: comments, names and dependencies. No node is needed for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    fs,
    path::{Path, PathBuf},
};

/// The widest comment line, in characters.
const WIDEST: usize = 110;
/// Beginnings of a doc line that name nothing: a doc line begins with the thing.
const NAMELESS: [&str; 7] = ["What", "Whoever", "Who", "Of", "Those", "Or", "That"];
/// Crates that generated code names, which is not among the sources.
const GENERATED: [(&str, &str); 3] = [("proto", "prost"), ("proto", "tonic-prost"), ("proto/cri", "prost")];
/// Folders with sources.
const SOURCES: [&str; 10] =
    ["daemon", "fuzz", "malloc", "manager", "pace", "proto", "shim", "sidecarset", "tests", "workloads"];
/// Functions that are there for the tests of another package, which count by them.
const FOR_TESTS: [&str; 2] = ["restated_answers", "shed_so_far"];
/// Crates of a client of the API server, of TLS and of a store. `berth-shim` has none of them, berthd all.
const NOT_IN_SHIM: [&str; 8] =
    ["berth-proto", "kube", "k8s-openapi", "tonic", "hyper", "rustls", "ring", "redb"];

/// Names of files and folders that the field has words for, and these words.
const FILES_RENAMED: [(&str, &str); 13] = [
    ("asked", "conversion, questions, in_flight"),
    ("centre", "controller, api_server"),
    ("desk", "cache"),
    ("errand", "in_flight"),
    ("keeper", "reconciler"),
    ("kept", "store, fd_store"),
    ("mailbox", "queue"),
    ("seen", "store, snapshot, views"),
    ("strain", "backlog"),
    ("tell", "events"),
    ("told", "reports, events, table"),
    ("turns", "queue, scheduler, round_robin, event_loop"),
    ("ward", "work_queue"),
];
/// Names of types that the field has words for, and these words.
const TYPES_RENAMED: [(&str, &str); 9] = [
    ("Centre", "Controller"),
    ("Desk", "Cache"),
    ("Driver", "Reconciler"),
    ("Errand", "InFlight"),
    ("Keeper", "CertificateReconciler and the like"),
    ("Mailbox", "Queue"),
    ("Strain", "Backlog"),
    ("Turns", "Queue, Scheduler, RoundRobin, EventLoop"),
    ("Ward", "WorkQueue"),
];

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All files below a folder that end like this; what was built is left out.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| path.file_name().is_some_and(|name| name != "target"));
    let below = entries.flat_map(|path| if path.is_dir() { files(&path, end) } else { vec![path] });
    below.filter(|path| path.to_string_lossy().ends_with(end)).collect()
}

/// Rust sources of the repository, with their paths in it.
fn sources() -> Vec<(PathBuf, String)> {
    let all: Vec<(PathBuf, String)> = SOURCES
        .iter()
        .flat_map(|folder| files(&root().join(folder), ".rs"))
        .map(|path| (path.strip_prefix(root()).unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    assert!(all.len() > 500, "only {} sources found below {:?}", all.len(), root());
    all
}

/// Numbers of the lines with a comment that is too wide. A drawing, between fences, is as wide as it has to
/// be, and so is the row of a table.
fn too_wide(source: &str) -> Vec<usize> {
    let (mut found, mut drawing) = (Vec::new(), false);
    for (at, line) in source.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        let text = comment.map(|text| text.trim_start_matches(['/', '!', ' ']));
        drawing = match text {
            Some(text) if text.starts_with("```") => !drawing,
            Some(_) => drawing,
            None => false,
        };
        let is_row = text.is_some_and(|text| text.starts_with('|'));
        if comment.is_some() && !drawing && !is_row && line.chars().count() > WIDEST {
            found.push(at + 1);
        }
    }
    found
}

/// Numbers of the lines at which the doc comment of an item or a module begins and names nothing.
fn nameless(source: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut before = "";
    for (at, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let begins = ["/// ", "//! "].into_iter().find(|mark| line.starts_with(*mark));
        let begins = begins.filter(|mark| !before.starts_with(mark.trim_end()));
        let first = begins.and_then(|mark| line[mark.len()..].split(|c: char| !c.is_alphanumeric()).next());
        if first.is_some_and(|first| NAMELESS.contains(&first)) {
            found.push(at + 1);
        }
        before = line;
    }
    found
}

/// Headings `// === impl X ===` that are not followed by an `impl` that names X.
fn misplaced_headings(source: &str) -> Vec<String> {
    let mut lines = source.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let heading = line.strip_prefix("// === impl ").and_then(|rest| rest.strip_suffix(" ==="));
        let Some(named) = heading else { continue };
        let next = lines.clone().find(|line| line.starts_with("impl"));
        if !next.is_some_and(|next| next.contains(named)) {
            found.push(named.to_owned());
        }
    }
    found
}

/// Reports whether a file or a folder of this path has a name that the field has a word for.
fn renamed_file(path: &Path) -> Option<String> {
    let mut stems = path.iter().filter_map(|part| Path::new(part).file_stem()?.to_str());
    let (name, words) =
        stems.find_map(|stem| FILES_RENAMED.into_iter().find(|(renamed, _)| *renamed == stem))?;
    Some(format!("{}: {name} is called {words}", path.display()))
}

/// Types that have a name which the field has a word for.
fn renamed_types(source: &str) -> Vec<String> {
    const SORTS: [&str; 4] = ["struct", "enum", "trait", "type"];
    let mut found = Vec::new();
    for (at, line) in source.lines().enumerate() {
        let line = line.trim_start();
        if !line.starts_with("pub") && !SORTS.iter().any(|sort| line.starts_with(sort)) {
            continue;
        }
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let mut words = words.skip_while(|word| !SORTS.contains(word));
        let Some(named) = words.nth(1) else { continue };
        if let Some((name, words)) = TYPES_RENAMED.into_iter().find(|(renamed, _)| *renamed == named) {
            found.push(format!("{}: {name} is called {words}", at + 1));
        }
    }
    found
}

/// Dependencies that a manifest lists, whatever for.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut listed = Vec::new();
    let mut within = false;
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            within = section.ends_with("dependencies]") && !section.starts_with("workspace");
        } else if within
            && !line.starts_with('#')
            && let Some((name, _)) = line.split_once(['.', '=', ' '])
        {
            listed.push(name.trim().to_owned());
        }
    }
    listed
}

/// Crates that this one is built of, at any remove. Those that only its build and its tests need are among
/// them, as `Cargo.lock` does not tell them apart: what is not there is in no program either.
fn built_of<'a>(lock: &'a str, package: &'a str) -> BTreeSet<&'a str> {
    let mut needs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let quoted = |line: &'a str| line.split('"').nth(1).unwrap_or_default();
    for block in lock.split("[[package]]").skip(1) {
        let name = block.lines().find_map(|line| line.strip_prefix("name = ").map(quoted));
        // ` "hashbrown 0.15.2",` where there are two versions of it; they count as one.
        let needed = block.lines().filter(|line| line.starts_with(" \"")).map(quoted);
        let needed = needed.filter_map(|listed| listed.split(' ').next());
        needs.entry(name.unwrap_or_default()).or_default().extend(needed);
    }
    let (mut found, mut left) = (BTreeSet::new(), vec![package]);
    while let Some(name) = left.pop() {
        if found.insert(name) {
            left.extend(needs.get(name).into_iter().flatten());
        }
    }
    found
}

/// Reports whether sources name the crate: in a path, an import, or an attribute.
fn is_used(dependency: &str, sources: &str) -> bool {
    let name = dependency.replace('-', "_");
    sources.match_indices(&name).any(|(at, _)| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let (before, after) = (&sources[..at], &sources[at + name.len()..]);
        let begins = !before.ends_with(is_part);
        let imported = before.ends_with("use ") && after.starts_with([';', ':', ' ']);
        begins && (after.starts_with("::") || imported)
    })
}

/// Reports whether what is in this file runs in tests alone.
fn is_of_tests(path: &Path) -> bool {
    let is_part = |name: &str| path.iter().any(|part| part == name);
    is_part("tests") || is_part("tests.rs") || path.starts_with("daemon/fake")
}

/// Public functions that these sources define and name nowhere else; the compiler finds the others. One with
/// a condition (`cfg`) may be for tests.
fn uncalled<'a>(sources: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // By name: definitions, and how often it stands there in all.
    let mut named: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for source in sources {
        let code = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
        let mut before = "";
        for line in lines {
            let words =
                line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
            let mut rest = line.strip_prefix("pub ").filter(|_| !before.starts_with("#[cfg("));
            for qualifier in ["const ", "async ", "unsafe "] {
                rest = rest.map(|rest| rest.strip_prefix(qualifier).unwrap_or(rest));
            }
            let defined = rest.and_then(|rest| rest.strip_prefix("fn ")?.split(['(', '<']).next());
            for word in words {
                let (definitions, all) = named.entry(word).or_default();
                *definitions += usize::from(defined == Some(word));
                *all += 1;
            }
            before = line;
        }
    }
    named.into_iter().filter(|(_, (definitions, all))| definitions == all).map(|(name, _)| name).collect()
}

/// Gives the findings in all sources, each behind its path.
fn found_in_sources<T: Display>(find: fn(&str) -> Vec<T>) -> Vec<String> {
    let found = sources().into_iter().flat_map(|(path, source)| {
        find(&source).into_iter().map(move |finding| format!("{}:{finding}", path.display()))
    });
    found.collect()
}

/// Fails with one line for each finding.
fn none(findings: &[String], remedy: &str) {
    assert!(findings.is_empty(), "{remedy}:\n{}", findings.join("\n"));
}

#[test]
fn comments_are_not_too_wide() {
    none(&found_in_sources(too_wide), "a comment line has at most 110 columns");
}

#[test]
fn docs_begin_with_the_thing() {
    none(&found_in_sources(nameless), "a doc line begins with a noun or a verb that names the thing");
}

#[test]
fn headings_name_what_follows() {
    none(&found_in_sources(misplaced_headings), "after `// === impl X ===` comes an impl of X");
}

#[test]
fn names_are_words_of_the_field() {
    let mut found: Vec<String> = sources().iter().filter_map(|(path, _)| renamed_file(path)).collect();
    found.extend(found_in_sources(renamed_types));
    none(&found, "a file or a type has a name that the field has a word for");
}

#[test]
fn every_dependency_is_used() {
    let manifests: Vec<PathBuf> =
        SOURCES.iter().flat_map(|folder| files(&root().join(folder), "Cargo.toml")).collect();
    assert!(manifests.len() >= 8, "manifests not found: {manifests:?}");
    let mut found = Vec::new();
    let mut listed = Vec::new();
    for manifest in &manifests {
        let folder = manifest.parent().unwrap();
        // A package within another one has sources of its own.
        let inner: Vec<&Path> = manifests.iter().filter_map(|other| other.parent()).collect();
        let inner: Vec<&Path> =
            inner.into_iter().filter(|other| *other != folder && other.starts_with(folder)).collect();
        let own = files(folder, ".rs").into_iter();
        let own = own.filter(|path| !inner.iter().any(|inner| path.starts_with(inner)));
        let text: String = own.map(|path| fs::read_to_string(path).unwrap()).collect();
        for dependency in dependencies(&fs::read_to_string(manifest).unwrap()) {
            let package = folder.strip_prefix(root()).unwrap().display().to_string();
            if !is_used(&dependency, &text) && !GENERATED.contains(&(&package, &dependency)) {
                found.push(format!("{dependency} in {package}/Cargo.toml"));
            }
            listed.push(dependency);
        }
    }
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let workspace = workspace.replace("[workspace.dependencies]", "[dependencies]");
    let offered = dependencies(&workspace).into_iter().filter(|offered| !listed.contains(offered));
    found.extend(offered.map(|offered| format!("{offered} in Cargo.toml")));
    none(&found, "a dependency that nothing uses; remove it");
}

#[test]
fn the_shim_is_built_without_client_tls_and_store() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let has = |package| NOT_IN_SHIM.map(|name| built_of(&lock, package).contains(name));
    assert_eq!(has("berth-shim-program"), [false; 8], "of {NOT_IN_SHIM:?}");
    // A name that berthd does not have either is out of date.
    assert_eq!(has("berthd"), [true; 8], "of {NOT_IN_SHIM:?}");
}

#[test]
fn what_is_public_is_called() {
    let sources = sources();
    let own = sources.iter().filter(|(path, _)| !is_of_tests(path)).map(|(_, source)| source.as_str());
    let mut found = uncalled(own);
    for name in FOR_TESTS {
        assert!(found.contains(&name), "{name} is called, or gone: it needs no exception");
    }
    found.retain(|name| !FOR_TESTS.contains(name));
    let found: Vec<String> = found.into_iter().map(str::to_owned).collect();
    none(&found, "a public function that only tests call; remove it, or give it to them alone");
}

#[test]
fn findings_are_found() {
    let wide = format!("fn f() {{}}\n    // {}\n{}\n// short", "x".repeat(WIDEST), "y".repeat(WIDEST + 1));
    assert_eq!(too_wide(&wide), [2]);
    let drawing = format!("//! ```text\n//! {0}\n//! ```\n//! {0}\n//! | {0}\n", "x".repeat(WIDEST));
    assert_eq!(too_wide(&drawing), [4]);
    let docs =
        "/// What it is.\nfn f() {}\n/// A thing.\n/// What it does.\n/// Offers.\n  /// Those.\n  x: u8,\n";
    assert_eq!(nameless(docs), [1]);
    let docs = "/// A thing.\nfn f() {}\n    /// Of it.\n    x: u8,\n/// Whose.\nstruct S;\n";
    assert_eq!(nameless(docs), [3]);
    let docs = "//! What it is.\n//!\n//! What follows.\n\nmod m;\n";
    assert_eq!(nameless(docs), [1]);
    assert_eq!(nameless("//! A module.\n//! What it does.\n\n/// Whatever.\nfn f() {}\n"), [0; 0]);
    let heading = "// === impl Own ===\n\n";
    assert_eq!(misplaced_headings(&format!("{heading}impl Other {{}}\nimpl Own {{}}\n")), ["Own"]);
    assert_eq!(misplaced_headings(&format!("{heading}impl Drop for Own {{}}\n")), [""; 0]);
    let named = ["a/src/turns.rs", "a/src/keeper/mod.rs", "a/src/return.rs", "a/src/foreseen.rs"];
    let renamed = named.map(|path| renamed_file(Path::new(path)).is_some());
    assert_eq!(renamed, [true, true, false, false]);
    let types = "pub(in crate::a) struct Keeper<K> {\n// struct Turns\n  type Turns = u8;\nstruct Returns;\n\
                 let a: Keeper;\n";
    let lines: Vec<String> = renamed_types(types).iter().map(|found| found[..2].to_owned()).collect();
    assert_eq!(lines, ["1:", "3:"]);
    let manifest = "[package]\nname = \"a\"\n[dependencies]\n# Why = so\nserde.workspace = true\nb-c = { path = \"c\" }\n\n\
                    [dev-dependencies]\nx = \"1\"\n[lints]\nworkspace = true\n";
    assert_eq!(dependencies(manifest), ["serde", "b-c", "x"]);
    let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1\"\ndependencies = [\n \"b 1.0\",\n]\n\n[[package]]\n\
                name = \"b\"\nversion = \"1.0\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0\"\ndependencies = [\n \"c\",\n \
                \"a\",\n]\n\n[[package]]\nname = \"c\"\n\n[[package]]\nname = \"d\"\ndependencies = [\n \"a\",\n]\n";
    assert_eq!(built_of(lock, "a").into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    let code = "pub fn a() {}\n// a()\npub const fn b(x: u8) {}\n  pub async fn c<T>() { b(1) }\nfn d() {}\n\
                #[cfg(test)]\npub fn e() {}\npub struct S(fn f());\n\n#[cfg(test)]\nmod tests {\n c(); a()\n}\n";
    assert_eq!(uncalled([code]), ["a", "c"]);
    assert_eq!(uncalled([code, "use m::{a, c};"]), [""; 0]);
    for (source, used) in [
        ("use serde::Serialize;", true),
        ("#[serde(default)] my_serde::f(); use serde_json::x; // serde", false),
        ("fn f(x: serde::Value)", true),
        ("use serde as s;", true),
    ] {
        assert_eq!(is_used("serde", source), used, "{source}");
    }
}
