//! A document of OpenAPI 3: its operations with the schemas of their arguments.
//!
//! The document is a stranger's. References are followed inside of it only, and within bounds; anything beyond admits more,
//! and the server checks the arguments again.

use crate::settings::Api;
use crate::yaml;
use listing::clean;
use listing::schema::{self, Fitted};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json::{self, Map};

/// Bytes of a document.
pub(crate) const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Operations of a document.
const MAX_OPERATIONS: usize = 5_000;
/// Parameters of an operation.
const MAX_PARAMETERS: usize = 200;
/// Values of a schema with all references expanded, and their nesting.
const MAX_EXPANDED: usize = 4_000;
const MAX_DEPTH: usize = 20;
/// References in a row.
const MAX_CHAIN: usize = 8;
/// Bytes of a description.
const MAX_DESCRIPTION: usize = 1_200;

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "head", "options"];
/// Header fields that are not parameters, as the specification says.
const RESERVED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];
/// Members of schemas that say nothing about values.
const NO_RULES: [&str; 5] = ["example", "examples", "xml", "externalDocs", "discriminator"];

/// The place of an argument in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    Path,
    Query,
    Header,
    Body,
}

/// An operation.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The `operationId`.
    pub(crate) id: String,
    /// In upper case.
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) description: String,
    /// The arguments, by the names of the document.
    pub(crate) arguments: Vec<(String, Place)>,
    pub(crate) input: Fitted,
}

/// The operations of a document.
#[derive(Debug)]
pub(crate) struct Document {
    /// The address that paths begin with.
    pub(crate) base: String,
    pub(crate) operations: Vec<Operation>,
    /// Operations without an `operationId`, which are left out.
    pub(crate) nameless: usize,
}

impl Document {
    /// Reads a document in JSON or YAML, and selects operations.
    ///
    /// # Errors
    /// The text is no OpenAPI 3, or names no server.
    pub(crate) fn read(text: &str, api: &Api) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("the document is larger than {MAX_BYTES} bytes"));
        }
        let text = text.trim_start_matches('\u{feff}');
        let root: Value = match text.trim_start().starts_with(['{', '[']) {
            true => serde_json::from_str(text).map_err(|error| format!("the document is not JSON: {error}"))?,
            false => yaml::parse(text).map_err(|error| format!("the document is not YAML: {error}"))?,
        };
        let version = root.get("openapi").map(|version| version.as_str().map_or(version.to_string(), str::to_owned));
        if !version.as_deref().is_some_and(|version| version.starts_with("3.")) {
            return Err("the document does not say `openapi: 3.…`".to_owned());
        }
        let base = base(&root, api)?;
        let mut document = Self { base, operations: Vec::new(), nameless: 0 };
        let reader = Reader { root: &root };
        for (path, item) in root.get("paths").and_then(Value::as_object).into_iter().flatten() {
            let item = reader.resolved(item);
            for method in METHODS {
                let Some(operation) = item.get(method).filter(|operation| operation.is_object()) else { continue };
                let Some(id) = operation.get("operationId").and_then(Value::as_str).filter(|id| !id.is_empty()) else {
                    document.nameless += 1;
                    continue;
                };
                if is_selected(api, id, path, operation) && document.operations.len() < MAX_OPERATIONS {
                    document.operations.push(reader.operation(id, method, path, item, operation));
                }
            }
        }
        Ok(document)
    }
}

fn is_selected(api: &Api, id: &str, path: &str, operation: &Value) -> bool {
    let tags = operation.get("tags").and_then(Value::as_array);
    let has_tag = |wanted: &Vec<String>| {
        tags.into_iter().flatten().filter_map(Value::as_str).any(|tag| wanted.iter().any(|wanted| wanted == tag))
    };
    api.operations.as_ref().is_none_or(|ids| ids.iter().any(|wanted| wanted == id))
        && api.tags.as_ref().is_none_or(has_tag)
        && api.path_prefix.as_ref().is_none_or(|prefix| path.starts_with(prefix.as_str()))
}

/// Returns the address that paths begin with, without a slash at its end.
fn base(root: &Value, api: &Api) -> Result<String, String> {
    let server = root.pointer("/servers/0/url").and_then(Value::as_str);
    let base = api.base_url.as_deref().or(server).unwrap_or_default().trim();
    let is_absolute = base.starts_with("https://") || base.starts_with("http://");
    if !is_absolute || base.contains(['{', '?', '#']) || base.contains(char::is_whitespace) {
        return Err("the document names no complete address of a server\nhint: set `base-url`".to_owned());
    }
    Ok(base.trim_end_matches('/').to_owned())
}

struct Reader<'a> {
    root: &'a Value,
}

impl<'a> Reader<'a> {
    /// Follows a reference to another part of the document. One that leads elsewhere becomes nothing.
    fn resolved(&self, value: &'a Value) -> &'a Value {
        let mut value = value;
        for _ in 0..MAX_CHAIN {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return value };
            value = self.target(reference).unwrap_or(&Value::Null);
        }
        &Value::Null
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        self.root.pointer(reference.strip_prefix('#').filter(|pointer| pointer.starts_with('/'))?)
    }

    fn operation(&self, id: &str, method: &str, path: &str, item: &'a Value, operation: &'a Value) -> Operation {
        let mut properties = Map::new();
        let (mut required, mut arguments) = (Vec::new(), Vec::new());
        // Parameters of the operation come before its path's, which they replace.
        let lists = [operation, item].map(|of| of.get("parameters").and_then(Value::as_array));
        for parameter in lists.into_iter().flatten().flatten().take(MAX_PARAMETERS) {
            let parameter = self.resolved(parameter);
            let text = |name: &str| parameter.get(name).and_then(Value::as_str);
            let Some(name) = text("name").filter(|name| !name.is_empty()) else { continue };
            let place = match text("in") {
                Some("path") => Place::Path,
                Some("query") => Place::Query,
                Some("header") if !RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) => Place::Header,
                // Also cookies.
                _ => continue,
            };
            if properties.contains_key(name) {
                continue;
            }
            let schema = parameter.get("schema").or_else(|| json_content(parameter));
            let mut schema = self.expanded(schema.unwrap_or(&Value::Null));
            if let (Value::Object(schema), Some(description)) = (&mut schema, text("description")) {
                schema.insert("description".to_owned(), json!(description));
            }
            if place == Place::Path || parameter.get("required").and_then(Value::as_bool) == Some(true) {
                required.push(json!(name));
            }
            properties.insert(name.to_owned(), schema);
            arguments.push((name.to_owned(), place));
        }
        let body = operation.get("requestBody").map(|body| self.resolved(body));
        if let Some((body, schema)) = body.and_then(|body| Some((body, json_content(body)?))) {
            let name = if properties.contains_key("body") { "_request_body" } else { "body" };
            if body.get("required").and_then(Value::as_bool) == Some(true) {
                required.push(json!(name));
            }
            properties.insert(name.to_owned(), self.expanded(schema));
            arguments.push((name.to_owned(), Place::Body));
        }
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        let input = schema::fitted(&schema);
        let method = method.to_ascii_uppercase();
        let description = description(operation, &method, path, &input);
        Operation { id: id.to_owned(), method, path: path.to_owned(), description, arguments, input }
    }

    /// Returns a schema with its references resolved. One that contains itself admits everything there.
    fn expanded(&self, schema: &'a Value) -> Value {
        self.expand(schema, 0, &mut Vec::new(), &mut MAX_EXPANDED.clone())
    }

    fn expand(&self, value: &'a Value, depth: usize, open: &mut Vec<&'a str>, left: &mut usize) -> Value {
        let fields = match value {
            _ if depth > MAX_DEPTH || *left == 0 => return json!({}),
            Value::Object(fields) => fields,
            Value::Array(items) => {
                *left -= 1;
                return items.iter().map(|item| self.expand(item, depth + 1, open, left)).collect();
            }
            Value::Null if depth == 0 => return json!({}),
            plain => return plain.clone(),
        };
        *left -= 1;
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            let Some(target) = self.target(reference).filter(|_| !open.contains(&reference)) else { return json!({}) };
            open.push(reference);
            let expanded = self.expand(target, depth + 1, open, left);
            open.pop();
            return expanded;
        }
        let mut expanded = Map::new();
        for (name, value) in fields.iter().filter(|(name, _)| !NO_RULES.contains(&name.as_str())) {
            expanded.insert(name.clone(), self.expand(value, depth + 1, open, left));
        }
        // OpenAPI 3.0 has no type `null`.
        if expanded.remove("nullable") == Some(Value::Bool(true))
            && let Some(name) = expanded.get("type").and_then(Value::as_str)
        {
            expanded.insert("type".to_owned(), json!([name, "null"]));
            expanded.remove("enum");
        }
        Value::Object(expanded)
    }
}

/// Returns the schema of content in JSON.
fn json_content(of: &Value) -> Option<&Value> {
    let contents = of.get("content")?.as_object()?;
    let is_json =
        |kind: &str| kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json");
    let (_, content) = contents.iter().find(|(kind, _)| is_json(kind))?;
    Some(content.get("schema").unwrap_or(&Value::Null))
}

fn description(operation: &Value, method: &str, path: &str, input: &Fitted) -> String {
    let text = |name: &str| operation.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let said = match (text("summary"), text("description")) {
        (Some(summary), Some(more)) if more != summary => format!("{summary}\n{more}"),
        (summary, more) => summary.or(more).unwrap_or_default().to_owned(),
    };
    let mut description = format!("{method} {}: {}", clean::line(path, 200), clean::text(&said, MAX_DESCRIPTION));
    if let Some(note) = &input.note {
        description.push_str("\n\n");
        description.push_str(note);
    }
    description
}

#[cfg(test)]
#[path = "document_tests.rs"]
pub(crate) mod tests;
