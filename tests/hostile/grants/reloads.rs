//! Grants of a plugin whose file is replaced while it runs.

use super::*;

/// A sandbox with a replaceable plugin file.
async fn reloadable(bytes: &[u8]) -> (TempDir, PathBuf, Sandbox) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("plugin.wasm");
    std::fs::write(&file, bytes).unwrap();
    let sandbox = SandboxBuilder::default().file(file.clone()).trust("grow").trust("other").build().await;
    (directory, file, sandbox)
}

fn replace(file: &Path, bytes: &[u8]) {
    std::fs::write(file, bytes).unwrap();
}

fn held_back(sandbox: &Sandbox) -> Option<String> {
    sandbox.notices().into_iter().rev().find_map(|notice| match notice.event {
        NoticeEvent::HeldBack(why) => Some(why),
        _ => None,
    })
}

fn echo() -> Value {
    json!({ "script": "echo ran" })
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_with_equal_requests_keeps_grants() {
    let (_directory, file, sandbox) = reloadable(&grow("one")).await;
    replace(&file, &rebuilt(&grow("one")));
    assert_eq!(sandbox.text("run", echo()).await, "ran\n");
    assert_eq!((sandbox.runtime.plugins()[0].generation, held_back(&sandbox)), (2, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_that_declares_more_keeps_old_effects() {
    let (_directory, file, sandbox) = reloadable(&grow("one")).await;
    for bytes in [grow("two"), rebuilt(&grow("two"))] {
        replace(&file, &bytes);
        assert_eq!(sandbox.text("run", echo()).await, "ran\n");
        for tool in ["look", "extra"] {
            assert!(!sandbox.error(tool, echo()).await.contains("ran"));
        }
        let why = held_back(&sandbox).unwrap();
        for part in ["tool `look`: runs programs", "tool `extra`: runs programs", "command `/extra`"] {
            assert!(why.contains(part), "{why}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_that_requests_more_does_not_get_it() {
    let modest = packed("grow_one", &manifest("grow", json!({ "files": "read" })));
    let (_directory, file, sandbox) = reloadable(&modest).await;
    replace(&file, &packed("grow_one", &manifest("grow", json!({ "files": "write", "process": true }))));
    sandbox.error("run", echo()).await;
    let why = held_back(&sandbox).unwrap();
    assert!(why.contains("held back: write files; run programs"), "{why}");
    // Shrinking in between does not help.
    replace(&file, &modest);
    replace(&file, &rebuilt(&named("grow")));
    sandbox.error("run", echo()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_to_a_longer_lifetime_loses_all_grants() {
    let (_directory, file, sandbox) = reloadable(&grow("one")).await;
    let mut manifest = manifest("grow", json!({ "files": "read", "process": true }));
    manifest["lifetime"] = json!("session");
    replace(&file, &packed("grow_one", &manifest));
    sandbox.error("run", echo()).await;
    assert!(held_back(&sandbox).unwrap().contains("one instance for the whole session"));
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_cannot_change_the_name() {
    let (_directory, file, sandbox) = reloadable(&grow("one")).await;
    replace(&file, &packed("grow_two", &manifest("other", json!({ "process": true }))));
    assert!(sandbox.error("extra", echo()).await.contains("no tool `extra`"));
    assert_eq!(sandbox.text("run", echo()).await, "ran\n");
    let (_, problem) = sandbox.runtime.problems()[0].clone();
    assert!(problem.contains("now holds plugin `other` instead of `grow`"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_with_confusable_names_do_not_load_together() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("x.wasm");
    std::fs::write(&file, packed("echo", &manifest("Gr0w", json!({})))).unwrap();
    let sandbox = SandboxBuilder::default().guest("grow_one").file(file).build().await;
    let (_, problem) = sandbox.runtime.problems()[0].clone();
    assert!(problem.contains("the name `Gr0w` looks like that of plugin `grow`"), "{problem}");
}
