//! Commands that only read the project, which run without a question where the mode permits reading.

use crate::repository;
use crate::rule::glob;
use crate::scene::Scene;
use crate::shell::{Kind, Simple, Word};
use std::path::PathBuf;

/// A program that only reads.
struct Reader {
    names: &'static [&'static str],
    arguments: Arguments,
    /// Options that do more than read, or that follow links. Those with one letter are refused in groups, too.
    banned: &'static [&'static str],
    /// Most words that are no options, where a further one would be written to.
    most: usize,
}

/// The meaning of a program's arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arguments {
    /// Texts.
    Texts,
    /// Files, of which only names and numbers are shown.
    Names,
    /// Files, whose content is shown.
    Content,
}

const fn reader(names: &'static [&'static str], arguments: Arguments, banned: &'static [&'static str]) -> Reader {
    Reader { names, arguments, banned, most: usize::MAX }
}

const READERS: &[Reader] = &[
    reader(
        &[
            ":", "true", "false", "pwd", "whoami", "id", "uname", "arch", "nproc", "echo", "printf", "basename",
            "dirname", "seq", "sleep", "tr", "which", "type", "uptime", "set", "logname", "groups", "expr", "cal",
        ],
        Arguments::Texts,
        &[],
    ),
    reader(&["cd", "chdir"], Arguments::Texts, &[]),
    reader(&["date"], Arguments::Content, &["-s", "--set"]),
    reader(&["test", "ls", "dir", "stat", "du", "realpath", "readlink", "wc"], Arguments::Names, &["--files0-from"]),
    reader(&["df", "free"], Arguments::Names, &[]),
    reader(&["tree"], Arguments::Names, &["-o", "-l", "--output", "-R"]),
    // With `-z`, it starts programs that decompress.
    reader(
        &["file"],
        Arguments::Names,
        &[
            "-C",
            "--compile",
            "-m",
            "--magic-file",
            "-f",
            "--files-from",
            "-z",
            "-Z",
            "--uncompress",
            "--uncompress-noreport",
        ],
    ),
    reader(
        &[
            "cat",
            "head",
            "nl",
            "tac",
            "rev",
            "cut",
            "fold",
            "paste",
            "comm",
            "cmp",
            "od",
            "hexdump",
            "strings",
            "column",
            "cksum",
            "md5sum",
            "sha1sum",
            "sha256sum",
            "sha512sum",
            "b2sum",
            "expand",
            "unexpand",
            "fmt",
        ],
        Arguments::Content,
        &[],
    ),
    reader(&["tail"], Arguments::Content, &["-f", "-F", "--follow", "--retry"]),
    reader(
        &["sort"],
        Arguments::Content,
        &["-o", "--output", "--compress-program", "-T", "--temporary-directory", "--files0-from"],
    ),
    reader(&["diff"], Arguments::Content, &["-r", "--recursive", "-l", "--paginate"]),
    Reader { names: &["uniq", "xxd"], arguments: Arguments::Content, banned: &["-r", "--revert"], most: 1 },
    reader(
        &["grep", "egrep", "fgrep"],
        Arguments::Content,
        &["-R", "--dereference-recursive", "-f", "--file", "--exclude-from"],
    ),
    reader(
        &["rg"],
        Arguments::Content,
        &[
            "--pre",
            "--hostname-bin",
            "-z",
            "--search-zip",
            "-L",
            "--follow",
            "-f",
            "--file",
            "--ignore-file",
            "--hidden",
            "-.",
            "-u",
            "--unrestricted",
        ],
    ),
    reader(
        &["find"],
        Arguments::Names,
        &[
            "-exec",
            "-execdir",
            "-ok",
            "-okdir",
            "-delete",
            "-fprint",
            "-fprint0",
            "-fprintf",
            "-fls",
            "-files0-from",
            "-L",
            "-H",
            "-follow",
        ],
    ),
];

/// Programs whose version may be asked for. Not those that a project replaces, such as `cargo` with `rust-toolchain.toml`.
const VERSIONS: &[&str] = &[
    "node", "python", "python3", "git", "gcc", "g++", "clang", "make", "cmake", "java", "ruby", "perl", "php",
    "docker", "kubectl", "bash", "jq", "rg", "grep", "sed", "curl",
];

/// Subcommands of git that only read, with banned options.
const GIT: &[&str] = &[
    "status",
    "log",
    "diff",
    "show",
    "rev-parse",
    "ls-files",
    "ls-tree",
    "describe",
    "blame",
    "shortlog",
    "cat-file",
    "grep",
    "rev-list",
    "merge-base",
    "name-rev",
    "diff-tree",
    "count-objects",
    "cherry",
];
const GIT_BANNED: &[&str] = &[
    "--ext-diff",
    "--textconv",
    "--output",
    "--open-files-in-pager",
    "--exec",
    "--no-index",
    "--filters",
    "--show-signature",
    "--exec-path",
    "--git-dir",
    "--work-tree",
    "--config-env",
    "--namespace",
    "--super-prefix",
    "--contents",
    "--ignore-revs-file",
    "--parseopt",
    "--sq-quote",
    "--batch-command",
    "--path-format",
    "--recurse-submodules",
    "--submodule",
];
/// Names of files with secrets, to compare with patterns.
const SECRETS: &[&str] = &[
    ".env",
    ".env.local",
    ".envrc",
    ".netrc",
    ".npmrc",
    ".pgpass",
    "credentials",
    "id_rsa",
    "id_ed25519",
    "secrets.yml",
];
/// Options of `git branch`, `tag` and `remote` that list.
const GIT_LISTS: &[&str] =
    &["-a", "-r", "-v", "-vv", "-l", "--list", "--all", "--remotes", "--show-current", "--verbose", "-n"];
/// Variables that change nothing but how much programs print.
const VARIABLES: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LC_ALL",
    "LINES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
    "RUST_LIB_BACKTRACE",
    "CARGO_INCREMENTAL",
    "RUST_TEST_THREADS",
    "PROPTEST_CASES",
];

/// Returns the first variable of a command that may change what it does.
pub(crate) fn strange_variable(command: &Simple) -> Option<&str> {
    let strange = |(name, value): &&(String, Word)| !VARIABLES.contains(&name.as_str()) || value.kind == Kind::Dynamic;
    command.assignments.iter().find(strange).map(|(name, _)| name.as_str())
}

/// Returns whether a command only reads the project.
pub(crate) fn reads_only(command: &Simple, scene: &Scene<'_>) -> bool {
    let Some(name) = command.words[0].literal() else { return false };
    let Some(directories) = command.directories.as_ref().filter(|all| !all.is_empty()) else { return name == "cd" };
    let is_inside = directories.iter().all(|directory| scene.contains(directory, "."));
    if strange_variable(command).is_some() || command.unknown.is_some() || !is_inside {
        return false;
    }
    let arguments = &command.words[1..];
    if let [only] = arguments
        && VERSIONS.contains(&name)
        && matches!(only.literal(), Some("--version" | "-version" | "-V"))
    {
        return true;
    }
    match name {
        // Alone, it prints all variables.
        "set" if arguments.is_empty() => false,
        // An index is computed, and may contain commands.
        "test" if arguments.iter().any(|word| word.text.contains('[')) => false,
        "git" => is_git(command, scene),
        "sed" => {
            is_page(arguments)
                && arguments.iter().skip(2).all(|word| is_readable(word, Arguments::Content, command, scene))
        }
        "command" => {
            matches!(arguments, [option, word] if matches!(option.literal(), Some("-v" | "-V")) && word.literal().is_some())
        }
        "hostname" => arguments.is_empty(),
        _ => READERS
            .iter()
            .find(|reader| reader.names.contains(&name))
            .is_some_and(|reader| reader.permits(command, scene)),
    }
}

/// Returns whether a program is one that only reads, and nothing of what files contain.
pub(crate) fn shows_no_content(name: &str) -> bool {
    READERS.iter().any(|reader| reader.names.contains(&name) && reader.arguments != Arguments::Content)
}

impl Reader {
    fn permits(&self, command: &Simple, scene: &Scene<'_>) -> bool {
        let arguments = &command.words[1..];
        let is_printf_to_variable =
            command.words[0].text == "printf" && arguments.iter().any(|word| word.text.starts_with("-v"));
        // Behind `--`, all words count.
        let options = arguments.iter().position(|word| word.text == "--").unwrap_or(arguments.len());
        let positional = arguments[..options].iter().filter(|word| !word.text.starts_with('-') || word.text == "-");
        let positional = positional.count() + arguments[options..].len().saturating_sub(1);
        let searches = matches!(command.words[0].text.as_str(), "grep" | "egrep" | "fgrep" | "rg");
        !is_printf_to_variable
            && (!searches || !selects_secret(arguments))
            && positional <= self.most
            && (command.words[0].text != "date" || shows_time(arguments))
            && arguments
                .iter()
                .all(|word| !is_banned(word, self.banned) && is_readable(word, self.arguments, command, scene))
    }
}

/// Returns whether `date` only shows a time: it sets the clock to a word that is neither a format nor a value.
fn shows_time(arguments: &[Word]) -> bool {
    const VALUES: &[&str] = &["-d", "-r", "-ud", "-ur", "--date", "--reference"];
    let mut before = "";
    arguments.iter().all(|word| {
        let is_value = VALUES.contains(&std::mem::replace(&mut before, &word.text));
        is_value || (word.text.starts_with(['-', '+']) && word.text != "--")
    })
}

/// Returns whether a word is one of the options, in any of their spellings. Those behind `=` are not grouped.
pub(crate) fn is_banned(word: &Word, banned: &[&str]) -> bool {
    let Some(text) = word.text.strip_prefix('-').filter(|text| !text.is_empty()) else { return false };
    let name = text.split('=').next().unwrap_or_default();
    banned.iter().any(|option| {
        // Programs of Go take long options behind a single dash.
        if let Some(exact) = option.strip_prefix("=-") {
            return name == exact || text.strip_prefix('-').is_some_and(|text| text.split('=').next() == Some(exact));
        }
        let option = &option[1..];
        match option.strip_prefix('-') {
            // Long options may be abbreviated.
            Some(_) => name.len() > 2 && option.starts_with(name),
            None if option.len() == 1 => !text.starts_with('-') && text.contains(option),
            None => name == option,
        }
    })
}

/// Returns whether a word names nothing that is outside of the workspace or secret.
fn is_readable(word: &Word, arguments: Arguments, command: &Simple, scene: &Scene<'_>) -> bool {
    match (word.kind, arguments) {
        (Kind::Dynamic, _) | (Kind::Pattern, Arguments::Content) => return false,
        (_, Arguments::Texts) => return word.kind == Kind::Literal,
        (Kind::Pattern, Arguments::Names) if word.may_be_option() => return false,
        _ => {}
    }
    is_below(word, command, scene) && (arguments == Arguments::Names || !names_secret(&word.text))
}

/// Returns whether a word, or the value in it, names nothing outside of the workspace.
pub(crate) fn is_below(word: &Word, command: &Simple, scene: &Scene<'_>) -> bool {
    let text = word.text.as_str();
    if text.split(['/', '=', ':', ',']).any(|part| part == "..") && word.kind != Kind::Literal {
        return false;
    }
    let mut parts = vec![text];
    if text.starts_with('-') {
        parts.extend(text.split_once('=').map(|(_, value)| value));
        parts.extend(text.get(2..).filter(|_| !text.starts_with("--")));
        parts.extend(text.find('/').map(|at| &text[at..]));
    } else {
        parts.extend(text.split_once(['=', ':', '@']).map(|(_, value)| value));
    }
    let directories = command.directories.as_deref().unwrap_or_default();
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .all(|part| part == "/dev/null" || directories.iter().all(|directory| scene.contains(directory, part)))
}

fn names_secret(text: &str) -> bool {
    // The config of a repository may have passwords in addresses.
    let mut parts = text.split(['/', '=']).skip_while(|part| !part.eq_ignore_ascii_case(".git")).skip(1);
    let is_repository = text.split(['/', '=']).any(|part| part.eq_ignore_ascii_case(".git"));
    let has_config = |part: &str| part.is_empty() || part == "." || part.to_ascii_lowercase().starts_with("config");
    if is_repository && !text.starts_with("--exclude") && parts.next().is_none_or(has_config) {
        return true;
    }
    text.split(['/', ':', '=']).any(is_secret_name)
        || text.get(2..).is_some_and(|rest| text.starts_with('-') && is_secret_name(rest))
}

/// Returns whether a word of a search selects files that usually hold secrets, as in `--include=.env*`.
fn selects_secret(arguments: &[Word]) -> bool {
    const SELECTING: &[&str] = &["-g", "--glob", "--iglob", "--include"];
    // Patterns that begin with a star are about an extension.
    let is_about = |pattern: &str| {
        let loose = pattern.replace(['?', '[', ']'], "*");
        !pattern.starts_with('*') && SECRETS.iter().any(|name| glob(&loose, name))
    };
    let apart = arguments.windows(2).filter(|words| SELECTING.contains(&words[0].text.as_str()));
    let glued = arguments.iter().filter_map(|word| word.text.split_once('=').map(|(_, value)| value));
    let short = arguments.iter().filter_map(|word| word.text.strip_prefix("-g"));
    apart.map(|words| words[1].text.as_str()).chain(glued).chain(short).any(is_about)
}

/// Returns whether a file of this name usually holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
        ".git-credentials",
        ".htpasswd",
        "credentials",
        "credentials.json",
        "terraform.tfstate",
        "secrets.yml",
        "secrets.yaml",
        "secrets.json",
        "secrets.toml",
        ".envrc",
        "auth.json",
        "kubeconfig",
        "master.key",
    ];
    const ENDS: &[&str] =
        &[".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks", ".tfvars", ".ppk", ".asc", ".gpg"];
    const STARTS: &[&str] = &["id_rsa", "id_ed25519", "id_ecdsa", "id_dsa"];
    const SAMPLES: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist"];
    let name = name.to_ascii_lowercase();
    let is_public = name.ends_with(".pub") || SAMPLES.contains(&name.as_str());
    let is_env = name == ".env" || name.starts_with(".env.") || name.ends_with(".env");
    !is_public
        && (is_env
            || NAMES.contains(&name.as_str())
            || STARTS.iter().any(|start| name.starts_with(start))
            || ENDS.iter().any(|end| name.ends_with(end)))
}

/// Returns whether `sed` only prints lines: `sed -n 1,20p FILE`.
fn is_page(arguments: &[Word]) -> bool {
    let [option, script, files @ ..] = arguments else { return false };
    let is_address = |c: char| c.is_ascii_digit() || ",$p; ".contains(c);
    option.literal() == Some("-n")
        && script.literal().is_some_and(|script| script.chars().all(is_address) && script.ends_with('p'))
        && files.iter().all(|file| !file.text.starts_with('-'))
}

fn is_git(command: &Simple, scene: &Scene<'_>) -> bool {
    let skipped =
        command.words[1..].iter().take_while(|word| matches!(word.literal(), Some("--no-pager" | "-P"))).count();
    let Some([subcommand, arguments @ ..]) = command.words.get(1 + skipped..) else { return false };
    let is_list = |word: &Word| word.literal().is_some_and(|text| GIT_LISTS.contains(&text));
    let name = subcommand.literal().unwrap_or_default();
    let is_harmless = |word: &Word| {
        // Those of `grep` start a pager, and those of `log` a program that verifies.
        let is_program = (name == "grep" && is_banned(word, &["-O"])) || word.text.contains("%G");
        !is_program && !is_banned(word, GIT_BANNED) && is_object(word, command, scene)
    };
    let texts: Vec<Option<&str>> = arguments.iter().map(Word::literal).collect();
    let reads = match name {
        "remote" if matches!(texts.as_slice(), [Some("get-url"), Some(_)]) => true,
        "branch" | "tag" | "remote" => arguments.iter().all(is_list),
        "stash" => matches!(texts.as_slice(), [Some("list"), ..]) && arguments.iter().all(is_harmless),
        "reflog" => arguments.is_empty(),
        "worktree" => texts == [Some("list")],
        _ => GIT.contains(&name) && arguments.iter().all(is_harmless),
    };
    let compares_files = matches!(name, "status" | "diff" | "describe");
    let is_plain = |directory: &PathBuf| repository::is_plain(directory, scene.workspace, compares_files);
    reads && command.directories.iter().flatten().all(is_plain)
}

/// Returns whether a word names a revision or a file that may be read.
fn is_object(word: &Word, command: &Simple, scene: &Scene<'_>) -> bool {
    let is_format =
        word.text.starts_with("--format") || word.text.starts_with("--pretty") || word.text.starts_with("--since");
    let is_range = |text: &str| text.contains("..") && !text.contains("/..") && !text.contains("../");
    word.kind == Kind::Literal
        && (is_format || is_range(&word.text) || is_below(word, command, scene))
        && !names_secret(&word.text)
}
