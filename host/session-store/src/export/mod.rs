//! A session as a document for people: Markdown, or one HTML file that needs nothing besides itself.
//!
//! The branch on which the conversation stands comes first and whole; each other branch follows with what it has of its
//! own, linked both ways with the entry at which it leaves. Tool calls stand with their results. Written turn by turn, so
//! that a large session needs no more memory than its largest turn.
//!
//! Nothing in a session can become part of the document's structure: `html.rs` escapes, `markdown.rs` defuses.

mod defuse;
mod diff;
mod escape;
mod html;
mod markdown;
mod outline;
mod prose;
mod terminal;
mod walk;

use crate::error::SessionError;
use crate::header::Header;
use crate::id::EntryId;
use crate::summary::title;
use crate::transcript::Transcript;
use crate::tree::BranchInfo;
use jiff::Timestamp;
use outline::{Item, Outline};
use pinion_protocol::{Cost, Usage};
use std::collections::BTreeMap;
use std::io::{self, Write};
use walk::{Renderer, walk};

pub use terminal::{render, render_branch};

/// In what form a session is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// CommonMark, with all text in full.
    Markdown,
    /// One page for a browser: no script, nothing from elsewhere, dark or light as the reader has it.
    Html,
}

/// Writes a session to `out`, with all its branches.
///
/// Text is given in full. Broken entries are named in their places.
///
/// # Errors
/// The session cannot be read, or `out` not be written.
pub fn export(transcript: &mut Transcript, format: ExportFormat, out: &mut impl Write) -> Result<(), RenderError> {
    match format {
        ExportFormat::Markdown => write(transcript, &mut markdown::Markdown::new(out)),
        ExportFormat::Html => write(transcript, &mut html::Html::new(out)),
    }
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

/// A form of document, written from its beginning to its end.
trait Document: Renderer {
    fn begin(&mut self, about: &About) -> io::Result<()>;
    /// A branch begins. Not called when there is only one.
    fn begin_branch(&mut self, branch: &BranchTitle) -> io::Result<()>;
    /// Branches leave here.
    fn fork(&mut self, branches: &[&BranchTitle]) -> io::Result<()>;
    fn end(&mut self, totals: &Totals) -> io::Result<()>;
}

/// What is said of a session before it is shown.
struct About {
    facts: Vec<(&'static str, Vec<Piece>)>,
    title: String,
    branches: Vec<BranchTitle>,
    /// The lines whose place in the session is unknown, each with the reason.
    skipped: Vec<String>,
}

/// A piece of a fact.
enum Piece {
    Code(String),
    Text(&'static str),
    Time(Timestamp),
}

/// A branch, as it is told apart from the others.
struct BranchTitle {
    /// From 1.
    number: usize,
    info: BranchInfo,
    title: String,
}

/// What a session came to.
#[derive(Default)]
struct Totals {
    prompts: u64,
    replies: u64,
    calls: u64,
    usage: Usage,
    cost: Option<Cost>,
}

impl Totals {
    fn add(&mut self, item: &Item) {
        match item {
            Item::Prompt { .. } => self.prompts += 1,
            Item::Turn(turn) => {
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

/// Which branches leave at which entry.
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
        title: first.unwrap_or_else(|| NOTHING_SAID.to_owned()),
        branches,
        skipped: transcript.bad_lines().first().iter().map(ToString::to_string).collect(),
    }
}

/// The facts of a session's header, by name. The first one is its id.
fn facts(transcript: &Transcript) -> Vec<(&'static str, Vec<Piece>)> {
    let Some(Header { id, workspace, created, agent_id, forked_from, spawned_by }) = transcript.header() else {
        return vec![("Session", vec![Piece::Code(crate::files::id_of(transcript.path()))])];
    };
    let mut facts = vec![
        ("Session", vec![Piece::Code(id.clone())]),
        ("Workspace", vec![Piece::Code(workspace.to_string_lossy().into_owned())]),
        ("Started", vec![Piece::Time(*created)]),
    ];
    if let Some(agent_id) = agent_id {
        facts.push(("Agent", vec![Piece::Code(agent_id.clone())]));
    }
    if let Some(from) = forked_from {
        let entry = Piece::Code(from.entry.to_string());
        facts.push(("Forked from", vec![Piece::Code(from.session.clone()), Piece::Text(", entry "), entry]));
    }
    if let Some(by) = spawned_by {
        let (call, tool) = (Piece::Code(by.call_id.clone()), Piece::Code(by.tool.clone()));
        let session = Piece::Code(by.session.clone());
        facts.push(("Sub-agent of", vec![session, Piece::Text(", call "), call, Piece::Text(" of "), tool]));
    }
    facts
}

const NOTHING_SAID: &str = "(nothing said)";

/// What the user said first on a branch, on one line.
fn title_of(transcript: &mut Transcript, branch: &BranchInfo) -> String {
    let prompt = transcript.prompt_of(branch);
    prompt.and_then(|prompt| title(&prompt)).unwrap_or_else(|| NOTHING_SAID.to_owned())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
