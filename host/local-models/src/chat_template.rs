//! Renders conversations with the chat template of a model.
//!
//! Templates are programs in Jinja that come with the model. They see the conversation only, and have a limited amount of
//! work.

use crate::error::LocalModelError;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value as TemplateValue};
use minijinja::{Environment, ErrorKind, context};
use serde_json::Value;
use serde_json::ser::Formatter;
use std::io;

/// Instructions that a template may use for one prompt.
const FUEL: u64 = 20_000_000;
/// The template of models without one: ChatML.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + \
                      '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// The template of a model.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// The template describes tools and calls in the form that replies are parsed in.
    knows_tools: bool,
}

impl ChatTemplate {
    /// Compiles a template; `None` stands for ChatML.
    ///
    /// # Errors
    /// The template is no valid Jinja.
    pub fn new(source: Option<&str>) -> Result<Self, LocalModelError> {
        let source = source.unwrap_or(CHATML);
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(template_error)?;
        environment.set_syntax(syntax);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", |value: TemplateValue| python_json(&value));
        environment.add_function("raise_exception", |message: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned("chat", source.to_owned()).map_err(template_error)?;
        let knows_tools = source.contains("tools") && source.contains("<tool_call>");
        Ok(Self { environment, knows_tools })
    }

    /// Returns whether the template describes tools. Otherwise, the system prompt must.
    pub fn knows_tools(&self) -> bool {
        self.knows_tools
    }

    /// Renders messages up to the beginning of the reply.
    ///
    /// # Errors
    /// The template refuses the messages, or works for too long.
    pub fn render(&self, messages: &[Value], tools: &[Value], thinks: bool) -> Result<String, LocalModelError> {
        let template = self.environment.get_template("chat").map_err(template_error)?;
        let messages = TemplateValue::from(Serde(messages));
        let tools = (!tools.is_empty()).then(|| TemplateValue::from(Serde(tools)));
        let context = context! {
            messages, tools, add_generation_prompt => true, enable_thinking => thinks, bos_token => "", eos_token => "",
        };
        template.render(context).map_err(template_error)
    }
}

fn template_error(error: minijinja::Error) -> LocalModelError {
    LocalModelError::Template(error.to_string())
}

/// Writes JSON as Python does, which models were trained with: a space after each comma and colon, and no escapes.
fn python_json(value: &TemplateValue) -> Result<TemplateValue, minijinja::Error> {
    let invalid = |error: serde_json::Error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string());
    let value = serde_json::to_value(value).map_err(invalid)?;
    Ok(TemplateValue::from_safe_string(spaced(&value)))
}

/// Returns a value as JSON with spaces.
pub(crate) fn spaced(value: &Value) -> String {
    struct Spaced;
    impl Formatter for Spaced {
        fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
            if first { Ok(()) } else { writer.write_all(b", ") }
        }

        fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
            if first { Ok(()) } else { writer.write_all(b", ") }
        }

        fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
            writer.write_all(b": ")
        }
    }
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    // A value in memory always has a JSON form.
    let _ = serde::Serialize::serialize(value, &mut serializer);
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The part of Qwen's template that describes tools.
    const QWEN: &str = r##"{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {{- "# Tools\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><tool_call></tool_call><|im_end|>\n" }}
{%- endif %}
{%- for message in messages[::-1] %}
    {%- if message.content is string and message.content.startswith('<tool_response>') %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content.strip() }}
    {%- for call in message.tool_calls %}
        {%- if call.function %}{%- set call = call.function %}{%- endif %}
        {{- '<tool_call>\n{"name": "' + call.name + '", "arguments": ' + (call.arguments | tojson) + '}\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"##;

    #[test]
    fn template_renders_tools_calls_and_methods_of_python() {
        let template = ChatTemplate::new(Some(QWEN)).unwrap();
        assert!(template.knows_tools());
        let tools = [json!({ "type": "function", "function": { "name": "read", "parameters": { "a": [1, "<é>"] } } })];
        let call = json!({ "function": { "name": "read", "arguments": { "path": "a" } } });
        let messages = [
            json!({ "role": "user", "content": " hi " }),
            json!({ "role": "assistant", "content": "", "tool_calls": [call] }),
        ];
        let text = template.render(&messages, &tools, false).unwrap();
        assert!(
            text.contains(r#"{"type": "function", "function": {"name": "read", "parameters": {"a": [1, "<é>"]}}}"#),
            "{text}"
        );
        assert!(text.contains("<|im_start|>user\nhi<|im_end|>\n"), "{text}");
        assert!(
            text.contains("<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>"),
            "{text}"
        );
        assert!(text.ends_with("<|im_start|>assistant\n<think>\n\n</think>\n\n"), "{text}");
        assert!(template.render(&messages, &[], true).unwrap().ends_with("<|im_start|>assistant\n"));
    }

    #[test]
    fn model_without_template_has_chatml() {
        let template = ChatTemplate::new(None).unwrap();
        assert!(!template.knows_tools());
        let text = template.render(&[json!({ "role": "user", "content": "a" })], &[], false).unwrap();
        assert_eq!(text, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
    }

    #[test]
    fn broken_and_endless_templates_are_errors() {
        assert!(ChatTemplate::new(Some("{% for %}")).is_err());
        let refused = ChatTemplate::new(Some("{{ raise_exception('no system role') }}")).unwrap();
        assert!(refused.render(&[], &[], false).unwrap_err().to_string().contains("no system role"));
        let endless =
            "{% for a in range(10000) %}{% for b in range(10000) %}{% set x = a * b %}{% endfor %}{% endfor %}";
        assert!(ChatTemplate::new(Some(endless)).unwrap().render(&[], &[], false).is_err());
    }
}
