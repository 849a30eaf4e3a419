//! Dialogs that take the place of the editor.

pub(crate) mod approval;
mod key_guard;
pub(crate) mod pick;
pub(crate) mod picker;
pub(crate) mod plugin;
