//! Forms: an object schema as a series of dialogs, one for each property, or shown at once.

use crate::dialog::{DialogAnswer, DialogKind};
use crate::form_order::{ORDER, in_order, without_order};
use crate::text::without_controls;
use serde_json::{Map, Value, json};

/// Properties that a form may have, and the bytes of its schema.
const MAX_FIELDS: usize = 20;
const MAX_SCHEMA: usize = 16 * 1024;
/// Options of an enumeration.
const MAX_OPTIONS: usize = 99;
/// Bytes of a text that is entered into a form.
const MAX_TEXT: usize = 64 * 1024;
/// The option that leaves out a property.
const NONE: &str = "(none)";
/// Keywords of a property that are understood. Any other could make a demand that no dialog checks.
const KEYWORDS: &[&str] = &[
    "type",
    "title",
    "description",
    "enum",
    "enumNames",
    "oneOf",
    "items",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "format",
    "minItems",
    "maxItems",
    ORDER,
];
/// The same for the items of an array.
const ITEM_KEYWORDS: &[&str] = &["type", "enum", "anyOf"];

/// The schema of a form.
#[derive(Debug)]
pub struct FormSchema {
    fields: Vec<Field>,
    shown: Value,
}

/// A form that is filled in, one dialog after another.
#[derive(Debug)]
pub struct Filling<'a> {
    question: &'a str,
    fields: std::slice::Iter<'a, Field>,
    /// The reason that the last answer to the first of the fields did not fit.
    hint: Option<String>,
    values: Map<String, Value>,
}

/// One property of the answer.
#[derive(Debug)]
struct Field {
    name: String,
    description: String,
    is_required: bool,
    kind: FieldKind,
}

#[derive(Debug)]
enum FieldKind {
    Boolean,
    Options(Vec<EnumOption>),
    /// Any number of options.
    Several {
        options: Vec<EnumOption>,
        initial: String,
        min: u64,
        max: u64,
    },
    Text {
        initial: String,
        min: u64,
        max: u64,
        format: Option<StringFormat>,
    },
    Number {
        initial: String,
        is_integer: bool,
        min: f64,
        max: f64,
    },
}

/// The form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringFormat {
    Email,
    Uri,
    Date,
    DateTime,
}

impl StringFormat {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "email" => Self::Email,
            "uri" => Self::Uri,
            "date" => Self::Date,
            "date-time" => Self::DateTime,
            _ => return None,
        })
    }

    fn fits(self, text: &str) -> bool {
        let is_word = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        match self {
            Self::Email => text.rsplit_once('@').is_some_and(|(local, host)| {
                is_word(local) && is_word(host) && host.split('.').all(|label| !label.is_empty())
            }),
            Self::Uri => text.split_once(':').is_some_and(|(scheme, rest)| {
                let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
                scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_allowed) && is_word(rest)
            }),
            // JSON Schema allows no shorter or longer forms of ISO 8601.
            Self::Date => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
            Self::DateTime => text.get(10..11) == Some("T") && text.parse::<jiff::Timestamp>().is_ok(),
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Email => "it must be an email address",
            Self::Uri => "it must be an address such as https://example.com",
            Self::Date => "it must be a date such as 2026-01-31",
            Self::DateTime => "it must be a time such as 2026-01-31T12:00:00Z",
        }
    }
}

/// An option of an enumeration.
#[derive(Debug)]
struct EnumOption {
    value: String,
    title: String,
}

impl EnumOption {
    /// Reads the options of a schema: the values of `enum`, with optional titles in `enumNames`, or objects with
    /// `const` and `title` under another keyword. `None` if it has neither.
    fn read(schema: &Value, titled: &str) -> Result<Option<Vec<Self>>, String> {
        fn text(value: Option<&Value>) -> Option<&str> {
            value.and_then(Value::as_str).filter(|text| !text.is_empty())
        }
        let choice = |value: &str, title: &str| Self { value: value.to_owned(), title: title.to_owned() };
        let choices: Option<Vec<Self>> = match (schema.get("enum"), schema.get(titled)) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => None,
            (Some(values), None) => values.as_array().and_then(|values| {
                let titles = schema.get("enumNames").map_or(Some(values), Value::as_array)?;
                let pairs = values
                    .iter()
                    .zip(titles)
                    .map(|(value, title)| Some(choice(text(Some(value))?, text(Some(title))?)));
                pairs.collect::<Option<Vec<_>>>().filter(|_| titles.len() == values.len())
            }),
            (None, Some(options)) => options.as_array().and_then(|options| {
                let known = |option: &Value| {
                    option.as_object()?.keys().all(|key| key == "const" || key == "title").then_some(())
                };
                let pairs = options.iter().map(|option| {
                    known(option)?;
                    let value = text(option.get("const"))?;
                    Some(choice(value, option.get("title").map_or(Some(value), |title| text(Some(title)))?))
                });
                pairs.collect()
            }),
        };
        let choices = choices.filter(|choices| (1..=MAX_OPTIONS).contains(&choices.len()));
        choices
            .map(Some)
            .ok_or_else(|| format!("an enumeration must have 1 to {MAX_OPTIONS} strings, and a title for each or none"))
    }

    /// Finds the option with this value. The user saw its title.
    fn find<'a>(options: &'a [Self], value: &str) -> Result<&'a Self, String> {
        let found = options.iter().find(|option| without_controls(&option.value) == value);
        found.ok_or_else(|| "it must be one of the options".to_owned())
    }
}

impl FormSchema {
    /// Parses a schema.
    ///
    /// # Errors
    /// It is not a schema of a form; the text says why.
    pub fn parse(schema: &str) -> Result<Self, String> {
        if schema.len() > MAX_SCHEMA {
            return Err(format!("a schema of {} bytes, of at most {MAX_SCHEMA}", schema.len()));
        }
        let schema: Value = serde_json::from_str(schema).map_err(|error| format!("the schema is not JSON: {error}"))?;
        if schema.get("type") != Some(&Value::from("object")) {
            return Err("the schema must have the type `object`".to_owned());
        }
        let known =
            ["type", "properties", "required", "title", "description", "additionalProperties", "$schema", ORDER];
        if let Some(unknown) = schema.as_object().and_then(|s| s.keys().find(|key| !known.contains(&key.as_str()))) {
            return Err(format!("forms do not support the keyword `{unknown}`"));
        }
        let no_properties = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_properties);
        if properties.len() > MAX_FIELDS {
            return Err(format!("the schema has {} properties, of at most {MAX_FIELDS}", properties.len()));
        }
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(missing) = required.iter().find(|name| !properties.contains_key(**name)) {
            return Err(format!("the required property `{missing}` is not described"));
        }
        let field = |(name, schema): (&String, &Value)| Field::parse(name, schema, required.contains(&name.as_str()));
        let properties = in_order(properties, schema.get(ORDER))?;
        let fields = properties.iter().copied().map(field).collect::<Result<_, _>>()?;
        let properties: Map<String, Value> =
            properties.into_iter().map(|(name, schema)| without_order(name, schema)).collect();
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        Ok(Self { fields, shown: shown(schema) })
    }

    /// Returns the schema as people may see it: nothing in it is hidden.
    pub fn shown(&self) -> &Value {
        &self.shown
    }

    /// Returns the number of properties. A form without any asks only for consent, in a separate dialog.
    pub fn fields(&self) -> usize {
        self.fields.len()
    }

    /// Begins to fill in the form; `question` stands in front of each field.
    pub fn fill<'a>(&'a self, question: &'a str) -> Filling<'a> {
        Filling { question, fields: self.fields.iter(), hint: None, values: Map::new() }
    }

    /// Checks the values of all fields at once.
    ///
    /// # Errors
    /// A value does not match the schema; the text describes the expected value.
    pub fn values(&self, answer: &Value) -> Result<Map<String, Value>, String> {
        let mut values = Map::new();
        for field in &self.fields {
            let given = answer.get(&field.name).filter(|value| !value.is_null());
            let value = field.given(given).map_err(|problem| format!("{}: {problem}", field.name))?;
            values.extend(value.map(|value| (field.name.clone(), value)));
        }
        Ok(values)
    }
}

/// Removes control characters from the texts of a schema.
fn shown(schema: Value) -> Value {
    match schema {
        Value::String(text) => without_controls(&text).into(),
        Value::Array(items) => items.into_iter().map(shown).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, shown(value))).collect(),
        other => other,
    }
}

impl Filling<'_> {
    /// Returns the next question, which is the last one again if its answer did not fit. `None` once all are answered.
    pub fn next_question(&self) -> Option<(String, DialogKind)> {
        let field = self.fields.as_slice().first()?;
        Some((field.question(self.question, self.hint.as_deref()), field.kind()))
    }

    /// Takes the answer to the last question.
    pub fn answer(&mut self, answer: DialogAnswer) {
        let Some(field) = self.fields.as_slice().first() else { return };
        match field.value(answer) {
            Ok(value) => {
                self.values.extend(value.map(|value| (field.name.clone(), value)));
                self.hint = None;
                self.fields.next();
            }
            Err(problem) => self.hint = Some(problem),
        }
    }

    /// Returns the values, which match the schema once all questions are answered.
    pub fn values(self) -> Map<String, Value> {
        self.values
    }
}

impl Field {
    fn parse(name: &str, schema: &Value, is_required: bool) -> Result<Self, String> {
        let fail = |why: &str| Err(format!("property `{name}`: {why}"));
        let Some(fields) = schema.as_object() else { return fail("its schema is no object") };
        if let Some(unknown) = fields.keys().find(|key| !KEYWORDS.contains(&key.as_str())) {
            return fail(&format!("forms do not support the keyword `{unknown}`"));
        }
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        let description = [text("title"), text("description")].into_iter().filter(|text| !text.is_empty());
        let description = description.collect::<Vec<_>>().join(": ");
        let initial = match schema.get("default") {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let number = |key: &str, or: f64| schema.get(key).and_then(Value::as_f64).unwrap_or(or);
        let count = |key: &str, or: u64| schema.get(key).and_then(Value::as_u64).unwrap_or(or);
        let choices = |schema: &Value, titled: &str| {
            EnumOption::read(schema, titled).map_err(|why| format!("property `{name}`: {why}"))
        };
        let kind = match (choices(schema, "oneOf")?, text("type")) {
            (None, "array") => {
                let items = schema.get("items").unwrap_or(&Value::Null);
                let is_known = |keyword: &String| ITEM_KEYWORDS.contains(&keyword.as_str());
                let options = match items.as_object().is_some_and(|items| items.keys().all(is_known)) {
                    true => choices(items, "anyOf")?,
                    false => None,
                };
                let Some(options) = options.filter(|options| options.iter().all(|option| !option.title.contains(',')))
                else {
                    return fail("the items of an array must be an enumeration of strings without commas");
                };
                let chosen = schema.get("default").and_then(Value::as_array).into_iter().flatten();
                let chosen = chosen.filter_map(|value| options.iter().find(|option| *value == option.value));
                let initial = chosen.map(|option| option.title.clone()).collect::<Vec<_>>().join(", ");
                let (min, max) = (count("minItems", 0), count("maxItems", u64::MAX));
                FieldKind::Several { options, initial, min, max }
            }
            (Some(options), _) => FieldKind::Options(options),
            (None, "boolean") => FieldKind::Boolean,
            (None, "string") => {
                let format = match schema.get("format") {
                    None => None,
                    Some(named) => match StringFormat::named(named.as_str().unwrap_or_default()) {
                        Some(format) => Some(format),
                        None => return fail(&format!("forms do not support the format {named}")),
                    },
                };
                FieldKind::Text { initial, min: count("minLength", 0), max: count("maxLength", u64::MAX), format }
            }
            (None, number_type @ ("number" | "integer")) => FieldKind::Number {
                initial,
                is_integer: number_type == "integer",
                min: number("minimum", f64::NEG_INFINITY),
                max: number("maximum", f64::INFINITY),
            },
            _ => {
                return fail(
                    "its type must be `string`, `number`, `integer`, `boolean`, `array`, or an `enum` of strings",
                );
            }
        };
        Ok(Self { name: name.to_owned(), description, is_required, kind })
    }

    /// Returns the question for the property, with a hint after an answer that did not fit.
    fn question(&self, form: &str, hint: Option<&str>) -> String {
        let about = if self.description.is_empty() { String::new() } else { format!(" ({})", self.description) };
        let optional = if self.is_required { "" } else { ", optional" };
        let hint = hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
        let several = match &self.kind {
            FieldKind::Several { options, .. } => {
                let titles: Vec<&str> = options.iter().map(|option| option.title.as_str()).collect();
                format!("\nAny of these, with commas between them: {}", titles.join(", "))
            }
            _ => String::new(),
        };
        format!("{form}\n{}{about}{optional}{several}{hint}", self.name)
    }

    fn kind(&self) -> DialogKind {
        match &self.kind {
            FieldKind::Boolean => DialogKind::Confirm,
            FieldKind::Options(options) => {
                let names = options.iter().map(|option| option.title.clone());
                DialogKind::Select(names.chain((!self.is_required).then(|| NONE.to_owned())).collect())
            }
            FieldKind::Text { initial, .. }
            | FieldKind::Number { initial, .. }
            | FieldKind::Several { initial, .. } => DialogKind::Input(initial.clone()),
        }
    }

    /// Converts a value of an answer to all fields; `None` leaves out the property.
    fn given(&self, given: Option<&Value>) -> Result<Option<Value>, String> {
        let Some(given) = given else {
            return if self.is_required { Err("it must be answered".to_owned()) } else { Ok(None) };
        };
        let answer = match (&self.kind, given) {
            (FieldKind::Boolean, Value::Bool(is_yes)) => DialogAnswer::Confirmed(*is_yes),
            (FieldKind::Options(options), Value::String(chosen)) => {
                return EnumOption::find(options, chosen).map(|option| Some(option.value.as_str().into()));
            }
            (FieldKind::Several { options, min, max, .. }, Value::Array(chosen)) => {
                let option = |value: &Value| EnumOption::find(options, value.as_str().unwrap_or_default());
                return several(chosen.iter().map(option), *min, *max);
            }
            (FieldKind::Text { .. }, Value::String(text)) if text.len() <= MAX_TEXT => {
                DialogAnswer::Entered(text.clone())
            }
            (FieldKind::Number { .. }, Value::Number(number)) => DialogAnswer::Entered(number.to_string()),
            _ => return Err("it has another type".to_owned()),
        };
        self.value(answer)
    }

    /// Converts an answer; `None` leaves out the property.
    ///
    /// # Errors
    /// The answer does not match the schema; the text describes the expected value.
    fn value(&self, answer: DialogAnswer) -> Result<Option<Value>, String> {
        match (&self.kind, answer) {
            (FieldKind::Boolean, DialogAnswer::Confirmed(is_yes)) => Ok(Some(is_yes.into())),
            (FieldKind::Options(options), DialogAnswer::Selected(at)) => {
                Ok(options.get(at).map(|option| option.value.as_str().into()))
            }
            (_, DialogAnswer::Entered(text)) if text.is_empty() && !self.is_required => Ok(None),
            (FieldKind::Text { min, max, format, .. }, DialogAnswer::Entered(text)) => {
                let length = text.chars().count() as u64;
                if !(*min..=*max).contains(&length) {
                    return Err(match *max {
                        u64::MAX => format!("it must have at least {min} characters"),
                        max => format!("it must have {min} to {max} characters"),
                    });
                }
                match format {
                    Some(format) if !format.fits(&text) => Err(format.hint().to_owned()),
                    _ => Ok(Some(text.into())),
                }
            }
            (FieldKind::Several { options, min, max, .. }, DialogAnswer::Entered(text)) => {
                let option = |entered: &str| {
                    let found = options.iter().find(|option| without_controls(&option.title).trim() == entered);
                    found.ok_or_else(|| format!("`{entered}` is none of the options"))
                };
                let entered = text.split(',').map(str::trim).filter(|entered| !entered.is_empty());
                several(entered.map(option), *min, *max)
            }
            (FieldKind::Number { is_integer, min, max, .. }, DialogAnswer::Entered(text)) => {
                let value: Option<Value> = match is_integer {
                    true => text.trim().parse::<i64>().ok().map(Value::from),
                    false => text.trim().parse::<f64>().ok().filter(|n| n.is_finite()).map(Value::from),
                };
                let fits = |value: &Value| value.as_f64().is_some_and(|n| n >= *min && n <= *max);
                value.filter(fits).map(Some).ok_or_else(|| {
                    let what = if *is_integer { "an integer" } else { "a number" };
                    let from = if min.is_finite() { format!(" from {min}") } else { String::new() };
                    let to = if max.is_finite() { format!(" to {max}") } else { String::new() };
                    format!("it must be {what}{from}{to}")
                })
            }
            _ => Err("it must be answered".to_owned()),
        }
    }
}

/// Returns the values of chosen options.
fn several<'a>(
    chosen: impl Iterator<Item = Result<&'a EnumOption, String>>,
    min: u64,
    max: u64,
) -> Result<Option<Value>, String> {
    let mut values: Vec<&str> = Vec::new();
    for choice in chosen {
        let value = choice?.value.as_str();
        if values.contains(&value) {
            return Err("it has an option twice".to_owned());
        }
        values.push(value);
    }
    match (min..=max).contains(&(values.len() as u64)) {
        true => Ok(Some(values.into())),
        false if max == u64::MAX => Err(format!("it must have at least {min} of the options")),
        false => Err(format!("it must have {min} to {max} of the options")),
    }
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
