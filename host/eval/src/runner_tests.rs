use super::*;
use crate::engine::{EngineFuture, SpendReport};
use crate::evaluators::{CommandOutcome, RepeatedCalls};
use crate::load::parse_set;
use futures_util::future::BoxFuture;
use pinion_protocol::{RunEnd, StopReason, Usage};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Writes the file `out` and answers with the prompt. Prompts select failures.
#[derive(Default)]
struct ScriptedEngine {
    running: AtomicUsize,
    most: AtomicUsize,
    workspaces: Mutex<Vec<PathBuf>>,
    limits: Mutex<Vec<CaseLimits>>,
    user_stop: CancellationToken,
    /// Released when so many agents work at the same time.
    together: Option<Arc<tokio::sync::Barrier>>,
}

impl TrialEngine for ScriptedEngine {
    fn run<'a>(
        &'a self,
        task: AgentTask<'a>,
        spent: SpendReport<'a>,
        stop: &'a CancellationToken,
    ) -> EngineFuture<'a, Trajectory> {
        Box::pin(async move {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            self.workspaces.lock().unwrap().push(task.workspace.to_owned());
            self.limits.lock().unwrap().push(task.limits);
            if let Some(together) = &self.together {
                together.wait().await;
            }
            std::fs::write(task.workspace.join("out"), task.prompts.join("+")).unwrap();
            let usage = Usage { input: 60, ..Usage::default() };
            spent(usage, Some(0.5));
            let mut end = RunEnd::Done { stop_reason: StopReason::Stop };
            match task.prompts[0] {
                "break" => return Err("no model".to_owned()),
                "leave" => std::fs::write(task.workspace.join("../outside/left"), "").unwrap(),
                "interrupt" => {
                    self.user_stop.cancel();
                    stop.cancelled().await;
                    end = RunEnd::Aborted;
                }
                _ => {}
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            let answer = if task.tools.is_some() { "PASS: fine".to_owned() } else { task.prompts.join("+") };
            Ok(Trajectory { answer, end: Some(end), usage, cost: Some(0.5), ..Trajectory::default() })
        })
    }

    fn call<'a>(&'a self, call: ScoringCall<'a>, _: &'a CancellationToken) -> EngineFuture<'a, String> {
        let arguments = call.arguments;
        let reply =
            arguments["answer"] == arguments["right"] && arguments["trajectory"]["answer"] == arguments["answer"];
        let is_known = call.function.tool == "judge";
        Box::pin(async move { if is_known { Ok(reply.to_string()) } else { Err("no tool".to_owned()) } })
    }

    fn repeat<'a>(&'a self, replay: JournalReplay<'a>, _: &'a CancellationToken) -> EngineFuture<'a, RepeatedCalls> {
        let is_new = replay.component.is_some_and(|file| file.ends_with("new.wasm"));
        let same = if is_new { 1 } else { 2 };
        let has_journal = !replay.session.ends_with("bare.jsonl");
        let repeated = RepeatedCalls { calls: 2, same, ..RepeatedCalls::default() };
        Box::pin(async move { if has_journal { Ok(repeated) } else { Err("no journal".to_owned()) } })
    }

    fn check<'a>(&'a self, command: WorkspaceCommand<'a>, _: &'a CancellationToken) -> BoxFuture<'a, CommandOutcome> {
        let succeeded = command.workspace.join(command.command).exists();
        Box::pin(async move { CommandOutcome { succeeded, report: "missing".to_owned() } })
    }
}

async fn run(cases: &str, options: SetOptions, engine: &ScriptedEngine) -> SetResult {
    let registry = EvaluatorRegistry::default();
    let text = format!("id: s\n{cases}");
    let set = parse_set(&text, Path::new("set.yaml"), &registry).unwrap();
    run_set(&set, &registry, engine, &options, &engine.user_stop, &|_| {}).await
}

fn verdicts(result: &SetResult) -> Vec<(&str, TrialVerdict)> {
    result.trials.iter().map(|trial| (trial.case.as_str(), trial.verdict)).collect()
}

#[tokio::test]
async fn failing_and_broken_cases_do_not_end_a_set() {
    let cases = "cases:\n  - {id: a, prompt: break}\n  - {id: b, prompt: x, expect: {answer: {exact: y}}}\n\
                 \x20 - {id: c, prompts: [x, y], trials: 2, expect: {files: {equal: {out: x+y}, unchanged-elsewhere: true}, commands: [out], \
                 answer: {judge: {model: m, criteria: good}}}}\n";
    let engine = ScriptedEngine::default();
    let result = run(cases, SetOptions::default(), &engine).await;
    use TrialVerdict::{Broken, Failed, Passed};
    assert_eq!(verdicts(&result), [("a", Broken), ("b", Failed), ("c", Passed), ("c", Passed)], "{result:#?}");
    assert_eq!((result.sums.trials, result.sums.passed, result.completion), (4, 2, SetCompletion::Complete));
    assert_eq!(result.trials[0].findings(), ["no model"]);
    assert_eq!(result.trials[1].findings(), ["answer: it is `x`"]);
    let workspaces = engine.workspaces.lock().unwrap();
    assert!(workspaces.iter().all(|path| !path.exists()), "workspaces are deleted");
    assert_eq!(workspaces.iter().collect::<std::collections::HashSet<_>>().len(), 6);
}

#[tokio::test]
async fn trials_run_side_by_side_and_keep_their_order() {
    let engine = ScriptedEngine { together: Some(Arc::new(tokio::sync::Barrier::new(3))), ..Default::default() };
    let options = SetOptions { jobs: 3, trials: Some(3), ..SetOptions::default() };
    let result = run("cases: [{id: a, prompt: x}, {id: b, prompt: x}]\n", options, &engine).await;
    let order: Vec<_> = result.trials.iter().map(|trial| format!("{}{}", trial.case, trial.trial)).collect();
    assert_eq!(order, ["a1", "a2", "a3", "b1", "b2", "b3"]);
    assert_eq!((engine.most.load(Ordering::SeqCst), result.sums.passed), (3, 6));
}

#[tokio::test]
async fn interrupted_set_has_a_readable_result() {
    let engine = ScriptedEngine::default();
    let cases = "cases: [{id: a, prompt: x}, {id: b, prompt: interrupt}, {id: c, prompt: x}]\n";
    let result = run(cases, SetOptions::default(), &engine).await;
    use TrialVerdict::{Passed, Skipped};
    assert_eq!(verdicts(&result), [("a", Passed), ("b", Skipped), ("c", Skipped)]);
    assert_eq!((result.completion, result.sums.trials, result.sums.skipped), (SetCompletion::Interrupted, 1, 2));
    assert_eq!(result.trials[1].trajectory.as_ref().map(|trajectory| trajectory.usage.input), Some(60));
}

#[tokio::test]
async fn spent_budget_ends_a_set() {
    let engine = ScriptedEngine::default();
    let options = SetOptions { trials: Some(4), ..SetOptions::default() };
    let result = run("budget: {tokens: 100}\ncases: [{id: a, prompt: x}]\n", options, &engine).await;
    assert_eq!(engine.workspaces.lock().unwrap().len(), 2);
    assert_eq!((result.completion, result.sums.passed, result.sums.skipped), (SetCompletion::BudgetSpent, 2, 2));
}

#[tokio::test]
async fn each_run_gets_the_limits_of_its_case() {
    let engine = ScriptedEngine::default();
    let cases = "defaults: {limits: {input-tokens: 9, turns: 2}}\ncases:\n  \
                 - {id: a, prompt: x, limits: {output-tokens: 8}}\n  - {id: b, prompt: x, limits: {input-tokens: 7}}\n";
    run(cases, SetOptions::default(), &engine).await;
    let limits = |input, output| CaseLimits {
        input_tokens: Some(input),
        output_tokens: output,
        turns: Some(2),
        ..CaseLimits::default()
    };
    assert_eq!(*engine.limits.lock().unwrap(), [limits(9, Some(8)), limits(7, None)]);
}

#[tokio::test]
async fn options_select_cases_and_models_and_keep_workspaces() {
    let directory = tempfile::tempdir().unwrap();
    let options = SetOptions {
        only: vec!["b".to_owned()],
        models: vec!["m".to_owned(), "n".to_owned()],
        keep: Some(directory.path().to_owned()),
        ..SetOptions::default()
    };
    let engine = ScriptedEngine::default();
    let result = run("cases: [{id: a, prompt: x}, {id: b, prompt: x}]\n", options, &engine).await;
    let models: Vec<_> = result.cases.iter().map(|case| (case.case.as_str(), case.model.as_deref())).collect();
    assert_eq!(models, [("b", Some("m")), ("b", Some("n"))]);
    assert!(engine.workspaces.lock().unwrap().iter().all(|path| path.join("out").exists()));
}

#[test]
fn verdict_of_a_judge_is_its_first_word() {
    let read = |reply: &str| verdict(reply).map(|verdict| (verdict.met, verdict.reason));
    assert_eq!(read("PASS: it is short.\nmore"), Some((true, "it is short.".to_owned())));
    assert_eq!(read("\n**FAIL** - wrong"), Some((false, "wrong".to_owned())));
    assert_eq!(["PASSING", "I think PASS", ""].map(read), [None, None, None]);
}

#[tokio::test]
async fn functions_get_the_answer_and_files_outside_are_compared() {
    let judge = |tool: &str, right: &str| {
        format!("{{plugin: p, tool: {tool}, trajectory: true, arguments: {{right: {right}}}}}")
    };
    let cases = format!(
        "cases:\n  - {{id: a, prompt: x, expect: {{functions: [{}]}}}}\n  - {{id: b, prompt: x, expect: {{functions: [{}, {}]}}}}\n  \
         - {{id: c, prompt: x, workspace: {{outside: {{f: one}}}}}}\n  - {{id: d, prompt: leave, workspace: {{outside: {{f: one}}}}}}\n",
        judge("judge", "x"),
        judge("judge", "y"),
        judge("other", "x")
    );
    let result = run(&cases, SetOptions::default(), &ScriptedEngine::default()).await;
    use TrialVerdict::{Failed, Passed};
    assert_eq!(verdicts(&result), [("a", Passed), ("b", Failed), ("c", Passed), ("d", Failed)]);
    let findings =
        ["functions: `judge` of the plugin `p` scored 0", "functions: `other` of the plugin `p` scored 0: no tool"];
    assert_eq!(result.trials[1].findings(), findings);
    assert_eq!(result.trials[3].findings(), ["outside: `../outside/left` was created"]);
}

/// A session without turns.
const SESSION: &str =
    "{\"type\":\"session\",\"version\":1,\"id\":\"x\",\"workspace\":\"/w\",\"created\":\"2026-01-02T03:04:05Z\"}\n";

#[tokio::test]
async fn component_of_the_options_or_the_case_repeats_recorded_calls() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a.jsonl", "bare.jsonl"] {
        std::fs::write(directory.path().join(name), SESSION).unwrap();
    }
    let case = |id: &str, session: &str, with: &str| {
        let session = directory.path().join(session);
        let expect = format!("evaluators: [recorded-calls], expect: {{recorded-calls: {{{with}}}}}");
        format!("  - {{id: {id}, session: {}, {expect}}}\n", session.display())
    };
    let cases = format!(
        "cases:\n{}{}{}",
        case("a", "a.jsonl", ""),
        case("b", "a.jsonl", "with: new.wasm"),
        case("c", "bare.jsonl", "")
    );
    use TrialVerdict::{Broken, Failed, Passed};
    let result = run(&cases, SetOptions::default(), &ScriptedEngine::default()).await;
    assert_eq!(verdicts(&result), [("a", Passed), ("b", Failed), ("c", Broken)]);
    assert_eq!(result.trials[2].error.as_deref(), Some("no journal"));
    let options = |file: &str| SetOptions { component: Some(file.into()), ..SetOptions::default() };
    let result = run(&cases, options("new.wasm"), &ScriptedEngine::default()).await;
    assert_eq!(verdicts(&result)[..2], [("a", Failed), ("b", Failed)]);
    let result = run(&cases, options("old.wasm"), &ScriptedEngine::default()).await;
    assert_eq!(verdicts(&result)[..2], [("a", Passed), ("b", Passed)]);
}
