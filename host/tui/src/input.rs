//! Inputs of the UI, and the requests that it makes in return.

use crate::dialog::approval::{Answer, Question};
use crate::dialog::picker::{Choice, Pick};
use crate::transcript::Tone;
use pinion_protocol::{Event, Message};
use std::sync::Arc;

/// Something that the UI learns.
#[derive(Debug, Clone)]
pub enum Input {
    /// A key, a paste, or a new size of the terminal.
    Terminal(crossterm::event::Event),
    /// An event of a run.
    Event(Event),
    /// Another session begins or continues, with these messages.
    Session(Vec<Arc<Message>>),
    /// A line of the host.
    Note(Tone, String),
    /// Markdown that a command prints.
    Page(String),
    /// The state that the status line shows.
    Facts(Facts),
    /// A call needs a decision.
    Question(Question),
    /// The question with this number does not matter any more.
    Withdrawn(u64),
    /// Text for the editor.
    Insert(String),
    /// Messages that steered a run too late return to the editor.
    Returned(Vec<String>),
    /// The work for a submitted message or command has ended.
    Finished,
    /// The slash commands, with their names, argument hints and descriptions.
    Commands(Vec<SlashCommand>),
    /// Completions of the arguments of a slash command, requested with this number.
    Completions(u64, Vec<Choice>),
    /// The paths of files in the workspace.
    Files(Arc<Vec<String>>),
    /// The entries of a list that was requested.
    Choices(Pick, Vec<Choice>),
    /// The message as the external editor left it; `None` if it failed.
    Edited(Option<String>),
    /// Earlier messages of the user, oldest first.
    History(Vec<String>),
    /// Time has passed.
    Tick,
}

/// A slash command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlashCommand {
    /// Name without the slash.
    pub name: String,
    /// Form of the arguments, such as `[MODEL]`.
    pub hint: String,
    /// Description in one line.
    pub description: String,
}

/// The state that the status line shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Name of the model.
    pub model: String,
    /// Name of the approval mode.
    pub approval: String,
    /// Tokens of the next request, as the compactor estimates them.
    pub context: u64,
    /// Context window of the model in tokens, if known.
    pub window: Option<u64>,
    /// Tokens of the conversation so far.
    pub tokens: u64,
    /// Cost so far in US dollars, if known.
    pub cost: Option<f64>,
    /// Branch of the git repository.
    pub branch: Option<String>,
    /// Directory of the conversation.
    pub directory: String,
}

/// Something that the UI wants to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Run a message or a slash command. The UI makes no other such request before [`Input::Finished`].
    Submit(String),
    /// Continue the session with this id. Made like [`Request::Submit`].
    Resume(String),
    /// Add a message to the run in progress.
    Steer(String),
    /// Interrupt the work in progress.
    Interrupt,
    /// Answer the question with this number.
    Answer(u64, Answer),
    /// Complete the arguments of a slash command.
    Complete {
        /// Number for the reply.
        id: u64,
        /// Name of the command.
        command: String,
        /// The argument so far.
        argument: String,
    },
    /// List the files of the workspace.
    ListFiles,
    /// List what can be picked.
    List(Pick),
    /// Open the external editor with this text.
    Edit(String),
    /// Copy a text to the clipboard.
    Copy(String),
    /// Keep the message that is being written, so that it survives a crash. An empty one removes it.
    SaveDraft(String),
    /// Add a message to the history on the disk.
    Remember(String),
    /// Notify the user, who may look elsewhere.
    Notify(String),
    /// Suspend the program.
    Suspend,
    /// Draw everything again.
    Redraw,
    /// End the conversation.
    Quit,
}
