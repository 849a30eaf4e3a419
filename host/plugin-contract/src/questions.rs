//! Errors of several questions at once, from the errors of the interfaces that answer them.

use crate::bindings::pinion::plugin::questions::QuestionError;
use crate::bindings::pinion::plugin::{model::ModelError, ui::UiError};

impl From<UiError> for QuestionError {
    fn from(error: UiError) -> Self {
        match error {
            UiError::Denied(text) => Self::Denied(text),
            UiError::Headless => Self::Headless,
            UiError::Dismissed => Self::Dismissed,
            UiError::Cancelled => Self::Cancelled,
            UiError::Invalid(text) => Self::Invalid(text),
        }
    }
}

impl From<ModelError> for QuestionError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Denied(text) => Self::Denied(text),
            ModelError::Invalid(text) => Self::Invalid(text),
            ModelError::BudgetExceeded(text) => Self::BudgetExceeded(text),
            ModelError::Cancelled => Self::Cancelled,
            ModelError::Failed(text) => Self::Failed(text),
        }
    }
}
