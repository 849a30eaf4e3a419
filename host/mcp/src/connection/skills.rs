//! Skills that a server offers (extension `io.modelcontextprotocol/skills`, SEP-2640).
//!
//! Skills are listed with the resources, and their files are read as resources: when someone wants one, and never before. A file
//! counts only if it has the size and the digest of the list, and the beginning of a `SKILL.md` must say the same as the list.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinion_protocol::text::one_line;
use rmcp::model::{
    ClientRequest, ListSkillsRequest, PaginatedRequestParams, SKILL_MD, ServerResult, Skill, SkillFrontmatter,
    SkillResources,
};
use serde_json::{Value, json};

use super::{Connection, RequestFailure};
use crate::error::McpError;
use crate::limits::MAX_PAGES;
use crate::request::CallContext;

/// Maximum skills of a server, and files of one; others are dropped.
const MAX_SKILLS: usize = 256;
const MAX_FILES: usize = 1_024;
/// Maximum characters of a skill's description in a list.
const MAX_DESCRIPTION: usize = 1_024;

/// The skills that a server listed last. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Skills(Arc<Mutex<Option<BTreeMap<String, Skill>>>>);

impl Skills {
    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<String, Skill>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn has_skills(&self) -> bool {
        self.info().is_some_and(|info| info.capabilities.supports_skills())
    }

    /// Adds the server's skills to the first page of its resources.
    pub(super) async fn with_skills(
        &self,
        page: String,
        call: &CallContext,
        limit: Duration,
    ) -> Result<String, RequestFailure> {
        if !self.has_skills() {
            return Ok(page);
        }
        let skills = self.list_skills(call, limit).await?;
        let Ok(mut value) = serde_json::from_str::<Value>(&page) else { return Ok(page) };
        let Some(resources) = value.get_mut("resources").and_then(Value::as_array_mut) else { return Ok(page) };
        for skill in skills.into_values() {
            let SkillFrontmatter { name, description, .. } = &skill.frontmatter;
            let title = one_line(&format!("skill {name}: {description}"), MAX_DESCRIPTION);
            resources.retain(|resource| resource.get("uri").and_then(Value::as_str) != Some(&skill.uri));
            resources.push(json!({ "uri": skill.uri, "name": name, "title": title, "mimeType": "text/markdown" }));
        }
        Ok(value.to_string())
    }

    /// Lists the skills whose entries are valid, and keeps them to verify files.
    async fn list_skills(
        &self,
        call: &CallContext,
        limit: Duration,
    ) -> Result<BTreeMap<String, Skill>, RequestFailure> {
        let mut skills = BTreeMap::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let message: ClientRequest = ListSkillsRequest { params, ..Default::default() }.into();
            let ServerResult::ListSkillsResult(page) = self.send(message, call, limit, "skills/list").await? else {
                return Err(McpError::sent(&self.server, "answered `skills/list` with another result").into());
            };
            let is_usable = |skill: &Skill| {
                let has_room = !matches!(&skill.resources, SkillResources::Files(files) if files.len() > MAX_FILES);
                has_room && skill.validate().is_ok()
            };
            let room = MAX_SKILLS.saturating_sub(skills.len());
            skills.extend(page.skills.into_iter().filter(is_usable).take(room).map(|skill| (skill.uri.clone(), skill)));
            cursor = page.next_cursor.filter(|_| skills.len() < MAX_SKILLS);
            if cursor.is_none() {
                break;
            }
        }
        *self.skills.lock() = Some(skills.clone());
        Ok(skills)
    }

    /// Checks the content of a resource that was read, if it is a file of a skill.
    pub(super) async fn verify_skill(
        &self,
        uri: &str,
        result: &str,
        call: &CallContext,
        limit: Duration,
    ) -> Result<(), RequestFailure> {
        if !self.has_skills() {
            return Ok(());
        }
        let is_listed = self.skills.lock().is_some();
        if !is_listed && uri.ends_with(SKILL_MD) {
            self.list_skills(call, limit).await?;
        }
        let skills = self.skills.lock().clone().unwrap_or_default();
        let problem = skills.values().find_map(|skill| check(skill, uri, result).err());
        match problem {
            None => Ok(()),
            Some(problem) => {
                let text = format!("serves another content of `{}` than it lists: {problem}", one_line(uri, 300));
                Err(McpError::sent(&self.server, text).into())
            }
        }
    }
}

/// Checks a file against a skill. Succeeds if it is not one of the skill's.
fn check(skill: &Skill, uri: &str, result: &str) -> Result<(), String> {
    let file = match &skill.resources {
        SkillResources::Files(files) => files.iter().find(|file| file.uri == uri),
        _ => None,
    };
    if file.is_none() && skill.uri != uri {
        return Ok(());
    }
    let result: Value = serde_json::from_str(result).map_err(|error| error.to_string())?;
    let contents = result.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let [content] = contents else { return Err(format!("{} contents instead of one", contents.len())) };
    let text = content.get("text").and_then(Value::as_str);
    let bytes = match (text, content.get("blob").and_then(Value::as_str)) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(blob)) => STANDARD.decode(blob).map_err(|error| error.to_string())?,
        _ => return Err("neither a text nor bytes".to_owned()),
    };
    if let Some(file) = file {
        file.verify(&bytes).map_err(|error| one_line(&error.to_string(), 500))?;
    }
    match skill.uri == uri {
        true => compare(&String::from_utf8_lossy(&bytes), &skill.frontmatter),
        false => Ok(()),
    }
}

/// Compares the frontmatter of a `SKILL.md` with the listed one: all fields that are plain texts, without regard to how they
/// are broken into lines.
fn compare(text: &str, listed: &SkillFrontmatter) -> Result<(), String> {
    let fields = frontmatter(text).ok_or("it has no frontmatter")?;
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut expected: BTreeMap<&str, &str> =
        BTreeMap::from([("name", listed.name.as_str()), ("description", listed.description.as_str())]);
    expected.extend(listed.extra.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))));
    for (name, value) in expected {
        match fields.get(name) {
            Some(written) if plain(written) == plain(value) => {}
            _ => return Err(format!("its `{}` differs", one_line(name, 64))),
        }
    }
    let is_listed = |name: &String| matches!(name.as_str(), "name" | "description") || listed.extra.contains_key(name);
    match fields.keys().find(|name| !is_listed(name)) {
        Some(name) => Err(format!("its `{}` is not listed", one_line(name, 64))),
        None => Ok(()),
    }
}

/// Returns the top-level fields of a frontmatter, with the texts of scalars. Nested values are left as they are written.
fn frontmatter(text: &str) -> Option<BTreeMap<String, String>> {
    let mut lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
    lines.next().filter(|line| line.trim_end() == "---")?;
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    let mut last = String::new();
    for line in lines {
        if line.trim_end() == "---" {
            fields.values_mut().for_each(|value| *value = scalar(value));
            return Some(fields);
        }
        let is_field = !line.starts_with([' ', '\t', '#', '-']) && !line.trim().is_empty();
        match line.split_once(':').filter(|_| is_field) {
            Some((name, value)) => {
                last = name.trim().trim_matches(['"', '\'']).to_owned();
                if fields.insert(last.clone(), value.trim().to_owned()).is_some() {
                    return None;
                }
            }
            None if line.trim_start().starts_with('#') => {}
            None => {
                let value = fields.get_mut(&last)?;
                value.push('\n');
                value.push_str(line.trim());
            }
        }
    }
    None
}

/// Returns the text of a scalar: plain, quoted, or a block.
fn scalar(written: &str) -> String {
    let written = written.trim();
    let block = ["|", ">", "|-", ">-", "|+", ">+"];
    if let Some((first, rest)) = written.split_once('\n')
        && block.contains(&first.trim())
    {
        return rest.to_owned();
    }
    if let Some(inner) = written.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return inner.replace("''", "'");
    }
    let is_quoted = written.len() > 1 && written.starts_with('"') && written.ends_with('"');
    let joined = written.replace('\n', " ");
    match serde_json::from_str::<String>(&joined) {
        Ok(text) if is_quoted => text,
        _ => written.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::SkillResource;

    const TEXT: &str = "---\nname: pdf\ndescription: \"Fills forms: all\"\n# a comment\nlicense: MIT\n---\nBody.\n";

    fn skill(text: &str) -> Skill {
        let uri = "skill://pdf/SKILL.md";
        let files =
            vec![SkillResource::from_bytes(uri, text.as_bytes()), SkillResource::from_bytes("skill://pdf/a", b"a")];
        let frontmatter = SkillFrontmatter::new("pdf", "Fills forms: all").with_field("license", "MIT");
        Skill::new(uri, frontmatter, SkillResources::Files(files))
    }

    fn read(uri: &str, text: &str) -> String {
        json!({ "contents": [{ "uri": uri, "text": text }] }).to_string()
    }

    #[test]
    fn files_must_have_the_size_and_the_digest_of_the_list() {
        let skill = skill(TEXT);
        skill.validate().unwrap();
        let uri = skill.uri.as_str();
        assert_eq!(check(&skill, uri, &read(uri, TEXT)), Ok(()));
        assert!(check(&skill, uri, &read(uri, &TEXT.replace("Body", "Evil"))).unwrap_err().contains("digest"));
        assert!(check(&skill, uri, &read(uri, &format!("{TEXT}more"))).unwrap_err().contains("bytes"));
        let blob = json!({ "contents": [{ "uri": "skill://pdf/a", "blob": STANDARD.encode("a") }] }).to_string();
        assert_eq!(check(&skill, "skill://pdf/a", &blob), Ok(()));
        assert!(check(&skill, "skill://pdf/a", &read("skill://pdf/a", "b")).is_err());
        for strange in [json!({}), json!({ "contents": [] }), json!({ "contents": [{ "text": "a" }, { "text": "b" }] })]
        {
            assert!(check(&skill, "skill://pdf/a", &strange.to_string()).is_err());
        }
        // It is a file of another kind.
        assert_eq!(check(&skill, "file:///x", &read("file:///x", "x")), Ok(()));
    }

    #[test]
    fn frontmatter_must_be_the_listed_one() {
        for other in [
            TEXT.replace("Fills forms", "Sends keys"),
            TEXT.replace("license: MIT\n", ""),
            TEXT.replace("license: MIT", "license: MIT\nallowed-tools: bash"),
            TEXT.replace("name: pdf", "name: pdf\nname: pdf"),
            TEXT.replace("---\n", ""),
        ] {
            let skill = skill(&other);
            assert!(check(&skill, &skill.uri, &read(&skill.uri, &other)).is_err(), "{other}");
        }
        for same in [
            TEXT.replace("\"Fills forms: all\"", "'Fills forms: all'"),
            TEXT.replace("\"Fills forms: all\"", ">-\n  Fills forms:\n  all"),
            TEXT.replace("\"Fills forms: all\"", "Fills forms:\n  all"),
        ] {
            let skill = skill(&same);
            assert_eq!(check(&skill, &skill.uri, &read(&skill.uri, &same)), Ok(()), "{same}");
        }
    }
}
