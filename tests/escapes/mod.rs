//! Attempts to escape from the sandbox of programs, each by a real program inside, with each set of layers, as root and as
//! another user; and the ordinary work that must go on inside.

mod arguments;
mod cases;
mod command;
mod credentials;
mod directories;
mod excluded;
mod key_commands;
mod network;
mod places;
mod programs_of_git;
mod replaced;
mod repositories;
mod rules;
mod settings;
mod uses;
mod world;

use cases::{Case, EXCLUDED, KERNEL, NETWORK, PROCESSES, PROTECTED, SECRETS, WRITES};
use pinion_sandbox::Layers;
use repositories::REPOSITORIES;
use world::{User, World};

const BOTH: Layers = Layers { namespaces: true, landlock: true };
const NAMESPACES: Layers = Layers { namespaces: true, landlock: false };
const LANDLOCK: Layers = Layers { namespaces: false, landlock: true };

/// Makes all attempts with all sets of layers as one user and reports those that succeeded.
fn all_are_held(cases: &[Case], user: User) {
    if !user.is_possible() {
        return;
    }
    let mut escaped = Vec::new();
    for layers in [BOTH, NAMESPACES, LANDLOCK] {
        for case in cases {
            let is_excepted =
                case.needs_namespaces.is_some() && !layers.namespaces || case.not_for_root.is_some() && user.is_root();
            if is_excepted {
                continue;
            }
            let world = World::new(user);
            if let Err(reason) = world.attempt(case.script, case.then, layers) {
                escaped.push(format!("{}, with {layers:?}, as {user:?}: {reason}", case.name));
            }
        }
    }
    assert!(escaped.is_empty(), "{} escaped:\n{}", escaped.len(), escaped.join("\n"));
}

macro_rules! held {
    ($($name:ident, $as_other:ident: $cases:ident;)*) => {$(
        #[test]
        fn $name() {
            all_are_held($cases, User::This);
        }

        #[test]
        fn $as_other() {
            all_are_held($cases, User::Other);
        }
    )*};
}

held! {
    writes_outside_are_held, writes_outside_are_held_as_another_user: WRITES;
    protected_paths_are_held, protected_paths_are_held_as_another_user: PROTECTED;
    repositories_are_held, repositories_are_held_as_another_user: REPOSITORIES;
    excluded_files_are_held, excluded_files_are_held_as_another_user: EXCLUDED;
    secrets_are_held, secrets_are_held_as_another_user: SECRETS;
    processes_outside_are_held, processes_outside_are_held_as_another_user: PROCESSES;
    kernel_interfaces_are_held, kernel_interfaces_are_held_as_another_user: KERNEL;
    networks_are_held, networks_are_held_as_another_user: NETWORK;
}

#[test]
fn every_attempt_has_a_name_of_its_own() {
    let all = [WRITES, PROTECTED, REPOSITORIES, EXCLUDED, SECRETS, PROCESSES, KERNEL, NETWORK].concat_names();
    let names: std::collections::BTreeSet<_> = all.iter().collect();
    assert!(names.len() == all.len() && all.len() >= 80, "{} attempts", all.len());
}

trait Names {
    fn concat_names(&self) -> Vec<&'static str>;
}

impl Names for [&[Case]; 8] {
    fn concat_names(&self) -> Vec<&'static str> {
        self.iter().flat_map(|cases| cases.iter().map(|case| case.name)).collect()
    }
}

/// Shows that the attempts do reach something where nothing prevents it, so that the suite is able to fail.
#[test]
fn attempts_succeed_without_a_sandbox() {
    for name in [
        "write to a file outside",
        "create a hook",
        "read a key",
        "read an excluded file through its hard link",
        "move a key among the keys of tests",
        "connect to a server of the machine",
        "create the file commondir",
        "write to a protected file among writable credentials",
        "read what is excluded in a writable directory of a hidden one",
        "leave a repository with a monitor deep inside",
        "lead a worktree to a repository of its own",
        "leave a command in the rest of a rebase",
    ] {
        let all = [WRITES, PROTECTED, REPOSITORIES, EXCLUDED, SECRETS, NETWORK];
        let case = all.iter().flat_map(|cases| cases.iter()).find(|case| case.name == name).unwrap();
        let world = World::new(User::This);
        assert!(world.attempt_unconfined(case.script, case.then).is_err(), "`{name}` has no effect");
    }
}

/// A layer that a path of the policy makes fail must not count as one that the machine lacks.
#[test]
fn path_that_cannot_be_enforced_ends_the_check() {
    let helper = pinion_sandbox::helper_beside(&pinion_tests::binary()).unwrap();
    let launcher = pinion_sandbox::Launcher::new(helper, Vec::new());
    let sound = pinion_sandbox::SandboxPolicy::default();
    if launcher.support(&sound).unwrap().namespaces.is_err() {
        return;
    }
    let broken = pinion_sandbox::SandboxPolicy { temporary: Some("/no/such/directory".into()), ..sound };
    let error = launcher.support(&broken).unwrap_err().to_string();
    assert!(error.contains("/no/such/directory"), "{error}");
}
