//! Notes of a workspace, which stay between sessions.

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::storage::{self, Scope};

/// The most notes of a workspace, so that a list of them fits into a conversation.
const MAX_NOTES: usize = 200;
/// The most bytes of a note.
const MAX_BYTES: usize = 2_000;

#[derive(Default, Serialize, Deserialize)]
struct Notes {
    /// The number of the next note. Numbers are not used twice.
    next: u32,
    notes: Vec<Note>,
}

#[derive(Serialize, Deserialize)]
struct Note {
    number: u32,
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// One fact, decision or task.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Remove {
    /// The number of the note in the list.
    number: u32,
}

#[derive(Deserialize, JsonSchema)]
struct List {}

struct ScratchNotes;

impl Plugin for ScratchNotes {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new(
                "note_add",
                "Keeps a note for later sessions in this workspace, such as a decision and its reason.",
                |input: Add, _: &Call| add(&input.text),
            ),
            Tool::new("note_list", "Lists the notes of this workspace with their numbers.", |_: List, _: &Call| list())
                .guideline("At the start of a task, list the notes of the workspace."),
            Tool::new("note_remove", "Removes a note that is done or wrong.", |input: Remove, _: &Call| {
                remove(input.number)
            }),
        ]
    }

    fn commands() -> Vec<Command> {
        let notes = |typed: &str, _: &Call| {
            Ok(vec![Action::Print(if typed.trim().is_empty() { list()? } else { add(typed)? })])
        };
        vec![Command::new("notes", "List the notes of this workspace, or add one", notes).argument("[text]")]
    }
}

fn add(text: &str) -> Result<String> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_BYTES {
        return Err(Error::invalid_input(format!("a note has 1 to {MAX_BYTES} bytes")));
    }
    let number = storage::update(Scope::Workspace, "notes", |notes: &mut Notes| {
        if notes.notes.len() >= MAX_NOTES {
            return Err(Error::failed(format!("there are {MAX_NOTES} notes: remove some with `note_remove`")));
        }
        notes.next += 1;
        notes.notes.push(Note { number: notes.next, text: text.to_owned() });
        Ok(notes.next)
    })?;
    Ok(format!("kept as note {number}"))
}

fn list() -> Result<String> {
    let notes: Notes = storage::get_json(Scope::Workspace, "notes")?.unwrap_or_default();
    let lines: Vec<String> = notes.notes.iter().map(|note| format!("{}. {}", note.number, note.text)).collect();
    Ok(if lines.is_empty() { "no notes".to_owned() } else { lines.join("\n") })
}

fn remove(number: u32) -> Result<String> {
    storage::update(Scope::Workspace, "notes", |notes: &mut Notes| {
        let at = notes.notes.iter().position(|note| note.number == number);
        let at = at.ok_or_else(|| Error::NotFound(format!("no note {number}: list them with `note_list`")))?;
        Ok(format!("removed: {}", notes.notes.remove(at).text))
    })
}

export!(ScratchNotes, exports = [tools, commands], asks = { "storage": true });

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing::{call_tool, clear_storage, run_command};

    #[test]
    fn numbers_are_not_used_twice() {
        clear_storage();
        let add = |text| call_tool::<ScratchNotes>("note_add", json!({ "text": text })).unwrap().text;
        assert_eq!((add("a"), add("b")), ("kept as note 1".to_owned(), "kept as note 2".to_owned()));
        call_tool::<ScratchNotes>("note_remove", json!({ "number": 2 })).unwrap();
        assert_eq!(add("c"), "kept as note 3");
        assert_eq!(call_tool::<ScratchNotes>("note_list", json!({})).unwrap().text, "1. a\n3. c");
    }

    #[test]
    fn notes_are_bounded() {
        clear_storage();
        let add = |text: &str| call_tool::<ScratchNotes>("note_add", json!({ "text": text }));
        assert!(matches!(add(" "), Err(Error::InvalidInput(_))));
        assert!(matches!(add(&"x".repeat(MAX_BYTES + 1)), Err(Error::InvalidInput(_))));
        (0..MAX_NOTES).for_each(|_| drop(add("x").unwrap()));
        assert!(add("x").is_err());
    }

    #[test]
    fn command_lists_and_adds() {
        clear_storage();
        let printed = |typed| match run_command::<ScratchNotes>("notes", typed).unwrap().remove(0) {
            Action::Print(text) => text,
            action => panic!("{action:?}"),
        };
        assert_eq!(printed(""), "no notes");
        assert_eq!(printed(" buy milk "), "kept as note 1");
        assert_eq!(printed(""), "1. buy milk");
    }
}
