//! The user.

use crate::Nothing;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json;
use pinion_plugin_sdk::ui::{self, Bar, Block, Severity, Span, Style, Table};

pub(crate) fn release(_input: Nothing, _call: &Call) -> Result<String> {
    let kinds = ["patch", "minor", "major"].map(str::to_owned);
    let kind = &kinds[ui::select("Which release?", &kinds)? as usize];
    let schema = json!({
        "type": "object",
        "properties": { "title": { "type": "string", "maxLength": 80 }, "draft": { "type": "boolean" } },
        "required": ["title"],
    });
    let about: Value = serde_json::from_str(&ui::form("About the release", &schema.to_string())?)?;
    if !ui::confirm(&format!("Publish the {kind} release {}?", about["title"]))? {
        return Err(Error::Denied("the user does not want the release".to_owned()));
    }
    ui::notify(Severity::Info, "published the release");
    ui::status(Some("released"));
    Ok(format!("published as {kind}"))
}

pub(crate) fn coverage(_input: Nothing, _call: &Call) -> Result<String> {
    let span = |text: &str, style| Span { text: text.to_owned(), style };
    let header = ["file", "lines"].map(str::to_owned).to_vec();
    let rows = vec![["src/lib.rs", "91 %"].map(str::to_owned).to_vec()];
    ui::draw_result(&[
        Block::Lines(vec![vec![span("coverage ", Style::Strong), span("91 %", Style::Success)]]),
        Block::Bar(Bar { label: "lines".to_owned(), done: 91, total: Some(100) }),
        Block::Table(Table { header, rows }),
    ])
    .ok(); // Without the grant, people see the text.
    Ok("91 % of all lines are covered".to_owned())
}
