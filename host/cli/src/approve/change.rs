//! The change that a call of `write` would make, as its approval prompt shows it.

use pinion_agent::approval::Question;
use pinion_app::files::repository::{Links, Repository};
use pinion_checkpoints::unified;
use std::path::{Component, Path};

/// Bytes of a file that is compared.
const MAX_BYTES: u64 = 1024 * 1024;

/// Returns the unified diff between a file of the workspace and the content that a call would give it; for a new file,
/// all content is added. Returns `None` for other calls, and for files that are not text.
pub(crate) fn change(workspace: &Path, question: &Question<'_>) -> Option<String> {
    let arguments = &question.call.arguments;
    let is_write = question.tool.name == "write" && arguments.as_object().is_some_and(|fields| fields.len() == 2);
    let path = Path::new(arguments["path"].as_str().filter(|_| is_write)?);
    let path = path.strip_prefix(workspace).unwrap_or(path);
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)).then_some(())?;
    let new = arguments["content"].as_str()?;
    let Some(old) = Repository::at(workspace).ok()?.read(path, Links::Inside, MAX_BYTES).ok()? else {
        return Some(unified("", new)).filter(|added| !added.is_empty());
    };
    let old = String::from_utf8(old).ok().filter(|old| !old.contains('\0'))?;
    Some(unified(&old, new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_agent::content::ToolCall;
    use pinion_agent::definition::{Execution, ToolDefinition};
    use pinion_agent::{Authority, serde_json::json};

    #[test]
    fn new_file_is_all_added() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("old.txt"), "one\n").unwrap();
        let tool = ToolDefinition {
            name: "write".into(),
            label: String::new(),
            description: String::new(),
            input_schema: json!({}),
            guidelines: Vec::new(),
            authority: Authority::default(),
            execution: Execution::Sequential,
            source: Default::default(),
        };
        let changed = |path: &str, content: &str| {
            let call = ToolCall::new("1", "write", json!({ "path": path, "content": content }));
            change(directory.path(), &Question { call: &call, tool: &tool, notes: &[] })
        };
        assert_eq!(changed("new.txt", "one\ntwo\n").unwrap(), "@@ -0,0 +1,2 @@\n+one\n+two\n");
        assert_eq!(changed("old.txt", "one\ntwo\n").unwrap(), "@@ -1 +1,2 @@\n one\n+two\n");
        assert_eq!((changed("empty.txt", ""), changed("../out.txt", "x")), (None, None));
    }
}
