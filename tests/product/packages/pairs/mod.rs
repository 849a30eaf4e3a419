//! Pairs of components, and the sentences of `pinion plugin diff` and of an update about the second one.

mod fixture;

use self::fixture::{DescribedComponent, DescribedTool};
use pinion_tests::{Ended, Pinion};
use serde_json::{Value, json};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

type ComponentChange = fn(&mut DescribedComponent);

/// Two versions of a component, and the sentences about the later one.
struct ComponentPair {
    name: &'static str,
    old: ComponentChange,
    new: ComponentChange,
    /// The additions that an update asks about; `diff` lists them first.
    asked: &'static [&'static str],
    /// More additions in `diff`, which loads the components.
    loaded: &'static [&'static str],
    /// Texts in `diff` that changed.
    reworded: &'static [&'static str],
}

const SAME: ComponentChange = |_| {};
const PROMPTS: &str = "`pair` has the hook `before-prompt`";
const HOOKS: &str = "`pair` asks to see and restrict what the agent does: all tool calls with their input and results, \
                     your prompts, and the session";

/// Returns a pair whose later version has exactly these additions.
const fn pair(
    name: &'static str,
    old: ComponentChange,
    new: ComponentChange,
    asked: &'static [&'static str],
) -> ComponentPair {
    ComponentPair { name, old, new, asked, loaded: &[], reworded: &[] }
}

/// Returns a pair whose difference only `diff` sees.
const fn loaded(
    name: &'static str,
    old: ComponentChange,
    new: ComponentChange,
    loaded: &'static [&'static str],
    reworded: &'static [&'static str],
) -> ComponentPair {
    ComponentPair { name, old, new, asked: &[], loaded, reworded }
}

/// Pairs that differ in the manifest, the imports and the exports.
const AUTHORITY: &[ComponentPair] = &[
    pair("nothing", SAME, SAME, &[]),
    pair("version", SAME, |new| new.manifest["version"] = json!("0.2.0"), &[]),
    pair("write", SAME, |new| new.ask("files", json!("write")), &["`pair` asks to write files"]),
    pair("only read", |old| old.ask("files", json!("write")), SAME, &[]),
    pair("no files", SAME, |new| new.ask("files", json!(null)), &[]),
    pair("programs", SAME, |new| new.ask("process", json!(true)), &["`pair` asks to run programs"]),
    pair(
        "two asks",
        SAME,
        |new| {
            new.ask("process", json!(true));
            new.ask("storage", json!(true));
        },
        &["`pair` asks to run programs", "`pair` asks to store values"],
    ),
    pair(
        "an ask for another",
        |old| old.ask("storage", json!(true)),
        |new| new.ask("ui", json!(true)),
        &["`pair` asks to ask and notify you"],
    ),
    pair("read the session", SAME, |new| new.ask("session", json!("read")), &["`pair` asks to read the conversation"]),
    pair(
        "write the session",
        |old| old.ask("session", json!("read")),
        |new| new.ask("session", json!("write")),
        &["`pair` asks to read the conversation and add entries to it"],
    ),
    pair("session as before", |old| old.ask("session", json!("write")), |new| new.ask("session", json!("read")), &[]),
    pair(
        "one server more",
        |old| old.ask("http", json!(["https://a.example"])),
        |new| new.ask("http", json!(["https://a.example", "https://b.example"])),
        &["`pair` asks to send requests to https://b.example"],
    ),
    pair(
        "one server less",
        |old| old.ask("http", json!(["https://a.example", "https://b.example"])),
        |new| new.ask("http", json!(["https://b.example"])),
        &[],
    ),
    pair(
        "part of a server",
        |old| old.ask("http", json!(["https://a.example/*"])),
        |new| new.ask("http", json!(["https://a.example/v1/*"])),
        &[],
    ),
    pair(
        "any server",
        |old| old.ask("http", json!(["https://a.example"])),
        |new| new.ask("http", json!(true)),
        &["`pair` asks to send requests to any server that the user names"],
    ),
    pair(
        "one secret more",
        |old| old.ask("secrets", json!(["one"])),
        |new| new.ask("secrets", json!(["one", "two"])),
        &["`pair` asks to use the secrets two"],
    ),
    pair(
        "any secret",
        |old| old.ask("secrets", json!(["one"])),
        |new| new.ask("secrets", json!(true)),
        &["`pair` asks to use secrets"],
    ),
    pair("an unknown ask", SAME, |new| new.ask("teleport", json!(true)), &[]),
    pair(
        "session lifetime",
        SAME,
        |new| new.manifest["lifetime"] = json!("session"),
        &["`pair` asks to keep one instance for the whole session"],
    ),
    pair("shorter lifetime", |old| old.manifest["lifetime"] = json!("session"), SAME, &[]),
    pair("import for everyone", SAME, |new| new.imports.push("pinion:plugin/log@0.1.0"), &[]),
    pair("import of the toolchain", SAME, |new| new.imports.push("wasi:clocks/monotonic-clock@0.2.0"), &[]),
    pair(
        "newer import",
        |old| old.imports.push("wasi:clocks/monotonic-clock@0.2.0"),
        |new| new.imports.push("wasi:clocks/monotonic-clock@0.2.1"),
        &[],
    ),
    pair(
        "import",
        SAME,
        |new| new.imports.push("pinion:plugin/storage@0.1.0"),
        &["`pair` imports pinion:plugin/storage"],
    ),
    pair("import less", |old| old.imports.push("pinion:plugin/storage@0.1.0"), SAME, &[]),
    pair("hook", SAME, |new| new.hooks.push("before-prompt"), &[PROMPTS]),
    pair(
        "hook with its ask",
        SAME,
        |new| {
            new.hooks.push("before-prompt");
            new.ask("hooks", json!(true));
        },
        &[HOOKS, PROMPTS],
    ),
    pair(
        "another hook",
        |old| old.hooks.push("session-events"),
        |new| new.hooks = vec!["before-prompt", "session-events"],
        &[PROMPTS],
    ),
    pair(
        "hook less",
        |old| old.hooks = vec!["before-prompt", "session-events"],
        |new| new.hooks.push("before-prompt"),
        &[],
    ),
];

/// Pairs that differ in tools, commands and texts.
const OFFERS: &[ComponentPair] = &[
    loaded(
        "new tool",
        SAME,
        |new| {
            new.tools.push(DescribedTool { effects: vec!["reads", "executes"], ..DescribedTool::new("run") });
        },
        &["tool `run` is new (reads files, runs programs)"],
        &[],
    ),
    loaded(
        "harmless tool",
        SAME,
        |new| new.tools.push(DescribedTool { effects: vec![], ..DescribedTool::new("think") }),
        &["tool `think` is new (no effects)"],
        &[],
    ),
    loaded("tool less", |old| old.tools.push(DescribedTool::new("run")), SAME, &[], &[]),
    loaded(
        "more effects",
        SAME,
        |new| new.tools[0].effects = vec!["reads", "network", "delegates"],
        &["tool `look` also uses the network, asks models or starts agents"],
        &[],
    ),
    loaded("writes", SAME, |new| new.tools[0].effects.push("writes"), &["tool `look` also writes files"], &[]),
    loaded("only reads", |old| old.tools[0].effects.push("writes"), SAME, &[], &[]),
    loaded(
        "harmless by its own account",
        |old| old.tools[0].effects.push("destructive"),
        SAME,
        &["tool `look` no longer declares itself destructive"],
        &[],
    ),
    loaded(
        "argument",
        SAME,
        |new| new.tools[0].schema["properties"]["command"] = json!({ "type": "string" }),
        &["tool `look` takes other arguments"],
        &[],
    ),
    loaded(
        "argument called description",
        SAME,
        |new| new.tools[0].schema["properties"]["description"] = json!({ "type": "string" }),
        &["tool `look` takes other arguments"],
        &[],
    ),
    loaded(
        "text of an argument",
        SAME,
        |new| new.tools[0].schema["properties"]["path"]["description"] = json!("The path of the file"),
        &[],
        &["tool `look` describes its arguments differently"],
    ),
    loaded(
        "text of a tool",
        SAME,
        |new| new.tools[0].description = "Looks at a file!",
        &[],
        &["tool `look` is described differently"],
    ),
    loaded(
        "guideline",
        SAME,
        |new| new.tools[0].guidelines.push("Always look first."),
        &[],
        &["tool `look` adds other sentences to the system prompt"],
    ),
    loaded("command", SAME, |new| new.commands.push("go"), &["command `/go` is new"], &[]),
    loaded("command less", |old| old.commands = vec!["go", "stay"], |new| new.commands.push("stay"), &[], &[]),
    ComponentPair {
        name: "everything",
        old: SAME,
        new: |new| {
            new.ask("files", json!("write"));
            new.imports.push("pinion:plugin/storage@0.1.0");
            new.hooks.push("before-prompt");
            new.tools[0].effects.push("writes");
            new.tools[0].schema["required"] = json!(["path"]);
            new.tools[0].description = "Looks.";
            new.tools.push(DescribedTool::new("run"));
            new.commands.push("go");
            new.manifest["description"] = json!("The other one");
        },
        asked: &["`pair` asks to write files", "`pair` imports pinion:plugin/storage", PROMPTS],
        loaded: &[
            "tool `look` also writes files",
            "tool `look` takes other arguments",
            "tool `run` is new (reads files)",
            "command `/go` is new",
        ],
        reworded: &["`pair` describes itself differently", "tool `look` is described differently"],
    },
];

impl ComponentPair {
    fn encode(&self) -> [Vec<u8>; 2] {
        [self.old, self.new].map(|change| {
            let mut component = DescribedComponent::new();
            change(&mut component);
            component.encode()
        })
    }

    fn check(&self) {
        let (pinion, name) = (Pinion::default(), self.name);
        let [old, new] = self.encode();
        pinion.write("old/pair.wasm", &old);
        pinion.write("new/pair.wasm", &new);
        let ended = pinion.run(["plugin", "diff", "old/pair.wasm", "new/pair.wasm", "--json"]);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{name}: {ended:?}"));
        assert_eq!(report["grown"], json!([self.asked, self.loaded].concat()), "{name}");
        assert_eq!(report["reworded"], json!(self.reworded), "{name}");
        let added = pinion.run(["plugin", "add", "old/pair.wasm", "--yes"]);
        assert_eq!(added.code, Some(0), "{name}: {added:?}");
        pinion.write("old/pair.wasm", &new);
        let updated = pinion.run(["plugin", "update"]);
        assert_eq!(asked(&updated), self.asked, "{name}: {updated:?}");
        // Only more authority is held back.
        assert_eq!(updated.code, Some(if self.asked.is_empty() { 0 } else { 4 }), "{name}: {updated:?}");
        let file = fs::read(pinion.home().join("plugins/pair.wasm")).unwrap();
        assert_eq!(file == new, self.asked.is_empty() || old == new, "{name}");
    }
}

/// Returns the additions that an update lists.
fn asked(updated: &Ended) -> Vec<&str> {
    updated.stderr.lines().filter_map(|line| line.strip_prefix("  + ")).collect()
}

fn check_all(pairs: &[ComponentPair]) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while let Some(pair) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    pair.check();
                }
            });
        }
    });
}

#[test]
fn update_names_exactly_the_authority_that_grew() {
    check_all(AUTHORITY);
}

#[test]
fn difference_names_exactly_the_changes_of_tools_and_texts() {
    assert!(AUTHORITY.len() + OFFERS.len() >= 40);
    check_all(OFFERS);
}
