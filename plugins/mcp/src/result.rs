//! Results of servers, for the model and for people.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use listing::clean;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json;
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// Bytes of text that a result has; the rest is in a file.
const PAGE: usize = 48 * 1024;
/// Parts of a result.
const MAX_PARTS: usize = 200;
/// Bytes of a picture before it is decoded, and of all of them.
const MAX_PICTURES: usize = 12 * 1024 * 1024;
/// Bytes and values of the structured content that people see.
const MAX_DETAILS: usize = 1 << 20;
const MAX_VALUES: usize = 50_000;
/// Bytes of an address or a name in a result.
const MAX_NAME: usize = 2_000;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Writes a text to a file and returns its path.
pub(crate) type Keep<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The parts of a result.
#[derive(Default)]
struct Parts {
    texts: Vec<String>,
    pictures: Vec<(&'static str, Vec<u8>)>,
    picture_bytes: usize,
}

/// Converts the result of a tool that is nothing but texts, as most are, without building the values of its JSON. None for
/// any other, of which [`of_tool`] makes the same of the texts.
pub(crate) fn of_texts(result: &str, keep: Keep<'_>) -> Option<Output> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Texts<'a> {
        #[serde(borrow)]
        content: Vec<Part<'a>>,
        structured_content: Option<IgnoredAny>,
        is_error: Option<bool>,
    }
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        text: Cow<'a, str>,
    }
    let Texts { content, structured_content: None, is_error } = serde_json::from_str(result).ok()? else { return None };
    if content.is_empty() || content.len() > MAX_PARTS || content.iter().any(|part| part.kind != "text") {
        return None;
    }
    let texts = content.iter().map(|part| clean::result(&part.text).into_owned()).collect();
    let output = Parts { texts, ..Parts::default() }.output(keep);
    Some(if is_error == Some(true) { output.failed() } else { output })
}

/// Converts the result of a tool.
pub(crate) fn of_tool(result: &Value, keep: Keep<'_>) -> Output {
    let mut parts = Parts::default();
    let content = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    content.iter().take(MAX_PARTS).for_each(|part| parts.add(part));
    if content.len() > MAX_PARTS {
        parts.texts.push(format!("[{} more parts were left out]", content.len() - MAX_PARTS));
    }
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    if parts.texts.is_empty() && parts.pictures.is_empty() {
        parts.texts.push(match structured {
            Some(value) => clean::result(&pretty(value)).into_owned(),
            None => "(the server returned nothing)".to_owned(),
        });
    }
    let mut output = parts.output(keep);
    if let Some(value) = structured.filter(|value| is_small(value)) {
        output = output.details(json!({ "structured": value }));
    }
    match result.get("isError").and_then(Value::as_bool) == Some(true) {
        true => output.failed(),
        false => output,
    }
}

/// Converts the contents of a resource.
pub(crate) fn of_resource(result: &Value, keep: Keep<'_>) -> Output {
    let mut parts = Parts::default();
    let contents = result.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    contents.iter().take(MAX_PARTS).for_each(|resource| parts.add_resource(resource));
    if contents.is_empty() {
        parts.texts.push("(the resource is empty)".to_owned());
    }
    parts.output(keep)
}

/// Returns a text for the model: all of it, or the first page, and where the rest is.
pub(crate) fn paged(text: String, keep: Keep<'_>) -> String {
    if text.len() <= PAGE {
        return text;
    }
    // One endless line could not be read page by page.
    let lines = match serde_json::from_str::<Value>(&text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => pretty(&value),
        _ => text,
    };
    let begin = clean::head(&lines, PAGE);
    let page = begin.rfind('\n').filter(|at| *at > PAGE / 2).map_or(begin, |at| &begin[..at]);
    let (shown, all) = (page.len(), lines.len());
    let rest = match keep(&lines) {
        Ok(path) => {
            // The line after the last whole one.
            let line = page.matches('\n').count() + if lines[shown..].starts_with('\n') { 2 } else { 1 };
            format!("All of it is in `{path}`: read on there from line {line}.")
        }
        Err(problem) => format!("The rest was not kept: {}", clean::line(&problem, 300)),
    };
    format!("{page}\n[cut here: these are the first {shown} of {all} bytes, not a complete document. {rest}]")
}

impl Parts {
    fn add(&mut self, part: &Value) {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        match text("type") {
            Some("text") => self.texts.push(clean::result(text("text").unwrap_or_default()).into_owned()),
            Some("image") => self.add_picture(text("data").unwrap_or_default(), text("mimeType")),
            Some("audio") => self.texts.push(binary("audio", text("mimeType"), text("data"))),
            Some("resource") => self.add_resource(part.get("resource").unwrap_or(&Value::Null)),
            Some("resource_link") => {
                let said = text("description").or_else(|| text("title")).or_else(|| text("name")).unwrap_or_default();
                let uri = clean::line(text("uri").unwrap_or_default(), MAX_NAME);
                self.texts.push(format!("[link to the resource {uri}: {}]", clean::line(said, 500)));
            }
            other => {
                let kind = clean::line(other.unwrap_or("none"), 64);
                self.texts.push(format!("[content of the type `{kind}`] {}", clean::result(&part.to_string())));
            }
        }
    }

    fn add_resource(&mut self, resource: &Value) {
        let text = |name: &str| resource.get(name).and_then(Value::as_str);
        let uri = clean::line(text("uri").unwrap_or_default(), MAX_NAME);
        match (text("text"), text("blob")) {
            (Some(content), _) => self.texts.push(format!("[resource {uri}]\n{}", clean::result(content))),
            (None, Some(blob)) if text("mimeType").is_some_and(|kind| kind.starts_with("image/")) => {
                self.texts.push(format!("[resource {uri}]"));
                self.add_picture(blob, text("mimeType"));
            }
            (None, blob) => self.texts.push(format!("[resource {uri}] {}", binary("data", text("mimeType"), blob))),
        }
    }

    /// Adds a picture if its bytes are of a kind that models take, whatever the server calls it.
    fn add_picture(&mut self, data: &str, media_type: Option<&str>) {
        let is_small = self.picture_bytes + data.len() <= MAX_PICTURES;
        match is_small.then(|| picture(data)).flatten() {
            Some((kind, bytes)) => {
                self.picture_bytes += data.len();
                self.pictures.push((kind, bytes));
            }
            None => self.texts.push(binary("image", media_type, Some(data))),
        }
    }

    fn output(self, keep: Keep<'_>) -> Output {
        let Self { mut texts, pictures, .. } = self;
        let text = match texts.len() {
            1 => texts.remove(0),
            _ => texts.join("\n\n"),
        };
        let mut output = match (text.is_empty(), pictures.is_empty()) {
            (true, false) => None,
            _ => Some(Output::text(paged(text, keep))),
        };
        for (kind, bytes) in pictures {
            output = Some(match output {
                None => Output::image(kind, bytes),
                Some(output) => output.with_image(kind, bytes),
            });
        }
        output.unwrap_or_else(|| Output::text(""))
    }
}

/// Decodes a picture of a kind that models take, whatever the server calls it.
pub(crate) fn picture(data: &str) -> Option<(&'static str, Vec<u8>)> {
    let bytes = BASE64.decode(data).ok()?;
    Some((kind_of(&bytes)?, bytes))
}

/// Encodes bytes as the contract has them in JSON.
pub(crate) fn in_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Returns the kind of a picture by its first bytes.
fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Describes content that a model cannot read.
fn binary(what: &str, media_type: Option<&str>, data: Option<&str>) -> String {
    let bytes = data.map_or(0, |data| data.len() / 4 * 3);
    format!(
        "[{what} of the type `{}`, about {bytes} bytes, which cannot be shown]",
        clean::line(media_type.unwrap_or("unknown"), 64)
    )
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns whether a value is within the bounds for texts that people see.
fn is_small(value: &Value) -> bool {
    fn count(value: &Value, left: &mut usize) -> bool {
        let Some(less) = left.checked_sub(1) else { return false };
        *left = less;
        match value {
            Value::Array(items) => items.iter().all(|item| count(item, left)),
            Value::Object(fields) => fields.values().all(|value| count(value, left)),
            _ => true,
        }
    }
    let mut left = MAX_VALUES;
    count(value, &mut left) && value.to_string().len() <= MAX_DETAILS
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing::Reply;
    use proptest::prelude::*;

    const PNG: &str = "iVBORw0KGgo=";

    /// Converts a result, if it is nothing but texts in both ways.
    fn reply(result: &Value) -> Reply {
        let keep: Keep<'_> = &|_| Ok("/kept.txt".to_owned());
        let reply: Reply = of_tool(result, keep).into();
        if let Some(quick) = of_texts(&result.to_string(), keep) {
            let quick: Reply = quick.into();
            assert_eq!((&quick.text, quick.is_error), (&reply.text, reply.is_error), "{result}");
            assert!(quick.images.is_empty() && quick.details.is_null() && reply.details.is_null());
        }
        reply
    }

    #[test]
    fn results_of_texts_alone_take_the_short_way() {
        let keep: Keep<'_> = &|_| Ok("/kept.txt".to_owned());
        let is_short = |result: Value| of_texts(&result.to_string(), keep).is_some();
        let text = json!({ "type": "text", "text": "a\"b\u{7}", "annotations": { "audience": ["user"] } });
        assert!(is_short(json!({ "content": [text], "isError": false, "_meta": {}, "structuredContent": null })));
        for other in [
            json!({}),
            json!({ "content": [] }),
            json!({ "content": [text, { "type": "image", "data": PNG }] }),
            json!({ "content": [{ "type": "resource", "text": "a" }] }),
            json!({ "content": [text], "structuredContent": {} }),
            json!({ "content": vec![text.clone(); MAX_PARTS + 1] }),
            json!([text]),
        ] {
            assert!(!is_short(other.clone()), "{other}");
            reply(&other);
        }
    }

    #[test]
    fn parts_of_all_kinds_reach_the_model() {
        let reply = reply(&json!({ "content": [
            { "type": "text", "text": "a\u{1b}[31m" },
            { "type": "image", "data": PNG, "mimeType": "image/tiff" },
            { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
            { "type": "resource_link", "uri": "x://y", "name": "n" },
            { "type": "resource", "resource": { "uri": "x://z", "text": "content" } },
            { "type": "resource", "resource": { "uri": "x://b", "blob": "AAAA", "mimeType": "a/b" } },
            { "type": "hologram", "x": 1 },
        ] }));
        assert_eq!(
            reply.text,
            "a�[31m\n\n[audio of the type `audio/wav`, about 3 bytes, which cannot be shown]\n\n\
             [link to the resource x://y: n]\n\n[resource x://z]\ncontent\n\n\
             [resource x://b] [data of the type `a/b`, about 3 bytes, which cannot be shown]\n\n\
             [content of the type `hologram`] {\"type\":\"hologram\",\"x\":1}"
        );
        assert_eq!((reply.images[0].media_type.as_str(), reply.images.len()), ("image/png", 1), "by its bytes");
        assert!(!reply.is_error);
    }

    #[test]
    fn structured_content_is_shown_where_there_is_no_text() {
        let alone = reply(&json!({ "structuredContent": { "a": 1 } }));
        assert_eq!((alone.text.as_str(), &alone.details["structured"]["a"]), ("{\n  \"a\": 1\n}", &json!(1)));
        let both = reply(&json!({ "content": [{ "type": "text", "text": "one" }], "structuredContent": { "a": 1 } }));
        assert_eq!((both.text.as_str(), &both.details["structured"]["a"]), ("one", &json!(1)));
        assert_eq!(reply(&json!({})).text, "(the server returned nothing)");
        assert!(reply(&json!({ "content": [{ "type": "text", "text": "no" }], "isError": true })).is_error);
        assert!(reply(&json!({ "structuredContent": vec![0; 60_000] })).details.is_null());
    }

    #[test]
    fn long_text_is_paged_and_json_gets_lines() {
        let rows: Vec<Value> = (0..10_000).map(|n| json!({ "row": n })).collect();
        let text = Value::Array(rows).to_string();
        let kept = std::cell::RefCell::new(String::new());
        let page = paged(text.clone(), &|all| {
            *kept.borrow_mut() = all.to_owned();
            Ok("/kept.txt".to_owned())
        });
        assert!(
            page.len() < PAGE + 300 && page.contains("`/kept.txt`: read on there from line "),
            "{}",
            &page[PAGE - 100..]
        );
        let kept: Value = serde_json::from_str(&kept.borrow()).unwrap();
        assert_eq!(kept.to_string(), text, "the file has all of it");
        let shown = page.split("\n[cut here").next().unwrap();
        assert!(
            shown.ends_with(['{', '}', ',']) || shown.lines().last().unwrap().trim().starts_with('"'),
            "at the end of a line"
        );
        let lost = paged("x".repeat(PAGE + 1), &|_| Err("the disk is full".to_owned()));
        assert!(lost.ends_with("The rest was not kept: the disk is full]"));
        assert_eq!(paged("x".repeat(PAGE), &|_| panic!()).len(), PAGE);
        let lines = paged("12345678\n".repeat(10_000), &|_| Ok("/kept.txt".to_owned()));
        assert!(lines.contains("12345678\n[cut here") && lines.contains("from line 5462."), "{}", &lines[PAGE - 20..]);
        let one = paged("x".repeat(2 * PAGE), &|_| Ok("/kept.txt".to_owned()));
        assert!(one.contains("from line 1."));
    }

    proptest! {
        #[test]
        fn any_result_is_bounded_and_plain(texts in prop::collection::vec("[\\s\\S]{0,200}", 0..300), data in "[A-Za-z0-9+/=]{0,60}") {
            let mut content: Vec<Value> = texts.iter().map(|text| json!({ "type": "text", "text": text })).collect();
            reply(&json!({ "content": content, "isError": texts.len() % 2 == 0 }));
            content.push(json!({ "type": "image", "data": data }));
            let reply = reply(&json!({ "content": content }));
            prop_assert!(reply.text.len() <= PAGE + 400);
            prop_assert!(!reply.text.contains(|c: char| c.is_control() && !"\n\r\t".contains(c)));
        }
    }
}
