//! Options with which well-known programs run other programs or write files, although nobody expects it of the command.
//!
//! A rule that allows the beginning of a command does not cover them, unless the rule itself names the option.

use crate::readonly::is_banned;
use crate::shell::{Simple, Word};
use crate::{git, options};

/// Programs with such options.
const HAZARDS: &[(&[&str], &[&str])] = &[
    (
        &["git"],
        &[
            "--ext-diff",
            "--textconv",
            "--output",
            "--open-files-in-pager",
            "--exec",
            "--exec-path",
            "--upload-pack",
            "--receive-pack",
            "--git-dir",
            "--work-tree",
            "--config-env",
            "--config",
            "--template",
            "--force",
            "--force-with-lease",
            "--mirror",
            "--hard",
            "--no-verify",
            "--delete",
            "--prune",
        ],
    ),
    (&["cargo"], &["--config", "-Z"]),
    (&["go"], &["=-exec", "=-toolexec", "=-o", "=-modfile", "=-overlay", "=-C", "=-vettool"]),
    (&["rg"], &["--pre", "--hostname-bin"]),
    (&["find"], &["=-exec", "=-execdir", "=-ok", "=-okdir", "=-delete", "=-fprint", "=-fprint0", "=-fprintf", "=-fls"]),
    (&["fd"], &["--exec", "--exec-batch", "-x", "-X"]),
    (&["sort"], &["-o", "--output", "--compress-program"]),
    (
        &["tar"],
        &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "-I",
            "--rsh-command",
            "--info-script",
            "-F",
            "--new-volume-script",
            "-P",
            "--absolute-names",
        ],
    ),
    (&["sed", "perl", "ruby"], &["-i", "--in-place", "-e", "--expression", "-f", "--file"]),
    (&["rsync"], &["-e", "--rsh", "--rsync-path", "--delete"]),
    (&["zip"], &["-T", "-TT", "--unzip-command"]),
    (
        &["curl"],
        &[
            "-o",
            "-O",
            "-K",
            "-T",
            "-d",
            "-F",
            "--output",
            "--remote-name",
            "--config",
            "--upload-file",
            "--data",
            "--form",
            "--data-binary",
            "--data-raw",
            "--data-urlencode",
            "--unix-socket",
            "--proxy",
            "-x",
            "--next",
            "--output-dir",
            "--netrc",
            "-n",
            "--cookie-jar",
            "-c",
            "-D",
            "--dump-header",
            "--json",
            "--stderr",
            "--trace",
            "--trace-ascii",
            "--etag-save",
            "--hsts",
            "--alt-svc",
            "--libcurl",
            "--upload-flags",
            "--url-query",
            "-E",
            "--cert",
            "--key",
            "--variable",
        ],
    ),
    (
        &["wget"],
        &[
            "-O",
            "-i",
            "--output-document",
            "--use-askpass",
            "--post-file",
            "--post-data",
            "--execute",
            "-e",
            "--config",
            "--input-file",
            "-P",
        ],
    ),
    (&["ssh", "scp", "sftp"], &["-o", "-F", "-S", "-J", "-W", "-L", "-R", "-D"]),
    (
        &["npm", "npx", "pnpm", "yarn"],
        &[
            "--script-shell",
            "--prefix",
            "--node-options",
            "--shell",
            "--registry",
            "--globalconfig",
            "--userconfig",
            "-g",
            "--global",
            "-C",
            "--dir",
            "--cwd",
        ],
    ),
    (&["make", "gmake"], &["-f", "--file", "--makefile", "-C", "--directory", "--eval", "-E", "-I", "--include-dir"]),
    (
        &["just"],
        &[
            "--shell",
            "--shell-arg",
            "--set",
            "-f",
            "--justfile",
            "-d",
            "--working-directory",
            "-c",
            "--command",
            "--chooser",
            "--dotenv-path",
            "--dotenv-filename",
        ],
    ),
    (&["ninja"], &["-C", "-f", "-t"]),
    (
        &["ctest"],
        &[
            "-S",
            "--script",
            "--script-new-process",
            "--test-command",
            "--build-and-test",
            "--build-makeprogram",
            "-D",
            "-T",
            "-M",
        ],
    ),
    (
        &["gradle", "gradlew"],
        &[
            "-I",
            "--init-script",
            "--include-build",
            "-b",
            "--build-file",
            "-c",
            "--settings-file",
            "-p",
            "--project-dir",
            "-g",
            "--gradle-user-home",
            "-D",
            "--system-prop",
        ],
    ),
    (&["mvn"], &["-f", "--file", "-s", "--settings", "-gs", "--global-settings", "-t", "--toolchains"]),
    (&["man"], &["-P", "--pager", "-H", "--html"]),
    (&["pytest", "py.test"], &["-c", "--rootdir", "-p", "-o", "--override-ini", "--basetemp"]),
    (
        &["python", "python3", "node", "php"],
        &["-c", "-e", "--eval", "-p", "--print", "-r", "--require", "--import", "--loader"],
    ),
    (
        &["docker", "podman"],
        &[
            "--privileged",
            "--volume",
            "-v",
            "--mount",
            "--entrypoint",
            "-H",
            "--host",
            "--pid",
            "--cap-add",
            "--device",
        ],
    ),
    (&["kubectl"], &["--kubeconfig", "--server", "--token", "--as", "-f", "--filename"]),
    (&["jq"], &["-L", "-f", "--from-file"]),
];

/// Subcommands of git with the options and words that only they have. `*` stands for all of the subcommand.
const GIT: &[(&str, &[&str])] = &[
    ("bisect", &["run"]),
    ("branch", &["-d", "-D", "-f", "-M", "-C"]),
    ("clone", &["-u", "-c"]),
    ("commit", &["-n"]),
    ("config", &["*"]),
    ("difftool", &["*"]),
    ("filter-branch", &["*"]),
    ("grep", &["-O"]),
    ("mergetool", &["*"]),
    ("http-push", &["*"]),
    ("push", &["-f", "-d", "--prune"]),
    ("rebase", &["-x", "--exec"]),
    ("send-pack", &["*"]),
    ("submodule", &["foreach"]),
];
/// Variables of `make` that only change how much it prints.
const QUIET: &[&str] = &["V", "VERBOSE", "Q"];

/// Returns the first word of a command, beyond those that a rule names, that does more than the command's name says.
pub(crate) fn hazard<'a>(command: &'a Simple, named: &[Word]) -> Option<&'a str> {
    let program = command.program()?;
    let beyond = command.words.get(named.len()..).unwrap_or_default();
    let text = |word: &'a Word| word.text.as_str();
    let word = match program {
        "git" => other_git(command, named),
        "make" | "gmake" => beyond.iter().find(|word| sets_variable(word)).or_else(|| other_target(beyond, named)),
        "just" | "ninja" => other_target(beyond, named),
        "kubectl" => beyond.iter().find(|word| word.text.to_ascii_lowercase().contains("secret")),
        "sed" if named.iter().skip(1).all(|word| word.text.starts_with('-')) => {
            beyond.iter().find(|word| !word.text.starts_with('-')).filter(|word| !is_plain_edit(&word.text))
        }
        _ => None,
    };
    word.map(text).or_else(|| {
        let (_, options) = HAZARDS.iter().find(|(programs, _)| programs.contains(&program))?;
        // Words behind `--` are no options of the program itself.
        let end = beyond.iter().position(|word| word.text == "--").unwrap_or(beyond.len());
        let is_hazard = |word: &&Word| {
            let is_named = named.contains(word);
            !is_named && (is_banned(word, options) || options::is_one(command, word, options))
        };
        beyond[..end].iter().find(is_hazard).map(text)
    })
}

fn other_git<'a>(command: &'a Simple, named: &[Word]) -> Option<&'a Word> {
    let words = &command.words;
    let is_quiet = |word: &&Word| matches!(word.text.as_str(), "--no-pager" | "-P");
    let at = 1 + words[1..].iter().take_while(is_quiet).count();
    let subcommand = words.get(at)?;
    // What stands before the subcommand changes what it runs and where.
    if subcommand.text.starts_with('-') {
        return (at >= named.len() && !matches!(subcommand.text.as_str(), "--version" | "--help"))
            .then_some(subcommand);
    }
    // An alias, or a program that is not part of git.
    if !git::is_command(subcommand) && at >= named.len() {
        return Some(subcommand);
    }
    let beyond = words.get(named.len().max(at + 1)..).unwrap_or_default();
    let is_other_ref = |word: &&Word| subcommand.text == "push" && word.text.starts_with(['+', ':']);
    let (_, hazards) = GIT.iter().find(|(name, _)| *name == subcommand.text)?;
    if *hazards == ["*"] {
        return (at >= named.len()).then_some(subcommand);
    }
    let options = beyond.iter().take_while(|word| word.text != "--").filter(|word| !named.contains(word));
    let mut options = options.filter(|word| is_banned(word, hazards) || hazards.contains(&word.text.as_str()));
    options.next().or_else(|| beyond.iter().find(is_other_ref))
}

/// Returns whether a word sets a variable of `make`, which may be a program.
fn sets_variable(word: &Word) -> bool {
    let Some((name, value)) = word.text.split_once('=') else { return false };
    let is_quiet = QUIET.contains(&name) && value.bytes().all(|byte| byte.is_ascii_digit());
    !word.text.starts_with('-') && !is_quiet
}

/// Returns a target beyond the one that a rule names. A rule that names none is about all of them.
fn other_target<'a>(beyond: &'a [Word], named: &[Word]) -> Option<&'a Word> {
    if named.iter().skip(1).all(|word| word.text.starts_with('-')) {
        return None;
    }
    let is_quiet = |word: &Word| word.text.contains('=') && !sets_variable(word);
    let is_number = |word: &Word| word.text.parse::<u32>().is_ok();
    beyond.iter().find(|word| !word.text.starts_with('-') && !is_number(word) && !is_quiet(word))
}

/// Returns whether a script of `sed` only prints lines or replaces text: not with `e`, which runs it, and not with `w`.
fn is_plain_edit(script: &str) -> bool {
    if script.chars().all(|c| c.is_ascii_digit() || ",$pdq; ".contains(c)) {
        return true;
    }
    let Some(rest) = script.strip_prefix('s') else { return false };
    let Some(delimiter) = rest.chars().next().filter(|c| !c.is_alphanumeric() && *c != '\\') else { return false };
    let parts: Vec<&str> = rest[delimiter.len_utf8()..].split(delimiter).collect();
    // A delimiter that is escaped makes more parts, which costs a question.
    matches!(parts.as_slice(), [_, _, flags] if flags.chars().all(|c| c.is_ascii_digit() || "gpiI".contains(c)))
        && !script.contains('\n')
}
