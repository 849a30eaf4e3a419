//! Programs of a host that is killed.

use super::{call, scripted};
use pinion_tests::{Pinion, until_gone};
use serde_json::json;

fn number(pinion: &Pinion, file: &str) -> i32 {
    let path = pinion.workspace().join(file);
    let read = || std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
    pinion_tests::wait_until("the program has started", || read().is_some());
    read().unwrap()
}

#[tokio::test]
async fn programs_do_not_outlive_a_killed_host() {
    let pinion = Pinion::default();
    // A pipeline, a background process, and one that forked twice.
    let command =
        "(sleep 1000 & echo $! > twice) & sleep 1000 & echo $! > background; echo $$ > shell; sleep 1000 | cat";
    let mut child =
        scripted(&pinion, &[call("bash", json!({ "command": command }))], &["--approve", "all"]).spawn().unwrap();
    let programs = ["shell", "background", "twice"].map(|file| number(&pinion, file));
    // SIGKILL, which the host cannot handle.
    child.kill().unwrap();
    child.wait().unwrap();
    for program in programs {
        until_gone(program).await;
    }
}
