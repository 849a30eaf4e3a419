//! Rules about tools of MCP servers and of plugins, and forms of rules that other agents have.

/// The name of a tool: its server's name, as it begins the tool's own name, and the rest; or the name of a plugin's
/// tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolName {
    /// The server; `None` for a plugin's tool.
    server: Option<String>,
    tool: String,
}

impl ToolName {
    /// Creates the name of a plugin's tool.
    pub fn of_plugin(name: &str) -> Self {
        Self { server: None, tool: name.to_owned() }
    }

    /// Creates the name of a tool of a server, both as the server's config and the server write them.
    pub fn of_server(server: &str, tool: &str) -> Self {
        Self { server: Some(server_part(server)), tool: letters(tool) }
    }

    /// Splits `SERVER__TOOL`; `None` if it is no such name.
    pub fn of_offered(name: &str) -> Option<Self> {
        let (server, tool) = name.split_once("__").filter(|(server, tool)| !server.is_empty() && !tool.is_empty())?;
        Some(Self { server: Some(server.to_owned()), tool: tool.to_owned() })
    }

    /// Returns the rule that is about this tool alone.
    pub fn rule(&self) -> String {
        match &self.server {
            Some(server) => format!("mcp:{server}/{}", self.tool),
            None => format!("tool:{}", self.tool),
        }
    }

    /// Reads the name in such a rule; `None` if it names no tool.
    pub fn of_rule(rule: &str) -> Option<Self> {
        match rule.split_once(':')? {
            ("tool", name) if is_name(name) => Some(Self::of_plugin(name)),
            ("mcp", name) => {
                let (server, tool) =
                    name.split_once('/').filter(|(server, tool)| is_name(server) && !tool.is_empty())?;
                Some(Self::of_server(server, tool))
            }
            _ => None,
        }
    }
}

/// Scope of a rule about tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolRule {
    /// All tools of a server.
    Server(String),
    /// One tool.
    One(ToolName),
}

/// The forms of rules, for a rule that has another form.
pub(crate) const KINDS: &str = "the words before `:` are `read`, `write`, `net`, `mcp` and `tool`, such as \
    `mcp:SERVER/TOOL`; quote a program whose name has a colon";

impl ToolRule {
    /// Reads the text behind `mcp:` or `tool:`.
    ///
    /// # Errors
    /// It names no server or tool.
    pub(crate) fn parse(kind: &str, name: &str) -> Result<Self, &'static str> {
        match (kind, name.split_once('/')) {
            ("tool", None) if is_name(name) => Ok(Self::One(ToolName::of_plugin(name))),
            ("tool", _) => Err("`tool:` takes the name of a plugin's tool, such as `tool:word_count`"),
            (_, None) if is_name(name) => Ok(Self::Server(server_part(name))),
            (_, Some((server, tool))) if is_name(server) && is_name(tool) => {
                Ok(Self::One(ToolName::of_server(server, tool)))
            }
            _ => Err("`mcp:` takes a server, or a tool of one, such as `mcp:github` or `mcp:github/get_issue`"),
        }
    }

    pub(crate) fn has_pattern(&self) -> bool {
        match self {
            Self::Server(server) => server.contains('*'),
            Self::One(ToolName { server, tool }) => {
                tool.contains('*') || server.as_ref().is_some_and(|s| s.contains('*'))
            }
        }
    }

    pub(crate) fn covers(&self, tool: &ToolName) -> bool {
        match self {
            Self::Server(server) => tool.server.as_ref() == Some(server),
            Self::One(one) => one == tool,
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || "*'\"`$()".contains(c))
}

/// Returns whether a text before a colon is meant as the kind of a rule, and not as a part of a command.
pub(crate) fn is_kind(text: &str) -> bool {
    text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-' || byte == b'_')
}

/// Returns a hint with the right text for a rule in the form of another agent, such as `Bash(git *)`; `None` for other
/// text.
pub(crate) fn other_form(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix("mcp__") {
        let rule = match rest.split_once("__") {
            Some((server, tool)) => format!("mcp:{server}/{tool}"),
            None => format!("mcp:{rest}"),
        };
        return Some(format!("it has the form of another program; write `{rule}`"));
    }
    // The name that a model uses to call a server's tool.
    let of_tool = text.strip_prefix("tool:").unwrap_or(text).trim();
    if of_tool.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        && let Some(name) = ToolName::of_offered(of_tool)
    {
        return Some(format!("it is the name of a server's tool; write `{}`, or quote a program's name", name.rule()));
    }
    let (name, inner) = text.strip_suffix(')')?.split_once('(')?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let inner = inner.trim();
    let begins = inner.trim_end_matches('*').trim_end_matches([':', ' ']);
    let path = inner.trim_end_matches("/**").trim_end_matches("/*");
    let rule = match name.to_ascii_lowercase().as_str() {
        "read" | "glob" | "grep" | "ls" => format!("read:{path}"),
        "write" | "edit" | "multiedit" | "notebookedit" => format!("write:{path}"),
        "webfetch" | "fetch" => format!("net:{}", inner.trim_start_matches("domain:")),
        _ => begins.to_owned(),
    };
    Some(format!("it has the form of another program; write `{rule}`, the beginning of a command or `KIND:NAME`"))
}

/// Returns the part of a tool's name that stands for its server, as the plugin `mcp` makes it.
fn server_part(server: &str) -> String {
    /// Characters of it.
    const MAX_SERVER: usize = 24;
    let mut part = String::new();
    for c in letters(server).trim_matches(['_', '-']).chars() {
        if c != '_' || !part.ends_with('_') {
            part.push(c);
        }
    }
    if !part.starts_with(|c: char| c.is_ascii_alphabetic()) {
        part.insert_str(0, "s_");
    }
    part.truncate(MAX_SERVER);
    part.trim_end_matches('_').to_owned()
}

fn letters(name: &str) -> String {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.chars().map(|c| if is_letter(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rule;

    fn error(rule: &str) -> String {
        Rule::parse(rule, None).unwrap_err().to_string()
    }

    #[test]
    fn rules_about_servers_and_tools_cover_them() {
        let sum = ToolName::of_offered("everything__get-sum").unwrap();
        let other = ToolName::of_offered("everything_2__get-sum").unwrap();
        let own = ToolName::of_plugin("word_count");
        let covers = |rule: &str, tool: &ToolName| Rule::parse(rule, None).unwrap().covers_tool(tool);
        assert!(
            covers("mcp:everything", &sum) && covers("mcp:everything/get-sum", &sum) && covers("tool:word_count", &own)
        );
        for (rule, tool) in
            [("mcp:everything", &other), ("mcp:everything/get", &sum), ("mcp:everything", &own), ("tool:get-sum", &sum)]
        {
            assert!(!covers(rule, tool), "{rule}");
        }
        // A name that would be cut at another place is another server.
        let odd = ToolName::of_server("everything: x", "y");
        assert!(!covers("mcp:everything", &odd) && covers("mcp:everything__x/y", &odd));
        assert_eq!(ToolName::of_rule(&sum.rule()), Some(sum));
        assert_eq!(ToolName::of_rule(&own.rule()), Some(own));
    }

    #[test]
    fn unknown_forms_are_refused_with_the_right_one() {
        for (rule, hint) in [
            ("Bash(git *)", "write `git`"),
            ("Bash(npm run test:*)", "write `npm run test`"),
            ("Read(./secrets/**)", "write `read:./secrets`"),
            ("WebFetch(domain:docs.rs)", "write `net:docs.rs`"),
            ("mcp__github__get_issue", "write `mcp:github/get_issue`"),
            ("mcp__github", "write `mcp:github`"),
            ("everything__get-sum", "write `mcp:everything/get-sum`"),
            ("tool:everything__get-sum", "write `mcp:everything/get-sum`"),
            ("server:x", "`mcp:SERVER/TOOL`"),
            ("Tool:x", "`mcp:SERVER/TOOL`"),
            ("host:docs.rs", "`net`"),
            ("mcp:", "`mcp:github`"),
            ("mcp:*", "`mcp:github`"),
            ("tool:a/b", "`tool:word_count`"),
        ] {
            assert!(error(rule).contains(hint), "{rule}: {}", error(rule));
        }
        for rule in [
            "npm run lint:fix",
            "docker pull a:b",
            "./x:y z",
            "cargo test a::b",
            "'my__tool'",
            "./my__tool",
            "x my__tool",
        ] {
            assert!(Rule::parse(rule, None).is_ok(), "{rule}");
        }
    }
}
