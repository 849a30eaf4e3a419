//! Ordinary work that goes on inside the sandbox.

use super::world::{User, World};
use super::{BOTH, LANDLOCK, NAMESPACES};
use pinion_sandbox::Layers;

/// Scripts that succeed inside, with those that need namespaces marked.
const USES: &[(&str, bool, &str)] = &[
    (
        "write, rename and link in the workspace",
        true,
        "echo a > n && mv n m && ln m h && ln -s m s && mkdir -p x/y && rm -r x && chmod 600 m",
    ),
    ("write in a directory of the workspace", false, "echo a > src/n && mv src/n src/m && mkdir src/x"),
    (
        "read the system",
        false,
        "test -r /etc/passwd && ls /usr/bin >/dev/null && cat /proc/self/status /proc/cpuinfo >/dev/null",
    ),
    ("read what is neither hidden nor writable", false, "grep -q outside $OUT/file && grep -q mine $HOME/.bashrc"),
    ("list directories with excluded files", false, "ls -a . keys/deep config | grep -q server.key && test -e .env"),
    (
        "work beside excluded files",
        true,
        "echo a > keys/n && mv keys/n config/m && mkdir keys/deep/x && mv src config/src",
    ),
    (
        "write in directories that are open although they are hidden",
        false,
        "for d in .state .config/pinion/handed-out; do grep -q mine $HOME/$d/file && echo a > $HOME/$d/file; done",
    ),
    ("read protected paths", false, "cat .git/config .vscode/tasks.json .git/hooks/pre-commit > /dev/null"),
    ("write temporary files", false, "f=$(mktemp) && echo a > $f && grep -q a $f && test -w $TMPDIR"),
    ("write temporary files at the usual place", true, "echo a > /tmp/a && echo a > /var/tmp/b && ls /tmp/a"),
    ("use devices", false, "echo a > /dev/null && head -c4 /dev/urandom >/dev/null && head -c4 /dev/zero > /dev/null"),
    ("use standard streams by name", false, "echo a | cat /dev/stdin; cat <(echo a)"),
    (
        "use a terminal of its own",
        true,
        "script -qec 'tty && test -t 0' /dev/null < /dev/null && py 'import pty; assert pty.spawn([\"true\"]) == 0'",
    ),
    (
        "use shared memory",
        true,
        "py 'from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=64); m.unlink()'",
    ),
    (
        "run programs in parallel",
        false,
        "for i in 1 2 3 4 5 6 7 8; do sleep 0.01 & done; wait; seq 100 | xargs -P 8 -n 1 true",
    ),
    (
        "handle signals",
        false,
        "sleep 100 & kill $!; { wait $! || test $? = 143; } && (trap 'exit 0' TERM; kill -TERM $BASHPID; exit 1)",
    ),
    (
        "connect its own processes",
        true,
        "py 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); socket.create_connection(s.getsockname())\ns = socket.socket(socket.AF_UNIX); s.bind(\"own\"); s.listen(); socket.socket(socket.AF_UNIX).connect(\"own\"); socket.socketpair()'",
    ),
    (
        "commit",
        true,
        "git add file && git -c user.name=a -c user.email=a@b commit -qm a && git log --oneline | grep -q a && git checkout -qb b && git stash list && git gc -q",
    ),
    (
        "clone",
        true,
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a; git clone -q . copy && cd copy && echo a > .git/description",
    ),
    ("compile", false, "cd src && echo 'int main(){return 0;}' > a.c && cc a.c -o a && ./a"),
    (
        "run python",
        false,
        "py 'import tempfile, subprocess, threading, sqlite3, ssl; tempfile.TemporaryFile(); assert subprocess.run([\"true\"]).returncode == 0'",
    ),
];

fn all_work(user: User) {
    if !user.is_possible() {
        return;
    }
    let mut failed = Vec::new();
    for layers in [BOTH, NAMESPACES, LANDLOCK] {
        for (name, needs_namespaces, script) in USES {
            if *needs_namespaces && !layers.namespaces {
                continue;
            }
            if let Err(reason) = World::new(user).works(script, layers) {
                failed.push(format!("{name}, with {layers:?}, as {user:?}: {reason}"));
            }
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn ordinary_work_goes_on() {
    all_work(User::This);
}

#[test]
fn ordinary_work_goes_on_as_another_user() {
    all_work(User::Other);
}

#[test]
fn program_ends_with_its_own_status() {
    let layers: [Layers; 3] = [BOTH, NAMESPACES, LANDLOCK];
    for layers in layers {
        let ended = |script: &str| World::new(User::This).output(script, layers).status;
        assert_eq!(ended("exit 7").code(), Some(7), "{layers:?}");
        for signal in [9, 11, 15] {
            let status = ended(&format!("kill -{signal} $$"));
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(signal), "{layers:?}");
        }
    }
}
