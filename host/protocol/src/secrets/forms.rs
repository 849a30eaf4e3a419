//! Derives the texts to redact from the value of a credential.
//!
//! A value may be a plain key, a header with a scheme, a URL with a password, a private key, a JWT, or a JSON document
//! that contains some of these. Public parts (a vendor's prefix, PEM armor lines, the names and addresses in a
//! document) are skipped; the rest is redacted verbatim and in common encodings.

use super::grams::WINDOW;
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

/// Signs that encoders of URLs leave as they are, besides letters and digits: by RFC 3986, in forms, in JavaScript's
/// `encodeURIComponent`, and in paths.
const KEPT_IN_URLS: &[&str] = &["-._~", "-._*", "-._~!*'()", "-._~!*'()$&+,/:;=@"];

/// Signs that encoders of JSON write as `\u00XX`: none, and those that are not safe in HTML, by Go, Gson and .NET.
const ESCAPED_IN_JSON: &[&str] = &["", "<>&", "<>&'=", "<>&'+`\""];

/// Schemes that precede a credential in a header.
const SCHEMES: &[&str] = &["bearer", "basic", "token", "apikey", "key"];

/// Minimum length of a secret without its prefix.
const MIN_SECRET: usize = 6;
/// Maximum length of a secret that is also redacted in encoded forms.
const MAX_ENCODED: usize = 4096;

/// A part of a value that is public before the offset `known` and secret from there.
struct Piece<'a> {
    text: &'a str,
    known: usize,
}

/// Returns the texts whose windows must not be output.
pub(super) fn forms(value: &str) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    add_value(value, &mut out);
    out
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

fn add_value(value: &str, out: &mut Vec<Vec<u8>>) {
    let value = value.trim();
    if value.starts_with('{')
        && let Ok(Value::Object(fields)) = serde_json::from_str(value)
    {
        return fields.iter().for_each(|(name, value)| add_field(name, value, out));
    }
    let value = without_scheme(value);
    if value.contains("://") {
        return add_user_info(value, out);
    }
    value.lines().map(str::trim).filter(|line| !line.starts_with("-----")).for_each(|line| add_line(line, out));
}

fn add_field(name: &str, value: &Value, out: &mut Vec<Vec<u8>>) {
    if PUBLIC_FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
        return;
    }
    match value {
        Value::String(text) => add_value(text, out),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| add_field(name, value, out)),
        _ => {}
    }
}

fn without_scheme(value: &str) -> &str {
    match value.split_once(' ') {
        Some((scheme, rest)) if SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) => rest.trim(),
        _ => value,
    }
}

/// Adds the user name and password of a URL.
fn add_user_info(url: &str, out: &mut Vec<Vec<u8>>) {
    let Some((_, rest)) = url.split_once("://") else { return };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, _)) = authority.rsplit_once('@') else { return };
    let (name, password) = user.split_once(':').unwrap_or(("", user));
    add_line(password, out);
    add_encoded(&Piece { text: &format!("{name}:{password}"), known: name.len() + 1 }, out);
}

fn add_line(line: &str, out: &mut Vec<Vec<u8>>) {
    let piece = Piece { text: line, known: known(line) };
    let rest = &line[piece.known..];
    if rest.len() < MIN_SECRET || line.len() < WINDOW || PLACEHOLDERS.iter().any(|word| rest.eq_ignore_ascii_case(word))
    {
        return;
    }
    out.push(from(line.as_bytes(), piece.known));
    add_encoded(&piece, out);
    // `Basic` contains a name and a password in base64.
    if let Ok(Ok(plain)) = STANDARD.decode(line).map(String::from_utf8)
        && let Some((_, password)) = plain.split_once(':')
        && password.len() >= WINDOW
    {
        out.push(password.as_bytes().to_vec());
    }
}

/// Returns the length of the public start of a key: a vendor's prefix, or the header of a JWT.
fn known(line: &str) -> usize {
    if line.starts_with("eyJ") && line.bytes().filter(|byte| *byte == b'.').count() == 2 {
        return line.find('.').map_or(0, |at| at + 1);
    }
    PREFIXES.iter().find(|prefix| line.starts_with(**prefix)).map_or(0, |prefix| prefix.len())
}

/// Returns the secret part of `text`, preceded by the public bytes that share a window with its first byte.
fn from(text: &[u8], known: usize) -> Vec<u8> {
    text[known.saturating_sub(WINDOW - 1).min(text.len())..].to_vec()
}

/// Adds the forms of a piece in base64 (at any offset), in hex, in a URL, in JSON, and reversed.
fn add_encoded(piece: &Piece<'_>, out: &mut Vec<Vec<u8>>) {
    let Piece { text, known } = *piece;
    let bytes = text.as_bytes();
    if bytes.len() > MAX_ENCODED {
        return;
    }
    for before in 0..3_usize {
        let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(bytes.iter().copied()).collect();
        let whole = padded.len() / 3 * 3;
        let encoded = STANDARD_NO_PAD.encode(&padded[..whole]);
        let start = if before == 0 { 0 } else { 4 };
        let known = ((before + known) * 4 / 3).max(start);
        let encoded = from(encoded.as_bytes(), known.max(start + WINDOW - 1)).to_vec();
        if encoded.iter().any(|byte| matches!(byte, b'+' | b'/')) {
            let of_urls = |byte: &u8| match byte {
                b'+' => b'-',
                b'/' => b'_',
                byte => *byte,
            };
            out.push(encoded.iter().map(of_urls).collect());
        }
        out.push(encoded);
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    out.push(from(hex.as_bytes(), known * 2));
    let mut reversed = from(bytes, known);
    reversed.reverse();
    out.push(reversed);
    let in_urls = KEPT_IN_URLS.iter().map(|kept| percent_encoded(text, kept));
    let in_forms = percent_encoded(text, "-._* ").replace(' ', "+");
    let in_json = ESCAPED_IN_JSON.iter().map(|escaped| json_escaped(text, escaped));
    let in_scripts = json_escaped(text, "").replace('/', r"\/");
    let others = in_urls.chain([in_forms]).chain(in_json).chain([in_scripts]).filter(|other| other != text);
    out.extend(others.map(|other| from(other.as_bytes(), known)));
    // Nothing needs this form, but a server may use it. The same in JSON would have windows of a single character, which
    // ordinary text contains.
    let all_in_url: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    out.push(from(all_in_url.as_bytes(), known * 3));
}

/// Encodes everything for a URL but letters, digits and some signs.
fn percent_encoded(text: &str, kept: &str) -> String {
    let encoded = |byte: u8| match byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}

/// Encodes a text as a string of JSON, some signs by their numbers.
fn json_escaped(text: &str, numbered: &str) -> String {
    let escaped = |sign: char| match sign {
        _ if numbered.contains(sign) => format!("\\u{:04x}", u32::from(sign)),
        '"' | '\\' => format!("\\{sign}"),
        _ => sign.to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hides(value: &str, seen: &str) -> bool {
        let forms = forms(value);
        let mut grams = super::super::grams::Grams::default();
        grams.add(forms.iter().map(Vec::as_slice));
        grams.any(seen.as_bytes())
    }

    #[test]
    fn prefix_alone_is_not_secret() {
        let key = "sk-ant-api03-Zq7Xw3Vb9Nm2Kp5L";
        assert!(!hides(key, "keys begin with sk-ant-api03-, as in sk-ant-api03-…"));
        assert!(hides(key, "Zq7Xw3Vb") && hides(key, "t-api03-Z") && hides(key, "9Nm2Kp5L"));
    }

    #[test]
    fn placeholder_keys_are_not_secret() {
        for word in ["not-needed", "placeholder", "sk-no-key-required", "ollama", "sk-1234", ""] {
            assert!(forms(word).is_empty(), "{word}");
        }
    }

    #[test]
    fn key_is_found_in_common_encodings() {
        let key = "sk-Zq7Xw3Vb9Nm2/Kp5Ld8+Rt";
        for before in ["", "x", "xy", "user:"] {
            let encoded = STANDARD.encode(format!("{before}{key}!"));
            assert!(hides(key, &encoded), "{before}");
        }
        let hex: String = key.bytes().map(|byte| format!("{byte:02X}")).collect();
        let reversed: String = key.chars().rev().collect();
        for seen in [&hex, &reversed, "Zq7Xw3Vb9Nm2%2FKp5Ld8%2BRt", "Nm2\\/Kp5", "zq7xw3vb", &key.to_lowercase()] {
            assert!(hides(key, seen), "{seen}");
        }
    }

    #[test]
    fn key_is_found_as_encoders_of_urls_and_json_write_it() {
        // Every window has a sign that some of them encode.
        let key = "Zq7 Xw3~Vb9/Nm2*Kp5<Ld8'Rt6\"Hj4+Gf1";
        for seen in [
            "Zq7+Xw3%7E",
            "Xw3%7EVb",
            "Zq7%20Xw",
            "9%2FNm2*K",
            "Vb9/Nm2*K",
            "Nm2*Kp5%3CLd8'",
            "Ld8'Rt6%22",
            "%5a%71%3",
            "Kp5\\u003cLd8",
            "Kp5\\u003CLd8\\u0027R",
            "Rt6\\\"Hj4",
            "Rt6\\u0022Hj4\\u002BGf1",
            "Vb9\\/Nm2",
        ] {
            assert!(hides(key, seen), "{seen}");
        }
        assert!(!hides(key, r"[\u0041-\u005A\u0061-\u007A]"), "a class of letters in a regular expression");
        assert!(hides("sk-Zq7Xw3", "%5A%71%37%58%77%33") && !hides("sk-Zq7Xw3Vb9Nm2", "%73%6B%2D"));
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
        assert!(hides(&document, "kiG9w0BA") && hides(&document, "MIIEvQIBADANBg"));
        for seen in ["my-project-1234", "https://oauth2.googleapis.com/token", "-----BEGIN PRIVATE KEY-----", pem_end()]
        {
            assert!(!hides(&document, seen), "{seen}");
        }
    }

    fn pem_end() -> &'static str {
        "-----END PRIVATE KEY-----"
    }

    #[test]
    fn only_the_password_of_a_url_is_redacted() {
        let url = "http://me:Zq7Xw3Vb9Nm2@proxy.example:8080/path";
        assert!(hides(url, "Zq7Xw3Vb") && !hides(url, "http://proxy.example:8080/path"));
        assert!(forms("https://proxy.example:8080").is_empty());
    }

    #[test]
    fn header_of_a_jwt_is_not_secret() {
        let token = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkw.SflKxwRJSMeKKF2QT4f";
        assert!(!hides(token, "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.") && hides(token, "SflKxwRJ"));
    }

    #[test]
    fn headers_are_credentials_by_name_or_value() {
        assert!(is_credential("X-Api-Key", "short") && is_credential("x-gateway", "gateway-Hj4Gf6Ds1Qa0"));
        assert!(
            !is_credential("x-title", "My favourite tool, v100") && !is_credential("x-team", "platform-engineering")
        );
    }
}
