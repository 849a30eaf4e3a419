//! The state that an instance hands to its successor: for all acts of the plugin while it saves or restores it, the
//! host and the others are served, and the plugin starts without the state at worst.

use pinion_plugin_runtime::{FileAccess, PartialLimits, PluginSource};
use pinion_tests::{Sandbox, SandboxBuilder, guest};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A file of the guest `heir`, and a sandbox that has loaded it with access to the workspace.
struct Heir {
    directory: TempDir,
    sandbox: Sandbox,
}

impl Heir {
    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("heir.wasm");
        fs::copy(guest("heir"), &file).unwrap();
        let limits = PartialLimits { fuel: Some(500_000_000), ..PartialLimits::default() };
        let builder = SandboxBuilder::default().file(file).files("heir", ".", FileAccess::Write).limits("heir", limits);
        let sandbox = builder.with_file("workspace/secret.txt", "secret").watched().build().await;
        Self { directory, sandbox }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("heir.wasm")
    }

    /// Gives the instance a state.
    async fn bequeath(&self, state: &str) {
        assert_eq!(self.sandbox.text("bequeath", json!({ "state": state })).await, "set");
    }

    /// Tries the attacks of saving and restoring with a call.
    async fn reaches(&self) -> String {
        let reached = self.sandbox.text("reach", json!({ "state": self.sandbox.workspace() })).await;
        let _ = fs::remove_file(self.sandbox.workspace().join("written.txt"));
        reached
    }

    async fn inherited(&self) -> String {
        self.sandbox.text("inherit", json!({})).await
    }

    /// Returns the state of the successor of an instance with this state.
    async fn inherits(&self, state: &str) -> String {
        self.bequeath(state).await;
        change(&self.file());
        let inherited = self.inherited().await;
        assert_eq!(self.generation(), 2);
        inherited
    }

    fn generation(&self) -> u32 {
        self.sandbox.runtime.plugins().iter().find(|plugin| plugin.name == "heir").unwrap().generation
    }
}

/// Makes another file with the same code: an empty custom section follows.
fn change(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    bytes.extend([0, 2, 1, b'x']);
    fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn state_of_more_than_a_mebibyte_is_dropped() {
    let most = Heir::new().await.inherits("save as much as possible").await;
    assert_eq!(most.len(), 1 << 20);
    assert_eq!(Heir::new().await.inherits("save too much").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn trap_while_saving_leaves_no_state() {
    assert_eq!(Heir::new().await.inherits("save and trap").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn saving_without_end_is_stopped() {
    assert_eq!(Heir::new().await.inherits("save forever").await, "");
}

/// Saving is a step of the load, and has its limits.
#[tokio::test(flavor = "multi_thread")]
async fn saving_may_take_more_fuel_than_a_call() {
    assert_eq!(Heir::new().await.inherits("save after work").await, "save after work");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_state_is_left_behind() {
    let heir = Heir::new().await;
    assert_eq!(heir.inherits("restore and fail").await, "");
    heir.bequeath("mine").await;
    assert_eq!(heir.inherited().await, "mine");
}

/// The call that needed the instance fails, and the next one gets an instance without the state.
#[tokio::test(flavor = "multi_thread")]
async fn state_that_breaks_its_heir_is_given_to_no_other_instance() {
    for (state, said) in [("restore and trap", "trapped: "), ("restore forever", "ran out of fuel")] {
        let heir = Heir::new().await;
        heir.bequeath(state).await;
        change(&heir.file());
        let error = heir.sandbox.error("inherit", json!({})).await;
        assert!(error.contains("plugin `heir`") && error.contains(said), "{error}");
        assert_eq!((heir.inherited().await.as_str(), heir.generation()), ("", 2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn saving_and_restoring_have_no_authority() {
    for attack in ["save and reach", "restore and reach"] {
        let heir = Heir::new().await;
        heir.bequeath(&format!("{attack}:{}", heir.sandbox.workspace().display())).await;
        assert_eq!(heir.reaches().await, "secret, written", "calls have it");
        change(&heir.file());
        // The call that needs the new instance has it, too, but not the code that runs before it.
        assert_eq!(heir.reaches().await, "secret, written", "{attack}");
        assert_eq!(heir.generation(), 2);
        assert_eq!(heir.inherited().await, "no secret, not written", "{attack}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn state_goes_to_no_plugin_of_another_name() {
    let heir = Heir::new().await;
    heir.bequeath("mine").await;
    fs::copy(guest("counter"), heir.file()).unwrap();
    assert_eq!(heir.inherited().await, "mine", "the loaded plugin stays");
    assert_eq!(heir.generation(), 1);
    assert!(!heir.sandbox.runtime.has_plugin("counter"));
}

#[tokio::test(flavor = "multi_thread")]
async fn state_goes_to_no_other_file_of_the_same_name() {
    let heir = Heir::new().await;
    heir.bequeath("mine").await;
    let other = heir.directory.path().join("other.wasm");
    fs::copy(guest("heir"), &other).unwrap();
    change(&other);
    heir.sandbox.runtime.add(vec![PluginSource::file(other)]).await;
    let problems = heir.sandbox.runtime.problems();
    assert!(problems.iter().any(|(_, problem)| problem.contains("`heir` is already there")), "{problems:?}");
    assert_eq!((heir.inherited().await.as_str(), heir.generation()), ("mine", 1));
}
