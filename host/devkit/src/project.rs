//! `pinion-plugin.toml`: the project of a plugin in any language.

use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::read_settings;
use pinion_plugin_runtime::{Asks, Lifetime, PartialLimits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the project's file.
pub const FILE: &str = "pinion-plugin.toml";

/// The package that plugins in Rust depend on.
pub const SDK: &str = "pinion-plugin-sdk";

/// The content of `pinion-plugin.toml`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Project {
    /// Name of the plugin.
    pub name: String,
    /// Version of the plugin.
    pub version: String,
    /// One line about the plugin.
    #[serde(default)]
    pub description: String,
    /// The capabilities that the plugin asks for.
    #[serde(default)]
    pub asks: Asks,
    /// The limits that the plugin asks to raise.
    #[serde(default)]
    pub limits: PartialLimits,
    /// The time that an instance lives.
    #[serde(default)]
    pub lifetime: Lifetime,
    /// The way to build it.
    pub build: Build,
}

/// The section `build`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Build {
    /// Commands that run in the project's directory without a shell, one after another. The first word names a tool that
    /// `toolchain` finds; `{dir}` is the project's absolute path, and a word with `{export}` is repeated for each interface of
    /// the contract that the project's world exports.
    pub steps: Vec<Vec<String>>,
    /// The component or core module that the steps produce, relative to the project.
    pub output: PathBuf,
    /// Environment variables for the steps.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Directory with the WIT of a core module, relative to the project.
    #[serde(default = "default_wit")]
    pub wit: PathBuf,
    /// Name of the world of a core module; `None` if its WIT has only one.
    pub world: Option<String>,
}

fn default_wit() -> PathBuf {
    "wit".into()
}

impl Project {
    /// Reads the project in a directory; `None` if the directory has no `pinion-plugin.toml`.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let file = directory.join(FILE);
        let text = match read_settings(&file) {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(None),
            Err(error) => return Err(Failure::failed(format!("could not read `{}`", file.display())).because(error)),
        };
        let project = Self::parse(&text, directory);
        project.map(Some).map_err(|error| Failure::usage(format!("invalid `{}`", file.display())).because(error))
    }

    fn parse(text: &str, directory: &Path) -> Result<Self, toml::de::Error> {
        let mut project: Self = toml::from_str(text)?;
        let directory = directory.to_string_lossy();
        for word in project.build.steps.iter_mut().flatten() {
            *word = word.replace("{dir}", &directory);
        }
        Ok(project)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
name = "a"
version = "0.1.0"
lifetime = "session"
asks = { files = "read" }
limits = { memory-bytes = 1024 }
[build]
steps = [["jco", "componentize", "{dir}/src/plugin.js"]]
output = "build/plugin.wasm"
"#;

    #[test]
    fn project_is_read_with_its_directory() {
        let project = Project::parse(TEXT, Path::new("/p")).unwrap();
        assert_eq!(project.build.steps, [["jco", "componentize", "/p/src/plugin.js"]]);
        assert_eq!((project.lifetime, project.limits.memory_bytes), (Lifetime::Session, Some(1024)));
        assert_eq!((project.build.wit, project.asks.spell_asks()), ("wit".into(), vec!["files=read".to_owned()]));
    }

    #[test]
    fn unknown_key_is_named() {
        let error = Project::parse(&TEXT.replace("lifetime", "lifespan"), Path::new("/p")).unwrap_err();
        assert!(error.to_string().contains("lifespan"), "{error}");
    }
}
