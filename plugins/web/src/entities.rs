//! Character references of HTML: numeric ones, and the names that pages use.

use encoding_rs::WINDOWS_1252;
use std::borrow::Cow;

/// Bytes of a name or number between `&` and `;`.
const MAX_NAME: usize = 12;

const NAMED: &[(&str, &str)] = &[
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("copy", "©"),
    ("reg", "®"),
    ("trade", "™"),
    ("hellip", "…"),
    ("mdash", "—"),
    ("ndash", "–"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("sbquo", "‚"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("bdquo", "„"),
    ("laquo", "«"),
    ("raquo", "»"),
    ("lsaquo", "‹"),
    ("rsaquo", "›"),
    ("bull", "•"),
    ("middot", "·"),
    ("para", "¶"),
    ("sect", "§"),
    ("deg", "°"),
    ("plusmn", "±"),
    ("times", "×"),
    ("divide", "÷"),
    ("minus", "−"),
    ("frac12", "½"),
    ("frac14", "¼"),
    ("frac34", "¾"),
    ("sup1", "¹"),
    ("sup2", "²"),
    ("sup3", "³"),
    ("micro", "µ"),
    ("euro", "€"),
    ("pound", "£"),
    ("yen", "¥"),
    ("cent", "¢"),
    ("iexcl", "¡"),
    ("iquest", "¿"),
    ("larr", "←"),
    ("uarr", "↑"),
    ("rarr", "→"),
    ("darr", "↓"),
    ("harr", "↔"),
    ("rArr", "⇒"),
    ("lArr", "⇐"),
    ("le", "≤"),
    ("ge", "≥"),
    ("ne", "≠"),
    ("asymp", "≈"),
    ("equiv", "≡"),
    ("infin", "∞"),
    ("radic", "√"),
    ("sum", "∑"),
    ("prod", "∏"),
    ("int", "∫"),
    ("part", "∂"),
    ("forall", "∀"),
    ("exist", "∃"),
    ("isin", "∈"),
    ("cap", "∩"),
    ("cup", "∪"),
    ("sub", "⊂"),
    ("sup", "⊃"),
    ("and", "∧"),
    ("or", "∨"),
    ("not", "¬"),
    ("alpha", "α"),
    ("beta", "β"),
    ("gamma", "γ"),
    ("delta", "δ"),
    ("epsilon", "ε"),
    ("theta", "θ"),
    ("lambda", "λ"),
    ("mu", "μ"),
    ("pi", "π"),
    ("rho", "ρ"),
    ("sigma", "σ"),
    ("tau", "τ"),
    ("phi", "φ"),
    ("omega", "ω"),
    ("Delta", "Δ"),
    ("Sigma", "Σ"),
    ("Omega", "Ω"),
    ("Auml", "Ä"),
    ("Ouml", "Ö"),
    ("Uuml", "Ü"),
    ("auml", "ä"),
    ("ouml", "ö"),
    ("uuml", "ü"),
    ("szlig", "ß"),
    ("agrave", "à"),
    ("aacute", "á"),
    ("acirc", "â"),
    ("atilde", "ã"),
    ("aring", "å"),
    ("aelig", "æ"),
    ("ccedil", "ç"),
    ("egrave", "è"),
    ("eacute", "é"),
    ("ecirc", "ê"),
    ("euml", "ë"),
    ("igrave", "ì"),
    ("iacute", "í"),
    ("icirc", "î"),
    ("iuml", "ï"),
    ("ntilde", "ñ"),
    ("ograve", "ò"),
    ("oacute", "ó"),
    ("ocirc", "ô"),
    ("otilde", "õ"),
    ("oslash", "ø"),
    ("ugrave", "ù"),
    ("uacute", "ú"),
    ("ucirc", "û"),
    ("yacute", "ý"),
    ("Aacute", "Á"),
    ("Agrave", "À"),
    ("Aring", "Å"),
    ("AElig", "Æ"),
    ("Ccedil", "Ç"),
    ("Eacute", "É"),
    ("Egrave", "È"),
    ("Ntilde", "Ñ"),
    ("Oacute", "Ó"),
    ("Oslash", "Ø"),
    ("Uacute", "Ú"),
    ("shy", ""),
    ("zwj", ""),
    ("zwnj", ""),
    ("ensp", " "),
    ("emsp", " "),
    ("thinsp", " "),
    ("check", "✓"),
    ("cross", "✗"),
    ("star", "☆"),
    ("starf", "★"),
    ("hearts", "♥"),
    ("lbrace", "{"),
    ("rbrace", "}"),
    ("lbrack", "["),
    ("rbrack", "]"),
    ("lpar", "("),
    ("rpar", ")"),
    ("num", "#"),
    ("colon", ":"),
    ("semi", ";"),
    ("comma", ","),
    ("period", "."),
    ("excl", "!"),
    ("quest", "?"),
    ("sol", "/"),
    ("bsol", "\\"),
    ("verbar", "|"),
    ("vert", "|"),
    ("grave", "`"),
    ("lowbar", "_"),
    ("ast", "*"),
    ("plus", "+"),
    ("equals", "="),
    ("dollar", "$"),
    ("percnt", "%"),
    ("commat", "@"),
    ("Hat", "^"),
    ("Tab", "\t"),
    ("NewLine", "\n"),
];

/// Replaces the references in a text. Those that are not known stay.
pub(crate) fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split('&');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name = part.bytes().take(MAX_NAME + 1).position(|byte| byte == b';').map(|at| &part[..at]);
        match name.and_then(|name| Some((name, reference(name)?))) {
            Some((name, replaced)) => {
                decoded.push_str(&replaced);
                decoded.push_str(&part[name.len() + 1..]);
            }
            None => {
                decoded.push('&');
                decoded.push_str(part);
            }
        }
    }
    Cow::Owned(decoded)
}

fn reference(name: &str) -> Option<Cow<'static, str>> {
    let Some(number) = name.strip_prefix('#') else {
        return NAMED.iter().find(|(known, _)| *known == name).map(|(_, text)| Cow::Borrowed(*text));
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => number.parse().ok()?,
    };
    // Pages mean windows-1252 by these.
    if let Some(byte) = u8::try_from(code).ok().filter(|byte| (0x80..0xa0).contains(byte)) {
        return Some(Cow::Owned(WINDOWS_1252.decode_without_bom_handling(&[byte]).0.into_owned()));
    }
    let c = char::from_u32(code).filter(|c| *c != '\0').unwrap_or(char::REPLACEMENT_CHARACTER);
    Some(Cow::Owned(c.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_once() {
        for (text, expected) in [
            ("a &lt;b&gt; &amp;lt; &#65;&#x42; &#151; &nbsp;", "a <b> &lt; AB —  "),
            (
                "R&D &unknown; &; & &#; &#xfffffff; &toolongforaname;",
                "R&D &unknown; &; & &#; \u{fffd} &toolongforaname;",
            ),
            ("&é;", "&é;"),
            ("plain", "plain"),
        ] {
            assert_eq!(decoded(text), expected);
        }
    }
}
