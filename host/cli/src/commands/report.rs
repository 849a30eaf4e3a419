//! `pinion report`: a bundle with which the calls of a session are repeated on another machine.

use crate::commands::plugin::replay::{installed, recorded_files, unreadable};
use clap::Args;
use pinion_app::failure::{Failure, Result};
use pinion_app::run::journal::directory_of;
use pinion_app::workspace_base::Base;
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, note, print, text};
use pinion_files::AtomicWrite;
use pinion_files::open::{create_directory, read_file};
use pinion_journal::event::JournalEvent;
use pinion_journal::reader::read_journal;
use pinion_journal::writer::{JournalMode, JournalWriter};
use pinion_session_store::SessionDirectory;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The arguments of `pinion report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// ID of the session, or a unique prefix of it
    id: String,
    /// Write the bundle to this directory, which must not exist [default: pinion-report-ID]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ReportArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let session = SessionDirectory::new(base.paths.sessions()).find(&self.id).map_err(Failure::from)?;
        let name = self.out.unwrap_or_else(|| PathBuf::from(format!("pinion-report-{}", self.id)));
        let bundle = base.workspace.join(&name);
        if bundle.symlink_metadata().is_ok() {
            return Err(
                Failure::usage(format!("`{}` exists", name.display())).hint("name another directory with --out")
            );
        }
        let failed = |error: std::io::Error| {
            Failure::failed(format!("cannot write the report to `{}`", name.display())).because(error)
        };
        let files = recorded_files(&directory_of(&session), &self.id)?;
        create_directory(&bundle).map_err(failed)?;
        let components = copy_journals(&base, &files, &bundle)?;
        let (included, missing) = copy_components(&base, &components, &bundle)?;
        let text = read_file(&session).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        let clean = base.secrets.clean(&text);
        AtomicWrite::private().replace(&bundle.join("session.jsonl"), clean.as_bytes()).map_err(failed)?;
        let about = json!({
            "pinion": env!("CARGO_PKG_VERSION"),
            "system": std::env::consts::OS,
            "architecture": std::env::consts::ARCH,
            "components": components,
        });
        AtomicWrite::private()
            .replace(&bundle.join("about.json"), format!("{about:#}\n").as_bytes())
            .map_err(failed)?;
        for plugin in missing {
            note(&text!("! the recorded version of plugin `{}` is not installed any more", plugin.as_str()));
        }
        let mut out = Text::default();
        let shown = name.display().to_string();
        out.line(text!("{}: the session, its journal and {} components", shown.as_str(), included));
        out.line(text!("replay it with: pinion plugin replay {}", shown.as_str()));
        print(&out)
    }
}

/// Rewrites the journals without the secrets that are known now. Returns the plugins by the digests of their
/// components.
fn copy_journals(base: &Base, files: &[PathBuf], bundle: &Path) -> Result<BTreeMap<String, String>> {
    let failed = |error: std::io::Error| Failure::failed("cannot write the journal of the report").because(error);
    let secrets = base.secrets.clone();
    let writer = JournalWriter::start(JournalMode::On, Box::new(move |bytes| secrets.mask(bytes))).map_err(failed)?;
    let (directory, mut components) = (bundle.join("journal"), BTreeMap::new());
    for file in files {
        writer.begin(Some(&directory));
        let read = read_journal(file);
        for event in read.map_err(|error| Failure::failed("cannot read the journal").because(error))? {
            if let JournalEvent::Instance(start) = &event {
                components.insert(start.component.clone(), start.plugin.clone());
            }
            writer.record_in_full(event);
        }
    }
    writer.finish().map_err(failed)?;
    Ok(components)
}

/// Copies the components that are installed. Returns their number and the plugins of the others.
fn copy_components(base: &Base, components: &BTreeMap<String, String>, bundle: &Path) -> Result<(usize, Vec<String>)> {
    let failed = |error: std::io::Error| Failure::failed("cannot write the components of the report").because(error);
    let (installed, directory, mut missing) = (installed(base, None), bundle.join("components"), Vec::new());
    create_directory(&directory).map_err(failed)?;
    for (digest, plugin) in components {
        let Some(source) = installed.get(digest) else {
            missing.push(plugin.clone());
            continue;
        };
        let bytes = source.bytes().map_err(unreadable)?;
        AtomicWrite::private().replace(&directory.join(format!("{digest}.wasm")), &bytes).map_err(failed)?;
    }
    Ok((components.len() - missing.len(), missing))
}
