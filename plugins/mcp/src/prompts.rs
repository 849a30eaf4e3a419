//! Prompts of servers as slash commands.

use crate::catalog::{self, Argument, PROMPTS, Prompt};
use crate::completion::Completer;
use crate::{failed, result};
use listing::clean;
use pinion_plugin_sdk::bindings::commands::exports::pinion::plugin::commands::OtherAction;
use pinion_plugin_sdk::mcp::{self, Server, ServerState};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json::Map;

/// Bytes of a prompt that is sent.
const MAX_PROMPT: usize = 256 * 1024;
/// Pictures of a prompt, and their bytes in base64.
const MAX_PICTURES: usize = 16;
const MAX_PICTURE_BYTES: usize = 6 * 1024 * 1024;
/// The action that sends a message with pictures, which the contract leaves to `other`.
const SUBMIT_CONTENT: &str = "submit-content";

/// The commands for the prompts of all servers.
pub(crate) fn commands(servers: &[Server]) -> Vec<Command> {
    let prompts = catalog::prompts(servers);
    let mut commands = Vec::new();
    if !prompts.is_empty() {
        commands.push(list());
    }
    commands.extend(prompts.into_iter().map(|prompt| {
        let Prompt { command, server, name, description, arguments } = prompt;
        // Typing starts no server.
        let is_ready = server.state == ServerState::Ready;
        let (server, name) = (server.name.clone(), name.to_owned());
        if arguments.is_empty() {
            return Command::new(command, description, move |typed, _: &Call| run(&server, &name, &[], typed));
        }
        let hint = hint(&arguments);
        let completer = is_ready.then(|| Completer::new(&server, &name, &arguments));
        let made = Command::new(command, description, move |typed, _: &Call| run(&server, &name, &arguments, typed));
        let made = made.argument(hint);
        match completer {
            Some(completer) => made.complete(move |typed| completer.complete(typed)),
            None => made,
        }
    }));
    commands
}

/// The command that lists the others.
pub(crate) fn list() -> Command {
    Command::new(PROMPTS, "Lists the prompts of MCP servers", |_: &str, _: &Call| {
        let servers = mcp::servers();
        let lines = catalog::prompts(&servers)
            .into_iter()
            .map(|prompt| format!("- `/{} {}` {}\n", prompt.command, hint(&prompt.arguments), prompt.description));
        let text: String = lines.collect();
        Ok(vec![Action::Print(if text.is_empty() { "no MCP server has prompts".to_owned() } else { text })])
    })
}

fn hint(arguments: &[Argument]) -> String {
    let shown = |argument: &Argument| {
        let name = clean::line(&argument.name, 30);
        if argument.required { format!("<{name}>") } else { format!("[{name}]") }
    };
    let all: Vec<String> = arguments.iter().take(16).map(shown).collect();
    clean::line(&all.join(" "), 150)
}

fn run(server: &str, name: &str, arguments: &[Argument], typed: &str) -> Result<Vec<Action>, String> {
    let values = values(arguments, typed)?;
    let result = mcp::get_prompt(server, name, &values).map_err(|error| match failed(server, error) {
        Error::Cancelled => "cancelled".to_owned(),
        Error::InvalidInput(text) | Error::NotFound(text) | Error::Denied(text) => text,
        Error::Failed { message, .. } => message,
    })?;
    message(server, name, &result).map(|message| vec![message.action()])
}

/// Reads the typed text, and checks that nothing is missing.
fn values(arguments: &[Argument], typed: &str) -> Result<Value, String> {
    let values = read(arguments, typed)?;
    match arguments.iter().find(|argument| argument.required && !values.contains_key(&argument.name)) {
        Some(missing) => Err(format!("the argument `{}` is missing", clean::line(&missing.name, 80))),
        None => Ok(Value::Object(values)),
    }
}

/// Reads the typed text: `name=value` for arguments by name, everything else in their order. A single argument takes all.
pub(crate) fn read(arguments: &[Argument], typed: &str) -> Result<Map<String, Value>, String> {
    let mut values = Map::new();
    let typed = typed.trim();
    let words = if takes_all(arguments, typed) { vec![typed.to_owned()] } else { words(typed)? };
    for word in words {
        let (name, value) = assigned(arguments, &values, &word)?;
        values.insert(name.to_owned(), Value::String(value.to_owned()));
    }
    Ok(values)
}

/// Returns whether a text without blanks around it is, as it is, the value of the only argument.
pub(crate) fn takes_all(arguments: &[Argument], typed: &str) -> bool {
    matches!(arguments, [only] if !typed.is_empty() && !typed.starts_with(&format!("{}=", only.name)))
}

/// Returns the argument that a word is for, after those that have values, and its value.
///
/// # Errors
/// All arguments have values.
pub(crate) fn assigned<'a>(
    arguments: &'a [Argument],
    values: &Map<String, Value>,
    word: &'a str,
) -> Result<(&'a str, &'a str), String> {
    if let Some((name, value)) = word.split_once('=').filter(|(name, _)| arguments.iter().any(|a| a.name == *name)) {
        return Ok((name, value));
    }
    match arguments.iter().find(|argument| !values.contains_key(&argument.name)) {
        Some(next) => Ok((&next.name, word)),
        None => Err(format!("too many arguments: `{}`", clean::line(word, 80))),
    }
}

/// Splits a line into words; quotation marks keep blanks together.
pub(crate) fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(open) => Err(format!("a quotation mark `{open}` is not closed")),
        None => Ok(words),
    }
}

/// A message for the model.
struct Message {
    text: String,
    pictures: Vec<Picture>,
}

impl Message {
    fn action(self) -> Action {
        let Self { text, pictures } = self;
        if pictures.is_empty() {
            return Action::Submit(text);
        }
        let picture = |Picture { kind, data }: Picture| json!({ "media_type": kind, "data": data });
        let images: Vec<Value> = pictures.into_iter().map(picture).collect();
        let argument = Some(json!({ "text": text, "images": images }).to_string());
        Action::Other(OtherAction { name: SUBMIT_CONTENT.to_owned(), argument })
    }
}

/// A picture, in base64.
struct Picture {
    kind: &'static str,
    data: String,
}

/// Returns the picture of a content, if models take its kind.
fn picture(content: &Value) -> Option<Picture> {
    let data = match content.get("type").and_then(Value::as_str)? {
        "image" => content.get("data")?.as_str()?,
        "resource" => content.get("resource")?.get("blob")?.as_str()?,
        _ => return None,
    };
    result::picture(data).map(|(kind, bytes)| Picture { kind, data: result::in_base64(&bytes) })
}

/// Returns the message for the model, which says where it comes from.
fn message(server: &str, name: &str, result: &Value) -> Result<Message, String> {
    let (server, name) = (clean::line(server, 64), clean::line(name, 80));
    let messages = result.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut parts = Vec::new();
    let mut pictures: Vec<Picture> = Vec::new();
    for message in messages {
        let content = message.get("content");
        let text = content.and_then(|content| content.get("text")).or_else(|| content?.get("resource")?.get("text"));
        let text = match (text.and_then(Value::as_str), content.and_then(picture)) {
            (Some(text), _) => clean::result(text).into_owned(),
            (None, Some(picture)) if has_room(&pictures, &picture) => {
                pictures.push(picture);
                format!("[picture {}]", pictures.len())
            }
            (None, _) => "[content that is not text]".to_owned(),
        };
        let is_reply = message.get("role").and_then(Value::as_str) == Some("assistant");
        parts.push(if is_reply { format!("[as the assistant]\n{text}") } else { text });
    }
    if parts.is_empty() {
        return Err(format!("the prompt `{name}` of `{server}` is empty"));
    }
    let text = parts.join("\n\n");
    if text.len() > MAX_PROMPT {
        return Err(format!("the prompt has {} bytes, of at most {MAX_PROMPT}", text.len()));
    }
    let text = format!(
        "[The user chose the prompt `{name}` of the MCP server `{server}`, which wrote the following.]\n\n{text}"
    );
    Ok(Message { text, pictures })
}

fn has_room(pictures: &[Picture], next: &Picture) -> bool {
    let bytes: usize = pictures.iter().map(|picture| picture.data.len()).sum();
    pictures.len() < MAX_PICTURES && bytes + next.data.len() <= MAX_PICTURE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::serde_json;

    fn arguments(names: &[(&str, bool)]) -> Vec<Argument> {
        names.iter().map(|(name, required)| Argument { name: (*name).to_owned(), required: *required }).collect()
    }

    #[test]
    fn arguments_are_read_by_name_or_in_order() {
        let two = arguments(&[("city", true), ("unit", false)]);
        let read = |typed| values(&two, typed);
        assert_eq!(read("Oslo C").unwrap(), json!({ "city": "Oslo", "unit": "C" }));
        assert_eq!(read("unit=C 'New York'").unwrap(), json!({ "city": "New York", "unit": "C" }));
        assert_eq!(read("x=y").unwrap(), json!({ "city": "x=y" }), "not a name of an argument");
        assert!(read("").unwrap_err().contains("`city` is missing"));
        assert!(read("a b c").unwrap_err().contains("too many"));
        assert!(read("\"a").unwrap_err().contains("not closed"));
        let one = arguments(&[("text", false)]);
        assert_eq!(values(&one, " it's all of it ").unwrap(), json!({ "text": "it's all of it" }));
        assert_eq!(values(&one, "text='a b'").unwrap(), json!({ "text": "a b" }));
        assert_eq!(values(&one, "").unwrap(), json!({}));
        assert_eq!(hint(&two), "<city> [unit]");
    }

    #[test]
    fn message_says_who_wrote_it() {
        let result = json!({ "messages": [
            { "role": "user", "content": { "type": "text", "text": "Review\u{1b}[2J this." } },
            { "role": "assistant", "content": { "type": "text", "text": "Yes." } },
            { "role": "user", "content": { "type": "image", "data": "" } },
        ] });
        let Action::Submit(text) = message("docs", "review", &result).unwrap().action() else { panic!() };
        assert!(text.starts_with("[The user chose the prompt `review` of the MCP server `docs`"), "{text}");
        assert!(text.ends_with("Review�[2J this.\n\n[as the assistant]\nYes.\n\n[content that is not text]"), "{text}");
        assert!(message("docs", "review", &json!({})).err().unwrap().contains("is empty"));
    }

    #[test]
    fn pictures_are_sent_with_the_text() {
        let png = "iVBORw0KGgo=";
        let result = json!({ "messages": [
            { "role": "user", "content": { "type": "text", "text": "What is this?" } },
            { "role": "user", "content": { "type": "image", "data": png, "mimeType": "image/tiff" } },
            { "role": "user", "content": { "type": "resource", "resource": { "uri": "a://b", "blob": png } } },
            { "role": "user", "content": { "type": "image", "data": "AAAA", "mimeType": "image/png" } },
        ] });
        let Action::Other(OtherAction { name, argument }) = message("s", "p", &result).unwrap().action() else {
            panic!()
        };
        let argument: Value = serde_json::from_str(&argument.unwrap()).unwrap();
        assert_eq!(name, "submit-content");
        let text = argument["text"].as_str().unwrap();
        assert!(text.ends_with("What is this?\n\n[picture 1]\n\n[picture 2]\n\n[content that is not text]"), "{text}");
        let image = json!({ "media_type": "image/png", "data": png });
        assert_eq!(argument["images"], json!([image, image]));
    }
}
