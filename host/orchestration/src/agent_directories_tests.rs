//! Sub-agents with separate directories.

use crate::agent_directories::{AgentDirectories, AgentDirectory, DirectoryWork};
use crate::sub_agents_tests::{delegate, parent, task};
use crate::testing::{Act, Answers, Harness, Reply, ScriptedTools, Setup, calls, letters, says};
use crate::*;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// Opens directories whose only tool is `write`, and whose user denies every call that is asked about.
#[derive(Default)]
struct Copies {
    /// The tools of the opened directories.
    tools: Mutex<Vec<Arc<ScriptedTools>>>,
    log: Arc<Mutex<Vec<String>>>,
    problem: Option<&'static str>,
}

struct Work(Arc<Mutex<Vec<String>>>);

impl DirectoryWork for Work {
    fn close(self: Box<Self>, run_id: Arc<str>) -> BoxFuture<'static, String> {
        self.0.lock().unwrap().push(format!("closed by {run_id}"));
        Box::pin(async { "1 file changed".to_owned() })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.lock().unwrap().push("dropped".to_owned());
    }
}

struct Named(&'static str, Arc<Mutex<Vec<String>>>);

impl Hooks for Named {
    fn before_tool<'a>(&'a self, call: &'a ToolCall, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        self.1.lock().unwrap().push(format!("{} hook: {}", self.0, call.name));
        Box::pin(async { HookVerdict::Pass })
    }
}

impl AgentDirectories for Copies {
    fn open<'a>(&'a self, _: &'a LoopConfig) -> BoxFuture<'a, Result<AgentDirectory, String>> {
        Box::pin(async move {
            if let Some(problem) = self.problem {
                return Err(problem.to_owned());
            }
            self.log.lock().unwrap().push("opened".to_owned());
            let setup = Setup::new(Vec::new()).tool("write", Act::Answer("written in the copy")).tool_with(
                "bash",
                Act::Answer("run"),
                |tool| tool.authority.executes = true,
            );
            let tools = Arc::new(setup.tools);
            self.tools.lock().unwrap().push(tools.clone());
            let denies = Answers { decision: Decision::Deny { reason: "not here".into() }, asked: Mutex::default() };
            Ok(AgentDirectory {
                tools,
                approval: Approval::new(ApprovalMode::Edits, Arc::new(denies)),
                hooks: vec![Arc::new(Named("copy", self.log.clone()))],
                plugin_hooks: None,
                system_prompt: "You work in /copy.".to_owned(),
                work: Box::new(Work(self.log.clone())),
            })
        })
    }
}

fn writer() -> AgentKind {
    AgentKind { name: "writer".into(), directory: WorkDirectory::Copy, ..AgentKind::default() }
}

fn to_writer() -> Assignment {
    Assignment { kind: Some("writer".into()), ..task("write it") }
}

fn harness(copies: &Arc<Copies>, assignment: Assignment, kind: AgentKind, replies: Vec<Reply>) -> Harness {
    let mut setup = parent(assignment, replies);
    setup.hooks = vec![Arc::new(Named("parent", copies.log.clone()))];
    let harness = setup.build();
    let policy = SubAgentPolicy { kinds: vec![kind], max_depth: 2, ..SubAgentPolicy::default() };
    let directories: Arc<dyn AgentDirectories> = copies.clone();
    harness.agent.configure(|config| {
        config.ports.spawner = Some(sub_agents_in(policy, RunningAgents::default(), Some(directories)));
    });
    harness
}

fn log(copies: &Copies) -> Vec<String> {
    copies.log.lock().unwrap().clone()
}

#[tokio::test]
async fn sub_agent_gets_everything_that_its_directory_decides() {
    let copies = Arc::new(Copies::default());
    let work = calls(&[("write", json!({})), ("bash", json!({}))]);
    let harness = harness(&copies, to_writer(), writer(), vec![delegate(), work, says("written"), says("thanks")]);
    let outcome = harness.prompt("go").await;
    assert_eq!(letters(&outcome.messages[2]), "result call-0: written\n\n[1 file changed]");
    let requests = harness.model.requests.lock().unwrap();
    let system = &requests[1].system;
    assert!(system.starts_with("You work in /copy.") && system.contains("a copy of the other agent's"), "{system}");
    let offered: Vec<&str> = requests[1].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(offered, ["write", "bash"]);
    let results: Vec<String> = requests[2].messages[2..].iter().map(|message| letters(message)).collect();
    assert!(results[0].ends_with("written in the copy") && results[1].contains("not here"), "{results:?}");
    assert_eq!(*harness.tools.log.lock().unwrap(), ["+call-0", "-call-0"]);
    let run = "closed by child1.scripted.m.1";
    let log = log(&copies);
    assert_eq!(log[..2], ["parent hook: task", "opened"]);
    assert!(log.iter().any(|line| line == "copy hook: write") && !log.iter().any(|line| line == "parent hook: write"));
    assert_eq!(log[log.len() - 2..], [run, "dropped"]);
}

#[tokio::test]
async fn other_kinds_work_in_the_parents_directory() {
    let copies = Arc::new(Copies::default());
    let harness = harness(&copies, task("look"), writer(), vec![delegate(), says("seen"), says("done")]);
    let outcome = harness.prompt("go").await;
    assert_eq!(letters(&outcome.messages[2]), "result call-0: seen");
    assert_eq!(log(&copies), ["parent hook: task"]);
}

#[tokio::test]
async fn directory_that_cannot_be_opened_is_an_error_of_the_call() {
    let copies = Arc::new(Copies { problem: Some("the disk is full"), ..Copies::default() });
    let harness = harness(&copies, to_writer(), writer(), vec![delegate(), says("done")]);
    let outcome = harness.prompt("go").await;
    let result = letters(&outcome.messages[2]);
    assert!(result.contains("cannot work in a copy of the directory: the disk is full"), "{result}");
    assert_eq!(harness.requests(), 2);
}

#[tokio::test]
async fn attempts_and_conversations_get_no_copy() {
    let attempts = ParallelAttempts { count: 2, choice: ChoiceName::First };
    for (assignment, reason) in [
        (Assignment { attempts: Some(attempts), ..to_writer() }, "several attempts"),
        (Assignment { start: AgentStart::Conversation, ..to_writer() }, "another directory"),
    ] {
        let copies = Arc::new(Copies::default());
        let harness = harness(&copies, assignment, writer(), vec![delegate(), says("done")]);
        let outcome = harness.prompt("go").await;
        assert!(letters(&outcome.messages[2]).contains(reason), "{reason}");
        assert_eq!(log(&copies), ["parent hook: task"]);
    }
}

#[tokio::test]
async fn refused_assignment_leaves_no_directory() {
    let copies = Arc::new(Copies::default());
    let assignment = Assignment { tools: Some(vec!["read".into()]), ..to_writer() };
    let harness = harness(&copies, assignment, writer(), vec![delegate(), says("done")]);
    let outcome = harness.prompt("go").await;
    let result = letters(&outcome.messages[2]);
    assert!(result.contains("cannot get the tool `read` here; available: `write`, `bash`"), "{result}");
    assert_eq!(log(&copies)[1..], ["opened", "dropped"]);
}

#[tokio::test]
async fn changes_of_a_sub_agent_that_fails_are_reported() {
    let copies = Arc::new(Copies::default());
    let kind = AgentKind { max_turns: Some(1), ..writer() };
    let work = calls(&[("write", json!({}))]);
    let harness = harness(&copies, to_writer(), kind, vec![delegate(), work, says("done")]);
    let outcome = harness.prompt("go").await;
    let result = letters(&outcome.messages[2]);
    assert!(result.contains("[1 file changed]") && result.contains("limit of 1 turn"), "{result}");
}
