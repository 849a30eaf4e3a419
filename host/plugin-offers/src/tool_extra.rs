//! The members of a tool's `extra` for the clients of a server: the resource that it is, and whether calls may be tasks.

use crate::offer::OfferedTool;
use crate::wording::check_line;
use pinion_protocol::served_tools::check_uri;
use pinion_protocol::{Resource, ResourceAddress, TaskSupport, UriTemplate};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// Bytes of a URI or a template; the contract names it.
const MAX_URI: usize = 2 * 1024;
/// Bytes of a media type.
const MAX_MIME_TYPE: usize = 128;
/// Bytes of a version; the contract names it.
const MAX_VERSION: usize = 256;

/// The properties of a tool that only clients of a server see.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Served {
    /// The resource that the tool is.
    pub resource: Option<Arc<Resource>>,
    /// Whether calls may become tasks.
    pub task: TaskSupport,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ResourceExtra {
    uri: Option<String>,
    uri_template: Option<String>,
    mime_type: Option<String>,
    version: Option<String>,
    #[serde(default)]
    only: bool,
}

impl Served {
    /// Returns whether the tool can be called by its name.
    pub fn is_callable(&self) -> bool {
        self.resource.as_ref().is_none_or(|resource| !resource.is_only)
    }

    /// Checks the members of a tool with this schema.
    ///
    /// # Errors
    /// A member is invalid; the text completes "tool `x` …".
    pub fn checked(tool: &OfferedTool, schema: &Value) -> Result<Self, String> {
        let resource = tool.resource.as_deref().map(|resource| resource_of(resource, schema)).transpose();
        let task = match tool.task.as_deref() {
            None => TaskSupport::None,
            Some(r#""optional""#) => TaskSupport::Optional,
            Some(r#""required""#) => TaskSupport::Required,
            Some(_) => return Err("has a `task` that is neither `optional` nor `required`".to_owned()),
        };
        Ok(Self {
            resource: resource.map_err(|problem| format!("has a `resource` that {problem}"))?.map(Arc::new),
            task,
        })
    }
}

fn resource_of(resource: &str, schema: &Value) -> Result<Resource, String> {
    let extra: ResourceExtra = serde_json::from_str(resource).map_err(|error| format!("cannot be read: {error}"))?;
    let address = match (extra.uri, extra.uri_template) {
        (Some(uri), None) => {
            bounded("uri", &uri, MAX_URI)?;
            check_uri(&uri)?;
            if schema.get("required").and_then(Value::as_array).is_some_and(|required| !required.is_empty()) {
                return Err("has a `uri`, but the tool requires arguments".to_owned());
            }
            ResourceAddress::Uri(uri)
        }
        (None, Some(template)) => {
            bounded("uri-template", &template, MAX_URI)?;
            let template = UriTemplate::parse(&template)?;
            let properties = schema.get("properties").and_then(Value::as_object);
            let is_property = |name: &&str| properties.is_some_and(|properties| properties.contains_key(*name));
            if let Some(name) = template.names().find(|name| !is_property(name)) {
                return Err(format!("has the variable `{name}`, which the input schema does not have"));
            }
            ResourceAddress::Template(template)
        }
        _ => return Err("needs either `uri` or `uri-template`".to_owned()),
    };
    for (what, text, most) in [("mime-type", &extra.mime_type, MAX_MIME_TYPE), ("version", &extra.version, MAX_VERSION)]
    {
        text.as_deref().map_or(Ok(()), |text| bounded(what, text, most))?;
    }
    Ok(Resource { address, mime_type: extra.mime_type, version: extra.version, is_only: extra.only })
}

fn bounded(what: &str, text: &str, most: usize) -> Result<(), String> {
    match text.is_empty() || text.len() > most {
        true => Err(format!("has a `{what}` without text or of more than {most} bytes")),
        false => check_line(what, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn checked(resource: Value, task: Option<&str>) -> Result<Served, String> {
        let tool = OfferedTool {
            resource: Some(resource.to_string()),
            task: task.map(str::to_owned),
            ..OfferedTool::default()
        };
        Served::checked(&tool, &json!({ "properties": { "page": {} }, "required": ["page"] }))
    }

    #[test]
    fn resource_has_an_address_whose_variables_are_arguments() {
        let resource =
            json!({ "uri-template": "manual://{page}", "mime-type": "text/markdown", "only": true, "later": 1 });
        let served = checked(resource, Some(r#""required""#)).unwrap();
        let resource = served.resource.unwrap();
        assert!(
            matches!(&resource.address, ResourceAddress::Template(template) if template.to_string() == "manual://{page}")
        );
        assert_eq!((resource.mime_type.as_deref(), resource.is_only), (Some("text/markdown"), true));
        assert_eq!(served.task, TaskSupport::Required);
    }

    #[test]
    fn invalid_members_name_the_problem() {
        for (resource, problem) in [
            (json!({}), "needs either `uri` or `uri-template`"),
            (json!({ "uri": "a://b", "uri-template": "a://{page}" }), "needs either"),
            (json!({ "uri": "a://b" }), "requires arguments"),
            (json!({ "uri": "file:///a" }), "the scheme `file`"),
            (json!({ "uri": "a".repeat(3_000) }), "more than 2048 bytes"),
            (json!({ "uri-template": "a://{leaf}" }), "the variable `leaf`"),
            (json!({ "uri-template": "a://{page}", "mime-type": "x\n" }), "U+000A"),
            (json!({ "uri-template": "a://{page}", "version": 1 }), "cannot be read"),
            (json!("a://b"), "cannot be read"),
        ] {
            let found = checked(resource.clone(), None).unwrap_err();
            assert!(found.starts_with("has a `resource` that ") && found.contains(problem), "{resource}: {found}");
        }
        let task = checked(json!({ "uri-template": "a://{page}" }), Some("true")).unwrap_err();
        assert!(task.contains("`optional`"), "{task}");
    }
}
