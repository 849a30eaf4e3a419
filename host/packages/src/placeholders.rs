//! Placeholders in the servers and hooks of packages: `${PLUGIN_ROOT}` and variables of the environment.

use std::collections::BTreeSet;

/// Names of the directories of a package in other formats, and their names here.
const OTHER_NAMES: [(&str, &str); 2] =
    [("${CLAUDE_PLUGIN_ROOT}", "${PLUGIN_ROOT}"), ("${CLAUDE_PLUGIN_DATA}", "${PLUGIN_DATA}")];
/// Placeholders that the host fills without reading the environment.
const FILLED: [&str; 5] = ["PLUGIN_ROOT", "PLUGIN_DATA", "workspaceFolder", "PWD", "CLAUDE_PROJECT_DIR"];

/// The variables that texts of an entry name.
#[derive(Debug, Default)]
pub(crate) struct Placeholders(BTreeSet<String>);

impl Placeholders {
    /// Collects the variables of a text.
    ///
    /// # Errors
    /// A placeholder does not end, or is not the name of a variable.
    pub(crate) fn scan(&mut self, text: &str) -> Result<(), String> {
        let mut parts = text.split("${");
        parts.next();
        for part in parts {
            let (inside, _) = part.split_once('}').ok_or("a placeholder has no closing brace")?;
            let name = inside.split(":-").next().unwrap_or_default();
            let name = name.strip_prefix("env:").unwrap_or(name);
            let is_name = !name.is_empty()
                && name.len() <= 256
                && !name.starts_with(|c: char| c.is_ascii_digit())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name {
                return Err(format!("`${{{}}}` is not the name of a variable", inside.escape_debug()));
            }
            if !FILLED.contains(&name) {
                self.0.insert(name.to_owned());
            }
        }
        Ok(())
    }

    pub(crate) fn variables(self) -> Vec<String> {
        self.0.into_iter().collect()
    }
}

/// Replaces the placeholders of other formats by the names here.
pub(crate) fn with_own_names(text: &str) -> String {
    OTHER_NAMES.iter().fold(text.to_owned(), |text, (other, own)| text.replace(other, own))
}

/// Returns whether a text names a place above a directory of the package.
pub(crate) fn leads_out(text: &str) -> bool {
    let mut parts = text.split("${PLUGIN_");
    parts.next();
    parts.any(|part| {
        let path = part.split_once('}').map_or("", |(_, path)| path);
        path.split(['/', '\\', ' ', ':', ',', '"', '\'']).any(|name| name == "..")
    })
}

/// Returns a path of a manifest as a path in the package; `None` if it leads out or is not relative.
pub(crate) fn package_path(path: &str) -> Option<String> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let is_plain = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains(['\\', '$', ':']);
    path.split('/').all(is_plain).then(|| path.to_owned())
}
