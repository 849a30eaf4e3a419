//! What a call of `write` would change, for the question whether it may run.

use crate::files::repository::{Links, Repository};
use pinion_agent::approval::Question;
use pinion_checkpoints::unified;
use std::path::{Component, Path};

/// Bytes of a file that is compared.
const MAX_BYTES: u64 = 1024 * 1024;

/// Returns the unified diff between a file of the workspace and the content that a call would give it; none for other
/// calls, for new files, and for files that are no text.
pub(crate) fn change(workspace: &Path, question: &Question<'_>) -> Option<String> {
    let arguments = &question.call.arguments;
    let is_write = question.tool.name == "write" && arguments.as_object().is_some_and(|fields| fields.len() == 2);
    let path = Path::new(arguments["path"].as_str().filter(|_| is_write)?);
    let path = path.strip_prefix(workspace).unwrap_or(path);
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)).then_some(())?;
    let new = arguments["content"].as_str()?;
    let old = Repository::at(workspace).ok()?.read(path, Links::Inside, MAX_BYTES).ok()??;
    let old = String::from_utf8(old).ok().filter(|old| !old.contains('\0'))?;
    Some(unified(&old, new))
}
