//! Options that make well-known programs unexpectedly run other programs or write files.
//!
//! A rule that allows the beginning of a command does not cover them, unless the rule itself names the option.

use crate::git;
use crate::launchers::started;
use crate::options;
use crate::shell::{Simple, Word};
use crate::words::is_banned;

/// Programs with such options, both separated by spaces.
const HAZARDS: &[(&str, &str)] = &[
    ("", ""),
    (
        "git",
        "--ext-diff --textconv --output --open-files-in-pager --exec --exec-path --upload-pack \
         --receive-pack --git-dir --work-tree --config-env --config --template --force --force-with-lease \
         --mirror --hard --no-verify --delete --prune --attr-source --cc-cmd --header-cmd --sendmail-cmd \
         --smtp-server --strategy --to-cmd --unsafe-paths",
    ),
    ("cargo", "--config -Z"),
    ("go", "=-exec =-toolexec =-o =-modfile =-overlay =-C =-vettool =-gccgoflags =-compiler"),
    ("rg", "--pre --hostname-bin"),
    ("find", "=-exec =-execdir =-ok =-okdir =-delete =-fprint =-fprint0 =-fprintf =-fls"),
    ("sort", "-o --output --compress-program"),
    (
        "tar bsdtar gtar",
        "--to-command --checkpoint-action --use-compress-program -I --rsh-command --info-script -F \
         --new-volume-script -P --absolute-names -T -h --dereference --rmt-command \
         --index-file --remove-files --unlink-first --recursive-unlink -U",
    ),
    ("sed perl ruby", "-i --in-place -e --expression -f --file -E -M -m -I -s"),
    (
        "rsync",
        "-e --rsh --rsync-path --delete -M --remote-option --files-from --log-file --write-batch \
         --only-write-batch --read-batch --daemon --config --temp-dir -T --remove-source-files -L \
         --copy-links --copy-unsafe-links -k --copy-dirlinks --delay-updates",
    ),
    ("zip", "-T -TT --unzip-command"),
    (
        "wget",
        "-O -i --output-document --use-askpass --post-file --post-data --execute -e --config --input-file \
         -P --load-cookies --save-cookies --body-file --background --output-file -o -a --append-output \
         --warc-file --use-server-timestamps --directory-prefix --certificate --private-key \
         --ca-certificate --body-data --hsts-file --rejected-log",
    ),
    ("ssh scp sftp", "-o -F -S -J -W -L -R -D -E -I -b -B"),
    (
        "npm npx pnpm yarn",
        "--script-shell --prefix --node-options --shell --registry --globalconfig --userconfig -g \
         --global -C --dir --cwd",
    ),
    ("make gmake", "-f --file --makefile -C --directory --eval -E -I --include-dir"),
    (
        "just",
        "--shell --shell-arg --set -f --justfile -d --working-directory -c --command --chooser \
         --dotenv-path --dotenv-filename --edit -e --choose --init",
    ),
    ("ninja", "-C -f -t"),
    ("ctest", "-S --script --script-new-process --test-command --build-and-test --build-makeprogram -D -T -M"),
    (
        "gradle gradlew",
        "-I --init-script --include-build -b --build-file -c --settings-file -p --project-dir -g \
         --gradle-user-home -D --system-prop",
    ),
    ("mvn", "-f --file -s --settings -gs --global-settings -t --toolchains"),
    ("man", "-P --pager -H --html -C --config-file -X -T -Z"),
    ("pytest py.test", "-c --rootdir -p -o --override-ini --basetemp"),
    ("python python3 node php", "-c -e --eval -p --print -r --require --import --loader -i -E -M -S -d -z -f"),
    ("docker podman", "--privileged --volume -v --mount --entrypoint -H --host --pid --cap-add --device"),
    ("kubectl", "--kubeconfig --server --token --as -f --filename"),
    ("jq", "-L -f --from-file"),
    ("fd fdfind", "--exec --exec-batch -x -X"),
    ("ag ack", "--pager --ackrc --env --follow -f"),
    ("bat batcat", "--pager --config-file --map-syntax"),
    (
        "less more most",
        "-o -O -k -K --log-file --LOG-FILE --lesskey-file --lesskey-src --lesskey-content -p --pattern -t \
         --tag -T",
    ),
    ("vi vim nvim view ex gvim vimdiff", "-c --cmd -S -s -u -U -e -E -V -w -W -i"),
    ("emacs emacsclient", "--eval -e --execute -l --load -f --funcall --batch --script"),
    ("split csplit", "--filter"),
    ("install", "--strip-program -s --strip"),
    ("diff sdiff diff3", "--diff-program -o --output -l --paginate"),
    ("patch", "-e --ed -o --output -d --directory -r --reject-file --get -g"),
    ("cpio", "--rsh-command --absolute-filenames -F --file"),
    ("unzip zipinfo", "-: -^"),
    ("sqlite3", "=-cmd =-init =-A =-append =-zip"),
    ("psql", "-c --command -f --file -o --output -L --log-file -v --set --variable"),
    ("mysql mariadb", "-e --execute --pager --tee --init-command --plugin-dir --defaults-file --defaults-extra-file"),
    (
        "gdb lldb",
        "-x -ex -iex -ix --command --eval-command --init-command --init-eval-command -o -O -s -S --source \
         --one-line --batch",
    ),
    ("tcpdump", "-z -w -Z"),
    ("nmap", "--script --datadir -iL -oN -oX -oG -oA"),
    ("nc ncat netcat", "-e -c --exec --sh-exec --lua-exec -X --proxy"),
    ("apt apt-get aptitude", "-o -c --option --config-file"),
    ("dpkg", "--pre-invoke --post-invoke --root --admindir --instdir"),
    ("dnf yum", "--setopt -c --config --installroot"),
    ("rpm rpmbuild", "-E --eval --pipe -D --define --load --rcfile --macros --root --dbpath"),
    (
        "gcc g++ cc c++ clang clang++ gfortran",
        "-wrapper -B -fplugin -specs --specs -load -Xclang -fpass-plugin -Xassembler -Xlinker -fuse-ld",
    ),
    ("rustc rustdoc", "-C --codegen -Z --test-builder --runtool --test-runtool"),
    ("cmake", "-P -E -C --script"),
    (
        "lua luajit tclsh julia elixir erl groovy scala swift Rscript R osascript ghc",
        "-e -E -L -eval --eval -r --require --execute -l -i",
    ),
    (
        "pip pip3",
        "--python --proxy --index-url -i --extra-index-url --trusted-host --global-option \
         --config-settings --prefix --root",
    ),
    ("openssl", "=-engine =-provider =-provider-path =-config"),
    ("env", "-S --split-string -C --chdir"),
    ("xz gzip zstd bzip2", "--files --files0 --filelist --output-dir-flat -o"),
    ("strace ltrace", "-o --output"),
    ("time", "-o --output"),
    ("shuf ptx pr", "-o --output --random-source --only-file --ignore-file"),
    ("tshark", "-X -w -z"),
    ("crontab", "-e -r"),
    ("journalctl systemctl", "-H --host -M --machine --root --image"),
];

/// Subcommands of git with the options and words that only they have. `*` stands for all of the subcommand.
const GIT: &[(&str, &[&str])] = &[
    ("bisect", &["run"]),
    ("branch", &["-d", "-D", "-f", "-M", "-C"]),
    ("clone", &["-u", "-c"]),
    ("commit", &["-n"]),
    ("config", &["*"]),
    ("credential", &["*"]),
    ("daemon", &["*"]),
    ("difftool", &["*"]),
    ("filter-branch", &["*"]),
    ("for-each-repo", &["*"]),
    ("grep", &["-O"]),
    ("instaweb", &["*"]),
    ("maintenance", &["register", "start"]),
    ("merge", &["-s"]),
    ("merge-index", &["*"]),
    ("mergetool", &["*"]),
    ("http-push", &["*"]),
    ("pull", &["-s"]),
    ("push", &["-f", "-d", "--prune"]),
    ("rebase", &["-x", "--exec", "-s"]),
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
        "awk" | "gawk" | "mawk" | "nawk" | "goawk" => beyond.iter().find(|word| !is_plain_awk(&word.text)),
        "curl" => beyond.iter().find(|word| !is_plain_fetch(&word.text)),
        // `HOST:FILE` starts a remote shell.
        "tar" | "bsdtar" | "gtar" => {
            let is_remote = |word: &&Word| word.text.contains(':') && !word.text.starts_with('-');
            // Such a list may contain options.
            let is_list = |word: &&Word| word.text.starts_with("--files");
            old_options(command, named).or_else(|| beyond.iter().find(|word| is_remote(word) || is_list(word)))
        }
        "go" | "rustc" => beyond.iter().find(|word| word.text.contains("-extld") || word.text.contains("linker")),
        "less" | "more" | "most" | "vi" | "vim" | "nvim" | "view" | "ex" | "vimdiff" | "gvim" | "emacs" => {
            beyond.iter().find(|word| word.text.starts_with('+'))
        }
        "sqlite3" => beyond.iter().find(|word| {
            let text = word.text.to_ascii_lowercase();
            text.trim_start().starts_with('.')
                || ["load_extension", "edit(", "writefile"].iter().any(|call| text.contains(call))
        }),
        "m4" | "dc" | "ed" | "psql" | "mysql" | "mariadb" => {
            beyond.iter().find(|word| word.text.contains(['!', '|']) || word.text.contains("syscmd"))
        }
        "socat" => beyond.first(),
        _ => None,
    };
    let word = word.or_else(|| started(command, named));
    word.map(text).or_else(|| {
        let (_, options) = HAZARDS.iter().find(|(programs, _)| programs.split(' ').any(|name| name == program))?;
        let options: Vec<&str> = options.split(' ').collect();
        // Words behind `--` are no options of the program itself.
        let end = beyond.iter().position(|word| word.text == "--").unwrap_or(beyond.len());
        let is_hazard = |word: &&Word| is_banned(word, &options) || options::is_one(command, word, &options);
        beyond[..end].iter().find(is_hazard).map(text)
    })
}

/// Returns whether a word of `awk` is neither an option that loads code nor a script that starts programs or opens files.
fn is_plain_awk(text: &str) -> bool {
    const OPENS: &[&str] = &["system", "getline", "|", ">", "@", "/inet", "extension"];
    match text.strip_prefix('-') {
        Some(option) => text == "-" || option.starts_with(['F', 'v']) || text == "--",
        None => !OPENS.iter().any(|word| text.contains(word)),
    }
}

/// Returns whether a word of `curl` neither sends nor writes a file, and leads nowhere but to the address: all options that
/// are not known do.
fn is_plain_fetch(text: &str) -> bool {
    const LONG: &str = "compressed connect-timeout fail fail-with-body globoff head header http1.1 http2 include insecure \
        ipv4 ipv6 location max-filesize max-redirs max-time no-progress-meter progress-bar range request retry \
        retry-all-errors retry-delay retry-max-time show-error silent tlsv1.2 tlsv1.3 user-agent verbose";
    let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty()) else {
        // `@FILE` is the value of a header, and a scheme may be one of local files.
        let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let is_local = |scheme: &str| matches!(scheme, "file" | "scp" | "sftp" | "smb" | "gopher" | "dict" | "telnet");
        return !text.starts_with('@') && !scheme.as_deref().is_some_and(is_local);
    };
    if let Some(long) = option.strip_prefix('-') {
        return long.is_empty() || LONG.split_whitespace().any(|known| known == long);
    }
    let value = option.find(['A', 'H', 'm', 'r', 'X']);
    option[..value.unwrap_or(option.len())].chars().all(|letter| "0123fgiIkLNqsSvZ46#".contains(letter))
        && value.is_none_or(|at| !option[at + 1..].starts_with('@'))
}

/// Returns the first argument of `tar` if it holds options without a dash that do more than pack and unpack, unless the rule
/// names it.
fn old_options<'a>(command: &'a Simple, named: &[Word]) -> Option<&'a Word> {
    let first = command.words.get(1).filter(|_| named.len() < 2)?;
    let is_plain = |letter: char| "cxtrudvzjJZafkmpOwlsSniGbWAo".contains(letter);
    (!first.text.starts_with('-') && !first.text.chars().all(is_plain)).then_some(first)
}

fn other_git<'a>(command: &'a Simple, named: &[Word]) -> Option<&'a Word> {
    let words = &command.words;
    let is_quiet = |word: &&Word| matches!(word.text.as_str(), "--no-pager" | "-P");
    let at = 1 + words[1..].iter().take_while(is_quiet).count();
    let subcommand = words.get(at)?;
    // Options before the subcommand change which programs it runs, and where.
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
    let options = beyond.iter().take_while(|word| word.text != "--");
    let mut options = options.filter(|word| is_banned(word, hazards) || hazards.contains(&word.text.as_str()));
    options.next().or_else(|| beyond.iter().find(is_other_ref))
}

/// Returns whether a word sets a variable of `make`, which may be a program.
fn sets_variable(word: &Word) -> bool {
    let Some((name, value)) = word.text.split_once('=') else { return false };
    let is_quiet = QUIET.contains(&name) && value.bytes().all(|byte| byte.is_ascii_digit());
    !word.text.starts_with('-') && !is_quiet
}

/// Returns a target beyond the one that a rule names. A rule that names no target is about all targets.
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

// Commands that stay in the sandbox and destroy data that no snapshot restores: commits that only a repository has.
//
// This guards against accidents and not against malice: a script may do the same unnoticed.

/// Programs that remove or replace the files that they name.
const REMOVERS: &[&str] = &["dd", "mv", "rm", "rmdir", "shred", "truncate", "unlink"];

/// Subcommands of git, with words that each make them lose commits; `*` if no word is needed.
const LOSES: &[(&str, &[&str])] = &[
    ("branch", &["-D"]),
    ("filter-branch", &["*"]),
    ("filter-repo", &["*"]),
    ("gc", &["--prune"]),
    ("prune", &["*"]),
    ("reflog", &["delete", "expire"]),
    ("stash", &["clear", "drop"]),
    ("tag", &["-d", "--delete"]),
    ("update-ref", &["-d", "--stdin"]),
];

/// Returns whether a command destroys a part of a repository's history.
pub(crate) fn destroys_history(command: &Simple) -> bool {
    let Some(name) = command.program() else { return false };
    if command.redirects.iter().any(|redirect| redirect.writes && is_in_repository(&redirect.target)) {
        return true;
    }
    if REMOVERS.contains(&name) {
        return command.words[1..].iter().any(is_in_repository);
    }
    name == "git" && loses_commits(command)
}

/// Returns whether a word names a repository or something in it, except for the locks that a killed `git` leaves.
fn is_in_repository(word: &Word) -> bool {
    let path = word.text.rsplit('=').next().unwrap_or_default();
    !path.ends_with(".lock") && path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
}

fn loses_commits(command: &Simple) -> bool {
    let Some((at, subcommand)) = git::subcommand(command) else { return false };
    let Some((name, words)) = LOSES.iter().find(|(name, _)| *name == subcommand.text) else { return false };
    let arguments = &command.words[at + 1..];
    let has = |option: &str| arguments.iter().any(|word| word.text.split('=').next() == Some(option));
    // The long form of `-D`.
    let is_forced = *name == "branch" && has("--delete") && (has("--force") || has("-f"));
    let only_shows = has("-n") || has("--dry-run");
    !only_shows && (is_forced || words.iter().any(|word| *word == "*" || has(word)))
}
