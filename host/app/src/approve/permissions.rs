//! Decisions about calls by rules and by the limits of the sandbox.
//!
//! Only calls of built-in plugins are judged by their arguments: commands of `bash`, files of `fs`, and hosts of `fetch`. The
//! mode decides on all others.

use crate::approve::audit::Audit;
use crate::approve::stored::{Effect, StoredRule, StoredRules};
use crate::config::Config;
use crate::config::permissions::FilePermissions;
use crate::files::paths::{self, CONFIG, Paths};
use pinion_agent::ToolDefinition;
use pinion_agent::approval::{ApprovalMode, CallRules, Decider, Question, Ruling};
use pinion_agent::hook::HookNote;
use pinion_agent::text::one_line;
use pinion_egress::RequestTarget;
use pinion_exclusions::Finder;
use pinion_files::normalize_lexically;
use pinion_permissions::{
    Effective, Judgement, ModePolicy, Otherwise, PermissionRules, Rule, RuleSource, Scene, Verdict, VerdictReason,
    judge, offer,
};
use pinion_sandbox::{is_nested_setting, protected_in};
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Characters of the decisive command in a question, which shows all of it below, and in the log.
const SHOWN: usize = 30;
const LOGGED: usize = 200;
/// Most parts of a command whose verdicts the log explains.
const LOGGED_PARTS: usize = 20;
/// Most remarks of hooks in the log, and characters of one.
const LOGGED_NOTES: usize = 20;
const LOGGED_NOTE: usize = 500;

/// The rules of the user and of the project, the sandbox of programs, and the log of decisions.
pub struct CallPermissions {
    workspace: PathBuf,
    /// The directory whose stored rules apply: the workspace, or the original of a copy.
    project: PathBuf,
    home: Option<PathBuf>,
    /// Rules of Pinion and of the config.
    pub(super) configured: PermissionRules,
    pub(super) stored: StoredRules,
    /// Checks whether programs start in a complete sandbox, and returns why they do not.
    sandbox: OnceLock<Box<dyn Fn() -> Result<(), String> + Send + Sync>>,
    /// Set where nothing that calls change can be undone.
    is_final: OnceLock<()>,
    /// Files that programs read only if no sandbox hides them.
    exclusions: Arc<Finder>,
    /// The mode of the last decision, for explanations.
    mode: Mutex<ApprovalMode>,
    /// The log of decisions.
    pub audit: Arc<Audit>,
    /// Problems of the project's rules.
    pub notices: Vec<String>,
}

impl CallPermissions {
    /// Reads the rules of the config, which are checked already.
    pub fn new(paths: &Paths, workspace: &Path, config: &Config, audit: Arc<Audit>) -> Self {
        let settings = &config.permissions;
        let home = paths::home();
        let mut configured = PermissionRules::built_in(home.as_deref());
        let user = RuleSource::File(paths.config_file());
        let mut notices = Vec::new();
        for (of, source) in [(&settings.user, user), (&settings.project, RuleSource::Project(workspace.join(CONFIG)))] {
            let FilePermissions { allow, ask, deny } = of;
            for (verdict, rules) in [(Verdict::Allow, allow), (Verdict::Ask, ask), (Verdict::Deny, deny)] {
                for rule in rules {
                    notices.extend(configured.add(verdict, rule, source.clone(), home.as_deref()).err());
                }
            }
        }
        Self {
            workspace: workspace.to_owned(),
            project: workspace.to_owned(),
            home,
            configured,
            stored: StoredRules::new(paths.permissions_file()),
            sandbox: OnceLock::new(),
            is_final: OnceLock::new(),
            exclusions: config.exclusions.clone(),
            mode: Mutex::default(),
            audit,
            notices: notices.into_iter().map(|error| format!("`permissions` in `{CONFIG}`: {error}")).collect(),
        }
    }

    /// Applies the stored rules of another project, because the workspace is a copy of its directory.
    #[must_use]
    pub(crate) fn of_project(self, project: &Path) -> Self {
        Self { project: project.to_owned(), ..self }
    }

    /// Returns the workspace that the rules apply to.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Sets the check whether programs start in a complete sandbox; until then, they do not.
    pub fn use_sandbox(&self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        // Set once, when a run is set up.
        let _ = self.sandbox.set(Box::new(check));
    }

    /// Returns why a call of `bash` was not left to the sandbox, where the mode would have left it; `None` if something
    /// else decided.
    pub fn missing_sandbox(&self, question: &Question<'_>) -> Option<String> {
        let mode = *self.mode.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(BuiltInSubject::Command { command, cwd }) = BuiltInSubject::from_question(question) else {
            return None;
        };
        let is_by_rule =
            |reason: &VerdictReason| matches!(reason, VerdictReason::Rule { .. } | VerdictReason::MaybeRule { .. });
        let is_open = mode == ApprovalMode::Smart
            && self.is_final.get().is_none()
            && !self.judge(mode, command, cwd).decisive().is_some_and(|part| is_by_rule(&part.reason));
        // A problem with a hint becomes one line, too.
        self.sandbox.get().filter(|_| is_open)?().err().map(|problem| problem.replace("\nhint: ", "; "))
    }

    /// Declares that changes by calls cannot be undone: `smart` then asks about every call that no rule allows, unless it only
    /// reads.
    pub fn without_undo(&self) {
        // Set once, when calls begin to be served.
        let _ = self.is_final.set(());
    }

    /// Returns whether a call of a tool may run without a question: because the mode does not ask about it, or because
    /// a rule may allow it.
    pub fn may_allow(&self, mode: ApprovalMode, tool: &ToolDefinition) -> bool {
        if !mode.asks(tool.authority) {
            return true;
        }
        let writes = tool.authority.writes;
        let is_about: fn(&Rule, bool) -> bool = match (&*tool.source.plugin, tool.name.as_str()) {
            _ if mode == ApprovalMode::Plan => return false,
            ("shell", "bash") => |rule, _| rule.file().is_none() && rule.host().is_none() && !rule.is_about_tools(),
            ("fs", _) if writes && self.allows_edits(mode) => return true,
            ("fs", _) => |rule, writes| rule.file().is_some_and(|(of_writes, _)| of_writes == writes),
            ("web", _) => |rule, _| rule.host().is_some(),
            _ => |rule, _| rule.is_about_tools(),
        };
        let allows = |rule: &Effective| rule.verdict == Verdict::Allow && is_about(&rule.rule, writes);
        self.rules().is_ok_and(|rules| rules.iter().any(allows))
    }

    /// Returns whether files of the project can be edited without a question.
    fn allows_edits(&self, mode: ApprovalMode) -> bool {
        match mode {
            ApprovalMode::Smart => self.is_final.get().is_none(),
            ApprovalMode::Edits => true,
            ApprovalMode::Ask | ApprovalMode::Confirm | ApprovalMode::Plan | ApprovalMode::All => false,
        }
    }

    /// Returns whether programs start now in a sandbox whose network is off or limited to chosen hosts. The first call
    /// starts the sandbox's helper.
    pub fn is_sandboxed(&self) -> bool {
        self.sandbox.get().is_some_and(|check| check().is_ok())
    }

    /// Returns the rules that the user kept from questions.
    pub fn stored(&self) -> &StoredRules {
        &self.stored
    }

    /// Returns whether a stored rule is in effect here.
    pub fn is_here(&self, rule: &StoredRule) -> bool {
        rule.effect != Effect::Bound && self.is_of_project(rule)
    }

    /// Returns whether a stored entry is one of this project or of all.
    pub(super) fn is_of_project(&self, rule: &StoredRule) -> bool {
        rule.project.as_ref().is_none_or(|project| *project == self.project)
    }

    /// Returns all rules that are in effect here.
    ///
    /// # Errors
    /// `permissions.toml` cannot be read.
    pub fn rules(&self) -> io::Result<PermissionRules> {
        let mut rules = self.configured.clone();
        for rule in self.stored.read()?.into_iter().filter(|rule| self.is_here(rule)) {
            let source = RuleSource::File(self.stored.path().to_owned());
            rules.add(rule.effect.into(), &rule.rule, source, self.home.as_deref()).map_err(io::Error::other)?;
        }
        Ok(rules)
    }

    /// Decides on a command of `bash`.
    pub fn judge(&self, mode: ApprovalMode, command: &str, cwd: Option<&str>) -> Judgement {
        let ask = |reason| {
            let part = pinion_permissions::CommandVerdict {
                text: command.to_owned(),
                verdict: Verdict::Ask,
                reason: VerdictReason::Uncertain(reason),
            };
            Judgement { verdict: Verdict::Ask, parts: vec![part] }
        };
        let directory = match self.directory(cwd) {
            Ok(directory) => directory,
            Err(error) => return ask(format!("its directory `{}` cannot be found: {error}", cwd.unwrap_or("."))),
        };
        let scene = self.scene(&directory);
        let policy = ModePolicy { reads: mode != ApprovalMode::Ask, otherwise: self.otherwise(mode) };
        match self.rules() {
            Ok(rules) if policy.reads => judge(command, &scene, &self.with_excluded(rules), policy),
            Ok(rules) => judge(command, &scene, &rules, policy),
            Err(error) => ask(format!("`{}` cannot be read: {error}", self.stored.path().display())),
        }
    }

    /// Adds the excluded files that no sandbox hides.
    fn with_excluded(&self, rules: PermissionRules) -> PermissionRules {
        if self.exclusions.is_empty() || self.is_sandboxed() {
            return rules;
        }
        rules.excluding(match self.exclusions.find_excluded() {
            Ok(found) => found.places.iter().map(|place| place.path.clone()).collect(),
            // Any file may be one.
            Err(_) => vec![self.workspace.clone()],
        })
    }

    /// Returns the starting directory of a command, without links, as the runtime resolves it.
    fn directory(&self, cwd: Option<&str>) -> io::Result<PathBuf> {
        cwd.map_or_else(|| Ok(self.workspace.clone()), |cwd| self.workspace.join(cwd).canonicalize())
    }

    fn otherwise(&self, mode: ApprovalMode) -> Otherwise {
        match mode {
            ApprovalMode::All => Otherwise::Allow,
            ApprovalMode::Plan => Otherwise::Deny,
            ApprovalMode::Smart if self.is_final.get().is_none() && self.is_sandboxed() => Otherwise::Sandbox,
            ApprovalMode::Ask | ApprovalMode::Confirm | ApprovalMode::Smart | ApprovalMode::Edits => Otherwise::Ask,
        }
    }

    fn scene<'a>(&'a self, directory: &'a Path) -> Scene<'a> {
        Scene { workspace: &self.workspace, directory, home: self.home.as_deref() }
    }

    /// Returns the rule that a question may offer to add for this project.
    pub fn offer(&self, question: &Question<'_>) -> Option<Offer> {
        if question.notes.iter().any(HookNote::asks) {
            return None;
        }
        let Some(subject) = BuiltInSubject::from_question(question) else { return self.tool_offer(question) };
        match subject {
            BuiltInSubject::Command { command, cwd } => {
                let directory = self.directory(cwd).ok()?;
                let rule = offer(command, &self.scene(&directory), &self.rules().ok()?)?;
                Some(Offer { shown: format!("{rule} …"), rule, definition: None })
            }
            BuiltInSubject::Host(host) => {
                // A rule that asks would still do so.
                let rule = format!("net:{host}");
                let is_new = self.rules().ok()?.about_host(&host).is_none() && Rule::parse(&rule, None).is_ok();
                is_new.then(|| Offer { shown: rule.clone(), rule, definition: None })
            }
            BuiltInSubject::File { .. } => None,
        }
    }

    /// Adds a rule that allows calls in this project.
    ///
    /// # Errors
    /// `permissions.toml` cannot be written.
    pub fn allow(&self, offer: Offer) -> io::Result<()> {
        let Offer { rule, definition, .. } = offer;
        self.stored.add(StoredRule { project: Some(self.project.clone()), effect: Effect::Allow, rule, definition })
    }

    /// Returns why a call is asked about, if its arguments decide on that.
    pub fn explained(&self, question: &Question<'_>) -> Option<String> {
        // The application says itself why it asks.
        if question.notes.iter().any(|note| matches!(note, HookNote::Application { .. })) {
            return None;
        }
        let mode = *self.mode.lock().unwrap_or_else(PoisonError::into_inner);
        self.explain(mode, question, 1, SHOWN)
    }

    /// Returns the reason for the decision on a call, if its arguments decide. Covers at most `parts` of the decisive
    /// parts, with at most `most` characters of each.
    fn explain(&self, mode: ApprovalMode, question: &Question<'_>, parts: usize, most: usize) -> Option<String> {
        let Some(subject) = BuiltInSubject::from_question(question) else { return self.tool_reason(question) };
        match subject {
            BuiltInSubject::Command { command, cwd } => {
                let judgement = self.judge(mode, command, cwd);
                let decisive: Vec<_> =
                    judgement.parts.iter().filter(|part| part.verdict == judgement.verdict).collect();
                let shown = decisive.iter().take(parts);
                let mut shown: Vec<String> =
                    shown.map(|part| format!("`{}`: {}", one_line(&part.text, most), part.reason)).collect();
                if parts > 1 && decisive.len() > parts {
                    shown.push(format!("and {} more", decisive.len() - parts));
                }
                if parts > 1 && judgement.verdict == Verdict::Ask {
                    shown.extend(self.missing_sandbox(question).map(|problem| format!("no sandbox: {problem}")));
                }
                (!shown.is_empty()).then(|| shown.join("; "))
            }
            BuiltInSubject::File { writes, path } => {
                let rules = self.rules().ok()?;
                if let Some(rule) = rules.about_file(writes, Path::new(path), &self.workspace) {
                    return Some(format!("rule `{}` ({})", rule.rule.text(), rule.source));
                }
                let protected = writes.then(|| self.protected(path)).flatten()?;
                let name = protected.strip_prefix(&self.workspace).unwrap_or(&protected);
                Some(format!("`{}` decides what runs outside of the sandbox", name.display()))
            }
            BuiltInSubject::Host(host) => Some(match self.rules().ok()?.about_host(&host) {
                Some(rule) => format!("rule `{}` ({})", rule.rule.text(), rule.source),
                None => format!("no rule allows the host `{host}`"),
            }),
        }
    }

    fn file(&self, mode: ApprovalMode, writes: bool, path: &str) -> Ruling {
        let rules = match self.rules() {
            Ok(rules) => rules,
            // A run without a user would not say why.
            Err(error) => return deny(path, &format!("`{}` cannot be read: {error}", self.stored.path().display())),
        };
        if let Some(rule) = rules.about_file(writes, Path::new(path), &self.workspace) {
            return match rule.verdict {
                Verdict::Allow if mode == ApprovalMode::Plan => Ruling::Mode,
                Verdict::Allow => Ruling::Allow,
                Verdict::Ask => Ruling::Ask,
                Verdict::Deny => deny(path, &format!("rule `{}` ({})", rule.rule.text(), rule.source)),
            };
        }
        let asks = !matches!(mode, ApprovalMode::Plan | ApprovalMode::All);
        if writes && asks && self.protected(path).is_some() {
            return Ruling::Ask;
        }
        let directory = self.workspace.as_path();
        if writes && self.allows_edits(mode) && self.scene(directory).contains(directory, path) {
            Ruling::Allow
        } else {
            Ruling::Mode
        }
    }

    fn host(&self, mode: ApprovalMode, host: &str) -> Ruling {
        let rules = match self.rules() {
            Ok(rules) => rules,
            Err(error) => return no_page(host, &format!("`{}` cannot be read: {error}", self.stored.path().display())),
        };
        match rules.about_host(host) {
            Some(rule) if rule.verdict == Verdict::Deny => {
                no_page(host, &format!("rule `{}` ({})", rule.rule.text(), rule.source))
            }
            Some(rule) if rule.verdict == Verdict::Ask => Ruling::Ask,
            // Data sent to a host leaves the machine, so a rule does not allow it while planning.
            Some(_) if mode != ApprovalMode::Plan => Ruling::Allow,
            Some(_) | None => Ruling::Mode,
        }
    }

    /// Returns the protected path that a file is or lies in. Programs cannot change these, and the model does not without a
    /// question: they determine which code runs outside of the sandbox.
    pub(super) fn protected(&self, path: &str) -> Option<PathBuf> {
        let directory = self.workspace.as_path();
        // The tools resolve `..` by spelling; other programs resolve it to the parent of the link's target.
        let spelled = normalize_lexically(&directory.join(path));
        let scene = self.scene(directory);
        let followed = [scene.resolved(directory, path), scene.resolved(&spelled, ".")];
        let files: Vec<PathBuf> = followed.into_iter().flatten().chain([spelled]).collect();
        let nested = files.iter().find_map(|file| {
            let inside = file.ancestors().take_while(|path| *path != directory && path.starts_with(directory));
            let is_setting = |path: &&Path| {
                let around = path.parent().and_then(|around| around.strip_prefix(directory).ok());
                around.zip(path.file_name()).is_some_and(|(around, name)| is_nested_setting(around, name))
            };
            inside.into_iter().find(is_setting).map(Path::to_owned)
        });
        let protected = protected_in(directory, &paths::git_user());
        nested.or_else(|| protected.into_iter().find(|protected| files.iter().any(|file| is_at_or_in(file, protected))))
    }
}

/// A rule that a question offers to add.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The rule in the form of the config.
    pub rule: String,
    /// The rule as people read it: a rule about a command covers all commands that begin with it.
    pub shown: String,
    /// Digest of the definition that a rule about a tool is bound to.
    pub definition: Option<String>,
}

/// Subject of a call of a built-in plugin.
enum BuiltInSubject<'a> {
    Command {
        command: &'a str,
        cwd: Option<&'a str>,
    },
    File {
        writes: bool,
        path: &'a str,
    },
    /// The host of a page, as the host's client reads its URL.
    Host(String),
}

impl<'a> BuiltInSubject<'a> {
    /// The names of built-in plugins are reserved, so other plugins cannot be mistaken for them.
    fn from_question(question: &Question<'a>) -> Option<Self> {
        let text = |name: &str| question.call.arguments.get(name).and_then(serde_json::Value::as_str);
        match (&*question.tool.source.plugin, question.tool.name.as_str()) {
            ("shell", "bash") => Some(Self::Command { command: text("command")?, cwd: text("cwd") }),
            ("fs", _) => Some(Self::File { writes: question.tool.authority.writes, path: text("path").unwrap_or(".") }),
            // A URL that cannot be read is refused by the client.
            ("web", _) => Some(Self::Host(RequestTarget::parse(text("url")?).ok()?.host().to_owned())),
            _ => None,
        }
    }
}

impl CallRules for CallPermissions {
    fn ruling(&self, mode: ApprovalMode, question: &Question<'_>) -> Ruling {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
        if let Some(ruling) = self.narrowed(question) {
            return ruling;
        }
        let (command, cwd) = match BuiltInSubject::from_question(question) {
            Some(BuiltInSubject::Command { command, cwd }) => (command, cwd),
            Some(BuiltInSubject::File { writes, path }) => return self.file(mode, writes, path),
            Some(BuiltInSubject::Host(host)) => return self.host(mode, &host),
            None => return self.tool(mode, question),
        };
        let judgement = self.judge(mode, command, cwd);
        let Some(part) = judgement.decisive() else { return Ruling::Mode };
        match judgement.verdict {
            Verdict::Allow => Ruling::Allow,
            Verdict::Deny => deny(&part.text, &part.reason.to_string()),
            // An approval for the session covers calls without a rule.
            Verdict::Ask => match part.reason {
                VerdictReason::Rule { .. } | VerdictReason::MaybeRule { .. } => Ruling::Ask,
                _ if mode == ApprovalMode::All => Ruling::Ask,
                _ => Ruling::Mode,
            },
        }
    }

    fn reach(&self, question: &Question<'_>) -> Option<String> {
        match BuiltInSubject::from_question(question)? {
            BuiltInSubject::Host(host) => Some(host),
            BuiltInSubject::Command { .. } | BuiltInSubject::File { .. } => None,
        }
    }

    fn decided(&self, mode: ApprovalMode, question: &Question<'_>, is_allowed: bool, by: Decider) {
        let (tool, source) = (question.tool, &question.tool.source);
        let by_name = match by {
            Decider::Rules => "rules",
            Decider::Mode => "mode",
            Decider::Session => "session",
            Decider::User => "user",
            Decider::Nobody => "nobody",
        };
        let notes = question.notes.iter().take(LOGGED_NOTES);
        let notes: Vec<String> = notes.map(|note| one_line(&note.to_string(), LOGGED_NOTE)).collect();
        self.audit.add(json!({
            "time": null, "event": "decision", "call": question.call.id, "tool": tool.name, "plugin": source.plugin,
            "component": source.digest, "effects": tool.authority.effect_names(), "arguments": self.audit.arguments(&question.call.arguments),
            "mode": mode.name(), "allowed": is_allowed, "by": by_name, "why": self.explain(mode, question, LOGGED_PARTS, LOGGED), "hooks": notes,
        }));
    }
}

/// Returns whether a file is a path or lies in it. Some file systems do not tell letter case apart.
fn is_at_or_in(file: &Path, path: &Path) -> bool {
    let mut components = file.components();
    path.components()
        .all(|one| components.next().is_some_and(|other| one.as_os_str().eq_ignore_ascii_case(other.as_os_str())))
}

pub(super) fn deny(what: &str, reason: &str) -> Ruling {
    Ruling::Deny { reason: format!("`{what}` was not run: {reason}; leave it to the user, and do not try another way") }
}

fn no_page(host: &str, reason: &str) -> Ruling {
    let reason =
        format!("nothing was fetched from `{host}`: {reason}; leave it to the user, and do not try another way");
    Ruling::Deny { reason }
}
