//! Redaction of messages, results and errors, and of texts that plugins show to people.

use super::{KnownSecrets, MARK, Secrets};
use pinion_protocol::content::Content;
use pinion_protocol::dialog::{Dialog, DialogKind};
use pinion_protocol::drawing::DrawingBlock;
use pinion_protocol::event::{Event, EventKind};
use pinion_protocol::message::Message;
use pinion_protocol::outcome::RunEnd;
use pinion_protocol::text::with_causes;
use pinion_protocol::tool::{ToolError, ToolOutput, ToolReply};
use std::sync::Arc;

impl Secrets {
    /// Redacts the texts, arguments and details of a message. Replaces a picture whose bytes contain a secret
    /// by a text.
    pub fn clean_message(&self, message: Message) -> Message {
        let known = self.snapshot();
        if known.forms.is_empty() {
            return message;
        }
        let mut message = message;
        match &mut message {
            Message::User(message) => {
                known.clean_contents(&mut message.content);
                known.clean_option(&mut message.label);
            }
            Message::Assistant(message) => {
                known.clean_contents(&mut message.content);
                // The name that was asked for is the user's own, and decides whether thinking goes back.
                if message.requested_model.is_some() {
                    known.clean_string(&mut message.model);
                }
                known.clean_option(&mut message.error);
            }
            Message::ToolResult(message) => {
                known.clean_contents(&mut message.content);
                message.details = message.details.take().map(|details| known.clean_json(details));
            }
            Message::Extension(message) => message.data = known.clean_json(message.data.take()),
        }
        message
    }

    /// Redacts the texts of an event of the past: of its messages, results and remarks.
    pub fn clean_event(&self, event: Event) -> Event {
        let known = self.snapshot();
        if known.forms.is_empty() {
            return event;
        }
        let mut event = event;
        match &mut event.kind {
            EventKind::MessageEnd { message } => {
                *message = Arc::new(self.clean_message(Arc::unwrap_or_clone(message.clone())));
            }
            EventKind::ToolExecutionStart { arguments, .. } => *arguments = known.clean_json(arguments.take()),
            EventKind::ToolExecutionEnd { content, details, .. } => {
                known.clean_contents(content);
                *details = details.take().map(|details| known.clean_json(details));
            }
            EventKind::Compaction { summary, failure, .. } => {
                known.clean_string(summary);
                failure.iter_mut().for_each(|text| known.clean_string(text));
            }
            EventKind::Retry { cause: text, .. }
            | EventKind::PlanMade { title: text, .. }
            | EventKind::PlanStep { title: text, .. }
            | EventKind::InputRejected { reason: text } => known.clean_string(text),
            EventKind::Hook { hook, .. } => known.clean_string(&mut hook.text),
            EventKind::AgentEnd { end: RunEnd::Failed(error), .. } => known.clean_string(&mut error.message),
            EventKind::AgentEnd { end: RunEnd::Rejected { reason }, .. } => known.clean_string(reason),
            _ => {}
        }
        event
    }
}

impl KnownSecrets {
    pub(super) fn clean_contents(&self, contents: &mut [Content]) {
        if !self.forms.is_empty() {
            contents.iter_mut().for_each(|content| self.clean_content(content));
        }
    }

    fn clean_content(&self, content: &mut Content) {
        match content {
            Content::Text { text } => self.clean_string(text),
            Content::Image(image) => {
                let is_clean = !self.are_in(&image.data) && !self.are_in(image.media_type.as_bytes());
                if !is_clean {
                    *content = Content::text(MARK);
                }
            }
            Content::Thinking(thinking) => {
                self.clean_string(&mut thinking.text);
                self.clean_option(&mut thinking.signature);
            }
            Content::ToolCall(call) => {
                [&mut call.id, &mut call.name].into_iter().for_each(|text| self.clean_string(text));
                call.arguments = self.clean_json(call.arguments.take());
                self.clean_option(&mut call.partial);
                self.clean_option(&mut call.signature);
            }
        }
    }

    pub(super) fn clean_option(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.clean_string(text);
        }
    }

    pub(super) fn clean_reply(&self, reply: ToolReply) -> ToolReply {
        if self.forms.is_empty() {
            return reply;
        }
        let result = match reply.result {
            Ok(ToolOutput { mut content, details, display, is_error }) => {
                self.clean_contents(&mut content);
                let details = details.map(|details| self.clean_json(details));
                Ok(ToolOutput { content, details, display, is_error })
            }
            Err(error) => Err(self.clean_error(error)),
        };
        ToolReply { result, ..reply }
    }

    fn clean_error(&self, mut error: ToolError) -> ToolError {
        match &mut error {
            ToolError::InvalidArguments { message, .. } | ToolError::Failed { message, .. } => {
                self.clean_string(message);
            }
            ToolError::Denied { reason, .. } => self.clean_string(reason),
            ToolError::Fault { source, .. } => {
                let text = with_causes(&**source);
                if self.are_in(text.as_bytes()) {
                    *source = self.clean(&text).into_owned().into();
                }
            }
            _ => {}
        }
        error
    }
}

impl Secrets {
    /// Applies [`Self::clean`] to the words of a plugin's question.
    pub fn clean_dialog(&self, dialog: &mut Dialog) {
        self.replace(&mut dialog.question);
        if let DialogKind::Select(options) = &mut dialog.kind {
            options.iter_mut().for_each(|option| self.replace(option));
        }
    }

    /// Applies [`Self::clean`] to all texts of a drawing.
    pub fn clean_blocks(&self, blocks: &mut [DrawingBlock]) {
        for block in blocks {
            match block {
                DrawingBlock::Lines { lines } => {
                    lines.iter_mut().flatten().for_each(|span| self.replace(&mut span.text))
                }
                DrawingBlock::Table { header, rows } => {
                    header.iter_mut().chain(rows.iter_mut().flatten()).for_each(|cell| self.replace(cell));
                }
                DrawingBlock::Diff { text }
                | DrawingBlock::Markdown { text }
                | DrawingBlock::Bar { label: text, .. } => self.replace(text),
            }
        }
    }

    fn replace(&self, text: &mut String) {
        *text = self.clean(text).into_owned();
    }
}
