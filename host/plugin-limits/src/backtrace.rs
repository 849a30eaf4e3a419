//! The functions that were active when a guest broke down.
//!
//! Names come from the name section of its modules, which toolchains leave out when they strip. They are the plugin's text:
//! bounded in number and length, and printable.

use pinion_protocol::text::one_line;
use wasmtime::{FrameInfo, WasmBacktrace};

/// Maximum number of functions that are shown.
const MAX_FRAMES: usize = 10;
/// Number of functions that wasmtime records at most: its default.
const MAX_RECORDED: usize = 20;
/// Maximum number of characters of a name.
const MAX_NAME: usize = 100;
/// Beginnings of the names of functions that only carry a panic to its end.
const OF_PANICS: &[&str] = &[
    "abort",
    "core::",
    "std::",
    "alloc::",
    "panic_abort::",
    "rust_",
    "__rust",
    "_start",
    // Go.
    "runtime.",
    // Zig.
    "debug.defaultPanic",
    "debug.FullPanic",
    "debug.panicExtra",
];

/// Lists the functions, innermost first, one a line; `None` if no module names its functions. The first functions that
/// a panic passes through are left out.
pub(crate) fn backtrace(error: &wasmtime::Error) -> Option<String> {
    let frames = error.downcast_ref::<WasmBacktrace>()?.frames();
    listed(frames.iter().map(FrameInfo::func_name))
}

fn listed<'a>(frames: impl Iterator<Item = Option<&'a str>>) -> Option<String> {
    let names: Vec<String> = frames.map(|name| name.map_or_else(|| "?".to_owned(), demangled)).collect();
    let of_panic = names.iter().take_while(|name| is_of_panic(name)).count();
    let left = if of_panic < names.len() { &names[of_panic..] } else { &names[..] };
    if left.iter().all(|name| name == "?") {
        return None;
    }
    let mut lines: Vec<String> = left.iter().take(MAX_FRAMES).map(|name| format!("  in {name}")).collect();
    if left.len() > MAX_FRAMES {
        let at_least = if names.len() >= MAX_RECORDED { "at least " } else { "" };
        lines.push(format!("  and {at_least}{} more", left.len() - MAX_FRAMES));
    }
    Some(lines.join("\n"))
}

/// Formats a name as in the source: without the hash that Rust adds.
fn demangled(name: &str) -> String {
    one_line(&format!("{:#}", rustc_demangle::demangle(name)), MAX_NAME)
}

fn is_of_panic(name: &str) -> bool {
    let name = name.trim_start_matches(['<', '&']);
    OF_PANICS.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_functions(names: &[&str]) -> Option<String> {
        listed(names.iter().map(|name| (!name.is_empty()).then_some(*name)))
    }

    #[test]
    fn functions_are_named_as_in_the_source_without_those_of_the_panic() {
        let names = [
            "abort",
            "__rustc[4ec3b5ecc6ba4af8]::rust_panic",
            "_ZN3std9panicking20rust_panic_with_hook17h0123456789abcdefE",
            "_RNvNtCs1234_7mycrate3foo3bar",
            "main.divide",
            "_ZN4core3ops8function6FnOnce9call_once17h0123456789abcdefE",
        ];
        let shown = "  in mycrate::foo::bar\n  in main.divide\n  in core::ops::function::FnOnce::call_once";
        assert_eq!(list_functions(&names).as_deref(), Some(shown));
    }

    #[test]
    fn functions_of_a_panic_are_left_out_in_every_language() {
        let trapped = [
            &["abort", "check", "count"][..],
            &["runtime.fatalpanic", "runtime.gopanic", "main.check", "main.count"],
            &["debug.defaultPanic", "debug.FullPanic((function 'defaultPanic')).outOfBounds", "plugin.check"],
            &["debug.panicExtra__anon_2717", "plugin.check"],
        ];
        for names in trapped {
            let first = list_functions(names).unwrap().lines().next().map(str::to_owned);
            assert!(first.as_ref().is_some_and(|first| first.ends_with("check")), "{first:?}");
        }
    }

    #[test]
    fn stripped_modules_have_no_backtrace() {
        assert_eq!(list_functions(&["", ""]), None);
        assert_eq!(list_functions(&[]), None);
        assert_eq!(list_functions(&["", "known", ""]).as_deref(), Some("  in ?\n  in known\n  in ?"));
    }

    #[test]
    fn names_and_their_number_are_bounded() {
        let long = format!("x\u{1b}[31m\u{202e}{}", "y".repeat(10_000));
        let shown = list_functions(&[long.as_str(); 20]).unwrap();
        assert!(shown.len() < 2_000 && shown.ends_with("\n  and at least 10 more"), "{shown}");
        let fewer = list_functions(&["f"; 19]).unwrap();
        assert!(fewer.ends_with("\n  and 9 more"), "{fewer}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
        assert_eq!(list_functions(&["std::a"; 3]).as_deref(), Some("  in std::a\n  in std::a\n  in std::a"));
    }
}
