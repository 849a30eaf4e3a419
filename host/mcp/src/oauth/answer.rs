//! Answers of authorization servers with members of the wrong type, whose meaning is clear.

use serde_json::{Map, Value};

/// Members that are whole seconds.
const SECONDS: [&str; 5] =
    ["expires_in", "refresh_token_expires_in", "interval", "client_secret_expires_at", "client_id_issued_at"];
/// Members that are texts.
const TEXTS: [&str; 4] = ["client_id", "client_secret", "user_code", "device_code"];
/// Ending of the names of members that are lists of texts.
const LISTS: &str = "_supported";
/// Other members that are lists of texts.
const MORE_LISTS: [&str; 4] = ["authorization_servers", "redirect_uris", "grant_types", "response_types"];

/// Returns the body of an answer with its members in the types of the standards.
///
/// Seconds may be written as a text or with a fraction, `scope` as a list, and lists as a text with blanks. A lifetime that cannot be
/// read counts as unknown: the server says when a token has expired.
pub(super) fn repaired(body: Vec<u8>) -> Vec<u8> {
    let Ok(Value::Object(mut members)) = serde_json::from_slice(&body) else { return body };
    let before = members.clone();
    repair(&mut members);
    if members == before {
        return body;
    }
    serde_json::to_vec(&members).unwrap_or(body)
}

fn repair(members: &mut Map<String, Value>) {
    for name in SECONDS {
        let Some(value) = members.get(name).filter(|value| !value.is_u64()) else { continue };
        match seconds(value) {
            Some(seconds) => drop(members.insert(name.to_owned(), seconds.into())),
            None => drop(members.remove(name)),
        }
    }
    for name in TEXTS {
        if let Some(Value::Number(number)) = members.get(name) {
            let text = number.to_string();
            members.insert(name.to_owned(), text.into());
        }
    }
    match members.get("scope") {
        Some(Value::Array(scopes)) => {
            let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
            let scope = scopes.join(" ");
            members.insert("scope".to_owned(), scope.into());
        }
        Some(Value::String(_)) | None => {}
        Some(_) => drop(members.remove("scope")),
    }
    for (name, value) in members.iter_mut() {
        if (name.ends_with(LISTS) || MORE_LISTS.contains(&name.as_str()))
            && let Value::String(text) = &value
        {
            *value = text.split_whitespace().collect();
        }
    }
    let has_token = members.get("access_token").is_some_and(Value::is_string);
    if has_token && !members.get("token_type").is_some_and(Value::is_string) {
        members.insert("token_type".to_owned(), "Bearer".into());
    }
}

/// Returns whole seconds, rounded down.
fn seconds(value: &Value) -> Option<u64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok()?,
        value => value.as_f64()?,
    };
    // A token whose lifetime is not a number of seconds is not older than this program.
    (0.0..=f64::from(u32::MAX)).contains(&number).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_of_the_wrong_type_are_repaired() {
        for (given, expected) in [
            (json!({ "expires_in": "3600" }), json!({ "expires_in": 3600 })),
            (json!({ "expires_in": 3600.0 }), json!({ "expires_in": 3600 })),
            (json!({ "expires_in": "3599.9", "interval": "5" }), json!({ "expires_in": 3599, "interval": 5 })),
            (json!({ "expires_in": null, "interval": -1 }), json!({})),
            (json!({ "expires_in": "soon" }), json!({})),
            (json!({ "scope": ["a", "b", 1] }), json!({ "scope": "a b" })),
            (json!({ "scope": [] }), json!({ "scope": "" })),
            (json!({ "scope": null }), json!({})),
            (json!({ "client_id": 7 }), json!({ "client_id": "7" })),
            (json!({ "scopes_supported": "a b" }), json!({ "scopes_supported": ["a", "b"] })),
            (json!({ "access_token": "x" }), json!({ "access_token": "x", "token_type": "Bearer" })),
        ] {
            let body = repaired(given.to_string().into_bytes());
            assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), expected, "{given}");
        }
    }

    #[test]
    fn other_answers_stay_as_they_are() {
        for body in ["", "x", "[1]", r#"{"expires_in": 3600,  "scope": "a"}"#, r#"{"error":"invalid_grant"}"#] {
            assert_eq!(repaired(body.into()), body.as_bytes());
        }
    }
}
