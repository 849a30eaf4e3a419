//! Patterns of denied commands.
//!
//! The patterns guard against accidents and are not a security boundary: a command can hide its effect in many ways.
//! The sandbox around programs and the user's approval bound what a program can touch.
//!
//! A pattern is written like a command:
//! - The first word names the program, without its directory. `sudo`, `env` and variables before the program are
//!   ignored.
//! - A word that starts with `-` is an option that the command must have. Options of up to three letters, such as
//!   `-rf`, match in any order, case and grouping, and among other letters.
//! - Any other word is an argument that the command must have, at any position.
//! - `*` matches any text, `\*` a star.
//! - A pattern that contains one of `| & ; < > ( )` matches anywhere in the command's text, ignoring whitespace.

use crate::words::commands;

/// The default patterns.
pub(crate) const DEFAULT: &[&str] = &[
    r"rm -r /",
    r"rm -r /\*",
    r"rm -r ~",
    r"rm -r ~/\*",
    r"rm -r $HOME",
    r"rm -r $HOME/\*",
    r"rm -r ${HOME}",
    r"rm -r /home",
    r"rm -r /root",
    r"rm -r /etc",
    r"rm -r /usr",
    r"rm -r /var",
    r"rm -r /boot",
    r"rm --recursive /",
    r"rm --no-preserve-root",
    r"find / -delete",
    r"chmod -R /",
    r"chown -R /",
    r"chgrp -R /",
    r"mkfs*",
    r"wipefs -a",
    r"dd of=/dev/sd*",
    r"dd of=/dev/hd*",
    r"dd of=/dev/vd*",
    r"dd of=/dev/nvme*",
    r"dd of=/dev/mmcblk*",
    r"dd of=/dev/disk*",
    r">/dev/sd",
    r">/dev/hd",
    r">/dev/vd",
    r">/dev/nvme",
    r">/dev/mmcblk",
    r":(){:|:&};:",
    r"shutdown",
    r"reboot",
    r"poweroff",
    r"halt",
    r"init 0",
    r"init 6",
    r"systemctl poweroff",
    r"systemctl reboot",
    r"systemctl halt",
    r"crontab -r",
];

/// Programs that run the command after them.
const WRAPPERS: &[&str] = &[
    "sudo", "doas", "env", "nohup", "nice", "ionice", "time", "timeout", "exec", "command", "builtin", "xargs",
    "setsid", "stdbuf", "if", "then", "elif", "else", "while", "until", "do", "!", "{",
];
/// Programs whose arguments are commands.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "eval"];
/// Maximum nesting of shells to look into.
const DEPTH: u32 = 3;

/// Compiled patterns.
pub(crate) struct DenyList {
    patterns: Vec<Pattern>,
}

impl DenyList {
    /// Compiles patterns.
    ///
    /// # Errors
    /// A pattern is empty.
    pub(crate) fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let patterns = patterns.into_iter().map(Pattern::new).collect::<Result<_, _>>()?;
        Ok(Self { patterns })
    }

    /// Returns the first pattern that matches `command`.
    pub(crate) fn denies(&self, command: &str) -> Option<&str> {
        let parsed = parsed(command, DEPTH);
        let squeezed = squeezed(command);
        let denying = self.patterns.iter().find(|pattern| pattern.matches(&parsed, &squeezed));
        denying.map(|pattern| pattern.text.as_str())
    }

    /// Checks the built-in patterns against known commands.
    ///
    /// # Errors
    /// A command is misjudged.
    pub(crate) fn self_test(&self) -> Result<(), String> {
        for (command, denied) in [("rm -fr /", true), ("sudo mkfs.ext4 /dev/sda1", true), ("rm -rf target", false)] {
            if self.denies(command).is_some() != denied {
                return Err(format!("the deny patterns misjudge `{command}`"));
            }
        }
        Ok(())
    }
}

struct Pattern {
    text: String,
    kind: Kind,
}

enum Kind {
    /// Matches anywhere in the text, ignoring whitespace.
    Anywhere(String),
    Command {
        program: Glob,
        needs: Vec<Need>,
    },
}

enum Need {
    /// A group of short options: `-rf`.
    Letters(String),
    /// A long option or an argument: `--force`, `-delete`, `/`.
    Word(Glob),
}

impl Pattern {
    fn new(text: &str) -> Result<Self, String> {
        let kind = if text.contains(['|', '&', ';', '<', '>', '(', ')']) {
            Kind::Anywhere(squeezed(text))
        } else {
            let mut words = text.split_whitespace();
            let program = words.next().ok_or("config: a pattern in `deny` is empty")?;
            Kind::Command { program: Glob::new(program), needs: words.map(Need::new).collect() }
        };
        Ok(Self { text: text.to_owned(), kind })
    }

    fn matches(&self, commands: &[Vec<String>], squeezed: &str) -> bool {
        match &self.kind {
            Kind::Anywhere(text) => squeezed.contains(text),
            Kind::Command { program, needs } => commands.iter().any(|words| {
                starts(words).any(|(name, arguments)| {
                    program.matches(base_name(name)) && needs.iter().all(|need| need.is_met(arguments))
                })
            }),
        }
    }
}

impl Need {
    fn new(word: &str) -> Self {
        match word.strip_prefix('-') {
            Some(letters) if is_cluster(letters) => Self::Letters(letters.to_ascii_lowercase()),
            _ => Self::Word(Glob::new(word)),
        }
    }

    fn is_met(&self, arguments: &[String]) -> bool {
        match self {
            Self::Word(glob) => arguments.iter().any(|argument| glob.matches(plain(argument))),
            Self::Letters(letters) => {
                let options = arguments.iter().filter_map(|argument| argument.strip_prefix('-'));
                let given: String = options.filter(|option| !option.starts_with('-')).collect();
                let given = given.to_ascii_lowercase();
                letters.chars().all(|letter| given.contains(letter))
            }
        }
    }
}

fn is_cluster(letters: &str) -> bool {
    (1..=3).contains(&letters.len()) && letters.chars().all(|letter| letter.is_ascii_alphanumeric())
}

/// Returns the candidates for the program of a simple command: its first word, or any word after a wrapper.
fn starts(words: &[String]) -> impl Iterator<Item = (&str, &[String])> {
    let first = words.iter().position(|word| !is_assignment(word)).unwrap_or(words.len());
    let wrapped = words.get(first).is_some_and(|word| WRAPPERS.contains(&base_name(word)));
    let last = if wrapped { words.len() } else { words.len().min(first + 1) };
    (first..last).map(|at| (words[at].as_str(), &words[at + 1..]))
}

fn is_assignment(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    name.len() < word.len() && !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Removes trailing slashes, except from the root.
fn plain(argument: &str) -> &str {
    match argument.trim_end_matches('/') {
        "" if !argument.is_empty() => "/",
        rest => rest,
    }
}

/// Returns the simple commands, including those passed to shells as arguments.
fn parsed(text: &str, depth: u32) -> Vec<Vec<String>> {
    let mut all = commands(text);
    if depth == 0 {
        return all;
    }
    let given: Vec<String> = all.iter().flat_map(|words| starts(words)).flat_map(|(n, a)| for_shell(n, a)).collect();
    all.extend(given.iter().flat_map(|text| parsed(text, depth - 1)));
    all
}

fn for_shell(name: &str, arguments: &[String]) -> Vec<String> {
    if base_name(name) == "eval" {
        return vec![arguments.join(" ")];
    }
    let is_shell = SHELLS.contains(&base_name(name));
    arguments.iter().filter(|argument| is_shell && argument.contains(char::is_whitespace)).cloned().collect()
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// A glob in which `*` matches any text.
struct Glob(Vec<Part>);

#[derive(PartialEq)]
enum Part {
    Char(char),
    Anything,
}

impl Glob {
    fn new(text: &str) -> Self {
        let mut chars = text.chars();
        let mut parts = Vec::new();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '*' => Part::Anything,
                '\\' => Part::Char(chars.next().unwrap_or('\\')),
                c => Part::Char(c),
            });
        }
        Self(parts)
    }

    /// Matches by backtracking to the last star only; takes at most the product of both lengths in steps.
    fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut part, mut at, mut retry) = (0, 0, None);
        while at < text.len() {
            match self.0.get(part) {
                Some(Part::Anything) => {
                    retry = Some((part + 1, at + 1));
                    part += 1;
                }
                Some(Part::Char(c)) if *c == text[at] => (part, at) = (part + 1, at + 1),
                _ => match retry {
                    Some((after, from)) => {
                        (part, at) = (after, from);
                        retry = Some((after, from + 1));
                    }
                    None => return false,
                },
            }
        }
        self.0[part..].iter().all(|part| *part == Part::Anything)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn denied(command: &str) -> Option<String> {
        DenyList::new(DEFAULT.iter().copied()).unwrap().denies(command).map(str::to_owned)
    }

    #[test]
    fn destructive_commands_are_denied_in_every_spelling() {
        for command in [
            "rm -rf /",
            "rm  -fr\t/",
            "rm -r -f /",
            "rm -Rf //",
            "rm -rf --no-preserve-root /",
            "/bin/rm -rf / ",
            "sudo -u root rm -rf /",
            "cd /tmp && rm -rf /*",
            "rm -rf \"/\"",
            "rm \\\n  -rf /",
            "X=1 rm -rf ~/",
            "rm -rf $HOME",
            "rm -rf \"${HOME}\"",
            "if true; then rm -rf /usr/; fi",
            "bash -c 'rm -rf /'",
            "sudo sh -ec \"cd /; bash -c 'rm -rf /etc'\"",
            "eval rm -rf /",
            "echo / | xargs rm -rf /",
            "find / -name '*.log' -delete",
            "mkfs.ext4 /dev/sda1",
            "dd if=/dev/zero of=/dev/sda bs=1M",
            "cat image > /dev/sda",
            ":(){ :|:& };:",
            ": ( ) {\n : | : & } ; :",
            "sudo reboot",
            "chmod -R 777 /",
            "systemctl   reboot",
        ] {
            assert!(denied(command).is_some(), "{command}");
        }
    }

    #[test]
    fn ordinary_commands_are_allowed() {
        for command in [
            "rm -rf target /tmp/x",
            "rm -rf ./",
            "rm -r /home/me/project/build",
            "rm /",
            "ls -r /",
            "echo rm -rf /",
            "grep -rn \"rm -rf /\" .",
            "git commit -m 'never rm -rf / again; reboot'",
            "cat > notes.md <<'EOF'\nreboot\nrm -rf /\nEOF",
            "# rm -rf /",
            "dd if=/dev/zero of=/dev/null",
            "dd if=a of=disk.img",
            "find . -delete",
            "find / -depth -type d -ls",
            "chmod -R u+w target",
            "systemctl status reboot-notifier",
            "cargo test -- halt",
            "cmd 2>/dev/null",
            "make reboot",
        ] {
            assert_eq!(denied(command), None, "{command}");
        }
    }

    #[test]
    fn star_matches_any_text_unless_escaped() {
        for (glob, text, expected) in [
            ("mkfs*", "mkfs", true),
            ("mkfs*", "mkfs.ext4", true),
            ("*.rs", "a.rs.rs", true),
            ("*.rs", "a.rs.c", false),
            ("a*b*c", "a-b-b-c", true),
            (r"/\*", "/*", true),
            (r"/\*", "/tmp", false),
            ("", "a", false),
            ("a", "", false),
        ] {
            assert_eq!(Glob::new(glob).matches(text), expected, "{glob} {text}");
        }
    }

    proptest! {
        #[test]
        fn whitespace_between_words_is_ignored(gaps in proptest::collection::vec("[ \t]{1,4}", 3)) {
            let command = format!("{0}rm{1}-rf{2}/", gaps[0], gaps[1], gaps[2]);
            prop_assert_eq!(denied(&command), Some("rm -r /".to_owned()));
        }

        #[test]
        fn arbitrary_command_does_not_panic(command in "\\PC{0,80}|[rm /*~'\"\\\\\n;&|()<>-]{0,80}") {
            denied(&command);
        }

        #[test]
        fn glob_agrees_with_naive_matching(glob in "[ab*]{0,8}", text in "[ab]{0,10}") {
            fn plainly(glob: &[u8], text: &[u8]) -> bool {
                match (glob.first(), text.first()) {
                    (None, None) => true,
                    (Some(b'*'), _) => {
                        plainly(&glob[1..], text) || (!text.is_empty() && plainly(glob, &text[1..]))
                    }
                    (Some(g), Some(t)) => g == t && plainly(&glob[1..], &text[1..]),
                    _ => false,
                }
            }
            prop_assert_eq!(Glob::new(&glob).matches(&text), plainly(glob.as_bytes(), text.as_bytes()));
        }
    }
}
