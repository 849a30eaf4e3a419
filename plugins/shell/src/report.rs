//! The result of a command, as the model sees it.

use crate::streams;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::process;

/// The most that the host keeps of the output in a file.
const SPILLED_BYTES: u64 = 64 * 1024 * 1024;

/// The reason why the program no longer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It exited, or received a signal from outside.
    Exited,
    /// It exceeded its time limit and was killed.
    TimedOut { after_ms: u64 },
    /// The call was cancelled and the program killed.
    Cancelled,
}

/// Formats standard output, standard error and how the program ended. A command that fails, is killed or runs out of time
/// gives a result that is marked as failed, with the same output and details.
pub(crate) fn output(ran: &process::Output, ending: Ending) -> Output {
    let (stdout, stderr) = (streams::text(&ran.stdout), streams::text(&ran.stderr));
    let truncated = stdout.truncated || stderr.truncated;
    let success = ending == Ending::Exited && ran.exit_code == Some(0);
    let mut parts = Vec::new();
    if !stdout.text.trim().is_empty() {
        parts.push(stdout.text.trim_end().to_owned());
    }
    if !stderr.text.trim().is_empty() {
        parts.push(format!("[stderr]\n{}", stderr.text.trim_end()));
    }
    parts.extend(ended(ran, ending));
    parts.extend(hint(ran, truncated));
    if parts.is_empty() {
        parts.push("[no output]".to_owned());
    }
    let details = json!({
        "exit_code": ran.exit_code,
        "signal": ran.signal,
        "success": success,
        "timed_out": matches!(ending, Ending::TimedOut { .. }),
        "cancelled": ending == Ending::Cancelled,
        "duration_ms": ran.duration_ms,
        "stdout_bytes": ran.stdout.total,
        "stderr_bytes": ran.stderr.total,
        "truncated": truncated,
        "full_output": ran.spilled_to,
    });
    let output = Output::text(parts.join("\n")).details(details);
    if success { output } else { output.failed() }
}

/// Describes how the program ended; `None` on success.
fn ended(ran: &process::Output, ending: Ending) -> Option<String> {
    let text = match (ending, ran.exit_code, ran.signal) {
        (Ending::TimedOut { after_ms }, ..) => {
            let seconds = after_ms.div_ceil(1_000);
            format!("timed out after {seconds} s and was killed; a longer timeout may help")
        }
        (Ending::Cancelled, ..) => "cancelled and killed".to_owned(),
        (Ending::Exited, Some(0), _) => return None,
        (Ending::Exited, Some(code), _) => format!("exit code {code}"),
        (Ending::Exited, None, Some(signal)) => format!("killed by signal {signal}{}", name(signal)),
        (Ending::Exited, None, None) => "ended for an unknown reason".to_owned(),
    };
    Some(format!("[{text}]"))
}

/// Says how to see the omitted output.
fn hint(ran: &process::Output, truncated: bool) -> Option<String> {
    match &ran.spilled_to {
        Some(path) if ran.stdout.total + ran.stderr.total > SPILLED_BYTES => {
            Some(format!("[first {} MiB of the output: {path}]", SPILLED_BYTES / 1024 / 1024))
        }
        Some(path) => Some(format!("[full output: {path}]")),
        None => truncated.then(|| "[to see the rest, redirect the output to a file]".to_owned()),
    }
}

fn name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::process::Captured;
    use pinion_plugin_sdk::testing::Reply;

    fn ran(stdout: &str, stderr: &str, exit_code: Option<i32>) -> process::Output {
        let captured = |text: &str| Captured { head: text.into(), tail: Vec::new(), total: text.len() as u64 };
        process::Output {
            exit_code,
            signal: None,
            stdout: captured(stdout),
            stderr: captured(stderr),
            spilled_to: None,
            duration_ms: 12,
        }
    }

    fn reply(ran: &process::Output, ending: Ending) -> Reply {
        output(ran, ending).into()
    }

    #[test]
    fn success_shows_only_the_output() {
        let reply = reply(&ran("hello\n", "", Some(0)), Ending::Exited);
        assert_eq!(reply.text, "hello");
        let expected = json!({
            "exit_code": 0, "signal": null, "success": true, "timed_out": false, "cancelled": false,
            "duration_ms": 12, "stdout_bytes": 6, "stderr_bytes": 0, "truncated": false, "full_output": null,
        });
        assert_eq!(reply.details, expected);
    }

    #[test]
    fn failure_shows_both_streams_and_the_exit_code() {
        let reply = reply(&ran("out\n", "err\n", Some(2)), Ending::Exited);
        assert_eq!(reply.text, "out\n[stderr]\nerr\n[exit code 2]");
        assert_eq!((&reply.details["exit_code"], &reply.details["success"]), (&json!(2), &json!(false)));
        assert!(reply.is_error);
    }

    #[test]
    fn missing_output_is_reported() {
        assert_eq!(reply(&ran("", "\n", Some(0)), Ending::Exited).text, "[no output]");
    }

    #[test]
    fn signal_is_named() {
        let ran = process::Output { signal: Some(11), ..ran("", "", None) };
        assert_eq!(reply(&ran, Ending::Exited).text, "[killed by signal 11 (SIGSEGV)]");
    }

    #[test]
    fn timeout_and_cancellation_keep_the_partial_output() {
        let ran = ran("so far", "", None);
        let timed_out = reply(&ran, Ending::TimedOut { after_ms: 1_500 });
        assert_eq!(timed_out.text, "so far\n[timed out after 2 s and was killed; a longer timeout may help]");
        assert_eq!((&timed_out.details["timed_out"], timed_out.is_error), (&json!(true), true));
        let cancelled = reply(&ran, Ending::Cancelled);
        assert_eq!(cancelled.text, "so far\n[cancelled and killed]");
        assert_eq!((&cancelled.details["cancelled"], &cancelled.details["success"]), (&json!(true), &json!(false)));
    }

    #[test]
    fn file_with_the_full_output_is_named() {
        let spilled = process::Output { spilled_to: Some("/tmp/out.txt".into()), ..ran("x", "", Some(0)) };
        assert_eq!(reply(&spilled, Ending::Exited).text, "x\n[full output: /tmp/out.txt]");
        let mut huge = spilled.clone();
        huge.stderr.total = SPILLED_BYTES;
        assert_eq!(
            reply(&huge, Ending::Exited).text.lines().last(),
            Some("[first 64 MiB of the output: /tmp/out.txt]")
        );
        let long = reply(&ran(&"x\n".repeat(3_000), "", Some(0)), Ending::Exited);
        assert!(long.text.ends_with("\n[to see the rest, redirect the output to a file]"));
        assert_eq!(long.details["truncated"], true);
    }
}
