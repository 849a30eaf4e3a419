//! Uses the user, other tools, models and the session as its arguments say, and reports the result of each use.

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::ui::{self, Bar, Block, Severity, Span, Style, Table};
use pinion_plugin_sdk::{invoke, model, session};

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    steps: Vec<Step>,
}

/// One use of the host.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Step {
    Confirm(String),
    /// Asks the same question this many times.
    Flood(String, u32),
    Select(String, Vec<String>),
    Input(String, String),
    Form(String, Value),
    Notify(String, u32),
    Status(String),
    /// Draws the call with this text, and the result with a table, a diff, Markdown and a bar.
    Draw(String),
    /// Draws this many rows.
    DrawRows(u32),
    Tools,
    Call(String, Value),
    Complete(Completion),
    /// Reads entries after an id, or from the start after an empty one.
    Entries(String, u32),
    Append(Value),
    /// Appends a text of this many bytes.
    AppendBytes(u32),
    /// Appends this many entries.
    AppendMany(u32),
    Title,
    SetTitle(String),
    /// Works without end.
    Spin,
}

#[derive(Deserialize, JsonSchema)]
struct Completion {
    prompt: String,
    #[serde(default)]
    model: Option<String>,
    #[serde(default = "tokens")]
    max_tokens: u32,
    #[serde(default)]
    schema: Option<Value>,
    #[serde(default)]
    bytes: usize,
    #[serde(default)]
    messages: Option<u32>,
}

fn tokens() -> u32 {
    100
}

#[derive(Deserialize)]
struct Config {
    ask_in_init: bool,
}

struct Talker;

impl Plugin for Talker {
    fn tools() -> Vec<Tool> {
        let tool = |name| Tool::new(name, "Follows a script.", talk);
        vec![
            tool("talk"),
            tool("talk_reading").reads(),
            tool("talk_delegating").reads().delegates(),
            tool("talk_writing").writes().executes().delegates(),
        ]
    }

    fn commands() -> Vec<Command> {
        let run = |typed: &str, _: &Call| {
            let steps: Vec<Step> = serde_json::from_str(typed).map_err(|error| error.to_string())?;
            Ok(vec![Action::Print(all(steps))])
        };
        let complete = |_: &str| {
            let value = format!("{:?}", ui::confirm("from a completion"));
            vec![pinion_plugin_sdk::Completion { value, description: None }]
        };
        vec![Command::new("talk", "Follows a script", run).complete(complete)]
    }

    fn init() -> Result<(), String> {
        match config::<Option<Config>>() {
            Ok(Some(Config { ask_in_init: true })) => Err(format!("init: {:?}", ui::confirm("from init"))),
            _ => Ok(()),
        }
    }
}

export!(Talker, exports = [tools, commands, lifecycle], asks = { "ui": true, "invoke": true, "model": true, "session": "write" });

use pinion_plugin_sdk::serde_json;

fn talk(arguments: Arguments, _call: &Call) -> Result<String> {
    Ok(all(arguments.steps))
}

fn all(steps: Vec<Step>) -> String {
    steps.into_iter().map(step).collect::<Vec<_>>().join("\n")
}

fn step(step: Step) -> String {
    match step {
        Step::Confirm(question) => format!("{:?}", ui::confirm(&question)),
        Step::Flood(question, times) => {
            let answers = (0..times).map(|_| format!("{:?}", ui::confirm(&question)));
            answers.collect::<Vec<_>>().join("\n")
        }
        Step::Select(question, options) => format!("{:?}", ui::select(&question, &options)),
        Step::Input(question, initial) => format!("{:?}", ui::input(&question, Some(&initial))),
        Step::Form(question, schema) => format!("{:?}", ui::form(&question, &schema.to_string())),
        Step::Notify(text, times) => {
            (0..times).for_each(|_| ui::notify(Severity::Warning, &text));
            "notified".to_owned()
        }
        Step::Status(text) => {
            ui::status(Some(&text));
            "status".to_owned()
        }
        Step::Draw(text) => draw(&text),
        Step::DrawRows(rows) => {
            let line = || vec![Span { text: "row".to_owned(), style: Style::Plain }];
            format!("{:?}", ui::draw_result(&[Block::Lines((0..rows).map(|_| line()).collect())]))
        }
        Step::Tools => invoke::tools().into_iter().map(|tool| tool.name).collect::<Vec<_>>().join(" "),
        Step::Call(name, input) => format!("{:?}", invoke::call_tool(&name, &input.to_string())),
        Step::Complete(completion) => format!("{:?}", complete(completion)),
        Step::Entries(after, limit) => {
            match session::entries(Some(after.as_str()).filter(|id| !id.is_empty()), limit) {
                Ok(entries) => {
                    entries.into_iter().map(|e| format!("{} {}", e.id, e.data)).collect::<Vec<_>>().join("\n")
                }
                Err(error) => format!("{error:?}"),
            }
        }
        Step::Append(data) => format!("{:?}", session::append(&data.to_string())),
        Step::AppendBytes(bytes) => {
            format!("{:?}", session::append(&json!("x".repeat(bytes as usize)).to_string()).map_err(short))
        }
        Step::AppendMany(times) => {
            let last = (0..times).map(|n| session::append(&n.to_string())).last();
            format!("{last:?}")
        }
        Step::Title => format!("{:?}", session::title()),
        Step::SetTitle(title) => format!("{:?}", session::set_title(&title)),
        Step::Spin => loop {
            std::hint::black_box(0);
        },
    }
}

fn short(error: session::SessionError) -> String {
    format!("{error:?}").chars().take(200).collect()
}

fn draw(text: &str) -> String {
    let span = |style| Span { text: text.to_owned(), style };
    let call = ui::draw_call(&[Block::Lines(vec![vec![span(Style::Strong), span(Style::Error)]])]);
    let table = Table { header: vec!["name".to_owned(), text.to_owned()], rows: vec![vec!["a".to_owned()]] };
    let result = ui::draw_result(&[
        Block::Table(table),
        Block::Diff(format!("-old\n+{text}")),
        Block::Markdown(format!("# {text}")),
        Block::Bar(Bar { label: text.to_owned(), done: 3, total: Some(10) }),
        Block::Other(json!({ "text": text, "new": true }).to_string()),
    ]);
    format!("{call:?} {result:?}")
}

fn complete(completion: Completion) -> Result<model::Completion, model::ModelError> {
    let Completion { prompt, model, max_tokens, schema, bytes, messages } = completion;
    let text = format!("{prompt}{}", "x".repeat(bytes));
    let message = |n: u32| model::Message {
        role: if n % 2 == 0 { model::Role::User } else { model::Role::Assistant },
        content: vec![pinion_plugin_sdk::bindings::imports::pinion::plugin::types::Content::Text(text.clone())],
    };
    model::complete(&model::CompletionRequest {
        system: Some("Be terse.".to_owned()),
        messages: (0..messages.unwrap_or(1)).map(message).collect(),
        model,
        max_tokens,
        schema: schema.map(|schema| schema.to_string()),
        extra: None,
    })
}
