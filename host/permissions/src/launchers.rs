//! Commands whose further arguments are a program, or another target than the one that a rule names.
//!
//! A rule that allows `watch`, or `ssh HOST`, allows no program that these start: the rule has to name it. And a rule that
//! allows `curl https://docs.rs` allows no second address behind it.

use crate::command_scene::Scene;
use crate::git;
use crate::readers::shows_no_content;
use crate::shell::{self, Simple, Word};

/// Words that start a program, with the number of words between them and it.
const LAUNCHERS: &[(&str, usize)] = &[
    ("ansible", 1),
    ("asdf exec", 0),
    ("at", 1),
    ("batch", 0),
    ("bun x", 0),
    ("bundle exec", 0),
    ("bunx", 0),
    ("busybox", 0),
    ("bwrap", 0),
    ("capsh", 0),
    ("cgexec", 0),
    ("choom", 0),
    ("chroot", 1),
    ("chrt", 1),
    ("command", 0),
    ("composer exec", 0),
    ("conda run", 0),
    ("coproc", 0),
    ("corepack", 0),
    ("daemonize", 0),
    ("dbus-run-session", 0),
    ("direnv exec", 1),
    ("doas", 0),
    ("docker compose exec", 1),
    ("docker compose run", 1),
    ("docker exec", 1),
    ("docker run", 0),
    ("docker-compose exec", 1),
    ("docker-compose run", 1),
    ("dotenv", 0),
    ("dumb-init", 0),
    ("eatmydata", 0),
    ("entr", 0),
    ("env", 0),
    ("exec", 0),
    ("expect", 0),
    ("fakeroot", 0),
    ("faketime", 1),
    ("firejail", 0),
    ("flock", 1),
    ("gdb", 0),
    ("go tool", 0),
    ("gosu", 1),
    ("hatch run", 0),
    ("hyperfine", 0),
    ("i386", 0),
    ("ionice", 0),
    ("kubectl exec", 1),
    ("kubectl run", 1),
    ("linux32", 0),
    ("linux64", 0),
    ("ltrace", 0),
    ("lxc-attach", 0),
    ("mise exec", 0),
    ("mise x", 0),
    ("nice", 0),
    ("nix develop", 0),
    ("nix run", 0),
    ("nix shell", 0),
    ("nix-shell", 0),
    ("nohup", 0),
    ("npm create", 0),
    ("npm exec", 0),
    ("npm init", 0),
    ("npm x", 0),
    ("npx", 0),
    ("nsenter", 0),
    ("numactl", 0),
    ("op run", 0),
    ("parallel", 0),
    ("pdm run", 0),
    ("perf record", 0),
    ("perf stat", 0),
    ("pipenv run", 0),
    ("pipx run", 0),
    ("pkexec", 0),
    ("pnpm create", 0),
    ("pnpm dlx", 0),
    ("pnpm exec", 0),
    ("podman exec", 1),
    ("podman run", 0),
    ("poetry run", 0),
    ("prlimit", 0),
    ("proot", 0),
    ("proxychains", 0),
    ("pyenv exec", 0),
    ("rbenv exec", 0),
    ("rlwrap", 0),
    ("rtk", 0),
    ("runuser", 0),
    ("screen", 0),
    ("script", 0),
    ("setarch", 1),
    ("setpriv", 0),
    ("setsid", 0),
    ("sg", 1),
    ("ssh", 1),
    ("ssh-agent", 0),
    ("start-stop-daemon", 0),
    ("stdbuf", 0),
    ("strace", 0),
    ("su", 0),
    ("su-exec", 1),
    ("sudo", 0),
    ("systemd-run", 0),
    ("taskset", 1),
    ("time", 0),
    ("timeout", 1),
    ("tini", 0),
    ("tmux", 0),
    ("torsocks", 0),
    ("toybox", 0),
    ("uname26", 0),
    ("unbuffer", 0),
    ("unshare", 0),
    ("uv run", 0),
    ("uv tool run", 0),
    ("uvx", 0),
    ("valgrind", 0),
    ("volta run", 0),
    ("watch", 0),
    ("watchexec", 0),
    ("x86_64", 0),
    ("xargs", 0),
    ("xvfb-run", 0),
    ("yarn create", 0),
    ("yarn dlx", 0),
    ("yarn exec", 0),
];
/// Words that a rule has to name, because they run code from elsewhere.
const NAMED: &[&str] = &["deno eval", "deno run", "go run"];
/// Words whose further words are all of one kind: hosts, or packages whose code is run.
const TARGETS: &[&str] = &[
    "apt install",
    "apt-get install",
    "brew install",
    "bun add",
    "bun install",
    "cargo add",
    "cargo install",
    "composer require",
    "curl",
    "dig",
    "dnf install",
    "docker pull",
    "ftp",
    "gem install",
    "git clone",
    "go get",
    "go install",
    "go run",
    "host",
    "nc",
    "ncat",
    "npm add",
    "npm i",
    "npm install",
    "nslookup",
    "ping",
    "pip install",
    "pip3 install",
    "pipx install",
    "pnpm add",
    "pnpm install",
    "podman pull",
    "poetry add",
    "rsync",
    "scp",
    "sftp",
    "telnet",
    "uv add",
    "uv pip install",
    "uv tool install",
    "wget",
    "yarn add",
    "yum install",
];

/// Returns the first word of a command that is a program which the command starts, or a further target, and that a rule with
/// the words `named` does not name.
pub(crate) fn started<'a>(command: &'a Simple, named: &[Word]) -> Option<&'a Word> {
    let program = command.program()?;
    let is_operand = |word: &&Word| !word.text.starts_with('-') && !is_assignment(word);
    let operands: Vec<&Word> = command.words[1..].iter().filter(is_operand).collect();
    let of_rule = named.iter().skip(1).filter(is_operand).count();
    let begins = |words: &str| -> Option<usize> {
        let mut words = words.split(' ');
        let rest: Vec<&str> = words.by_ref().skip(1).collect();
        let is_same = operands.iter().map(|word| word.text.as_str()).take(rest.len()).eq(rest.iter().copied());
        is_same.then_some(rest.len())
    };
    let is_of_program = |words: &str| words.split(' ').next() == Some(program);
    let of_program = LAUNCHERS.iter().filter(|(words, _)| is_of_program(words));
    let launched = of_program.filter_map(|(words, before)| Some(begins(words)? + before)).max();
    if let Some(at) = launched
        && of_rule <= at
        && let Some(word) = operands.get(at)
    {
        return Some(word);
    }
    if let Some(at) = NAMED.iter().filter(|words| is_of_program(words)).find_map(|words| begins(words))
        && of_rule < at
    {
        return operands.get(of_rule).copied();
    }
    let target = TARGETS.iter().filter(|words| is_of_program(words)).filter_map(|words| begins(words)).max()?;
    // A rule that names no target is about all of them.
    let is_named = of_rule > target && named.len() < command.words.len();
    operands.get(of_rule).filter(|_| is_named).copied()
}

/// Returns whether a word sets a variable for the program behind it.
fn is_assignment(word: &Word) -> bool {
    word.text
        .split_once('=')
        .is_some_and(|(name, _)| name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()))
}

// Commands that a program may start because they are somewhere in its arguments.
//
// Wrappers without end exist: `npx`, `uv run`, `direnv exec`, `git rebase -x`. So every program that is not known to start
// nothing may be one. Rules that deny or ask then lead to a question, and never to a denial: the words may be a text.

/// Programs that never start any of their arguments.
const STARTS_NOTHING: &[&str] = &[
    "[", "basename", "cat", "chgrp", "chmod", "chown", "cp", "cut", "diff", "dirname", "du", "echo", "egrep", "false",
    "fgrep", "file", "grep", "head", "install", "kill", "ln", "ls", "mkdir", "mktemp", "mv", "printf", "pwd",
    "readlink", "realpath", "rg", "rm", "rmdir", "sed", "seq", "sleep", "sort", "stat", "tail", "tee", "test", "touch",
    "tr", "true", "truncate", "uniq", "wc", "which",
];
/// Arguments of one command that are looked at, and how many of them are read as lines.
const MAX_WORDS: usize = 40;
const MAX_LINES: usize = 8;

/// Returns the commands that a command may start with its arguments.
pub(crate) fn wrapped(command: &Simple, scene: &Scene<'_>) -> Vec<Simple> {
    let Some(name) = command.program() else { return Vec::new() };
    if STARTS_NOTHING.contains(&name) || shows_no_content(name) || (name == "git" && !starts_more(command)) {
        return Vec::new();
    }
    let arguments = 1..command.words.len().min(MAX_WORDS);
    let suffixes = arguments.clone().map(|at| Simple { words: command.words[at..].to_vec(), ..command.clone() });
    let is_line = |word: &&Word| word.literal().is_some_and(|text| text.contains(char::is_whitespace));
    let lines = command.words[arguments].iter().filter(is_line).take(MAX_LINES);
    // Text that cannot be read may be no command at all.
    let lines = lines.filter_map(|word| shell::parse(word.literal()?, scene).ok());
    let lines = lines.flat_map(|script| script.commands);
    suffixes.chain(lines).filter(|command| command.words[0].literal().is_some()).collect()
}

/// Returns whether a command of git starts others that its arguments name.
fn starts_more(command: &Simple) -> bool {
    let Some((at, subcommand)) = git::subcommand(command) else { return true };
    let has = |options: &[&str]| {
        command.words[at + 1..].iter().any(|word| options.iter().any(|option| word.text.starts_with(option)))
    };
    match subcommand.text.as_str() {
        "submodule" => has(&["foreach"]),
        "bisect" => has(&["run"]),
        "rebase" => has(&["-x", "--exec"]),
        "filter-branch" | "for-each-repo" | "difftool" | "mergetool" => true,
        _ => false,
    }
}
