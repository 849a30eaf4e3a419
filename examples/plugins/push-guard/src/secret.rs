//! Finds credentials by their fixed prefixes.

/// A kind of credential: its name, its prefix, and the number of letters and digits that follow at least.
const KINDS: &[(&str, &str, usize)] = &[
    ("an AWS access key", "AKIA", 16),
    ("a GitHub token", "ghp_", 36),
    ("a GitHub token", "gho_", 36),
    ("a GitHub token", "ghs_", 36),
    ("a GitHub token", "github_pat_", 36),
    ("a GitLab token", "glpat-", 20),
    ("a Slack token", "xoxb-", 20),
    ("a Slack token", "xoxp-", 20),
    ("an API key of Anthropic", "sk-ant-", 32),
    ("an API key of OpenAI", "sk-proj-", 32),
    ("a live key of Stripe", "sk_live_", 24),
];

/// Returns the kind of the first secret in a text.
pub(crate) fn find(text: &str) -> Option<&'static str> {
    let has_key = text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----");
    if has_key {
        return Some("a private key");
    }
    KINDS.iter().find(|(_, prefix, least)| has(text, prefix, *least)).map(|(kind, ..)| *kind)
}

/// Returns whether a text has a word that begins with the prefix and goes on for long enough.
fn has(text: &str, prefix: &str, least: usize) -> bool {
    let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == '-';
    text.match_indices(prefix).any(|(at, _)| {
        let begins = !text[..at].chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric());
        begins && text[at + prefix.len()..].chars().take_while(is_part).take(least).count() == least
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found() {
        let token = "aB3".repeat(12);
        assert_eq!(find(&format!("TOKEN=ghp_{token}")), Some("a GitHub token"));
        assert_eq!(find("key: AKIAABCDEFGHIJKLMNOP"), Some("an AWS access key"));
        assert_eq!(find("-----BEGIN RSA PRIVATE KEY-----\n…"), Some("a private key"));
    }

    #[test]
    fn placeholders_and_similar_words_pass() {
        for text in ["ghp_…", "ghp_TOKEN", "the prefix AKIA", "MAKIAABCDEFGHIJKLMNOP", "-----BEGIN PUBLIC KEY-----", ""]
        {
            assert_eq!(find(text), None, "{text}");
        }
    }
}
