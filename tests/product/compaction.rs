//! Compaction on request: pinned words, the comparison with the conversation before, and its undoing.

use pinion_tests::{Pinion, Terminal, say};

#[test]
fn pinned_words_survive_a_compaction_that_can_be_shown_and_undone() {
    let pinion = Pinion::default();
    let replies = ["first answer", "second answer", "They talked.", "third answer"].map(say);
    let script = pinion.script(&replies);
    let command = pinion.default_command(["--ui", "line", "--approve", "all", "--replay", script.to_str().unwrap()]);
    let mut terminal = Terminal::start(&command, (100, 40), "");
    terminal.wait_for("› ");
    let mut enter = |line: &str, shown: &str| {
        terminal.keys(&format!("{line}\r"));
        terminal.wait_for_then(shown, "› ");
    };
    enter("/compact --show", "was not compacted");
    enter("first question", "first answer");
    enter("/pin Never  touch `main`.", "every compaction keeps it");
    enter("second question", "second answer");
    enter("/compact", "They talked.");
    enter("/compact --show", "undoes it until the next message");
    enter("/compact --undo", "undid the last compaction");
    enter("third question", "third answer");
    let (status, seen) = terminal.exit();
    assert_eq!(status, Some(0), "{seen}");
    assert!(seen.contains("Never  touch `main`."), "{seen}");
}
