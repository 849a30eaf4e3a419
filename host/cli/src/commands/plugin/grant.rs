//! Capabilities on the command line, such as `files=read` and `process`.

use pinion_app::base::Base;
use pinion_app::failure::{Failure, Result};
use pinion_plugin_runtime::{Asks, GrantTable, UnknownCapability, capability_forms};

/// Parses capabilities. Relative directories begin at the workspace.
pub(crate) fn parse(base: &Base, words: &[String]) -> Result<GrantTable> {
    let mut table = GrantTable::default();
    table.add(words, &base.workspace).map_err(unknown)?;
    Ok(table)
}

/// Parses the capabilities that a plugin asks for.
pub(crate) fn asks(base: &Base, words: &[String]) -> Result<Asks> {
    Asks::parse(words, &base.workspace).map_err(unknown)
}

fn unknown(error: UnknownCapability) -> Failure {
    Failure::usage(error).hint(format!("the capabilities are {}", capability_forms().join(", ")))
}

/// Names all capabilities at the end of a help text.
pub(crate) fn capabilities(about: &str) -> String {
    format!("{about}: {}", pinion_plugin_runtime::capability_forms().join(", "))
}
