//! The comparison of a conversation before and after its last compaction.

use pinion_agent::Message;
use pinion_agent::compaction::{
    COMPACTION_MESSAGE, CompactionRecord, is_summary, kept_words, view, without_kept_words,
};
use pinion_agent::content::text_of;
use pinion_agent::message::ExtensionMessage;
use pinion_agent::text::one_line;
use pinion_agent::tokens::{ByteCounter, messages_tokens};
use pinion_console::output::short;
use std::collections::HashSet;
use std::sync::Arc;

/// Dropped prompts that are listed, and characters of each.
const ROWS: usize = 20;
const LABEL: usize = 70;

/// Compares the messages that the model saw before and after the last compaction, as Markdown; `None` if there was none.
pub(crate) fn compaction_report(messages: &[Arc<Message>]) -> Option<String> {
    let at = messages.iter().rposition(|message| record(message).is_some())?;
    let record = record(&messages[at])?;
    let (before, after) = (view(messages[..at].to_vec()), view(messages[..=at].to_vec()));
    let (old, new) = (MessageCounts::from_messages(&before), MessageCounts::from_messages(&after));
    let mut page = "| the model sees | before | after |\n|---|---:|---:|\n".to_owned();
    for (name, old, new) in [
        ("your messages", old.users, new.users),
        ("replies", old.replies, new.replies),
        ("results of calls", old.results, new.results),
        ("summaries", old.summaries, new.summaries),
    ] {
        page.push_str(&format!("| {name} | {old} | {new} |\n"));
    }
    page.push_str(&format!("| tokens, about | {} | {} |\n", short(old.tokens), short(new.tokens)));
    let kept: HashSet<String> = after.iter().filter_map(|message| prompt(message)).collect();
    let dropped: Vec<String> =
        before.iter().filter_map(|message| prompt(message)).filter(|text| !kept.contains(text)).collect();
    if !dropped.is_empty() {
        page.push_str("\n**Your messages that the summary replaces:**\n\n");
        dropped.iter().take(ROWS).for_each(|text| page.push_str(&quoted(&one_line(text, LABEL), "- ")));
        if dropped.len() > ROWS {
            page.push_str(&format!("- and {} more\n", dropped.len() - ROWS));
        }
    }
    if let Some(words) = kept_words(&record.summary) {
        page.push_str(&format!("\n**Kept word for word:**\n\n{}", quoted(words, "> ")));
    }
    let summary = without_kept_words(&record.summary);
    if !summary.is_empty() {
        page.push_str(&format!("\n**Summary:**\n\n{}", quoted(summary, "> ")));
    }
    page.push_str("\n`/compact --undo` undoes it until the next message.");
    Some(page)
}

/// Returns untrusted text with every line behind a mark, and without markup.
fn quoted(text: &str, mark: &str) -> String {
    let escaped = |c: char| c.is_ascii_punctuation().then_some('\\').into_iter().chain([c]);
    text.lines().map(|line| format!("{mark}{}  \n", line.chars().flat_map(escaped).collect::<String>())).collect()
}

fn record(message: &Message) -> Option<CompactionRecord> {
    match message {
        Message::Extension(ExtensionMessage { kind, data, .. }) if kind == COMPACTION_MESSAGE => {
            serde_json::from_value(data.clone()).ok()
        }
        _ => None,
    }
}

/// Returns the text of a message that the user wrote.
fn prompt(message: &Message) -> Option<String> {
    match message {
        Message::User(user) if !is_summary(message) => {
            Some(user.label.clone().unwrap_or_else(|| text_of(&user.content)))
        }
        _ => None,
    }
}

/// Numbers of messages by author.
#[derive(Debug, Default)]
struct MessageCounts {
    users: usize,
    replies: usize,
    results: usize,
    summaries: usize,
    tokens: u64,
}

impl MessageCounts {
    fn from_messages(messages: &[Arc<Message>]) -> Self {
        let mut counts = Self { tokens: messages_tokens(messages, &ByteCounter::DEFAULT), ..Self::default() };
        for message in messages {
            match &**message {
                Message::User(_) if is_summary(message) => counts.summaries += 1,
                Message::User(_) => counts.users += 1,
                Message::Assistant(_) => counts.replies += 1,
                Message::ToolResult(_) => counts.results += 1,
                Message::Extension(_) => {}
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_agent::jiff::Timestamp;

    #[test]
    fn report_compares_and_quotes_the_summary() {
        let user = |text: &str| Arc::new(Message::user(text));
        let record =
            CompactionRecord { summary: "They *fixed* it.".to_owned(), first: 1, ..CompactionRecord::default() };
        let compacted = Arc::new(Message::Extension(ExtensionMessage {
            kind: COMPACTION_MESSAGE.to_owned(),
            data: serde_json::json!(record),
            timestamp: Timestamp::UNIX_EPOCH,
        }));
        let messages = [user("first"), user("second"), user("third"), compacted];
        let page = compaction_report(&messages).unwrap();
        assert!(page.contains("| your messages | 3 | 1 |") && page.contains("| summaries | 0 | 1 |"), "{page}");
        assert!(page.contains("- second") && page.contains("- third") && !page.contains("- first"), "{page}");
        assert!(page.contains("> They \\*fixed\\* it\\."), "{page}");
        assert_eq!(compaction_report(&messages[..3]), None);
    }
}
