//! Details of commands that affect a decision: each is wrong in some way that other tests do not notice.

use crate::evasions_tests::repository;
use crate::tests::{SANDBOX, STRICT, expect, judged, rules, scene};
use crate::{Verdict, judge};
use Verdict::{Allow, Ask, Deny};
use std::fs;

#[test]
fn two_dots_alone_are_a_directory_and_no_range() {
    let (_directory, workspace) = repository();
    let verdict = |command: &str| judge(command, &scene(&workspace), &rules(&[]), STRICT).verdict;
    assert_eq!(["git diff ..", "git log ..", "git diff main..HEAD"].map(verdict), [Ask, Ask, Allow]);
}

#[test]
fn rule_with_an_option_of_git_allows_commands_behind_it() {
    let own = &[(Allow, "git -C src")];
    expect(Allow, own, &["git -C src add x"]);
    expect(Ask, own, &["git -C other add x", "git --git-dir=x add x"]);
}

#[test]
fn letter_with_a_value_is_an_option_too() {
    expect(Deny, &[(Deny, "git switch --force-create")], &["git switch -Cmain", "git switch -qCmain"]);
    expect(Deny, &[(Deny, "git rebase --exec")], &["git rebase -xid main"]);
    // The text after the letter is its value.
    assert_ne!(judged("git switch -cCx", &[(Deny, "git switch --force-create")], STRICT).verdict, Deny);
}

#[test]
fn rule_about_a_path_is_about_that_program_alone() {
    let own = &[(Deny, "./deploy.sh")];
    expect(Deny, own, &["./deploy.sh", "./deploy.sh now", "env ./deploy.sh"]);
    expect(Ask, own, &["./other.sh", "src/deploy.sh"]);
}

#[test]
fn parent_of_a_directory_that_does_not_exist_is_uncertain() {
    expect(Ask, &[], &["cat missing/../src/a.rs", "ls missing/x/../.."]);
    expect(Allow, &[], &["cat src/../src/a.rs", "ls src/missing"]);
}

#[test]
fn indexes_that_are_names_are_computed() {
    // A computed text may run a program, which a rule might deny.
    let verdict = |command: &str| judged(command, &[(Deny, "rm")], SANDBOX).verdict;
    for command in ["echo ${a[b]}", "echo ${a[b]:-c}", "echo ${#a[x]}"] {
        assert_eq!(verdict(command), Ask, "{command}");
    }
    for command in ["echo ${a[0]}", "echo ${a[@]} ${#a[*]}"] {
        assert_eq!(verdict(command), Allow, "{command}");
    }
}

#[test]
fn here_document_with_variables_is_not_known() {
    let own = &[(Deny, "rm"), (Allow, "bash")];
    // The text is not the one that the shell gets.
    expect(Ask, own, &["bash <<E\nr$X x\nE", "bash <<E\nr\\\nm x\nE"]);
    expect(Ask, &[], &["cat <<E\n$HOME\nE"]);
    expect(Allow, &[], &["cat <<E\nHOME\nE", "cat <<'E'\n$HOME\nE"]);
    expect(Deny, own, &["bash <<E\nrm x\nE", "bash <<'E'\nrm $x\nE"]);
}

#[test]
fn patterns_and_printed_texts_are_no_code() {
    expect(Allow, &[], &["printf '%s\\n' a", "ls src/[ab].rs", "test -f src/a.rs"]);
    expect(Ask, &[], &["printf -v 'a[$(id)]' x", "test -v 'a[$(id)]'"]);
}

#[test]
fn decision_names_what_a_program_that_starts_others_may_start() {
    for command in ["strace -f rm -rf x", "strace -x bash -x -c 'rm -rf x'", "strace cc bash -c 'rm -rf x'"] {
        let judgement = judged(command, &[(Deny, "rm -rf")], STRICT);
        assert_eq!(judgement.verdict, Ask, "{command}");
        let is_named = judgement.parts.iter().any(|part| part.text == "rm -rf x");
        assert!(is_named, "{command}: {judgement:#?}");
    }
}

#[test]
fn searches_beyond_the_index_may_show_excluded_files() {
    let (_directory, tracked) = repository();
    fs::write(tracked.join(".env"), "KEY=x").unwrap();
    let verdict = |command: &str| {
        let rules = rules(&[]).excluding(vec![tracked.join(".env")]);
        judge(command, &scene(&tracked), &rules, STRICT).verdict
    };
    // The index of this repository has no file, so that git shows no content.
    assert_eq!(["git grep x", "git diff", "git grep x src/a.rs"].map(verdict), [Allow, Allow, Allow]);
    let beyond =
        ["git grep --untracked x", "git grep --no-index x", "git diff --cached", "git diff --no-index src .env"];
    assert_eq!(beyond.map(verdict), [Ask; 4]);
}
