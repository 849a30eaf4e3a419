//! Inputs of the UI, and the requests that it makes in return.

use crate::commands::SlashCommand;
use crate::dialog::approval_question::{ApprovalAnswer, ApprovalQuestion};
use crate::dialog::picker::{Pick, PickChoice};
use crate::dialog::plugin::DialogReply;
use crate::highlight::Highlighted;
use crate::theme::Theme;
use crate::transcript::Tone;
use pinion_protocol::{Dialog, Event, EventKind, ToolCall};
use std::sync::Arc;

/// Something that the UI learns.
#[derive(Debug, Clone)]
pub enum Input {
    /// A key, a paste, or a new size of the terminal.
    Terminal(crossterm::event::Event),
    /// An event of a run.
    Event(Event),
    /// Another session begins or continues, with the events of its past.
    Session(Vec<Event>),
    /// A line of the host.
    Note(Tone, String),
    /// Markdown that a command prints.
    Page(String),
    /// A command of the user begins to run.
    OwnCall(ToolCall),
    /// An event of a command of the user.
    OwnEvent(EventKind),
    /// The state that the status line shows.
    Facts(Facts),
    /// A call needs a decision.
    Question(ApprovalQuestion),
    /// A plugin asks, with this number.
    Dialog(u64, Dialog),
    /// The segment of the status line of a plugin.
    Segment {
        /// Name of the plugin.
        plugin: String,
        /// The text; `None` removes it.
        text: Option<String>,
    },
    /// The question or dialog with this number does not matter any more.
    Withdrawn(u64),
    /// A plan that waits for the user's decision.
    Plan {
        /// Its file.
        file: String,
        /// Its text.
        text: String,
    },
    /// A plan that the user edits. The UI opens the external editor with it.
    OpenedPlan {
        /// Its file.
        file: String,
        /// Its text, which need not be a valid plan.
        text: String,
    },
    /// The reason why a plan could not be saved as the user edited it. The UI keeps the edited text.
    PlanUnsaved(String),
    /// Text to insert at the cursor, as if it was pasted.
    Paste(String),
    /// Markdown that answers a side question, or says why there is no answer.
    SideAnswer(String),
    /// Text for the editor.
    Insert(String),
    /// A message that the key for the earlier message brings into the editor.
    Offer(String),
    /// Messages that no run has read.
    Returned(Vec<String>),
    /// The work for a submitted message or command has ended.
    Finished,
    /// The slash commands, with their names, argument hints and descriptions.
    Commands(Vec<SlashCommand>),
    /// Completions of the arguments of a slash command, requested with this number.
    Completions(u64, Vec<PickChoice>),
    /// The files in the workspace.
    Files {
        /// Their paths.
        paths: Arc<Vec<String>>,
        /// There are more than these.
        is_cut: bool,
    },
    /// The entries of a list that was requested.
    Choices(Pick, Vec<PickChoice>),
    /// The entries of a list after a change, for the list on the screen.
    Relisted(Pick, Vec<PickChoice>),
    /// A remark, for the list on the screen if there is one.
    Remark(String),
    /// Text about a session in the list.
    Preview {
        /// Id of the session.
        id: String,
        /// Its last messages.
        text: String,
    },
    /// The message as the external editor left it, or the reason why it is missing.
    Edited(Result<String, String>),
    /// Earlier messages of the user, oldest first.
    History(Vec<String>),
    /// The parts of the code that [`App::unlit`](crate::App::unlit) returned.
    Highlighted(Highlighted),
    /// Another theme.
    Theme(Theme),
    /// Time has passed.
    Tick,
}

/// The state that the status line shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Name of the model.
    pub model: String,
    /// Name of the approval mode.
    pub approval: String,
    /// Name of the thinking level, unless it is off.
    pub thinking: Option<String>,
    /// Tokens of the next request, as the compactor estimates them.
    pub context: u64,
    /// Context window of the model in tokens, if known.
    pub window: Option<u64>,
    /// The window that the compactor assumes of a model whose own is unknown.
    pub assumed_window: Option<u64>,
    /// Tokens of the context above which the conversation is summarized by itself; `None` if it is not.
    pub compacts_at: Option<u64>,
    /// Tokens of the conversation so far.
    pub tokens: u64,
    /// Input tokens of the conversation so far, and the part that the vendor's cache supplied.
    pub input: u64,
    /// See `input`.
    pub cached: u64,
    /// Cost so far in US dollars, if known.
    pub cost: Option<f64>,
    /// Reach of programs, such as `network on`; `None` if they have no network.
    pub network: Option<String>,
    /// Branch of the git repository.
    pub branch: Option<String>,
    /// Directory of the conversation.
    pub directory: String,
    /// Beginning of the session's ID.
    pub session: String,
}

/// Something that the UI wants to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum UiRequest {
    /// Run a message or a slash command. The UI does not repeat such a request before [`Input::Finished`].
    Submit(String),
    /// Run a slash command that takes effect at once, also while something works.
    Own(String),
    /// Write a plan for a task. Made like [`UiRequest::Submit`].
    Plan {
        /// The task, or the changes to the plan.
        text: String,
        /// File of the plan to replace.
        file: Option<String>,
    },
    /// Open the plan in this file, or else the latest one. Answered by [`Input::OpenedPlan`], or by an error.
    OpenPlan(Option<String>),
    /// Save a plan that the user edited. Answered by [`Input::Plan`] or [`Input::PlanUnsaved`].
    SavePlan {
        /// Its file.
        file: String,
        /// Its text.
        text: String,
    },
    /// Execute the plan in this file. Made like [`UiRequest::Submit`].
    Execute(String),
    /// Continue the session with this id. Made like [`UiRequest::Submit`].
    Resume(String),
    /// Continue in a copy of the session with this id. Made like [`UiRequest::Submit`].
    Fork(String),
    /// Delete a session, and list the sessions again.
    DeleteSession {
        /// Id of the session.
        id: String,
        /// The list on the screen.
        list: Pick,
    },
    /// Name a session, and list the sessions again. An empty name removes the one that it has.
    RenameSession {
        /// Id of the session.
        id: String,
        /// Its new name.
        name: String,
        /// The list on the screen.
        list: Pick,
    },
    /// Copy the command that continues the session with this id in its own directory.
    CopyCommand(String),
    /// Describe the session with this id.
    Preview(String),
    /// Add a message to the run in progress, which reads it after the calls in progress. The UI keeps it until its
    /// [`EventKind::MessageEnd`] or [`Input::Returned`].
    Steer(String),
    /// Add a message to a sub-agent's run in progress, which reads it after the call in progress.
    SteerAgent {
        /// Id of the run.
        run_id: String,
        /// The message.
        text: String,
    },
    /// End only the sub-agent with this run, and the runs below it.
    EndAgent(String),
    /// Interrupt the calls in progress, so that the run reads the messages that wait for their end.
    InterruptCalls,
    /// Take back the messages that the run has not read yet. Answered by [`Input::Returned`].
    Recall,
    /// Interrupt the work in progress.
    Interrupt,
    /// Answer the question with this number.
    Answer(u64, ApprovalAnswer),
    /// Answer the dialog with this number.
    Reply(u64, DialogReply),
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
    /// List the choices.
    List(Pick),
    /// Open the external editor with this text.
    Edit(String),
    /// Keep the picture in the clipboard in a file, whose path is an [`Input::Paste`].
    PastePicture,
    /// Answer a side question, also while something works.
    Aside(String),
    /// Cancel all side questions.
    CancelAsides,
    /// Use the next thinking level.
    NextThinking,
    /// Use the approval mode of this name.
    Mode(String),
    /// Use the theme of this name.
    Theme(String),
    /// Copy a text to the clipboard.
    Copy(String),
    /// Keep the message that is being written and the unread texts, so that they survive a crash. Empty ones remove the
    /// draft.
    SaveDraft {
        /// The message.
        text: String,
        /// The messages that the run in progress has not read yet, and the messages and commands that wait.
        queue: Vec<String>,
    },
    /// Add a message to the history on the disk.
    Remember(String),
    /// Notify the user, who may look elsewhere.
    Notify(String),
    /// Let the terminal report the mouse, or stop that.
    Mouse(bool),
    /// Suspend the program.
    Suspend,
    /// Draw everything again.
    Redraw,
    /// End the conversation.
    Quit,
}
