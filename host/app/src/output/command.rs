//! Commands that the user can copy into a shell.

/// Quotes a word for a shell if necessary.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Joins the words of a command.
pub fn shell_command(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_survive_a_shell() {
        assert_eq!(shell_word(".pinion/plans/a-2.md"), ".pinion/plans/a-2.md");
        assert_eq!(shell_word("/it's $HOME"), r"'/it'\''s $HOME'");
        assert_eq!(shell_word("my plan's.md"), r"'my plan'\''s.md'");
        let words = ["git", "update-ref", "refs/heads/$(id)", ""].map(str::to_owned);
        assert_eq!(shell_command(&words), "git update-ref 'refs/heads/$(id)' ''");
    }
}
