//! Checks of what people read: README and the pages of `docs`. No node is needed for them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::repository::root;

/// The most lines of the README: it is what a person reads before deciding to read more.
const MOST_LINES: usize = 150;
/// The most words that the glossary explains.
const MOST_WORDS: usize = 40;

/// Reads a page.
pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// README, its neighbours, and the pages of `docs`.
pub(crate) fn pages() -> Vec<PathBuf> {
    let below = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = below(root().to_owned()).chain(below(root().join("docs")));
    let mut pages: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.sort();
    assert!(pages.len() > 10, "only {pages:?}");
    pages
}

/// Text without what stands between fences.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let lines = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Targets of the links within the repository.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let parts = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    parts.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://")).collect()
}

/// Anchors of the headings, as web pages make them.
fn anchors(page: &str) -> Vec<String> {
    let prose = prose(page);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// Entries of the glossary: its lines that begin with a word in bold.
fn words(glossary: &str) -> Vec<&str> {
    glossary.lines().filter(|line| line.starts_with("- **")).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = read(&page);
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let found =
                target.exists() && (anchor.is_empty() || anchors(&read(&target)).iter().any(|a| a == anchor));
            if !found {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let listed = links(&summary);
    for page in pages().iter().filter(|page| page.parent().is_some_and(|parent| parent.ends_with("docs"))) {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name == "SUMMARY.md" || listed.contains(&name), "{name} is missing in docs/SUMMARY.md");
    }
}

/// Lines that a book of these pages would read as HTML: such as an argument in angle brackets outside of a
/// code span, which vanishes from the page.
fn tags(page: &str) -> Vec<&str> {
    let mut fenced = false;
    let lines = page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence && !line.starts_with("    ") && !line.trim_start().starts_with("<!--")
    });
    let is_tag = |line: &&str| {
        line.split('`').step_by(2).flat_map(|text| text.split('<').skip(1)).any(|rest| {
            rest.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/' || first == '!')
        })
    };
    lines.filter(is_tag).collect()
}

#[test]
fn no_word_is_taken_for_html() {
    for page in pages() {
        let text = read(&page);
        let found = tags(&text);
        assert!(found.is_empty(), "{}: put it into a code span: {found:?}", page.display());
    }
    assert_eq!(
        tags("a <POD>\n`<x>` 1 < 2\n```\n<y>\n```\n<!-- z -->\n    <code>\n</b> c"),
        ["a <POD>", "</b> c"]
    );
}

#[test]
fn every_page_says_first_what_it_is_for() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    for name in links(&summary) {
        let text = read(&root().join("docs").join(&name));
        let begins = text.lines().take(8).any(|line| line.starts_with("After this page "));
        assert!(begins, "{name} does not begin with what its reader can do after it: After this page ...");
    }
}

#[test]
fn readme_is_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= MOST_LINES, "README.md has {lines} lines");
}

#[test]
fn glossary_is_short() {
    let glossary = read(&root().join("docs/glossary.md"));
    let words = words(&glossary);
    assert!((20..=MOST_WORDS).contains(&words.len()), "the glossary has {} words", words.len());
}

#[test]
fn links_and_anchors_are_found() {
    let page = "# A b\n[x](y.md#z) and [w](https://example.com)\n```\n[no](no.md)\n# no\n```\n## `C`, d_e!\n[q](#a-b)\n";
    assert_eq!(links(page), ["y.md#z", "#a-b"]);
    assert_eq!(anchors(page), ["a-b", "c-d_e"]);
    assert_eq!(words("- **a**: b\ntext\n- **c**: d\n").len(), 2);
}
