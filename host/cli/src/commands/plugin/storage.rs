//! `pinion plugin storage`: the values that plugins store.

use super::show::find;
use clap::{Args, Subcommand};
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::files::private::replace;
use pinion_app::workspace_base::Base;
use pinion_console::approve::confirm::confirm;
use pinion_console::output::terminal::is_interactive;
use pinion_console::output::{Text, bytes, left, note, print, stdout_failure, text};
use pinion_files::open::read_limited;
use pinion_plugin_runtime::{ExportedValues, MAX_EXPORT_BYTES, PluginStorage, StoredPlugin, without_links};
use std::io;
use std::path::{Path, PathBuf};

/// Digits of a key that a list shows.
const KEY_DIGITS: usize = 12;

/// The arguments of `pinion plugin storage`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct StorageArguments {
    /// Name, file or key of the plugin [default: all plugins]
    plugin: Option<String>,
    /// Permanently remove all values of the plugin, in every workspace and session
    #[arg(long, requires = "plugin")]
    clear: bool,
    /// Do not ask for confirmation
    #[arg(short, long, requires = "clear")]
    yes: bool,
    #[command(subcommand)]
    command: Option<StorageCommand>,
}

#[derive(Debug, Subcommand)]
enum StorageCommand {
    /// Write the values of a plugin to a file, without the values of sessions
    Export {
        /// Name, file or key of the plugin
        plugin: String,
        /// File to write, as JSON
        file: PathBuf,
    },
    /// Replace the values of a plugin by the values in a file
    ///
    /// Replaces the values of every workspace that the file has, and keeps the values of others.
    Import {
        /// Name or file of the plugin
        plugin: String,
        /// File that `export` wrote
        file: PathBuf,
        /// Accept the values of another plugin, or of the same plugin in another file
        #[arg(long)]
        from_other: bool,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

impl StorageArguments {
    pub(super) async fn run(self, base: &Base) -> Result<()> {
        match self.command {
            None => list_or_clear(base, self.plugin.as_deref(), self.clear, self.yes),
            Some(StorageCommand::Export { plugin, file }) => export(base, &plugin, &file),
            Some(StorageCommand::Import { plugin, file, from_other, yes }) => {
                import(base, &plugin, &file, from_other, yes).await
            }
        }
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::failed("could not use the values that plugins store").because(error)
}

/// Writes the values of one plugin to a private file.
fn export(base: &Base, plugin: &str, file: &Path) -> Result<()> {
    let storage = base.plugin_storage();
    let mut plugins = storage.plugins().map_err(failed)?;
    plugins.retain(|stored| is_meant(base, stored, plugin));
    let [stored] = plugins.as_slice() else { return Err(not_one(plugin, &plugins)) };
    let not_exported = || Failure::failed(format!("the values of `{plugin}` were not exported"));
    let exported = storage.export(stored).map_err(|error| not_exported().because(error))?;
    let text = exported.to_text().map_err(|error| not_exported().because(error))?;
    replace(&base.workspace.join(file), &text).map_err(|error| not_exported().because(error))?;
    note(&text!("exported {} values of {} to {}", exported.count(), name_of(stored), file.to_string_lossy()));
    Ok(())
}

/// Returns the error for a word that does not mean exactly one plugin.
fn not_one(plugin: &str, found: &[StoredPlugin]) -> Failure {
    match found {
        [] => Failure::usage(format!("no values are stored for `{plugin}`")),
        _ => Failure::usage("several plugins are meant").hint("name the file, or the key at the start of a line"),
    }
}

/// Replaces the values of an installed plugin.
async fn import(base: &Base, plugin: &str, file: &Path, from_other: bool, yes: bool) -> Result<()> {
    let shown = file.display();
    let unusable = || Failure::usage(format!("the values in `{shown}` were not imported"));
    let text = read_limited(&base.workspace.join(file), MAX_EXPORT_BYTES).map_err(|error| unusable().because(error))?;
    let exported = ExportedValues::parse(&text).map_err(|error| unusable().because(error))?;
    let (_, info) = find(base, plugin).await?;
    let identity = info.component_source.storage_identity(&info.name);
    if !from_other && !exported.belong_to(&identity) {
        let why = format!("they belong to `{}` in {}", exported.plugin().escape_debug(), exported.source());
        return Err(Failure::new(Status::Denied, format!("the values in `{shown}` were not imported"))
            .because(why)
            .hint("--from-other gives them to this plugin"));
    }
    let storage = base.plugin_storage();
    if !yes && is_interactive() && has_values(&storage, identity.key())? {
        let question = text!("Replace the values of {} by {} values?", info.name, exported.count());
        if !confirm(&question).map_err(stdout_failure)? {
            note(&text!("nothing was imported"));
            return Ok(());
        }
    }
    storage.import(&identity, &exported).map_err(|error| unusable().because(error))?;
    note(&text!("imported {} values of {}", exported.count(), info.name));
    Ok(())
}

fn has_values(storage: &PluginStorage, key: &str) -> Result<bool> {
    Ok(storage.plugins().map_err(failed)?.iter().any(|stored| stored.key == key))
}

/// Lists the values of one plugin or of all, or removes the values of one.
fn list_or_clear(base: &Base, plugin: Option<&str>, clear: bool, yes: bool) -> Result<()> {
    let storage = base.plugin_storage();
    let mut plugins = storage.plugins().map_err(failed)?;
    // `storage list`, as with other commands.
    let is_list = !clear && plugin == Some("list") && !plugins.iter().any(|plugin| plugin.name == "list");
    if let Some(name) = plugin.filter(|_| !is_list) {
        plugins.retain(|plugin| is_meant(base, plugin, name));
        if plugins.is_empty() {
            note(&text!("no values are stored for `{}`", name));
            return Ok(());
        }
    }
    if plugins.is_empty() {
        note(&text!("no values are stored"));
        return Ok(());
    }
    if !clear {
        return print(&listed(&plugins));
    }
    if let [_, _, ..] = plugins.as_slice() {
        print(&listed(&plugins))?;
        return Err(not_one(plugin.unwrap_or_default(), &plugins));
    }
    if !yes && is_interactive() {
        note(&listed(&plugins));
        if !confirm(&text!("Permanently remove these values?")).map_err(stdout_failure)? {
            note(&text!("nothing was removed"));
            return Ok(());
        }
    }
    for plugin in &plugins {
        storage.clear(plugin).map_err(failed)?;
        note(&text!("removed the values of {}", name_of(plugin)));
    }
    Ok(())
}

/// Returns whether the user means a plugin: by its name, its file, or at least the shown digits of its key.
fn is_meant(base: &Base, plugin: &StoredPlugin, wanted: &str) -> bool {
    let path = without_links(&base.workspace.join(wanted));
    (plugin.name == wanted && !wanted.is_empty())
        || (wanted.len() >= KEY_DIGITS && plugin.key.starts_with(wanted))
        || (!plugin.source.is_empty() && path.to_str() == Some(&plugin.source))
}

fn name_of(plugin: &StoredPlugin) -> &str {
    if plugin.name.is_empty() { &plugin.key } else { &plugin.name }
}

fn listed(plugins: &[StoredPlugin]) -> Text {
    let mut text = Text::default();
    for plugin in plugins {
        let key = plugin.key.get(..KEY_DIGITS).unwrap_or(&plugin.key);
        text.line(text!("{} {} {}", key, left(name_of(plugin), 16), plugin.source));
        for scope in &plugin.scopes {
            let damage = if scope.is_damaged { ", damaged" } else { "" };
            text.line(text!("{} {}: {}{}", left("", KEY_DIGITS), scope.name, bytes(scope.bytes), damage));
        }
    }
    text
}
