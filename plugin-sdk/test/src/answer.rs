//! Scripted answers to dialogs.

use pinion_agent::dialog::{Dialog, DialogAnswer, DialogError, DialogKind};

/// The answer to the next dialog. `true`, an option's index or a text also become one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptedAnswer {
    /// This answer, which must be of the question's kind.
    Exactly(DialogAnswer),
    /// The line of text, the option with this text, or `yes` or `no`, by the question's kind.
    Text(String),
    /// The user closes the dialog.
    Dismissed,
}

impl ScriptedAnswer {
    /// Returns the answer to a question.
    ///
    /// # Errors
    /// The answer does not fit the question.
    pub(crate) fn to(&self, dialog: &Dialog) -> Result<Result<DialogAnswer, DialogError>, String> {
        let fitting = match (self, &dialog.kind) {
            (Self::Dismissed, _) => return Ok(Err(DialogError::Dismissed)),
            (Self::Text(text), DialogKind::Confirm) => match text.as_str() {
                "yes" => Some(DialogAnswer::Confirmed(true)),
                "no" => Some(DialogAnswer::Confirmed(false)),
                _ => None,
            },
            (Self::Text(text), DialogKind::Select(options)) => {
                options.iter().position(|option| option == text).map(DialogAnswer::Selected)
            }
            (Self::Text(text), DialogKind::Input(_)) => Some(DialogAnswer::Entered(text.clone())),
            (Self::Exactly(answer), kind) => is_of_kind(answer, kind).then(|| answer.clone()),
        };
        fitting.map(Ok).ok_or_else(|| self.misfit(dialog))
    }

    fn misfit(&self, dialog: &Dialog) -> String {
        let answer = match self {
            Self::Exactly(DialogAnswer::Confirmed(answer)) => answer.to_string(),
            Self::Exactly(DialogAnswer::Selected(index)) => index.to_string(),
            Self::Exactly(DialogAnswer::Entered(text)) | Self::Text(text) => format!("`{text}`"),
            Self::Dismissed => "a closed dialog".to_owned(),
        };
        let needs = match &dialog.kind {
            DialogKind::Confirm => "yes or no".to_owned(),
            DialogKind::Select(options) => {
                format!("one of the options `{}`, or its index from 0", options.join("`, `"))
            }
            DialogKind::Input(_) => "a text".to_owned(),
        };
        format!("the answer {answer} does not fit the question `{}`, which needs {needs}", dialog.question)
    }
}

fn is_of_kind(answer: &DialogAnswer, kind: &DialogKind) -> bool {
    match (answer, kind) {
        (DialogAnswer::Confirmed(_), DialogKind::Confirm) | (DialogAnswer::Entered(_), DialogKind::Input(_)) => true,
        (DialogAnswer::Selected(index), DialogKind::Select(options)) => *index < options.len(),
        _ => false,
    }
}

impl From<DialogAnswer> for ScriptedAnswer {
    fn from(answer: DialogAnswer) -> Self {
        Self::Exactly(answer)
    }
}

impl From<bool> for ScriptedAnswer {
    fn from(answer: bool) -> Self {
        Self::Exactly(DialogAnswer::Confirmed(answer))
    }
}

impl From<usize> for ScriptedAnswer {
    fn from(index: usize) -> Self {
        Self::Exactly(DialogAnswer::Selected(index))
    }
}

impl From<String> for ScriptedAnswer {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ScriptedAnswer {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
