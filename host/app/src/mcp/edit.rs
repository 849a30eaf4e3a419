//! Changes to files of MCP servers, made in one step and under a lock.

use crate::failure::{Failure, Result};
use crate::files::private::{self, create_directory, lock, read_settings};
use crate::output::line;
use crate::trust::{ProjectContent, replace_shared};
use crate::workspace_base::Base;
use pinion_mcp::config::{ConfigScope, Editor};
use std::path::Path;

/// Changes a file. `change` returns its result and whether the file has to be written.
///
/// # Errors
/// The file cannot be read, is no JSON object, or cannot be written.
pub fn edit<T>(
    base: &Base,
    scope: ConfigScope,
    path: &Path,
    change: impl FnOnce(&mut Editor) -> Result<(T, bool)>,
) -> Result<T> {
    if scope == ConfigScope::Package {
        let failure = Failure::usage("servers of a package are not in a file of servers");
        return Err(failure.hint("remove the package with: pinion plugin remove"));
    }
    let failed = |what: &str| Failure::failed(format!("could not {what} `{}`", line(&path.to_string_lossy())));
    create_directory(&base.paths.data).map_err(|error| failed("change").because(error))?;
    let _lock = lock(&base.paths.mcp_lock()).map_err(|error| failed("lock").because(error))?;
    let text = read_settings(path).map_err(|error| failed("read").because(error))?;
    let mut editor = Editor::new(text.as_deref().unwrap_or_default())
        .map_err(|error| failed("change").because(error).hint("fix the file, or edit it by hand"))?;
    let (result, is_changed) = change(&mut editor)?;
    if !is_changed {
        return Ok(result);
    }
    let before = (scope == ConfigScope::Project && base.config.project.is_trusted())
        .then(|| ProjectContent::read(&base.workspace));
    let written = match scope {
        ConfigScope::User | ConfigScope::Package => create_directory(path.parent().unwrap_or(Path::new(".")))
            .and_then(|()| private::replace(path, editor.text().as_bytes())),
        ConfigScope::Project => replace_shared(path, editor.text().as_bytes()),
    };
    written.map_err(|error| failed("write").because(error))?;
    if let Some(before) = before {
        base.config.project.keep_trust(&base.paths, path, &before)?;
    }
    Ok(result)
}

/// Switches a server or one of its tools on or off, in the file that has it. Returns whether it has the server.
///
/// # Errors
/// As of [`edit`].
pub fn switch_in(
    base: &Base,
    scope: ConfigScope,
    path: &Path,
    name: &str,
    tool: Option<&str>,
    enabled: bool,
) -> Result<bool> {
    if scope == ConfigScope::Package {
        return base.switch_package_server(name, tool, enabled);
    }
    edit(base, scope, path, |editor| {
        let has_server = match tool {
            Some(tool) => editor.set_tool_enabled(name, tool, enabled),
            None => editor.set_enabled(name, enabled),
        };
        Ok((has_server, has_server))
    })
}
