//! Reads issues of GitHub, Forgejo and Gitea, which have the same API for them.

mod issue;

use issue::{Comment, Issue};
use pinion_plugin_sdk::current_config;
use pinion_plugin_sdk::http::Request;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde::de::DeserializeOwned;

/// The user's section `[plugins.forge-issues.config]`.
#[derive(Deserialize)]
#[serde(default)]
struct Config {
    /// The address of the API, without a slash at its end.
    api: String,
    /// The name of the secret with a token; requests have no token without it.
    credential: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self { api: "https://api.github.com".to_owned(), credential: None }
    }
}

#[derive(Deserialize, JsonSchema)]
struct List {
    /// Such as `rust-lang/rust`.
    repository: String,
    /// Only issues with this label.
    label: Option<String>,
    /// Closed issues instead of open ones.
    #[serde(default)]
    closed: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Read {
    /// Such as `rust-lang/rust`.
    repository: String,
    number: u32,
}

struct ForgeIssues;

impl Plugin for ForgeIssues {
    fn tools() -> Vec<Tool> {
        vec![
            Tool::new("issue_list", "Lists the latest 30 issues of a repository: numbers, titles and labels.", list)
                .network(),
            Tool::new("issue_read", "Reads one issue with its first 30 comments.", read).network(),
        ]
    }

    fn commands() -> Vec<Command> {
        let fix = |typed: &str, _: &Call| match typed.trim().split_once('#') {
            Some((repository, number)) if number.parse::<u32>().is_ok() => Ok(vec![Action::Submit(format!(
                "Read issue {number} of {repository} with issue_read, find its cause in this workspace, and propose a fix."
            ))]),
            _ => Err("name an issue, such as /issue owner/repository#12".to_owned()),
        };
        vec![
            Command::new("issue", "Find the cause of an issue and propose a fix", fix)
                .argument("<owner/repository#number>"),
        ]
    }
}

fn list(input: List, call: &Call) -> Result<Output> {
    let mut path = format!("/repos/{}/issues?per_page=30&limit=30", repository(&input.repository)?);
    path.push_str(if input.closed { "&state=closed" } else { "&state=open" });
    if let Some(label) = &input.label {
        path.push_str(&format!("&labels={}", encoded(label)));
    }
    let mut issues: Vec<Issue> = get(&path, call)?;
    issues.retain(|issue| !issue.is_pull_request());
    let lines: Vec<String> = issues.iter().map(Issue::line).collect();
    let text = if lines.is_empty() { "no issues".to_owned() } else { lines.join("\n") };
    Ok(Output::text(text).details(json!({ "issues": lines.len() })))
}

fn read(input: Read, call: &Call) -> Result<Output> {
    let path = format!("/repos/{}/issues/{}", repository(&input.repository)?, input.number);
    let issue: Issue = get(&path, call)?;
    let mut text = issue.markdown();
    if issue.comments > 0 {
        call.check()?;
        let comments: Vec<Comment> = get(&format!("{path}/comments?per_page=30&limit=30"), call)?;
        let shown = comments.len();
        comments.iter().for_each(|comment| text.push_str(&comment.markdown()));
        if (shown as u64) < issue.comments {
            text.push_str(&format!("\n\n({} more comments)", issue.comments - shown as u64));
        }
    }
    Ok(Output::text(text).markdown())
}

/// Requests a path of the API. The host inserts the token, which this plugin never sees.
fn get<T: DeserializeOwned>(path: &str, call: &Call) -> Result<T> {
    let config: Config = current_config().map_err(Error::failed)?;
    call.progress(&format!("requesting {path}"));
    let mut request = Request::get(format!("{}{path}", config.api)).header("accept", "application/json");
    if let Some(secret) = config.credential {
        request = request.credential(secret);
    }
    Ok(request.send()?.success()?.json()?)
}

/// Checks the name of a repository, which becomes a part of the path.
fn repository(name: &str) -> Result<&str> {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            && !part.starts_with('.')
    };
    match name.split_once('/') {
        Some((owner, name_)) if is_part(owner) && is_part(name_) => Ok(name),
        _ => Err(Error::invalid_input(format!("`{name}` is no repository: name it as OWNER/REPOSITORY"))),
    }
}

/// Encodes a value for a query.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

export!(ForgeIssues, exports = [tools, commands], asks = { "http": true, "secrets": true });

#[cfg(test)]
mod tests;
