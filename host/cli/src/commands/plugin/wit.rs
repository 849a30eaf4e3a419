//! `pinion plugin wit`: the contract with plugins, which this program embeds.

use crate::commands::plugin::binary;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::{read_file, read_settings};
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, answer, bytes, json, print, text, written};
use pinion_devkit::project;
use serde_json::json;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

// The contract with plugins and the templates of projects, which this program embeds.

include!(concat!(env!("OUT_DIR"), "/contract.rs"));

/// The world of a new project.
pub(crate) const WORLD: &str = include_str!("../../../templates/world.wit");

/// The reference of the contract, which is generated from it.
pub(crate) const REFERENCE: &str = include_str!("../../../../../plugin-sdk/REFERENCE.md");

/// Directory of the contract below the directory that toolchains get as their WIT.
const PACKAGE: &str = "deps/pinion-plugin";
/// Directory of the package of hooks, for projects whose world names it, and the beginning of its interfaces.
const HOOKS_PACKAGE: (&str, &str) = ("deps/pinion-hooks", "pinion:hooks/");

/// Files that identify a project's copy of a helper, best first, with the language of the template.
const HELPERS: &[(&str, &str)] = &[
    ("pinion/src/lib.rs", "rust"),
    ("src/pinion/index.js", "js"),
    ("src/pinion/__init__.py", "python"),
    ("pinion/pinion.go", "go"),
    ("pinion/pinion.zig", "zig"),
    ("pinion/pinion.h", "c"),
];
/// Directories of the copies.
const HELPER_DIRECTORIES: &[&str] = &["pinion/", "src/pinion/"];

/// Writes the contract into `DIR/wit`, in the layout that toolchains read, and replaces an older copy of the helper in the
/// project. Without a directory, prints the contract.
pub(crate) fn run(base: &Base, directory: Option<&Path>, as_json: bool) -> Result<()> {
    let Some(directory) = directory else {
        return written(if as_json { json(&files_as_json()) } else { answer(&one_text()) });
    };
    let project = match directory == Path::new(".") {
        true => base.workspace.clone(),
        false => base.workspace.join(directory),
    };
    let directory = project.join("wit");
    let helper = helper_files(&project);
    // The SDK contains the bindings, and nothing else reads the WIT.
    let mut made = match uses_sdk(&project) && !directory.exists() {
        false => write(&directory, WORLD)?,
        true if helper.is_empty() => {
            return Err(Failure::usage(format!("`{}` uses the SDK, which has the contract in it", project.display()))
                .hint("update the SDK: cargo update -p pinion-plugin-sdk"));
        }
        true => Vec::new(),
    };
    for (name, text) in helper {
        let file = project.join(name);
        if read_file(&file).is_ok_and(|present| present == text.as_bytes()) {
            continue;
        }
        let failed = || Failure::failed(format!("could not write `{}`", file.display()));
        file.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| failed().because(error))?;
        binary::write(&base.workspace, &file, text.as_bytes()).map_err(|error| failed().because(error))?;
        made.push(file);
    }
    if as_json {
        return written(json(&json!({ "directory": directory, "files": made })));
    }
    let mut text = Text::default();
    made.iter().for_each(|file| text.line(text!("{}", file)));
    print(&text)
}

/// Returns the current files of the helper that a project has a copy of, with their places in the project.
fn helper_files(project: &Path) -> Vec<(&'static str, &'static str)> {
    let found = HELPERS.iter().find(|(sign, _)| project.join(sign).is_file());
    let files = found.and_then(|(_, language)| TEMPLATES.iter().find(|(template, _)| template == language));
    let is_helper = |name: &str| HELPER_DIRECTORIES.iter().any(|directory| name.starts_with(directory));
    let files = files.into_iter().flat_map(|(_, files)| files.iter().copied());
    files.filter(|(name, _)| is_helper(name)).collect()
}

/// Returns whether a project is a package in Rust with the SDK.
fn uses_sdk(project: &Path) -> bool {
    let manifest = read_settings(&project.join("Cargo.toml")).ok().flatten().unwrap_or_default();
    let manifest: toml::Table = toml::from_str(&manifest).unwrap_or_default();
    let is_dependency = manifest.get("dependencies").is_some_and(|packages| packages.get(project::SDK).is_some());
    is_dependency && !project.join(project::FILE).exists()
}

/// Writes the contract as one WIT package in binary form, which OCI registries distribute.
pub(crate) fn write_package(base: &Base, file: &Path, as_json: bool) -> Result<()> {
    let file = base.workspace.join(file);
    let failed = || Failure::failed(format!("could not write `{}`", file.display()));
    let (name, package) = package().map_err(|error| failed().because(error))?;
    binary::write(&base.workspace, &file, &package).map_err(|error| failed().because(error))?;
    match as_json {
        true => written(json(&json!({ "package": name, "file": file, "bytes": package.len() }))),
        false => print(&text!("{}, {}, {}\n", file, name, bytes(package.len() as u64))),
    }
}

/// Prints the reference of the contract, as Markdown.
pub(crate) fn print_reference() -> Result<()> {
    written(answer(REFERENCE))
}

/// Returns the contract's name with its version, and its binary form.
fn package() -> std::result::Result<(String, Vec<u8>), String> {
    let mut files = wit_parser::SourceMap::default();
    CONTRACT.iter().for_each(|(name, text)| files.push_str(name, *text));
    let parsed = files.parse().map_err(|(_, error)| error.to_string())?;
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_group(parsed).map_err(|error| error.to_string())?;
    let binary = wit_component::encode(&resolve, package).map_err(|error| format!("{error:#}"))?;
    Ok((resolve.packages[package].name.to_string(), binary))
}

/// Writes `world.wit`, unless there is one, and the contract below it, with the package of hooks if the world names it.
/// Returns the files that it wrote.
///
/// # Errors
/// A file of the contract's directory is not the contract's.
pub(crate) fn write(directory: &Path, world: &str) -> Result<Vec<PathBuf>> {
    let own = directory.join("world.wit");
    let has_hooks = match read_settings(&own) {
        Ok(Some(present)) => present.contains(HOOKS_PACKAGE.1),
        _ => world.contains(HOOKS_PACKAGE.1),
    };
    let hooks = has_hooks.then(|| (directory.join(HOOKS_PACKAGE.0), HOOKS));
    let packages: Vec<_> = std::iter::once((directory.join(PACKAGE), CONTRACT)).chain(hooks).collect();
    let failed =
        |path: &Path, error: io::Error| Failure::failed(format!("could not write `{}`", path.display())).because(error);
    for (package, files) in &packages {
        refuse_others(package, files)?;
        fs::create_dir_all(package).map_err(|error| failed(package, error))?;
    }
    let mut made = Vec::new();
    if !own.exists() {
        fs::write(&own, world).map_err(|error| failed(&own, error))?;
        made.push(own);
    }
    for (package, (name, text)) in
        packages.iter().flat_map(|(package, files)| files.iter().map(move |file| (package, file)))
    {
        let path = package.join(name);
        if read_file(&path).is_ok_and(|present| present == text.as_bytes()) {
            continue;
        }
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
        made.push(path);
    }
    Ok(made)
}

/// Refuses a directory with files that are not the contract of some version.
fn refuse_others(package: &Path, files: &[(&str, &str)]) -> Result<()> {
    for entry in fs::read_dir(package).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_known = files.iter().any(|(known, _)| name == *known);
        let is_contract = read_file(&path).is_ok_and(|text| text.starts_with(b"package pinion:"));
        if !(is_known && is_contract) {
            return Err(Failure::usage(format!("`{}` is not a file of the contract", path.display()))
                .hint("remove it, or name another directory"));
        }
    }
    Ok(())
}

/// Returns all files in one text, each under its name.
fn one_text() -> String {
    let files =
        [("world.wit", WORLD)].into_iter().chain(CONTRACT.iter().chain(HOOKS).map(|(name, text)| (*name, *text)));
    files.map(|(name, text)| format!("// {name}\n{text}\n")).collect()
}

fn files_as_json() -> serde_json::Value {
    let mut files = serde_json::Map::new();
    files.insert("wit/world.wit".to_owned(), WORLD.into());
    files.extend(CONTRACT.iter().map(|(name, text)| (format!("wit/{PACKAGE}/{name}"), (*text).into())));
    files.extend(HOOKS.iter().map(|(name, text)| (format!("wit/{}/{name}", HOOKS_PACKAGE.0), (*text).into())));
    json!({ "api": pinion_plugin_runtime::API_VERSION, "files": files })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::plugin::new::Language;
    use crate::commands::plugin::template;

    #[test]
    fn written_contract_is_a_package_with_a_world() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), WORLD).unwrap();
        let mut resolve = wit_parser::Resolve::default();
        let (package, _) = resolve.push_path(directory.path()).unwrap();
        let world = resolve.select_world(&[package], Some("plugin")).unwrap();
        let exports: Vec<_> = resolve.worlds[world].exports.keys().map(|key| resolve.name_world_key(key)).collect();
        assert!(exports.iter().any(|name| name.starts_with("pinion:plugin/tools@")), "{exports:?}");
    }

    #[test]
    fn world_that_names_hooks_of_runs_gets_their_package() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path()).unwrap();
        let world = "package my:plug;\n\nworld plugin {\n  export pinion:hooks/before-stop@0.1.0;\n}\n";
        fs::write(directory.path().join("world.wit"), world).unwrap();
        let made = write(directory.path(), WORLD).unwrap();
        assert!(made.iter().any(|file| file.ends_with("deps/pinion-hooks/hooks.wit")), "{made:?}");
        assert!(write(directory.path(), WORLD).unwrap().is_empty());
        let mut resolve = wit_parser::Resolve::default();
        let (package, _) = resolve.push_path(directory.path()).unwrap();
        resolve.select_world(&[package], Some("plugin")).unwrap();
    }

    #[test]
    fn package_decodes_to_the_contract() {
        let (name, binary) = package().unwrap();
        assert_eq!(name, format!("pinion:plugin@{}", pinion_plugin_runtime::API_VERSION));
        let decoded = wit_component::decode(&binary).unwrap();
        let (resolve, id) = (decoded.resolve(), decoded.package());
        assert!(matches!(decoded, wit_component::DecodedWasm::WitPackage(..)));
        let names: Vec<String> = resolve.packages.iter().map(|(_, package)| package.name.to_string()).collect();
        assert_eq!(names, [name]);
        // Each interface and world is there, with its texts and the version that introduced it.
        let package = &resolve.packages[id];
        let contract: String = CONTRACT.iter().map(|(_, text)| *text).collect();
        let count = |word: &str| contract.lines().filter(|line| line.starts_with(word)).count();
        assert_eq!((package.interfaces.len(), package.worlds.len()), (count("interface "), count("world ")));
        for id in package.interfaces.values() {
            let interface = &resolve.interfaces[*id];
            assert!(interface.stability.is_stable(), "{:?}", interface.name);
            let text = interface.docs.contents.as_deref().unwrap().lines().next().unwrap();
            assert!(contract.contains(text), "{text}");
        }
    }

    #[test]
    fn helper_of_each_language_is_found_in_its_projects() {
        use clap::ValueEnum as _;
        for language in Language::value_variants() {
            let directory = tempfile::tempdir().unwrap();
            assert!(helper_files(directory.path()).is_empty());
            template::write(directory.path(), *language, &template::Values::for_plugin("a", "a", false)).unwrap();
            let helper = helper_files(directory.path());
            assert!(!helper.is_empty(), "{language:?}");
            for (name, text) in helper {
                assert_eq!(fs::read_to_string(directory.path().join(name)).unwrap(), text, "{language:?}: {name}");
            }
            assert_eq!(uses_sdk(directory.path()), *language == Language::Rust);
        }
    }

    #[test]
    fn files_of_others_and_an_own_world_stay() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("world.wit"), "package my:own;").unwrap();
        write(directory.path(), WORLD).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("world.wit")).unwrap(), "package my:own;");
        assert!(write(directory.path(), WORLD).unwrap().is_empty(), "nothing changed");
        let types = directory.path().join(PACKAGE).join("types.wit");
        fs::write(&types, "package pinion:plugin@0.0.9;").unwrap();
        assert_eq!(
            write(directory.path(), WORLD).unwrap(),
            std::slice::from_ref(&types),
            "an older contract is replaced"
        );
        fs::write(&types, "notes").unwrap();
        assert!(write(directory.path(), WORLD).is_err());
        assert_eq!(fs::read_to_string(types).unwrap(), "notes");
    }
}
