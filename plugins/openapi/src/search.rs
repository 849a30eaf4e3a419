//! Tools that find and call operations that are not listed.

use crate::document::Operation;
use crate::request::Route;
use crate::settings::Settings;
use crate::source::{self, Age};
use listing::clean;
use listing::search::{Described, found};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json::Map;

/// Names of the tools.
pub(crate) const SEARCH: &str = "openapi_search";
pub(crate) const CALL: &str = "openapi_call";

/// Bytes of all operations that a search shows.
const MAX_SHOWN: usize = 32 * 1024;
/// Operations that a search shows.
const LIMIT: usize = 5;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// Words for what the operation should do, or a part of its name.
    query: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CallArguments {
    /// The interface, as the search names it.
    api: String,
    /// The operation, as the search names it.
    operation: String,
    /// Arguments that match the schema of the operation.
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// The tool that finds operations.
pub(crate) fn search_tool() -> Tool {
    Tool::new(SEARCH, "Finds operations of HTTP interfaces by words; returns their descriptions and schemas.", search)
        .label("search operations")
        .reads()
}

/// The tool that calls an operation that is not listed.
pub(crate) fn call_tool() -> Tool {
    Tool::new(CALL, format!("Calls an operation that `{SEARCH}` found."), call)
        .label("call an operation")
        .reads()
        .network()
        .approved_by(&["api", "operation"])
}

/// Names of tools that have an implementation of their own.
pub(crate) fn own(name: &str) -> Option<Tool> {
    match name {
        SEARCH => Some(search_tool()),
        CALL => Some(call_tool()),
        _ => None,
    }
}

fn search(arguments: Search, _: &Call) -> Result<String> {
    let settings = Settings::read().map_err(Error::failed)?;
    let documents: Vec<_> = settings
        .apis
        .iter()
        .filter_map(|(name, api)| Some((name, source::document(name, api, Age::Any).ok()?)))
        .collect();
    let all = documents
        .iter()
        .flat_map(|(name, document)| document.operations.iter().map(move |operation| (name.as_str(), operation)));
    fn described<'a>((name, operation): &'a (&str, &Operation)) -> Described<'a> {
        let Operation { id, description, input, .. } = operation;
        Described { name: id, label: name, description, schema: &input.schema }
    }
    let found = found(&arguments.query, all, described);
    let mut text = String::new();
    for (name, operation) in found.iter().take(LIMIT) {
        let about = json!({ "api": name, "operation": operation.id });
        let description = clean::quoted(&operation.description, 1_500);
        let shown = format!(
            "{}\n{description}schema of `arguments`: {}\n\n",
            clean::line(&about.to_string(), 1_024),
            operation.input.schema
        );
        if text.len() + shown.len() > MAX_SHOWN && !text.is_empty() {
            text.push_str("[more operations match; narrow the search]\n");
            break;
        }
        text.push_str(clean::head(&shown, MAX_SHOWN));
    }
    Ok(if text.is_empty() { "No operation matches.".to_owned() } else { text })
}

fn call(arguments: CallArguments, _: &Call) -> Result<Output> {
    let settings = Settings::read().map_err(Error::failed)?;
    let unknown = |what: &str, name: &str| {
        Error::NotFound(format!("there is no {what} `{}`; find one with `{SEARCH}`", clean::line(name, 80)))
    };
    let api = settings.apis.get(&arguments.api).ok_or_else(|| unknown("interface", &arguments.api))?;
    let document = source::document(&arguments.api, api, Age::Any).map_err(Error::failed)?;
    let operation = document.operations.iter().find(|operation| operation.id == arguments.operation);
    let operation = operation.ok_or_else(|| unknown("operation", &arguments.operation))?;
    Route::of(&arguments.api, &document.base, operation).call(api, arguments.arguments)
}
