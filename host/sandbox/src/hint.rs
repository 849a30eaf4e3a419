//! The line that tells why a program failed, when the sandbox may be the reason.

use crate::policy::{Network, SandboxPolicy};
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
/// Texts about mounts, which make protected paths keep their names, in lower case.
const MOUNTS: &[&str] = &["device or resource busy", "ebusy", "cross-device", "exdev"];

/// Texts of debuggers and tracers that may not trace a program, in lower case.
const TRACING: &[&str] =
    &["ptrace", "trace the inferior", "perf_event_open", "perf_event_paranoid", "process_vm_readv"];
/// Texts of refusals to trace, in lower case.
const UNTRACED: &[&str] = &["operation not permitted", "permission denied", "eperm", "could not trace", "failed"];
/// Programs that can fail without a word about the network.
const QUIET: &[&str] = &["curl", "wget", "aria2c", "http", "https", "xh", "git", "ssh", "scp", "sftp", "rsync", "nc"];

/// Words behind such a text that are searched for the host.
const BEHIND: usize = 3;

/// Returns the host that a program could not reach, if its output on the error stream names it.
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

/// Returns the host in a URL of a shell command with a program that can be told to say nothing about the network, such as
/// `curl -s`.
pub fn quiet_host(command: &str) -> Option<&str> {
    let mut words = command.split(|c: char| c.is_whitespace() || ";|&()`'\"".contains(c));
    if !words.any(|word| QUIET.contains(&word.rsplit('/').next().unwrap_or_default())) {
        return None;
    }
    let hosts = command.match_indices("://").map(|(at, mark)| {
        let address = command[at + mark.len()..].split(|c: char| c.is_whitespace() || "/?#'\"`;|&)".contains(c)).next();
        let host = address.unwrap_or_default().rsplit('@').next().unwrap_or_default();
        host.split(':').next().unwrap_or_default()
    });
    hosts
        .into_iter()
        .find(|host| is_host(host) && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)))
}

/// Returns whether the status of a shell command says nothing about the first program in it, because it only passes its
/// output and its errors through programs such as `tail`: `make 2>&1 | tail -5`.
pub fn hides_failure(command: &str) -> bool {
    let Some((first, rest)) =
        command.replace("|&", "2>&1 |").split_once('|').map(|(a, b)| (a.to_owned(), b.to_owned()))
    else {
        return false;
    };
    let program = |part: &str| part.split_whitespace().next().unwrap_or_default().to_owned();
    let passes = |part: &str| matches!(program(part).as_str(), "tail" | "head" | "cat" | "tee" | "less");
    first.contains("2>&1")
        && rest.split('|').all(passes)
        && !matches!(program(&first).as_str(), "cat" | "tail" | "head" | "grep" | "rg")
}

/// Returns the hint for a debugger or tracer, which the sandbox refuses to trace other programs; some of them succeed all the
/// same.
pub fn tracing_hint(text: &str) -> Option<&'static str> {
    let is_refused = |line: &str| {
        let line = line.to_lowercase();
        TRACING.iter().any(|word| line.contains(word)) && UNTRACED.iter().any(|word| line.contains(word))
    };
    text.lines().rev().take(200).any(is_refused).then_some(
        "in the sandbox, no program can trace another (gdb, lldb, strace, perf): add output to the program, or ask the user to \
         run the debugger outside of Pinion",
    )
}

/// Returns the hint about a missing network for a program that said nothing about it.
pub fn no_network(host: &str) -> String {
    format!(
        "the sandbox has no network; the user can allow a host with `/net allow {host}`, `--net {host}` or `hosts` in `[sandbox]` \
         of the config"
    )
}

fn is_host(word: &str) -> bool {
    let mut labels = word.rsplit('.');
    let is_top = labels.next().is_some_and(|top| top.len() > 1 && top.bytes().all(|byte| byte.is_ascii_alphabetic()));
    is_top && word.contains('.') && labels.all(|label| !label.is_empty() && !label.contains('_'))
}

/// Returns the hint for a program that failed and wrote `text` to its error stream; `None` if the sandbox explains
/// nothing.
pub fn hint(text: &str, policy: &SandboxPolicy) -> Option<(Denial, String)> {
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
            _ => &no_network(unreachable_host(text).unwrap_or("HOST")),
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

    fn policy() -> SandboxPolicy {
        SandboxPolicy {
            writable: vec![PathBuf::from("/w")],
            read_only: vec![PathBuf::from("/w/.git/hooks"), PathBuf::from("/w/.git/config")],
            ..SandboxPolicy::default()
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
    fn host_of_a_quiet_program_is_that_of_its_url() {
        for (command, host) in [
            ("curl -s https://crates.io/api", Some("crates.io")),
            ("cd x && curl -sf 'https://user:pw@index.crates.io:443/a?b' | jq .", Some("index.crates.io")),
            ("/usr/bin/wget -q \"http://example.com\"", Some("example.com")),
            ("git fetch -q https://github.com/a/b", Some("github.com")),
            ("curl -s http://localhost:3000/x http://127.0.0.1/", None),
            ("curl -s http://localhost:3000/x https://example.com", Some("example.com")),
            ("grep -q https://example.com README.md", None),
            ("curl --version", None),
            ("curl -s https://$HOST/$(id)", None),
            ("curl -s https://a`id`.example", None),
            ("curl -s ://", None),
        ] {
            assert_eq!(quiet_host(command), host, "{command}");
        }
    }

    #[test]
    fn refused_tracing_is_explained() {
        for text in [
            "warning: Could not trace the inferior process.\nwarning: ptrace: Operation not permitted",
            "strace: test_ptrace_get_syscall_info: PTRACE_TRACEME: Operation not permitted",
            "strace: attach: ptrace(PTRACE_SEIZE, 12): Operation not permitted",
            "perf_event_open(...) failed: Operation not permitted",
        ] {
            assert!(tracing_hint(text).unwrap().contains("no program can trace"), "{text}");
        }
        for (command, is_hidden) in [
            ("curl https://crates.io 2>&1 | tail -5", true),
            ("cd x && make |& tee log | tail", true),
            ("curl https://crates.io", false),
            ("curl https://crates.io | tail -5", false),
            ("make 2>&1 | grep error", false),
            ("cat build.log 2>&1 | tail", false),
        ] {
            assert_eq!(hides_failure(command), is_hidden, "{command}");
        }
        for text in ["", "rm: x: Operation not permitted", "see ptrace(2)"] {
            assert_eq!(tracing_hint(text), None, "{text}");
        }
    }

    #[test]
    fn failures_of_other_kinds_have_no_hint() {
        for text in ["assertion failed", "", "cat: /w/x: Permission denied", "umount: /mnt/x: device or resource busy"]
        {
            assert_eq!(hint(text, &policy()), None, "{text}");
        }
        let proxied = SandboxPolicy { network: Network::Proxied, ..policy() };
        assert!(hint("Could not resolve host: x", &proxied).unwrap().1.contains("HTTPS_PROXY"));
        let open = SandboxPolicy { network: Network::On, ..policy() };
        assert_eq!(hint("Could not resolve host: x", &open), None);
    }
}
