//! The documented rules of five vendors about requests, as strict checks of a body.
//!
//! Each function returns the first rule that the body breaks. Where a vendor documents several limits for different models,
//! the strictest one counts.

use pinion_protocol::pattern::PortablePattern;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

type Broken = Result<(), String>;

/// Fails with the rule unless it holds.
fn require(holds: bool, rule: &str, at: &Value) -> Broken {
    if holds { Ok(()) } else { Err(format!("{rule}: {at}")) }
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>, String> {
    value[field].as_array().filter(|items| !items.is_empty()).ok_or_else(|| format!("`{field}` is empty: {value}"))
}

fn text_of<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value[field].as_str().ok_or_else(|| format!("`{field}` is not a string: {value}"))
}

fn is_plain(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

fn has_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Requires that no string anywhere contains a NUL.
fn no_nul(body: &Value) -> Broken {
    require(!body.to_string().contains("\\u0000"), "no NUL characters", &Value::Null)
}

/// Requires a schema whose root is an object, with patterns that every server compiles.
fn schema(schema: &Value) -> Broken {
    fn patterns(schema: &Value) -> Broken {
        match schema {
            Value::Object(fields) => {
                if let Some(pattern) = fields.get("pattern").and_then(Value::as_str) {
                    let is_portable =
                        PortablePattern::from_pattern(pattern).is_some_and(|portable| portable.text == pattern);
                    require(is_portable, "patterns are portable", schema)?;
                }
                fields.values().try_for_each(patterns)
            }
            Value::Array(items) => items.iter().try_for_each(patterns),
            _ => Ok(()),
        }
    }
    require(schema["type"] == "object", "the root of a schema is an object", schema)?;
    patterns(schema)
}

/// Checks tools, and returns their names.
fn tools<'a>(tools: impl Iterator<Item = (&'a Value, &'a Value)>) -> Result<HashSet<String>, String> {
    let mut names = HashSet::new();
    for (name, input) in tools {
        let text = name.as_str().unwrap_or_default();
        require(is_plain(text, 64), "names of tools match ^[a-zA-Z0-9_-]{1,64}$", name)?;
        require(names.insert(text.to_owned()), "names of tools are unique", name)?;
        schema(input)?;
    }
    Ok(names)
}

fn items(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn web_image(media_type: &str) -> bool {
    ["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&media_type)
}

/// <https://docs.anthropic.com/en/api/messages>
pub(crate) fn anthropic(body: &Value) -> Broken {
    no_nul(body)?;
    tools(items(&body["tools"]).map(|tool| (&tool["name"], &tool["input_schema"])))?;
    for block in items(&body["system"]) {
        require(has_text(&block["text"]), "system texts are not blank", block)?;
    }
    let (mut ids, mut open): (HashSet<String>, Vec<String>) = (HashSet::new(), Vec::new());
    let messages = list(body, "messages")?;
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        require(message["role"] == role, "roles alternate, starting with the user", message)?;
        let mut is_after_text = false;
        for block in list(message, "content")? {
            match text_of(block, "type")? {
                "text" => {
                    require(has_text(&block["text"]), "texts are not blank", block)?;
                    is_after_text = true;
                }
                "image" => {
                    anthropic_image(block)?;
                    require(role == "user", "images are the user's", block)?;
                    is_after_text = true;
                }
                "thinking" | "redacted_thinking" => require(role == "assistant", "thinking is the model's", block)?,
                "tool_use" => {
                    let id = text_of(block, "id")?;
                    require(role == "assistant" && is_plain(id, 64), "call IDs match ^[a-zA-Z0-9_-]+$", block)?;
                    require(ids.insert(id.to_owned()), "call IDs are unique", block)?;
                    require(is_plain(text_of(block, "name")?, 64), "names are plain", block)?;
                    require(block["input"].is_object(), "input is an object", block)?;
                    open.push(id.to_owned());
                }
                "tool_result" => {
                    let id = text_of(block, "tool_use_id")?;
                    let of = open.iter().position(|known| known == id);
                    require(of.is_some() && !is_after_text, "results answer the calls before, and come first", block)?;
                    open.remove(of.unwrap_or_default());
                    for part in items(&block["content"]) {
                        match text_of(part, "type")? {
                            "text" => require(has_text(&part["text"]), "texts of results are not blank", part)?,
                            _ => {
                                require(block["is_error"] != true, "failed results contain only text", block)?;
                                anthropic_image(part)?;
                            }
                        }
                    }
                }
                other => return Err(format!("no block `{other}`")),
            }
        }
        require(role == "assistant" || open.is_empty(), "every call has a result in the next message", message)?;
    }
    require(messages.len() % 2 == 1, "the user speaks last", &messages[messages.len() - 1])
}

fn anthropic_image(block: &Value) -> Broken {
    let source = &block["source"];
    require(web_image(text_of(source, "media_type")?), "images have one of four types", block)?;
    require(has_text(&source["data"]), "images are not empty", block)
}

/// <https://platform.openai.com/docs/api-reference/chat>
pub(crate) fn openai_chat(body: &Value) -> Broken {
    chat(body, &|id| is_plain(id, 40), Follows { user_after_user: true, user_after_tool: true })
}

/// The templates of Gemma's models: <https://github.com/vllm-project/vllm/issues/6862>
pub(crate) fn alternating_chat(body: &Value) -> Broken {
    chat(body, &|id| !id.is_empty(), Follows { user_after_user: false, user_after_tool: true })
}

/// <https://docs.mistral.ai/api>
pub(crate) fn mistral(body: &Value) -> Broken {
    let is_id = |id: &str| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric());
    chat(body, &is_id, Follows { user_after_user: true, user_after_tool: false })
}

/// The messages that a vendor accepts before one of the user.
#[derive(Clone, Copy)]
struct Follows {
    user_after_user: bool,
    user_after_tool: bool,
}

fn chat(body: &Value, is_id: &dyn Fn(&str) -> bool, allowed: Follows) -> Broken {
    no_nul(body)?;
    tools(items(&body["tools"]).map(|tool| (&tool["function"]["name"], &tool["function"]["parameters"])))?;
    let (mut ids, mut open): (HashSet<String>, Vec<String>) = (HashSet::new(), Vec::new());
    let mut before = "start";
    for message in list(body, "messages")? {
        let role = text_of(message, "role")?;
        require(role == "tool" || open.is_empty(), "results follow their calls", message)?;
        let follows = match role {
            "system" => before == "start",
            "user" => match before {
                "user" => allowed.user_after_user,
                "tool" => allowed.user_after_tool,
                _ => true,
            },
            "assistant" => ["user", "tool"].contains(&before),
            "tool" => ["assistant", "tool"].contains(&before),
            _ => false,
        };
        require(follows, &format!("`{role}` cannot follow `{before}`"), message)?;
        match role {
            "assistant" => {
                let calls = items(&message["tool_calls"]);
                require(
                    calls.len() > 0 || chat_content(&message["content"]).is_ok(),
                    "replies have a content or calls",
                    message,
                )?;
                for call in calls {
                    let id = text_of(call, "id")?;
                    require(is_id(id) && ids.insert(id.to_owned()), "call IDs fit and are unique", call)?;
                    open.push(id.to_owned());
                    require(is_plain(text_of(&call["function"], "name")?, 64), "names are plain", call)?;
                    let arguments = text_of(&call["function"], "arguments")?;
                    let is_object = serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object());
                    require(is_object, "arguments are an object", call)?;
                }
            }
            "tool" => {
                let of = open.iter().position(|id| message["tool_call_id"] == **id);
                require(of.is_some(), "results answer the calls before", message)?;
                open.remove(of.unwrap_or_default());
                chat_content(&message["content"])?;
            }
            _ => chat_content(&message["content"])?,
        }
        before = role;
    }
    require(open.is_empty() && ["user", "tool"].contains(&before), "the model does not speak last", body)
}

fn chat_content(content: &Value) -> Broken {
    let Some(parts) = content.as_array() else { return require(has_text(content), "contents are not blank", content) };
    require(!parts.is_empty(), "contents are not empty", content)?;
    parts.iter().try_for_each(|part| match text_of(part, "type")? {
        "text" => require(has_text(&part["text"]), "texts are not blank", part),
        "image_url" => data_url(text_of(&part["image_url"], "url")?),
        "thinking" => Ok(()),
        other => Err(format!("no part `{other}`")),
    })
}

fn data_url(url: &str) -> Broken {
    let known = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let holds = known.is_some_and(|(media_type, data)| web_image(media_type) && !data.is_empty());
    require(holds, "images are data URLs of four types", &Value::from(url))
}

/// <https://platform.openai.com/docs/api-reference/responses>
pub(crate) fn openai_responses(body: &Value) -> Broken {
    no_nul(body)?;
    tools(items(&body["tools"]).map(|tool| (&tool["name"], &tool["parameters"])))?;
    let mut calls: BTreeMap<String, bool> = BTreeMap::new();
    let mut before = "start";
    for item in list(body, "input")? {
        let kind = text_of(item, "type")?;
        match kind {
            "message" => {
                for part in list(item, "content")? {
                    match text_of(part, "type")? {
                        "input_text" | "output_text" => require(has_text(&part["text"]), "texts are not blank", part)?,
                        "input_image" => data_url(text_of(part, "image_url")?)?,
                        other => return Err(format!("no part `{other}`")),
                    }
                }
            }
            "function_call" => {
                let id = text_of(item, "call_id")?;
                require(is_plain(id, 64), "call IDs are plain", item)?;
                require(calls.insert(id.to_owned(), false).is_none(), "call IDs are unique", item)?;
                require(is_plain(text_of(item, "name")?, 64), "names are plain", item)?;
                let arguments = text_of(item, "arguments")?;
                let is_object = serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object());
                require(is_object, "arguments are an object", item)?;
            }
            "function_call_output" => {
                let known = calls.get_mut(text_of(item, "call_id")?);
                let is_open = known.as_ref().is_some_and(|is_answered| !**is_answered);
                require(is_open, "outputs answer calls before them, once", item)?;
                known.into_iter().for_each(|is_answered| *is_answered = true);
                let output = &item["output"];
                require(has_text(output) || output.as_array().is_some_and(|p| !p.is_empty()), "outputs exist", item)?;
            }
            "reasoning" => {}
            other => return Err(format!("no item `{other}`")),
        }
        require(before != "reasoning" || kind != "function_call_output", "reasoning is followed by its item", item)?;
        before = kind;
    }
    require(calls.values().all(|is_answered| *is_answered), "no call is without an output", body)?;
    require(before != "reasoning", "reasoning is followed by its item", body)
}

/// <https://ai.google.dev/api/generate-content>, <https://ai.google.dev/gemini-api/docs/function-calling>
pub(crate) fn gemini(body: &Value) -> Broken {
    no_nul(body)?;
    let declared = items(&body["tools"]).flat_map(|tools| items(&tools["functionDeclarations"]));
    tools(declared.map(|tool| (&tool["name"], &tool["parametersJsonSchema"])))?;
    let starts_well = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let (mut ids, mut open): (HashSet<String>, Vec<(String, String)>) = (HashSet::new(), Vec::new());
    let contents = list(body, "contents")?;
    for (at, content) in contents.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "model" };
        require(content["role"] == role, "roles alternate, starting with the user", content)?;
        for part in list(content, "parts")? {
            let fields = ["text", "inlineData", "functionCall", "functionResponse"];
            let kind = fields.iter().filter(|field| part.get(**field).is_some());
            require(kind.count() == 1, "parts have one kind of data", part)?;
            if let Some(text) = part.get("text") {
                require(part["thought"] == true || text.is_string(), "texts are strings", part)?;
            }
            if let Some(image) = part.get("inlineData") {
                require(web_image(text_of(image, "mimeType")?) && has_text(&image["data"]), "images fit", part)?;
            }
            if let Some(call) = part.get("functionCall") {
                let (id, name) = (text_of(call, "id")?, text_of(call, "name")?);
                require(role == "model" && ids.insert(id.to_owned()), "call IDs are unique", part)?;
                require(is_plain(name, 64) && starts_well(name), "names start with a letter or underscore", part)?;
                require(call["args"].is_object(), "arguments are an object", part)?;
                open.push((id.to_owned(), name.to_owned()));
            }
            if let Some(response) = part.get("functionResponse") {
                let known = (text_of(response, "id")?.to_owned(), text_of(response, "name")?.to_owned());
                let of = open.iter().position(|call| *call == known);
                require(of.is_some(), "responses have the ID and the name of a call in the turn before", part)?;
                open.remove(of.unwrap_or_default());
                require(response["response"].is_object(), "responses are objects", part)?;
            }
        }
        require(role == "model" || open.is_empty(), "there are as many responses as calls", content)?;
    }
    require(contents.len() % 2 == 1, "the user speaks last", &contents[contents.len() - 1])
}

/// <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>
pub(crate) fn bedrock(body: &Value) -> Broken {
    no_nul(body)?;
    let specs = items(&body["toolConfig"]["tools"]).map(|tool| &tool["toolSpec"]).filter(|spec| !spec.is_null());
    let declared = tools(specs.map(|spec| (&spec["name"], &spec["inputSchema"]["json"])))?;
    let (mut ids, mut open): (HashSet<String>, Vec<String>) = (HashSet::new(), Vec::new());
    let messages = list(body, "messages")?;
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        require(message["role"] == role, "roles alternate, starting with the user", message)?;
        let mut is_after_text = false;
        for block in list(message, "content")? {
            require(block.as_object().is_some_and(|fields| fields.len() == 1), "blocks have one member", block)?;
            bedrock_data(block, &mut is_after_text)?;
            if let Some(call) = block.get("toolUse") {
                let (id, name) = (text_of(call, "toolUseId")?, text_of(call, "name")?);
                require(role == "assistant" && is_plain(id, 64), "call IDs are plain", block)?;
                require(ids.insert(id.to_owned()), "call IDs are unique", block)?;
                require(declared.contains(name), "called tools are declared", block)?;
                require(call["input"].is_object(), "input is an object", block)?;
                open.push(id.to_owned());
            }
            if let Some(result) = block.get("toolResult") {
                let of = open.iter().position(|id| result["toolUseId"] == **id);
                require(of.is_some() && !is_after_text, "results answer the calls before, and come first", block)?;
                open.remove(of.unwrap_or_default());
                list(result, "content")?.iter().try_for_each(|part| bedrock_data(part, &mut false))?;
            }
        }
        require(role == "assistant" || open.is_empty(), "every call has a result in the next message", message)?;
    }
    require(messages.len() % 2 == 1, "the user speaks last", &messages[messages.len() - 1])
}

fn bedrock_data(block: &Value, is_after_text: &mut bool) -> Broken {
    if let Some(text) = block.get("text") {
        *is_after_text = true;
        require(has_text(text), "texts are not blank", block)?;
    }
    if let Some(image) = block.get("image") {
        *is_after_text = true;
        require(["png", "jpeg", "gif", "webp"].iter().any(|known| image["format"] == **known), "formats fit", block)?;
        require(has_text(&image["source"]["bytes"]), "images are not empty", block)?;
    }
    Ok(())
}
