//! The line that tells why a program failed, when the sandbox may be the reason.

use crate::policy::{Network, Policy};
use std::path::Path;

/// A kind of refusal, as programs report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// A write to a protected path.
    Protected,
    /// A write outside the writable directories.
    Write,
    /// A use of the network.
    Network,
}

/// Texts of programs about the network, in lower case.
const NETWORK: &[&str] = &[
    "could not resolve host",
    "couldn't resolve host",
    "could not resolve '",
    "unable to resolve host",
    "dial tcp: lookup",
    "temporary failure in name resolution",
    "name or service not known",
    "network is unreachable",
    "failed to lookup address",
    "getaddrinfo",
    "enotfound",
    "eai_again",
    "no address associated with hostname",
];
/// Texts of programs about files, in lower case.
const FILES: &[&str] = &["read-only file system", "erofs", "permission denied", "eacces", "operation not permitted"];
/// Texts about mounts, by which protected paths keep their names, in lower case.
const MOUNTS: &[&str] = &["device or resource busy", "ebusy", "cross-device", "exdev"];

/// Words behind such a text in which the host is looked for.
const BEHIND: usize = 3;

/// Returns the host that a program could not reach, as far as what it wrote to its error stream says so.
pub fn unreachable_host(text: &str) -> Option<&str> {
    text.lines().rev().take(200).find_map(host_in)
}

/// Returns the host in a line about the network: behind the words about it, or in an address.
fn host_in(line: &str) -> Option<&str> {
    let lower = line.to_ascii_lowercase();
    let (at, word) = NETWORK.iter().filter_map(|word| Some((lower.find(word)?, word))).min()?;
    let split = |from: usize| {
        let is_other = |c: char| !(c.is_ascii_alphanumeric() || ".-_".contains(c));
        line.get(from..).unwrap_or_default().split(is_other)
    };
    let mut behind = split(at + word.len()).filter(|word| !word.is_empty()).take(BEHIND);
    let after = |mark: &str| Some(split(line.find(mark)? + mark.len()).next().unwrap_or_default());
    behind
        .find(|word| is_host(word))
        .or_else(|| ["://", "host='"].iter().filter_map(|mark| after(mark)).find(|word| is_host(word)))
}

fn is_host(word: &str) -> bool {
    let mut labels = word.rsplit('.');
    let is_top = labels.next().is_some_and(|top| top.len() > 1 && top.bytes().all(|byte| byte.is_ascii_alphabetic()));
    is_top && word.contains('.') && labels.all(|label| !label.is_empty() && !label.contains('_'))
}

/// Returns the hint for a program that failed and wrote `text` to its error stream; none if the sandbox explains nothing.
pub fn hint(text: &str, policy: &Policy) -> Option<(Denial, String)> {
    let lines = || text.lines().rev().take(200);
    let names = |line: &str, words: &[&str]| {
        let line = line.to_lowercase();
        words.iter().any(|word| line.contains(word))
    };
    if policy.network != Network::On && lines().any(|line| names(line, NETWORK)) {
        let text = match policy.network {
            Network::Proxied => {
                "in the sandbox, the allowed hosts are reached only through the proxy that `HTTPS_PROXY` names, by HTTP or \
                 SOCKS5"
            }
            _ => {
                let host = unreachable_host(text).unwrap_or("HOST");
                &format!(
                    "the sandbox has no network; the user can allow a host with `/net allow {host}`, `--net {host}` or `hosts` in \
                     `[sandbox]` of the config"
                )
            }
        };
        return Some((Denial::Network, text.to_owned()));
    }
    let line = lines().find(|line| names(line, FILES) || names(line, MOUNTS))?;
    let path = line.split([' ', '\'', '"', '`', '‘', '’', ':', ',', '(', ')', '=']).find(|word| word.starts_with('/'));
    if policy.read_only.iter().any(|protected| is_named(protected, line, path)) {
        let text = "the sandbox protects this path, because it decides what runs outside; only the user can change it";
        return Some((Denial::Protected, text.to_owned()));
    }
    let path = Path::new(path.filter(|_| names(line, FILES))?);
    if policy.writable.iter().any(|writable| path.starts_with(writable)) {
        return None;
    }
    let directory = path.parent().unwrap_or(path).display();
    let text = format!(
        "the sandbox is read-only outside the workspace; the user can allow it with `writable = [\"{directory}\"]` in \
         `[sandbox]` of the config"
    );
    Some((Denial::Write, text))
}

/// Returns whether a line is about a protected path, which programs may name relative to their directory.
fn is_named(protected: &Path, line: &str, path: Option<&str>) -> bool {
    let end: std::path::PathBuf = protected.components().rev().take(2).collect::<Vec<_>>().into_iter().rev().collect();
    path.is_some_and(|path| Path::new(path).starts_with(protected)) || line.contains(&*end.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn policy() -> Policy {
        Policy {
            writable: vec![PathBuf::from("/w")],
            read_only: vec![PathBuf::from("/w/.git/hooks"), PathBuf::from("/w/.git/config")],
            ..Policy::default()
        }
    }

    #[test]
    fn hint_names_the_setting_for_each_kind_of_refusal() {
        let cases = [
            ("curl: (6) Could not resolve host: example.com", Denial::Network, "`/net allow example.com`"),
            (
                "error: failed to open `/home/u/.cargo/registry/x`: Read-only file system (os error 30)",
                Denial::Write,
                "writable = [\"/home/u/.cargo/registry\"]",
            ),
            ("bash: line 1: .git/hooks/post-commit: Read-only file system", Denial::Protected, "only the user"),
            (
                "error: could not write config file .git/config: Device or resource busy",
                Denial::Protected,
                "only the user",
            ),
            (
                "mv: cannot move '/w/.git/hooks' to '/w/x': Invalid cross-device link",
                Denial::Protected,
                "only the user",
            ),
        ];
        for (text, denial, part) in cases {
            let (found, hint) = hint(text, &policy()).unwrap();
            assert!(found == denial && hint.contains(part), "{text}: {hint}");
        }
    }

    #[test]
    fn host_is_found_in_the_words_of_programs() {
        for (line, host) in [
            ("curl: (6) Could not resolve host: example.com", Some("example.com")),
            (
                "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com",
                Some("github.com"),
            ),
            (
                "ssh: Could not resolve hostname git.a-b.example: Temporary failure in name resolution",
                Some("git.a-b.example"),
            ),
            ("npm error network getaddrinfo ENOTFOUND registry.npmjs.org", Some("registry.npmjs.org")),
            ("wget: unable to resolve host address ‘example.com’", Some("example.com")),
            ("E: Could not resolve 'deb.debian.org'", Some("deb.debian.org")),
            ("dial tcp: lookup proxy.golang.org on 127.0.0.53:53: server misbehaving", Some("proxy.golang.org")),
            (
                "urllib3: HTTPSConnectionPool(host='pypi.org', port=443): [Errno -3] Temporary failure in name resolution",
                Some("pypi.org"),
            ),
            (
                "error sending request for url (https://index.crates.io/a): failed to lookup address information",
                Some("index.crates.io"),
            ),
            ("getaddrinfo: a.b_c.example", None),
            ("Name or service not known", None),
            ("could not resolve host: ../../etc $(id) `x`", None),
        ] {
            assert_eq!(unreachable_host(&format!("x\n{line}\ny.example")), host, "{line}");
        }
    }

    #[test]
    fn failures_of_other_kinds_have_no_hint() {
        for text in ["assertion failed", "", "cat: /w/x: Permission denied", "umount: /mnt/x: device or resource busy"]
        {
            assert_eq!(hint(text, &policy()), None, "{text}");
        }
        let proxied = Policy { network: Network::Proxied, ..policy() };
        assert!(hint("Could not resolve host: x", &proxied).unwrap().1.contains("HTTPS_PROXY"));
        let open = Policy { network: Network::On, ..policy() };
        assert_eq!(hint("Could not resolve host: x", &open), None);
    }
}
