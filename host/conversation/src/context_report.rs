//! `/context`: the parts that fill the model's context window.
//!
//! The total is the number that decides on compaction. The parts are estimates, scaled so that they add up to it.

use pinion_agent::arguments::summary;
use pinion_agent::live_state::ContextEstimate;
use pinion_agent::text::one_line;
use pinion_agent::tokens::{LEAST_RATIO, TokenCounter, message_tokens};
use pinion_agent::{Agent, Content, LoopConfig, Message, ToolDefinition};
use pinion_console::output::terminal::is_linear;
use pinion_console::output::{count, short};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Bytes of a schema for one token.
const SCHEMA_BYTES: u64 = 4;
/// The plugin that offers the tools of MCP servers, and the text that ends the server in their names.
const BRIDGE: &str = "mcp";
const SERVER_END: &str = "__";
/// Results that are listed one by one, and characters of the summaries of their calls.
const LARGEST: usize = 10;
const LABEL: usize = 60;
/// Columns of a bar that stands for the whole window.
const BAR: u64 = 20;

/// Describes the context of the next request as Markdown.
pub(crate) fn context_report(agent: &Agent) -> String {
    let config = agent.config();
    let parts = parts(&config, &agent.system_prompt(), &agent.history());
    let estimate = agent.context_estimate();
    let threshold = config.policy.compaction.threshold_of(estimate.window);
    let text = report(&estimate, threshold.filter(|_| config.policy.compaction.automatic), &parts);
    let estimated: u64 = parts.iter().map(|part| part.tokens).sum();
    let largest = largest(&agent.history(), &*config.ports.counter);
    let rows = largest.iter().map(|part| {
        let tokens = short(scaled(part.tokens, estimate.tokens.max(1), estimated));
        format!("| {} | {} | {tokens} |\n", part.name, part.items.as_deref().unwrap_or_default())
    });
    let head = if largest.is_empty() { "" } else { "\n| largest results | number | tokens |\n|---|---|---:|\n" };
    std::iter::once(text).chain([head.to_owned()]).chain(rows).collect()
}

/// A tool of an MCP server as the next request describes it, and the tokens that `/context` counts for it.
pub(crate) struct Described {
    pub(crate) tool: Arc<ToolDefinition>,
    pub(crate) tokens: u64,
}

/// The described tools of each MCP server and the sum of their tokens, by the name that the bridge gives the server.
pub(crate) type Servers = BTreeMap<String, (Vec<Described>, u64)>;

/// Returns the tools of each MCP server that the next request describes, with the numbers of `/context`.
pub(crate) fn described_servers(agent: &Agent) -> Servers {
    let config = agent.config();
    let estimated: u64 = parts(&config, &agent.system_prompt(), &agent.history()).iter().map(|part| part.tokens).sum();
    let total = agent.context_estimate().tokens.max(1);
    let mut servers = Servers::new();
    for tool in config.ports.tools.definitions() {
        let (BRIDGE, Some((server, _))) = (&*tool.source.plugin, tool.name.split_once(SERVER_END)) else { continue };
        let tokens = tool_tokens(&tool, &*config.ports.counter);
        let (tools, sum) = servers.entry(server.to_owned()).or_default();
        tools.push(Described { tokens: scaled(tokens, total, estimated), tool });
        *sum += tokens;
    }
    servers.values_mut().for_each(|(_, sum)| *sum = scaled(*sum, total, estimated));
    servers
}

/// Scales an estimate so that all parts together are the total.
fn scaled(tokens: u64, total: u64, estimated: u64) -> u64 {
    (u128::from(tokens) * u128::from(total) / u128::from(estimated.max(1))) as u64
}

/// A part of the context.
#[derive(Debug, PartialEq, Eq)]
struct ContextPart {
    name: String,
    /// Number of tools, messages or calls.
    items: Option<String>,
    tokens: u64,
}

fn report(estimate: &ContextEstimate, threshold: Option<u64>, parts: &[ContextPart]) -> String {
    let estimated: u64 = parts.iter().map(|part| part.tokens).sum();
    let total = estimate.tokens.max(1);
    let whole = estimate.window.unwrap_or(total).max(1);
    let mut text = match estimate.window {
        Some(window) => {
            let share = estimate.tokens.saturating_mul(100) / window.max(1);
            format!("**{} of {} tokens ({share} %)**", short(estimate.tokens), short(window))
        }
        None => format!("**{} tokens**; the size of the model's context window is unknown", short(estimate.tokens)),
    };
    if let Some(threshold) = threshold {
        text.push_str(&format!("; compaction begins at {}", short(threshold)));
    }
    // It is 0 before the first run.
    if estimate.ratio > 0.0 && (estimate.ratio - 1.0).abs() >= 0.005 {
        let (ratio, found) = (estimate.ratio.max(LEAST_RATIO), if estimate.ratio > 1.0 { "more" } else { "less" });
        text.push_str(&format!("; estimates are multiplied by {ratio:.2}, because the vendor counted {found}"));
    }
    text.push_str("\n\n| part | number | tokens | share |\n|---|---|---:|---|\n");
    let bar_columns = if is_linear() { 0 } else { BAR };
    let row = |name: &str, items: &str, tokens: u64| {
        let per_mille = tokens.saturating_mul(1000) / whole;
        let bar = "█".repeat(usize::try_from((tokens * bar_columns).div_ceil(whole).min(bar_columns)).unwrap_or(0));
        let share = format!("{}.{} % {bar}", per_mille / 10, per_mille % 10);
        format!("| {name} | {items} | {} | {} |\n", short(tokens), share.trim_end())
    };
    for part in parts.iter().filter(|part| part.tokens > 0) {
        let tokens = scaled(part.tokens, total, estimated);
        text.push_str(&row(&part.name, part.items.as_deref().unwrap_or_default(), tokens));
    }
    if let Some(window) = estimate.window {
        text.push_str(&row("free", "", window.saturating_sub(estimate.tokens)));
    }
    text
}

/// Estimates the parts: first the fixed content of every request, then the messages.
fn parts(config: &LoopConfig, system_prompt: &str, history: &[Arc<Message>]) -> Vec<ContextPart> {
    let counter = &*config.ports.counter;
    let mut parts =
        vec![ContextPart { name: "system prompt".to_owned(), items: None, tokens: counter.count(system_prompt) }];
    parts.extend(tools(config, counter));
    parts.extend(messages(history, counter));
    parts
}

fn tools(config: &LoopConfig, counter: &dyn TokenCounter) -> Vec<ContextPart> {
    let mut plugins: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for tool in config.ports.tools.definitions() {
        let (number, tokens) = plugins.entry(origin(&tool)).or_default();
        (*number, *tokens) = (*number + 1, *tokens + tool_tokens(&tool, counter));
    }
    let part = |(name, (number, tokens)): (String, (u64, u64))| ContextPart {
        name,
        items: Some(count(number, "tool")),
        tokens,
    };
    plugins.into_iter().map(part).collect()
}

fn tool_tokens(tool: &ToolDefinition, counter: &dyn TokenCounter) -> u64 {
    let texts = [&tool.name, &tool.description].into_iter().chain(&tool.guidelines);
    let text: u64 = texts.map(|text| counter.count(text)).sum();
    text + tool.input_schema.to_string().len() as u64 / SCHEMA_BYTES
}

/// Names the source of a tool: a plugin, or an MCP server behind the bridge, whose tools begin with its name.
fn origin(tool: &ToolDefinition) -> String {
    match (&*tool.source.plugin, tool.name.split_once(SERVER_END)) {
        ("", _) => "tools of pinion".to_owned(),
        (BRIDGE, Some((server, _))) => format!("tools of MCP server `{server}`"),
        (plugin, _) => format!("tools of `{plugin}`"),
    }
}

/// Sums up the messages of the user, the messages of the model, and the results by tool, the largest first.
fn messages(history: &[Arc<Message>], counter: &dyn TokenCounter) -> Vec<ContextPart> {
    let (mut user, mut replies, mut thinking) = ((0, 0), (0, 0), 0);
    let mut results: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for message in history {
        let tokens = message_tokens(message, counter);
        match &**message {
            Message::User(_) => user = (user.0 + 1, user.1 + tokens),
            Message::Assistant(reply) => {
                let thought = reply.content.iter().map(|part| match part {
                    Content::Thinking(thinking) => counter.count(&thinking.text),
                    _ => 0,
                });
                let thought: u64 = thought.sum();
                thinking += thought;
                replies = (replies.0 + 1, replies.1 + tokens.saturating_sub(thought));
            }
            Message::ToolResult(result) => {
                let (calls, sum) = results.entry(&result.tool_name).or_default();
                (*calls, *sum) = (*calls + 1, *sum + tokens);
            }
            Message::Extension(_) => {}
        }
    }
    let part = |name: &str, items: Option<String>, tokens| ContextPart { name: name.to_owned(), items, tokens };
    let mut parts = vec![
        part("your messages", Some(count(user.0, "message")), user.1),
        part("replies and calls", Some(count(replies.0, "message")), replies.1),
        part("thinking", None, thinking),
    ];
    let mut results: Vec<_> = results.into_iter().collect();
    results.sort_by_key(|(_, (_, tokens))| std::cmp::Reverse(*tokens));
    let result = |(tool, (calls, tokens)): (&str, (u64, u64))| {
        part(&format!("results of `{tool}`"), Some(count(calls, "call")), tokens)
    };
    parts.extend(results.into_iter().map(result));
    parts
}

/// Returns code for a cell of a table, in marks that are longer than those in it. Bars would end the cell.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let (mark, text) = ("`".repeat(longest + 1), text.replace('|', "\\|"));
    if longest == 0 { format!("{mark}{text}{mark}") } else { format!("{mark} {text} {mark}") }
}

/// Sums up the results by file, or by another subject of their calls, and returns the largest.
fn largest(history: &[Arc<Message>], counter: &dyn TokenCounter) -> Vec<ContextPart> {
    let mut calls: HashMap<&str, String> = HashMap::new();
    let mut results: HashMap<&str, (u64, u64)> = HashMap::new();
    for message in history {
        if let Message::Assistant(reply) = &**message {
            for call in reply.content.iter().filter_map(Content::as_tool_call) {
                let about = one_line(&summary(&call.arguments), LABEL);
                calls.insert(&call.id, code(&format!("{} {about}", call.name)));
            }
        }
    }
    for message in history {
        if let Message::ToolResult(result) = &**message
            && let Some(call) = calls.get(&*result.call_id)
        {
            let (number, tokens) = results.entry(call).or_default();
            (*number, *tokens) = (*number + 1, *tokens + message_tokens(message, counter));
        }
    }
    let mut results: Vec<_> = results.into_iter().collect();
    results.sort_by_key(|(call, (_, tokens))| (std::cmp::Reverse(*tokens), *call));
    let part = |(call, (number, tokens)): (&str, (u64, u64))| ContextPart {
        name: call.to_owned(),
        items: Some(count(number, "call")),
        tokens,
    };
    results.into_iter().take(LARGEST).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_agent::content::ToolCall;
    use pinion_agent::jiff::Timestamp;
    use pinion_agent::message::{AssistantMessage, StopReason, ToolResultMessage};
    use pinion_console::output::terminal::Style;

    fn result_of(id: &str, tool: &str, text: &str) -> Arc<Message> {
        Arc::new(Message::ToolResult(ToolResultMessage {
            call_id: id.into(),
            tool_name: tool.into(),
            content: vec![Content::text(text)],
            details: None,
            is_error: false,
            child_run_id: None,
            timestamp: Timestamp::UNIX_EPOCH,
        }))
    }

    fn part(name: &str, tokens: u64) -> ContextPart {
        ContextPart { name: name.to_owned(), items: None, tokens }
    }

    #[test]
    fn parts_are_scaled_to_the_number_that_decides_on_compaction() {
        let estimate = ContextEstimate { tokens: 20_000, ratio: 1.0, window: Some(100_000) };
        let text = report(&estimate, Some(80_000), &[part("a", 3_000), part("b", 1_000), part("none", 0)]);
        assert_eq!(
            text,
            "**20.0 k of 100.0 k tokens (20 %)**; compaction begins at 80.0 k\n\n\
             | part | number | tokens | share |\n|---|---|---:|---|\n\
             | a |  | 15.0 k | 15.0 % ███ |\n| b |  | 5.0 k | 5.0 % █ |\n| free |  | 80.0 k | 80.0 % ████████████████ |\n"
        );
    }

    #[test]
    fn correction_of_estimates_is_named() {
        let head = |ratio| report(&ContextEstimate { tokens: 20_000, ratio, window: None }, Some(80_000), &[]);
        let corrected = "; estimates are multiplied by 1.23, because the vendor counted more\n";
        assert!(head(1.234).contains(corrected), "{}", head(1.234));
        assert!(head(0.9).contains("multiplied by 0.90, because the vendor counted less"), "{}", head(0.9));
        assert!(head(0.5).contains("multiplied by 0.75"), "{}", head(0.5));
        assert!(!head(1.0).contains("multiplied") && !head(0.0).contains("multiplied"), "{}", head(1.0));
    }

    #[test]
    fn unknown_window_has_no_free_part() {
        let estimate = ContextEstimate { tokens: 0, ratio: 0.0, window: None };
        let text = report(&estimate, None, &[part("system prompt", 10)]);
        assert!(text.starts_with("**0 tokens**; the size") && !text.contains("free"), "{text}");
    }

    #[test]
    fn results_are_listed_by_tool_and_the_largest_comes_first() {
        let result = |tool: &str, text: &str| result_of("1", tool, text);
        let history = [Arc::new(Message::user("go")), result("read", "x"), result("bash", &"y".repeat(400))];
        let parts = messages(&history, &pinion_agent::tokens::ByteCounter::DEFAULT);
        let names: Vec<&str> = parts.iter().filter(|part| part.tokens > 0).map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["your messages", "results of `bash`", "results of `read`"]);
    }

    #[test]
    fn largest_results_are_named_by_their_files() {
        let reply = |id: &str, path: &str| {
            let call = ToolCall::new(id, "read", serde_json::json!({ "path": path }));
            Arc::new(Message::Assistant(AssistantMessage {
                content: vec![Content::ToolCall(call)],
                stop_reason: StopReason::ToolUse,
                provider: String::new(),
                model: String::new(),
                requested_model: None,
                usage: pinion_agent::Usage::default(),
                cost: None,
                error: None,
                timestamp: Timestamp::UNIX_EPOCH,
            }))
        };
        let result = |id: &str, length| result_of(id, "read", &"y".repeat(length));
        let history = [
            reply("1", "small"),
            result("1", 10),
            reply("2", "src/x|`y"),
            result("2", 400),
            reply("3", "src/x|`y"),
            result("3", 40),
        ];
        let largest = largest(&history, &pinion_agent::tokens::ByteCounter::DEFAULT);
        let names: Vec<(&str, &str)> =
            largest.iter().map(|part| (part.name.as_str(), part.items.as_deref().unwrap())).collect();
        assert_eq!(names, [("`` read src/x\\|`y ``", "2 calls"), ("`read small`", "1 call")]);
        let page = pinion_console::output::page(&format!("| a |\n|---|\n| {} |", names[0].0), Style::Plain);
        assert!(page.as_str().contains("read src/x|`y"), "{page:?}");
    }

    #[test]
    fn code_in_a_cell_is_the_text_itself() {
        for text in ["a", "`", "a | b", "``x`", "\\|", "x ` `` ```"] {
            let page = pinion_console::output::page(&format!("| head |\n|---|\n| {} |", code(text)), Style::Plain);
            assert_eq!(page.as_str().lines().last(), Some(&*format!("  {text}")), "{text}");
        }
    }
}
