//! Uses names, texts and schemas from its config, including ones that no honest plugin has.

use pinion_plugin_sdk::prelude::*;
use serde_json::{Map, Value, json};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    tools: Vec<Offer>,
    commands: Vec<Offer>,
    refuse: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Offer {
    name: String,
    label: Option<String>,
    description: String,
    guidelines: Vec<String>,
    hint: Option<String>,
    writes: bool,
    says: String,
    fails: Option<String>,
    /// Number of copies; each further one has a number behind its name.
    times: Option<usize>,
    /// Length of texts, in copies of the given one.
    copies: Option<usize>,
}

#[derive(Deserialize)]
struct Anything(#[allow(dead_code)] Map<String, Value>);

impl JsonSchema for Anything {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Anything".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Own {
            schema: Map<String, Value>,
            schema_padding: usize,
        }
        let own: Own = config().unwrap_or_default();
        let mut schema = own.schema;
        schema.entry("type").or_insert_with(|| json!("object"));
        if own.schema_padding > 0 {
            schema.insert("description".to_owned(), "x".repeat(own.schema_padding).into());
        }
        schema.into()
    }
}

fn leaked(name: &str, number: usize) -> &'static str {
    match number {
        0 => name.to_owned().leak(),
        n => format!("{name}{n}").leak(),
    }
}

fn tool(offer: &Offer, number: usize) -> Tool {
    let copies = offer.copies.unwrap_or(1);
    let (says, fails) = (offer.says.clone(), offer.fails.clone());
    let run = move |_: Anything, _: &Call| match &fails {
        Some(message) => Err(Error::failed(message.clone())),
        None => Ok(says.clone()),
    };
    let mut tool = Tool::new(leaked(&offer.name, number), offer.description.repeat(copies), run);
    if let Some(label) = &offer.label {
        tool = tool.label(label.repeat(copies));
    }
    if offer.writes {
        tool = tool.writes();
    }
    offer.guidelines.iter().fold(tool, |tool, line| tool.guideline(line.repeat(copies)))
}

fn command(offer: &Offer, number: usize) -> Command {
    let (says, fails) = (offer.says.clone(), offer.fails.clone());
    let run = move |_: &str, _: &Call| match &fails {
        Some(message) => Err(message.clone()),
        None => Ok(vec![Action::Print(says.clone())]),
    };
    let command = Command::new(leaked(&offer.name, number), offer.description.clone(), run);
    match &offer.hint {
        Some(hint) => command.argument(hint.clone()),
        None => command,
    }
}

fn all<T>(offers: &[Offer], make: fn(&Offer, usize) -> T) -> Vec<T> {
    offers.iter().flat_map(|offer| (0..offer.times.unwrap_or(1)).map(move |number| make(offer, number))).collect()
}

struct Scribe;

impl Plugin for Scribe {
    fn tools() -> Vec<Tool> {
        all(&config::<Config>().unwrap_or_default().tools, tool)
    }

    fn commands() -> Vec<Command> {
        all(&config::<Config>().unwrap_or_default().commands, command)
    }

    fn init() -> Result<(), String> {
        match config::<Config>()?.refuse {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }
}

export!(Scribe, exports = [tools, commands, lifecycle], asks = { "files": "write" });
