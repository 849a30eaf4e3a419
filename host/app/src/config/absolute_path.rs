//! Absolute paths in the config, where `~` is the home directory.

use crate::files::paths;
use serde::Deserialize;
use std::path::PathBuf;

/// A path that does not depend on the current directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AbsolutePath(pub PathBuf);

impl TryFrom<String> for AbsolutePath {
    type Error = String;

    fn try_from(path: String) -> Result<Self, String> {
        let absolute = match path.strip_prefix("~/").or((path == "~").then_some("")) {
            Some(below_home) => paths::home().map(|home| home.join(below_home)),
            None => Some(PathBuf::from(&path)).filter(|path| path.is_absolute()),
        };
        let refusal = || format!("`{path}` is not an absolute path\nhint: begin it with `/` or `~`");
        absolute.map(Self).ok_or_else(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_root_or_at_home() {
        let path = |text: &str| AbsolutePath::try_from(text.to_owned());
        assert_eq!(path("/y").unwrap().0, PathBuf::from("/y"));
        assert_eq!(path("~/x").unwrap().0, paths::home().unwrap().join("x"));
        assert_eq!(path("~").unwrap().0, paths::home().unwrap());
        for relative in ["target", "", "./x", "~user/x"] {
            assert!(path(relative).unwrap_err().contains("is not an absolute path"), "{relative}");
        }
    }
}
