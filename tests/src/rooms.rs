//! Rooms of a package: the folders and files of its `src`. None may use another one that uses it back, by
//! whichever way round: then neither could be read, tried or changed without the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::repository::root;

/// Files that bring the others together.
const WIRING: [&str; 3] = ["lib", "main", "fuzzing"];
/// Rooms that the others use and that use them, by what they are: one of each package, and why.
const SUMS: [(&str, &str, &str); 4] = [
    ("manager", "effect", "the sum of what all indexes ask for, which each gives as its own"),
    ("manager", "write", "the sum of what they write"),
    ("manager", "metrics", "takes the sizes that each of them gives of itself, by their types"),
    ("workloads", "served", "the API server of the tests of all rooms, which gives them a writer"),
];

/// Rooms, the rooms each uses, and a file that does.
type Uses = BTreeMap<String, BTreeMap<String, PathBuf>>;

/// The first names after `crate::` in a source, comments left out, and the tests at its end: they may look at
/// whatever the room serves.
fn used(source: &str) -> BTreeSet<String> {
    let code = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || matches!(before, '_' | ':' | '$')) {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(heads(list)),
            None => names.extend(name(rest)),
        }
    }
    names
}

/// The first name of each entry of a list, up to its closing brace.
fn heads(list: &str) -> Vec<String> {
    let (mut depth, mut begin, mut heads) = (0_u32, true, Vec::new());
    for (at, letter) in list.char_indices() {
        match letter {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => begin = true,
            _ if letter.is_whitespace() => {}
            _ => {
                if begin {
                    heads.extend(name(&list[at..]));
                }
                begin = false;
            }
        }
    }
    heads
}

fn name(text: &str) -> Option<String> {
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    found.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// The rooms below `src`.
fn uses(src: &Path) -> Uses {
    let mut rooms: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in fs::read_dir(src).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            rooms.entry(name).or_default().extend(sources(&path));
        } else if !WIRING.contains(&name.as_str()) {
            rooms.entry(name).or_default().push(path);
        }
    }
    let of_room = |(room, files): (&String, &Vec<PathBuf>)| {
        let mut others = BTreeMap::new();
        for file in files {
            for other in used(&fs::read_to_string(file).unwrap()) {
                if other != *room && rooms.contains_key(&other) {
                    others.entry(other).or_insert_with(|| file.strip_prefix(src).unwrap().to_owned());
                }
            }
        }
        (room.clone(), others)
    };
    rooms.iter().map(of_room).collect()
}

/// A circle, in words; `None` when there is none.
fn circle(uses: &Uses) -> Option<String> {
    fn walk<'a>(
        uses: &'a Uses,
        room: &'a str,
        way: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<String> {
        if let Some(first) = way.iter().position(|before| *before == room) {
            let mut round = way[first..].to_vec();
            round.push(room);
            let steps = round
                .windows(2)
                .map(|step| format!("{} uses {} in {}", step[0], step[1], uses[step[0]][step[1]].display()));
            return Some(steps.collect::<Vec<_>>().join(", "));
        }
        if !done.insert(room) {
            return None;
        }
        way.push(room);
        let found = uses.get(room)?.keys().find_map(|other| walk(uses, other, way, done));
        way.pop();
        found
    }
    let mut done = BTreeSet::new();
    uses.keys().find_map(|room| walk(uses, room, &mut Vec::new(), &mut done))
}

/// A circle in a package whose sums, but for one of them, use nobody.
fn circle_in(package: &str, but: Option<&str>) -> Option<String> {
    let mut uses = uses(&root().join(package).join("src"));
    assert!(uses.len() > 10, "not read: {uses:?}");
    for (_, sum, _) in SUMS.iter().filter(|(of, sum, _)| *of == package && but != Some(*sum)) {
        uses.get_mut(*sum).unwrap_or_else(|| panic!("no {sum} in {package}")).clear();
    }
    circle(&uses)
}

#[test]
fn no_circle_between_rooms() {
    assert!(uses(&root().join("daemon/src"))["process"].contains_key("agent"), "not read");
    for package in ["daemon", "manager", "workloads"] {
        if let Some(circle) = circle_in(package, None) {
            panic!(
                "rooms of {package}/src go in a circle: {circle}. Move what both need into the lower one, or \
                 give the lower one a trait or a closure"
            );
        }
    }
}

#[test]
fn every_sum_goes_in_a_circle() {
    for (package, sum, _) in SUMS {
        assert!(circle_in(package, Some(sum)).is_some(), "{package}/{sum} uses nobody back: no exception");
    }
}

#[test]
fn names_are_found_in_lists_and_paths() {
    let source = "use crate::{\n    agent::{Agent, store::{Store, Open}},\n    base::causes, // crate::exec\n    cri,\n};\n\
                  fn f() -> crate::pods::Pod { berth_crate::files(); $crate::admin::x() } // crate::update\n\
                  \n#[cfg(test)]\nmod tests {\n    use crate::process;\n}\n";
    let found: Vec<String> = used(source).into_iter().collect();
    assert_eq!(found, ["agent", "base", "cri", "pods"]);
}

#[test]
fn a_circle_is_named_with_its_files() {
    let rooms = |edges: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (one, other) in edges {
            let file = format!("{one}/mod.rs").into();
            uses.entry((*one).to_owned()).or_default().insert((*other).to_owned(), file);
            uses.entry((*other).to_owned()).or_default();
        }
        uses
    };
    assert_eq!(circle(&rooms(&[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])), None);
    let round = circle(&rooms(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")])).unwrap();
    assert_eq!(round, "b uses c in b/mod.rs, c uses d in c/mod.rs, d uses b in d/mod.rs");
}
