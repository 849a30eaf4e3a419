//! Exports of a session for people: Markdown, one HTML file without other resources, or text for a terminal.
//!
//! The current branch comes first and complete. Each other branch follows with the entries that only it has, linked in
//! both directions with the entry where it leaves. Tool calls come with their results. Exports are written turn by
//! turn, so a large session needs no more memory than its largest turn.
//!
//! No text of a session can become part of the document's structure: `html.rs` escapes it, `defuse.rs` defuses it.

mod defuse;
mod escape;
mod html;
mod markdown;
mod outline;
mod prose;
mod terminal;
mod walk;

use crate::error::SessionError;
use crate::header::SessionHeader;
use crate::id::EntryId;
use crate::summary::title;
use crate::transcript::Transcript;
use crate::tree::BranchInfo;
use escape::number;
use jiff::Timestamp;
use outline::{Outline, OutlineItem};
use pinion_protocol::{Cost, Usage};
use std::collections::BTreeMap;
use std::io::{self, Write};
use walk::{Renderer, walk};

pub use terminal::{render, render_branch};

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// CommonMark with the full text.
    Markdown,
    /// One page for a browser: no scripts, no further resources, dark or light as the reader prefers.
    Html,
}

/// Writes a session with all its branches to `out`.
///
/// Text is complete. Broken entries are named in their places.
///
/// # Errors
/// The session cannot be read, or `out` cannot be written.
pub fn export(transcript: &mut Transcript, format: ExportFormat, out: &mut impl Write) -> Result<(), RenderError> {
    match format {
        ExportFormat::Markdown => write(transcript, &mut markdown::Markdown::new(out)),
        ExportFormat::Html => write(transcript, &mut html::Html::new(out)),
    }
}

/// Formats a time to the second.
fn seconds(time: Timestamp) -> impl std::fmt::Display {
    time.strftime("%Y-%m-%dT%H:%M:%SZ")
}

/// A session could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The session cannot be read.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The session was read, and the output could not be written.
    #[error("could not write the output")]
    Output(#[from] io::Error),
}

/// A document, written from its start to its end.
trait Document: Renderer {
    fn begin(&mut self, about: &About) -> io::Result<()>;
    /// Starts a branch. Not called for the only branch of a session.
    fn begin_branch(&mut self, branch: &BranchTitle) -> io::Result<()>;
    /// Names the branches that leave after the last item.
    fn fork(&mut self, branches: &[&BranchTitle]) -> io::Result<()>;
    fn end(&mut self, totals: &Totals) -> io::Result<()>;
}

/// The head of a document.
struct About {
    facts: Vec<(&'static str, Vec<FactPiece>)>,
    title: String,
    branches: Vec<BranchTitle>,
    /// The lines whose place in the session is unknown, each with the reason.
    skipped: Vec<String>,
}

/// A piece of a fact.
enum FactPiece {
    Code(String),
    Text(&'static str),
    Time(Timestamp),
}

/// A branch with its number and title.
struct BranchTitle {
    /// The number of the branch, from 1.
    number: usize,
    info: BranchInfo,
    title: String,
}

/// The sums of a session.
#[derive(Default)]
struct Totals {
    prompts: u64,
    replies: u64,
    calls: u64,
    usage: Usage,
    cost: Option<Cost>,
}

impl Totals {
    /// Returns the numbers of prompts, replies and tool calls, in words.
    fn counts(&self) -> [String; 3] {
        let of = |n: u64, one: &str, more: &str| format!("{} {}", number(n), if n == 1 { one } else { more });
        [
            of(self.prompts, "prompt", "prompts"),
            of(self.replies, "reply", "replies"),
            of(self.calls, "tool call", "tool calls"),
        ]
    }

    fn add(&mut self, item: &OutlineItem) {
        match item {
            OutlineItem::Prompt { .. } => self.prompts += 1,
            OutlineItem::Turn(turn) => {
                self.replies += 1;
                self.calls += turn.reply.tool_calls().count() as u64;
                self.usage = self.usage.combine(&turn.reply.usage);
                if let Some(cost) = turn.reply.cost {
                    self.cost = Some(self.cost.unwrap_or_default().combine(&cost));
                }
            }
            _ => {}
        }
    }
}

fn write(transcript: &mut Transcript, document: &mut impl Document) -> Result<(), RenderError> {
    let about = about(transcript);
    document.begin(&about)?;
    let (forks, mut totals) = (forks(&about.branches), Totals::default());
    let segments = transcript.index().segments();
    for (segment, branch) in segments.iter().zip(&about.branches) {
        if about.branches.len() > 1 {
            document.begin_branch(branch)?;
        }
        let nodes = segment.nodes.iter().filter_map(|at| transcript.index().nodes.get(*at).copied()).collect();
        for item in Outline::new(transcript.entries(nodes)) {
            let item = item?;
            totals.add(&item);
            walk(&item, document)?;
            let leaving: Vec<_> = item.entries().filter_map(|entry| forks.get(&entry)).flatten().copied().collect();
            if !leaving.is_empty() {
                document.fork(&leaving)?;
            }
        }
    }
    Ok(document.end(&totals)?)
}

/// Groups branches by the entry where they leave.
fn forks(branches: &[BranchTitle]) -> BTreeMap<EntryId, Vec<&BranchTitle>> {
    let mut forks: BTreeMap<EntryId, Vec<&BranchTitle>> = BTreeMap::new();
    for branch in branches {
        if let Some(from) = branch.info.from {
            forks.entry(from).or_default().push(branch);
        }
    }
    forks
}

fn about(transcript: &mut Transcript) -> About {
    let branches: Vec<BranchTitle> = transcript
        .branches()
        .into_iter()
        .enumerate()
        .map(|(at, info)| BranchTitle { number: at + 1, title: title_of(transcript, &info), info })
        .collect();
    let first = branches.first().map(|branch| branch.title.clone());
    About {
        facts: facts(transcript),
        title: first.unwrap_or_else(|| NO_PROMPT.to_owned()),
        branches,
        skipped: transcript.bad_lines().first().iter().map(ToString::to_string).collect(),
    }
}

/// The facts of a session's header, by name. The first one is its id.
fn facts(transcript: &Transcript) -> Vec<(&'static str, Vec<FactPiece>)> {
    let Some(SessionHeader { id, workspace, created, agent_id, forked_from, spawned_by }) = transcript.header() else {
        return vec![("Session", vec![FactPiece::Code(crate::files::id_of(transcript.path()))])];
    };
    let mut facts = vec![
        ("Session", vec![FactPiece::Code(id.clone())]),
        ("Workspace", vec![FactPiece::Code(workspace.to_string_lossy().into_owned())]),
        ("Started", vec![FactPiece::Time(*created)]),
    ];
    if let Some(agent_id) = agent_id {
        facts.push(("Agent", vec![FactPiece::Code(agent_id.clone())]));
    }
    if let Some(from) = forked_from {
        let entry = FactPiece::Code(from.entry.to_string());
        facts.push(("Forked from", vec![FactPiece::Code(from.session.clone()), FactPiece::Text(", entry "), entry]));
    }
    if let Some(by) = spawned_by {
        let (call, tool) = (FactPiece::Code(by.call_id.clone()), FactPiece::Code(by.tool.clone()));
        let session = FactPiece::Code(by.session.clone());
        facts.push(("Sub-agent of", vec![session, FactPiece::Text(", call "), call, FactPiece::Text(" of "), tool]));
    }
    facts
}

const NO_PROMPT: &str = "(no prompt)";

/// Returns the first line of the first prompt of a branch.
fn title_of(transcript: &mut Transcript, branch: &BranchInfo) -> String {
    let prompt = transcript.prompt_of(branch);
    prompt.and_then(|prompt| title(&prompt)).unwrap_or_else(|| NO_PROMPT.to_owned())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
