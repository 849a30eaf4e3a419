//! Paths in the arguments of calls.

use pinion_agent::serde_json::Value;
use pinion_checkpoints::RelPath;
use std::collections::BTreeSet;
use std::path::Path;

/// Texts in the arguments of a call that are tried as paths at most.
const MAX_TEXTS: usize = 100;
/// Bytes of a path.
const MAX_PATH: usize = 4096;

/// Returns the paths below a workspace that arguments may name.
pub(super) fn paths_in(arguments: &Value, workspace: &Path) -> BTreeSet<RelPath> {
    let mut texts = Vec::new();
    strings(arguments, &mut texts);
    let path = |text: &&str| {
        let path = Path::new(text);
        let inside = path.strip_prefix(workspace).or_else(|_| path.strip_prefix(".")).unwrap_or(path);
        RelPath::try_from(inside).ok()
    };
    texts.iter().filter_map(path).collect()
}

/// Collects the texts in arguments that may be paths.
fn strings<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    if texts.len() >= MAX_TEXTS {
        return;
    }
    match value {
        Value::String(text) if text.len() <= MAX_PATH && !text.contains('\n') => texts.push(text),
        Value::Array(values) => values.iter().for_each(|value| strings(value, texts)),
        Value::Object(fields) => fields.values().for_each(|value| strings(value, texts)),
        _ => {}
    }
}
