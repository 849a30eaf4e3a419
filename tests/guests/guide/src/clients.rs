//! Clients of `pinion mcp serve`.

use crate::Nothing;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::questions::{self, Answer, Form, NamedQuestion, Question};
use pinion_plugin_sdk::{Resource, serde_json};

#[derive(Deserialize, JsonSchema)]
struct Page {
    page: String,
}

pub(crate) fn handbook() -> Tool {
    let read = |input: Page, call: &Call| Ok(std::fs::read_to_string(call.path(&format!("doc/{}.md", input.page))?)?);
    let resource = Resource::template("handbook://{page}").mime_type("text/markdown");
    Tool::new("handbook", "Returns a page of the handbook.", read).reads().resource(resource)
}

pub(crate) fn introduce(_input: Nothing, _call: &Call) -> Result<String> {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let form = Form { question: "Who are you?".to_owned(), schema: schema.to_string() };
    let named = |name: &str, question| NamedQuestion { name: name.to_owned(), question };
    let answers = questions::ask(&[named("person", Question::Form(form)), named("places", Question::Directories)])?;
    match answers.into_iter().collect::<Result<Vec<_>, _>>()?.as_slice() {
        [Answer::Form(person), Answer::Directories(places)] => {
            let person: Value = serde_json::from_str(person)?;
            Ok(format!("{} works in {} directories", person["name"], places.len()))
        }
        _ => Err(Error::failed("other answers than expected")),
    }
}
