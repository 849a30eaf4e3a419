//! Options that a program defines as the same, such as `-f` and `--force` of `git push`.
//!
//! A rule about one of them is about all of them.

use crate::shell::{Simple, Word};

/// Spellings of the options of a program.
struct ProgramOptions {
    names: &'static [&'static str],
    /// Words; the command has one of them. An empty list stands for all commands of the program.
    subcommands: &'static [&'static str],
    /// Options that mean the same. A letter in several groups means all of them together.
    same: &'static [&'static [&'static str]],
    /// Letters that take a value, which may follow in the same word.
    valued: &'static str,
}

const fn git(
    subcommands: &'static [&'static str],
    same: &'static [&'static [&'static str]],
    valued: &'static str,
) -> ProgramOptions {
    ProgramOptions { names: &["git"], subcommands, same, valued }
}

const fn program(
    names: &'static [&'static str],
    same: &'static [&'static [&'static str]],
    valued: &'static str,
) -> ProgramOptions {
    ProgramOptions { names, subcommands: &[], same, valued }
}

const FORCE: &[&str] = &["-f", "--force"];

const PROGRAMS: &[ProgramOptions] = &[
    // `+` and `:` begin a word that forces or deletes one branch.
    git(&["push"], &[&["-f", "--force", "+"], &["-d", "--delete", ":"], &["-u", "--set-upstream"]], "o"),
    git(
        &["branch"],
        &[
            &["-f", "--force", "-D", "-M", "-C"],
            &["-d", "--delete", "-D"],
            &["-m", "--move", "-M"],
            &["-c", "--copy", "-C"],
        ],
        "tu",
    ),
    git(&["switch"], &[&["-f", "--force", "--discard-changes"], &["-C", "--force-create"], &["-c", "--create"]], "cC"),
    git(&["tag"], &[FORCE, &["-d", "--delete"], &["-s", "--sign"]], "muF"),
    git(&["clean"], &[FORCE], "e"),
    git(&["commit"], &[&["-n", "--no-verify"], &["-a", "--all"]], "mFCctSu"),
    git(&["rebase"], &[&["-f", "--force-rebase", "--no-ff"], &["-x", "--exec"], &["-i", "--interactive"]], "xsXCS"),
    git(&["fetch", "pull"], &[FORCE, &["-p", "--prune"], &["-P", "--prune-tags"]], "josX"),
    git(&["replace", "notes"], &[FORCE, &["-d", "--delete"]], "mFCc"),
    git(&["symbolic-ref"], &[&["-d", "--delete"]], "m"),
    git(&["add", "stage"], &[FORCE, &["-A", "--all", "--no-ignore-removal"]], ""),
    git(&["stash"], &[&["-u", "--include-untracked"], &["-a", "--all"]], "m"),
    git(&["checkout", "rm", "mv", "worktree", "submodule", "checkout-index", "filter-branch"], &[FORCE], "bB"),
    program(&["rm"], &[FORCE, &["-r", "-R", "--recursive"], &["-d", "--dir"]], ""),
    program(
        &["cp"],
        &[
            FORCE,
            &["-r", "-R", "--recursive", "-a", "--archive"],
            &["-a", "--archive"],
            &["-l", "--link"],
            &["-s", "--symbolic-link"],
        ],
        "tS",
    ),
    program(&["mv", "ln"], &[FORCE, &["-s", "--symbolic"]], "tS"),
    program(&["chmod", "chown", "chgrp"], &[&["-R", "--recursive"]], ""),
    program(&["shred"], &[FORCE, &["-u", "--remove"]], "ns"),
    program(&["truncate"], &[&["-s", "--size"]], "src"),
    program(&["wipefs"], &[&["-a", "--all"], FORCE], "ot"),
    program(&["sed"], &[&["-i", "--in-place"], &["-e", "--expression"], &["-f", "--file"]], "iefl"),
    program(&["sort"], &[&["-o", "--output"]], "okStT"),
    program(
        &["curl"],
        &[
            &["-o", "--output"],
            &["-O", "--remote-name"],
            &["-k", "--insecure"],
            &["-d", "--data", "--data-ascii"],
            &["-F", "--form"],
            &["-T", "--upload-file"],
            &["-X", "--request"],
            &["-u", "--user"],
            &["-K", "--config"],
            &["-L", "--location"],
            &["-x", "--proxy"],
            &["-n", "--netrc"],
        ],
        "AbcCdDeEFHhKmoPQrtTuUwxXyYz",
    ),
    program(
        &["wget"],
        &[
            &["-O", "--output-document"],
            &["-P", "--directory-prefix"],
            &["-e", "--execute"],
            &["-i", "--input-file"],
            &["-r", "--recursive"],
        ],
        "aAbBDeiIlOPQRStTUwX",
    ),
    program(
        &["tar"],
        &[
            &["-x", "--extract", "--get"],
            &["-c", "--create"],
            &["-P", "--absolute-names"],
            &["-I", "--use-compress-program"],
            &["-C", "--directory"],
        ],
        "bCfFgHIKLNTVX",
    ),
    program(&["rsync"], &[&["-e", "--rsh"], &["-a", "--archive"]], "efBTM"),
    program(&["make", "gmake"], &[&["-f", "--file", "--makefile"], &["-C", "--directory"]], "CEfIjloW"),
    program(
        &["npm", "pnpm", "yarn", "npx"],
        &[FORCE, &["-g", "--global"], &["-D", "--save-dev"], &["-y", "--yes"]],
        "wcp",
    ),
    program(&["cargo"], &[FORCE, &["-p", "--package"], &["-j", "--jobs"]], "CFjpZ"),
    program(&["pip", "pip3"], &[&["-U", "--upgrade"], &["-t", "--target"], &["-y", "--yes"]], "cefirt"),
    program(
        &["apt", "apt-get", "dnf", "yum"],
        &[&["-y", "--yes", "--assume-yes", "--assumeyes"], &["-d", "--download-only"]],
        "acot",
    ),
    program(&["dpkg"], &[&["-i", "--install"], &["-r", "--remove"], &["-P", "--purge"]], "D"),
    program(&["brew", "gem", "hg"], &[FORCE], ""),
    program(
        &["docker", "podman", "docker-compose"],
        &[FORCE, &["-v", "--volume", "--volumes"], &["-a", "--all"], &["-H", "--host"]],
        "ceHlmpuw",
    ),
    program(&["kubectl"], &[&["-f", "--filename"], &["-A", "--all-namespaces"], &["-n", "--namespace"]], "cfklnops"),
    program(&["systemctl"], &[FORCE, &["-H", "--host"], &["-M", "--machine"]], "HMnopst"),
    program(&["xargs"], &[&["-P", "--max-procs"]], "adEILnPs"),
];

/// Returns whether a command has an option, in any spelling that its program defines.
pub(crate) fn has(command: &Simple, option: &str) -> bool {
    let arguments = &command.words[1..];
    let has_group = |program: &ProgramOptions, spelling: &str| {
        let mut groups = program.same.iter().filter(|group| group.contains(&spelling)).peekable();
        groups.peek().is_some()
            && groups.all(|group| group.iter().any(|spelling| is_given(arguments, spelling, program.valued)))
    };
    programs(command).any(|program| match option.strip_prefix('-') {
        Some(letters) if !letters.starts_with('-') => letters.chars().all(|letter| {
            let spelling = format!("-{letter}");
            has_group(program, &spelling) || is_given(arguments, &spelling, program.valued)
        }),
        _ => has_group(program, option),
    })
}

/// Returns whether a word is one of the options, in any spelling that the command's program defines.
pub(crate) fn is_one(command: &Simple, word: &Word, options: &[&str]) -> bool {
    programs(command).any(|program| {
        let groups = program.same.iter().filter(|group| group.iter().any(|spelling| options.contains(spelling)));
        let mut spellings = groups.flat_map(|group| group.iter());
        spellings.any(|spelling| is_given(std::slice::from_ref(word), spelling, program.valued))
    })
}

fn programs(command: &Simple) -> impl Iterator<Item = &'static ProgramOptions> {
    let name = command.program();
    let has = |subcommand: &&str| command.words[1..].iter().any(|word| word.literal() == Some(*subcommand));
    PROGRAMS.iter().filter(move |program| {
        name.is_some_and(|name| program.names.contains(&name))
            && (program.subcommands.is_empty() || program.subcommands.iter().any(has))
    })
}

/// Returns whether arguments contain one spelling of an option: long ones as they are, with a value, or abbreviated, and
/// letters in any group.
fn is_given(arguments: &[Word], spelling: &str, valued: &str) -> bool {
    let mut texts = arguments.iter().filter_map(Word::literal);
    match spelling.strip_prefix('-') {
        None => texts.any(|text| text.starts_with(spelling)),
        Some(long) if long.starts_with('-') => texts.any(|text| {
            let name = text.split('=').next().unwrap_or_default();
            name.len() > 2 && spelling.starts_with(name)
        }),
        Some(letter) => texts.any(|text| {
            let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default();
            let end = letters.find(|letter| valued.contains(letter)).map_or(letters.len(), |at| at + 1);
            letters.get(..end).is_some_and(|letters| letters.contains(letter))
        }),
    }
}
