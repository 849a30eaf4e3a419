//! The characters of a page.

use encoding_rs::{Encoding, UTF_8};

/// Bytes in which a page of HTML declares its encoding.
const DECLARED: usize = 2048;

/// Decodes a body. A byte order mark wins over the header, and the header over what the page declares; then it is UTF-8. What
/// cannot be decoded becomes `U+FFFD`.
pub(crate) fn decode(body: &[u8], header: Option<&str>, is_html: bool) -> String {
    let declared = || if is_html { declared(body) } else { None };
    let encoding = header.and_then(named).or_else(declared).unwrap_or(UTF_8);
    // Looks for a byte order mark.
    encoding.decode(body).0.into_owned()
}

/// Returns the encoding that a `content-type` names.
fn named(content_type: &str) -> Option<&'static Encoding> {
    let parameters = content_type.split(';').skip(1);
    let charset = parameters.filter_map(|parameter| parameter.split_once('='));
    let (_, label) = charset.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Encoding::for_label(label.trim().trim_matches(['"', '\'']).as_bytes())
}

/// Returns the encoding that the beginning of a page declares: `<meta charset="…">`, or in a `content`.
fn declared(body: &[u8]) -> Option<&'static Encoding> {
    let head = &body[..body.len().min(DECLARED)];
    let text: String = head.iter().map(|byte| char::from(*byte).to_ascii_lowercase()).collect();
    let metas = text.split("<meta").skip(1).map(|meta| meta.split('>').next().unwrap_or_default());
    let label = metas.filter_map(|meta| meta.split_once("charset=")).map(|(_, rest)| {
        let rest = rest.trim_start_matches(['"', '\'', ' ']);
        rest.split(['"', '\'', ' ', ';', '/']).next().unwrap_or_default().to_owned()
    });
    let encoding = label.filter_map(|label| Encoding::for_label(label.as_bytes())).next()?;
    // A page that declares UTF-16 in ASCII is not.
    Some(if encoding.is_ascii_compatible() { encoding } else { UTF_8 })
}
