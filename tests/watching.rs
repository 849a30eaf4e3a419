//! A conversation beside `pinion plugin watch`: what an author saves is in the next call.

use super::authors::{author, run, shell};
use pinion_tests::{Terminal, call, say};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

/// `pinion plugin watch` as a process that ends with the test.
struct Watch(Child);

impl Drop for Watch {
    fn drop(&mut self) {
        // It runs until then, or the test has failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn conversation_calls_what_was_saved_last() {
    let pinion = author();
    assert_eq!(run(&pinion, ["plugin", "new", "word-count"]).code, Some(0));
    pinion.write("a.txt", "one two three");
    let mut watch = shell(&pinion, &pinion.workspace(), "exec pinion plugin watch word-count --json");
    let mut watch = Watch(watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut results = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let mut built = || -> Value { serde_json::from_str(&results.next().unwrap().unwrap()).unwrap() };
    assert_eq!(built()["name"], "word-count");
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
    assert_eq!(built()["name"], "word-count");
    conversation.keys("count again\r");
    conversation.wait_for_then("counted again", "› ");
    let (code, seen) = conversation.exit();
    assert_eq!(code, Some(0), "{seen}");

    let id = run(&pinion, ["session", "list"]).stdout.chars().take(8).collect::<String>();
    let session = run(&pinion, ["session", "export", &id, "--format", "markdown"]).stdout;
    let at = |text: &str| session.find(text).unwrap_or_else(|| panic!("`{text}` is not in:\n{session}\n{seen}"));
    assert!(at("3 words\n") < at("3 words in it\n"), "{session}");
}
