//! The released contract: what a plugin was built against works in every later host.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that are reserved in a language of plugins: JavaScript in strict mode, Python, C, C#, Zig, and Go, whose `select` is
/// none with a capital letter.
const KEYWORDS: &[&str] = &[
    "arguments",
    "assert",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "chan",
    "class",
    "comptime",
    "const",
    "continue",
    "def",
    "default",
    "defer",
    "del",
    "delete",
    "do",
    "double",
    "effect",
    "elif",
    "else",
    "enum",
    "errdefer",
    "eval",
    "except",
    "export",
    "extends",
    "extern",
    "false",
    "final",
    "finally",
    "float",
    "for",
    "from",
    "func",
    "function",
    "global",
    "go",
    "goto",
    "if",
    "import",
    "in",
    "int",
    "interface",
    "is",
    "lambda",
    "let",
    "long",
    "map",
    "namespace",
    "new",
    "nonlocal",
    "none",
    "not",
    "null",
    "object",
    "or",
    "package",
    "params",
    "pass",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "range",
    "ref",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "typeof",
    "undefined",
    "union",
    "unsigned",
    "var",
    "void",
    "volatile",
    "while",
    "with",
    "yield",
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
    let mut found = Vec::new();
    for (name, items) in read(&contract()) {
        for item in items {
            // In front of a colon is the name of a field, parameter or function; cases stand alone between commas.
            let has_cases = ["enum ", "variant ", "flags "].iter().any(|kind| item.contains(kind));
            let parts = item.split_inclusive([':', ',', '(', ')', '{', '}', ';']);
            for part in parts {
                let (word, mark) = part.split_at(part.len() - 1);
                let word = word.trim().trim_start_matches('%');
                let is_name = mark == ":" || (has_cases && matches!(mark, "," | "(" | "}"));
                if is_name && KEYWORDS.contains(&word) {
                    found.push(format!("{name}: {word}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
