//! Hints for failures of MCP servers, by the cause that the error text names.

use pinion_mcp::config::{ServerConfig, ServerTransport};

/// Words of programs that could not reach the network.
const NETWORK: [&str; 19] = [
    "fetch failed",
    "enotfound",
    "eai_again",
    "enotcached",
    "enetunreach",
    "ehostunreach",
    "getaddrinfo",
    "could not resolve",
    "failed to resolve",
    "name resolution",
    "name or service not known",
    "nodename nor servname",
    "no address associated with hostname",
    "failed to lookup address",
    "dns error",
    "network is unreachable",
    "no route to host",
    "connecterror",
    "max retries exceeded with url",
];
/// Programs that download the server that they start.
const RUNNERS: [&str; 8] = ["npx", "bunx", "pnpx", "pnpm", "yarn", "uvx", "uv", "pipx"];
/// Words about a variable that has no value.
const MISSING: [&str; 12] = [
    "required",
    "require",
    "missing",
    "not set",
    "must be set",
    "must set",
    "unset",
    "undefined",
    "not found",
    "not provided",
    "not defined",
    "keyerror",
];
/// Letters before and after the name of a variable that are searched for such words.
const NEAR: usize = 80;

/// Returns the advice for a server that failed with a text: its own words, or those about its end.
pub(super) fn hint(config: &ServerConfig, text: &str) -> Option<String> {
    let ServerTransport::Stdio { command, args, env, .. } = &config.transport else { return None };
    if text.contains("no such program") {
        return Some("install it, or fix `command` of the server's entry".to_owned());
    }
    if let Some(name) = missing_variable(text).filter(|name| !env.contains_key(*name)) {
        return Some(format!(
            "servers do not inherit the environment: `pinion mcp add --env '{name}=${{{name}}}' …` or \
             `\"env\": {{\"{name}\": \"${{{name}}}\"}}` in the entry of `{}` in `{}` passes the variable on",
            config.name,
            config.source.path.display()
        ));
    }
    let lower = text.to_lowercase();
    if lower.contains("no such file") || lower.contains("cannot find module") || lower.contains("can't open file") {
        let is_hidden = |path: &&String| path.starts_with("/tmp/") || path.starts_with("/var/tmp/");
        let hidden = std::iter::once(command).chain(args).find(is_hidden)?;
        return Some(format!("servers have their own `/tmp` and `/var/tmp`: move `{hidden}` to another directory"));
    }
    // A start that says nothing may be a download that waits.
    let is_download = lower.contains("was not ready") && is_runner(command);
    let is_offline = !config.network && (is_download || NETWORK.iter().any(|word| lower.contains(word)));
    is_offline.then(|| {
        format!(
            "it runs without a network; `\"network\": true` in the entry of `{}` in `{}` allows it",
            config.name,
            config.source.path.display()
        )
    })
}

/// Returns whether a program downloads its own code, such as `npx`.
pub(super) fn is_runner(command: &str) -> bool {
    command.rsplit('/').next().is_some_and(|name| RUNNERS.contains(&name))
}

/// Returns the name of a variable that a text calls missing: `API_KEY environment variable is required`.
fn missing_variable(text: &str) -> Option<&str> {
    let is_letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let mut rest = 0;
    while let Some(begin) = text[rest..].find(|c: char| c.is_ascii_uppercase()).map(|at| rest + at) {
        let end = text[begin..].find(|c| !is_letter(c)).map_or(text.len(), |at| begin + at);
        let name = &text[begin..end];
        let is_word = !text[..begin].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && !text[end..].starts_with(|c: char| c.is_ascii_alphanumeric());
        // Codes of errors look like variables: ERR_MODULE_NOT_FOUND.
        let is_secret = name.len() > 6 && ["KEY", "TOKEN", "SECRET"].iter().any(|end| name.ends_with(end));
        let is_variable = is_word && (name.contains('_') || is_secret) && name.len() > 2 && !name.starts_with("ERR_");
        let from = text.floor_char_boundary(begin.saturating_sub(NEAR));
        let to = text.ceil_char_boundary((end + NEAR).min(text.len()));
        let around = format!("{} {}", &text[from..begin], &text[end..to]).to_lowercase();
        if is_variable && MISSING.iter().any(|word| around.contains(word)) {
            return Some(name);
        }
        rest = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(command: &str, args: &[&str]) -> ServerConfig {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        ServerConfig::new(
            "s",
            ServerTransport::Stdio { command: command.to_owned(), args, env: Default::default(), cwd: None },
        )
    }

    #[test]
    fn missing_variable_is_named() {
        for (text, name) in [
            ("ended; its standard error ends with: MY_API_KEY environment variable is required", Some("MY_API_KEY")),
            ("Error: missing GITHUB_TOKEN", Some("GITHUB_TOKEN")),
            ("KeyError: 'BRAVE_API_KEY'", Some("BRAVE_API_KEY")),
            ("please set the environment variable X_Y first: it is not set", Some("X_Y")),
            ("error code ERR_MODULE_NOT_FOUND: it was not found", None),
            ("AttributeError: 'Server' object has no attribute; HTTP_2 works", None),
            ("é".repeat(100).as_str(), None),
        ] {
            assert_eq!(missing_variable(text), name, "{text}");
        }
        let hint = hint(&server("node", &[]), "`A_KEY` is required").unwrap();
        assert!(
            hint.contains("--env 'A_KEY=${A_KEY}'") && hint.contains("\"env\": {\"A_KEY\": \"${A_KEY}\"}"),
            "{hint}"
        );
    }

    #[test]
    fn network_is_blamed_only_if_the_words_say_so() {
        let (node, npx) = (server("node", &["s.js"]), server("/usr/bin/npx", &["-y", "x"]));
        let open = ServerConfig { network: true, ..npx.clone() };
        for text in
            ["answered with error -32603: fetch failed", "npm error request failed, getaddrinfo EAI_AGAIN registry"]
        {
            assert!(hint(&node, text).unwrap().contains("\"network\": true"), "{text}");
            assert_eq!(hint(&open, text), None);
        }
        let late = "MCP server `s` was not ready within 30 s";
        assert!(hint(&npx, late).is_some() && hint(&node, late).is_none() && hint(&open, late).is_none());
        for text in [
            "AttributeError: module has no attribute `x`",
            "ended with exit status: 1 before it answered",
            "did not answer `tools/call` in time",
            "a message has more than 16777216 bytes",
        ] {
            assert_eq!(hint(&npx, text), None, "{text}");
        }
    }

    #[test]
    fn script_in_the_temporary_directory_is_explained() {
        let hint = hint(
            &server("python3", &["/tmp/x/s.py"]),
            "python3: can't open file '/tmp/x/s.py': [Errno 2] No such file",
        );
        assert!(hint.unwrap().contains("move `/tmp/x/s.py`"));
    }
}
