//! The built-in tool `todo`: the steps of a longer task, which the model writes and the user sees.
//!
//! The list belongs to the session: the host keeps it across restarts and copies it with the session, and compaction does not
//! take it away. The model always writes all of it, so that no step has a number that could be mistaken.

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::storage::{self, Scope};
use pinion_plugin_sdk::ui::{self, Block, Span, Style};

/// The key of the list in the session.
const KEY: &str = "items";
/// Steps of a list.
const MAX_ITEMS: usize = 100;
/// Bytes of a step.
const MAX_TEXT: usize = 500;

/// The plugin.
pub struct Todo;

impl Plugin for Todo {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new(
                "todo",
                "Writes the list of steps that the user sees, whole each time; without `items`, returns it.",
                todo,
            )
            .label("to-do list")
            .sequential()
            .guideline("Use todo for work of three steps or more, and mark each step as soon as it changes."),
        ]
    }

    fn commands() -> Vec<Command> {
        let show = |_: &str, _: &Call| {
            let items = read().map_err(|error| format!("the list cannot be read: {error:?}"))?;
            Ok(vec![Action::Print(listed(&items))])
        };
        vec![Command::new("todo", "Show the steps that the model noted", show)]
    }
}

export!(Todo, exports = [tools, commands], asks = { "storage": true, "ui": true });

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    text: String,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum State {
    Pending,
    InProgress,
    Done,
}

impl State {
    /// The mark in texts, and the mark and style in a drawing.
    fn marks(self) -> (&'static str, &'static str, Style) {
        match self {
            Self::Pending => ("[ ]", "○ ", Style::Plain),
            Self::InProgress => ("[>]", "◐ ", Style::Accent),
            Self::Done => ("[x]", "● ", Style::Success),
        }
    }
}

fn todo(arguments: Arguments, _call: &Call) -> Result<Output> {
    let Some(items) = arguments.items else {
        let items = read()?;
        draw(&items);
        return Ok(Output::text(listed(&items)));
    };
    let items = checked(items)?;
    let summary = summary(&items);
    draw(&items);
    let details = json!({ "items": items });
    let text = match storage::set_json(Scope::Session, KEY, &items) {
        Ok(()) => summary,
        // The model still has the list in its message.
        Err(Error::Denied(_)) => format!("{summary}; not kept, because the session is not"),
        Err(error) => return Err(error),
    };
    Ok(Output::text(text).details(details))
}

/// Returns the list, one line for each step.
///
/// # Errors
/// There are too many steps, or one is empty or too long.
fn checked(items: Vec<Item>) -> Result<Vec<Item>> {
    if items.len() > MAX_ITEMS {
        return Err(Error::invalid_input(format!("{} steps are more than {MAX_ITEMS}: join some", items.len())));
    }
    let line = |(at, item): (usize, Item)| {
        let text = item.text.split_whitespace().collect::<Vec<_>>().join(" ");
        match text.len() {
            1..=MAX_TEXT => Ok(Item { text, ..item }),
            _ => Err(Error::invalid_input(format!("step {} must have 1 to {MAX_TEXT} bytes", at + 1))),
        }
    };
    items.into_iter().enumerate().map(line).collect()
}

/// Returns the list of the session; empty if there is none.
fn read() -> Result<Vec<Item>> {
    match storage::get_json(Scope::Session, KEY) {
        // Nothing is kept for a session that is not.
        Err(Error::Denied(_)) => Ok(Vec::new()),
        items => Ok(items?.unwrap_or_default()),
    }
}

fn count(items: &[Item], state: State) -> usize {
    items.iter().filter(|item| item.state == state).count()
}

fn summary(items: &[Item]) -> String {
    let (done, current) = (count(items, State::Done), count(items, State::InProgress));
    format!("{done} of {} done, {current} in progress", items.len())
}

fn listed(items: &[Item]) -> String {
    if items.is_empty() {
        return "There are no steps.".to_owned();
    }
    items.iter().map(|item| format!("- {} {}\n", item.state.marks().0, item.text)).collect()
}

/// Draws the list for people.
fn draw(items: &[Item]) {
    let line = |item: &Item| {
        let (_, mark, style) = item.state.marks();
        let text = if item.state == State::Done { Style::Dim } else { style };
        vec![Span { text: mark.to_owned(), style }, Span { text: item.text.clone(), style: text }]
    };
    // Natively, in tests, there is no one to draw for.
    if cfg!(target_arch = "wasm32") && !items.is_empty() {
        // Without the grant, people see the text.
        ui::draw_result(&[Block::Lines(items.iter().map(line).collect())]).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing;

    fn item(text: &str, state: &str) -> Value {
        json!({ "text": text, "state": state })
    }

    fn called(arguments: Value) -> Result<String> {
        testing::call_tool::<Todo>("todo", arguments).map(|reply| reply.text)
    }

    #[test]
    fn list_is_written_whole_and_read_again() {
        testing::clear_storage();
        assert_eq!(called(json!({})).unwrap(), "There are no steps.");
        let items = json!([item("read\n the code", "done"), item("fix it", "in-progress"), item("test", "pending")]);
        assert_eq!(called(json!({ "items": items })).unwrap(), "1 of 3 done, 1 in progress");
        let list = "- [x] read the code\n- [>] fix it\n- [ ] test\n";
        assert_eq!(called(json!({})).unwrap(), list);
        let shown = testing::run_command::<Todo>("todo", "");
        let Ok([Action::Print(shown)]) = shown.as_deref() else { panic!() };
        assert_eq!(shown, list);
        called(json!({ "items": [] })).unwrap();
        assert_eq!(called(json!({})).unwrap(), "There are no steps.");
    }

    #[test]
    fn invalid_list_changes_nothing_and_names_the_step() {
        testing::clear_storage();
        called(json!({ "items": [item("a", "done")] })).unwrap();
        for (items, named) in [
            (vec![item("a", "pending"), item(" \n", "pending")], "step 2"),
            (vec![item(&"x".repeat(501), "done")], "step 1"),
            (vec![item("a", "done"); 101], "101 steps"),
            (vec![item("a", "finished")], "finished"),
        ] {
            let error = called(json!({ "items": items })).unwrap_err();
            assert!(matches!(&error, Error::InvalidInput(text) if text.contains(named)), "{error:?}");
        }
        assert_eq!(called(json!({})).unwrap(), "- [x] a\n");
    }

    #[test]
    fn definition_is_short() {
        let tool = &testing::tools::<Todo>()[0];
        let guideline: usize = tool.guidelines.iter().map(String::len).sum();
        let bytes = tool.name.len() + tool.description.len() + tool.input_schema.len() + guideline;
        assert!(bytes < 560, "{bytes}: {}", tool.input_schema);
    }
}
