//! A call never exceeds the effects that its tool declares, on any instance.
//!
//! The guest `lingering` lives as long as the session and reuses in one call the files that it opened in another. Its
//! tools run the same script under different declarations.

use super::steps::{done, refused, run};
use pinion_agent::Authority;
use pinion_plugin_runtime::{FileAccess, PartialLimits};
use pinion_tests::{Sandbox, SandboxBuilder};
use serde_json::{Value, json};

async fn lingering() -> Sandbox {
    let sandbox = Sandbox::with(&["lingering"]).await;
    sandbox.write("a.txt", "first");
    sandbox.write("sub/b.txt", "second");
    sandbox
}

fn script(steps: &[&[&str]]) -> Value {
    json!({ "steps": steps })
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_of_a_writing_call_do_not_stay_writable() {
    let sandbox = lingering().await;
    done(&sandbox, "l_change", &[&["write", "a.txt", "changed"]]).await;
    let steps: &[&[&str]] = &[
        &["write", "a.txt", "again"],
        &["create", "new.txt"],
        &["truncate", "a.txt"],
        &["mkdir", "new"],
        &["rename", "a.txt", "c.txt"],
        &["remove", "a.txt"],
        &["link", "a.txt", "c.txt"],
        &["symlink", "a.txt", "c.txt"],
        &["touch", "a.txt"],
        &["replace", "a.txt", "again"],
        &["shell", "echo hi"],
    ];
    refused(&sandbox, "l_look", steps).await;
    refused(&sandbox, "l_blind", steps).await;
    assert_eq!(sandbox.read("a.txt"), "changed");
    assert_eq!(done(&sandbox, "l_look", &[&["read", "a.txt"]]).await, ["changed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_without_effects_reads_nothing_after_a_reading_tool() {
    let sandbox = lingering().await;
    done(&sandbox, "l_look", &[&["read", "a.txt"], &["list", "."]]).await;
    let steps: &[&[&str]] = &[
        &["read", "a.txt"],
        &["list", "."],
        &["stat", "a.txt"],
        &["walk", "."],
        &["search", "."],
        &["readlink", "a.txt"],
    ];
    refused(&sandbox, "l_blind", steps).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_call_without_authority_does_not_limit_later_calls() {
    let sandbox = lingering().await;
    refused(&sandbox, "l_blind", &[&["read", "a.txt"]]).await;
    assert_eq!(done(&sandbox, "l_look", &[&["read", "a.txt"]]).await, ["first"]);
    done(&sandbox, "l_change", &[&["write", "a.txt", "changed"]]).await;
    assert_eq!(sandbox.read("a.txt"), "changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_do_not_stay_open_after_their_call() {
    let sandbox = lingering().await;
    done(&sandbox, "l_change", &[&["hold-write", "a.txt"], &["held-read"]]).await;
    let steps: &[&[&str]] = &[&["held-write", "again"], &["held-truncate"], &["held-read"]];
    for tool in ["l_look", "l_blind", "l_change"] {
        refused(&sandbox, tool, steps).await;
    }
    assert_eq!(sandbox.read("a.txt"), "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_opened_in_a_call_do_not_stay_open() {
    let sandbox = lingering().await;
    done(&sandbox, "l_change", &[&["hold-directory", "sub"], &["at-read", "b.txt"], &["at-write", "b.txt", "newest"]])
        .await;
    assert_eq!(sandbox.read("sub/b.txt"), "newest");
    let steps: &[&[&str]] =
        &[&["at-read", "b.txt"], &["at-write", "b.txt", "again"], &["at-mkdir", "x"], &["at-unlink", "b.txt"]];
    for tool in ["l_blind", "l_look", "l_change"] {
        refused(&sandbox, tool, steps).await;
    }
    assert_eq!(sandbox.read("sub/b.txt"), "newest");
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_streams_end_with_their_call() {
    let sandbox = lingering().await;
    for number in 0..2000 {
        sandbox.write(&format!("many/file-{number}"), "");
    }
    done(&sandbox, "l_look", &[&["hold-entries", "many"]]).await;
    let line = run(&sandbox, "l_blind", &[&["held-entries"]]).await.remove(0);
    assert!(!line.contains("file-"), "{line}");
}

/// The guest drops ended handles later. Neither that nor new handles in their place may harm it or revive the old ones.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_ended_handles_is_harmless() {
    let sandbox = lingering().await;
    let hold: &[&[&str]] = &[&["hold-write", "a.txt"], &["hold-directory", "sub"], &["hold-entries", "."]];
    for _ in 0..3 {
        done(&sandbox, "l_change", hold).await;
        done(&sandbox, "l_look", &[&["print", "still here"], &["drop"], &["read", "a.txt"], &["print", "and here"]])
            .await;
    }
}

/// An ended handle must not come back to life when another one gets its number.
#[tokio::test(flavor = "multi_thread")]
async fn ended_handles_are_not_revived_by_new_ones() {
    let sandbox = lingering().await;
    done(&sandbox, "l_change", &[&["hold-write", "a.txt"]]).await;
    let lines =
        run(&sandbox, "l_change", &[&["hold-many", "sub/b.txt", "50"], &["held-write", "x"], &["held-read"]]).await;
    assert!(lines[1].starts_with("err") && lines[2].starts_with("err"), "{lines:?}");
    assert_eq!(sandbox.read("sub/b.txt"), "second");
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_caller_stays_read_only_on_a_used_instance() {
    let sandbox = lingering().await;
    done(&sandbox, "l_change", &[&["hold-write", "a.txt"], &["write", "a.txt", "changed"]]).await;
    let write = script(&[&["write", "a.txt", "again"], &["held-write", "again"]]);
    for at_most in [Authority::default(), Authority::READ_ONLY] {
        let said = sandbox.call_at_most(at_most, "l_change", write.clone()).await;
        assert!(said.lines().all(|line| line.starts_with("err")), "{said}");
    }
    let seen = sandbox.call_at_most(Authority::default(), "l_change", script(&[&["read", "a.txt"]])).await;
    assert!(seen.starts_with("err"), "{seen}");
    assert_eq!(sandbox.read("a.txt"), "changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_grant_is_never_written_on_a_used_instance() {
    let sandbox = SandboxBuilder::default().guest("lingering").files("lingering", ".", FileAccess::Read).build().await;
    sandbox.write("a.txt", "first");
    done(&sandbox, "l_change", &[&["read", "a.txt"], &["hold", "a.txt"]]).await;
    let steps: &[&[&str]] =
        &[&["write", "a.txt", "x"], &["touch", "a.txt"], &["held-truncate"], &["rename", "a.txt", "b"]];
    refused(&sandbox, "l_change", steps).await;
    assert_eq!(sandbox.read("a.txt"), "first");
}

/// The same holds on fresh instances, for every operation.
#[tokio::test(flavor = "multi_thread")]
async fn no_operation_writes_in_a_read_only_call() {
    let sandbox = Sandbox::with(&["intruder"]).await;
    sandbox.write("a.txt", "first");
    sandbox.write("dir/b.txt", "x");
    let steps: &[&[&str]] = &[
        &["write", "a.txt", "x"],
        &["append", "a.txt", "x"],
        &["truncate", "a.txt"],
        &["create", "new"],
        &["touch", "a.txt"],
        &["touch", "dir"],
        &["touch", "."],
        &["mkdir", "new"],
        &["rmdir", "dir"],
        &["remove", "a.txt"],
        &["rename", "a.txt", "b"],
        &["link", "a.txt", "b"],
        &["symlink", "a.txt", "b"],
        &["replace", "a.txt", "x"],
    ];
    refused(&sandbox, "look", steps).await;
    let held: &[&[&str]] =
        &[&["hold-directory", "dir"], &["at-write", "b.txt", "x"], &["at-mkdir", "c"], &["at-unlink", "b.txt"]];
    let lines = run(&sandbox, "look", held).await;
    assert!(lines[1..].iter().all(|line| line.starts_with("err")), "{lines:?}");
    assert_eq!((sandbox.read("a.txt"), sandbox.read("dir/b.txt")), ("first".to_owned(), "x".to_owned()));
}

/// One call holds as many files as it can; another plugin's calls and programs still work.
#[tokio::test(flavor = "multi_thread")]
async fn one_plugin_cannot_exhaust_descriptors() {
    let handles = PartialLimits { handles: Some(100_000), ..PartialLimits::default() };
    let guests = SandboxBuilder::default().guest("lingering").trust("lingering").guest("intruder").trust("intruder");
    let sandbox = guests.limits("intruder", handles).build().await;
    sandbox.write("a.txt", "first");
    let lines = run(&sandbox, "look", &[&["hold-all", "a.txt"], &["read", "a.txt"], &["drop"]]).await;
    assert!(lines[0].starts_with("ok") && lines[1].starts_with("err"), "{lines:?}");
    // It returned everything.
    assert_eq!(done(&sandbox, "look", &[&["hold-many", "a.txt", "10"]]).await, ["10"]);
    // An instance that stays has returned everything as well, although it never dropped it.
    for _ in 0..3 {
        let lines = run(&sandbox, "l_look", &[&["hold-many", "a.txt", "500"]]).await;
        assert!(lines[0].starts_with("ok"), "{lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_streams_of_a_call_are_bounded_together() {
    let sandbox = Sandbox::with(&["intruder"]).await;
    for number in 0..5000 {
        sandbox.write(&format!("many/file-{number}"), "");
    }
    let lines = run(&sandbox, "look", &[&["hold-lists", "many", "100"], &["drop"], &["list", "many"]]).await;
    assert!(lines[0].starts_with("err") && lines[2].starts_with("ok"), "{:.200}", lines.join("\n"));
}
