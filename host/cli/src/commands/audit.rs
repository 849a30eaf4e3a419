//! `pinion audit`: the log of decisions about calls, their resource use, other starts of programs, files that programs
//! left at protected paths, and changes of trust and network.

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use pinion_app::approve::audit::Audit;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::paths::Paths;
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, json, line, note, print, text, written};
use serde_json::Value;
use std::collections::VecDeque;

/// Entries that are shown unless `--since` is given.
const LAST: usize = 200;
/// Maximum number of entries that are shown.
const MOST: usize = 200_000;
/// Characters of the arguments of a call in a row.
const ARGUMENTS: usize = 120;

/// The arguments of `pinion audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Print the entries as JSON, one a line
    #[arg(long)]
    json: bool,
    /// Show entries since a time (RFC 3339) or a duration ago, such as 30m, 12h or 7d [default: the last 200 entries]
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// Show only denied calls
    #[arg(long)]
    denied: bool,
}

fn since(text: &str) -> std::result::Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let wrong = || format!("`{text}` is neither a time, such as 2026-11-22T10:00:00Z, nor a duration, such as 12h");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let seconds = i64::from(number.parse::<u32>().map_err(|_| wrong())?) * seconds;
    Timestamp::now().checked_sub(SignedDuration::from_secs(seconds)).map_err(|_| wrong())
}

impl AuditArgs {
    pub(crate) async fn run(self, _: &Invocation) -> Result<()> {
        let path = Paths::from_environment()?.audit_file();
        let most = if self.since.is_some() { MOST } else { LAST };
        let mut entries = VecDeque::new();
        let read = Audit::read(&path, |entry| {
            if self.is_wanted(&entry) {
                entries.push_back(entry);
                if entries.len() > most {
                    entries.pop_front();
                }
            }
        });
        read.map_err(|error| Failure::failed(format!("could not read `{}`", path.display())).because(error))?;
        if self.json {
            return entries.iter().try_for_each(|entry| written(json(entry)));
        }
        if entries.is_empty() {
            let which = if self.denied || self.since.is_some() { "matching " } else { "" };
            note(&text!("no {}entries in `{}`", which, path.display().to_string()));
        }
        let mut lines = Text::default();
        entries.iter().for_each(|entry| lines.line(text!("{}", line(&row(entry)))));
        print(&lines)
    }

    fn is_wanted(&self, entry: &Value) -> bool {
        let time = || entry["time"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
        let is_late = self.since.is_none_or(|since| time().is_some_and(|time| time >= since));
        is_late && (!self.denied || entry["allowed"] == false)
    }
}

fn row(entry: &Value) -> String {
    let field = |name: &str| entry[name].as_str().unwrap_or_default();
    let what = match (field("event"), entry["allowed"].as_bool()) {
        ("decision", Some(true)) => "allowed",
        ("decision", _) => "denied",
        (event, _) => event,
    };
    let time = field("time").get(..19).unwrap_or_default();
    if field("event") == "network" {
        let what = if entry["allowed"] == true { "reached" } else { "denied" };
        let mut row = format!("{time} {what:<7} {}:{} by {}", field("host"), entry["port"], field("method"));
        row.extend(entry["credential"].as_str().map(|credential| format!(" with {credential}")));
        row.extend(entry["why"].as_str().map(|why| format!(" — {why}")));
        return row;
    }
    if field("event") == "start" {
        let what = if entry["allowed"] == true { "started" } else { "denied" };
        let grants: Vec<String> = entry["grants"].as_object().into_iter().flatten().map(grant).collect();
        let mut row =
            format!("{time} {what:<7} {} ({}) {}", field("what"), grants.join(", "), shown(&entry["command"]));
        row.extend(entry["why"].as_str().map(|why| format!(" — {why}")));
        return row;
    }
    if field("event") == "protected" {
        return format!("{time} protected {} — by {}", field("what"), field("by"));
    }
    if field("event") == "change" {
        return format!("{time} changed {} to {}", field("what"), field("to"));
    }
    let mut row = format!("{time} {what:<7} {}/{}", field("plugin"), field("tool"));
    match field("event") {
        "decision" => {
            row += &format!(" by {} ({}) {}", field("by"), field("mode"), shown(&entry["arguments"]));
            row.extend(entry["why"].as_str().map(|why| format!(" — {why}")));
        }
        _ => {
            let used = entry["used"].as_object().into_iter().flatten();
            let shown = ["files", "bytes_read", "bytes_written", "processes", "requests", "agents", "time_us"];
            let used = used.filter(|(name, value)| shown.contains(&name.as_str()) && value.as_u64() != Some(0));
            row.extend(used.map(|(name, value)| format!(" {name}={value}")));
        }
    }
    row
}

/// Describes a permission of a program, such as `network: no`.
fn grant((name, value): (&String, &Value)) -> String {
    match value {
        Value::Bool(is_granted) => format!("{name}: {}", if *is_granted { "yes" } else { "no" }),
        Value::String(text) => format!("{name}: {text}"),
        other => format!("{name}: {other}"),
    }
}

/// Returns the arguments of a call, of long ones the start and the end.
fn shown(arguments: &Value) -> String {
    let text = match (arguments["start"].as_str(), arguments["end"].as_str(), arguments["blake3"].as_str()) {
        (Some(start), Some(end), Some(_)) => format!("{start} … {end}"),
        _ => arguments.to_string(),
    };
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= ARGUMENTS {
        return text;
    }
    let half = ARGUMENTS / 2;
    let (start, end) = (&characters[..half], &characters[characters.len() - half..]);
    start.iter().chain(&[' ', '…', ' ']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_and_durations_are_read() {
        assert_eq!(since("2026-11-22T10:00:00Z").unwrap().to_string(), "2026-11-22T10:00:00Z");
        assert!(since("2h").unwrap() < Timestamp::now());
        for wrong in ["", "h", "-1h", "1y", "9999999999d", "é"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rows_name_what_was_decided_by_whom_and_why() {
        let entry = json!({
            "time": "2026-11-22T10:00:00.123Z", "event": "decision", "tool": "bash", "plugin": "shell", "allowed": false, "by": "rules",
            "mode": "smart", "arguments": { "command": "rm -rf /" }, "why": "rule `rm -r /` (built in)",
        });
        let shown = "2026-11-22T10:00:00 denied  shell/bash by rules (smart) {\"command\":\"rm -rf /\"} — rule `rm -r /` (built in)";
        assert_eq!(row(&entry), shown);
        let entry = json!({
            "time": "2026-11-22T10:00:00.123Z", "event": "network", "host": "forge.example", "port": 443, "method": "GET",
            "allowed": true, "why": null, "credential": "forge",
        });
        assert_eq!(row(&entry), "2026-11-22T10:00:00 reached forge.example:443 by GET with forge");
        let entry = json!({
            "time": "2026-11-22T10:00:00.123Z", "event": "network", "host": "evil.example", "port": 443, "method": "CONNECT",
            "allowed": false, "why": "`evil.example:443` is not an allowed host",
        });
        let shown =
            "2026-11-22T10:00:00 denied  evil.example:443 by CONNECT — `evil.example:443` is not an allowed host";
        assert_eq!(row(&entry), shown);
        let mut entry = json!({
            "time": "2026-11-22T10:00:00.123Z", "event": "start", "what": "MCP server `db`", "command": { "argv": ["db-mcp"] },
            "grants": { "network": false, "write": true, "sandbox": true }, "allowed": true, "why": null,
        });
        let shown = "2026-11-22T10:00:00 started MCP server `db` (network: no, write: yes, sandbox: yes) {\"argv\":[\"db-mcp\"]}";
        assert_eq!(row(&entry), shown);
        (entry["allowed"], entry["why"]) = (json!(false), json!("no sandbox"));
        assert_eq!(row(&entry), format!("{} — no sandbox", shown.replace("started", "denied ")));
        let entry = json!({
            "time": "2026-11-22T10:00:00.123Z", "event": "protected", "by": "`make`", "what": "`/src/.envrc` is protected",
        });
        assert_eq!(row(&entry), "2026-11-22T10:00:00 protected `/src/.envrc` is protected — by `make`");
        let entry = json!({ "time": "2026-11-22T10:00:00.123Z", "event": "change", "what": "trust in `/src/app`", "to": "trusted" });
        assert_eq!(row(&entry), "2026-11-22T10:00:00 changed trust in `/src/app` to trusted");
    }

    #[test]
    fn end_of_a_long_command_is_shown() {
        let command = format!("true {}; touch hidden", "a".repeat(5_000));
        let whole = shown(&json!({ "command": command }));
        let cut =
            shown(&json!({ "start": "{\"command\":\"true aaa", "end": "touch hidden\"}", "bytes": 9, "blake3": "x" }));
        for shown in [whole, cut] {
            assert!(shown.starts_with("{\"command\":\"true") && shown.ends_with("touch hidden\"}"), "{shown}");
            assert!(shown.chars().count() <= ARGUMENTS + 3);
        }
    }
}
