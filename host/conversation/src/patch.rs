//! `--patch`: writes the changes of a run as a patch.

use crate::print::fields;
use pinion_app::failure::{Failure, Result};
use pinion_app::run::setup::Ready;
use pinion_app::undo::patch::{PatchStart, PatchTarget};
use pinion_app::workspace_base::Base;
use pinion_console::args::{OutputFormat, RunArgs};
use pinion_console::output::{Text, note, patch_writer, text};
use serde_json::{Map, Value, json};
use std::io::{self, Write as _};

/// The files at the start of a run, if it writes a patch.
pub(crate) struct RunPatch {
    start: PatchStart,
    format: OutputFormat,
    is_on_stdout: bool,
}

impl RunPatch {
    /// Takes the snapshot at the start of a run.
    pub(crate) async fn begin(base: &Base, args: &RunArgs, ready: &Ready) -> Result<Option<Self>> {
        let Some(named) = &args.patch else { return Ok(None) };
        let target = PatchTarget::new(&base.workspace, named);
        let is_on_stdout = target == PatchTarget::Stdout;
        let (base, session) = (base.clone(), ready.session.on_disk.clone());
        let record = args.record.iter().map(|path| base.workspace.join(path)).collect::<Vec<_>>();
        let start = blocking(move || PatchStart::take_snapshot(&base, session.as_deref(), &record, target)).await?;
        ready.keeper.need(start.id());
        Ok(Some(Self { start, format: args.output_format, is_on_stdout }))
    }

    /// Writes the patch to its file, or reads it for stdout.
    pub(crate) async fn finish(self, is_quiet: bool) -> Result<FinishedPatch> {
        let Self { start, format, is_on_stdout } = self;
        let (text, missing, notices) = blocking(move || {
            let mut patch = start.finish()?;
            let text = match is_on_stdout || format != OutputFormat::Text {
                true => patch.text()?,
                false => String::new(),
            };
            let missing: Vec<Value> = patch
                .missing()
                .iter()
                .map(|(path, reason)| json!({ "path": path.to_string(), "reason": reason.to_string() }))
                .collect();
            let notices = patch.notices();
            if !is_on_stdout {
                patch.put(&mut io::sink()).map_err(|error| Failure::failed("cannot write the patch").because(error))?;
            }
            Ok((text, missing, notices))
        })
        .await?;
        notices.iter().filter(|_| !is_quiet).for_each(|notice| note(&text!("! {}", Text::block(notice))));
        Ok(FinishedPatch { text, missing, is_on_stdout })
    }
}

/// The patch of a run that ended.
pub(crate) struct FinishedPatch {
    /// Empty if only the file has it.
    text: String,
    missing: Vec<Value>,
    /// Whether stdout has the patch in place of the answer.
    pub(crate) is_on_stdout: bool,
}

impl FinishedPatch {
    /// Returns its fields of the JSON result.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        fields([("patch", json!(self.text)), ("patch_missing", json!(self.missing))])
    }

    /// Writes the patch to stdout, and the answer to stderr.
    pub(crate) fn print(&self, answer: &str, is_quiet: bool) -> io::Result<()> {
        if !is_quiet && !answer.is_empty() {
            note(&text!("{}", Text::block(answer)));
        }
        let mut out = patch_writer();
        out.write_all(self.text.as_bytes())?;
        out.flush()
    }
}

/// Runs work that blocks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::failed("cannot make the patch").because(error)))
}
