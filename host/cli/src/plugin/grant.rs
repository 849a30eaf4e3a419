//! Capabilities on the command line: `files=read`, `files=write`, `process`, `catalog`, `agents`.

use crate::compose::Base;
use crate::config::FileProcessGrant;
use crate::failure::{Failure, Result};
use pinion_plugin_runtime::{Access, AgentsGrant, Asks, Grants};

enum Capability {
    Files(Access),
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
        _ => Err(Failure::usage(format!("`{text}` is no capability"))
            .hint("there are files=read, files=write, process, catalog and agents")),
    }
}

/// What a component asks for.
pub(crate) fn asks(texts: &[String]) -> Result<Asks> {
    let mut asks = Asks::default();
    for text in texts {
        match parse(text)? {
            Capability::Files(access) => asks.files = Some(access),
            Capability::Process => asks.process = true,
            Capability::Catalog => asks.catalog = true,
            Capability::Agents => asks.agents = true,
        }
    }
    Ok(asks)
}

/// Adds to what the config grants: files of the workspace, programs, the catalog, sub-agents.
pub(crate) fn add(base: &Base, grants: &mut Grants, texts: &[String]) -> Result<()> {
    for text in texts {
        match parse(text)? {
            Capability::Files(access) => {
                grants.files.insert(base.workspace.clone(), access);
            }
            Capability::Process => grants.process = base.process_grant(&FileProcessGrant::Granted(true)),
            Capability::Catalog => grants.catalog = true,
            Capability::Agents => grants.agents = Some(AgentsGrant::default()),
        }
    }
    Ok(())
}
