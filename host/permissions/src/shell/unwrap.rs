//! Commands in the arguments of other commands: `env`, `timeout`, `xargs`, `sudo`, `bash -c`, `find -exec`, and
//! built-ins that change the following commands.

use crate::git::{self, Meaning};
use crate::shell::names::{CHANGING, LOADERS, OPAQUE, OTHER_SHELLS, SHELLS, TRANSPARENT};
use crate::shell::script::{Redirect, Script, Simple, Unreadable};
use crate::shell::walk::{ShellState, Walker};
use crate::shell::word::{Word, WordKind};
use crate::shell::{MAX_COMMANDS, nested};

/// Maximum nesting of wrappers, as in `nice time nohup …`.
const MAX_WRAPPERS: usize = 8;
/// Built-ins that take the name of a variable, whose index they compute.
const NAMING: &[&str] = &["test", "printf", "read", "mapfile", "readarray", "getopts", "wait"];

/// Adds a command and the commands that it starts.
pub(super) fn add(walker: &mut Walker<'_>, mut command: Simple, place: &mut ShellState) -> Result<(), Unreadable> {
    if walker.script.commands.len() >= MAX_COMMANDS {
        return Err(Unreadable::new(format!("it has more than {MAX_COMMANDS} commands")));
    }
    // The command behind these runs in the shell itself, and may be a built-in.
    for depth in 0.. {
        let Some(name @ ("time" | "command" | "builtin")) = command.words[0].literal() else { break };
        let Some(within) = inner(name, &command).filter(|within| !within.words.is_empty()) else { break };
        if depth > MAX_WRAPPERS {
            return Err(Unreadable::new("commands are nested too deep"));
        }
        if name == "builtin" {
            walker.changed("`builtin` changes what follows");
        }
        let outer = std::mem::replace(&mut command, within);
        walker.script.commands.push(Simple { is_contained: true, ..outer });
    }
    let first = &command.words[0];
    let Some(name) = first.literal().map(str::to_owned) else {
        let reason = "the name of the program is computed";
        walker.script.commands.push(Simple { unknown: Some(reason), ..command });
        return Ok(());
    };
    let has_index = command.words[1..].iter().any(|word| word.text.contains('['));
    walker.script.runs_data |= name == "let" || (has_index && NAMING.contains(&name.as_str()));
    walker.script.runs_data |= matches!(name.as_str(), "." | "source") && is_substituted(&command);
    match name.as_str() {
        "cd" | "chdir" => cd(walker, command, place),
        "pushd" | "popd" => {
            walker.change_directory(place, None);
            walker.script.commands.push(command);
            Ok(())
        }
        "eval" => eval(walker, command, place),
        "trap" | "alias" => {
            walker.changed(format!("`{name}` changes what follows"));
            // It runs later, wherever that is.
            let later = Simple { directories: None, ..command.clone() };
            for code in command.words[1..].iter().filter_map(Word::literal) {
                let code = code.split_once('=').filter(|_| name == "alias").map_or(code, |(_, code)| code);
                let _ = script(walker, code, &later, Standing::Guess);
            }
            walker.script.commands.push(command);
            Ok(())
        }
        "set" => {
            if !command.words[1..].iter().all(is_harmless_setting) {
                walker.changed("`set` changes what follows");
            }
            walker.script.commands.push(command);
            Ok(())
        }
        "printf"
            if command.words.get(1).is_some_and(|word| word.literal().is_none_or(|text| text.starts_with("-v"))) =>
        {
            walker.changed("`printf` sets a variable");
            walker.script.commands.push(command);
            Ok(())
        }
        _ => {
            if CHANGING.contains(&name.as_str()) {
                walker.changed(format!("`{name}` changes what follows"));
            }
            start(walker, command, 0)
        }
    }
}

/// Options of `set` that only make a script stricter or more talkative.
fn is_harmless_setting(word: &Word) -> bool {
    let text = word.literal().unwrap_or("?");
    text == "pipefail"
        || text.strip_prefix(['-', '+']).is_some_and(|letters| letters.chars().all(|c| "eufo".contains(c)))
}

fn cd(walker: &mut Walker<'_>, command: Simple, place: &mut ShellState) -> Result<(), Unreadable> {
    let arguments: Vec<Option<&str>> = command.words[1..].iter().map(Word::literal).collect();
    match arguments.as_slice() {
        [] => walker.change_directory(place, walker.home),
        [Some("-")] | [None] | [None, ..] => walker.change_directory(place, None),
        [Some("--"), Some(to)] => walker.change_directory(place, Some(to)),
        [Some(to)] if !to.starts_with('-') => walker.change_directory(place, Some(to)),
        _ => walker.change_directory(place, None),
    }
    walker.script.commands.push(command);
    Ok(())
}

fn eval(walker: &mut Walker<'_>, command: Simple, place: &mut ShellState) -> Result<(), Unreadable> {
    walker.changed("`eval` changes what follows");
    let words: Option<Vec<&str>> = command.words[1..].iter().map(Word::literal).collect();
    let directories = place.directories.take();
    let unknown = match words {
        Some(words) => {
            script(walker, &words.join(" "), &Simple { directories, ..command.clone() }, Standing::Own)?;
            None
        }
        None => Some("`eval` runs code that is computed"),
    };
    walker.script.commands.push(Simple { unknown, is_contained: unknown.is_none(), ..command });
    Ok(())
}

/// Adds a command that is not a built-in, with the commands that it starts.
fn start(walker: &mut Walker<'_>, command: Simple, depth: usize) -> Result<(), Unreadable> {
    let name = command.program().unwrap_or_default().to_owned();
    if depth > MAX_WRAPPERS {
        return Err(Unreadable::new("commands are nested too deep"));
    }
    if SHELLS.contains(&name.as_str()) || OTHER_SHELLS.contains(&name.as_str()) {
        return shell(walker, command, SHELLS.contains(&name.as_str()));
    }
    if let Some(inner) = inner(&name, &command) {
        if inner.words.is_empty() {
            walker.script.commands.push(command);
            return Ok(());
        }
        walker.script.commands.push(Simple { is_contained: true, ..command });
        return match inner.words[0].literal() {
            Some(_) => start(walker, inner, depth + 1),
            None => {
                let unknown = Some("the name of the program is computed");
                walker.script.commands.push(Simple { unknown, ..inner });
                Ok(())
            }
        };
    }
    if matches!(name.as_str(), "sudo" | "doas")
        && let Some(inner) = other_user(&command)
    {
        walker.script.commands.push(command);
        let before = walker.script.commands.len();
        start(walker, inner, depth + 1)?;
        walker.script.commands[before..].iter_mut().for_each(|command| command.is_contained = true);
        return Ok(());
    }
    match name.as_str() {
        "xargs" => return xargs(walker, command, depth),
        "git" => aliases(walker, &command),
        "find" => find(walker, &command, depth)?,
        _ if OPAQUE.contains(&name.as_str()) || LOADERS.iter().any(|loader| name.starts_with(loader)) => {
            guesses(walker, &command)?;
        }
        _ => {}
    }
    walker.script.commands.push(command);
    Ok(())
}

/// Returns the command that a transparent wrapper starts; without words if it starts no command.
fn inner(name: &str, command: &Simple) -> Option<Simple> {
    let (_, with_value, flags, before) = TRANSPARENT.iter().find(|(wrapper, ..)| *wrapper == name)?;
    let mut inner = Simple { ..command.clone() };
    let mut words = command.words[1..].iter().peekable();
    while let Some(text) = words.peek().and_then(|word| word.literal()) {
        if text == "--" {
            words.next();
            break;
        }
        let is_number = text.strip_prefix('-').is_some_and(|text| text.parse::<u32>().is_ok());
        match text {
            // `command -v` and its like only look a program up.
            "-v" | "-V" if name == "command" => return None,
            _ if with_value.contains(&text) => {
                words.next();
                words.next()?.literal()?;
                continue;
            }
            _ if with_value.iter().any(|option| is_joined(text, option)) || is_number || flags.contains(&text) => {}
            _ if text.starts_with('-') => return None,
            _ => break,
        }
        words.next();
    }
    for _ in 0..*before {
        words.next()?.literal()?;
    }
    if name == "env" {
        while let Some((variable, value)) = words.peek().and_then(|word| word.text.split_once('=')) {
            let kind = words.next()?.kind;
            inner.assignments.push((variable.to_owned(), Word { text: value.to_owned(), kind }));
        }
    }
    inner.words = words.cloned().collect();
    Some(inner)
}

/// Returns the command that `sudo` starts, if all its options are known.
fn other_user(command: &Simple) -> Option<Simple> {
    const VALUES: &[&str] = &["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-D", "--user", "--group", "--chdir"];
    let mut words = command.words[1..].iter().peekable();
    while let Some(text) = words.peek().and_then(|word| word.literal()).filter(|text| text.starts_with('-')) {
        words.next();
        if VALUES.contains(&text) {
            words.next();
        }
    }
    while words.next_if(|word| word.text.contains('=') && !word.text.starts_with('=')).is_some() {}
    let words: Vec<Word> = words.cloned().collect();
    words.first()?.literal()?;
    Some(Simple { words, ..command.clone() })
}

/// Adds the commands in aliases of git: those that a config defines, and those that the line itself defines or records.
///
/// An unknown alias may run anything, so that rules that deny lead to a question.
fn aliases(walker: &mut Walker<'_>, command: &Simple) {
    let is_plain = |word: &&Word| word.text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=@+".contains(c));
    let plain =
        |words: &[Word]| words.iter().filter(is_plain).map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    let rest = plain(&command.words[1..]);
    let line = |code: &str, rest: &str| match code.trim().strip_prefix('!') {
        Some(code) => format!("{code} {rest}"),
        None => format!("git {code} {rest}"),
    };
    let is_alias = |name: &str| name.to_ascii_lowercase().contains("alias.");
    let given = command.words.iter().filter_map(|word| word.text.split_once('=').filter(|(name, _)| is_alias(name)));
    let given = given.map(|(_, code)| line(code, if code.starts_with('!') { "" } else { &rest }));
    let recorded = command.words.windows(2).filter(|words| is_alias(&words[0].text) && !words[0].text.contains('='));
    let recorded = recorded.map(|words| line(&words[1].text, ""));
    for code in given.chain(recorded).take(4).collect::<Vec<_>>() {
        let _ = script(walker, &code, command, Standing::Guess);
    }
    let meaning = match walker.nesting == 0 && walker.script.changes.is_empty() {
        true => git::meaning(command, walker.scene),
        false if git::subcommand(command).is_none_or(|(_, word)| git::is_command(word)) => Meaning::Command,
        // A variable may name another config.
        false => Meaning::Unknown,
    };
    match meaning {
        Meaning::Command | Meaning::Program => {}
        Meaning::Alias { codes, .. } => {
            let at = git::subcommand(command).map_or(1, |(at, _)| at + 1);
            let rest = plain(&command.words[at..]);
            for code in codes.iter().take(4) {
                // Git starts a line of the shell at the top of the repository.
                let directories = command.directories.clone().filter(|_| !code.trim().starts_with('!'));
                let of = Simple { directories, ..command.clone() };
                walker.script.runs_data |= script(walker, &line(code, &rest), &of, Standing::Contained).is_err();
            }
            walker.script.runs_data |= codes.len() > 4;
        }
        Meaning::Unknown => walker.script.runs_data = true,
    }
}

/// Returns whether a word is an option with its value in it.
fn is_joined(text: &str, option: &str) -> bool {
    let rest = text.strip_prefix(option);
    rest.is_some_and(|rest| rest.starts_with('=') || (!option.starts_with("--") && !rest.is_empty()))
}

fn xargs(walker: &mut Walker<'_>, command: Simple, depth: usize) -> Result<(), Unreadable> {
    const VALUES: &[&str] = &[
        "-n",
        "-P",
        "-I",
        "-L",
        "-d",
        "-s",
        "-E",
        "-a",
        "--max-args",
        "--max-procs",
        "--delimiter",
        "--replace",
        "--arg-file",
    ];
    const PLAIN: &[&str] =
        &["-0", "-r", "-t", "--null", "--no-run-if-empty", "--verbose", "-x", "--exit", "-0r", "-r0"];
    let mut at = 1;
    while let Some(text) = command.words.get(at).and_then(Word::literal) {
        match text {
            _ if VALUES.contains(&text) => at += 2,
            _ if PLAIN.contains(&text) || VALUES.iter().any(|option| is_joined(text, option)) => at += 1,
            "--" => {
                at += 1;
                break;
            }
            _ if text.starts_with('-') => {
                guesses(walker, &command)?;
                walker.script.commands.push(command);
                return Ok(());
            }
            _ => break,
        }
    }
    // With a replacement, the input may be in any word.
    let token = command.words[1..at.min(command.words.len())].iter().enumerate().find_map(|(index, word)| {
        match word.text.strip_prefix("-I") {
            Some("") => command.words.get(index + 2).map(|word| word.text.clone()),
            Some(token) => Some(token.to_owned()),
            None => word.text.strip_prefix("--replace").map(|rest| rest.strip_prefix('=').unwrap_or("{}").to_owned()),
        }
    });
    let replaced = |word: &Word| match &token {
        Some(token) if word.text.contains(token) => Word::dynamic(&*word.text),
        _ => word.clone(),
    };
    let mut words: Vec<Word> = command.words.get(at..).unwrap_or_default().iter().map(replaced).collect();
    if words.is_empty() {
        words.push(Word::from_text("echo"));
    }
    words.push(Word::dynamic("(what xargs reads)"));
    let inner = Simple { words, ..command.clone() };
    walker.script.commands.push(Simple { is_contained: true, ..command });
    match inner.words[0].literal() {
        Some(_) => start(walker, inner, depth + 1),
        None => {
            walker.script.commands.push(Simple { unknown: Some("the name of the program is computed"), ..inner });
            Ok(())
        }
    }
}

/// Adds the commands of `find -exec`.
fn find(walker: &mut Walker<'_>, command: &Simple, depth: usize) -> Result<(), Unreadable> {
    let mut words = command.words.iter();
    while let Some(word) = words.next() {
        if !matches!(word.literal(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
            continue;
        }
        let inner: Vec<Word> =
            words.by_ref().take_while(|word| !matches!(word.literal(), Some(";" | "+"))).cloned().collect();
        let inner: Vec<Word> =
            inner.into_iter().map(|word| if word.text.contains("{}") { Word::dynamic("{}") } else { word }).collect();
        if inner.is_empty() {
            continue;
        }
        let directories = command.directories.clone().filter(|_| !word.text.ends_with("dir"));
        let inner = Simple { words: inner, directories, ..command.clone() };
        match inner.words[0].literal() {
            Some(_) => start(walker, inner, depth + 1)?,
            None => {
                walker.script.commands.push(Simple { unknown: Some("the name of the program is computed"), ..inner })
            }
        }
    }
    Ok(())
}

/// Adds every command that may be in the arguments, so that rules that deny apply to it.
fn guesses(walker: &mut Walker<'_>, command: &Simple) -> Result<(), Unreadable> {
    for at in 1..command.words.len().min(32) {
        let Some(text) = command.words[at].literal().map(str::to_owned) else { continue };
        let words = command.words[at..].to_vec();
        let guess = Simple { words, is_contained: true, is_guess: true, ..command.clone() };
        walker.script.commands.push(guess);
        if text.contains(char::is_whitespace) || SHELLS.contains(&text.as_str()) {
            // Text that cannot be read may be no command at all.
            let _ = script(walker, &text, command, Standing::Guess);
        }
        if SHELLS.contains(&text.rsplit('/').next().unwrap_or_default())
            && let Some(code) = command.words[at + 1..].iter().skip_while(|word| !is_code_option(word)).nth(1)
            && let Some(code) = code.literal()
        {
            let _ = script(walker, code, command, Standing::Guess);
        }
    }
    Ok(())
}

fn is_code_option(word: &Word) -> bool {
    word.literal().is_some_and(|text| text.starts_with('-') && !text.starts_with("--") && text.contains('c'))
}

/// Returns whether an argument is the output of a command, as in `source <(…)`.
fn is_substituted(command: &Simple) -> bool {
    command.words[1..].iter().any(is_process)
}

/// Returns whether a redirection reads the output of a command, as in `sh < <(…)`.
pub(super) fn is_output(redirect: &Redirect) -> bool {
    is_process(&redirect.target)
}

fn is_process(word: &Word) -> bool {
    word.kind == WordKind::Dynamic && word.text.starts_with("<(")
}

/// Adds a shell, with the commands that it gets as an argument.
fn shell(walker: &mut Walker<'_>, command: Simple, is_known: bool) -> Result<(), Unreadable> {
    let is_plain = |word: &Word| {
        let letters = word.literal().and_then(|text| text.strip_prefix('-'));
        letters.is_some_and(|letters| !letters.is_empty() && letters.chars().all(|c| "eux".contains(c)))
    };
    walker.script.runs_data |= is_substituted(&command);
    let options = command.words[1..].iter().take_while(|word| is_plain(word)).count();
    let code_at = command.words[1..].iter().position(is_code_option).map(|at| at + 2);
    let Some(code) = code_at.and_then(|at| command.words.get(at)) else {
        // It runs a file, or its input.
        let only_options = command.words.len() == 1 + options;
        let is_open = only_options && !command.reads_pipe && command.redirects.is_empty();
        walker.script.commands.push(Simple { unknown: is_open.then_some("it starts a shell"), ..command });
        return Ok(());
    };
    if code.text.starts_with(['-', '+']) {
        // Options may stand between `-c` and the code, and take values.
        for code in command.words[1..].iter().filter_map(Word::literal).map(str::to_owned).collect::<Vec<_>>() {
            let _ = script(walker, &code, &command, Standing::Guess);
        }
        let unknown = Some("a shell with options that are not certain");
        walker.script.commands.push(Simple { unknown, ..command });
        return Ok(());
    }
    let Some(text) = code.literal() else {
        walker.script.commands.push(Simple { unknown: Some("a shell runs code that is computed"), ..command.clone() });
        return Ok(());
    };
    let is_transparent = is_known
        && code_at.is_some_and(|at| at <= options + 2)
        && command.words[1..].iter().take(options + 1).all(|word| {
            word.literal()
                .is_some_and(|text| text.strip_prefix('-').is_some_and(|rest| rest.chars().all(|c| "euxc".contains(c))))
        });
    script(walker, text, &command, if is_transparent { Standing::Own } else { Standing::Contained })?;
    walker.script.commands.push(Simple { is_contained: is_transparent, ..command });
    Ok(())
}

/// Returns whether a command is a shell that runs its input.
pub(super) fn reads_script(command: &Simple) -> bool {
    let Some(name) = command.program() else { return false };
    let arguments = &command.words[1..];
    let is_input = |word: &Word| word.text.starts_with("/dev/") || word.text.starts_with("/proc/");
    if matches!(name, "." | "source") {
        return arguments.iter().any(is_input);
    }
    let is_option = |word: &Word| word.literal().is_some_and(|text| text.starts_with(['-', '+']));
    let reads = |word: &Word| is_option(word) && !word.text.starts_with("--") && word.text.contains(['s', 'o']);
    matches!(name, "at" | "batch")
        || (SHELLS.contains(&name) || OTHER_SHELLS.contains(&name))
            && (arguments.iter().all(|word| is_option(word) || is_input(word)) || arguments.iter().any(reads))
}

/// The relation of a line in an argument to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The command does nothing but run it.
    Own,
    /// The command runs it, and needs permission for more than that.
    Contained,
    /// It may be no line at all.
    Guess,
}

/// Adds the commands of a line in an argument of a command, with its variables and redirections.
pub(super) fn script(walker: &mut Walker<'_>, text: &str, of: &Simple, standing: Standing) -> Result<(), Unreadable> {
    // Guesses count twice, because there are many of them.
    let nesting = walker.nesting + if standing == Standing::Guess { 2 } else { 1 };
    let Script { mut commands, changes, runs_data, is_fork_bomb } =
        nested(text, walker.scene, &of.directories, nesting)?;
    for command in &mut commands {
        command.is_contained |= standing != Standing::Own;
        command.is_guess |= standing == Standing::Guess;
        command.assignments.extend(of.assignments.iter().cloned());
        command.redirects.extend(of.redirects.iter().cloned());
    }
    if standing == Standing::Own {
        changes.into_iter().for_each(|reason| walker.changed(reason));
    }
    walker.script.runs_data |= runs_data && standing != Standing::Guess;
    walker.script.is_fork_bomb |= is_fork_bomb && standing != Standing::Guess;
    walker.script.commands.extend(commands);
    match walker.script.commands.len() > MAX_COMMANDS {
        true => Err(Unreadable::new(format!("it has more than {MAX_COMMANDS} commands"))),
        false => Ok(()),
    }
}

impl Word {
    /// Returns whether the word may begin with `-` or be several words when the program gets it.
    pub(crate) fn may_be_option(&self) -> bool {
        match self.kind {
            WordKind::Literal => false,
            WordKind::Pattern => self.text.starts_with(['*', '?', '[', '-']),
            WordKind::Dynamic => true,
        }
    }
}
