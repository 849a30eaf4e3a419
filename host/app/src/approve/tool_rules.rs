//! Rules about tools of MCP servers and of plugins that are not built in.
//!
//! A rule that allows is bound to the tool's definition, as grants are to a component. A rule that an answer to a
//! question added is bound to the definition in the question, and a rule of the config to the definition at the first
//! call in the project. If the definition changes, calls are questions again.

use super::permissions::{CallPermissions, Offer, deny};
use super::stored::{Effect, StoredRule};
use pinion_agent::approval::{ApprovalMode, Question, Ruling};
use pinion_permissions::{CommandVerdict, Effective, Judgement, Rule, ToolName, Verdict, VerdictReason};
use std::io;

/// The built-in plugin whose tools belong to servers, and its tools that call any of these.
const MCP: &str = "mcp";
const CALLERS: [&str; 2] = ["mcp_call", "mcp_call_destructive"];

/// Statement of the rules about a tool.
enum RuleStatement {
    Nothing,
    /// The strictest rule, with the place where it is.
    Rule(Verdict, String, String),
    /// A rule of the config allows it, and its definition is not known yet.
    Unbound(String, String),
    /// A rule allowed it before its definition changed.
    Changed(String),
}

impl CallPermissions {
    /// Decides on a call of a tool whose arguments no rule is about.
    pub(super) fn tool(&self, mode: ApprovalMode, question: &Question<'_>) -> Ruling {
        let said = match self.about_tool(&name(question), Some(&definition(question))) {
            Ok(said) => said,
            Err(error) => {
                let problem = format!("`{}` cannot be read: {error}", self.stored().path().display());
                return deny(&question.tool.name, &problem);
            }
        };
        match said {
            RuleStatement::Rule(Verdict::Allow, ..) if mode != ApprovalMode::Plan => Ruling::Allow,
            // Without a question, nothing has to be bound.
            RuleStatement::Unbound(..) if mode != ApprovalMode::Plan && mode.asks(question.tool.authority) => {
                match self.bind(question) {
                    Ok(()) => Ruling::Allow,
                    Err(error) => {
                        tracing::warn!(%error, "the definition of a tool could not be kept");
                        Ruling::Ask
                    }
                }
            }
            _ => Ruling::Mode,
        }
    }

    /// Returns the decision of a rule that denies or asks about a tool with any arguments.
    pub(super) fn narrowed(&self, question: &Question<'_>) -> Option<Ruling> {
        // An unreadable file is reported by the decision on the arguments.
        match self.about_tool(&name(question), Some(&definition(question))).ok()? {
            RuleStatement::Rule(Verdict::Deny, rule, source) => {
                Some(deny(&question.tool.name, &format!("rule `{rule}` ({source})")))
            }
            RuleStatement::Rule(Verdict::Ask, ..) => Some(Ruling::Ask),
            _ => None,
        }
    }

    /// Returns the rule that a question about a tool may offer to add for this project.
    pub(super) fn tool_offer(&self, question: &Question<'_>) -> Option<Offer> {
        let source = &question.tool.source;
        let is_caller = CALLERS.contains(&question.tool.name.as_str());
        // Of a tool that reaches many things, a rule would allow all of them.
        if source.plugin.is_empty() || (!source.approved_by.is_empty() && !is_caller) {
            return None;
        }
        let (rule, definition) = (name(question).rule(), definition(question));
        let said = self.about_tool(&name(question), Some(&definition)).ok()?;
        let is_useful = !matches!(said, RuleStatement::Rule(..)) && Rule::parse(&rule, None).is_ok();
        is_useful.then(|| Offer { shown: rule.clone(), rule, definition: Some(definition) })
    }

    /// Returns why a call of a tool is decided on as it is, if a rule decides on that.
    pub(super) fn tool_reason(&self, question: &Question<'_>) -> Option<String> {
        match self.about_tool(&name(question), Some(&definition(question))).ok()? {
            RuleStatement::Nothing => None,
            RuleStatement::Rule(_, rule, source) | RuleStatement::Unbound(rule, source) => {
                Some(format!("rule `{rule}` ({source})"))
            }
            RuleStatement::Changed(rule) => {
                Some(format!("`{rule}` was allowed, and the tool's definition has changed since then"))
            }
        }
    }

    /// Explains the decision on a tool, named as in a rule or as the model names it; `None` for anything else.
    pub fn judge_tool(&self, mode: ApprovalMode, text: &str) -> Option<io::Result<Judgement>> {
        let is_word = !text.contains(char::is_whitespace);
        let name = ToolName::of_rule(text).or_else(|| ToolName::of_offered(text).filter(|_| is_word))?;
        let part = |verdict, reason| CommandVerdict { text: name.rule(), verdict, reason };
        Some(self.about_tool(&name, None).map(|said| {
            let part = match said {
                RuleStatement::Rule(Verdict::Allow, ..) | RuleStatement::Unbound(..) if mode == ApprovalMode::Plan => {
                    part(Verdict::Deny, VerdictReason::Uncertain("the mode allows only calls that read".to_owned()))
                }
                RuleStatement::Rule(verdict, rule, source) => {
                    part(verdict, VerdictReason::Uncertain(format!("rule `{rule}` ({source})")))
                }
                RuleStatement::Unbound(rule, source) => {
                    let reason = format!("rule `{rule}` ({source}), with the definition of the first call");
                    part(Verdict::Allow, VerdictReason::Uncertain(reason))
                }
                RuleStatement::Nothing | RuleStatement::Changed(_) => match mode {
                    ApprovalMode::All => part(Verdict::Allow, VerdictReason::Mode),
                    ApprovalMode::Plan => {
                        part(Verdict::Deny, VerdictReason::Uncertain("the mode allows only calls that read".to_owned()))
                    }
                    ApprovalMode::Ask | ApprovalMode::Confirm | ApprovalMode::Smart | ApprovalMode::Edits => {
                        part(Verdict::Ask, VerdictReason::NoRule)
                    }
                },
            };
            Judgement { verdict: part.verdict, parts: vec![part] }
        }))
    }

    /// Looks a tool up in the rules. Without a `definition`, any definition counts.
    fn about_tool(&self, name: &ToolName, definition: Option<&str>) -> io::Result<RuleStatement> {
        let covers = |rule: &Rule| rule.covers_tool(name);
        let stored = self.stored().read()?;
        let here = |entry: &&StoredRule| self.is_of_project(entry);
        let parsed: Vec<(&StoredRule, Rule)> = stored
            .iter()
            .filter(here)
            .filter_map(|entry| Some((entry, Rule::parse(&entry.rule, None).ok()?)))
            .filter(|(_, rule)| covers(rule))
            .collect();
        let configured: Vec<&Effective> = self.configured.iter().filter(|rule| covers(&rule.rule)).collect();
        let place = self.stored().path().display().to_string();
        for (verdict, effect) in [(Verdict::Deny, Effect::Deny), (Verdict::Ask, Effect::Ask)] {
            if let Some(rule) = configured.iter().find(|rule| rule.verdict == verdict) {
                return Ok(RuleStatement::Rule(verdict, rule.rule.text().to_owned(), rule.source.to_string()));
            }
            if let Some((entry, _)) = parsed.iter().find(|(entry, _)| entry.effect == effect) {
                return Ok(RuleStatement::Rule(verdict, entry.rule.clone(), place));
            }
        }
        let is_same =
            |entry: &StoredRule| definition.is_none_or(|definition| entry.definition.as_deref() == Some(definition));
        let of = |effect: Effect| parsed.iter().map(|(entry, _)| *entry).filter(move |entry| entry.effect == effect);
        if let Some(entry) = of(Effect::Allow).find(|entry| entry.definition.is_some() && is_same(entry)) {
            return Ok(RuleStatement::Rule(Verdict::Allow, entry.rule.clone(), place));
        }
        let by_name = configured.iter().find(|rule| rule.verdict == Verdict::Allow);
        let by_name = by_name.map(|rule| (rule.rule.text().to_owned(), rule.source.to_string()));
        // Written by hand.
        let by_hand = of(Effect::Allow).find(|entry| entry.definition.is_none());
        let by_name = by_name.or_else(|| by_hand.map(|entry| (entry.rule.clone(), place)));
        Ok(match by_name {
            Some((rule, source)) if of(Effect::Bound).any(is_same) && definition.is_some() => {
                RuleStatement::Rule(Verdict::Allow, rule, source)
            }
            Some((rule, _)) if of(Effect::Bound).next().is_some() && definition.is_some() => {
                RuleStatement::Changed(rule)
            }
            Some((rule, source)) => RuleStatement::Unbound(rule, source),
            None => of(Effect::Allow)
                .next()
                .map_or(RuleStatement::Nothing, |entry| RuleStatement::Changed(entry.rule.clone())),
        })
    }

    /// Records the definition of a tool that a rule of the config allows.
    fn bind(&self, question: &Question<'_>) -> io::Result<()> {
        self.stored().add(StoredRule {
            project: Some(self.workspace().to_owned()),
            effect: Effect::Bound,
            rule: name(question).rule(),
            definition: Some(definition(question)),
        })
    }
}

/// Returns the name of a tool in rules.
fn name(question: &Question<'_>) -> ToolName {
    let tool = question.tool.name.as_str();
    if &*question.tool.source.plugin != MCP {
        return ToolName::of_plugin(tool);
    }
    let text = |name: &str| question.call.arguments.get(name).and_then(serde_json::Value::as_str);
    let called = text("server").zip(text("tool")).filter(|_| CALLERS.contains(&tool));
    let called = called.map(|(server, tool)| ToolName::of_server(server, tool));
    called.or_else(|| ToolName::of_offered(tool)).unwrap_or_else(|| ToolName::of_plugin(tool))
}

/// Returns the digest of everything that an approval of a tool covers.
fn definition(question: &Question<'_>) -> String {
    let source = &question.tool.source;
    format!("{} {}", source.digest, source.definition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approve::audit::Audit;
    use crate::config::Config;
    use crate::files::paths::Paths;
    use crate::options::RunOptions;
    use pinion_agent::Authority;
    use pinion_agent::approval::CallRules as _;
    use pinion_agent::content::ToolCall;
    use pinion_agent::definition::{Execution, ToolDefinition, ToolSource};
    use pinion_agent::secrets::Secrets;
    use serde_json::json;
    use std::path::Path;
    use std::sync::Arc;

    fn permissions(home: &Path, config: &str) -> CallPermissions {
        let paths = Paths { config: home.to_owned(), data: home.to_owned(), cache: home.to_owned() };
        std::fs::write(paths.config_file(), config).unwrap();
        let config = Config::load(&paths, home, &RunOptions::default()).unwrap();
        let audit = Arc::new(Audit::new(paths.audit_file(), Secrets::default()));
        CallPermissions::new(&paths, home, &config, audit)
    }

    fn tool(plugin: &str, name: &str, definition: &str) -> ToolDefinition {
        let source = ToolSource {
            plugin: plugin.into(),
            digest: "d".into(),
            generation: 1,
            definition: definition.into(),
            approved_by: Arc::default(),
        };
        ToolDefinition {
            name: name.to_owned(),
            label: String::new(),
            description: String::new(),
            input_schema: json!({}),
            guidelines: Vec::new(),
            authority: Authority { executes: true, network: true, ..Authority::default() },
            execution: Execution::default(),
            source,
        }
    }

    fn with_question<T>(tool: &ToolDefinition, ask: impl Fn(&Question<'_>) -> T) -> T {
        let call = ToolCall {
            id: "1".to_owned(),
            name: tool.name.clone(),
            arguments: json!({ "server": "docs", "tool": "read" }),
            partial: None,
            signature: None,
        };
        ask(&Question { call: &call, tool, notes: &[], agent: None })
    }

    #[test]
    fn rule_that_allows_a_tool_is_bound_to_its_definition() {
        let home = tempfile::tempdir().unwrap();
        let config = "[permissions]\nallow = [\"mcp:docs\", \"tool:count\"]\nask = [\"mcp:docs/write\"]\n\
                      deny = [\"mcp:evil\"]\n";
        let permissions = permissions(home.path(), config);
        let ruling = |mode, tool: &ToolDefinition| with_question(tool, |question| permissions.ruling(mode, question));
        let smart = ApprovalMode::Smart;
        // Only the first definition counts.
        assert_eq!(ruling(smart, &tool("mcp", "docs__read", "1")), Ruling::Allow);
        assert_eq!(ruling(smart, &tool("mcp", "docs__read", "1")), Ruling::Allow);
        assert_eq!(ruling(smart, &tool("mcp", "docs__read", "2")), Ruling::Mode);
        assert_eq!(ruling(smart, &tool("other", "count", "1")), Ruling::Allow);
        assert_eq!(ruling(smart, &tool("other", "count", "2")), Ruling::Mode);
        assert_eq!(ruling(smart, &tool("mcp", "docs__write", "1")), Ruling::Ask);
        assert!(matches!(ruling(ApprovalMode::All, &tool("mcp", "evil__x", "1")), Ruling::Deny { .. }));
        assert_eq!(ruling(ApprovalMode::Plan, &tool("mcp", "docs__list", "1")), Ruling::Mode);
        for other in [tool("mcp", "docs_2__read", "1"), tool("other", "docs__read", "1"), tool("mcp", "count", "1")] {
            assert_ne!(ruling(ApprovalMode::Plan, &other), Ruling::Allow, "{}", other.name);
        }
        // A binding is not a rule.
        assert!(permissions.rules().unwrap().iter().all(|rule| !rule.source.to_string().ends_with("permissions.toml")));
        let changed = tool("mcp", "docs__read", "2");
        let reason = with_question(&changed, |question| permissions.explained(question)).unwrap();
        assert!(reason.contains("has changed"), "{reason}");
        let offer = with_question(&changed, |question| permissions.offer(question)).unwrap();
        assert_eq!(offer.rule, "mcp:docs/read");
        permissions.allow(offer).unwrap();
        assert_eq!(ruling(smart, &changed), Ruling::Allow);
        assert_eq!(ruling(smart, &tool("mcp", "docs__read", "3")), Ruling::Mode);
    }

    #[test]
    fn answer_adds_a_rule_for_one_tool() {
        let home = tempfile::tempdir().unwrap();
        let permissions = permissions(home.path(), "");
        let read = tool("mcp", "docs__read", "1");
        let offer = with_question(&read, |question| permissions.offer(question)).unwrap();
        permissions.allow(offer).unwrap();
        let ruling =
            |tool: &ToolDefinition| with_question(tool, |question| permissions.ruling(ApprovalMode::Smart, question));
        assert_eq!(ruling(&read), Ruling::Allow);
        assert_eq!(ruling(&tool("mcp", "docs__other", "1")), Ruling::Mode);
        // The same tool through the one that calls any.
        let caller = tool("mcp", "mcp_call", "all");
        assert_eq!(ruling(&caller), Ruling::Mode);
        let offer = with_question(&caller, |question| permissions.offer(question)).unwrap();
        assert_eq!(offer.rule, "mcp:docs/read");
        let judged =
            |text: &str| permissions.judge_tool(ApprovalMode::Smart, text).map(|judged| judged.unwrap().verdict);
        assert_eq!(judged("mcp:docs/read"), Some(Verdict::Allow));
        assert_eq!(judged("docs__read"), Some(Verdict::Allow));
        assert_eq!(judged("mcp:docs/other"), Some(Verdict::Ask));
        assert_eq!(judged("tool:count"), Some(Verdict::Ask));
        assert_eq!(judged("cargo test"), None);
        assert!(with_question(&tool("", "own", "1"), |question| permissions.offer(question)).is_none());
    }
}
