//! The files that the text of a command names.
//!
//! A shell could compute any name. Known variables and substitutions are replaced, quotes and backslashes are read as
//! the shell reads them. After an unknown part, the rest of a path counts as a path in the working tree.

use crate::look_budget::{Exhausted, LookBudget};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Extensions of scripts, whose names need no directory.
const SCRIPTS: [&str; 16] =
    ["bash", "bat", "cjs", "js", "lua", "mjs", "php", "pl", "ps1", "py", "rb", "sh", "tcl", "ts", "zsh", "cmd"];
/// Programs that run the file of an argument. For others, a name alone is not a file of a directory: the shell looks it
/// up in `PATH`.
const INTERPRETERS: [&str; 20] = [
    ".",
    "awk",
    "bash",
    "bun",
    "dash",
    "deno",
    "env",
    "fish",
    "ksh",
    "lua",
    "make",
    "node",
    "osascript",
    "perl",
    "php",
    "pwsh",
    "ruby",
    "sh",
    "source",
    "zsh",
];
/// Commands within words of commands, such as the text of `sh -c`.
const MAX_DEPTH: usize = 4;
/// Stands in a word for a part that only a shell knows. No argument of a program contains it.
pub const UNKNOWN: u8 = 0;

/// The surroundings of a command.
#[derive(Debug, Clone, Copy)]
pub struct CommandContext<'a> {
    /// The directory where it starts.
    pub tree: &'a Path,
    /// The repository.
    pub git: &'a Path,
    /// The user's home directory.
    pub home: Option<&'a Path>,
}

/// Files that count although they do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    None,
    /// Those with the extension of a script.
    Scripts,
    /// Those with a directory, too.
    All,
}

/// Returns the files that a command of a shell names. With `is_certain`, also those that do not exist.
///
/// # Errors
/// The budget is exhausted.
pub fn files_of_command(
    command: &[u8],
    place: CommandContext<'_>,
    is_certain: bool,
    look: &mut LookBudget,
) -> Result<Vec<PathBuf>, Exhausted> {
    let mut reader = CommandReader::new(place, if is_certain { Missing::All } else { Missing::None }, look);
    reader.command(command, 0)?;
    Ok(reader.found)
}

/// Returns the files that a program and its arguments name, whether they exist or not.
///
/// # Errors
/// The budget is exhausted.
pub fn files_of_arguments<'a>(
    program: &'a [u8],
    arguments: impl Iterator<Item = &'a [u8]>,
    place: CommandContext<'_>,
    look: &mut LookBudget,
) -> Result<Vec<PathBuf>, Exhausted> {
    let mut reader = CommandReader::new(place, Missing::All, look);
    reader.read_words(&[program.to_vec()], 0)?;
    // Of the others, many name data.
    reader.missing = Missing::Scripts;
    reader.read_words(&arguments.map(<[u8]>::to_vec).collect::<Vec<_>>(), 0)?;
    Ok(reader.found)
}

/// Returns a path of bytes.
pub fn as_path(bytes: &[u8]) -> &Path {
    #[cfg(unix)]
    return Path::new(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes));
    #[cfg(not(unix))]
    Path::new(OsStr::new(std::str::from_utf8(bytes).unwrap_or_default()))
}

struct CommandReader<'a> {
    place: CommandContext<'a>,
    missing: Missing,
    look: &'a mut LookBudget,
    /// An interpreter was named before.
    is_interpreted: bool,
    is_python: bool,
    /// The working tree, and directories that the command enters.
    directories: Vec<PathBuf>,
    found: Vec<PathBuf>,
}

impl<'a> CommandReader<'a> {
    fn new(place: CommandContext<'a>, missing: Missing, look: &'a mut LookBudget) -> Self {
        let directories = vec![place.tree.to_owned()];
        Self { place, missing, look, is_interpreted: false, is_python: false, directories, found: Vec::new() }
    }

    fn command(&mut self, command: &[u8], depth: usize) -> Result<(), Exhausted> {
        let mut inner = Vec::new();
        let words = split(command, self.place, &mut inner);
        self.read_words(&words, depth)?;
        if depth < MAX_DEPTH {
            inner.iter().try_for_each(|command| self.command(command, depth + 1))?;
        }
        Ok(())
    }

    fn read_words(&mut self, words: &[Vec<u8>], depth: usize) -> Result<(), Exhausted> {
        let mut last: &[u8] = b"";
        for word in words {
            self.look.spend(1)?;
            let name = word.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let is_one = INTERPRETERS.iter().any(|interpreter| name == interpreter.as_bytes());
            self.is_python |= name.starts_with(b"python") || name.starts_with(b"pypy");
            self.is_interpreted |= is_one || self.is_python;
            match last {
                b"cd" | b"pushd" => {
                    let entered: Vec<PathBuf> =
                        self.directories.iter().map(|directory| directory.join(as_path(word))).collect();
                    self.directories.extend(entered.into_iter().take(MAX_DEPTH));
                }
                b"-m" if self.is_python => self.module(word)?,
                _ => self.word(word, depth)?,
            }
            last = word;
        }
        Ok(())
    }

    /// Adds the files of a module of Python.
    fn module(&mut self, name: &[u8]) -> Result<(), Exhausted> {
        let path = String::from_utf8_lossy(name).replace('.', "/");
        for file in [format!("{path}.py"), format!("{path}/__main__.py"), format!("{path}/__init__.py")] {
            self.file(file.as_bytes())?;
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8], depth: usize) -> Result<(), Exhausted> {
        // The text of another command, or a name with blanks.
        if word.iter().any(u8::is_ascii_whitespace) && depth < MAX_DEPTH {
            self.command(word, depth + 1)?;
        }
        let values = word.iter().enumerate().filter(|(_, byte)| **byte == b'=');
        for (at, _) in values.take(MAX_DEPTH) {
            self.file(&word[at + 1..])?;
        }
        self.file(word)
    }

    /// Adds the file of a word, in each directory where the command may run.
    fn file(&mut self, word: &[u8]) -> Result<(), Exhausted> {
        // The rest of a path after a part that only the shell knows.
        let rest = word.iter().rposition(|byte| *byte == UNKNOWN).map(|at| &word[at + 1..]);
        let word = rest.map_or(word, |rest| rest.strip_prefix(b"/").unwrap_or_default());
        let has_directory = rest.is_some() || word.contains(&b'/');
        let is_other = word.is_empty()
            || word.starts_with(b"-")
            || word.starts_with(b"refs/")
            || word.starts_with(b"+refs/")
            || word.windows(3).any(|part| part == b"://");
        if is_other {
            return Ok(());
        }
        let path = as_path(word);
        let is_script = path.extension().is_some_and(|extension| SCRIPTS.iter().any(|script| extension == *script));
        for directory in self.directories.clone() {
            let file = directory.join(path);
            self.look.spend(1)?;
            let is_named = match std::fs::metadata(&file) {
                Ok(found) => found.is_file() && (has_directory || is_script || self.is_interpreted),
                Err(_) => match self.missing {
                    Missing::None => false,
                    Missing::Scripts => is_script,
                    Missing::All => has_directory || is_script,
                },
            };
            self.found.extend(Some(file).filter(|_| is_named));
        }
        Ok(())
    }
}

/// Splits a command into words, without quotes. Commands of substitutions are added to `inner`.
fn split(command: &[u8], place: CommandContext<'_>, inner: &mut Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let (mut words, mut word, mut is_word, mut is_quoted) = (Vec::new(), Vec::new(), false, false);
    let mut left = command;
    while let Some((&byte, rest)) = left.split_first() {
        left = rest;
        match byte {
            b'\'' if !is_quoted => {
                let end = left.iter().position(|byte| *byte == b'\'').unwrap_or(left.len());
                word.extend(&left[..end]);
                left = left.get(end + 1..).unwrap_or_default();
                is_word = true;
            }
            b'"' => (is_quoted, is_word) = (!is_quoted, true),
            b'\\' => {
                word.extend(left.first());
                left = left.get(1..).unwrap_or_default();
            }
            b'$' | b'`' => left = expand(byte, left, place, &mut word, inner),
            b'~' if word.is_empty() && !is_quoted && matches!(left.first(), None | Some(b'/' | b' ')) => {
                word.extend(place.home.map(|home| home.as_os_str().as_encoded_bytes()).unwrap_or(b"~"));
            }
            // Words of the grammar only where a word begins.
            b'!' | b'{' | b'}' if word.is_empty() && !is_quoted => {}
            _ if !is_quoted && (byte.is_ascii_whitespace() || b";&|<>()".contains(&byte)) => {
                if is_word || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            _ => word.push(byte),
        }
    }
    words.extend(Some(word).filter(|word| is_word || !word.is_empty()));
    words
}

/// Adds the expansion of a `$` or a backquote to a word, and returns the rest of the text.
fn expand<'a>(
    sign: u8,
    text: &'a [u8],
    place: CommandContext<'_>,
    word: &mut Vec<u8>,
    inner: &mut Vec<Vec<u8>>,
) -> &'a [u8] {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let (what, rest) = match (sign, text.first()) {
        (b'`', _) => {
            let end = text.iter().position(|byte| *byte == b'`').unwrap_or(text.len());
            (&text[..end], text.get(end + 1..).unwrap_or_default())
        }
        (_, Some(open @ (b'(' | b'{'))) => {
            let close = if *open == b'(' { b')' } else { b'}' };
            let mut depth = 0;
            let end = text.iter().position(|byte| {
                depth += i32::from(byte == open) - i32::from(*byte == close);
                depth == 0
            });
            let end = end.unwrap_or(text.len());
            (text.get(1..end).unwrap_or_default(), text.get(end + 1..).unwrap_or_default())
        }
        (_, Some(first)) if is_name(first) => {
            let end = text.iter().position(|byte| !is_name(byte)).unwrap_or(text.len());
            text.split_at(end)
        }
        // `$@` and the like.
        _ => text.split_at(text.len().min(1)),
    };
    let is_command = sign == b'`' || text.starts_with(b"(");
    let known = match String::from_utf8_lossy(what.trim_ascii()).as_ref() {
        "PWD" | "GIT_WORK_TREE" if !is_command => Some(place.tree),
        "GIT_DIR" | "GIT_COMMON_DIR" if !is_command => Some(place.git),
        "HOME" if !is_command => place.home,
        "pwd" | "git rev-parse --show-toplevel" if is_command => Some(place.tree),
        "git rev-parse --git-dir" | "git rev-parse --git-common-dir" | "git rev-parse --absolute-git-dir"
            if is_command =>
        {
            Some(place.git)
        }
        _ => None,
    };
    match known {
        Some(path) => word.extend(path.as_os_str().as_encoded_bytes()),
        None => {
            word.push(UNKNOWN);
            // The default of a variable may be a name, too.
            let is_sign = |byte: &u8| b":-+=?".contains(byte);
            let default = what.iter().position(is_sign).map(|at| &what[at..]);
            let default = default.map(|default| &default[default.iter().take_while(|byte| is_sign(byte)).count()..]);
            inner.extend(if is_command { Some(what) } else { default }.map(<[u8]>::to_vec));
        }
    }
    rest
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// Returns the files that a command names in a working tree with some files.
    fn files(command: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path();
        for file in ["clean.py", "tools/clean.py", "my tools/clean.py", "plain", "home/x"] {
            std::fs::create_dir_all(tree.join(file).parent().unwrap()).unwrap();
            std::fs::write(tree.join(file), "").unwrap();
        }
        let (git, home) = (tree.join(".git"), tree.join("home"));
        let place = CommandContext { tree, git: &git, home: Some(&home) };
        let found = files_of_command(command.as_bytes(), place, true, &mut LookBudget::new(1000)).unwrap();
        let mut found: Vec<String> =
            found.iter().filter_map(|path| Some(path.strip_prefix(tree).ok()?.to_str()?.to_owned())).collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn words_of_commands_are_read_as_a_shell_reads_them() {
        for (command, expected) in [
            ("python3 clean.py", &["clean.py"][..]),
            ("python3 tools/clean.py %f", &["tools/clean.py"]),
            ("python3 -m tools.clean", &["tools/clean.py", "tools/clean/__init__.py", "tools/clean/__main__.py"]),
            ("python3 $PWD/clean.py", &["clean.py"]),
            ("python3 \"${PWD}/tools/clean.py\"", &["tools/clean.py"]),
            ("python3 \"my tools/clean.py\"", &["my tools/clean.py", "tools/clean.py"]),
            ("python3 my\\ tools/clean.py", &["my tools/clean.py", "tools/clean.py"]),
            ("sh tools/missing.sh", &["tools/missing.sh"]),
            ("sh missing.sh", &["missing.sh"]),
            ("python3 $(git rev-parse --show-toplevel)/tools/clean.py", &["tools/clean.py"]),
            ("python3 `pwd`/tools/clean.py", &["tools/clean.py"]),
            ("\"$UNKNOWN\"/tools/clean.py", &["tools/clean.py"]),
            ("\"$(dirname \"$0\")/tools/clean.py\"", &["tools/clean.py"]),
            ("cd tools && python3 clean.py", &["clean.py", "tools/clean.py"]),
            ("sh -c \"python3 ./clean.py\"", &["clean.py", "python3 ./clean.py"]),
            ("!f() { ./tools/clean.py; }; f", &["tools/clean.py"]),
            ("FILE=tools/clean.py --x=clean.py", &["FILE=tools/clean.py", "clean.py", "tools/clean.py"]),
            ("sh plain", &["plain"]),
            ("plain | plain", &[]),
            ("~/x ${X:-clean.py}", &["clean.py", "home/x"]),
            ("less -R https://a.example/b.py refs/heads/x", &[]),
            ("git commit -m fix", &[]),
        ] {
            assert_eq!(files(command), expected, "{command}");
        }
    }

    #[test]
    fn arguments_of_a_program_are_files_if_they_exist_or_are_scripts() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path();
        std::fs::create_dir(tree.join("data")).unwrap();
        std::fs::write(tree.join("settings"), "").unwrap();
        let place = CommandContext { tree, git: tree, home: None };
        let found = |program: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(|word| word.as_bytes());
            let found = files_of_arguments(program.as_bytes(), arguments, place, &mut LookBudget::new(100)).unwrap();
            found.iter().map(|path| path.strip_prefix(tree).unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            found("node", &["dist/index.js", "./data", "./later", "--x=settings"]),
            ["dist/index.js", "settings"]
        );
        assert_eq!(found("./bin/server", &["-m", "x"]), ["bin/server"]);
        assert_eq!(found("python3", &["-m", "x"]), ["x.py", "x/__main__.py", "x/__init__.py"]);
    }

    #[test]
    fn any_text_is_split_within_bounds() {
        for text in ["$", "${", "$(", "`", "'", "\"", "\\", "$(((", "a=$(b=$(c=$(d=$(e))))", "\0/x"] {
            files(&text.repeat(50));
        }
    }
}
