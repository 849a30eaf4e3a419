//! The documents as a whole: the book has every page, links lead somewhere, and pages keep their limits.

use pinion_tests::{Document, anchors, code_spans, document, links, pages, prose, repository};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Words of a page, where another number than [`WORDS`] is allowed.
const LIMITS: &[(&str, usize)] = &[("README.md", 1_500), ("docs/internals/overview.md", 3_500)];
/// Words of a page of the book.
const WORDS: usize = 1_200;
/// Characters in a line of prose.
const COLUMNS: usize = 120;

/// Directories without documents.
const SKIPPED: &[&str] = &[".git", "target", "node_modules", "fixtures", "dist", "templates"];

/// Returns the paths of all documents below a directory.
fn markdown_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
        let (name, path) = (entry.file_name().into_string().unwrap(), entry.path());
        if entry.file_type().unwrap().is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                markdown_files(&path, found);
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Returns all documents of the repository.
fn all() -> Vec<Document> {
    let (root, mut files) = (repository(), Vec::new());
    markdown_files(&root, &mut files);
    assert!(files.len() > 40, "{files:?}");
    let paths = files.iter().map(|file| file.strip_prefix(&root).unwrap().to_str().unwrap());
    paths.map(document).collect()
}

/// Returns the documents for people who use, extend or change Pinion.
fn documents() -> Vec<Document> {
    let mut documents = pages("");
    let top = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "tests/README.md", "plugins/README.md"];
    documents.extend(top.map(document));
    documents
}

#[test]
fn every_page_is_in_the_summary_once() {
    let mut files = Vec::new();
    markdown_files(&repository().join("docs"), &mut files);
    let root = repository();
    let files: Vec<String> =
        files.iter().map(|file| file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect();
    let listed: Vec<String> = pages("").into_iter().map(|page| page.path).collect();
    let is_page = |file: &&String| *file != "docs/SUMMARY.md";
    let (files, set): (BTreeSet<_>, BTreeSet<_>) = (files.iter().filter(is_page).collect(), listed.iter().collect());
    assert_eq!(set, files);
    assert_eq!(set.len(), listed.len(), "a page is listed twice: {listed:?}");
}

/// Returns a path without `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normalized.pop()),
            component => normalized.push(component),
        }
    }
    normalized
}

/// Returns the reason why a link of a document leads nowhere.
fn fault(from: &Document, link: &str) -> Option<String> {
    if link.contains("://") || link.contains("::") || link.starts_with("mailto:") || link == "crate" {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = match path {
        "" => PathBuf::from(&from.path),
        path => normalized(&Path::new(&from.path).parent().unwrap().join(path)),
    };
    if !repository().join(&target).exists() {
        return Some(format!("{}: `{link}` leads to no file", from.path));
    }
    let anchor = anchor?;
    let text = document(target.to_str().unwrap()).text;
    (!anchors(&text).iter().any(|other| other == anchor))
        .then(|| format!("{}: `{link}` leads to no heading", from.path))
}

#[test]
fn links_and_their_anchors_lead_somewhere() {
    let documents = all();
    let faults: Vec<String> = documents
        .iter()
        .flat_map(|from| links(&from.text).into_iter().filter_map(|link| fault(from, &link)).collect::<Vec<_>>())
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn links_and_anchors_are_found() {
    let text =
        "# A `b` (c)\n\n[x](y.md#z) and `[no](no.md)` and [`code`](w.md)\n\n```sh\n# no\n[n](n.md)\n```\n\n## A b c\n";
    assert_eq!(links(text), ["y.md#z", "w.md"]);
    assert_eq!(anchors(text), ["a-b-c", "a-b-c-1"]);
    let page = document("docs/SUMMARY.md");
    assert!(fault(&page, "user/nothing.md").is_some() && fault(&page, "../README.md#nothing").is_some());
}

#[test]
fn pages_keep_their_limits_of_words() {
    for page in pages("").into_iter().chain([document("README.md")]) {
        let limit = LIMITS.iter().find(|(path, _)| *path == page.path).map_or(WORDS, |(_, limit)| *limit);
        let words = page.text.split_whitespace().count();
        assert!(words <= limit, "{} has {words} words, of at most {limit}", page.path);
    }
}

#[test]
fn lines_of_prose_are_not_too_long() {
    for page in documents() {
        for line in prose(&page.text).filter(|line| !line.starts_with('|') && !line.contains("](http")) {
            assert!(line.chars().count() <= COLUMNS, "{}: {line}", page.path);
        }
    }
}

/// Returns all sources of the repository in Rust.
fn sources(directory: &Path, found: &mut String) {
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
        let (name, path) = (entry.file_name().into_string().unwrap(), entry.path());
        if entry.file_type().unwrap().is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") {
            found.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn tests_that_enforce_the_invariants_exist() {
    let mut code = String::new();
    sources(&repository(), &mut code);
    let pages = pages("internals/").into_iter().filter(|page| page.path.contains("/invariants"));
    let text: String = pages.map(|page| page.text).collect();
    let is_test = |span: &String| {
        span.matches('_').count() > 2 && span.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
    };
    let names: BTreeSet<String> = code_spans(&text).into_iter().filter(is_test).collect();
    assert!(names.len() > 150, "{} names", names.len());
    // A macro makes some of them from a list, where a comma follows.
    let is_there = |name: &String| [format!("fn {name}("), format!(" {name}, ")].iter().any(|text| code.contains(text));
    let missing: Vec<&String> = names.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "no such test: {missing:#?}");
}

/// Returns whether a word is a number in a list that is not in the repository, such as `L17` or `REQ-014`.
fn is_outside_id(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    word.strip_prefix("REQ-").is_some_and(is_number)
        || word.strip_prefix('L').is_some_and(is_number)
        || word.strip_prefix('#').is_some_and(is_number)
}

#[test]
fn documents_lean_on_nothing_outside_of_the_repository() {
    for page in documents() {
        for line in prose(&page.text) {
            let word =
                line.split(|c: char| !c.is_alphanumeric() && c != '#' && c != '-').find(|word| is_outside_id(word));
            assert!(word.is_none(), "{}: `{}` in: {line}", page.path, word.unwrap_or_default());
        }
    }
    assert!(is_outside_id("L17") && is_outside_id("REQ-014") && is_outside_id("#14") && !is_outside_id("Linux"));
}
