//! Measures of the English of comments and of names, with bounds that well-kept projects meet.

use super::sources::{all_sources, crates, files, is_test_file, relative, without_tests};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Phrases of comments, each with the most occurrences in 10,000 words of comments. ripgrep, jj and uv have less than 1 of
/// the first and at most 2.2 of the second kind.
const PHRASES: &[(&str, &[&str], f64)] = &[
    ("that of", &["that of", "those of"], 1.0),
    ("what", &["what"], 3.0),
    ("nobody", &["nobody", "somebody", "whoever", "whatever"], 1.0),
    ("for want of", &["for want of"], 0.1),
    ("beside", &["beside"], 0.5),
    ("as far as", &["as far as"], 0.3),
    ("no other", &["no other"], 1.0),
];

/// The largest share of types whose name is one word, and of types whose name two or more other types have.
const MAX_ONE_WORD: f64 = 0.45;
const MAX_SHARED: f64 = 0.10;

/// Returns the blocks of adjacent comment lines in a source, each with its first line and its words in small letters.
fn comments(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut blocks: Vec<(usize, Vec<String>)> = Vec::new();
    let mut is_inside = false;
    for (number, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        if let Some(comment) = comment {
            let words =
                comment.split(|c: char| !c.is_alphanumeric() && !"'’-".contains(c)).filter(|word| !word.is_empty());
            if !is_inside {
                blocks.push((number + 1, Vec::new()));
            }
            blocks.last_mut().unwrap().1.extend(words.map(str::to_lowercase));
        }
        is_inside = comment.is_some();
    }
    blocks
}

/// Returns the number of places at which words occur one after the other.
fn occurrences(words: &[String], phrase: &str) -> usize {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    words.windows(phrase.len()).filter(|window| window.iter().zip(&phrase).all(|(word, wanted)| word == wanted)).count()
}

#[test]
fn comments_are_plain_english() {
    let mut total = 0;
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    // This file names the phrases, and other directories of that name have copies of the contract.
    let is_counted = |path: &&PathBuf| !path.ends_with("wording.rs") && !relative(path).contains("/wit/");
    for path in all_sources().iter().filter(is_counted) {
        for (line, words) in comments(&fs::read_to_string(path).unwrap()) {
            total += words.len();
            for (kind, phrases, _) in PHRASES {
                let count: usize = phrases.iter().map(|phrase| occurrences(&words, phrase)).sum();
                found.entry(kind).or_default().extend((0..count).map(|_| format!("{}:{line}", relative(path))));
            }
        }
    }
    assert!(total > 100_000, "the comments are somewhere else: {total} words");
    for (kind, _, most) in PHRASES {
        let places = found.get(kind).map_or(&[][..], Vec::as_slice);
        let per_10000 = places.len() as f64 * 10_000.0 / total as f64;
        assert!(
            per_10000 <= *most,
            "`{kind}` occurs {per_10000:.2} times in 10,000 words, and may {most}: {places:#?}"
        );
    }
}

#[test]
fn phrases_are_found_across_lines() {
    let text =
        "fn f() {}\n    /// The limit is that\n    /// of the plugin, not\n\n// what is\nlet a = 1; // not counted\n";
    let blocks = comments(text);
    assert_eq!(blocks.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 5]);
    assert_eq!(occurrences(&blocks[0].1, "that of"), 1);
    assert_eq!(occurrences(&blocks[1].1, "what"), 1);
    assert_eq!(occurrences(&blocks[1].1, "that of"), 0);
}

/// Names of functions that name neither a verb nor its object.
const VAGUE_FUNCTIONS: &[&str] = &["of", "take", "words", "like", "said"];

/// Returns the vague names of the functions that a source defines, each with its line.
fn vague_functions(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let (before, rest) = line.split_once("fn ")?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let is_definition = before.is_empty() || before.ends_with(' ') && !before.contains("//");
        (is_definition && VAGUE_FUNCTIONS.contains(&name)).then(|| name.to_owned())
    };
    let lines = text.lines().enumerate();
    lines.filter_map(|(number, line)| Some(format!("{}: {}", number + 1, name(line)?))).collect()
}

#[test]
fn functions_are_named_by_a_verb_and_its_object() {
    let mut vague = Vec::new();
    // Plugins and guests are built separately.
    let is_counted = |path: &&PathBuf| {
        let name = relative(path);
        name.starts_with("host/") || name.starts_with("tests/") && !name.starts_with("tests/guests/")
    };
    for path in all_sources().iter().filter(is_counted) {
        let found = vague_functions(&fs::read_to_string(path).unwrap());
        vague.extend(found.into_iter().map(|place| format!("{}:{place}", relative(path))));
    }
    assert!(vague.is_empty(), "name these by a verb and its object: {vague:#?}");
}

#[test]
fn vague_names_of_functions_are_found() {
    let text = "fn of(a: u8) {}\n    pub(super) async fn words<'a>() {}\nfn take_step() {}\n// fn of()\nlet take = 1;";
    assert_eq!(vague_functions(text), ["1: of", "2: words"]);
}

/// Returns the names of the types that a source declares outside of implementations.
fn types(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "unsafe");
        let (Some(kind), Some(name)) = (words.next(), words.next()) else { continue };
        let is_associated = kind == "type" && line.starts_with(' ');
        if ["struct", "enum", "trait", "union", "type"].contains(&kind) && !is_associated {
            let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            if name.starts_with(|c: char| c.is_uppercase()) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

fn is_one_word(name: &str) -> bool {
    let capitals = name.chars().filter(|c| c.is_uppercase()).count();
    capitals == 1 || capitals == name.len()
}

#[test]
fn names_of_types_can_be_searched_for() {
    let mut all: Vec<String> = Vec::new();
    for path in crates().into_iter().flat_map(|path| files(&path.join("src"), &["rs"])) {
        if !is_test_file(&path) && !path.ends_with("bindings.rs") {
            all.extend(types(without_tests(&fs::read_to_string(&path).unwrap())));
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &all {
        *counts.entry(name).or_default() += 1;
    }
    let share = |count: usize| count as f64 / all.len() as f64;
    let one_word = share(all.iter().filter(|name| is_one_word(name)).count());
    let shared: BTreeSet<_> = counts.iter().filter(|(_, count)| **count > 2).collect();
    let of_shared = share(shared.iter().map(|(_, count)| **count).sum());
    assert!(all.len() > 1_000, "the types are somewhere else: {}", all.len());
    assert!(one_word <= MAX_ONE_WORD, "{one_word:.2} of the types have a name of one word; name their duty");
    assert!(of_shared <= MAX_SHARED, "{of_shared:.2} of the types share their name with two others: {shared:?}");
}

#[test]
fn types_and_their_words_are_counted() {
    let text = "pub(crate) struct UndoPlace;\n    enum Part {}\nimpl A {\n    type Item = u8;\n}\ntype Rows<T> = Vec<T>;\nlet x = 1;";
    assert_eq!(types(text), ["UndoPlace", "Part", "Rows"]);
    assert_eq!(["UndoPlace", "Part", "URL"].map(is_one_word), [false, true, true]);
}
