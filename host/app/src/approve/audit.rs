//! The audit log: every decision about a call, the resources of each call, starts of other programs, files that were
//! moved away from protected paths, and changes of trust and network, as JSON lines.
//!
//! The file is private and bounded: beyond `MAX_BYTES` it becomes `audit.1.jsonl`, in place of the one before. Secrets
//! are redacted. A log that cannot be written delays and prevents nothing.

use crate::files::private::{check, create_directory, lock, open_file};
use pinion_agent::futures_util::future::BoxFuture;
use pinion_agent::secrets::Secrets;
use pinion_agent::tool::{ToolInvocation, ToolProgress, ToolReply};
use pinion_agent::{ToolDefinition, ToolExecutor};
use pinion_files::open::open_unlinked;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of the log before a new one begins.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Maximum characters of the arguments of a call in the log; of longer ones, half of it from each end.
const MAX_ARGUMENTS: usize = 2_000;
/// Maximum bytes of a line that is read back.
const MAX_LINE: usize = 64 * 1024;

/// Handle to the log.
pub struct Audit {
    path: PathBuf,
    secrets: Secrets,
    file: Mutex<Option<File>>,
}

impl Audit {
    /// Creates a handle; the file begins with the first entry.
    pub fn new(path: PathBuf, secrets: Secrets) -> Self {
        Self { path, secrets, file: Mutex::default() }
    }

    /// Adds an entry with the present time.
    pub fn add(&self, mut entry: Value) {
        entry["time"] = json!(jiff::Timestamp::now().to_string());
        let line = self.secrets.clean(&entry.to_string()).into_owned() + "\n";
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.append(&mut file, line.as_bytes()) {
            tracing::warn!(path = %self.path.display(), %error, "could not write the audit log");
            *file = None;
        }
    }

    /// Adds a change that the user made to trust or to the network.
    pub fn changed(&self, what: &str, to: &str) {
        self.add(json!({ "time": null, "event": "change", "what": what, "to": to }));
    }

    /// Adds the start of a program that no call starts, or the reason why it did not start. `grants` lists its
    /// permissions.
    pub fn started(&self, what: &str, command: &Value, grants: &Value, refused: Option<&str>) {
        self.add(json!({
            "time": null, "event": "start", "what": what, "command": self.arguments(command), "grants": grants,
            "allowed": refused.is_none(), "why": refused,
        }));
    }

    /// Adds a finding at a protected path after a program, named by `by`, had ended.
    pub fn protected(&self, by: &str, what: &str) {
        self.add(json!({ "time": null, "event": "protected", "by": by, "what": what }));
    }

    fn append(&self, file: &mut Option<File>, line: &[u8]) -> io::Result<()> {
        let is_gone = file.as_ref().is_some_and(|file| !is_same(file, &self.path));
        if is_gone || file.is_none() {
            *file = Some(open(&self.path)?);
        }
        if file.as_ref().map(File::metadata).transpose()?.is_some_and(|metadata| metadata.len() >= MAX_BYTES) {
            self.rotate()?;
            *file = Some(open(&self.path)?);
        }
        // One call, so that the lines of several processes do not mix.
        file.as_mut().map_or(Ok(()), |file| file.write_all(line))
    }

    fn rotate(&self) -> io::Result<()> {
        let _lock = lock(&self.path.with_extension("lock"))?;
        // Another process may have been first.
        match std::fs::metadata(&self.path) {
            Ok(metadata) if metadata.len() >= MAX_BYTES => std::fs::rename(&self.path, older(&self.path)),
            _ => Ok(()),
        }
    }

    /// Returns the arguments of a call for an entry: of long ones the start and the end, with the length and digest of all.
    pub fn arguments(&self, arguments: &Value) -> Value {
        let text = arguments.to_string();
        // Before the cut, which may go through a secret.
        let text = self.secrets.clean(&text);
        if text.chars().count() <= MAX_ARGUMENTS {
            return arguments.clone();
        }
        let head = text.char_indices().nth(MAX_ARGUMENTS / 2).map_or(text.len(), |(end, _)| end);
        let tail = text.char_indices().rev().nth(MAX_ARGUMENTS / 2).map_or(0, |(start, _)| start);
        let digest = blake3::hash(text.as_bytes()).to_hex();
        json!({ "start": text[..head], "end": text[tail..], "bytes": text.len(), "blake3": digest.as_str() })
    }

    /// Reads the entries, the oldest first. Lines that are no entries are left out.
    ///
    /// # Errors
    /// A file cannot be read, or is accessible to others.
    pub fn read(path: &Path, mut each: impl FnMut(Value)) -> io::Result<()> {
        for path in [older(path), path.to_owned()] {
            let file = match open_file(&path) {
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                opened => opened?,
            };
            check(&file)?;
            for line in BufReader::new(io::Read::take(file, 2 * MAX_BYTES)).split(b'\n') {
                let line = line?;
                let entry = Some(&line).filter(|line| line.len() <= MAX_LINE);
                entry.and_then(|line| serde_json::from_slice(line).ok()).into_iter().for_each(&mut each);
            }
        }
        Ok(())
    }
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("1.jsonl")
}

fn open(path: &Path) -> io::Result<File> {
    path.parent().map_or(Ok(()), create_directory)?;
    let file = open_unlinked(path, OpenOptions::new().append(true).create(true))?;
    check(&file)?;
    Ok(file)
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().map(id).ok() == std::fs::symlink_metadata(path).map(id).ok()
}

#[cfg(not(unix))]
fn is_same(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Tools whose calls are logged with the resources that they used.
pub struct AuditedTools {
    /// The tools that run the calls.
    pub inner: Arc<dyn ToolExecutor>,
    /// The log of the resources that the calls used.
    pub audit: Arc<Audit>,
}

impl ToolExecutor for AuditedTools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.inner.definitions()
    }

    fn instructions(&self) -> Vec<pinion_agent::definition::Instructions> {
        self.inner.instructions()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        let source = &call.tool.source;
        let entry = json!({
            "time": null, "event": "use", "call": call.call_id, "session": call.session_id, "run": call.run_id,
            "tool": call.tool.name, "plugin": source.plugin, "component": source.digest,
        });
        Box::pin(async move {
            let reply = self.inner.call(call, progress).await;
            let mut entry = entry;
            entry["succeeded"] = json!(reply.result.as_ref().is_ok_and(|output| !output.is_error));
            entry["used"] = json!(reply.ledger);
            self.audit.add(entry);
            reply
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> Vec<Value> {
        let mut entries = Vec::new();
        Audit::read(path, |entry| entries.push(entry)).unwrap();
        entries
    }

    #[test]
    fn entries_are_private_redacted_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data/audit.jsonl");
        let secrets = Secrets::default();
        secrets.add(&"hunter2hunter2".to_owned().into());
        let audit = Audit::new(path.clone(), secrets);
        audit.add(json!({ "time": null, "why": "hunter2hunter2\n" }));
        audit.add(json!({ "time": null, "why": 2 }));
        let entries = read(&path);
        assert_eq!((entries.len(), &entries[1]["why"]), (2, &json!(2)));
        assert!(!std::fs::read_to_string(&path).unwrap().contains("hunter2"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn log_is_bounded_and_survives_being_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let audit = Audit::new(path.clone(), Secrets::default());
        for number in 0..600 {
            audit.add(json!({ "time": null, "number": number, "text": "x".repeat(40_000) }));
        }
        let size: u64 = [&path, &older(&path)].iter().map(|path| std::fs::metadata(path).unwrap().len()).sum();
        assert!(size <= 2 * MAX_BYTES + 2 * 40_100, "{size}");
        assert_eq!(read(&path).last().unwrap()["number"], 599);
        std::fs::remove_file(&path).unwrap();
        audit.add(json!({ "time": null, "number": 600 }));
        assert_eq!(read(&path).last().unwrap()["number"], 600);
    }

    #[test]
    fn long_arguments_keep_their_start_and_end_with_a_digest_of_all() {
        let audit = Audit::new(PathBuf::new(), Secrets::default());
        let of = |middle: &str| audit.arguments(&json!({ "command": format!("true '{middle}'; touch ä-hidden") }));
        let long = of(&"é".repeat(5_000));
        assert!(long["start"].as_str().is_some_and(|start| start.starts_with("{\"command\":\"true")), "{long}");
        assert!(long["end"].as_str().is_some_and(|end| end.ends_with("touch ä-hidden\"}")), "{long}");
        assert!(long["bytes"].as_u64().is_some_and(|bytes| bytes > 10_000) && long.to_string().len() < 10_000);
        assert_ne!(long["blake3"], of(&"é".repeat(5_001))["blake3"]);
        assert_eq!(of("x")["command"], "true 'x'; touch ä-hidden");
    }

    #[cfg(unix)]
    #[test]
    fn link_in_place_of_the_log_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, target) = (directory.path().join("audit.jsonl"), directory.path().join("target"));
        std::fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        Audit::new(path, Secrets::default()).add(json!({ "time": null }));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "");
    }
}
