//! `pinion plugin new`: a starter plugin.

use crate::base::Base;
use crate::commands::plugin::{project, template, wit};
use crate::failure::{Failure, Result};
use crate::output::{json, print, text, written};
use crate::plugins::contract::WORLD;
use crate::plugins::sdk;
use serde_json::json;
use std::fs;
use std::io;
use std::path::Path;

/// The package that every plugin depends on.
const SDK: &str = "pinion-plugin-sdk";

/// A language that a new plugin can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Language {
    Rust,
    C,
    Js,
    Ts,
    Python,
    Go,
    Zig,
}

pub(crate) fn run(base: &Base, name: &str, language: Language, as_json: bool) -> Result<()> {
    check(name)?;
    refuse_inside_plugin(&base.workspace)?;
    let directory = base.workspace.join(name);
    let failed =
        |error: io::Error| Failure::failed(format!("could not create `{}`", directory.display())).because(error);
    let sdk = match language {
        Language::Rust => Some(sdk::unpack(&base.paths.sdk()).map_err(|error| {
            Failure::failed(format!("could not unpack the SDK into `{}`", base.paths.sdk().display())).because(error)
        })?),
        _ => None,
    };
    match fs::create_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::usage(format!("`{}` already exists", directory.display())));
        }
        made => made.map_err(failed)?,
    }
    let values = template::Values::of(name, &tool_name(name), is_word_count(name));
    let (component, some_file) = match &sdk {
        Some(sdk) => {
            write(&directory, name, sdk).map_err(failed)?;
            template::write_common(&directory, "rust", &values).map_err(failed)?;
            (format!("target/pinion/{name}.wasm"), "Cargo.toml")
        }
        None => {
            template::write(&directory, language, &values).map_err(failed)?;
            wit::write(&directory.join("wit"), WORLD)?;
            (format!("build/{name}.wasm"), project::FILE)
        }
    };
    if as_json {
        return written(json(&json!({ "name": name, "directory": directory, "component": component })));
    }
    let install = template::setup(language).map(|command| text!("  {}\n", command)).unwrap_or_default();
    let arguments = format!("'{{\"path\": \"{some_file}\"}}'");
    print(&text!(
        "created `{}`, next:\n  cd {}\n{}  pinion plugin build\n  pinion plugin test\n  \
         pinion plugin call {} {} {} --grant files=read\n",
        name,
        name,
        install,
        component,
        tool_name(name),
        arguments
    ))
}

/// Checks a name, which becomes that of a plugin, a directory and a Rust package.
fn check(name: &str) -> Result<()> {
    let is_name = (1..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    match is_name {
        true => Ok(()),
        false => Err(Failure::usage(format!("invalid plugin name `{name}`"))
            .hint("use 1 to 64 letters, digits, `_` and `-`, beginning with a letter")),
    }
}

/// Refuses to create a plugin inside another one, which is hardly ever meant.
fn refuse_inside_plugin(directory: &Path) -> Result<()> {
    let is_plugin = |directory: &&Path| {
        if directory.join(project::FILE).is_file() {
            return true;
        }
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap_or_default();
        manifest.get("dependencies").is_some_and(|packages| packages.get(SDK).is_some())
    };
    match directory.ancestors().find(is_plugin) {
        None => Ok(()),
        Some(plugin) => Err(Failure::usage(format!("`{}` is a plugin itself", plugin.display()))
            .hint("create the new one outside: cd to another directory")),
    }
}

fn tool_name(name: &str) -> String {
    name.replace('-', "_")
}

fn is_word_count(name: &str) -> bool {
    tool_name(name) == "word_count"
}

fn write(directory: &Path, name: &str, sdk: &Path) -> io::Result<()> {
    fs::create_dir(directory.join("src"))?;
    fs::write(directory.join("Cargo.toml"), manifest(name, sdk))?;
    fs::write(directory.join("src/lib.rs"), source(name))?;
    fs::write(directory.join(".gitignore"), "target/\n")
}

fn manifest(name: &str, sdk: &Path) -> String {
    let path = toml::Value::String(sdk.to_string_lossy().into_owned());
    let about = if is_word_count(name) { "Counts the words of files" } else { "A plugin for Pinion" };
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"
description = "{about}"

[lib]
crate-type = ["cdylib"]

[dependencies]
pinion-plugin-sdk = {{ path = {path} }}
schemars = {{ version = "1", default-features = false, features = ["derive", "std"] }}
serde = {{ version = "1", features = ["derive"] }}

# Small components load fast.
[profile.release]
opt-level = "s"
lto = true
codegen-units = 1
panic = "abort"
strip = true

[workspace]
"#
    )
}

fn source(name: &str) -> String {
    let tool = tool_name(name);
    // The example of the README does what its name says. Others begin as a copy of it, and say that.
    let (title, description) = match is_word_count(name) {
        true => ("Counts the words of files.", "Counts the words of a file."),
        false => ("Replace the example tool, which counts the words of files.", "Example: counts the words of a file."),
    };
    format!(
        r#"//! {title}

use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Arguments {{
    /// The file, relative to the workspace.
    path: String,
}}

struct Plug;

impl Plugin for Plug {{
    fn tools() -> Vec<Tool> {{
        vec![Tool::new("{tool}", "{description}", count).reads()]
    }}
}}

fn count(arguments: Arguments, call: &Call) -> Result<String, Error> {{
    let text = std::fs::read_to_string(call.path(&arguments.path)?)?;
    Ok(format!("{{}} words", text.split_whitespace().count()))
}}

export!(Plug, exports = [tools], asks = {{ "files": "read" }});
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_package_names_are_refused() {
        for name in ["", "9lives", "../x", "a b", "ü", &"x".repeat(65)] {
            assert!(check(name).is_err(), "{name}");
        }
        assert!(check("word-count_2").is_ok());
    }

    #[test]
    fn plugin_is_not_created_inside_another_one() {
        let directory = tempfile::tempdir().unwrap();
        assert!(refuse_inside_plugin(directory.path()).is_ok());
        fs::create_dir(directory.path().join("src")).unwrap();
        fs::write(directory.path().join("Cargo.toml"), "[package]\nname = \"x\"\n").unwrap();
        assert!(refuse_inside_plugin(&directory.path().join("src")).is_ok());
        fs::write(directory.path().join("Cargo.toml"), manifest("x", Path::new("/sdk"))).unwrap();
        assert!(refuse_inside_plugin(&directory.path().join("src")).is_err());
    }

    #[test]
    fn tool_that_is_not_named_for_counting_says_that_it_is_an_example() {
        assert!(source("hello").contains("Tool::new(\"hello\", \"Example: counts the words of a file.\""));
        assert!(source("word-count").contains("Tool::new(\"word_count\", \"Counts the words of a file.\""));
    }

    #[test]
    fn starter_plugin_has_under_thirty_lines() {
        assert!(source("word-count").lines().count() < 30);
    }

    #[test]
    fn manifest_is_valid_toml_for_any_directory_name() {
        let manifest = manifest("a", Path::new("/with \"quotes\" and \\ backslash"));
        let table: toml::Table = toml::from_str(&manifest).unwrap();
        assert_eq!(
            table["dependencies"]["pinion-plugin-sdk"]["path"].as_str(),
            Some("/with \"quotes\" and \\ backslash")
        );
    }
}
