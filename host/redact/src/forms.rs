//! Derives the texts to redact from the value of a credential.
//!
//! A value may be a plain key, a header with a scheme, a URL with a password, a private key, a JWT, or a JSON document
//! that contains some of these. Public parts (a vendor's prefix, PEM armor lines, the names and addresses in a
//! document) are skipped. Each secret part is redacted as a whole: as it is, reversed, in hex, and in base64. The search
//! reads through escapes ([`symbols`](super::symbols)), so that these need no forms.

use super::MARK;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::Value;

/// Prefixes that many keys share. The first match applies, so longer prefixes come first.
const PREFIXES: &[&str] = &[
    "sk-ant-api03-",
    "sk-ant-admin01-",
    "sk-ant-oat01-",
    "sk-ant-ort01-",
    "sk-ant-",
    "sk-svcacct-",
    "sk-service-",
    "sk-admin-",
    "sk-proj-",
    "sk-None-",
    "sk-or-v1-",
    "sk-or-",
    "sk-",
    "github_pat_",
    "tgp_v1_",
    "GOCSPX-",
    "nvapi-",
    "glpat-",
    "pplx-",
    "ya29.",
    "xai-",
    "gsk_",
    "ghp_",
    "AIza",
    "AKIA",
    "ASIA",
    "ABSK",
    "csk-",
    "1//",
    "AQ.",
    "hf_",
    "r8_",
    "fw_",
];

/// Common placeholders for servers that accept any key. These are ordinary words, which must stay readable.
const PLACEHOLDERS: &[&str] = &[
    "anything",
    "api-key",
    "api_key",
    "changeme",
    "change-me",
    "development",
    "dummy-key",
    "dummy_key",
    "fake-key",
    "lm-studio",
    "localhost",
    "no-api-key",
    "no-key-needed",
    "no-key-required",
    "not-needed",
    "not-required",
    "not-used",
    "password",
    "placeholder",
    "test-key",
    "undefined",
    "your-api-key",
    "your_api_key",
    "your-api-key-here",
    "your_api_key_here",
];

/// Fields of a JSON document that are not secret.
const PUBLIC_FIELDS: &[&str] = &[
    "account",
    "auth_provider_x509_cert_url",
    "auth_uri",
    "client_email",
    "client_id",
    "client_x509_cert_url",
    "expiration",
    "project_id",
    "quota_project_id",
    "scope",
    "token_type",
    "token_uri",
    "type",
    "universe_domain",
    "version",
];

/// Schemes that precede a credential in a header.
const SCHEMES: &[&str] = &["bearer", "basic", "token", "apikey", "key"];

/// Minimum bytes of a form, and of a secret with its prefix.
const MIN_FORM: usize = 8;
/// Minimum bytes of a secret without its prefix.
const MIN_SECRET: usize = 6;
/// Minimum number of distinct bytes in a secret. Texts with fewer are ordinary, such as a line of dashes.
const MIN_DISTINCT: usize = 3;
/// Maximum bytes of a secret that is also redacted in encoded forms. A longer one is redacted in parts of this length.
const MAX_ENCODED: usize = 4096;

/// Returns the texts that must not be output, of parts that have at least `least` secret bytes.
pub(super) fn forms(value: &str, least: usize) -> Vec<Vec<u8>> {
    let mut out = Forms { least, texts: Vec::new() };
    out.add_value(value);
    out.texts.retain(|text| text.len() >= MIN_FORM);
    out.texts
}

fn distinct(text: &str) -> usize {
    let mut seen = [false; 256];
    text.bytes().filter(|byte| !std::mem::replace(&mut seen[usize::from(byte.to_ascii_lowercase())], true)).count()
}

/// Returns whether a header contains a credential, judging by its name and its value.
pub(super) fn is_credential(name: &str, value: &str) -> bool {
    const NAMES: &[&str] = &["auth", "key", "token", "secret", "cookie", "passw", "credential", "signature"];
    let name = name.to_ascii_lowercase();
    let looks_random = value.len() >= 16
        && !value.contains(char::is_whitespace)
        && !value.contains("://")
        && value.bytes().filter(u8::is_ascii_digit).count() >= 3
        && value.bytes().any(|byte| byte.is_ascii_alphabetic());
    looks_random || NAMES.iter().any(|part| name.contains(part))
}

struct Forms {
    least: usize,
    texts: Vec<Vec<u8>>,
}

impl Forms {
    fn add_value(&mut self, value: &str) {
        let value = value.trim();
        if value.starts_with('{')
            && let Ok(Value::Object(fields)) = serde_json::from_str(value)
        {
            return fields.iter().for_each(|(name, value)| self.add_field(name, value));
        }
        let value = without_scheme(value);
        if value.contains("://") {
            return password(value).into_iter().for_each(|password| self.add_line(password));
        }
        value.lines().map(str::trim).filter(|line| !line.starts_with("-----")).for_each(|line| self.add_line(line));
    }

    fn add_field(&mut self, name: &str, value: &Value) {
        if PUBLIC_FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
            return;
        }
        match value {
            Value::String(text) => self.add_value(text),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| self.add_field(name, value)),
            _ => {}
        }
    }

    fn add_line(&mut self, line: &str) {
        let secret = &line[prefix(line).len()..];
        if secret.len() < MIN_SECRET.max(self.least)
            || line.len() < MIN_FORM
            || distinct(secret) < MIN_DISTINCT
            || PLACEHOLDERS.iter().any(|word| secret.eq_ignore_ascii_case(word))
        {
            return;
        }
        // A short one is found with the end of its prefix.
        let start = line.floor_char_boundary(line.len() - secret.len().max(MIN_FORM));
        self.add_encoded(&line.as_bytes()[start..]);
        // `Basic` contains a name and a password in base64.
        if let Ok(Ok(plain)) = STANDARD.decode(line).map(String::from_utf8)
            && let Some((_, password)) = plain.split_once(':')
            && password.len() >= self.least
        {
            self.texts.push(password.as_bytes().to_vec());
        }
    }

    /// Adds a secret as it is, reversed, in hex, and in base64 at any offset.
    fn add_encoded(&mut self, secret: &[u8]) {
        if secret.len() > MAX_ENCODED {
            return self.texts.extend(secret.chunks(MAX_ENCODED).map(<[u8]>::to_vec));
        }
        let unescaped = super::symbols::symbols(secret);
        self.texts.push(secret.to_vec());
        self.texts.push(unescaped.into_iter().rev().collect());
        self.texts.push(secret.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect());
        for before in 0..3_usize {
            let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.iter().copied()).collect();
            let encoded = STANDARD_NO_PAD.encode(&padded);
            // The digits that have no bits of other bytes.
            let (start, end) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
            self.texts.extend(encoded.as_bytes().get(start..end).map(<[u8]>::to_vec));
        }
    }
}

fn without_scheme(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, rest)) if SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) => rest.trim(),
        _ => value,
    }
}

/// Returns the password of a URL.
fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let (user, _) = rest.split(['/', '?', '#']).next()?.rsplit_once('@')?;
    Some(user.split_once(':').map_or(user, |(_, password)| password))
}

/// Returns the public start of a key: a vendor's prefix, or the header of a JWT.
pub(super) fn prefix(line: &str) -> &str {
    if line.starts_with("eyJ") && line.bytes().filter(|byte| *byte == b'.').count() == 2 {
        return line.split_inclusive('.').next().unwrap_or_default();
    }
    PREFIXES.iter().find(|prefix| line.starts_with(**prefix)).copied().unwrap_or_default()
}

// Masked secrets, such as `sk-ab******yz` in the answer of a vendor.

/// Characters of a public prefix that a mask shows.
const HEAD: usize = 3;

/// Returns the start of a key's public prefix, which identifies its mask: nothing here depends on the secret part.
/// Other credentials are not recognized.
pub(super) fn head(value: &str) -> Option<&str> {
    prefix(value.trim()).get(..HEAD)
}

pub(super) fn has_mask(text: &str) -> bool {
    text.contains("**") || text.contains("..") || text.contains('…')
}

/// Replaces every word that contains a mask and starts with `head`.
pub(super) fn without_masked(text: &str, head: &str) -> String {
    text.split_inclusive(is_boundary)
        .map(|word| {
            let (bare, end) = word.strip_suffix(is_boundary).map_or((word, ""), |bare| (bare, &word[bare.len()..]));
            match has_mask(bare) && bare.starts_with(head) && bare.trim_end_matches('.').len() > head.len() {
                true => format!("{MARK}{end}"),
                false => word.to_owned(),
            }
        })
        .collect()
}

fn is_boundary(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | ':' | '(' | ')' | '<' | '>' | '=')
}

#[cfg(test)]
mod tests {
    use super::super::matcher::{Matcher, SecretForm};
    use super::*;

    fn hides(value: &str, seen: &str) -> bool {
        let forms: Vec<SecretForm> = forms(value, 0).iter().map(|form| SecretForm::new(form, 0)).collect();
        !Matcher::new(&forms).scan(seen.as_bytes()).marks.is_empty()
    }

    #[test]
    fn key_is_secret_only_as_a_whole() {
        let key = "sk-ant-api03-Zq7Xw3Vb9Nm2Kp5L";
        assert!(hides(key, key) && hides(key, "Zq7Xw3Vb9Nm2Kp5L") && hides(key, "zq7xw3vb9nm2kp5l"));
        for part in ["sk-ant-api03-", "sk-ant-api03-Zq7Xw3Vb9Nm2Kp5", "q7Xw3Vb9Nm2Kp5L", "Zq7Xw3Vb-9Nm2Kp5L"] {
            assert!(!hides(key, part), "{part}");
        }
    }

    #[test]
    fn placeholder_keys_are_not_secret() {
        for word in [
            "not-needed",
            "placeholder",
            "sk-no-key-required",
            "ollama",
            "sk-1234",
            "",
            "----------",
            "0000000000001111",
        ] {
            assert!(forms(word, 0).is_empty(), "{word}");
        }
    }

    #[test]
    fn short_parts_are_left_out_where_a_minimum_is_demanded() {
        for short in
            ["hunter2-hunter", "sk-Zq7Xw3Vb9Nm2", "http://me:hunter2-hunter@proxy", r#"{"password":"hunter2-hunter"}"#]
        {
            assert!(forms(short, 16).is_empty() && !forms(short, 0).is_empty(), "{short}");
        }
        assert!(!forms("sk-Zq7Xw3Vb9Nm2Kp5L", 16).is_empty());
    }

    #[test]
    fn key_is_found_in_common_encodings() {
        let key = "sk-Zq7Xw3Vb9Nm2/Kp5Ld8+Rt";
        for before in ["", "x", "xy", "user:"] {
            let encoded = STANDARD.encode(format!("{before}{key}!"));
            assert!(hides(key, &encoded) && hides(key, &encoded.replace('+', "-").replace('/', "_")), "{before}");
            assert!(hides(key, &format!("{}\n{}", &encoded[..9], &encoded[9..])), "{before}");
        }
        let hex: String = key.bytes().map(|byte| format!("{byte:02X}")).collect();
        let reversed: String = key.chars().rev().collect();
        let all_in_url: String = key.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let all_in_json: String = key.bytes().map(|byte| format!("\\u{byte:04X}")).collect();
        for seen in [&hex, &reversed, &all_in_url, &all_in_json, &key.to_lowercase(), &format!("{key}{key}")] {
            assert!(hides(key, seen), "{seen}");
        }
    }

    #[test]
    fn key_is_found_as_encoders_of_urls_and_json_write_it() {
        let key = "Zq7 Xw3~Vb9/Nm2*Kp5<Ld8'Rt6\"Hj4+Gf1\\Ds2";
        for seen in [
            "Zq7+Xw3%7EVb9%2FNm2*Kp5%3CLd8'Rt6%22Hj4%2BGf1%5CDs2",
            "Zq7%20Xw3~Vb9/Nm2%2aKp5%3cLd8%27Rt6%22Hj4+Gf1%5cDs2",
            "Zq7 Xw3~Vb9/Nm2*Kp5\\u003cLd8\\u0027Rt6\\u0022Hj4\\u002BGf1\\\\Ds2",
            "Zq7 Xw3~Vb9\\/Nm2*Kp5<Ld8'Rt6\\\"Hj4+Gf1\\\\Ds2",
            "Zq7%2520Xw3~Vb9%252FNm2*Kp5%253CLd8'Rt6%2522Hj4%252BGf1%255CDs2",
        ] {
            assert!(hides(key, seen), "{seen}");
        }
        assert!(hides("pass%41word%zz", "pass%2541word%25zz") && hides("pass%41word%zz", "pass%41word%zz"));
    }

    #[test]
    fn only_secret_fields_of_a_document_are_redacted() {
        let pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqh\nkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n";
        let document = serde_json::json!({
            "type": "service_account", "project_id": "my-project-1234", "private_key": pem,
            "client_email": "robot@my-project-1234.iam.gserviceaccount.com",
            "token_uri": "https://oauth2.googleapis.com/token",
        });
        let document = document.to_string();
        assert!(hides(&document, "kiG9w0BAQEFAASC") && hides(&document, "MIIEvQIBADANBgkqh"));
        for seen in [
            "my-project-1234",
            "https://oauth2.googleapis.com/token",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
        ] {
            assert!(!hides(&document, seen), "{seen}");
        }
    }

    #[test]
    fn only_the_password_of_a_url_is_redacted() {
        let url = "http://me:Zq7Xw3Vb9Nm2@proxy.example:8080/path";
        assert!(hides(url, "Zq7Xw3Vb9Nm2") && !hides(url, "http://me@proxy.example:8080/path"));
        assert!(hides(url, &STANDARD.encode("me:Zq7Xw3Vb9Nm2")) && hides("Basic bWU6WnE3WHczVmI5Tm0y", "Zq7Xw3Vb9Nm2"));
        assert!(forms("https://proxy.example:8080", 0).is_empty());
    }

    #[test]
    fn header_of_a_jwt_is_not_secret() {
        let (header, rest) = ("eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.", "eyJzdWIiOiIxMjM0NTY3ODkw.SflKxwRJSMeKKF2QT4f");
        let token = format!("{header}{rest}");
        assert!(!hides(&token, header) && hides(&token, rest));
    }

    #[test]
    fn long_value_is_redacted_in_parts() {
        let long: String = (0..3000).map(|number| format!("{number:04x}")).collect();
        assert!(hides(&long, &long) && hides(&long, &long[..MAX_ENCODED]));
    }

    #[test]
    fn headers_are_credentials_by_name_or_value() {
        assert!(is_credential("X-Api-Key", "short") && is_credential("x-gateway", "gateway-Hj4Gf6Ds1Qa0"));
        assert!(
            !is_credential("x-title", "My favourite tool, v100") && !is_credential("x-team", "platform-engineering")
        );
    }
}
