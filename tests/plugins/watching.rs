//! A conversation along with `pinion plugin watch`: the next call uses the author's saved code.

use super::authors::{author, run, shell};
use pinion_tests::{Pinion, Terminal, call, say, wait_until};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Child;

/// `pinion plugin watch` of the project `word-count`, as a process that ends with the test.
struct Watch {
    child: Child,
    /// The file with its results.
    results: PathBuf,
}

impl Watch {
    fn start(pinion: &Pinion) -> Self {
        let results = pinion.write("../results.jsonl", "");
        let mut watch = shell(pinion, &pinion.workspace(), "exec pinion plugin watch word-count --json");
        Self { child: watch.stdout(File::create(&results).unwrap()).spawn().unwrap(), results }
    }

    /// Waits until the project was built and installed this many times.
    fn wait_for_nth(&self, times: usize) {
        let is_built = |line: &str| {
            let result: Value = serde_json::from_str(line).unwrap_or_default();
            assert!(result["error"].is_null(), "{result}");
            result["name"] == "word-count"
        };
        wait_until("the project was installed", || {
            let results = fs::read_to_string(&self.results).unwrap();
            results.lines().filter(|line| is_built(line)).count() >= times
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It runs until then, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn conversation_calls_what_was_saved_last() {
    let pinion = author();
    pinion.write("a.txt", "one two three");
    // The first build compiles the dependencies.
    for command in [&["new", "word-count"][..], &["build", "word-count"]] {
        assert_eq!(run(&pinion, ["plugin"].iter().chain(command)).code, Some(0), "{command:?}");
    }
    let watch = Watch::start(&pinion);
    watch.wait_for_nth(1);
    assert_eq!(run(&pinion, ["plugin", "grant", "word-count", "files=read"]).code, Some(0));

    let count = || call("word_count", json!({ "path": "a.txt" }));
    let script = pinion.script(&[count(), say("counted"), count(), say("counted again")]);
    let command = pinion.command(["--approve", "all", "--replay", script.to_str().unwrap()]);
    let mut conversation = Terminal::start(&command, (80, 24), "");
    conversation.wait_for("› ");
    conversation.keys("count\r");
    conversation.wait_for_then("counted", "› ");
    let source = fs::read_to_string(pinion.workspace().join("word-count/src/lib.rs")).unwrap();
    pinion.write("word-count/src/lib.rs", source.replace("{} words", "{} words in it"));
    watch.wait_for_nth(2);
    conversation.keys("count again\r");
    conversation.wait_for_then("counted again", "› ");
    let (code, seen) = conversation.exit();
    assert_eq!(code, Some(0), "{seen}");

    let id = run(&pinion, ["session", "list"]).stdout.chars().take(8).collect::<String>();
    let session = run(&pinion, ["session", "export", &id, "--format", "markdown"]).stdout;
    let at = |text: &str| session.find(text).unwrap_or_else(|| panic!("`{text}` is not in:\n{session}\n{seen}"));
    assert!(at("3 words\n") < at("3 words in it\n"), "{session}");
}
