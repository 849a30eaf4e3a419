//! Every command that the program, its plugins and the documents name exists, with its options.

use crate::command_line::parse;
use clap::CommandFactory as _;
use clap::error::ErrorKind;
use std::path::{Path, PathBuf};

/// Commands that only a build with the feature `local-models` has.
const LOCAL_MODELS: [&[&str]; 2] = [&["model", "pull"], &["model", "remove"]];

/// Words after `pinion` in code that are no commands, because the program answers them with a hint, or a test uses them.
const NO_COMMANDS: &[&str] = &["help", "run-in-sandbox", "greet"];

/// Stands for an argument that is known only when a text is made.
const PLACEHOLDER: &str = "x";

/// A command line in a text.
#[derive(Debug, PartialEq)]
struct Mention {
    words: Vec<String>,
    /// It stands in backquotes or on a separate line, so it is not prose.
    is_code: bool,
}

/// Returns the command lines of `pinion` in a text.
fn mentions(text: &str) -> Vec<Mention> {
    let found = text.match_indices("pinion ").filter_map(|(at, name)| {
        let before = text[..at].chars().next_back().unwrap_or('\n');
        // The name of the service in the key store of macOS is no command.
        if !"\n `\"($".contains(before) || text[..at].ends_with("-s ") {
            return None;
        }
        let rest = &text[at + name.len()..];
        let end = rest.find(['`', '"', '\n', ';', '|', '>', '<', '&', '#', '\\', '…', '\'']).unwrap_or(rest.len());
        let words: Vec<String> = rest[..end].split_whitespace().map(sample).filter(|word| !word.is_empty()).collect();
        let is_start = words.first().is_some_and(|word| word.starts_with(|c: char| c == '-' || c.is_ascii_lowercase()));
        is_start.then_some(Mention { words, is_code: before == '`' })
    });
    found.collect()
}

/// Returns a word as the command would get it, without punctuation of the sentence. A placeholder is some word.
fn sample(word: &str) -> String {
    match word.contains(['{', '}']) {
        true => PLACEHOLDER.to_owned(),
        false => word.trim_matches(['[', ']', '(', ')', ',', ':', '.', '*']).to_owned(),
    }
}

/// Returns whether the words of a command line are known. Arguments may be missing, and values are not checked.
fn is_known(words: &[String]) -> bool {
    let line = std::iter::once("pinion").chain(words.iter().map(String::as_str));
    match parse(line.map(Into::into).collect()) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand),
    }
}

/// Returns the mistake in a mention.
fn mistake(mention: &Mention) -> Option<String> {
    let words = &mention.words;
    let is_left_out =
        |command: &&[&str]| words.iter().map(String::as_str).take(command.len()).eq(command.iter().copied());
    if !cfg!(feature = "local-models") && LOCAL_MODELS.iter().any(is_left_out) {
        return None;
    }
    let mut command = super::Cli::command();
    command.build();
    // `help` repeats the commands of the program.
    let mut commands = command.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "help");
    let mut has = |name: &str| commands.any(|known| known == name);
    if !words[0].starts_with('-') && !has(&words[0]) {
        let is_wrong = mention.is_code && words[0] != PLACEHOLDER && !NO_COMMANDS.contains(&words[0].as_str());
        return is_wrong.then(|| format!("no command `{}`", words[0]));
    }
    // The words after the command may be the rest of a sentence.
    let known = (1..=words.len()).rev().find(|count| is_known(&words[..*count])).unwrap_or(0);
    let next = words.get(known)?;
    (next.starts_with('-') || mention.is_code).then(|| format!("`{next}` is unknown in `pinion {}`", words.join(" ")))
}

/// Returns the sources of the program and of its plugins, and the documents.
fn texts() -> Vec<PathBuf> {
    fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            if path.is_dir() && !["target", "tests", "dist", "node_modules", "benches"].contains(&name.as_str()) {
                collect(&path, files);
            } else if name.ends_with(".md") || name == "help.txt" || (name.ends_with(".rs") && !name.contains("test")) {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    let directories = ["host", "plugins", "plugin-sdk", "examples", "docs"].map(|name| root.join(name));
    directories.iter().filter(|directory| directory.is_dir()).for_each(|directory| collect(directory, &mut files));
    files
}

#[test]
fn named_commands_and_options_exist() {
    let mut count = 0;
    let mut mistakes = Vec::new();
    for file in texts() {
        let text = std::fs::read_to_string(&file).unwrap();
        for mention in mentions(&text) {
            count += 1;
            mistakes.extend(mistake(&mention).map(|mistake| format!("{}: {mistake}", file.display())));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(count > 300, "{count} command lines were found");
}

#[test]
fn unknown_commands_and_options_are_mistakes() {
    let wrong =
        ["run `pinion plugins list`", "`pinion trust ad`", "run pinion mcp add --nme x", "`pinion doctor --fast`"];
    for text in wrong {
        let found = mentions(text);
        assert!(found.len() == 1 && mistake(&found[0]).is_some(), "{text}: {found:?}");
    }
    for text in ["pinion needs {least}", "run pinion trust add in the project", "`pinion mcp login {name} --device`"] {
        assert_eq!(mentions(text).iter().find_map(mistake), None, "{text}");
    }
}
