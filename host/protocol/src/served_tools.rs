//! Properties of tools that matter only to the clients of a server that offers them.

use crate::definition::ToolDefinition;
use std::fmt;
use std::sync::Arc;

/// Maximum variables of a template.
const MAX_VARIABLES: usize = 16;
/// Schemes that clients take for something other than a resource of this server.
const FOREIGN_SCHEMES: &[&str] = &["file", "http", "https", "data", "skill"];

/// A tool with its properties for the clients of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedTool {
    /// The tool.
    pub definition: Arc<ToolDefinition>,
    /// The resource that it is, in addition or only.
    pub resource: Option<Arc<Resource>>,
    /// Support for calls whose results clients fetch later.
    pub task: TaskSupport,
}

impl ServedTool {
    /// Returns whether the tool can be called by its name. Others are only read as resources.
    pub fn is_callable(&self) -> bool {
        self.resource.as_ref().is_none_or(|resource| !resource.is_only)
    }
}

/// A resource, which a call of a tool reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its address.
    pub address: ResourceAddress,
    /// The media type of texts.
    pub mime_type: Option<String>,
    /// A text that changes when the content does.
    pub version: Option<String>,
    /// True if the tool is nothing else.
    pub is_only: bool,
}

/// The address of a resource, or of all resources of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceAddress {
    /// One resource. Its tool is called without arguments.
    Uri(String),
    /// Any number of resources. The variables are the arguments of the tool.
    Template(UriTemplate),
}

/// Support for calls whose results clients fetch later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// No call is announced as one.
    #[default]
    None,
    /// Calls of clients that support it are.
    Optional,
    /// All calls are; other clients cannot call the tool.
    Required,
}

/// A template of URIs: RFC 6570, level 1, with a variable for at most a segment of the path each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriTemplate {
    text: String,
    /// The text before each variable, and its name.
    variables: Vec<(String, String)>,
    /// The text after the last variable.
    end: String,
}

impl UriTemplate {
    /// Parses a template with at least one variable.
    ///
    /// # Errors
    /// The text is not such a template; the error says why, as in "has …".
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut variables, mut rest) = (Vec::<(String, String)>::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("has a variable that does not end")?;
            let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !is_name {
                return Err(format!("has the variable `{{{name}}}`: a name consists of a-z, A-Z, 0-9 and _"));
            }
            if before.is_empty() && !variables.is_empty() {
                return Err(format!("has nothing between `{{{name}}}` and the variable before it"));
            }
            if variables.iter().any(|(_, other)| other == name) || variables.len() == MAX_VARIABLES {
                return Err(format!("has a variable twice, or more than {MAX_VARIABLES}"));
            }
            variables.push((before.to_owned(), name.to_owned()));
            rest = after;
        }
        match (variables.first(), rest.contains('}')) {
            (None, _) => Err("has no variable such as `{name}`".to_owned()),
            (_, true) => Err("has a `}` without a variable".to_owned()),
            (Some((start, _)), false) => {
                check_uri(start)?;
                Ok(Self { text: text.to_owned(), end: rest.to_owned(), variables })
            }
        }
    }

    /// Returns the names of the variables in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(_, name)| name.as_str())
    }

    /// Returns the values of the variables in a URI; `None` if the template does not cover it. A value reaches to the first
    /// occurrence of the text that follows it.
    pub fn values(&self, uri: &str) -> Option<Vec<(&str, String)>> {
        let mut rest = uri.strip_prefix(self.variables.first()?.0.as_str())?;
        let mut values = Vec::with_capacity(self.variables.len());
        for (at, (_, name)) in self.variables.iter().enumerate() {
            let (value, after) = match self.variables.get(at + 1) {
                Some((between, _)) => rest.split_once(between.as_str())?,
                None => (rest.strip_suffix(self.end.as_str())?, ""),
            };
            values.push((name.as_str(), decoded(value)?));
            rest = after;
        }
        Some(values)
    }
}

impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Checks that a text begins like the URI of a resource of a plugin.
///
/// # Errors
/// The error says why not, as in "has …".
pub fn check_uri(uri: &str) -> Result<(), String> {
    let scheme = uri.split_once("://").map(|(scheme, _)| scheme).ok_or("has no scheme such as `manual://`")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'+' | b'.' | b'-'));
    if !is_scheme || FOREIGN_SCHEMES.contains(&scheme) {
        return Err(format!("has the scheme `{scheme}`, which is not one of its own"));
    }
    match uri
        .bytes()
        .all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'))
    {
        true => Ok(()),
        false => Err("has a character that no URI has".to_owned()),
    }
}

/// Decodes the value of a variable: at least one character, and no separators of URI parts.
fn decoded(value: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |b: u8| char::from(b).to_digit(16);
                (u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?, after)
            }
            (b'%' | b'/' | b'?' | b'#', _) => return None,
            (other, after) => (*other, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(template: &str, uri: &str) -> Option<Vec<String>> {
        let template = UriTemplate::parse(template).unwrap();
        template.values(uri).map(|values| values.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    #[test]
    fn template_covers_the_uris_that_it_expands_to() {
        let template = "x://a/{id}/data-{part}.json";
        assert_eq!(values(template, "x://a/12/data-b.json").unwrap(), ["id=12", "part=b"]);
        assert_eq!(values(template, "x://a/%C3%A4%2F../data-b.json").unwrap(), ["id=ä/..", "part=b"]);
        for uri in [
            "x://a/1/2/data-b.json",
            "x://a//data-b.json",
            "x://a/12/data-.json",
            "x://a/12/data-b.jsonl",
            "x://a/%C3/data-b.json",
            "x://a/%zz/data-b.json",
            "x://a/%/data-b.json",
            "x://a/1?q/data-b.json",
            "y://a/12/data-b.json",
            "",
        ] {
            assert_eq!(values(template, uri), None, "{uri}");
        }
        assert_eq!(UriTemplate::parse(template).unwrap().names().collect::<Vec<_>>(), ["id", "part"]);
    }

    #[test]
    fn templates_that_could_be_read_in_two_ways_are_refused() {
        for template in ["x://a", "x://{a}{b}", "x://{a}/{a}", "x://{}", "x://{a b}", "x://{a", "x://{a}}", "{a}://b"] {
            assert!(UriTemplate::parse(template).is_err(), "{template}");
        }
    }

    #[test]
    fn plugin_has_a_scheme_of_its_own() {
        for uri in ["manual://start", "git+x.y-1://a?b#c"] {
            assert_eq!(check_uri(uri), Ok(()), "{uri}");
        }
        for uri in [
            "file:///etc/passwd",
            "https://a",
            "skill://a/SKILL.md",
            "FILE://a",
            "start",
            "x:a",
            "x://a b",
            "x://\u{1b}[2J",
            "://a",
        ] {
            assert!(check_uri(uri).is_err(), "{uri}");
        }
    }
}
