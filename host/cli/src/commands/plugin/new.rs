//! `pinion plugin new`: a starter plugin.

use crate::commands::plugin::wit::WORLD;
use crate::commands::plugin::{template, wit};
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::read_settings;
use pinion_app::workspace_base::Base;
use pinion_console::output::{json, print, text, written};
use pinion_devkit::project;
use serde_json::json;
use std::fs;
use std::io;
use std::path::Path;

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
    match fs::create_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Failure::usage(format!("`{}` already exists", directory.display())));
        }
        made => made.map_err(failed)?,
    }
    let values = template::Values::for_plugin(name, &tool_name(name), is_word_count(name));
    template::write(&directory, language, &values).map_err(failed)?;
    let (component, some_file) = match language {
        Language::Rust => (format!("target/pinion/{name}.wasm"), "Cargo.toml"),
        _ => {
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

/// Checks a name, which a plugin, a directory and a Rust package get.
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
        let manifest = read_settings(&directory.join("Cargo.toml")).ok().flatten().unwrap_or_default();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap_or_default();
        manifest.get("dependencies").is_some_and(|packages| packages.get(project::SDK).is_some())
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
        let manifest = format!("[dependencies]\n{} = {{ path = \"/sdk\" }}\n", project::SDK);
        fs::write(directory.path().join("Cargo.toml"), manifest).unwrap();
        assert!(refuse_inside_plugin(&directory.path().join("src")).is_err());
    }
}
