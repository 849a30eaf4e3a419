//! Decisions on the commands of a public corpus, which is not part of this repository: `PINION_CORPUS` names a file
//! with one command per line, where `⏎` stands for a line break.
//!
//! Whether a decision to allow is right is decided here by a second list, which shares nothing with the crate: it knows
//! only programs that read, and takes a line apart by its characters.

use super::{judged, project};
use pinion_permissions::{Otherwise, Verdict};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Programs that may run without a question and without a sandbox.
const READING: &[&str] = &[
    "#",
    ":",
    "[",
    "[[",
    "b2sum",
    "basename",
    "bash",
    "cal",
    "cat",
    "cd",
    "cksum",
    "cmp",
    "column",
    "comm",
    "command",
    "cut",
    "dash",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "env",
    "expand",
    "expr",
    "false",
    "fgrep",
    "file",
    "find",
    "fmt",
    "fold",
    "for",
    "free",
    "git",
    "grep",
    "groups",
    "head",
    "hexdump",
    "hostname",
    "id",
    "ionice",
    "jq",
    "logname",
    "ls",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rev",
    "rg",
    "sed",
    "seq",
    "set",
    "sh",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "sleep",
    "sort",
    "stat",
    "strings",
    "tac",
    "tail",
    "test",
    "timeout",
    "tr",
    "tree",
    "true",
    "type",
    "uname",
    "unexpand",
    "uniq",
    "uptime",
    "wait",
    "wc",
    "which",
    "whoami",
    "xxd",
];
/// Words that make any program show only its version.
const VERSIONS: &[&str] = &["--version", "-version", "-V"];
/// Words between commands.
const KEYWORDS: &[&str] = &["!", "time", "then", "do", "else", "elif", "if", "while", "until", "{", "("];
/// For some programs, words that make them do more than read, or may.
const DOING: &[(&str, &[&str])] = &[
    (
        "find",
        &[
            "-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-L", "-H",
            "-follow",
        ],
    ),
    ("sort", &["-o", "--output", "--compress-program"]),
    ("sed", &["-i", "--in-place", "-f", "-e", "-s"]),
    ("date", &["-s", "--set"]),
    ("file", &["-z", "-Z", "--uncompress", "-C", "-m", "-f"]),
    ("tail", &["-f", "-F", "--follow"]),
    ("tree", &["-o", "-l", "-R"]),
    ("rg", &["--pre", "-z"]),
    ("git", &["--ext-diff", "--textconv", "--output", "-D", "-M", "-f", "-u"]),
];
/// Subcommands of git that only read.
const READING_OF_GIT: &[&str] = &[
    "blame",
    "branch",
    "cat-file",
    "cherry",
    "count-objects",
    "describe",
    "diff",
    "diff-tree",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "reflog",
    "remote",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "stash",
    "status",
    "tag",
    "worktree",
    "--version",
];

#[test]
#[ignore = "needs a file with commands: PINION_CORPUS"]
fn commands_of_a_public_corpus_are_decided_as_a_careful_person_would() {
    let corpus = std::env::var("PINION_CORPUS").expect("PINION_CORPUS names a file with one command per line");
    let commands = std::fs::read_to_string(corpus).unwrap();
    let (_directory, workspace) = project();
    let mut reasons = [("without a sandbox", BTreeMap::new()), ("in the sandbox", BTreeMap::new())];
    let (mut kinds, mut wrong) = (BTreeMap::<String, (usize, String)>::new(), Vec::new());
    let (mut all, mut slowest) = (0, (Duration::ZERO, String::new()));
    for command in commands.lines().map(|line| line.replace('⏎', "\n")) {
        all += 1;
        for ((_, reasons), otherwise) in reasons.iter_mut().zip([Otherwise::Ask, Otherwise::Sandbox]) {
            let began = Instant::now();
            let (verdict, reason) = judged(&command, &workspace, otherwise);
            slowest = slowest.max((began.elapsed(), command.clone()));
            let kind = reason.rsplit_once("`: ").map_or(&*reason, |(_, reason)| reason);
            // Without the words of the command.
            let kind =
                kind.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "…" }).collect::<String>();
            *reasons.entry((verdict.to_string(), kind)).or_insert(0_usize) += 1;
            if (verdict, otherwise) == (Verdict::Allow, Otherwise::Ask) {
                let kind = segments(&command).iter().map(|words| words.join(" ")).collect::<Vec<_>>().join(" | ");
                kinds.entry(kind).or_insert((0, command.clone())).0 += 1;
                wrong.extend(problem(&command).map(|problem| format!("{problem}: {command}")));
            } else if verdict != Verdict::Allow && otherwise == Otherwise::Sandbox {
                println!("{verdict} in the sandbox\t{reason}\t{command}");
            }
        }
    }
    for (count, example) in kinds.values() {
        println!("allowed\t{count}\t{example}");
    }
    for (policy, reasons) in &reasons {
        println!("{policy}, {all} commands:");
        reasons.iter().for_each(|((verdict, reason), count)| println!("{count:>7} {verdict:<6} {reason}"));
    }
    println!("slowest: {slowest:?}");
    assert!(wrong.is_empty(), "{} must not be allowed:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns why a careful person would not allow a command, judged by its characters.
fn problem(command: &str) -> Option<String> {
    let bare = unquoted(command);
    let writes = bare.split('>').skip(1).map(|rest| rest.trim_start_matches(['|', ' ']));
    let mut writes = writes.filter(|rest| !rest.is_empty());
    if let Some(target) = writes.find(|rest| !rest.starts_with("/dev/null") && !rest.starts_with('&')) {
        return Some(format!("it writes to `{}`", target.split(' ').next().unwrap_or_default()));
    }
    for words in segments(command) {
        let Some(program) = words.first() else { continue };
        let asks_for_version = words.len() == 2 && VERSIONS.contains(&words[1].as_str());
        if !READING.contains(&program.as_str()) && !asks_for_version {
            return Some(format!("it runs `{program}`"));
        }
        let doing = DOING.iter().filter(|(name, _)| name == program).flat_map(|(_, words)| *words);
        let mut doing = doing.filter(|doing| words[1..].iter().any(|word| word == *doing));
        if let Some(doing) = doing.next() {
            return Some(format!("`{program}` with `{doing}`"));
        }
        let subcommand = words[1..].iter().find(|word| !["--no-pager", "-P"].contains(&word.as_str()));
        if let Some(other) = subcommand.filter(|word| program == "git" && !READING_OF_GIT.contains(&word.as_str())) {
            return Some(format!("`git {other}`"));
        }
        let is_outside = |word: &&String| {
            (word.starts_with(['/', '~']) && *word != "/dev/null") || word.split('/').any(|part| part == "..")
        };
        // They show nothing of the files there.
        const TEXTS: &[&str] =
            &["#", "basename", "cd", "dirname", "echo", "expr", "for", "groups", "printf", "[", "[["];
        let prints = TEXTS.contains(&program.as_str());
        if let Some(path) = words[1..].iter().find(is_outside).filter(|_| !prints) {
            return Some(format!("`{program}` is about `{path}`"));
        }
    }
    None
}

/// Returns the simple commands of a line, each as words without their quoted parts.
fn segments(command: &str) -> Vec<Vec<String>> {
    let bare = unquoted(command).replace(">&", ">").replace("&>", ">");
    let segments = bare.split(['|', ';', '&', '`', '\n', ')']).flat_map(|text| text.split("$("));
    let is_end = |word: &String| ["done", "fi", "}"].contains(&word.as_str()) || word.starts_with('#');
    let words = segments.map(|text| {
        let words = text.split_whitespace().map(|word| word.trim_start_matches('(').to_owned());
        let is_before = |word: &String| {
            let name = word.split('=').next().unwrap_or_default();
            let is_assignment =
                word.contains('=') && !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
            KEYWORDS.contains(&word.as_str()) || is_assignment || word.is_empty()
        };
        words.skip_while(is_before).collect::<Vec<_>>()
    });
    words.filter(|words| !words.is_empty() && !is_end(&words[0])).collect()
}

/// Replaces quoted text without commands by `Q`. Computed parts inside double quotes stay.
fn unquoted(command: &str) -> String {
    let (mut bare, mut rest) = (String::new(), command.chars());
    let mut is_double = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                rest.next();
                bare.push('Q');
            }
            '"' => {
                is_double = !is_double;
                bare.push('Q');
            }
            '\'' if !is_double => {
                bare.push('Q');
                rest.by_ref().take_while(|c| *c != '\'').for_each(drop);
            }
            '`' if is_double => {
                // All of it counts, up to the next quote.
                is_double = false;
                bare.push(c);
            }
            '$' if is_double && rest.as_str().starts_with('(') => {
                is_double = false;
                bare.push(c);
            }
            _ if is_double => {}
            c => bare.push(c),
        }
    }
    bare
}
