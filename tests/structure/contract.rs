//! The released contract: a plugin that was built against it works in every later host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Reserved words of the languages of plugins, in the newest edition of each.
const KEYWORDS: &[(&str, &str)] = &[
    (
        "C",
        "alignas alignof auto bool break case char const constexpr continue default do double else enum \
         extern false float for goto if inline int long nullptr register restrict return short signed sizeof \
         static static_assert struct switch thread_local true typedef typeof typeof_unqual union unsigned \
         void volatile while",
    ),
    (
        "C#",
        "abstract as base bool break byte case catch char checked class const continue decimal default \
         delegate do double else enum event explicit extern false finally fixed float for foreach goto if \
         implicit in int interface internal is lock long namespace new null object operator out override \
         params private protected public readonly ref return sbyte sealed short sizeof stackalloc static \
         string struct switch this throw true try typeof uint ulong unchecked unsafe ushort using virtual \
         void volatile while",
    ),
    (
        "Go",
        "break case chan const continue default defer else fallthrough for func go goto if import interface \
         map package range return select struct switch type var",
    ),
    (
        "JavaScript",
        "arguments await break case catch class const continue debugger default delete do else enum eval \
         export extends false finally for function if implements import in instanceof interface let new null \
         package private protected public return static super switch this throw true try typeof undefined var \
         void while with yield",
    ),
    (
        "Python",
        "and as assert async await break class continue def del elif else except false finally for from \
         global if import in is lambda none nonlocal not or pass raise return true try while with yield",
    ),
    (
        "Rust",
        "abstract as async await become box break const continue crate do dyn else enum extern false final fn \
         for gen if impl in let loop macro match mod move mut override priv pub ref return self static struct \
         super trait true try type typeof unsafe unsized use virtual where while yield",
    ),
    (
        "Zig",
        "addrspace align allowzero and anyframe anytype asm async await break callconv catch comptime const \
         continue defer else enum errdefer error export extern fn for if inline linksection noalias noinline \
         nosuspend opaque or orelse packed pub resume return struct suspend switch test threadlocal try union \
         unreachable usingnamespace var volatile while",
    ),
];

/// Names that are keywords all the same: interface, name, language, and the reason why each can stay. They were found after 0.1.0
/// was released, whose items never change.
const KEPT: &[(&str, &str, &str, &str)] = &[
    ("workspace", "where", "Rust", "bindings call the parameter of `search` `where_`, which callers never write"),
    ("ui", "select", "Go", "functions begin with a capital letter"),
    ("commands", "resume", "Zig", "the bindings for C, which Zig uses, put interface and type before a case"),
    ("log", "error", "Zig", "the bindings for C, which Zig uses, put interface and type before a case"),
    ("ui", "error", "Zig", "the bindings for C, which Zig uses, put interface and type before a case"),
];

/// The items of an interface or world: types, functions, imports and exports.
type Items = BTreeMap<String, Vec<String>>;

/// Reads the items of all interfaces and worlds of a directory, without comments and with single blanks.
fn read(directory: &Path) -> Items {
    let mut items = Items::new();
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "wit"));
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        let code = code.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        let (mut name, mut item, mut depth) = (String::new(), String::new(), 0);
        for c in code.chars() {
            item.push(c);
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            match (c, depth) {
                ('{', 1) => name = std::mem::take(&mut item).trim_end_matches('{').trim().to_owned(),
                ('}', 0) => item.clear(),
                (';' | '}', 1) => {
                    items.entry(name.clone()).or_default().push(std::mem::take(&mut item).trim().to_owned());
                }
                (';', 0) => item.clear(),
                _ => {}
            }
        }
        assert_eq!(depth, 0, "{}", file.display());
    }
    items
}

fn contract() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("wit")
}

/// Additions are new items, which name the version that brings them.
#[test]
fn released_contract_only_grows() {
    let released = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/contract-0.1.0/wit");
    let (released, now) = (read(&released), read(&contract()));
    assert!(released.len() > 25, "{:?}", released.keys());
    for (name, items) in &released {
        let current = now.get(name).unwrap_or_else(|| panic!("`{name}` is gone"));
        for item in items {
            assert!(current.contains(item), "`{name}` has lost or changed:\n  {item}");
        }
        let added = current.iter().filter(|item| !items.contains(item));
        let is_later = |item: &&String| item.starts_with("@since(version = ") && !item.contains("version = 0.1.0)");
        let early: Vec<&String> = added.filter(|item| !is_later(item)).collect();
        assert!(early.is_empty(), "new in `{name}`, without `@since` and a later version: {early:?}");
    }
    let added = now.keys().filter(|name| !released.contains_key(*name));
    let early: Vec<&String> = added.filter(|name| name.contains("@since(version = 0.1.0)")).collect();
    assert!(early.is_empty(), "new, and said to be released: {early:?}");
}

/// Names that tools for other languages would have to change.
#[test]
fn names_of_the_contract_are_no_keywords() {
    let mut found = BTreeSet::new();
    for (name, items) in read(&contract()) {
        let interface = name.split_whitespace().last().unwrap_or_default();
        for item in items {
            // In front of a colon is the name of a field, parameter or function; cases stand alone between commas.
            let has_cases = ["enum ", "variant ", "flags "].iter().any(|kind| item.contains(kind));
            let parts = item.split_inclusive([':', ',', '(', ')', '{', '}', ';']);
            for part in parts {
                let (word, mark) = part.split_at(part.len() - 1);
                let word = word.trim().trim_start_matches('%');
                let is_name = mark == ":" || (has_cases && matches!(mark, "," | "(" | "}"));
                let reserve = |(_, words): &&(&str, &str)| is_name && words.split(' ').any(|reserved| reserved == word);
                let languages = KEYWORDS.iter().filter(reserve).map(|(language, _)| *language);
                found.extend(languages.map(|language| (interface.to_owned(), word.to_owned(), language)));
            }
        }
    }
    let kept =
        KEPT.iter().map(|(interface, name, language, _)| ((*interface).to_owned(), (*name).to_owned(), *language));
    assert_eq!(found, kept.collect::<BTreeSet<_>>());
}
