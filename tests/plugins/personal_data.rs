//! The example that removes personal data, through hooks of two packages.

use pinion_agent::Content;
use pinion_agent::hook::{CallOutcome, HookedCall, HookedRun, PluginHooks as _};
use pinion_tests::{SandboxBuilder, example};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Returns the example with the manifest that `pinion plugin build` adds.
fn packed(directory: &Path) -> PathBuf {
    let manifest = json!({
        "manifest": 1, "api": "0.1.0", "name": "personal-data", "version": "0.1.0", "capabilities": { "hooks": true },
    });
    let name = b"pinion:manifest";
    let section = [&[name.len() as u8], &name[..], manifest.to_string().as_bytes()].concat();
    let length = u8::try_from(section.len()).unwrap();
    assert!(length < 0x80, "one byte has the length");
    let component = [fs::read(example("personal_data")).unwrap(), vec![0, length], section].concat();
    let file = directory.join("personal-data.wasm");
    fs::write(&file, component).unwrap();
    file
}

#[tokio::test]
async fn example_removes_addresses_and_numbers_from_replies_and_results() {
    let directory = tempfile::tempdir().unwrap();
    let builder = SandboxBuilder::default().file(packed(directory.path())).hooks("personal-data");
    let sandbox = builder.guest("echo").trust("echo").build().await;
    assert_eq!(sandbox.runtime.problems(), []);
    let (run, token) = (HookedRun { session_id: "s", run_id: "r", depth: 0 }, CancellationToken::new());
    for (text, expected) in [
        ("Write to ada.l+x@mail.example.com.", Some("Write to [e-mail address].")),
        ("Call +49 (30) 123-4567 or 030/1234567 89, now", Some("Call [phone number] or [phone number], now")),
        ("On 2026-11-28 15:33 build 1234567890 of v0.1.0 took 0.123 s; see a@b, @ada and id0123456789", None),
    ] {
        let revised = sandbox.runtime.after_reply(run, vec![text.to_owned()], &token).await.texts;
        assert_eq!(revised, expected.map(|expected| vec![expected.to_owned()]), "{text}");
    }
    let tool = sandbox.tool("echo");
    let call = HookedCall { call_id: "c", session_id: "s", tool: &tool, arguments: &json!({}), depth: 0 };
    let outcome = CallOutcome {
        content: vec![Content::text("from: bob@example.org")],
        details: Some(json!({ "from": "bob@example.org" })),
        display: pinion_agent::tool::Display::Plain,
        failure: None,
    };
    let revised = sandbox.runtime.after_call(call, outcome, &token).await.outcome.unwrap();
    assert_eq!((revised.content, revised.details), (vec![Content::text("from: [e-mail address]")], None));
}
