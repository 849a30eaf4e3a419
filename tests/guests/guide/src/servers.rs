//! Servers and stored values.

use crate::{Nothing, repository};
use pinion_plugin_sdk::http::Request;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::secrets;
use pinion_plugin_sdk::storage::{self, Scope};

pub(crate) fn latest_release(_input: Nothing, _call: &Call) -> Result<String> {
    let url = format!("https://api.github.com/repos/{}/releases/latest", repository()?);
    let mut request = Request::get(url);
    if secrets::has("github") {
        request = request.credential("github");
    }
    let release: Value = request.send()?.success()?.json()?;
    Ok(release["tag_name"].as_str().unwrap_or("no release").to_owned())
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Fact {
    text: String,
}

pub(crate) fn remember(input: Fact, _call: &Call) -> Result<String> {
    let count = storage::update(Scope::Workspace, "facts", |facts: &mut Vec<String>| {
        facts.push(input.text.clone());
        Ok(facts.len())
    })?;
    Ok(format!("{count} facts"))
}
