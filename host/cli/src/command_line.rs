//! The command line before it is run: its parse, and mistakes that the parser cannot see.

use crate::commands::Cli;
use clap::{CommandFactory as _, Parser as _, ValueEnum as _};
use pinion_app::failure::{Failure, Result};
use pinion_app::names::nearest;
use pinion_console::args::OutputFormat;
use std::ffi::OsString;

/// Parses the arguments of the program; the first one is its name.
pub(crate) fn parse(args: Vec<OsString>) -> std::result::Result<Cli, clap::Error> {
    Cli::try_parse_from(command_first(helped(expanded(args))))
}

/// Returns the value of `--output-format`, even on a command line that cannot be parsed.
pub(crate) fn output_format(args: &[OsString]) -> OutputFormat {
    let words = || args.iter().map(|arg| arg.to_string_lossy()).take_while(|arg| arg != "--");
    let named = words().find_map(|arg| arg.strip_prefix("--output-format=").map(str::to_owned));
    let next = || words().skip_while(|arg| arg != "--output-format").nth(1).map(std::borrow::Cow::into_owned);
    let format = named.or_else(next).and_then(|name| OutputFormat::from_str(&name, false).ok());
    format.unwrap_or_default()
}

/// Refuses a prompt that is a command line or nearly one, because a prompt is sent to a model. The option `--print`, or
/// `--` before it, means that the words are a prompt.
pub(crate) fn check_prompt(cli: &Cli, args: &[OsString]) -> Result<()> {
    let run = &cli.run;
    let is_meant = run.print || run.plan || args.iter().any(|arg| arg == "--");
    if is_meant || cli.command.is_some() {
        return Ok(());
    }
    let words = if run.prompt.len() == 1 { "the word" } else { "these words" };
    let send = format!("`pinion -p {}` sends {words} to the model", run.prompt.join(" "));
    let meant = without_address(&run.prompt);
    if !run.continues()
        && let Some((word, hint)) = reserved_words(&meant)
    {
        return Err(Failure::usage(format!("no command `{word}`")).hint(format!("{hint}; {send}")));
    }
    let (Some(word), Some(line)) = (meant.first(), nearest_line(&meant)) else { return Ok(()) };
    if meant != run.prompt {
        let unknown = Failure::usage(format!("no command `{}`", run.prompt.join(" ")));
        return Err(unknown.hint(format!("did you mean `pinion {}`? {send}", line.join(" "))));
    }
    if line == run.prompt {
        let ignored = Failure::usage(format!("the options before the command `{word}` do not apply to it"));
        return Err(ignored.hint(format!("run `pinion {}`; {send}", line.join(" "))));
    }
    let unknown = if line[0] == *word { run.prompt[..2].join(" ") } else { word.clone() };
    let hint = format!("did you mean `pinion {}`? {send}", line.join(" "));
    Err(Failure::usage(format!("no command `{unknown}`")).hint(hint))
}

/// Words that address this program. A prompt with one of them has nothing else to be about, if a command is left.
const ADDRESS: &[&str] = &["pinion", "itself", "yourself", "self", "now", "please", "immediately", "again"];
/// Words that say nothing beside those.
const AROUND_ADDRESS: &[&str] = &["the", "to", "latest", "newest", "version", "program", "cli", "app"];

/// Returns the words of a prompt without those that address the program, such as `upgrade now`; all words if none does or
/// if no other word is left.
fn without_address(words: &[String]) -> Vec<String> {
    let is_in = |list: &[&str], word: &String| list.iter().any(|known| word.eq_ignore_ascii_case(known));
    let is_number = |word: &String| word.trim_start_matches('v').bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let is_address = |word: &&String| is_in(ADDRESS, word);
    let rest: Vec<String> = words.iter().filter(|word| !is_address(word)).cloned().collect();
    match rest.split_first() {
        Some((first, more)) if rest.len() < words.len() => {
            let is_around = more.iter().all(|word| is_in(AROUND_ADDRESS, word) || is_number(word));
            if is_around { vec![first.clone()] } else { rest }
        }
        _ => words.to_vec(),
    }
}

/// Returns the reserved word that a prompt consists of, and its answer.
fn reserved_words(words: &[String]) -> Option<(String, String)> {
    match words {
        [word] => Some((word.clone(), reserved(word)?)),
        [first, second] => {
            let both = format!("{first} {second}").to_lowercase();
            let word = match both.as_str() {
                "log in" | "sign in" => "signin",
                "log out" | "sign out" => "signout",
                "check updates" | "self update" => "update",
                "manual page" => "manual",
                _ => return None,
            };
            Some((both, reserved(word)?))
        }
        [first, second, third] if format!("{first} {second} {third}").eq_ignore_ascii_case("check for updates") => {
            Some(("check for updates".to_owned(), reserved("update")?))
        }
        _ => None,
    }
}

/// Returns the answer to a word that users take for a command, and that is no prompt by itself.
fn reserved(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let (line, does) = match word.as_str() {
        "update" | "upgrade" | "self-update" | "install" | "reinstall" => {
            ("update", "installs a newer release, or names the command that does")
        }
        "uninstall" | "remove" => {
            let remove = format!("cargo uninstall {}", env!("CARGO_PKG_NAME"));
            return Some(format!("run `{remove}`, and delete the directories that `pinion config path` prints"));
        }
        "manual" | "manpage" | "usage" | "docs" | "?" => {
            ("--help", "explains all options, and `pinion help COMMAND` a command")
        }
        "version" => ("--version", "prints the version"),
        "status" | "diagnose" | "health" => ("doctor", "checks the installation, keys and plugins"),
        "auth" | "signin" | "sign-in" | "keys" | "api-key" => ("login PROVIDER", "stores a key"),
        "signout" | "sign-out" => ("logout PROVIDER", "removes a stored key"),
        "settings" | "setup" | "configure" | "preferences" => ("config edit", "opens the config"),
        "chat" | "repl" | "start" => ("\"TASK\"", "starts a conversation, and so does `pinion` alone"),
        "continue" | "resume" => ("-c", "continues the last conversation, and `pinion -r` lists all"),
        "history" => ("session list", "lists sessions"),
        "tools" | "extensions" | "skills" => ("plugin list", "lists plugins and their tools"),
        "exec" => ("-p \"TASK\"", "runs a task and prints the answer"),
        "init" | "undo" | "redo" | "compact" | "cost" | "theme" | "thinking" | "mode" | "quit" | "exit" => {
            return Some(format!("`/{word}` is a command in a conversation"));
        }
        _ => return None,
    };
    Some(format!("`pinion {line}` {does}"))
}

/// Returns the command line that these words were probably meant to be. With more than the name of a command, they must
/// parse, or continue with the name of one of its subcommands.
fn nearest_line(words: &[String]) -> Option<Vec<String>> {
    let (word, rest) = words.split_first()?;
    let mut cli = Cli::command();
    cli.build();
    let name = nearest(word, cli.get_subcommands().map(clap::Command::get_name).chain(["help"]))?;
    let mut line = [&[name.to_owned()], rest].concat();
    let Some(second) = rest.first() else { return Some(line) };
    let subcommands = cli.find_subcommand(name).into_iter().flat_map(clap::Command::get_subcommands);
    let names = subcommands.map(clap::Command::get_name).filter(|name| *name != "help");
    if let Some(subcommand) = nearest(second, names) {
        line[1] = subcommand.to_owned();
        return Some(line);
    }
    let parsed = Cli::try_parse_from(std::iter::once("pinion").chain(line.iter().map(String::as_str)));
    parsed.map_or_else(|error| !error.use_stderr(), |_| true).then_some(line)
}

/// Replaces `-nc`, which the parser cannot declare because it has two letters.
fn expanded(mut args: Vec<OsString>) -> Vec<OsString> {
    let options = args.iter_mut().take_while(|arg| *arg != "--");
    options.filter(|arg| *arg == "-nc").for_each(|arg| *arg = "--no-context-files".into());
    args
}

/// Turns `help --help`, which the parser does not know, into `--help`, and `version` into `--version`.
fn helped(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.len() == 2 && args[1] == "version" {
        args[1] = "--version".into();
    }
    if args.len() == 3 && args[1] == "help" && (args[2] == "--help" || args[2] == "-h") {
        args.remove(1);
    }
    args
}

/// Moves options that every command has behind the command that follows them: the parser looks for a command only in
/// the first place.
fn command_first(mut args: Vec<OsString>) -> Vec<OsString> {
    let mut at = 1;
    while let Some(arg) = args.get(at).and_then(|arg| arg.to_str()) {
        match words_of_global(arg) {
            0 => break,
            words => at += words,
        }
    }
    // The parser is built again for each look, which takes as long as the parse itself.
    let is_command = |word: &str| !word.starts_with('-') && Cli::command().find_subcommand(word).is_some();
    if at > 1 && args.get(at).and_then(|arg| arg.to_str()).is_some_and(is_command) {
        args[1..=at].rotate_right(1);
    }
    args
}

/// Returns the number of arguments that an option of every command takes, itself included, or 0 for anything else.
fn words_of_global(arg: &str) -> usize {
    match arg {
        "--cd" => 2,
        "--verbose" | "--quiet" => 1,
        _ if arg.starts_with("--cd=") => 1,
        _ if !arg.starts_with('-') || arg.starts_with("--") || arg == "-" => 0,
        _ => match arg[1..].trim_start_matches(['v', 'q']) {
            "" => 1,
            "C" => 2,
            directory if directory.starts_with('C') => 1,
            _ => 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Command;

    fn args(words: &[&str]) -> Vec<OsString> {
        ["pinion"].iter().chain(words).map(OsString::from).collect()
    }

    fn checked(words: &[&str]) -> Result<()> {
        check_prompt(&parse(args(words)).unwrap(), &args(words))
    }

    #[test]
    fn command_is_found_after_options_of_every_command() {
        for words in
            [&["-C", "/x", "doctor"][..], &["-vC/x", "doctor"], &["--cd=/x", "-q", "doctor"], &["doctor", "-v"]]
        {
            let cli = parse(args(words)).unwrap();
            assert!(matches!(cli.command, Some(Command::Doctor(_))), "{words:?}");
        }
        let cli = parse(args(&["-C", "/x", "doctor"])).unwrap();
        assert_eq!(cli.global.work_in.as_deref(), Some(std::path::Path::new("/x")));
        assert!(parse(args(&["-C", "doctor", "go", "on"])).unwrap().command.is_none());
    }

    #[test]
    fn short_option_of_two_letters_is_expanded_before_the_prompt() {
        let run = parse(args(&["-nc", "-p", "--", "-nc"])).unwrap().run;
        assert!(run.no_context_files && run.prompt == ["-nc"]);
    }

    #[test]
    fn word_near_a_command_is_not_a_prompt() {
        for (words, hint) in [
            (&["doctr"][..], "`pinion doctor`"),
            (&["models"], "`pinion model`"),
            (&["-m", "a/b", "session"], "`pinion session`"),
            (&["-C", "/x", "halp"], "`pinion help`"),
            (&["sesion", "list"], "`pinion session list`"),
            (&["plugn", "build", "x"], "`pinion plugin build x`"),
            (&["plugins", "lst"], "`pinion plugin list`"),
            (&["-m", "a/b", "session", "lst"], "`pinion session list`"),
            (&["-m", "a/b", "session", "show", "x"], "`pinion session show x`"),
            (&["logn", "anthropic"], "`pinion login anthropic`"),
            (&["halp", "session"], "`pinion help session`"),
        ] {
            let failure = checked(words).unwrap_err();
            assert!(
                failure.remedy().is_some_and(|text| text.contains(hint) && text.contains("pinion -p ")),
                "{failure}"
            );
        }
        for words in [
            &["-p", "doctr"][..],
            &["--", "doctr"],
            &["explain"],
            &["hello"],
            &["doctr it"],
            &["--plan", "models"],
            &["-p", "sesion", "list"],
            &["models", "are", "slow"],
            &["logic", "errors", "in", "the", "parser"],
            &["sessions", "of", "the", "server"],
        ] {
            assert!(checked(words).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn word_that_is_taken_for_a_command_is_answered_and_not_sent() {
        for (word, hint) in [
            ("Upgrade", "`pinion update`"),
            ("reinstall", "`pinion update`"),
            ("uninstall", "`cargo uninstall pinion-cli`"),
            ("manual", "`pinion --help`"),
            ("?", "`pinion --help`"),
            ("status", "`pinion doctor`"),
            ("settings", "`pinion config edit`"),
            ("undo", "`/undo` is a command in a conversation"),
            ("resume", "`pinion -c`"),
        ] {
            let failure = checked(&[word]).unwrap_err();
            let remedy = failure.remedy().unwrap_or_default();
            assert!(remedy.contains(hint) && remedy.contains(&format!("`pinion -p {word}` sends")), "{failure}");
        }
        for words in [&["-p", "update"][..], &["--", "update"], &["upgrade", "the", "docs"], &["-c", "continue"]] {
            assert!(checked(words).is_ok(), "{words:?}");
        }
        for (words, hint) in [
            (&["upgrade", "now"][..], "`pinion update`"),
            (&["upgrade", "pinion"], "`pinion update`"),
            (&["please", "update", "Pinion", "to", "the", "latest", "version"], "`pinion update`"),
            (&["upgrade", "pinion", "to", "v0.2.0"], "`pinion update`"),
            (&["uninstall", "yourself"], "`cargo uninstall pinion-cli`"),
            (&["check", "for", "updates"], "`pinion update`"),
            (&["version", "please"], "`pinion --version`"),
            (&["manual", "page"], "`pinion --help`"),
            (&["sign", "in"], "`pinion login PROVIDER`"),
            (&["please", "login"], "`pinion login`"),
            (&["plugins", "list", "now"], "`pinion plugin list`"),
        ] {
            let failure = checked(words).unwrap_err();
            let remedy = failure.remedy().unwrap_or_default();
            let sent = format!("`pinion -p {}` sends these words", words.join(" "));
            assert!(remedy.contains(hint) && remedy.contains(&sent), "{words:?}: {failure}");
        }
        for words in [
            &["upgrade", "the", "version"][..],
            &["upgrade", "to", "the", "latest", "version", "of", "serde"],
            &["upgrade", "serde", "now"],
            &["log", "in", "the", "parser"],
            &["explain", "pinion"],
            &["fix", "it", "now"],
            &["try", "again"],
            &["run", "the", "tests", "again"],
            &["what", "now"],
            &["now"],
            &["please"],
            &["remove", "the", "cache", "please"],
            &["check", "the", "updates"],
        ] {
            assert!(checked(words).is_ok(), "{words:?}");
        }
        let version = parse(args(&["version"])).unwrap_err();
        assert_eq!(version.kind(), clap::error::ErrorKind::DisplayVersion);
    }

    #[test]
    fn output_format_is_found_on_a_broken_command_line() {
        assert_eq!(output_format(&args(&["--nonsense", "--output-format", "json"])), OutputFormat::Json);
        assert_eq!(output_format(&args(&["--output-format=stream-json", "--x"])), OutputFormat::StreamJson);
        assert_eq!(output_format(&args(&["--", "--output-format", "json"])), OutputFormat::Text);
    }
}
