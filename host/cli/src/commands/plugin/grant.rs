//! Capabilities on the command line, such as `files=read` and `process`.

use crate::base::Base;
use crate::failure::{Failure, Result};
use pinion_plugin_runtime::{GrantTable, capability_forms};

/// Parses capabilities. Relative directories begin at the workspace.
pub(crate) fn parse(base: &Base, words: &[String]) -> Result<GrantTable> {
    let mut table = GrantTable::default();
    table.add(words, &base.workspace).map_err(|error| {
        Failure::usage(error.to_string()).hint(format!("the capabilities are {}", capability_forms().join(", ")))
    })?;
    Ok(table)
}
