//! Capabilities on the command line: `files=read`, `files=write`, `process`, `catalog`, `agents`.

use crate::base::Base;
use crate::config::grants::FileAgentsGrant;
use crate::config::grants::{FileGrants, FileProcessGrant};
use crate::failure::{Failure, Result};
use pinion_plugin_runtime::{Access, Asks};
use std::path::PathBuf;

enum Capability {
    /// The workspace.
    Files(Access),
    /// One directory.
    FilesIn(PathBuf, Access),
    Process,
    Catalog,
    Agents,
}

fn parse(text: &str) -> Result<Capability> {
    match text {
        "files=read" => Ok(Capability::Files(Access::Read)),
        "files=write" => Ok(Capability::Files(Access::Write)),
        "process" => Ok(Capability::Process),
        "catalog" => Ok(Capability::Catalog),
        "agents" => Ok(Capability::Agents),
        _ => files_in(text).ok_or_else(|| {
            Failure::usage(format!("`{text}` is not a capability"))
                .hint("there are files=read, files=write, files=DIR:read, files=DIR:write, process, catalog and agents")
        }),
    }
}

/// `files=DIR:read` and `files=DIR:write`.
fn files_in(text: &str) -> Option<Capability> {
    let (directory, access) = text.strip_prefix("files=")?.rsplit_once(':')?;
    let access = match access {
        "read" => Access::Read,
        "write" => Access::Write,
        _ => return None,
    };
    (!directory.is_empty()).then(|| Capability::FilesIn(PathBuf::from(directory), access))
}

/// What a component asks for.
pub(crate) fn asks(texts: &[String]) -> Result<Asks> {
    let mut asks = Asks::default();
    for text in texts {
        match parse(text)? {
            Capability::Files(access) | Capability::FilesIn(_, access) => asks.files = Some(access),
            Capability::Process => asks.process = true,
            Capability::Catalog => asks.catalog = true,
            Capability::Agents => asks.agents = true,
        }
    }
    Ok(asks)
}

/// Adds capabilities to grants: files of the workspace, programs, the catalog, sub-agents.
pub(crate) fn add(base: &Base, grants: &mut FileGrants, texts: &[String]) -> Result<()> {
    for text in texts {
        match parse(text)? {
            Capability::Files(access) => {
                grants.files.insert(PathBuf::from("."), access);
            }
            Capability::FilesIn(directory, access) => {
                grants.files.insert(base.workspace.join(directory), access);
            }
            Capability::Process => grants.process = FileProcessGrant::Granted(true),
            Capability::Catalog => grants.catalog = true,
            Capability::Agents => grants.agents = FileAgentsGrant::Granted(true),
        }
    }
    Ok(())
}
