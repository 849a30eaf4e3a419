//! Decisions where the sandbox confines programs, and about commands in arguments.

use crate::tests::judged;
use crate::{ModePolicy, Otherwise, Verdict};
use Verdict::{Allow, Ask, Deny};

#[test]
fn here_documents_and_braces_stay_in_the_sandbox() {
    let policy = ModePolicy { reads: true, otherwise: Otherwise::Sandbox };
    for command in [
        "python3 - <<'EOF'\nprint(1)\nEOF",
        "python3 - a b <<'EOF'\nprint(1)\nEOF",
        "git commit -F - <<EOF\ntext\nEOF",
        "git apply --index - <<'EOF'\ndiff\nEOF",
        "node - <<'JS' > out.txt\n1\nJS",
        "cd src && python3 - <<'EOF'\nprint(1)\nEOF",
        "make - <<'EOF' 2>&1 | tail -5\nx\nEOF",
        "python3 <<'EOF' 2>&1 | tail -5\nprint(1)\nEOF",
        "cat <<EOF 2>&1 > a.txt\nx\nEOF",
        "for i in {1..3}; do echo $i; done",
        "for i in 1 2; do echo x > d$((i%40))/e$i/f; done",
    ] {
        let judgement = judged(command, &[], policy);
        assert_eq!(judgement.verdict, Allow, "{command}: {judgement:#?}");
    }
    // A document's text for a shell counts, wherever the redirection stands.
    let rule = (Deny, "git push");
    for command in
        ["sh - <<'EOF'\ngit push\nEOF", "sh -s - <<EOF\ngit push\nEOF", "sh <<'EOF' 2>&1 | tail\ngit push\nEOF"]
    {
        let judgement = judged(command, &[rule], policy);
        assert_ne!(judgement.verdict, Allow, "{command}: {judgement:#?}");
    }
    // Two documents: one could hide where the other ends.
    let two = "cat <<\"2>&1 <<'E'\"\n <<'E' 2>&1\n2>&1 <<'E'\ngit push\n";
    assert_ne!(judged(two, &[rule], policy).verdict, Allow);
}

#[test]
fn destroying_commits_is_a_question_in_the_sandbox() {
    let policy = ModePolicy { reads: true, otherwise: Otherwise::Sandbox };
    for command in [
        "rm -rf .git",
        "rm -rf .git/objects .git/refs",
        "rm -rf sub/.GIT/refs",
        "mv .git elsewhere",
        "dd if=/dev/zero of=.git/index",
        "> .git/HEAD",
        "truncate -s 0 .git/packed-refs",
        "git reflog expire --expire=now --all",
        "git gc --prune=now",
        "git stash drop",
        "git stash clear",
        "git branch -D topic",
        "git branch --delete --force topic",
        "git tag -d v1",
        "git update-ref -d refs/heads/topic",
        "git filter-branch --tree-filter true",
        "timeout 5 git stash drop",
        "bash -c 'git stash drop'",
    ] {
        let judgement = judged(command, &[], policy);
        assert_eq!(judgement.verdict, Ask, "{command}: {judgement:#?}");
        assert!(judgement.decisive().unwrap().reason.to_string().contains("destroy commits"), "{command}");
    }
    for command in [
        "rm -f .git/index.lock",
        "rm -rf .github",
        "git branch -d merged",
        "git gc",
        "git prune -n",
        "git stash",
        "git stash pop",
        "git reset --hard",
        "git reflog",
        "git tag v1",
    ] {
        let judgement = judged(command, &[], policy);
        assert_eq!(judgement.verdict, Allow, "{command}: {judgement:#?}");
    }
    assert_eq!(judged("git stash drop", &[(Allow, "git stash drop")], policy).verdict, Allow);
}

#[test]
fn rule_asks_about_commands_behind_unknown_wrappers() {
    let all = ModePolicy { reads: true, otherwise: Otherwise::Allow };
    for command in [
        "npx git push",
        "uv run git push origin",
        "direnv exec . git push",
        "nix develop -c git push",
        "mise exec -- git push",
        "op run -- git push",
        "sg -c 'git push'",
        "sg docker -c 'cd x && git push'",
        "git submodule foreach 'git push'",
        "git rebase -x 'git push' main",
        "git bisect run git push",
        "bash < <(echo git push)",
        "at now <<< 'git push'",
        "echo git push | at now",
    ] {
        let judgement = judged(command, &[(Deny, "git push")], all);
        assert_ne!(judgement.verdict, Allow, "{command}: {judgement:#?}");
        assert_eq!(judged(command, &[], all).verdict, Allow, "{command} without a rule");
    }
    for command in
        ["git commit -m 'git push comes next'", "echo 'git push' >> notes", "rg -n 'git push' src", "touch git push"]
    {
        assert_eq!(judged(command, &[(Deny, "git push")], all).verdict, Allow, "{command}");
    }
}
