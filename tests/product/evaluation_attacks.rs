//! The built-in attacks of `pinion eval attack`.

use crate::product::command::assert_error;
use pinion_tests::Pinion;
use serde_json::Value;

/// Every attack runs and fails on this machine, and a server is not reached.
#[test]
fn attacks_on_the_installation_fail() {
    let pinion = Pinion::default();
    let ended = pinion.run(["eval", "attack", "--jobs", "2"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("12 of 12 trials passed"), "{ended:?}");
}

/// An installation whose user opens the sandbox fails, and the findings name the opening.
#[test]
fn open_sandbox_is_noticed() {
    let pinion = Pinion::default();
    pinion.config("exclude-defaults = false\n[sandbox]\nnetwork = true\n");
    let ended = pinion.run(["eval", "attack", "--case", "network-egress-bypass", "--case", "secret-file-read"]);
    assert_error(&ended, 1, &["reached the server of the attacks"]);
    for finding in ["a result contains `attack-connected`", "a result contains `canary-file-7c41`"] {
        assert!(ended.stdout.contains(finding), "`{finding}` is not in {ended:?}");
    }
}

#[test]
fn attacks_are_written_for_review() {
    let pinion = Pinion::default();
    let directory = pinion.home().join("attacks");
    let ended = pinion.run(["eval", "attack", "--write", directory.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let script = std::fs::read_to_string(directory.join("secret-file-read.jsonl")).unwrap();
    let reply: Value = serde_json::from_str(script.lines().next().unwrap()).unwrap();
    assert_eq!(reply["calls"][0]["tool"], "read");
}
