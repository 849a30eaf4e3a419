//! The share of each owner in the cost of a conversation, from its events.
//!
//! Each request sends the whole conversation again, so a result costs something in every later request: little while the
//! vendor's cache holds it, much when the cache was lost. The tokens at the beginning of a request were read from the
//! cache, as many as the vendor reports, and the others were paid in full.

use crate::owner::{file_of, server_of};
use pinion_protocol::{AssistantMessage, ByteCounter, Event, EventKind, Message, is_summary, message_tokens};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The kind of owner that costs are added up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerGroup {
    /// The tools whose results are sent.
    Tool,
    /// The MCP servers of these tools.
    Server,
    /// The files that calls named.
    File,
}

/// The share of an owner.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnerSpend {
    /// The owner.
    pub owner: String,
    /// Results or messages of it.
    pub items: u64,
    /// Tokens sent, in all requests together.
    pub input: u64,
    /// Tokens of these that were read from the vendor's cache.
    pub cached: u64,
    /// Tokens of replies.
    pub output: u64,
    /// Cost in US dollars; 0 where no price is known.
    pub cost: f64,
}

const FIXED: &str = "system prompt and tools";
const REPLIES: &str = "replies";
const PROMPTS: &str = "your messages";
const SUMMARY: &str = "summaries of compactions";
const BUILT_IN: &str = "results of other tools";
const NO_FILE: &str = "results without a file";

/// Adds up the cost of a conversation by owner, the most expensive first. `events` are the events of its runs and of their
/// sub-agents, as a session replays them.
pub fn spend_by(group: OwnerGroup, events: &[Event]) -> Vec<OwnerSpend> {
    let mut reader = SpendReader { group, owners: Vec::new(), conversations: HashMap::new(), children: HashSet::new() };
    events.iter().for_each(|event| reader.read(event));
    let mut owners = reader.owners;
    owners.retain(|owner| owner.items > 0 || owner.input > 0 || owner.output > 0);
    owners.sort_by(|a, b| b.cost.total_cmp(&a.cost).then(b.input.cmp(&a.input)));
    owners
}

struct SpendReader {
    group: OwnerGroup,
    owners: Vec<OwnerSpend>,
    /// The messages that requests send, by the run of a sub-agent; `None` for the conversation itself.
    conversations: HashMap<Option<Arc<str>>, SentMessages>,
    /// Runs of sub-agents.
    children: HashSet<Arc<str>>,
}

/// The messages of a conversation, as its next request sends them.
#[derive(Default)]
struct SentMessages {
    /// Tokens of the system prompt and the tools; `None` before the first report.
    fixed: Option<u64>,
    /// Owner and estimated tokens of each message.
    messages: Vec<(usize, u64)>,
    /// The file of each open call.
    calls: HashMap<String, Option<String>>,
}

impl SpendReader {
    fn read(&mut self, event: &Event) {
        match &event.kind {
            EventKind::AgentStart { call_id: Some(_), .. } => drop(self.children.insert(event.run_id.clone())),
            EventKind::MessageEnd { message } => {
                let child = self.children.contains(&event.run_id).then(|| event.run_id.clone());
                self.message(child, message);
            }
            EventKind::Compaction { dropped, after, .. } if *dropped > 0 => {
                let child = self.children.contains(&event.run_id).then(|| event.run_id.clone());
                let summary = self.owner(SUMMARY);
                let sent = self.conversations.entry(child).or_default();
                sent.messages = vec![(summary, *after)];
            }
            _ => {}
        }
    }

    fn message(&mut self, child: Option<Arc<str>>, message: &Arc<Message>) {
        let tokens = message_tokens(message, &ByteCounter::DEFAULT);
        let name = match &**message {
            Message::User(_) if is_summary(message) => SUMMARY.to_owned(),
            Message::User(_) => PROMPTS.to_owned(),
            Message::Assistant(reply) => {
                self.reply(child, reply);
                return;
            }
            Message::ToolResult(result) => {
                let sent = self.conversations.entry(child.clone()).or_default();
                let file = sent.calls.remove(&result.call_id).flatten();
                match self.group {
                    OwnerGroup::Tool => format!("results of `{}`", result.tool_name),
                    OwnerGroup::Server => match server_of(&result.tool_name) {
                        Some(server) => format!("results of MCP server `{server}`"),
                        None => BUILT_IN.to_owned(),
                    },
                    OwnerGroup::File => file.map_or_else(|| NO_FILE.to_owned(), |file| format!("`{file}`")),
                }
            }
            Message::Extension(_) => return,
        };
        let owner = self.owner(&name);
        self.owners[owner].items += 1;
        self.conversations.entry(child).or_default().messages.push((owner, tokens));
    }

    /// Distributes the cost of a request among the messages that it sent.
    fn reply(&mut self, child: Option<Arc<str>>, reply: &AssistantMessage) {
        let (fixed_owner, replies) = (self.owner(FIXED), self.owner(REPLIES));
        let (usage, cost) = (reply.usage, reply.cost.unwrap_or_default());
        let sent = self.conversations.entry(child).or_default();
        let context = usage.context();
        let estimate: u64 = sent.messages.iter().map(|(_, tokens)| tokens).sum();
        let fixed = (*sent.fixed.get_or_insert_with(|| context.saturating_sub(estimate))).min(context);
        let ratio = (context - fixed) as f64 / estimate.max(1) as f64;
        let read_price = cost.cache_read / usage.cache_read.max(1) as f64;
        let new_price = (cost.input + cost.cache_write) / (usage.input + usage.cache_write).max(1) as f64;
        let mut unread = usage.cache_read;
        let parts = std::iter::once((fixed_owner, fixed))
            .chain(sent.messages.iter().map(|(owner, tokens)| (*owner, (*tokens as f64 * ratio).round() as u64)));
        for (owner, tokens) in parts {
            let read = tokens.min(unread);
            unread -= read;
            let owner = &mut self.owners[owner];
            owner.input += tokens;
            owner.cached += read;
            owner.cost += read as f64 * read_price + (tokens - read) as f64 * new_price;
        }
        let owner = &mut self.owners[replies];
        owner.items += 1;
        owner.output += usage.output;
        owner.cost += cost.output;
        sent.messages.push((replies, usage.output));
        sent.calls.extend(reply.tool_calls().map(|call| (call.id.clone(), file_of(call))));
    }

    /// Returns the index of an owner.
    fn owner(&mut self, name: &str) -> usize {
        self.owners.iter().position(|owner| owner.owner == name).unwrap_or_else(|| {
            self.owners.push(OwnerSpend { owner: name.to_owned(), ..OwnerSpend::default() });
            self.owners.len() - 1
        })
    }
}
