//! `pinion plugin replay`: repeats the calls of a session offline, from its journal.

use pinion_app::failure::{Failure, Result};
use pinion_app::options::RunOptions;
use pinion_app::plugins::builtin::{BUILT_IN, BuiltIn};
use pinion_app::plugins::sources::Purpose;
use pinion_app::run::journal::directory_of;
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, print, result, text, written};
use pinion_journal::difference::ReplayVerdict;
use pinion_journal::event::{CallRecord, InstanceStart, JournalEvent};
use pinion_journal::reader::{journal_files, read_journal};
use pinion_plugin_journal::replay::{CallReplayer, ReplaySettings, ReplayableComponent};
use pinion_plugin_runtime::{LoadError, PluginSource, without_links};
use pinion_session_store::SessionDirectory;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The differences to print.
const MAX_SHOWN: usize = 20;

/// The result of a replay.
#[derive(Debug, Default, Serialize)]
struct ReplayReport {
    calls: usize,
    same: usize,
    differ: usize,
    skipped: usize,
    differences: Vec<ReportedCall>,
    skips: Vec<ReportedCall>,
}

/// A call that differs or was skipped.
#[derive(Debug, Serialize)]
struct ReportedCall {
    /// Its number in the session, from 1.
    call: usize,
    plugin: String,
    export: String,
    arguments: Vec<String>,
    reason: String,
}

/// A recorded instance with its calls and their numbers.
pub(crate) struct RecordedInstance {
    pub(crate) start: InstanceStart,
    pub(crate) calls: Vec<(usize, CallRecord)>,
}

pub(crate) async fn run(base: &Base, session: &str, with: Option<&Path>, as_json: bool) -> Result<()> {
    let bundle = Some(base.workspace.join(session)).filter(|directory| directory.is_dir());
    let instances = recorded(base, session, bundle.as_deref())?;
    let replacement = with.map(|file| replacement(base, file)).transpose()?;
    let mut components = Components::new(base, bundle.as_deref())?;
    let mut report = ReplayReport::default();
    for instance in &instances {
        if replacement.as_ref().is_some_and(|new| new.name != instance.start.plugin) {
            continue;
        }
        replay_instance(&mut components, replacement.as_ref(), instance, &mut report).await?;
    }
    if report.calls == 0 {
        return Err(match &replacement {
            Some(new) => Failure::usage(format!("the session has no recorded call of the plugin `{}`", new.name)),
            None => Failure::usage("the journal has no calls"),
        });
    }
    report.differences.sort_by_key(|call| call.call);
    report.skips.sort_by_key(|call| call.call);
    if as_json {
        written(result(&report))?
    } else {
        print(&described(&report))?
    }
    match (report.differ, report.skipped) {
        (0, 0) => Ok(()),
        (0, skipped) => Err(Failure::failed(format!("{skipped} of {} calls could not be replayed", report.calls))),
        (differ, _) => Err(Failure::failed(format!("{differ} of {} calls differ", report.calls))),
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::failed("the session cannot be replayed").because(error)
}

/// Returns the journals in a directory.
///
/// # Errors
/// The directory cannot be read, or has no journal.
pub(crate) fn recorded_files(directory: &Path, session: &str) -> Result<Vec<PathBuf>> {
    let files = journal_files(directory).map_err(failed)?;
    if files.is_empty() {
        let failure = Failure::usage(format!("the session `{session}` has no journal"));
        return Err(failure.hint("record the calls of later sessions: pinion config set journal on"));
    }
    Ok(files)
}

/// Reads all journals of a session or a report.
fn recorded(base: &Base, session: &str, bundle: Option<&Path>) -> Result<Vec<RecordedInstance>> {
    let directory = match bundle {
        Some(bundle) => bundle.join("journal"),
        None if session.ends_with(".jsonl") => directory_of(&base.workspace.join(session)),
        None => directory_of(&SessionDirectory::new(base.paths.sessions()).find(session).map_err(Failure::from)?),
    };
    recorded_instances(recorded_files(&directory, session)?)
}

/// Reads the instances in journals, with their calls.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn recorded_instances(files: Vec<PathBuf>) -> Result<Vec<RecordedInstance>> {
    let (mut instances, mut number) = (Vec::new(), 0);
    for file in files {
        // Each file is from another process, which numbers its instances separately.
        let mut of_file: BTreeMap<u64, RecordedInstance> = BTreeMap::new();
        for event in read_journal(&file).map_err(failed)? {
            match event {
                JournalEvent::Instance(start) => {
                    of_file.insert(start.instance, RecordedInstance { start, calls: Vec::new() });
                }
                JournalEvent::Call(call) => {
                    number += 1;
                    if let Some(instance) = of_file.get_mut(&call.instance) {
                        instance.calls.push((number, call));
                    }
                }
                JournalEvent::Full => {}
            }
        }
        instances.extend(of_file.into_values());
    }
    Ok(instances)
}

/// The component that takes the place of a recorded one.
struct Replacement {
    name: String,
    digest: String,
    source: PluginSource,
}

fn replacement(base: &Base, file: &Path) -> Result<Replacement> {
    let source = PluginSource::file(without_links(&base.workspace.join(file)));
    let (inspection, digest) = source.inspect().map_err(unreadable)?;
    Ok(Replacement { name: inspection.manifest.name.clone(), digest, source })
}

pub(crate) fn unreadable(error: LoadError) -> Failure {
    Failure::failed("could not read the component").because(error)
}

/// Returns the installed components and the components of a report, by their digests. Leaves out files that are no
/// plugins.
pub(crate) fn installed(base: &Base, bundle: Option<&Path>) -> HashMap<String, PluginSource> {
    let sources = base.sources(&RunOptions::default(), Purpose::Conversation).into_iter();
    let built_in = BUILT_IN.iter().map(BuiltIn::source);
    let directory = bundle.and_then(|bundle| bundle.join("components").read_dir().ok());
    let included = directory.into_iter().flatten().flatten().map(|entry| PluginSource::file(entry.path()));
    let known = included.chain(sources).chain(built_in).filter_map(|source| Some((source.inspect().ok()?.1, source)));
    known.collect()
}

/// The components that have been compiled.
pub(crate) struct Components {
    pub(crate) replayer: Arc<CallReplayer>,
    installed: HashMap<String, PluginSource>,
    loaded: HashMap<String, ReplayableComponent>,
}

impl Components {
    /// Finds the installed components and the components of a report.
    ///
    /// # Errors
    /// The engine does not start.
    pub(crate) fn new(base: &Base, bundle: Option<&Path>) -> Result<Self> {
        let replayer = Arc::new(CallReplayer::start().map_err(failed)?);
        Ok(Self { replayer, installed: installed(base, bundle), loaded: HashMap::new() })
    }

    /// Returns the component of a digest; `None` if it is not installed.
    ///
    /// # Errors
    /// It cannot be read or compiled.
    pub(crate) fn find(&mut self, digest: &str, source: Option<&PluginSource>) -> Result<Option<&ReplayableComponent>> {
        if !self.loaded.contains_key(digest) {
            let Some(source) = source.or_else(|| self.installed.get(digest)) else { return Ok(None) };
            let bytes = source.bytes().map_err(unreadable)?;
            let component = self.replayer.load(&bytes).map_err(failed)?;
            self.loaded.insert(digest.to_owned(), component);
        }
        Ok(self.loaded.get(digest))
    }
}

async fn replay_instance(
    components: &mut Components,
    replacement: Option<&Replacement>,
    instance: &RecordedInstance,
    report: &mut ReplayReport,
) -> Result<()> {
    let start = &instance.start;
    let digest = replacement.map_or(&start.component, |new| &new.digest);
    let replayer = components.replayer.clone();
    let component = components.find(digest, replacement.map(|new| &new.source))?;
    let calls: Vec<&CallRecord> = instance.calls.iter().map(|(_, call)| call).collect();
    let verdicts = match component {
        Some(component) => {
            let settings =
                ReplaySettings { memory_limit: start.memory_limit, compares_fuel: *digest == start.component };
            replayer.replay(component, &calls, settings).await
        }
        None => {
            let reason = format!("the component {} is not installed any more", digest.get(..12).unwrap_or(digest));
            vec![ReplayVerdict::Skipped(reason); calls.len()]
        }
    };
    for ((number, call), verdict) in instance.calls.iter().zip(verdicts) {
        report.calls += 1;
        let reported = |reason: String| ReportedCall {
            call: *number,
            plugin: start.plugin.clone(),
            export: call.export.clone(),
            arguments: component.map(|component| replayer.arguments(component, call)).unwrap_or_default(),
            reason,
        };
        match verdict {
            ReplayVerdict::Same => report.same += 1,
            ReplayVerdict::Differs(difference) => {
                report.differ += 1;
                report.differences.push(reported(difference.to_string()));
            }
            ReplayVerdict::Skipped(reason) => {
                report.skipped += 1;
                report.skips.push(reported(reason));
            }
        }
    }
    Ok(())
}

fn described(report: &ReplayReport) -> Text {
    let mut out = Text::default();
    let ReplayReport { calls, same, differ, skipped, .. } = report;
    out.line(text!("{} calls: {} the same, {} differ, {} skipped", calls, same, differ, skipped));
    for call in report.differences.iter().chain(&report.skips).take(MAX_SHOWN) {
        let arguments = call.arguments.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(", ");
        out.line(text!("call {}: {} {}({})", call.call, call.plugin, call.export, arguments));
        for line in call.reason.lines() {
            out.line(text!("  {}", line));
        }
    }
    out
}
