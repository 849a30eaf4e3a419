//! Calls of real components are recorded, and repeated without a host.
//!
//! Needs the guests of the tests: `tests/build-guests.sh`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use pinion_journal::difference::{CallDifference, ReplayVerdict};
use pinion_journal::event::{CallRecord, INSTANTIATION, InstanceStart, JournalEvent};
use pinion_journal::reader::{journal_files, read_journal};
use pinion_journal::writer::{JournalMode, JournalWriter};
use pinion_plugin_journal::replay::{CallReplayer, ReplaySettings};
use pinion_plugin_runtime::{
    FileAccess, Grants, HostDirectories, NoInfo, PluginSettings, PluginSource, Runtime, RuntimeConfig,
};
use pinion_protocol::{Authority, Content, ToolExecutor as _, ToolInvocation, ToolProgress};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

fn guest(name: &str) -> PathBuf {
    let directory = std::env::var_os("PINION_GUESTS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/guests/components"),
        PathBuf::from,
    );
    let file = directory.join(format!("{name}.wasm"));
    assert!(file.is_file(), "no `{}`: run `tests/build-guests.sh`", file.display());
    file
}

fn builtin(name: &str) -> PathBuf {
    let directory = std::env::var_os("PINION_DIST")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plugins/dist"), PathBuf::from);
    directory.join(format!("{name}.wasm"))
}

struct Silent;

impl ToolProgress for Silent {
    fn report(&self, _: String) {}
    fn update(&self, _: Vec<Content>) {}
}

/// An instance of the journal with its calls.
struct Recording {
    start: InstanceStart,
    calls: Vec<CallRecord>,
}

/// Makes calls in a fresh workspace and returns their journal. The workspace is gone then.
async fn recorded(files: &[PathBuf], calls: &[(&str, Value)]) -> Vec<Recording> {
    let (workspace, journal) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let writer = Arc::new(JournalWriter::start(JournalMode::On, Box::new(|_| ())).unwrap());
    writer.begin(Some(journal.path()));
    let roots = BTreeMap::from([(workspace.path().to_owned(), FileAccess::Write)]);
    let settings = PluginSettings { grants: Grants { files: roots, ..Grants::default() }, ..PluginSettings::default() };
    let config = RuntimeConfig {
        host: HostDirectories::default(),
        exclusions: Arc::default(),
        workspace: workspace.path().to_owned(),
        cache: None,
        policy: Arc::new(BTreeMap::from(["fs", "echo", "greet"].map(|name| (name.to_owned(), settings.clone())))),
        engine_limits: None,
        compiler: None,
        confinement: None,
        mcp: None,
        info: Arc::new(NoInfo),
        journal: Some(writer.clone()),
    };
    let runtime = Runtime::new(config, |_| {}).unwrap();
    runtime.add(files.iter().map(PluginSource::file).collect::<Vec<_>>()).await;
    assert_eq!(runtime.plugins().len(), files.len(), "{:?}", runtime.problems());
    for (name, arguments) in calls {
        let tool = runtime.definitions().into_iter().find(|offered| offered.name == *name).unwrap();
        let invocation = ToolInvocation {
            call_id: "c".into(),
            session_id: "s".into(),
            run_id: "l".into(),
            tool,
            arguments: arguments.clone(),
            at_most: Authority::ALL,
            agents: None,
            services: None,
            token: CancellationToken::new(),
        };
        // Errors of tools are results, too.
        let _ = runtime.call(invocation, &Silent).await;
    }
    writer.flush();
    let mut recordings: BTreeMap<u64, Recording> = BTreeMap::new();
    for event in read_journal(&journal_files(journal.path()).unwrap()[0]).unwrap() {
        match event {
            JournalEvent::Instance(start) => {
                recordings.insert(start.instance, Recording { start, calls: Vec::new() });
            }
            JournalEvent::Call(call) => recordings.get_mut(&call.instance).unwrap().calls.push(call),
            JournalEvent::Full => panic!("the journal is full"),
        }
    }
    recordings.into_values().collect()
}

/// Repeats the recorded calls of one plugin with a component.
async fn replayed(recordings: &[Recording], plugin: &str, component: &Path) -> Vec<ReplayVerdict> {
    let replayer = CallReplayer::start().unwrap();
    let bytes = std::fs::read(component).unwrap();
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let component = replayer.load(&bytes).unwrap();
    let mut verdicts = Vec::new();
    for recording in recordings.iter().filter(|recording| recording.start.plugin == plugin) {
        let compares_fuel = recording.start.component == digest;
        let settings = ReplaySettings { memory_limit: recording.start.memory_limit, compares_fuel };
        let calls: Vec<&CallRecord> = recording.calls.iter().collect();
        verdicts.extend(replayer.replay(&component, &calls, settings).await);
    }
    verdicts
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_real_components_are_repeated_with_the_same_results_and_fuel() {
    let mut calls = Vec::new();
    for round in 0..25 {
        let file = format!("out/{round}.txt");
        calls.push(("write", json!({ "path": file, "content": format!("line {round}\nsecond\n") })));
        calls.push(("read", json!({ "path": file })));
        calls.push(("edit", json!({ "path": file, "edits": [{ "old_text": "second", "new_text": "third" }] })));
        calls.push(("search", json!({ "pattern": format!("line {round}") })));
        calls.push(("find", json!({ "pattern": "*.txt" })));
        calls.push(("list", json!({ "path": "out" })));
        calls.push(("read", json!({ "path": format!("missing-{round}") })));
        calls.push(("echo", json!({ "message": "x".repeat(round * 100) })));
    }
    let recordings = recorded(&[builtin("fs"), guest("echo")], &calls).await;
    let made = recordings.iter().flat_map(|recording| &recording.calls);
    assert_eq!(made.clone().filter(|call| call.export.ends_with("#call-tool")).count(), calls.len());
    assert!(made.clone().any(|call| call.export == INSTANTIATION));
    assert!(made.clone().any(|call| call.imports.iter().any(|import| import.name.starts_with("wasi:"))));
    assert!(made.clone().any(|call| call.imports.iter().any(|import| import.name.starts_with("pinion:"))));
    for (plugin, component) in [("fs", builtin("fs")), ("echo", guest("echo"))] {
        let verdicts = replayed(&recordings, plugin, &component).await;
        assert!(verdicts.len() >= 25);
        for verdict in verdicts {
            assert_eq!(verdict, ReplayVerdict::Same);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_plain_components_are_repeated_with_the_same_results() {
    let points = json!({ "points": [{ "x": 1, "y": -2, "label": "a" }], "by": [10, -10] });
    let described = json!({ "shape": { "circle": 3 }, "colour": "green", "style": ["bold"] });
    let calls = [
        ("plain_greet", json!({ "name": "Ada" })),
        ("plain_move-by", points),
        ("plain_describe", described),
        ("plain_divide", json!({ "dividend": -7, "divisor": 2 })),
        ("plain_divide", json!({ "dividend": 7, "divisor": 0 })),
        ("plain_checked", json!({ "values": [4, -1.5] })),
        ("plain_crash", json!({})),
        ("cloud_setting", json!({ "name": "url" })),
        ("cloud_keep", json!({ "key": "a", "value": "b" })),
    ];
    let recordings = recorded(&[guest("plain"), guest("cloud")], &calls).await;
    let made: Vec<&CallRecord> = recordings.iter().flat_map(|recording| &recording.calls).collect();
    for export in ["greet", "demo:plain/shapes#move-by", "setting"] {
        assert!(made.iter().any(|call| call.export == export), "{export}: {made:?}");
    }
    for import in ["wasi:config/store#get", "wasi:logging/logging#log", "wasi:keyvalue/store#open"] {
        assert!(made.iter().any(|call| call.imports.iter().any(|made| made.name == import)), "{import}");
    }
    for plugin in ["plain", "cloud"] {
        let verdicts = replayed(&recordings, plugin, &guest(plugin)).await;
        assert!(verdicts.iter().all(|verdict| *verdict == ReplayVerdict::Same), "{plugin}: {verdicts:?}");
    }
    let replayer = CallReplayer::start().unwrap();
    let component = replayer.load(&std::fs::read(guest("plain")).unwrap()).unwrap();
    let greeted = made.iter().find(|call| call.export == "greet").unwrap();
    assert_eq!(replayer.arguments(&component, greeted), [r#""Ada""#]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_component_differs_in_its_result() {
    let recordings = recorded(&[guest("greet_one")], &[("greet", json!({}))]).await;
    let same = replayed(&recordings, "greet", &guest("greet_one")).await;
    assert!(same.iter().all(|verdict| *verdict == ReplayVerdict::Same), "{same:?}");
    let differing = replayed(&recordings, "greet", &guest("greet_two")).await;
    let mut results = differing.iter().filter_map(|verdict| match verdict {
        ReplayVerdict::Differs(CallDifference::Outcome { recorded, repeated }) => Some((recorded, repeated)),
        _ => None,
    });
    let (recorded, repeated) = results.next_back().unwrap();
    assert!(recorded.contains("version one") && repeated.contains("version two"), "{recorded}\n{repeated}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_import_is_named_with_both_calls() {
    let mut recordings = recorded(&[builtin("fs")], &[("read", json!({ "path": "missing" }))]).await;
    let import = recordings.iter_mut().flat_map(|recording| &mut recording.calls).find_map(|call| {
        let is_tool = call.export.ends_with("#call-tool");
        call.imports.iter_mut().find(|import| is_tool && import.name.starts_with("pinion:"))
    });
    let import = import.unwrap();
    let now = import.name.clone();
    import.name.push_str("-before");
    let before = import.name.clone();
    let verdicts = replayed(&recordings, "fs", &builtin("fs")).await;
    let named = verdicts.iter().find_map(|verdict| match verdict {
        ReplayVerdict::Differs(CallDifference::Import { recorded, repeated, .. }) => Some((recorded, repeated)),
        _ => None,
    });
    let (recorded, repeated) = named.unwrap();
    assert_eq!(recorded.as_deref(), Some(before.as_str()));
    assert!(repeated.as_ref().unwrap().starts_with(&format!("{now}(")), "{repeated:?}");
}
