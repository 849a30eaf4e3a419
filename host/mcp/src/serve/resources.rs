//! Tools that clients read as resources.

use super::LIST_TTL_MS;
use super::convert::{self, MAX_OWN, OWN_CONTENT};
use super::offered::OfferedReply;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinion_protocol::{Content, Resource, ResourceAddress, ServedTool};
use rmcp::model::{self, CacheScope, ErrorData, ReadResourceResult, ResourceContents, ResourceTemplate};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Bytes of a URI that a client reads or subscribes to.
pub(super) const MAX_URI: usize = 8 << 10;
/// The media type of texts without another one.
const TEXT: &str = "text/plain";

/// Returns the tools that are separate resources.
pub(super) fn listed(tools: &[ServedTool]) -> Vec<model::Resource> {
    let mut seen = HashSet::new();
    let resources = tools.iter().filter_map(|tool| match tool.resource.as_deref()? {
        Resource { address: ResourceAddress::Uri(uri), mime_type, .. } => Some((tool, uri, mime_type)),
        Resource { address: ResourceAddress::Template(_), .. } => None,
    });
    let resource = |(tool, uri, mime_type): (&ServedTool, &String, &Option<String>)| {
        let resource = model::Resource::new(uri, &tool.definition.name)
            .with_title(&tool.definition.label)
            .with_description(&tool.definition.description);
        resource.with_mime_type(mime_type.as_deref().unwrap_or(TEXT))
    };
    resources.filter(|(_, uri, _)| seen.insert(uri.as_str())).map(resource).collect()
}

/// Returns the tools that are resources of a template.
pub(super) fn templates(tools: &[ServedTool]) -> Vec<ResourceTemplate> {
    let mut seen = HashSet::new();
    let templates = tools.iter().filter_map(|tool| match tool.resource.as_deref()? {
        Resource { address: ResourceAddress::Template(template), mime_type, .. } => {
            Some((tool, template.to_string(), mime_type))
        }
        Resource { address: ResourceAddress::Uri(_), .. } => None,
    });
    let template = |(tool, template, mime_type): (&ServedTool, String, &Option<String>)| {
        let template = ResourceTemplate::new(template, &tool.definition.name)
            .with_title(&tool.definition.label)
            .with_description(&tool.definition.description);
        template.with_mime_type(mime_type.as_deref().unwrap_or(TEXT))
    };
    templates.filter(|(_, template, _)| seen.insert(template.clone())).map(template).collect()
}

/// Finds the tool that reads a URI, and its arguments: the first one with this URI, or else the first one whose template covers
/// it.
pub(super) fn find<'a>(tools: &'a [ServedTool], uri: &str) -> Option<(&'a ServedTool, Value)> {
    if uri.len() > MAX_URI {
        return None;
    }
    let exact = tools.iter().find(|tool| match tool.resource.as_deref() {
        Some(Resource { address: ResourceAddress::Uri(own), .. }) => own == uri,
        _ => false,
    });
    let covered = || {
        tools.iter().find_map(|tool| match &tool.resource.as_deref()?.address {
            ResourceAddress::Template(template) => {
                let values = template.values(uri)?.into_iter();
                let arguments: Map<_, _> = values.map(|(name, value)| (name.to_owned(), value.into())).collect();
                Some((tool, Value::Object(arguments)))
            }
            ResourceAddress::Uri(_) => None,
        })
    };
    exact.map(|tool| (tool, json!({}))).or_else(covered)
}

/// Converts the result of a call that read a resource.
///
/// # Errors
/// The call failed.
pub(super) fn contents(
    uri: &str,
    resource: Option<&Resource>,
    reply: OfferedReply,
) -> Result<ReadResourceResult, ErrorData> {
    let output = reply.output;
    if output.is_error {
        return Err(ErrorData::internal_error(convert::text(&output), Some(json!({ "uri": uri }))));
    }
    let mime_type = resource.and_then(|resource| resource.mime_type.as_deref()).unwrap_or(TEXT);
    let own = output.details.as_ref().and_then(|details| details.get(OWN_CONTENT)?.get("contents")?.as_array());
    let mut contents: Vec<ResourceContents> = match own {
        Some(parts) => parts.iter().take(MAX_OWN).filter_map(|part| own_part(uri, mime_type, part)).collect(),
        None => output.content.iter().filter_map(|part| content(uri, mime_type, part)).collect(),
    };
    if contents.is_empty() {
        contents.push(ResourceContents::text("", uri).with_mime_type(mime_type));
    }
    Ok(ReadResourceResult::new(contents).with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
}

fn content(uri: &str, mime_type: &str, part: &Content) -> Option<ResourceContents> {
    match part {
        Content::Text { text } => Some(ResourceContents::text(text, uri).with_mime_type(mime_type)),
        Content::Image(image) => Some(ResourceContents::blob(image.base64(), uri).with_mime_type(&image.media_type)),
        Content::Thinking(_) | Content::ToolCall(_) => None,
    }
}

/// Reads a part that a plugin made for MCP clients. One of an unknown form is left out.
fn own_part(uri: &str, mime_type: &str, part: &Value) -> Option<ResourceContents> {
    let text = |name: &str| part.get(name).and_then(Value::as_str);
    let mime_type = text("mimeType").unwrap_or(mime_type);
    let content = match (text("text"), text("blob")) {
        (Some(text), None) => ResourceContents::text(text, uri),
        (None, Some(blob)) => {
            STANDARD.decode(blob).ok()?;
            ResourceContents::blob(blob, uri)
        }
        _ => return None,
    };
    Some(content.with_mime_type(mime_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tests::tool;
    use pinion_protocol::{Image, ToolOutput, UriTemplate};
    use std::sync::Arc;

    fn served(name: &str, address: ResourceAddress) -> ServedTool {
        let resource = Resource { address, mime_type: None, version: None, is_only: false };
        ServedTool { resource: Some(Arc::new(resource)), ..tool(name) }
    }

    fn at(name: &str, uri: &str) -> ServedTool {
        served(name, ResourceAddress::Uri(uri.to_owned()))
    }

    fn serve_template(name: &str, template: &str) -> ServedTool {
        served(name, ResourceAddress::Template(UriTemplate::parse(template).unwrap()))
    }

    fn read(output: ToolOutput) -> Result<Value, ErrorData> {
        let reply = OfferedReply { output, is_fault: false, ledger: None };
        contents("a://b", None, reply).map(|result| serde_json::to_value(result.contents).unwrap())
    }

    #[test]
    fn exact_address_comes_before_a_template_and_the_first_one_wins() {
        let tools = [
            serve_template("any", "a://{x}"),
            at("one", "a://b"),
            at("two", "a://b"),
            serve_template("other", "a://{y}"),
            tool("none"),
        ];
        let found = |uri| find(&tools, uri).map(|(tool, arguments)| (tool.definition.name.clone(), arguments));
        assert_eq!(found("a://b"), Some(("one".to_owned(), json!({}))));
        assert_eq!(found("a://c%20d"), Some(("any".to_owned(), json!({ "x": "c d" }))));
        assert_eq!(found("a://c/d"), None);
        assert_eq!(listed(&tools).iter().map(|resource| resource.name.as_str()).collect::<Vec<_>>(), ["one"]);
        assert_eq!(templates(&tools).len(), 2);
    }

    #[test]
    fn content_is_that_of_the_result_or_what_was_made_for_clients() {
        let mut output = ToolOutput::text("x");
        output.content.push(Content::Image(Image { media_type: "image/png".to_owned(), data: vec![0] }));
        let expected = json!([{ "uri": "a://b", "mimeType": "text/plain", "text": "x" },
                              { "uri": "a://b", "mimeType": "image/png", "blob": "AA==" }]);
        assert_eq!(read(output.clone()).unwrap(), expected);
        let parts =
            json!([{ "uri": "file:///etc/passwd", "mimeType": "audio/wav", "blob": "AA==" }, { "blob": "!" }, 1]);
        output.details = Some(json!({ "mcp": { "contents": parts } }));
        assert_eq!(read(output).unwrap(), json!([{ "uri": "a://b", "mimeType": "audio/wav", "blob": "AA==" }]));
        assert_eq!(read(ToolOutput::default()).unwrap()[0]["text"], "", "a resource that is there is not empty");
    }

    #[test]
    fn failed_call_is_an_error_with_the_address() {
        let failed = read(ToolOutput { is_error: true, ..ToolOutput::text("denied: no") }).unwrap_err();
        assert_eq!((failed.message.as_ref(), failed.data), ("denied: no", Some(json!({ "uri": "a://b" }))));
    }
}
