//! The text form of rules.

use super::rule::{HostPattern, Rule};
use crate::target::{RequestTarget, Scheme, TargetHost, path_segments};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

/// The mark of rules that also cover private addresses.
pub(super) const PRIVATE: &str = "private";

/// Methods that would make a server a proxy, or echo the request with the headers that the client adds.
pub(crate) const FORBIDDEN_METHODS: &[&str] = &["CONNECT", "TRACE", "TRACK"];

/// The parts of a pattern of hosts and ports.
pub(super) struct HostParts {
    pub(super) is_private: bool,
    pub(super) host: HostPattern,
    pub(super) port: Option<u16>,
}

/// A text is not a rule. The second line of the message is a hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid network rule `{rule}`: {problem}\nhint: {hint}")]
pub struct InvalidRule {
    /// The start of the text, without control characters.
    rule: String,
    problem: String,
    hint: String,
}

/// A problem and the hint that fixes it.
type PolicyProblem = (String, String);

fn problem<T>(problem: impl Into<String>, hint: impl Into<String>) -> Result<T, PolicyProblem> {
    Err((problem.into(), hint.into()))
}

pub(super) fn rule(text: &str) -> Result<Rule, InvalidRule> {
    parse(text).map_err(|problem| invalid(text, problem))
}

fn invalid(text: &str, (problem, hint): PolicyProblem) -> InvalidRule {
    let rule = text.chars().take(100).map(|c| if c.is_control() { '?' } else { c }).collect();
    InvalidRule { rule, problem, hint }
}

/// Parses `["private "] host [":" port]`.
pub(super) fn host_rule(text: &str) -> Result<HostParts, InvalidRule> {
    parse_host(text).map_err(|problem| invalid(text, problem))
}

fn parse_host(text: &str) -> Result<HostParts, PolicyProblem> {
    let (is_private, authority) = match text.trim_matches(' ').split_once(' ') {
        Some((PRIVATE, rest)) => (true, rest.trim_start_matches(' ')),
        Some(_) => return problem("it has too many words", "write a host such as `crates.io`, or `private` before it"),
        None => (false, text.trim_matches(' ')),
    };
    check_characters(authority)?;
    if authority.is_empty() || authority.contains('/') {
        return problem("it is not a host", "write the host alone, such as `crates.io` or `crates.io:443`");
    }
    let (host, port) = host(Scheme::Https, authority)?;
    check_private(is_private, &host)?;
    let port = (without_port(authority) != authority).then_some(port);
    Ok(HostParts { is_private, host, port })
}

fn check_private(is_private: bool, host: &HostPattern) -> Result<(), PolicyProblem> {
    match host {
        HostPattern::Any if is_private => problem("`private` does not cover every host", "name the private hosts"),
        HostPattern::Address(_) if is_private => {
            problem("`private` is for names", "remove `private`: a rule with an address covers it")
        }
        _ => Ok(()),
    }
}

fn parse(text: &str) -> Result<Rule, PolicyProblem> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let (is_private, words) = match words.as_slice() {
        [PRIVATE, rest @ ..] if !rest.is_empty() => (true, rest),
        words => (false, words),
    };
    let (methods, url) = match words {
        [url] => (None, *url),
        [list, url] => (Some(methods(list)?), *url),
        [] => return problem("it is empty", "write `https://api.example.com/v1/*`"),
        _ => {
            return problem(
                "it has too many words",
                "separate methods with commas: `GET,HEAD https://api.example.com`",
            );
        }
    };
    check_characters(url)?;
    let (scheme, rest) = match url.split_once("://") {
        None => (Scheme::Https, url),
        Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
            "http" => (Scheme::Http, rest),
            "https" => (Scheme::Https, rest),
            _ => return problem(format!("unknown scheme `{scheme}`"), "use `https://` or `http://`"),
        },
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (host, port) = host(scheme, authority)?;
    check_private(is_private, &host)?;
    let (path, segments) = prefix(path)?;
    Ok(Rule { is_private, methods, scheme, host, port, path, segments })
}

fn methods(list: &str) -> Result<BTreeSet<String>, PolicyProblem> {
    let mut methods = BTreeSet::new();
    for method in list.split(',') {
        if !is_method(method) {
            return problem(
                format!("`{}` is not a method", method.escape_debug()),
                "write methods as `GET` or `GET,HEAD`",
            );
        }
        methods.insert(method.to_owned());
    }
    Ok(methods)
}

/// Returns whether a method may be sent: upper-case letters and `-`, and not one that is forbidden.
pub(crate) fn is_method(method: &str) -> bool {
    let is_name = method.starts_with(|c: char| c.is_ascii_uppercase())
        && method.len() <= 32
        && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    is_name && !FORBIDDEN_METHODS.contains(&method)
}

fn check_characters(url: &str) -> Result<(), PolicyProblem> {
    for (character, what, hint) in [
        ('@', "a user name or password", "remove it; credentials have settings of their own"),
        ('?', "a query", "remove it: a rule covers all queries"),
        ('#', "a fragment", "remove it: fragments are not sent"),
        ('\\', "a backslash", "separate segments with `/`"),
    ] {
        if url.contains(character) {
            return problem(format!("it contains {what}"), hint);
        }
    }
    if url.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return problem("it contains a control character or an unusual space", "remove it");
    }
    Ok(())
}

fn host(scheme: Scheme, authority: &str) -> Result<(HostPattern, u16), PolicyProblem> {
    if authority.ends_with(':') {
        return problem("its port is empty", "write a number after the colon, or remove the colon");
    }
    let (is_below, rest) = authority.strip_prefix("*.").map_or((false, authority), |rest| (true, rest));
    // The name stands in for `*`, so that the port is parsed in the same way.
    let any = match rest.strip_prefix('*').filter(|_| !is_below) {
        Some(port) if port.is_empty() || port.starts_with(':') => Some(format!("any.invalid{port}")),
        _ => None,
    };
    let rest = any.as_deref().unwrap_or(rest);
    if rest.contains('*') {
        return problem(
            "`*` is in the wrong place",
            "use `*.example.com` for all names below one, or `*` for all hosts",
        );
    }
    if rest.contains('%') {
        return problem("its host is encoded", "write the name as it is");
    }
    let written = without_port(rest);
    let target = RequestTarget::parse(&format!("{}://{rest}/", scheme.as_str())).or_else(|error| {
        let error = error.to_string();
        problem(error.trim_start_matches("invalid URL: "), "write a host such as `api.example.com`")
    })?;
    let pattern = match target.target_host() {
        _ if any.is_some() => HostPattern::Any,
        TargetHost::Name(name) if is_below => {
            if !name.contains('.') {
                return problem(format!("`*.{name}` covers a whole top-level domain"), "name a domain below it");
            }
            HostPattern::Below(name.clone())
        }
        TargetHost::Name(name) => HostPattern::Name(name.clone()),
        TargetHost::Address(_) if is_below => {
            return problem("an address has no names below it", "remove `*.`");
        }
        TargetHost::Address(address) => HostPattern::Address(spelled(*address, written)?),
    };
    Ok((pattern, target.port()))
}

/// Checks that a person reads the same address as the parser.
fn spelled(address: IpAddr, written: &str) -> Result<IpAddr, PolicyProblem> {
    let canonical = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(inner) => inner.to_string(),
            // The spellings of IPv6 are harmless.
            None if written.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok() => return Ok(address.into()),
            None => format!("[{address}]"),
        },
    };
    match canonical == written {
        true => Ok(address),
        false => problem("its address has an unusual spelling", format!("write `{canonical}`")),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, _)) if !host.ends_with(']') => name,
        _ => host,
    }
}

/// Returns the normalized path without a final `/`, and its segments.
fn prefix(path: &str) -> Result<(String, Vec<Vec<u8>>), PolicyProblem> {
    let path = path.strip_suffix("/*").or_else(|| path.strip_suffix('/')).unwrap_or(path);
    if path.is_empty() {
        return Ok((String::new(), Vec::new()));
    }
    if path.contains('*') {
        return problem("`*` is in the wrong place of its path", "a path covers everything below it: `/v1/*`");
    }
    let hint = "write the plain path, without `.`, `..`, and encoded slashes or percent signs";
    let unclear = || problem("its path has more than one reading", hint);
    if path_segments(path).is_none() {
        return unclear();
    }
    let Ok(target) = RequestTarget::parse(&format!("https://any.invalid{path}")) else { return unclear() };
    match target.segments() {
        Some(segments) if segments.iter().any(Vec::is_empty) => {
            problem("its path has an empty segment", "remove the doubled `/`")
        }
        Some(segments) if segments.iter().all(|segment| !segment.contains(&b'/')) => {
            Ok((target.url().path().to_owned(), segments))
        }
        _ => unclear(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        rule(text).map_or_else(|error| error.to_string(), |rule| rule.to_string())
    }

    #[test]
    fn rules_are_shown_in_canonical_form() {
        for (text, expected) in [
            ("api.example.com", "https://api.example.com"),
            ("HTTPS://API.Example.com:443/", "https://api.example.com"),
            ("https://api.example.com/v1/*", "https://api.example.com/v1/*"),
            ("GET https://host:8443/path/", "GET https://host:8443/path/*"),
            ("  HEAD,GET,GET   a.example/* ", "GET,HEAD https://a.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("private wiki.corp.example", "private https://wiki.corp.example"),
            ("private GET *.corp.example", "private GET https://*.corp.example"),
            ("private", "https://private"),
            ("*:8443", "https://*:8443"),
            ("http://[0:0::1]:80", "http://[::1]"),
            ("bücher.example/é", "https://xn--bcher-kva.example/%C3%A9/*"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, problem, hint) in [
            ("", "it is empty", "write `https://api.example.com/v1/*`"),
            ("GET POST a.example", "too many words", "separate methods with commas"),
            ("get a.example", "`get` is not a method", "write methods as `GET`"),
            ("CONNECT a.example", "`CONNECT` is not a method", "write methods"),
            ("ftp://a.example", "unknown scheme `ftp`", "use `https://` or `http://`"),
            ("https://me:pw@a.example", "a user name or password", "credentials have settings"),
            ("a.example?q", "a query", "a rule covers all queries"),
            ("a.example/#x", "a fragment", "fragments are not sent"),
            ("a.example\\b", "a backslash", "separate segments"),
            ("a.example\u{a0}", "an unusual space", "remove it"),
            ("a.example:", "its port is empty", "write a number"),
            ("a.example:0", "its port is 0", "write a host"),
            ("a.example.", "ends with a dot", "write a host"),
            ("a*.example", "`*` is in the wrong place", "use `*.example.com`"),
            ("*.com", "covers a whole top-level domain", "name a domain below it"),
            ("*.127.0.0.1", "an address has no names", "remove `*.`"),
            ("http://0x7f.1", "unusual spelling", "write `127.0.0.1`"),
            ("http://2130706433:80", "unusual spelling", "write `127.0.0.1`"),
            ("http://[::ffff:127.0.0.1]", "unusual spelling", "write `127.0.0.1`"),
            ("private 10.0.0.5", "`private` is for names", "remove `private`"),
            ("private *", "does not cover every host", "name the private hosts"),
            ("a.example/v*/x", "wrong place of its path", "`/v1/*`"),
            ("a.example/v1/../x", "more than one reading", "write the plain path"),
            ("a.example/%2e%2e/x", "more than one reading", "write the plain path"),
            ("a.example/a%2fb", "more than one reading", "write the plain path"),
            ("a.example/a//b", "an empty segment", "remove the doubled `/`"),
            ("ex%61mple.com", "its host is encoded", "write the name"),
            ("http://[fe80::1%25eth0]", "its host is encoded", "write the name"),
            ("https://", "it has no host", "write a host"),
        ] {
            let shown = shown(text);
            let (first, second) = shown.split_once("\nhint: ").unwrap_or_else(|| panic!("{text} is valid: {shown}"));
            assert!(first.contains(problem) && second.contains(hint), "{shown}");
        }
    }

    /// Generates rules, and texts that resemble them.
    fn texts() -> impl Strategy<Value = String> {
        let methods = prop_oneof![Just(""), Just("GET "), Just("POST,GET "), Just("private "), Just("private HEAD ")];
        let scheme = prop_oneof![Just(""), Just("http://"), Just("https://"), Just("HTTPS://")];
        let host = prop_oneof![
            "[a-zA-Z0-9-]{1,8}(\\.[a-z]{1,5}){0,2}",
            "\\*\\.[a-z]{1,4}\\.[a-z]{2}",
            "[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}",
            "\\[[0-9a-f:]{2,20}\\]",
            Just("*".to_owned()),
            any::<String>(),
        ];
        let port = prop_oneof![Just(String::new()), ":[0-9]{0,5}"];
        let path = prop_oneof![Just(String::new()), "(/[a-zA-Z0-9.%*é;~ -]{0,6}){0,4}"];
        (methods, scheme, host, port, path).prop_map(|(m, s, h, port, path)| format!("{m}{s}{h}{port}{path}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn shown_rule_is_the_same_rule(text in texts()) {
            if let Ok(parsed) = rule(&text) {
                prop_assert_eq!(rule(&parsed.to_string()), Ok(parsed));
            }
        }

        #[test]
        fn any_text_is_parsed_without_panic(text in any::<String>()) {
            let _ = rule(&text);
        }

        /// A server that resolves the path of a covered URL in any usual way stays below the path of the rule.
        #[test]
        fn covered_paths_stay_below_the_prefix(path in "(/|\\.|\\.\\.|%2e|%2E|%2f|%5c|%25|;|a|b|v1| |%20|%00){0,12}") {
            let rule = rule("https://a.example/v1").unwrap();
            let url = format!("https://a.example/v1{}", path.replace(' ', "+"));
            if let Ok(target) = RequestTarget::parse(&url) && rule.covers("GET", &target) {
                let mut text = target.url().path().to_owned();
                for _ in 0..3 {
                    let slashes = text.replace('\\', "/");
                    let mut resolved: Vec<&str> = Vec::new();
                    for segment in slashes.split('/').skip(1) {
                        match segment.split(';').next().unwrap().trim() {
                            ".." => { resolved.pop(); }
                            "." => {}
                            _ => resolved.push(segment),
                        }
                    }
                    prop_assert_eq!(resolved.first(), Some(&"v1"), "{} -> {}", url, slashes);
                    text = percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned();
                }
            }
        }
    }
}
