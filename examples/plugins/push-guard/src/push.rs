//! Finds forced pushes in commands for a shell.

/// A push that rewrites a remote branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Push {
    /// Only if the remote branch is where the local copy says.
    WithLease,
    /// Regardless of the remote branch's content.
    Forced,
}

/// Returns the worst push of a text. Quotes and substitutions count as spaces, so that `bash -c "git push -f"` is found.
pub(crate) fn find(text: &str) -> Option<Push> {
    let text = text.replace("\\\n", " ");
    text.split(['\n', ';', '&', '|']).filter_map(of_command).max()
}

fn of_command(command: &str) -> Option<Push> {
    let mut words = command.split([' ', '\t', '\'', '"', '`', '(', ')', '$', '{', '}']).filter(|word| !word.is_empty());
    words.find(|word| *word == "git" || word.ends_with("/git"))?;
    words.find(|word| *word == "push")?;
    words.filter_map(of_argument).max()
}

fn of_argument(word: &str) -> Option<Push> {
    if word.starts_with("--force-with-lease") || word == "--force-if-includes" {
        return Some(Push::WithLease);
    }
    // Options may be joined, and a leading `+` forces one branch.
    let is_short = word.starts_with('-') && !word.starts_with("--") && word.contains('f');
    let is_forced = is_short || word == "--force" || word == "--mirror" || (word.starts_with('+') && word.len() > 1);
    is_forced.then_some(Push::Forced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forced_pushes_are_found() {
        for command in [
            "git push --force",
            "git push -f origin main",
            "git push -uf origin main",
            "cd repo && git push origin +main",
            "bash -c 'git push --force'",
            "/usr/bin/git -C repo push --mirror",
            "git push \\\n  --force",
            "git push --force-with-lease; git push -f",
        ] {
            assert_eq!(find(command), Some(Push::Forced), "{command}");
        }
    }

    #[test]
    fn push_with_a_lease_is_told_apart() {
        assert_eq!(find("git push --force-with-lease=main origin"), Some(Push::WithLease));
    }

    #[test]
    fn other_commands_pass() {
        for command in
            ["git push", "git push -u origin feature", "rm -f x", "git push && rm -f x", "git log -f", "echo +1"]
        {
            assert_eq!(find(command), None, "{command}");
        }
    }
}
