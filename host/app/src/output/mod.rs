//! Text that is safe to show: everything that is not a literal of this program is neutralized and bounded.
//!
//! Nothing here writes; the application shows [`Text`] on its [`Screen`](crate::screen::Screen).

mod command;
mod numbers;
mod text;

pub use self::command::{shell_command, shell_word};
pub use self::numbers::{age, bytes, short};
pub use self::text::{Part, PartExt, Text, break_words, fit, left, line, row, split_at_width, width, wrapped};
pub use crate::text;
pub use pinion_agent::text::count;
