//! Issues and comments as the API returns them, and their text for the model.

use pinion_plugin_sdk::prelude::*;

#[derive(Deserialize)]
pub(crate) struct Issue {
    number: u32,
    title: String,
    state: String,
    #[serde(default)]
    body: Option<String>,
    user: User,
    #[serde(default)]
    labels: Vec<Label>,
    #[serde(default)]
    pub(crate) comments: u64,
    /// In lists, pull requests are issues with this member.
    #[serde(default)]
    pull_request: Option<Value>,
}

#[derive(Deserialize)]
pub(crate) struct Comment {
    #[serde(default)]
    body: Option<String>,
    user: User,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

#[derive(Deserialize)]
struct Label {
    name: String,
}

impl Issue {
    pub(crate) fn is_pull_request(&self) -> bool {
        self.pull_request.is_some()
    }

    /// The issue in a list.
    pub(crate) fn line(&self) -> String {
        format!("#{} {}{}", self.number, self.title, self.labels())
    }

    /// The issue by itself.
    pub(crate) fn markdown(&self) -> String {
        let body = self.body.as_deref().unwrap_or_default().trim();
        let (number, title, state, author) = (self.number, &self.title, &self.state, &self.user.login);
        format!("# #{number} {title}\n\n{state}, by {author}{}\n\n{body}", self.labels())
    }

    fn labels(&self) -> String {
        let names: Vec<&str> = self.labels.iter().map(|label| label.name.as_str()).collect();
        if names.is_empty() { String::new() } else { format!(" [{}]", names.join(", ")) }
    }
}

impl Comment {
    pub(crate) fn markdown(&self) -> String {
        format!("\n\n---\n\n**{}**: {}", self.user.login, self.body.as_deref().unwrap_or_default().trim())
    }
}
