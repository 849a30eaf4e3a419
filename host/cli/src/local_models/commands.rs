//! `pinion model pull`, `pinion model remove`, and the rows of `pinion model list` about models on this machine.

use super::download::download;
use super::{store, store_failure};
use clap::Args;
use pinion_app::failure::{Failure, Result};
use pinion_app::workspace_base::Base;
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, bytes, left, note, print, text, tokens};
use pinion_local_models::StoredModel;
use pinion_model_downloads::{DownloadSource, ModelPreset, PRESETS, find_preset};
use std::path::Path;

/// The arguments of `pinion model pull`.
#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// Name of a known model, or path or address of a GGUF file
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Name of the model, as in local/NAME [default: the known model's, or the file's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// SHA-256 digest of the file, required with an address
    #[arg(long, value_name = "DIGEST")]
    sha256: Option<String>,
}

impl PullArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let name = match &self.name {
            Some(name) => name.clone(),
            None => default_name(&self.source),
        };
        let is_address = self.source.contains("://");
        let path = match (find_preset(&self.source), is_address, &self.sha256) {
            (Some(preset), _, None) => {
                note(&text!("downloading {} ({}, licence {})", preset.url, bytes(preset.bytes), preset.licence));
                download(&store(&base), &name, &preset.source()).await?
            }
            (_, true, Some(sha256)) => {
                let source = DownloadSource { url: &self.source, sha256, bytes: None };
                download(&store(&base), &name, &source).await?
            }
            (_, true, None) => {
                return Err(Failure::usage("an address needs the digest of its file")
                    .hint("name it with --sha256; the page of the model shows it"));
            }
            (_, false, digest) => {
                let file = base.workspace.join(&self.source);
                let mut silent = |_| {};
                store(&base).add(&name, &file, digest.as_deref(), &mut silent).map_err(store_failure)?
            }
        };
        let size = path.metadata().map_or(0, |metadata| metadata.len());
        note(&text!("added `local/{}` ({})", name.as_str(), bytes(size)));
        Ok(())
    }
}

/// Returns the name of a file without its ending.
fn default_name(source: &str) -> String {
    let source = source.split(['?', '#']).next().unwrap_or_default();
    let file = Path::new(source).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    file.strip_suffix(".gguf").unwrap_or(file).to_owned()
}

/// The arguments of `pinion model remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Name of the model, without local/
    #[arg(value_name = "NAME")]
    name: String,
}

impl RemoveArgs {
    pub(crate) fn run(&self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let name = self.name.strip_prefix("local/").unwrap_or(&self.name);
        store(&base).remove(name).map_err(store_failure)?;
        note(&text!("removed `local/{}`", name));
        Ok(())
    }
}

/// Returns the rows of models on this machine whose names contain `filter`.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn rows(base: &Base, filter: &str) -> Result<Text> {
    let stored = store(base).list().map_err(store_failure)?;
    let matches = |name: &str| format!("local/{name}").to_lowercase().contains(filter);
    let mut rows = Text::default();
    for model in stored.iter().filter(|model| matches(&model.name)) {
        rows.line(row(model));
    }
    let is_stored = |preset: &&ModelPreset| stored.iter().any(|model| model.name == preset.name);
    for preset in PRESETS.iter().filter(|preset| matches(preset.name) && !is_stored(preset)) {
        rows.line(preset_row(preset));
    }
    Ok(rows)
}

fn preset_row(preset: &ModelPreset) -> Text {
    let name = format!("  local/{}", preset.name);
    let (size, window) = (bytes(preset.bytes), tokens(preset.context));
    text!("{} {} {} {}", left(&name, 44), size, window, preset.licence)
}

fn row(model: &StoredModel) -> Text {
    let name = format!("* local/{}", model.name);
    match &model.content {
        Ok(summary) => {
            let window = summary.window.map_or_else(|| "unknown".to_owned(), tokens);
            let licence = summary.licence.as_deref().unwrap_or("licence unknown");
            text!("{} {} {} {} {}", left(&name, 44), bytes(model.bytes), window, summary.architecture.as_str(), licence)
        }
        Err(problem) => text!("{} unusable: {}", left(&name, 44), problem.as_str()),
    }
}

/// Prints the rows, if there are some.
pub(crate) fn list(base: &Base, filter: &str) -> Result<bool> {
    let rows = rows(base, filter)?;
    let is_empty = rows.as_str().is_empty();
    if !is_empty {
        print(&text!(
            "models that run in Pinion (* is on this machine; `pinion model pull NAME` adds one)\n{}\n",
            rows
        ))?;
    }
    Ok(!is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_name_is_the_file_without_its_ending() {
        for (source, name) in
            [("/models/Qwen3-0.6B-Q8_0.gguf", "Qwen3-0.6B-Q8_0"), ("https://h/a/b.gguf?download=true", "b")]
        {
            assert_eq!(default_name(source), name);
        }
    }
}
