//! Limits on the structure of the sources: sizes of files, module cycles, and how doc comments open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const MAX_FILE_LINES: usize = 500;
const MAX_AGENT_LINES: usize = 3_000;
const MAX_CYCLE: usize = 5;
const MAX_QUARANTINED: usize = 3;
const MAX_TEST_NAME: usize = 70;
const MAX_BAD_OPENINGS: f64 = 0.03;

/// Words that open a question or a headless clause.
const BAD_OPENINGS: &[&str] = &[
    "What",
    "How",
    "Who",
    "Whose",
    "Whom",
    "Why",
    "Where",
    "Which",
    "When",
    "Whether",
    "Whatever",
    "Whoever",
    "Whichever",
    "Wherever",
    "Is",
    "Are",
    "Has",
    "Have",
    "Had",
    "May",
    "Can",
    "Does",
    "Do",
    "Did",
    "Was",
    "Were",
    "Will",
    "Would",
    "Should",
    "Must",
];

/// Calls that open a file by its path, and wait for the other end of a pipe in its place.
const OPENS: &[&str] = &[
    "File::open(",
    "File::create(",
    "File::options(",
    "OpenOptions::new(",
    "fs::read(",
    "fs::read_to_string(",
    "fs::write(",
    "fs::copy(",
];

/// Signs in the lines of an open that it cannot wait: it goes through a helper, makes the file, does not block, or names a
/// file of the system.
const UNBLOCKED: &[&str] = &[
    "open_regular(",
    "open_unlinked(",
    "open_entry(",
    "open_existing(",
    "private::open(",
    "create_new(true)",
    "NONBLOCK",
    "without_waiting(",
    "flags(&mut options)",
    "\"/proc/",
    "\"/dev/",
];

/// Files that may open others in any way, and the reason.
const MAY_WAIT: &[(&str, &str)] = &[
    ("host/cli/src/commands/demo.rs", "writes into a temporary directory of its own"),
    ("host/cli/src/commands/doctor.rs", "writes a probe under a name with the process's id"),
    ("host/cli/src/commands/plugin/call.rs", "writes into a temporary directory of its own"),
    ("host/cli/src/commands/plugin/show.rs", "writes into a temporary directory of its own"),
    ("host/cli/src/commands/plugin/template.rs", "writes a new project into a directory that was empty"),
    ("host/cli/src/commands/plugin/wit.rs", "replaces files that were read before, or do not exist"),
    (
        "host/cli/src/commands/swe_bench/",
        "reads a data set that may be a pipe, and files in the directory of its results",
    ),
    ("host/app/src/model/exchanges.rs", "reads a script that the command line names, which may be a pipe"),
    ("host/cli/templates/", "is code of plugins, in whose file system pipes cannot be opened"),
    ("host/plugin-storage/src/store.rs", "passes options to `opened`, which uses `private::open`"),
    ("host/plugin-streams/src/handles.rs", "opens the null device"),
    ("host/plugin-limits/src/descriptors.rs", "opens the root directory"),
    ("host/plugin-engine/src/component_file.rs", "has a variant for systems without named pipes among files"),
    ("host/plugin-runtime/src/openapi.rs", "writes into a temporary directory of its own"),
    ("host/providers/src/recording/playback.rs", "reads a recording that the application names, which may be a pipe"),
    ("host/providers/src/replay.rs", "reads a script that the application names, which may be a pipe"),
    ("host/sandbox/src/linux/cgroup.rs", "opens files of the kernel's cgroups"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns all files below a directory with one of these extensions, except build output and fixtures.
pub(super) fn files(directory: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "fixtures", "bindings", "dist"].contains(&name.as_str()) {
            found.extend(files(&path, extensions));
        } else if path.extension().is_some_and(|extension| extensions.iter().any(|wanted| extension == *wanted)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the crates below `host`.
pub(super) fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("host")).unwrap().map(|entry| entry.unwrap().path());
    let crates: Vec<_> = entries.filter(|path| path.join("src").is_dir()).collect();
    assert!(crates.len() >= 5, "the crates are somewhere else");
    crates
}

pub(super) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// Returns the part of a source file before its inline test module.
pub(super) fn without_tests(text: &str) -> &str {
    let mut rest = text;
    while let Some(at) = rest.find("#[cfg(test)]") {
        let after = rest[at + "#[cfg(test)]".len()..].trim_start();
        if after.starts_with("mod ") && after.lines().next().is_some_and(|line| line.ends_with('{')) {
            return &text[..text.len() - rest.len() + at];
        }
        rest = after;
    }
    text
}

pub(super) fn is_test_file(path: &Path) -> bool {
    let name = relative(path);
    name.ends_with("tests.rs") || name.ends_with("testing.rs") || name.contains("tests/")
}

#[test]
fn no_host_file_exceeds_500_lines() {
    let sources = crates().into_iter().flat_map(|path| files(&path.join("src"), &["rs"]));
    let lines = |path: &PathBuf| fs::read_to_string(path).unwrap().lines().count();
    let long: Vec<_> =
        sources.map(|path| (lines(&path), relative(&path))).filter(|(n, _)| *n > MAX_FILE_LINES).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn loop_has_at_most_3000_lines_of_code() {
    let mut lines = 0;
    for path in files(&root().join("host/agent/src"), &["rs"]).iter().filter(|path| !is_test_file(path)) {
        let text = fs::read_to_string(path).unwrap();
        let code = without_tests(&text).lines().map(str::trim);
        lines += code.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    }
    assert!(lines <= MAX_AGENT_LINES, "{lines} lines");
}

#[test]
fn module_cycles_have_at_most_five_files() {
    let mut long = Vec::new();
    for path in crates() {
        let cycles = cycles(&imports(&path.join("src")));
        long.extend(cycles.into_iter().filter(|cycle| cycle.len() > MAX_CYCLE).map(|cycle| (relative(&path), cycle)));
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn cycle_search_finds_a_cycle() {
    let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")];
    let mut graph: BTreeMap<String, BTreeSet<String>> = ["d"].map(|name| (name.to_owned(), BTreeSet::new())).into();
    for (from, to) in edges {
        graph.entry(from.to_owned()).or_default().insert(to.to_owned());
    }
    assert_eq!(cycles(&graph), [["a", "b", "c"].map(str::to_owned)]);
}

#[test]
fn paths_are_found_in_nested_imports() {
    let text = "use crate::{a::{b, c as d}, e};\nuse super::f::G;\nfn f() { self::h::i() } // crate::no\n";
    let expected = ["crate::a::b", "crate::a::c", "crate::e", "super::f::G", "self::h::i"];
    assert_eq!(paths(&without_comments(text), &[]), expected);
    assert!(paths(&without_comments("pub(in crate::run) fn f() {}"), &[]).is_empty());
    let child = "pub use limits::{Limit, self::x};\nother::limits::A; fn limits() {}";
    assert_eq!(paths(child, &["limits"]), ["limits::Limit", "limits::self::x", "self::x"]);
}

#[test]
fn inline_module_with_files_counts_as_a_module() {
    let text =
        "pub mod a {\n    mod b;\n    mod c {\n        use d::D;\n    }\n    pub use b::B;\n}\nuse a::B;\nmod e {\n}";
    let mut texts = BTreeMap::new();
    add_modules("m".to_owned(), text, &mut texts);
    assert_eq!(texts["m"], "use a::B;\nmod e {\n}");
    assert_eq!(texts["m::a"], "    mod b;\n    mod c {\n        use d::D;\n    }\n    pub use b::B;");
}

/// Returns the modules below a module, by their last names.
fn children<'a>(module: &str, modules: &'a BTreeMap<String, String>) -> Vec<&'a str> {
    let parts = |name: &'a str| name.rsplit_once("::").unwrap_or(("", name));
    let below = modules.keys().filter(|name| !name.is_empty()).map(|name| parts(name));
    below.filter(|(parent, _)| *parent == module).map(|(_, name)| name).collect()
}

fn is_test_module(name: &str) -> bool {
    name.split("::").any(|part| part.ends_with("tests") || part.ends_with("testing"))
}

/// Returns the modules that each module of a crate names, its children included, by module path. The crate's root is the
/// empty path.
fn imports(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let module = |path: &Path| {
        let mut parts: Vec<String> =
            path.strip_prefix(source).unwrap().with_extension("").iter().map(|p| p.to_string_lossy().into()).collect();
        parts.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        parts.join("::")
    };
    let mut texts = BTreeMap::new();
    for path in files(source, &["rs"]) {
        add_modules(module(&path), without_tests(&fs::read_to_string(path).unwrap()), &mut texts);
    }
    let mut graph = BTreeMap::new();
    for (name, text) in texts.iter().filter(|(name, _)| !is_test_module(name)) {
        let children = children(name, &texts);
        let named = paths(&without_comments(text), &children);
        let modules = named.iter().filter_map(|path| resolve(name, path, &texts));
        let others = modules.filter(|other| other != name && !is_test_module(other));
        // The bindings name the types of resources, whose methods use the bindings.
        let is_generated = name == "bindings";
        graph.insert(name.clone(), if is_generated { BTreeSet::new() } else { others.collect() });
    }
    graph
}

/// Adds the text of a module, and separately the texts of inline modules that have files, because such a module stands
/// for a `mod.rs`. Any other inline module belongs to its file.
fn add_modules(name: String, text: &str, texts: &mut BTreeMap<String, String>) {
    let lines: Vec<&str> = text.lines().collect();
    let (mut own, mut at) = (Vec::new(), 0);
    while let Some(line) = lines.get(at) {
        // rustfmt ends a module with the indentation of its beginning.
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let body = lines[at + 1..].split(|line| *line == end).next().unwrap();
        let child =
            declared_module(line, " {").filter(|_| body.iter().any(|line| declared_module(line, ";").is_some()));
        if let Some(child) = child {
            let child = if name.is_empty() { child.to_owned() } else { format!("{name}::{child}") };
            add_modules(child, &body.join("\n"), texts);
            at += body.len() + 2;
        } else {
            own.push(*line);
            at += 1;
        }
    }
    texts.insert(name, own.join("\n"));
}

/// Returns the name of the module that a line declares, if the line ends like this.
fn declared_module<'a>(line: &'a str, end: &str) -> Option<&'a str> {
    let (visibility, rest) = line.trim_start().split_once("mod ")?;
    let is_module = visibility.is_empty() || visibility.starts_with("pub") && visibility.ends_with(' ');
    rest.strip_suffix(end).filter(|_| is_module)
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
    // A visibility names a module and imports nothing.
    let mut parts = code.split("pub(in ");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + "pub" + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// Returns the module of a path that starts with `crate`, `self` or `super`, as seen from `module`.
fn resolve(module: &str, path: &str, modules: &BTreeMap<String, String>) -> Option<String> {
    let mut at: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    let mut parts = path.split("::").peekable();
    match parts.next()? {
        "crate" => at.clear(),
        "self" => {}
        "super" => {
            at.pop();
            while parts.next_if_eq(&"super").is_some() {
                at.pop();
            }
        }
        child => at.push(child),
    }
    at.extend(parts);
    (1..=at.len()).rev().map(|length| at[..length].join("::")).find(|name| modules.contains_key(name))
}

/// Returns all paths that start with `crate`, `self`, `super` or a child, with the groups of imports expanded.
fn paths(text: &str, children: &[&str]) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let word = rest[start..].split(|c| !is_word(c)).next().unwrap();
        let after = &rest[start + word.len()..];
        let is_start = ["crate", "self", "super"].contains(&word)
            || children.contains(&word) && !rest[..start].ends_with(['.', ':', '$']);
        if is_start && after.starts_with("::") {
            expand(word, after, &mut found);
        }
        rest = after;
    }
    found
}

/// Adds the paths that continue `prefix`, and returns the text behind them.
fn expand<'a>(prefix: &str, text: &'a str, found: &mut Vec<String>) -> &'a str {
    let Some(rest) = text.strip_prefix("::") else {
        found.push(prefix.to_owned());
        return text;
    };
    if let Some(mut rest) = rest.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches([',', ' ', '\n']);
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            if name.is_empty() {
                return rest.strip_prefix('}').unwrap_or(rest);
            }
            rest = expand(&format!("{prefix}::{name}"), &rest[name.len()..], found);
            rest = rest.find([',', '}']).map_or("", |end| &rest[end..]);
        }
    }
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
    if name.is_empty() {
        found.push(prefix.to_owned());
        return rest;
    }
    expand(&format!("{prefix}::{name}"), &rest[name.len()..], found)
}

/// Returns the strongly connected components of several modules: sets of modules that all reach each other.
fn cycles(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = graph.keys().map(|name| (name, reach(graph, name))).collect();
    let mut cycles = BTreeSet::new();
    for (name, others) in &reached {
        let cycle: Vec<String> =
            others.iter().filter(|other| reached[**other].contains(name)).map(|other| (*other).clone()).collect();
        if cycle.len() > 1 {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

/// Returns the modules that `start` reaches over at least one import.
fn reach<'a>(graph: &'a BTreeMap<String, BTreeSet<String>>, start: &str) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = graph[start].iter().collect();
    while let Some(name) = next.pop() {
        if reached.insert(name) {
            next.extend(&graph[name]);
        }
    }
    reached
}

/// Returns the sources of all crates and of the contract.
pub(super) fn all_sources() -> Vec<PathBuf> {
    let directories = ["host", "plugin-sdk", "plugins", "examples", "tests", "wit"];
    directories.iter().flat_map(|directory| files(&root().join(directory), &["rs", "wit"])).collect()
}

/// Returns the first line of each doc comment with its file and line.
fn openings(path: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(path).unwrap();
    let mut openings = Vec::new();
    let mut is_inside = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if let Some(doc) = doc.map(str::trim).filter(|doc| !is_inside && !doc.is_empty()) {
            openings.push((format!("{}:{}", relative(path), number + 1), doc.to_owned()));
        }
        is_inside = doc.is_some();
    }
    openings
}

#[test]
fn doc_comments_open_with_a_verb_or_noun_phrase() {
    let openings: Vec<_> = all_sources().iter().flat_map(|path| openings(path)).collect();
    let first = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
    let bad: Vec<_> = openings.iter().filter(|(_, text)| BAD_OPENINGS.contains(&first(text).as_str())).collect();
    let share = bad.len() as f64 / openings.len() as f64;
    assert!(openings.len() > 1_000 && share <= MAX_BAD_OPENINGS, "{share:.3} of {}: {bad:#?}", openings.len());
}

#[test]
fn test_names_have_at_most_70_characters() {
    let mut long = Vec::new();
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            let name =
                line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ").and_then(|l| l.split('(').next());
            if let Some(name) = name.filter(|name| is_test && name.len() > MAX_TEST_NAME) {
                long.push(format!("{}: {name}", relative(&path)));
            }
            is_test =
                line.starts_with("#[test]") || line.starts_with("#[tokio::test") || is_test && line.starts_with('#');
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

/// Returns the opens in a source file that may wait for the other end of a pipe.
fn waiting_opens(text: &str) -> Vec<String> {
    let code = text.split("\nmod tests {").next().unwrap_or_default();
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let is_open = |line: &str| {
        let call = |name: &str| {
            let at = line.find(name)?;
            // Another function may end with the same letters.
            let before = line[..at].chars().next_back();
            before.is_none_or(|c| !c.is_alphanumeric() && c != '_').then_some(())
        };
        !line.starts_with("//") && OPENS.iter().any(|name| call(name).is_some())
    };
    let waits = |(at, line): (usize, &&str)| {
        // Options are set in the lines that follow.
        let length = if line.contains("ptions") { 12 } else { 1 };
        let statement = &lines[at..lines.len().min(at + length)];
        let is_unblocked = statement.iter().any(|line| UNBLOCKED.iter().any(|sign| line.contains(sign)));
        (is_open(line) && !is_unblocked).then(|| format!("{}: {line}", at + 1))
    };
    lines.iter().enumerate().filter_map(waits).collect()
}

#[test]
fn opens_of_files_do_not_wait_for_a_pipe() {
    let mut found = Vec::new();
    let mut unused: BTreeSet<&str> = MAY_WAIT.iter().map(|(file, _)| *file).collect();
    let sources = crates().into_iter().flat_map(|path| files(&path, &["rs"]));
    for path in sources.filter(|path| relative(path).contains("/src/") && !is_test_file(path)) {
        let opens = waiting_opens(&fs::read_to_string(&path).unwrap());
        let name = relative(&path);
        match MAY_WAIT.iter().find(|(file, _)| name.starts_with(file)) {
            Some((file, _)) if !opens.is_empty() => drop(unused.remove(file)),
            Some(_) => {}
            None => found.extend(opens.into_iter().map(|open| format!("{name}:{open}"))),
        }
    }
    assert!(
        found.is_empty(),
        "open these with a helper such as `open_regular`, or add a reason to `MAY_WAIT`: {found:#?}"
    );
    assert!(unused.is_empty(), "no longer needed in `MAY_WAIT`: {unused:?}");
}

#[test]
fn opens_that_wait_are_found() {
    let found = |text: &str| waiting_opens(text).len();
    for waits in ["let x = std::fs::read(path)?;", "File::open(path)", "let mut o = OpenOptions::new();\no.open(path)"]
    {
        assert_eq!(found(waits), 1, "{waits}");
    }
    for safe in [
        "let refs = refs::read(path);",
        "PlanFile::create(path)",
        "// fs::read(path)",
        "open_regular(path, OpenOptions::new().read(true))",
        "let mut o = OpenOptions::new();\no.custom_flags(NONBLOCK);",
        "fn f() {}\nmod tests {\nfs::read(path)",
    ] {
        assert_eq!(found(safe), 0, "{safe}");
    }
}

#[test]
fn quarantine_has_at_most_three_tests_with_date_and_reason() {
    let text = fs::read_to_string(root().join("tests/quarantine.txt")).unwrap();
    let entries: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert!(entries.len() <= MAX_QUARANTINED, "{entries:#?}");
    let sources: String = all_sources().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for entry in entries {
        let mut parts = entry.splitn(3, ' ');
        let [name, date, reason] = [(); 3].map(|()| parts.next().unwrap_or_default());
        let is_date = date.len() == 10 && date.split('-').all(|part| part.parse::<u16>().is_ok());
        assert!(is_date && !reason.is_empty(), "`{entry}` needs a name, a date such as 2026-11-28, and a reason");
        let function = name.rsplit("::").next().unwrap();
        assert!(sources.contains(&format!("fn {function}(")), "no test is called `{function}`");
    }
}
