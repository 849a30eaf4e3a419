//! Offers the tools and prompts that the scenarios of the MCP conformance suite expect of a server.

mod resources;
mod tasks;

use pinion_plugin_sdk::bindings::commands::exports::pinion::plugin::commands::OtherAction;
use pinion_plugin_sdk::bindings::imports::pinion::plugin::types::Content;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::questions::{self, Answer, Form, NamedQuestion, Question};
use pinion_plugin_sdk::{log, model, ui};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// A schema with keywords that other programs may not know.
const SCHEMA: &str = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
    "$defs":{"address":{"$anchor":"addressDef","type":"object",
        "properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
    "properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},
        "contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
    "allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
    "if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
    "then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}"##;
/// A schema with an argument that clients repeat in a header.
const HEADERS: &str = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},
    "required":["region"]}"#;

/// A red pixel.
pub(crate) const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0, 0, 1, 8,
    2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 0x0c, 0x49, 0x44, 0x41, 0x54, 8, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0, 0,
    3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];
/// The same in base64.
const RED: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12P4z8AAAAMBAQAY3Y2wAAAAAElFTkSuQmCC";
/// A form with a default for each type.
const DEFAULTS: &str = r#"{"type":"object","properties":{
    "name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},
    "score":{"type":"number","default":95.5},
    "status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
    "verified":{"type":"boolean","default":true}},"required":[]}"#;
/// A form with each kind of enumeration.
const ENUMS: &str = r#"{"type":"object","properties":{
    "untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
    "titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"}]},
    "legacyEnum":{"type":"string","enum":["opt1","opt2"],"enumNames":["Option One","Option Two"]},
    "untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
    "titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},
        {"const":"value2","title":"Second Choice"}]}}},"required":[]}"#;
/// A WAV file without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

struct Conformant;

impl Plugin for Conformant {
    fn tools() -> Vec<Tool> {
        let mut tools = vec![
            tool("test_simple_text", |_| Ok(Output::text("This is a simple text response for testing."))),
            tool("test_image_content", |_| Ok(Output::image("image/png", PNG.to_vec()))),
            tool("test_audio_content", |_| {
                Ok(Output::text("A sound.")
                    .details(own(json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" }))))
            }),
            tool("test_embedded_resource", |_| Ok(Output::text("A resource.").details(own(resource())))),
            tool("test_multiple_content_types", |_| {
                let output = Output::image("image/png", PNG.to_vec()).with_text("Multiple content types test:");
                Ok(output.details(own(resource())))
            }),
            tool("test_error_handling", |_| Err(Error::failed("This tool intentionally returns an error for testing"))),
            tool("test_tool_with_progress", |call| {
                for step in ["0 of 100", "50 of 100", "100 of 100"] {
                    call.progress(step);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                Ok(Output::text("done"))
            }),
            tool("test_tool_with_logging", |_| {
                for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    log::log(log::Level::Info, line);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                Ok(Output::text("done"))
            }),
            tool("test_sampling", |_| Ok(Output::text(asked_model("What is the capital of France?")?))),
            tool("test_elicitation", |_| Ok(Output::text(field("Who are you?", "username")?))),
            tool("test_input_required_result_elicitation", |_| {
                Ok(Output::text(format!("Hello, {}!", field("What is your name?", "user_name")?)))
            }),
            tool("test_input_required_result_sampling", |_| {
                Ok(Output::text(asked_model("What is the capital of France?")?))
            }),
            tool("test_input_required_result_multi_round", |_| {
                let name = field("Step 1: What is your name?", "step1")?;
                let color = field("Step 2: What is your favorite color?", "step2")?;
                Ok(Output::text(format!("{name} likes {color}")))
            }),
            tool("test_input_required_result_capabilities", |_| {
                let answer = ui::confirm("May I?").map(|_| "asked the user".to_owned());
                Ok(Output::text(answer.or_else(|_| asked_model("May I?"))?))
            }),
        ];
        tools.push(tool("test_logging_tool", |_| {
            log::log(log::Level::Info, "A line of the log.");
            Ok(Output::text("done"))
        }));
        tools.push(tool("test_missing_capability", |_| Ok(Output::text(asked_model("May I?")?))));
        for (name, schema) in
            [("test_elicitation_sep1034_defaults", DEFAULTS), ("test_elicitation_sep1330_enums", ENUMS)]
        {
            tools.push(tool(name, |_| {
                let answer =
                    ui::form("Are these right?", schema).map_err(|error| Error::failed(format!("{error:?}")))?;
                Ok(Output::text(format!("Elicitation completed: action=accept, content={answer}")))
            }));
        }
        for name in [
            "test_input_required_result_request_state",
            "test_input_required_result_tampered_state",
            "test_streaming_elicitation",
        ] {
            tools.push(tool(name, |_| {
                ui::confirm("Please confirm").map_err(|error| Error::failed(format!("{error:?}")))?;
                Ok(Output::text("state-ok"))
            }));
        }
        tools.push(tool("test_input_required_result_list_roots", |_| {
            match &asked(vec![("client_roots", Question::Directories)])?[..] {
                [Answer::Directories(places)] => Ok(Output::text(format!("{places:?}"))),
                _ => Err(Error::failed("other answers than expected")),
            }
        }));
        tools.push(tool("test_input_required_result_multiple_inputs", |_| {
            let questions = vec![
                ("user_name", Question::Form(text_form("What is your name?", "name"))),
                ("greeting", Question::Completion(request("Generate a greeting", 50))),
                ("client_roots", Question::Directories),
            ];
            match &asked(questions)?[..] {
                [Answer::Form(name), Answer::Completion(greeting), Answer::Directories(places)] => {
                    Ok(Output::text(format!("{}, {name}, in {places:?}", greeting.text)))
                }
                _ => Err(Error::failed("other answers than expected")),
            }
        }));
        for (name, schema) in [("json_schema_2020_12_tool", SCHEMA), ("test_x_mcp_header", HEADERS)] {
            let run = |input: Value, _: &Call| Ok(input.to_string());
            tools.push(Tool::with_schema(name, "Returns its arguments.", schema, run));
        }
        tools.extend(resources::tools());
        tools.extend(tasks::tools());
        tools
    }

    fn commands() -> Vec<Command> {
        let simple = Command::new("test_simple_prompt", "A simple prompt", |_, _| {
            Ok(vec![Action::Submit("This is a simple prompt for testing.".to_owned())])
        });
        let arguments = Command::new("test_prompt_with_arguments", "A prompt with arguments", |typed, _| {
            Ok(vec![Action::Submit(format!("Prompt with arguments: {typed}"))])
        });
        let asking = Command::new("test_input_required_result_prompt", "A prompt that asks", |_, _| {
            let context =
                ui::input("What context should the prompt use?", None).map_err(|error| format!("{error:?}"))?;
            Ok(vec![Action::Submit(format!("Prompt in the context: {context}"))])
        });
        let complete = |typed: &str| {
            let (before, last) = typed.rfind(' ').map_or(("", typed), |at| typed.split_at(at + 1));
            let values = ["paris", "park", "party"].into_iter().filter(|value| value.starts_with(last));
            values.map(|value| Completion { value: format!("{before}{value}"), description: None }).collect()
        };
        let image = Command::new("test_prompt_with_image", "A prompt with an image", |_, _| {
            let image = json!({ "type": "image", "data": RED, "mimeType": "image/png" });
            Ok(vec![own_prompt(image), Action::Submit("Please analyze the image above.".to_owned())])
        });
        let embedded = Command::new("test_prompt_with_embedded_resource", "A prompt with a resource", |uri, _| {
            let text = "Embedded resource content for testing.";
            let resource = json!({ "uri": uri, "mimeType": "text/plain", "text": text });
            let block = json!({ "type": "resource", "resource": resource });
            Ok(vec![own_prompt(block), Action::Submit("Please process the embedded resource above.".to_owned())])
        });
        let embedded = embedded.argument("<resourceUri>");
        vec![simple, arguments.argument("<arg1> <arg2>").complete(complete), asking, image, embedded]
    }
}

export!(Conformant, exports = [tools, commands], asks = { "ui": true, "model": true });

fn tool(name: &'static str, run: impl Fn(&Call) -> Result<Output> + 'static) -> Tool {
    Tool::new(name, "Does what the conformance suite expects.", move |_: Nothing, call| run(call)).reads().delegates()
}

/// Details with content that only MCP has.
fn own(block: Value) -> Value {
    json!({ "mcp": { "content": [block] } })
}

/// A part of a prompt that only MCP has.
fn own_prompt(block: Value) -> Action {
    let argument = Some(json!({ "content": [block] }).to_string());
    Action::Other(OtherAction { name: "mcp".to_owned(), argument })
}

fn resource() -> Value {
    let resource =
        json!({ "uri": "test://embedded-resource", "mimeType": "text/plain", "text": "An embedded resource." });
    json!({ "type": "resource", "resource": resource })
}

/// Asks for one text.
fn field(question: &str, name: &str) -> Result<String> {
    let schema = json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    let answer = ui::form(question, &schema.to_string()).map_err(|error| Error::failed(format!("{error:?}")))?;
    let values: Value = pinion_plugin_sdk::serde_json::from_str(&answer).unwrap_or_default();
    Ok(values[name].as_str().unwrap_or_default().to_owned())
}

fn text_form(question: &str, name: &str) -> Form {
    let schema = json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    Form { question: question.to_owned(), schema: schema.to_string() }
}

/// Asks several questions at once.
fn asked(named: Vec<(&str, Question)>) -> Result<Vec<Answer>> {
    let named = named.into_iter().map(|(name, question)| NamedQuestion { name: name.to_owned(), question });
    let answers = questions::ask(&named.collect::<Vec<_>>())?;
    Ok(answers.into_iter().collect::<Result<_, _>>()?)
}

fn request(prompt: &str, max_tokens: u32) -> model::CompletionRequest {
    let message = model::Message { role: model::Role::User, content: vec![Content::Text(prompt.to_owned())] };
    model::CompletionRequest {
        system: None,
        messages: vec![message],
        model: None,
        max_tokens,
        schema: None,
        extra: None,
    }
}

fn asked_model(prompt: &str) -> Result<String> {
    match model::complete(&request(prompt, 100)) {
        Ok(answer) => Ok(answer.text),
        Err(error) => Err(Error::failed(format!("{error:?}"))),
    }
}
