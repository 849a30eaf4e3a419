//! Settings that run nothing. Those that run programs are not listed, because each version of git has more of them.

use crate::config::ConfigEntry;

/// Settings that make git run no program and change nothing outside the repository: sections, with the names in them;
/// no names stand for all. Others may write these to a config.
const HARMLESS: &[(&str, &[&str])] = &[
    ("advice", &[]),
    ("branch", &[]),
    ("color", &[]),
    ("column", &[]),
    ("commit", &["cleanup", "gpgsign", "status", "verbose"]),
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "checkstat",
            "commentchar",
            "compression",
            "eol",
            "filemode",
            "ignorecase",
            "ignorestat",
            "logallrefupdates",
            "longpaths",
            "multipackindex",
            "precomposeunicode",
            "preloadindex",
            "protecthfs",
            "protectntfs",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "splitindex",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "whitespace",
        ],
    ),
    (
        "diff",
        &[
            "algorithm",
            "colormoved",
            "colormovedws",
            "context",
            "ignoresubmodules",
            "indentheuristic",
            "interhunkcontext",
            "mnemonicprefix",
            "noprefix",
            "renamelimit",
            "renames",
            "statgraphwidth",
            "submodule",
            "wserrorhighlight",
        ],
    ),
    (
        "extensions",
        &[
            "compatobjectformat",
            "objectformat",
            "partialclone",
            "preciousobjects",
            "refstorage",
            "relativeworktrees",
            "worktreeconfig",
        ],
    ),
    ("feature", &["experimental", "manyfiles"]),
    ("fetch", &["fsckobjects", "parallel", "prune", "prunetags", "recursesubmodules", "writecommitgraph"]),
    ("format", &["pretty"]),
    (
        "gc",
        &[
            "auto",
            "autodetach",
            "autopacklimit",
            "pruneexpire",
            "reflogexpire",
            "reflogexpireunreachable",
            "worktreepruneexpire",
        ],
    ),
    ("grep", &["column", "extendedregexp", "fullname", "linenumber", "patterntype", "threads"]),
    ("i18n", &["commitencoding", "logoutputencoding"]),
    ("index", &["recordendofindexentries", "recordoffsettable", "skiphash", "sparse", "threads", "version"]),
    ("init", &["defaultbranch"]),
    ("lfs", &["access", "repositoryformatversion"]),
    ("log", &["abbrevcommit", "date", "decorate", "follow", "showroot"]),
    ("maintenance", &["auto", "autodetach", "strategy"]),
    (
        "merge",
        &[
            "autostash",
            "conflictstyle",
            "directoryrenames",
            "ff",
            "log",
            "renamelimit",
            "renames",
            "renormalize",
            "stat",
            "verbosity",
        ],
    ),
    ("pack", &["threads", "usesparse", "windowmemory", "writebitmaphashcache", "writereverseindex"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default", "followtags", "useforceifincludes"]),
    ("rebase", &["autosquash", "autostash", "missingcommitscheck", "stat", "updaterefs"]),
    (
        "remote",
        &[
            "fetch",
            "followremotehead",
            "partialclonefilter",
            "promisor",
            "prune",
            "prunetags",
            "push",
            "pushurl",
            "tagopt",
            "url",
        ],
    ),
    ("rerere", &["autoupdate", "enabled"]),
    ("stash", &[]),
    ("status", &[]),
    ("submodule", &["active", "branch", "fetchrecursesubmodules", "ignore", "recurse", "update", "url"]),
    ("tag", &["gpgsign", "sort"]),
    ("transfer", &["fsckobjects", "hiderefs"]),
    ("user", &["email", "name", "signingkey", "useconfigonly"]),
    ("worktree", &["guessremote", "userelativepaths"]),
];

/// Further settings that hold no command. Some of them decide which hosts git contacts, or read files outside, so that
/// only the user may write them.
const DATA: &[(&str, &[&str])] = &[
    ("blame", &[]),
    ("commit", &["template"]),
    ("core", &["attributesfile", "excludesfile", "worktree"]),
    ("credential", &["interactive", "usehttppath", "username"]),
    ("gpg", &["allowedsignersfile", "format", "mintrustlevel", "revocationfile"]),
    ("gui", &[]),
    ("http", &[]),
    ("mailmap", &[]),
    ("url", &[]),
];

/// Settings whose values are addresses. `ext::` and the like in front of one is a program.
const ADDRESSES: [(&str, &str); 3] = [("remote", "pushurl"), ("remote", "url"), ("submodule", "url")];
/// Settings that are harmless only if they are off.
const SWITCHES: [(&str, &str); 2] = [("commit", "gpgsign"), ("tag", "gpgsign")];
/// Ways to update a submodule that are no commands.
const UPDATES: [&[u8]; 4] = [b"checkout", b"merge", b"none", b"rebase"];

/// Returns whether a setting makes git run nothing, and changes nothing outside of its repository.
pub fn is_harmless(entry: &ConfigEntry) -> bool {
    let is = |list: &[(&str, &str)]| list.iter().any(|(section, name)| entry.is(section, name));
    let value = entry.text();
    is_in(HARMLESS, entry)
        && (!is(&ADDRESSES) || is_address(value))
        && (!is(&SWITCHES) || matches!(value, b"false" | b"no" | b"off" | b"0"))
        && (!entry.is("submodule", "update") || UPDATES.contains(&value))
}

/// Returns whether a setting holds no command, for any value.
pub fn holds_no_command(entry: &ConfigEntry) -> bool {
    (is_in(HARMLESS, entry) || is_in(DATA, entry)) && !entry.is("submodule", "update")
}

/// Returns whether an address names no program.
pub fn is_address(value: &[u8]) -> bool {
    !value.windows(2).any(|pair| pair == b"::") && !value.starts_with(b"-")
}

fn is_in(list: &[(&str, &[&str])], entry: &ConfigEntry) -> bool {
    list.iter()
        .any(|(section, names)| entry.section == *section && (names.is_empty() || names.contains(&entry.name.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn are_harmless(text: &str) -> Vec<bool> {
        parse(text.as_bytes()).iter().map(is_harmless).collect()
    }

    #[test]
    fn settings_of_new_repositories_are_harmless() {
        let text = "[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = false\n[extensions]\n\
                    \tobjectFormat = sha256\n\tpartialClone = origin\n[remote \"origin\"]\n\turl = https://a.example/b\n\
                    \tfetch = +refs/heads/*:refs/remotes/origin/*\n\tpromisor = true\n\tpartialclonefilter = blob:none\n\
                    [branch \"main\"]\n\tvscode-merge-base = origin/main\n[pull]\n\trebase = true\n\
                    [commit]\n\tgpgsign = false\n[submodule \"a\"]\n\tupdate = rebase\n";
        assert!(are_harmless(text).into_iter().all(|is| is), "{text}");
    }

    #[test]
    fn settings_that_run_programs_are_not() {
        let text = "[core]\n\tfsmonitor = ./x\n\tpager = x\n\thooksPath = x\n\tworktree = /\n\texcludesFile = x\n\
                    [filter \"x\"]\n\tclean = x\n[include]\n\tpath = x\n[commit]\n\tgpgsign = true\n\tgpgsign\n\
                    [remote \"o\"]\n\turl = ext::sh -c x\n\tuploadpack = x\n\tvcs = x\n[submodule \"a\"]\n\tupdate = !x\n\
                    [init]\n\ttemplateDir = x\n[http]\n\tproxy = x\n[diff \"x\"]\n\ttextconv = x\n[alias]\n\ta = !x\n";
        assert!(!are_harmless(text).into_iter().any(|is| is), "{:?}", are_harmless(text));
        let is_data = |text: &str| parse(text.as_bytes()).iter().all(holds_no_command);
        assert!(is_data("[http]\n\tproxy = x\n[core]\n\texcludesFile = a/b\n[commit]\n\ttemplate = a/b\n"));
        assert!(!is_data("[core]\n\tpager = x\n") && !is_data("[submodule \"a\"]\n\tupdate = !x\n"));
    }
}
