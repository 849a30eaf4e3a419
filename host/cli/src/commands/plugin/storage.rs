//! `pinion plugin storage`: the values that plugins store.

use pinion_app::failure::{Failure, Result};
use pinion_app::workspace_base::Base;
use pinion_console::approve::confirm::confirm;
use pinion_console::output::terminal::is_interactive;
use pinion_console::output::{Text, bytes, left, note, print, stdout_failure, text};
use pinion_plugin_runtime::{StoredPlugin, without_links};
use std::io;

/// Digits of a key that a list shows.
const KEY_DIGITS: usize = 12;

/// Lists the values of one plugin or of all, or removes the values of one.
pub(crate) fn run(base: &Base, plugin: Option<&str>, clear: bool, yes: bool) -> Result<()> {
    let failed = |error: io::Error| Failure::failed("could not use the values that plugins store").because(error);
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
        return Err(
            Failure::usage("several plugins are meant").hint("name the file, or the key at the start of a line")
        );
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
