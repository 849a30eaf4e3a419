//! Rules with their effects and sources.

use crate::judge::Verdict;
use crate::rule::{Rule, RuleError};
use std::fmt;
use std::path::{Path, PathBuf};

/// The place where a rule is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleSource {
    /// Part of Pinion.
    BuiltIn,
    /// A file of the user.
    File(PathBuf),
    /// A file of the project, which can only narrow.
    Project(PathBuf),
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File(path) | Self::Project(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A rule with its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The verdict on commands that the rule matches.
    pub verdict: Verdict,
    /// The rule.
    pub rule: Rule,
    /// The file that has the rule.
    pub source: RuleSource,
}

/// All rules that are in effect.
#[derive(Debug, Clone, Default)]
pub struct PermissionRules {
    rules: Vec<Effective>,
    /// Files and directories that nothing but the user's answer keeps programs from.
    excluded: Vec<PathBuf>,
}

/// The rules of Pinion, which all deny. They guard against accidents that no sandbox would undo.
pub const BUILT_IN_RULES: &[&str] = &[
    r"rm -r /",
    r"rm -r /\*",
    r"rm -r ~",
    r"rm -r ~/\*",
    r"rm -r /home",
    r"rm -r /root",
    r"rm -r /etc",
    r"rm -r /usr",
    r"rm -r /var",
    r"rm -r /boot",
    r"rm -r /home/\*",
    r"rm -r /etc/\*",
    r"rm -r /usr/\*",
    r"rm -r /var/\*",
    r"rm --recursive /",
    r"rm --recursive ~",
    r"rm --no-preserve-root",
    r"find / -delete",
    r"find ~ -delete",
    r"chmod -R /",
    r"chown -R /",
    r"chgrp -R /",
    r"mkfs*",
    r"wipefs -a",
    r"shred /dev/*",
    r"dd of=/dev/sd*",
    r"dd of=/dev/hd*",
    r"dd of=/dev/vd*",
    r"dd of=/dev/xvd*",
    r"dd of=/dev/nvme*",
    r"dd of=/dev/mmcblk*",
    r"dd of=/dev/disk*",
    r"write:/dev/sd*",
    r"write:/dev/hd*",
    r"write:/dev/vd*",
    r"write:/dev/xvd*",
    r"write:/dev/nvme*",
    r"write:/dev/mmcblk*",
    r"write:/dev/disk*",
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

impl PermissionRules {
    /// Creates the rules of Pinion.
    pub fn built_in(home: Option<&Path>) -> Self {
        let rule = |text: &&str| Rule::parse(text, home).ok();
        let deny = |rule| Effective { verdict: Verdict::Deny, rule, source: RuleSource::BuiltIn };
        Self { rules: BUILT_IN_RULES.iter().filter_map(rule).map(deny).collect(), excluded: Vec::new() }
    }

    /// Names files and directories, absolute and without links, that programs must not read and that no sandbox hides. A
    /// command that reads the project asks if it may read one of them.
    #[must_use]
    pub fn excluding(mut self, excluded: Vec<PathBuf>) -> Self {
        self.excluded = excluded;
        self
    }

    /// Returns the files that [`excluding`](Self::excluding) named.
    pub(crate) fn excluded(&self) -> &[PathBuf] {
        &self.excluded
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// The text is not a rule, a rule that allows contains a star, or a project allows something.
    pub fn add(&mut self, verdict: Verdict, text: &str, source: RuleSource, home: Option<&Path>) -> Result<(), String> {
        let rule = Rule::parse(text, home).map_err(|error: RuleError| error.to_string())?;
        if verdict == Verdict::Allow && rule.has_pattern() {
            return Err(format!(
                "invalid rule `{}`: a rule that allows contains no `*`, because it covers whatever follows",
                rule.text()
            ));
        }
        if verdict == Verdict::Allow && matches!(source, RuleSource::Project(_)) {
            return Err(format!("the rule `{}` of a project cannot allow anything", rule.text()));
        }
        let added = Effective { verdict, rule, source };
        if !self.rules.contains(&added) {
            self.rules.push(added);
        }
        Ok(())
    }

    /// Returns the strictest rule about a file that a tool writes or reads, with its effect.
    pub fn about_file(&self, writes: bool, path: &Path, workspace: &Path) -> Option<&Effective> {
        let absolute = crate::normal(&workspace.join(path));
        let followed = absolute.canonicalize().unwrap_or_else(|_| absolute.clone());
        let covers = |rule: &&Effective, path: &Path| rule.rule.covers_path(writes, path, workspace);
        let hits = |rule: &&Effective| match rule.verdict {
            Verdict::Allow => covers(rule, &absolute) && covers(rule, &followed),
            Verdict::Ask | Verdict::Deny => covers(rule, &absolute) || covers(rule, &followed),
        };
        self.rules.iter().filter(hits).max_by_key(|rule| rule.verdict)
    }

    /// Returns the strictest rule about a host, by its name in lower case or its address, with its effect.
    pub fn about_host(&self, host: &str) -> Option<&Effective> {
        let host = host.trim_end_matches('.');
        self.rules.iter().filter(|rule| rule.rule.covers_host(host)).max_by_key(|rule| rule.verdict)
    }

    /// Returns all rules in the order of their addition.
    pub fn iter(&self) -> impl Iterator<Item = &Effective> {
        self.rules.iter()
    }

    /// Returns a rule of the user or of the project that denies or asks, if there is one.
    pub(crate) fn narrowing(&self) -> Option<&Effective> {
        let is_own = |rule: &&Effective| rule.verdict != Verdict::Allow && rule.source != RuleSource::BuiltIn;
        self.rules.iter().filter(is_own).find(|rule| !rule.rule.is_about_tools())
    }

    /// Returns the rules with an effect.
    pub(crate) fn with_verdict(&self, verdict: Verdict) -> impl Iterator<Item = &Effective> {
        self.rules.iter().filter(move |rule| rule.verdict == verdict)
    }
}
