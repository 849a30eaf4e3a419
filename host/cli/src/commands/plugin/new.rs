//! `pinion plugin new`: a starter plugin in Rust.

use crate::base::Base;
use crate::failure::{Failure, Result};
use crate::output::{print, text};
use crate::plugins::sdk;
use std::fs;
use std::io;
use std::path::Path;

pub(crate) fn run(base: &Base, name: &str) -> Result<()> {
    check(name)?;
    let directory = base.workspace.join(name);
    let failed =
        |error: io::Error| Failure::failed(format!("could not create `{}`", directory.display())).because(error);
    let sdk = sdk::unpack(&base.paths.sdk()).map_err(|error| {
        Failure::failed(format!("could not unpack the SDK into `{}`", base.paths.sdk().display())).because(error)
    })?;
    match fs::create_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::usage(format!("`{}` already exists", directory.display())));
        }
        made => made.map_err(failed)?,
    }
    write(&directory, name, &sdk).map_err(failed)?;
    let arguments = "'{\"path\": \"Cargo.toml\"}'";
    print(&text!(
        "created `{}`, next:\n  cd {}\n  pinion plugin build\n  \
         pinion plugin call target/pinion/{}.wasm {} {} --grant files=read\n",
        name,
        name,
        name,
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

fn tool_name(name: &str) -> String {
    name.replace('-', "_")
}

fn write(directory: &Path, name: &str, sdk: &Path) -> io::Result<()> {
    fs::create_dir(directory.join("src"))?;
    fs::write(directory.join("Cargo.toml"), manifest(name, sdk))?;
    fs::write(directory.join("src/lib.rs"), source(name))?;
    fs::write(directory.join(".gitignore"), "target/\n")
}

fn manifest(name: &str, sdk: &Path) -> String {
    let path = toml::Value::String(sdk.to_string_lossy().into_owned());
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"
description = "Counts the words of files"

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
    format!(
        r#"//! Counts the words of files.

use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Arguments {{
    /// The file, relative to the workspace.
    path: String,
}}

struct Plug;

impl Plugin for Plug {{
    fn tools() -> Vec<Tool> {{
        vec![Tool::new("{tool}", "Counts the words of a file.", count).reads()]
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
