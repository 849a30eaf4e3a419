//! Decides on a line and explains the decision.

use crate::command_scene::{Scene, normal};
use crate::excluded::may_read;
use crate::git::{self, Meaning};
use crate::hazards::destroys_history;
use crate::hazards::hazard;
use crate::launchers::wrapped;
use crate::readers::shows_no_content;
use crate::readonly::{reads_only, strange_variable};
use crate::rule::Hit;
use crate::rules::{Effective, PermissionRules, RuleSource};
use crate::shell::{self, Script, Simple, Word, WordKind};
use crate::words::{is_below, is_local};
use std::fmt;
use std::path::{Path, PathBuf};

/// Programs whose arguments are files that they change.
const WRITERS: &[&str] = &[
    "chmod", "chown", "cp", "dd", "install", "ln", "mkdir", "mv", "rm", "rmdir", "sed", "shred", "tee", "touch",
    "truncate", "unlink",
];
/// Programs whose first argument that is not an option is a host.
const REMOTE: &[&str] =
    &["ssh", "scp", "sftp", "rsync", "telnet", "nc", "ncat", "ping", "dig", "host", "nslookup", "ftp", "curl", "wget"];
/// Most parts of an explanation.
const MAX_PARTS: usize = 50;

/// The answer to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// The user decides.
    Ask,
    /// It does not run.
    Deny,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

/// The answer to a command that no rule decides on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// The sandbox confines it.
    Sandbox,
    /// The user decides.
    Ask,
    /// It does not run, because only reading is permitted.
    Deny,
    /// It runs.
    Allow,
}

/// The part of a decision that depends on the mode and not on the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModePolicy {
    /// True if commands that only read the project run.
    pub reads: bool,
    /// The answer to the others.
    pub otherwise: Otherwise,
}

/// A decision with its explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The strictest of the verdicts on the parts.
    pub verdict: Verdict,
    /// The simple commands, with a verdict each.
    pub parts: Vec<CommandVerdict>,
}

/// The verdict on one simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandVerdict {
    /// The command.
    pub text: String,
    /// The verdict on it.
    pub verdict: Verdict,
    /// The reason for the verdict.
    pub reason: VerdictReason,
}

/// The reason for a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerdictReason {
    /// A rule applies.
    Rule {
        /// The rule.
        rule: String,
        /// The file that has it.
        source: RuleSource,
    },
    /// A rule may apply to text that the shell computes.
    MaybeRule {
        /// The rule.
        rule: String,
        /// The file that has it.
        source: RuleSource,
    },
    /// It only reads the project.
    Reads,
    /// The sandbox confines it.
    Sandbox,
    /// The mode permits everything that no rule is about.
    Mode,
    /// No rule allows it.
    NoRule,
    /// The mode permits only commands that read the project.
    OnlyReading,
    /// A rule would allow it, but something about it is uncertain.
    Uncertain(String),
    /// It destroys commits, which no snapshot brings back.
    Irreversible,
    /// It cannot be read.
    Unreadable(String),
}

impl fmt::Display for VerdictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { rule, source } => write!(f, "rule `{rule}` ({source})"),
            Self::MaybeRule { rule, source } => {
                write!(f, "the rule `{rule}` ({source}) may apply to what the shell computes")
            }
            Self::Reads => f.write_str("it only reads the project"),
            Self::Sandbox => f.write_str("it stays in the sandbox"),
            Self::Mode => f.write_str("the mode allows it"),
            Self::NoRule => f.write_str("no rule allows it"),
            Self::OnlyReading => f.write_str("the mode allows only commands that read the project"),
            Self::Uncertain(reason) => f.write_str(reason),
            Self::Irreversible => f.write_str("it may destroy commits, which cannot be undone"),
            Self::Unreadable(reason) => write!(f, "the command cannot be read with certainty: {reason}"),
        }
    }
}

impl Judgement {
    /// Returns the first part with the strictest verdict.
    pub fn decisive(&self) -> Option<&CommandVerdict> {
        self.parts.iter().find(|part| part.verdict == self.verdict)
    }
}

/// Decides on each simple command of a line: a rule denies it, a rule asks about it, or it needs a rule that allows it.
pub fn judge(command: &str, scene: &Scene<'_>, rules: &PermissionRules, policy: ModePolicy) -> Judgement {
    let script = match shell::parse(command, scene) {
        Ok(script) => script,
        Err(unreadable) => {
            let reason = VerdictReason::Unreadable(unreadable.to_string());
            // A rule may be about a part that cannot be read.
            let verdict =
                if rules.narrowing().is_some() { policy.uncertain().max(Verdict::Ask) } else { policy.uncertain() };
            return whole(command, verdict, reason);
        }
    };
    if script.is_fork_bomb {
        let rule = "a function that starts itself several times".to_owned();
        return whole(command, Verdict::Deny, VerdictReason::Rule { rule, source: RuleSource::BuiltIn });
    }
    let judge = CommandJudge { scene, rules, policy, script: &script };
    let mut parts: Vec<CommandVerdict> = script.commands.iter().filter_map(|command| judge.explain(command)).collect();
    if let Some(rule) = rules.narrowing().filter(|_| script.runs_data) {
        let (rule, source) = (rule.rule.text().to_owned(), rule.source.clone());
        let reason = VerdictReason::MaybeRule { rule, source };
        parts.extend(whole(command, policy.uncertain().max(Verdict::Ask), reason).parts);
    }
    if parts.is_empty() {
        let harmless = script.changes.is_empty() && policy.reads;
        let unmatched = policy.judge_unmatched(VerdictReason::NoRule);
        let (verdict, reason) = if harmless { (Verdict::Allow, VerdictReason::Reads) } else { unmatched };
        return whole(command, verdict, reason);
    }
    let verdict = parts.iter().map(|part| part.verdict).max().unwrap_or(Verdict::Ask);
    // The explanation begins with the deciding part.
    parts.sort_by_key(|part| std::cmp::Reverse(part.verdict));
    parts.dedup();
    parts.truncate(MAX_PARTS);
    Judgement { verdict, parts }
}

fn whole(command: &str, verdict: Verdict, reason: VerdictReason) -> Judgement {
    let text: String = command.chars().take(200).collect();
    Judgement { verdict, parts: vec![CommandVerdict { text, verdict, reason }] }
}

impl ModePolicy {
    /// Returns the verdict on uncertain commands.
    fn uncertain(self) -> Verdict {
        match self.otherwise {
            Otherwise::Allow => Verdict::Allow,
            Otherwise::Deny => Verdict::Deny,
            Otherwise::Ask | Otherwise::Sandbox => Verdict::Ask,
        }
    }

    fn judge_unmatched(self, reason: VerdictReason) -> (Verdict, VerdictReason) {
        match self.otherwise {
            Otherwise::Allow => (Verdict::Allow, VerdictReason::Mode),
            Otherwise::Sandbox => (Verdict::Allow, VerdictReason::Sandbox),
            Otherwise::Ask => (Verdict::Ask, reason),
            Otherwise::Deny => (Verdict::Deny, VerdictReason::OnlyReading),
        }
    }
}

struct CommandJudge<'a> {
    scene: &'a Scene<'a>,
    rules: &'a PermissionRules,
    policy: ModePolicy,
    script: &'a Script,
}

impl CommandJudge<'_> {
    /// Decides on a simple command; `None` if it is contained in one that is decided on.
    fn explain(&self, command: &Simple) -> Option<CommandVerdict> {
        let (verdict, reason) = self.verdict(command)?;
        Some(CommandVerdict { text: command.line(), verdict, reason })
    }

    fn verdict(&self, command: &Simple) -> Option<(Verdict, VerdictReason)> {
        let mut doubt = None;
        for verdict in [Verdict::Deny, Verdict::Ask] {
            for rule in self.rules.with_verdict(verdict) {
                let hit = self.hit(rule, command);
                let of = || (rule.rule.text().to_owned(), rule.source.clone());
                match hit {
                    Hit::No => {}
                    Hit::Yes if !command.is_guess => {
                        let (rule, source) = of();
                        return Some((verdict, VerdictReason::Rule { rule, source }));
                    }
                    // The sandbox prevents the accidents that the built-in rules are about.
                    Hit::Maybe | Hit::Yes
                        if rule.source == RuleSource::BuiltIn && self.policy.otherwise != Otherwise::Ask => {}
                    Hit::Maybe | Hit::Yes => doubt = doubt.or_else(|| Some(of())),
                }
            }
        }
        if let Some((rule, source)) = doubt {
            let is_own = source != RuleSource::BuiltIn;
            let verdict = if is_own { self.policy.uncertain().max(Verdict::Ask) } else { self.policy.uncertain() };
            return Some((verdict, VerdictReason::MaybeRule { rule, source }));
        }
        if command.is_contained {
            return None;
        }
        if let Some(unknown) = command.unknown {
            return Some((self.policy.uncertain(), VerdictReason::Uncertain(unknown.to_owned())));
        }
        if let Some(Effective { rule, source, .. }) = self.wrapped(command) {
            let (rule, source) = (rule.text().to_owned(), source.clone());
            return Some((self.policy.uncertain().max(Verdict::Ask), VerdictReason::MaybeRule { rule, source }));
        }
        let problem = match self.allowed(command) {
            Ok(reason) => return Some((Verdict::Allow, reason)),
            Err(problem) => problem,
        };
        if self.policy.otherwise == Otherwise::Sandbox && destroys_history(command) {
            return Some((Verdict::Ask, VerdictReason::Irreversible));
        }
        Some(self.policy.judge_unmatched(problem.map_or(VerdictReason::NoRule, VerdictReason::Uncertain)))
    }

    /// Returns a rule of the user or of the project that denies or asks about a command in the arguments of another.
    fn wrapped(&self, command: &Simple) -> Option<&Effective> {
        self.rules.narrowing().filter(|_| !reads_only(command, self.scene))?;
        let narrowing = || {
            let rules = self.rules.with_verdict(Verdict::Deny).chain(self.rules.with_verdict(Verdict::Ask));
            rules.filter(|rule| rule.source != RuleSource::BuiltIn)
        };
        let wrapped = wrapped(command, self.scene);
        wrapped.iter().find_map(|inner| narrowing().find(|rule| rule.rule.hits(inner) != Hit::No))
    }

    /// Returns the certainty that a rule that denies or asks is about a command.
    fn hit(&self, rule: &Effective, command: &Simple) -> Hit {
        let mut hit = rule.rule.hits(command);
        if rule.rule.is_about_files() {
            let writes = |word: &&Word| {
                command.program().is_some_and(|name| WRITERS.contains(&name)) && !word.text.starts_with('-')
            };
            let arguments = command.words[1..].iter();
            let files = arguments.clone().filter(writes).map(|word| (true, word));
            let files = files.chain(arguments.map(|word| (false, word)));
            let files = files.chain(command.redirects.iter().map(|redirect| (redirect.writes, &redirect.target)));
            hit = files.map(|(writes, word)| self.file_hit(rule, writes, word, command)).fold(hit, Hit::max);
            if rule.source != RuleSource::BuiltIn && self.option_hits(rule, command) {
                hit = hit.max(Hit::Maybe);
            }
        }
        hosts(command).into_iter().fold(hit, |hit, host| if rule.rule.covers_host(&host) { Hit::Yes } else { hit })
    }

    fn file_hit(&self, rule: &Effective, writes: bool, word: &Word, command: &Simple) -> Hit {
        let covers = |path: &str| {
            self.paths(command, path).iter().any(|path| rule.rule.covers_path(writes, path, self.scene.workspace))
        };
        // `of=FILE`, `--output=FILE`.
        let value = word.text.split_once('=').map(|(_, value)| value);
        match word.kind {
            WordKind::Literal if covers(&word.text) || value.is_some_and(covers) => Hit::Yes,
            WordKind::Literal => Hit::No,
            _ if rule.source == RuleSource::BuiltIn => Hit::No,
            // Redirections are certain to be files.
            _ if command.redirects.iter().any(|redirect| &redirect.target == word) => Hit::Maybe,
            WordKind::Dynamic if word.text.contains(['$', '`', '(']) || word.text.contains("{}") => {
                if writes && rule.rule.is_about_writing() { Hit::Maybe } else { Hit::No }
            }
            _ if command.program().is_some_and(shows_no_content) => Hit::No,
            WordKind::Dynamic | WordKind::Pattern => {
                let directories = command.directories.clone().unwrap_or_else(|| vec![self.scene.directory.to_owned()]);
                let mut patterns = directories.iter().map(|directory| directory.join(&word.text));
                let covers = |path: PathBuf| rule.rule.may_cover_pattern(writes, &path, self.scene.workspace);
                if patterns.any(covers) { Hit::Maybe } else { Hit::No }
            }
        }
    }

    /// Returns whether an option may name a file that a rule is about, such as `-tDIRECTORY` and `-o FILE`.
    fn option_hits(&self, rule: &Effective, command: &Simple) -> bool {
        const OUTPUT: &[&str] = &["-o", "-t", "--output", "--target-directory"];
        let arguments = &command.words[1..];
        let apart = arguments.windows(2).filter(|words| OUTPUT.contains(&words[0].text.as_str()));
        let options = arguments.iter().filter_map(|word| word.text.strip_prefix('-'));
        let glued = options.filter_map(|text| match text.strip_prefix('-') {
            Some(long) => long.split_once('=').map(|(_, value)| value),
            None => text.char_indices().nth(1).map(|(at, _)| &text[at..]),
        });
        let mut values = apart.map(|words| words[1].text.as_str()).chain(glued);
        values.any(|value| {
            let mut paths = self.paths(command, value).into_iter();
            paths.any(|path| {
                let covers = |writes| rule.rule.covers_path(writes, &path, self.scene.workspace);
                covers(true) || covers(false)
            })
        })
    }

    fn paths(&self, command: &Simple, path: &str) -> Vec<PathBuf> {
        let directories = command.directories.clone().unwrap_or_else(|| vec![self.scene.directory.to_owned()]);
        let seen = directories.iter().map(|directory| normal(&directory.join(path)));
        let followed: Vec<PathBuf> =
            directories.iter().filter_map(|directory| directory.join(path).canonicalize().ok()).collect();
        seen.chain(followed).collect()
    }

    /// Returns why a command may run, or else the obstacle that keeps a rule from allowing it.
    fn allowed(&self, command: &Simple) -> Result<VerdictReason, Option<String>> {
        let reason = self.covered(command)?;
        if let Some(change) = self.script.changes.first() {
            return Err(Some(change.clone()));
        }
        for redirect in &command.redirects {
            let target = &redirect.target;
            let is_null = matches!(target.literal(), Some("/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin"));
            let is_covered =
                target.kind == WordKind::Literal && self.is_file_allowed(redirect.writes, &target.text, command);
            let is_read = !redirect.writes
                && target.kind == WordKind::Literal
                && is_below(target, command, self.scene)
                && !crate::is_secret_name(target.text.rsplit('/').next().unwrap_or_default());
            if !is_null && !is_covered && !is_read {
                let does = if redirect.writes { "writes" } else { "reads" };
                return Err(Some(format!("it {does} `{}`, which no rule allows", target.text)));
            }
        }
        Ok(reason)
    }

    fn is_file_allowed(&self, writes: bool, path: &str, command: &Simple) -> bool {
        let paths = self.paths(command, path);
        let is_known = command.directories.is_some();
        let is_covered = |path: &PathBuf| {
            let mut rules = self.rules.with_verdict(Verdict::Allow);
            rules.any(|rule| rule.rule.covers_path(writes, path, self.scene.workspace))
        };
        is_known && paths.iter().all(is_covered)
    }

    fn covered(&self, command: &Simple) -> Result<VerdictReason, Option<String>> {
        if self.policy.reads && reads_only(command, self.scene) {
            return match self.rules.excluded().iter().find(|excluded| may_read(command, excluded, self.scene)) {
                Some(excluded) => Err(Some(format!("it may read `{}`, which is excluded", excluded.display()))),
                None => Ok(VerdictReason::Reads),
            };
        }
        let mut problem = None;
        for rule in self.rules.with_verdict(Verdict::Allow) {
            let Some(length) = rule.rule.prefix(command) else { continue };
            match self.obstacle(command, length) {
                None => {
                    return Ok(VerdictReason::Rule { rule: rule.rule.text().to_owned(), source: rule.source.clone() });
                }
                found => problem = found,
            }
        }
        if problem.is_none() && self.is_fetch(command) {
            return Ok(VerdictReason::Rule { rule: "net:…".to_owned(), source: RuleSource::BuiltIn });
        }
        Err(problem)
    }

    /// Returns the obstacle that keeps a rule that covers the first words of a command from allowing it.
    fn obstacle(&self, command: &Simple, length: usize) -> Option<String> {
        let rest = &command.words[length..];
        if let Some(name) = strange_variable(command) {
            return Some(format!("it sets the variable `{name}`"));
        }
        let Some(directories) = &command.directories else { return Some("its directory is not known".to_owned()) };
        if let Some(outside) = directories.iter().find(|directory| !self.scene.contains(directory, ".")) {
            return Some(format!("it may run in `{}`, outside of the project", outside.display()));
        }
        if let Some(word) = rest.iter().find(|word| word.kind == WordKind::Dynamic || word.may_be_option()) {
            return Some(format!("the shell computes `{}`", word.text));
        }
        let is_git = command.program() == Some("git");
        if is_git
            && matches!(
                git::meaning(command, self.scene),
                Meaning::Unknown | Meaning::Alias { is_repositorys: true, .. }
            )
        {
            return Some("it may be an alias that the repository defines".to_owned());
        }
        if let Some(option) = hazard(command, &command.words[..length]) {
            return Some(format!("`{option}` does more than the rule says"));
        }
        let is_own = |word: &&Word| word.text.split('/').any(|part| part.eq_ignore_ascii_case(".git"));
        if command.program().is_some_and(|name| WRITERS.contains(&name))
            && let Some(word) = rest.iter().find(is_own)
        {
            return Some(format!("`{}` belongs to the repository", word.text));
        }
        // Addresses and texts are no paths, except for texts that name a file.
        let is_path = |word: &&Word| {
            let is_text = word.text.contains(char::is_whitespace) && !word.text.starts_with('-');
            let is_address = word.text.contains("://") && !is_local(&word.text);
            !is_address && (!is_text || Path::new(&word.text).is_absolute() && Path::new(&word.text).exists())
        };
        let is_outside = |word: &&Word| is_local(&word.text) || !is_below(word, command, self.scene);
        let outside = rest.iter().filter(is_path).find(is_outside);
        outside.map(|word| format!("`{}` is outside of the project", word.text))
    }

    /// Returns whether a command only gets pages from hosts that rules allow.
    fn is_fetch(&self, command: &Simple) -> bool {
        let hosts = hosts(command);
        let is_allowed =
            |host: &String| self.rules.with_verdict(Verdict::Allow).any(|rule| rule.rule.covers_host(host));
        let is_url = |word: &Word| word.text.starts_with("https://") || word.text.starts_with("http://");
        let is_quiet = |word: &Word| {
            let letters = word.text.strip_prefix('-').unwrap_or("?");
            !letters.is_empty() && letters.chars().all(|c| "fsSLIi46v".contains(c))
                || matches!(word.text.as_str(), "--fail" | "--silent" | "--show-error" | "--head" | "--compressed")
        };
        matches!(command.words[0].literal(), Some("curl"))
            && !hosts.is_empty()
            && hosts.iter().all(is_allowed)
            && strange_variable(command).is_none()
            && command.words[1..].iter().all(|word| word.kind == WordKind::Literal && (is_url(word) || is_quiet(word)))
            // Redirects may lead to other hosts.
            && !command.words[1..].iter().any(|word| !is_url(word) && word.text.contains('L'))
    }
}

/// Returns the hosts that a command names.
fn hosts(command: &Simple) -> Vec<String> {
    let is_remote = command.program().is_some_and(|name| REMOTE.contains(&name));
    let mut hosts = Vec::new();
    for word in &command.words[1..] {
        // `--url=HOST`.
        let value = word.text.strip_prefix("--").and_then(|option| option.split_once('=')).map(|(_, value)| value);
        let text = value.filter(|_| is_remote).unwrap_or(&word.text);
        let host = match text.split_once("://") {
            Some((_, rest)) => rest.split(['/', '?', '#']).next().unwrap_or_default(),
            None if is_remote && !text.starts_with('-') => text.split(['/', '?']).next().unwrap_or_default(),
            // git@host:path
            None => match text.split_once(':').and_then(|(before, _)| before.split_once('@')) {
                Some((_, host)) => host,
                None => continue,
            },
        };
        let host = host.rsplit('@').next().unwrap_or_default();
        let host = if host.starts_with('[') { host } else { host.split(':').next().unwrap_or_default() };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        if !host.is_empty() {
            hosts.push(host);
        }
    }
    hosts
}
