//! Every command in the author's guide and in the READMEs of the helpers runs as it is written there. `authors.rs` runs those
//! that start a plugin in each language.

use super::authors::{author, finish, is_there, run, shell, starts};
use pinion_tests::{Ended, Pinion, code_spans, document, guide, shell_blocks};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Stdio;

/// The guide for authors, in place of the path of a document.
const GUIDE: &str = "the guide";

/// The documents, with the language of the project that their commands run in.
const DOCUMENTS: &[(&str, &str)] = &[
    (GUIDE, "c"),
    ("plugin-sdk/README.md", "c"),
    ("plugin-sdk/js/README.md", "js"),
    ("plugin-sdk/python/README.md", "python"),
];

/// Commands that do not run, with the reason. All others do.
const NOT_RUN: &[(&str, &str)] = &[
    ("npm install", "it downloads a toolchain; the long mode runs it"),
    ("rustup target add wasm32-wasip2", "it downloads a toolchain"),
    ("pinion -p", "it names a mode, and has no prompt"),
    ("pinion mcp serve", "it names a mode, and serves until its client leaves"),
    ("pinion plugin", "it names a group of commands"),
    ("pinion plugin check", "it names a command"),
    ("pinion plugin diff", "it names a command"),
    ("pinion plugin pack", "it names a command"),
    ("pinion plugin check text.wasm", "it needs a component of a toolchain; `plain.rs` checks one"),
    ("pinion plugin pack text.wasm --name NAME", "it needs a component of a toolchain; `packing.rs` packs one"),
    ("pinion plugin replay SESSION --with FILE", "it needs a session; `product/replay.rs` runs it"),
    ("pinion plugin test --model MODEL", "it needs a model; `product/evaluation_cases.rs` runs it"),
    ("pinion plugin publish", "it makes a key; `product/packages/registry.rs` runs it"),
    ("pinion plugin publish ./kit --out dist", "it needs a package; `product/packages/registry.rs` runs it"),
    (
        "pinion plugin publish build/greet.wasm --to oci://ghcr.io/acme/greet:1.0.0",
        "it needs a registry; `product/packages/registry.rs` runs it",
    ),
    ("jco componentize --backend-qjs-disable-async", "it names an option, which the templates use"),
    ("cargo test", "it names the runner of this test"),
    ("cargo doc -p pinion-plugin-sdk --open", "it opens a browser; `tests/run.sh` builds the documentation"),
    ("(cd plugins && PINION_UPDATE=1 cargo test --locked -p pinion-bindings)", "it changes files of the repository"),
];

/// Words of the text that stand for something.
const STAND_FOR: &[(&str, &str)] = &[
    ("DIR", "."),
    ("FILE", "build/word-count.wasm"),
    ("NAME", "another"),
    ("TOOL", "word_count"),
    ("JSON", r#"'{"path": "README.md"}'"#),
];

/// Programs that start a command in the text.
const PROGRAMS: &[&str] = &[
    "pinion",
    "(cd",
    "cd",
    "npm",
    "npx",
    "pip",
    "python3",
    "cargo",
    "rustup",
    "jco",
    "componentize-py",
    "go",
    "zig",
    "wkg",
];

/// Returns the commands of a document that no start of a language has, each once: the lines of its shell blocks, then those in
/// its text.
fn commands(path: &str) -> Vec<String> {
    let text = if path == GUIDE { guide() } else { document(path).text };
    let starts: Vec<Vec<String>> = starts().collect();
    let blocks = shell_blocks(&text).into_iter().filter(|block| !starts.contains(block));
    let is_command = |span: &String| {
        let mut words = span.split(' ');
        words.next().is_some_and(|first| PROGRAMS.contains(&first)) && words.next().is_some()
    };
    let mut commands: Vec<String> = Vec::new();
    for command in blocks.flatten().chain(code_spans(&text).into_iter().filter(is_command)) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}

fn runs(command: &str) -> bool {
    NOT_RUN.iter().all(|(not_run, _)| command != *not_run)
}

/// A project of an author, with the files that the documents mention.
struct Project {
    pinion: Pinion,
    directory: PathBuf,
}

impl Project {
    fn new(language: &str) -> Self {
        let pinion = author();
        let created = run(&pinion, ["plugin", "new", "word-count", "--lang", language]);
        assert_eq!(created.code, Some(0), "{created:?}");
        let directory = pinion.workspace().join("word-count");
        Self { pinion, directory }
    }

    /// Builds the component, and the one that something else built: a core module here.
    fn build(&self) {
        for line in ["pinion plugin build", "pinion plugin grant build/word-count.wasm files=read"] {
            assert_eq!(self.run(line).code, Some(0), "{line}");
        }
        fs::copy(self.directory.join("build/plugin.wasm"), self.directory.join("other.wasm")).unwrap();
    }

    /// Runs a command in the project, or next to it if it creates another one.
    fn run(&self, line: &str) -> Ended {
        let beside = self.pinion.workspace();
        match () {
            () if line.starts_with("pinion plugin watch") => self.run_until_interrupted(line),
            () if line.starts_with("pinion plugin new") => finish(&mut shell(&self.pinion, &beside, line)),
            () => finish(&mut shell(&self.pinion, &self.directory, line)),
        }
    }

    /// Runs a command that watches, and presses Ctrl-C once it has built the project.
    fn run_until_interrupted(&self, line: &str) -> Ended {
        let mut shell = shell(&self.pinion, &self.directory, &format!("exec {line}"));
        let mut child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.ends_with("Ctrl-C ends\n") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "`{line}` ended by itself: {said}");
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        stderr.read_to_string(&mut said).unwrap();
        let output = child.wait_with_output().unwrap();
        Ended { code: output.status.code(), stdout: String::from_utf8(output.stdout).unwrap(), stderr: said }
    }
}

/// Replaces the words that stand for something.
fn filled_in(command: &str) -> String {
    let filled_in = command
        .split(' ')
        .map(|word| STAND_FOR.iter().find(|(name, _)| *name == word).map_or(word, |(_, value)| *value));
    filled_in.collect::<Vec<_>>().join(" ")
}

/// Runs the commands of a document in one project, in their order. Returns the project; `None` if there is no
/// toolchain.
fn run_all(document: &str) -> Option<Project> {
    let (_, language) = DOCUMENTS.iter().find(|(name, _)| *name == document).unwrap();
    let commands = commands(document);
    if !is_there(language) {
        return None;
    }
    let project = Project::new(language);
    if *language == "c" {
        project.build();
    }
    for command in commands.iter().filter(|command| runs(command)) {
        let ended = project.run(&filled_in(command));
        assert_eq!(ended.code, Some(0), "`{command}` of {document}: {ended:?}");
    }
    Some(project)
}

#[test]
fn every_command_of_the_guide_runs_as_it_is_written() {
    let Some(project) = run_all(GUIDE) else { return };
    let list = project.run("pinion plugin list").stdout;
    assert!(list.contains("word-count") && list.contains("other"), "`build --install` and `pack --install`: {list}");
    let info = project.run("pinion plugin info word-count").stdout;
    assert!(info.contains("read files: granted: "), "`grant`: {info}");
    assert!(project.directory.join("pinion-plugin.wasm").is_file(), "`wit --package`");
}

#[test]
fn every_command_of_the_readmes_of_the_helpers_runs_as_it_is_written() {
    for (document, _) in &DOCUMENTS[1..] {
        run_all(document);
    }
}

#[test]
fn guide_has_the_starts_and_the_commands_that_are_not_run() {
    let blocks = shell_blocks(&guide());
    assert!(starts().all(|start| blocks.contains(&start)));
    let all: Vec<String> = DOCUMENTS.iter().flat_map(|(document, _)| commands(document)).collect();
    for (command, reason) in NOT_RUN {
        assert!(!reason.is_empty() && all.iter().any(|other| other == command), "no document has `{command}`");
    }
    assert!(all.iter().filter(|command| runs(command)).count() > 15, "{all:#?}");
}
