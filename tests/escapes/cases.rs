//! The attempts: programs that print `ESCAPED` when they reached something that they must not reach.
//!
//! `$OUT` is a directory outside, `$HOME` one with credentials and the host's own files, the working directory a repository.
//! `$HOST_PID` is a process outside, `$TCP`, `$UDP`, `$ABSTRACT` and `$SOCKET` are its listeners; `sleep $MARK` may not outlive the attempt. `call NUMBER …` makes a
//! system call by its number on x86-64, and `open_to_write` opens a file and writes nothing to it. `evil PATH` creates a program
//! that writes outside if the user runs it later, and `repository PATH` a repository with such a one as its monitor.

/// One attempt.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) script: &'static str,
    /// Commands of the user afterwards, outside.
    pub(super) then: &'static str,
    /// The reason why Landlock and seccomp alone do not prevent it.
    pub(super) needs_namespaces: Option<&'static str>,
    /// The reason why it succeeds as root, because the limit does not apply.
    pub(super) not_for_root: Option<&'static str>,
}

pub(super) const fn case(name: &'static str, script: &'static str) -> Case {
    case_then(name, script, "")
}

/// An attempt whose effect comes later, when the user does something.
pub(super) const fn case_then(name: &'static str, script: &'static str, then: &'static str) -> Case {
    Case { name, script, then, needs_namespaces: None, not_for_root: None }
}

const fn with_namespaces(name: &'static str, reason: &'static str, script: &'static str) -> Case {
    Case { name, script, then: "", needs_namespaces: Some(reason), not_for_root: None }
}

const METADATA: &str = "Landlock does not restrict modes, times and attributes of the user's own files";
const LEFT_BEHIND: &str = "a process that leaves its group outlives it without a process namespace";
const LIMIT: &str = "without a user namespace, the processes of the user outside would count";

pub(super) const WRITES: &[Case] = &[
    case("write to a file outside", "echo x > $OUT/file && echo ESCAPED"),
    case("append to a file outside", "echo x >> $OUT/file && echo ESCAPED"),
    case("create a file outside", "echo x > $OUT/new && echo ESCAPED"),
    case("create a file by a path with ..", "echo x > ../outside/new && echo ESCAPED"),
    case("write through a link to a file", "ln -s $OUT/file l; echo x > l && echo ESCAPED"),
    case("write through a link to a directory", "ln -s $OUT d; echo x > d/new && echo ESCAPED"),
    case("write through a chain of links", "ln -s $OUT a; ln -s a b; ln -s b c; echo x > c/file && echo ESCAPED"),
    case("write through a hard link", "ln $OUT/file h && echo x > h && echo ESCAPED"),
    case("copy over a link", "ln -s $OUT/file l; echo x > n; cp n l && echo ESCAPED"),
    case("move a file in", "mv $OUT/file . && echo ESCAPED"),
    case("move a file out", "echo x > n; mv n $OUT/file && echo ESCAPED"),
    case("delete a file outside", "rm -f $OUT/file && echo ESCAPED"),
    case("delete a directory outside", "rmdir $OUT/empty && echo ESCAPED"),
    case("truncate a file outside", "truncate -s 0 $OUT/file && echo ESCAPED"),
    case("create a directory outside", "mkdir $OUT/new && echo ESCAPED"),
    case("create a pipe outside", "mkfifo $OUT/new && echo ESCAPED"),
    case("create a link outside", "ln -s x $OUT/new && echo ESCAPED"),
    with_namespaces("change a mode outside", METADATA, "chmod 777 $OUT/file && echo ESCAPED"),
    with_namespaces("change a time outside", METADATA, "touch -d 2001-01-01 $OUT/file && echo ESCAPED"),
    with_namespaces(
        "change an attribute outside",
        METADATA,
        "py 'import os; os.setxattr(os.environ[\"OUT\"]+\"/file\", \"user.x\", b\"y\"); print(\"ESCAPED\")'",
    ),
    case("write through /proc/self/root", "echo x > /proc/self/root$OUT/file && echo ESCAPED"),
    case("write through /proc/1/root", "echo x > /proc/1/root$OUT/file && echo ESCAPED"),
    case("write through /proc/1/cwd", "echo x > /proc/1/cwd/../outside/file && echo ESCAPED"),
    case("write through an open directory", "exec 3< $OUT; echo x > /proc/self/fd/3/file && echo ESCAPED"),
    case("reopen a file for writing", "exec 3< $OUT/file; echo x > /proc/self/fd/3 && echo ESCAPED"),
    case("write through an inherited descriptor", "echo x >&9 && echo ESCAPED"),
    case(
        "link an unnamed file outside",
        "py 'import os; o=os.environ[\"OUT\"]; f=os.open(o, os.O_TMPFILE|os.O_RDWR); print(\"ESCAPED\")'",
    ),
    case(
        "exchange two files",
        "echo x > n; py 'import os; ok(L.syscall(316, -100, b\"n\", -100, os.environ[\"OUT\"].encode()+b\"/file\", 2))'",
    ),
    case(
        "extract an archive with absolute paths",
        "mkdir t; echo x > t/file; tar -cPf a.tar --transform \"s,t/file,$OUT/file,\" t/file; tar -xPf a.tar && echo ESCAPED",
    ),
    case(
        "write to the system",
        "open_to_write /etc/passwd; open_to_write /usr/bin/env; touch /usr/new && echo ESCAPED",
    ),
    case("add to a start-up file of the shell", "echo x >> $HOME/.bashrc && echo ESCAPED"),
    case("create a start-up file of the shell", "echo x > $HOME/.zshenv && echo ESCAPED"),
    case("set a hook in the user's git config", "git config --global core.fsmonitor x && echo ESCAPED"),
    case("rename a directory around the workspace", "mv ../../$(basename $(dirname $PWD)) ../../moved && echo ESCAPED"),
    case("rename the workspace", "mv $PWD $PWD-moved && echo ESCAPED"),
];

pub(super) const PROTECTED: &[Case] = &[
    case("create a hook", "echo x > .git/hooks/post-commit && echo ESCAPED"),
    case("overwrite a hook", "echo x > .git/hooks/pre-commit && echo ESCAPED"),
    case("delete a hook", "rm -f .git/hooks/pre-commit && echo ESCAPED"),
    case("make a hook executable", "ln .git/hooks/pre-commit n 2>/dev/null && echo x > n && echo ESCAPED"),
    case("change the repository's config", "git config core.fsmonitor x && echo ESCAPED"),
    case("overwrite the repository's config", "echo x > .git/config && echo ESCAPED"),
    case("rename another file over the config", "echo x > n; mv -f n .git/config && echo ESCAPED"),
    case("write to the config through a hard link", "ln .git/config h && echo x > h && echo ESCAPED"),
    case("write to a hook through a link", "ln -s .git g; echo x > g/hooks/pre-commit && echo ESCAPED"),
    case("rename the repository", "mv .git .git2 && echo ESCAPED"),
    case("rename the hooks", "mv .git/hooks .git/h && echo ESCAPED"),
    case(
        "delete the repository",
        "rm -rf .git/hooks .git/config; test -e .git/hooks/pre-commit -a -e .git/config || echo ESCAPED",
    ),
    case(
        "initialize again with hooks from a template",
        "mkdir -p t/hooks; echo x > t/hooks/post-merge; git init -q --template=$PWD/t . 2>&1; test -e .git/hooks/post-merge && echo ESCAPED",
    ),
    case("write to the config of a submodule", "echo x > .git/modules/sub/config && echo ESCAPED"),
    case("rename the directory of a submodule", "mv .git/modules/sub .git/modules/x && echo ESCAPED"),
    case("rename the directory of all submodules", "mv .git/modules .git/m && echo ESCAPED"),
    case("write to the directory that hooksPath names", "echo x > .githooks/post-commit && echo ESCAPED"),
    case("write to an editor's settings", "echo x > .vscode/tasks.json && echo ESCAPED"),
    case("rename an editor's settings", "mv .vscode v && echo ESCAPED"),
    case("write to a protected file among writable credentials", "echo x >> $HOME/.state/.envrc && echo ESCAPED"),
    case("rename a protected file among writable credentials", "mv $HOME/.state/.envrc $HOME/.state/x && echo ESCAPED"),
    case("rename a writable directory of credentials", "mv $HOME/.state $HOME/s && echo ESCAPED"),
    case(
        "write in another case",
        "echo x > .GIT/hooks/post-commit && echo ESCAPED; echo x > .VSCode/tasks.json && echo ESCAPED",
    ),
    case("unmount a protected path", "umount .git/hooks 2>&1 && echo ESCAPED; umount -l .vscode 2>&1 && echo ESCAPED"),
    // Absent before: gone again afterwards, which the test checks.
    case("create the file commondir", "echo /tmp > .git/commondir"),
    case("create the config of a worktree", "echo x > .git/config.worktree"),
    case("create attributes with filters", "mkdir -p .git/info; echo x > .git/info/attributes"),
    case(
        "lead the host to a directory outside",
        "mv .git/info i 2>/dev/null; ln -s $OUT .git/info; echo x > $OUT/attributes 2>/dev/null && echo ESCAPED",
    ),
    case("write to the config of a submodule in a directory", "echo x > .git/modules/libs/deep/config && echo ESCAPED"),
    case(
        "write to the hooks of a repository in a subdirectory",
        "echo x > inner/.git/hooks/post-commit && echo ESCAPED",
    ),
    case("write behind a link at a protected path", "echo x > editor/settings.json && echo ESCAPED"),
    case("make a program with the rights of its owner", "cp /bin/true t && chmod 4755 t && echo ESCAPED"),
    case(
        "create a program with the rights of its owner",
        r#"py "ok(L.open(b'suid', os.O_CREAT | os.O_WRONLY, 0o4755))"; py "ok(L.syscall(437, -100, b's2', bytes(24), 24))"; test -u suid -o -u s2 && echo ESCAPED"#,
    ),
    case(
        "make a program with the rights of another group",
        "test $(id -u) != 0 || { cp /bin/true t && chown 0:1 t && chmod 2755 t && echo ESCAPED; setpriv --regid 1 --clear-groups chmod 2755 t && echo ESCAPED; test -g t && echo ESCAPED; }",
    ),
    case(
        "create protected directories without rights",
        "for d in .claude .husky .idea; do evil $d/x; chmod 555 $d; done; chmod 0 .husky",
    ),
    case("take the rights from the workspace", "evil .claude/x; echo x > .mcp.json; chmod 555 ."),
    case("close the workspace", "evil .claude/x; echo x > .git/config.worktree; chmod 0 .git; chmod 0 ."),
    case(
        "write to a script without a directory that a setting names",
        "echo x > clean.py && echo ESCAPED; mv clean.py c && echo ESCAPED",
    ),
    case(
        "create settings of hooks",
        "echo x > lefthook.yml; echo x > .overcommit.yml; echo x > .tool-versions; echo x > opencode.jsonc",
    ),
    case("create a list of servers", "echo x > .mcp.json"),
    case("create settings of the host", "mkdir .pinion; echo x > .pinion/config.toml"),
    case("create a link to settings of the host", "mkdir p; ln -s p .pinion"),
    case("create settings of another agent", "mkdir .claude; echo x > .claude/settings.json"),
    case("create a start-up file in the workspace", "echo x > .bashrc; echo x > .zshenv"),
    case("rename a directory to a protected name", "mkdir p; echo x > p/config.toml; mv p .pinion"),
];

pub(super) const SECRETS: &[Case] = &[
    case("read what is hidden in a writable directory", "cat $HOME/.state/inner/file"),
    case("read what is excluded in a writable directory of a hidden one", "cat $HOME/.config/pinion/handed-out/.env"),
    case("read what is protected in a hidden directory", "cat $HOME/.config/pinion/hooks/file"),
    case("read a key", "cat $HOME/.ssh/id && echo ESCAPED"),
    case("list keys", "ls $HOME/.ssh | grep id && echo ESCAPED"),
    case("read a key through /proc/self/root", "cat /proc/self/root$HOME/.ssh/id"),
    case("read a key through /proc/1/root", "cat /proc/1/root$HOME/.ssh/id"),
    case("read a key through a link", "ln -s $HOME/.ssh s; cat s/id"),
    case("read a key through a hard link", "ln $HOME/.ssh/id h; cat h"),
    case("read a key by a path with ..", "cat $HOME/x/../.ssh/id; cat $HOME/.ssh/../.ssh/id"),
    case("move the directory of keys", "mv $HOME/.ssh $HOME/s && echo ESCAPED"),
    case("search the home directory", "grep -r TOP $HOME"),
    case("copy the home directory", "cp -r $HOME/. copy; grep -r TOP copy"),
    case("archive the home directory", "tar -cf - $HOME | grep -a TOP"),
    case("read a hidden file", "cat $HOME/.netrc"),
    case("read the host's key", "cat $HOME/.config/pinion/auth.toml"),
    case("read a session of the host", "cat $HOME/.config/pinion/sessions/one"),
    case(
        "open a key by its handle",
        "py 'import os\nb=ctypes.create_string_buffer(136); ctypes.memmove(b, (128).to_bytes(4,\"little\"), 4); m=ctypes.c_int(0)\nL.name_to_handle_at(-100, os.environ[\"OUT\"].encode(), b, ctypes.byref(m), 0)\nf=os.open(\"/\", os.O_RDONLY)\nok(L.open_by_handle_at(f, b, 0))'",
    ),
    case(
        "read the policy of the first process",
        "cat /proc/1/cmdline /proc/1/environ /proc/$PPID/cmdline /proc/$PPID/environ 2>/dev/null | grep -qa 'config/[p]inion' && echo ESCAPED",
    ),
    case("read the environment of a process outside", "cat /proc/$HOST_PID/environ | tr '\\0' '\\n' | grep TOP"),
    case(
        "read the memory of a process outside",
        "test -e /proc/$HOST_PID/mem && exec 3< /proc/$HOST_PID/mem && grep -qa sleep /proc/$HOST_PID/cmdline && echo ESCAPED",
    ),
    case("read the files of a process outside", "cat /proc/$HOST_PID/root$HOME/.ssh/id /proc/$HOST_PID/cwd/id"),
    case(
        "read a disk",
        "for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg /dev/port; do head -c1 $d >/dev/null 2>&1 && echo ESCAPED; done",
    ),
    case("create a device", "mknod d b 254 0 && echo ESCAPED; mknod /dev/x c 1 1 && echo ESCAPED"),
    case("read the kernel's messages", "dmesg >/dev/null 2>&1 && echo ESCAPED"),
];

/// `.env`, its other name `notes.txt`, `config/real` that `config/.env.local` leads to, and `keys/deep/server.key`.
pub(super) const EXCLUDED: &[Case] = &[
    case("read an excluded file", "cat .env && echo ESCAPED"),
    case("read an excluded file by a path with ..", "cat src/../.env keys/deep/../deep/server.key; cat $PWD/./.env"),
    case("read an excluded file through its hard link", "cat notes.txt && echo ESCAPED"),
    case("read an excluded file through a new hard link", "ln .env src/h; ln notes.txt src/i; cat src/h src/i"),
    case("read an excluded file through a new link", "ln -s ../.env src/s; cat src/s"),
    case("read the target of an excluded link", "cat config/.env.local config/real"),
    case("read an excluded file through /proc/self/root", "cat /proc/self/root$PWD/.env /proc/self/cwd/notes.txt"),
    case("read an excluded file through /proc/1/root", "cat /proc/1/root$PWD/.env /proc/$HOST_PID/root$PWD/.env"),
    case("move an excluded file", "mv .env src/e; cat src/e; mv .env e; cat e"),
    case(
        "move the directory of an excluded file",
        "mv keys src/k; cat src/k/deep/server.key; mv keys k; cat k/deep/server.key",
    ),
    case(
        "move a key among the keys of tests",
        "mkdir src/tests; mv keys/deep src/tests/deep; cat src/tests/deep/server.key",
    ),
    case("copy a directory with excluded files", "cp -r . $TMPDIR/copy; grep -r TOP $TMPDIR/copy"),
    case("search a directory with excluded files", "grep -r TOP .; grep -z TOP .env"),
    case("archive a directory with excluded files", "tar -cf - . | grep -a TOP"),
    case(
        "write to an excluded file",
        "echo x > .env && echo ESCAPED; open_to_write notes.txt; open_to_write config/real",
    ),
    case(
        "truncate an excluded file",
        "truncate -s 0 .env && echo ESCAPED; truncate -s 0 keys/deep/server.key && echo ESCAPED",
    ),
    case("remove an excluded file", "rm -f .env && echo ESCAPED; rm -rf keys config; unlink notes.txt"),
    case("replace an excluded file", "cp file src/n; mv -f src/n .env && echo ESCAPED; ln -f file .env"),
    case("add an excluded file to a repository", "git add -f .env; git show :.env; git hash-object -w .env"),
    case(
        "open an excluded file again by its descriptor",
        "py 'import os\nf=os.open(\".env\", os.O_PATH)\nprint(open(f\"/proc/self/fd/{f}\").read())'",
    ),
    case(
        "map an excluded file",
        "py 'import mmap\nf=open(\"notes.txt\", \"rb\")\nprint(mmap.mmap(f.fileno(), 0, prot=1)[:])'",
    ),
    case("run an excluded file", "bash .env; . ./.env; source notes.txt"),
];

pub(super) const PROCESSES: &[Case] = &[
    case("kill a process outside", "kill -9 $HOST_PID"),
    case(
        "change the priority, the processors and the limits of a process outside",
        "call 141 0 $HOST_PID 10 0; py 'import os; h=int(os.environ[\"HOST_PID\"]); m=ctypes.c_ulong(1); r=(ctypes.c_ulong*2)(99,99)\nok(L.syscall(203, h, 8, ctypes.byref(m))); ok(L.syscall(302, h, 7, ctypes.byref(r), None)); ok(L.syscall(251, 1, h, 3 << 13))'",
    ),
    case("stop the parent", "kill -STOP $PPID; kill -9 $PPID"),
    case(
        "signal a process outside by its descriptor",
        "py 'import os,signal; f=os.pidfd_open(int(os.environ[\"HOST_PID\"])); signal.pidfd_send_signal(f, 9)'",
    ),
    case(
        "take a descriptor of a process outside",
        "py 'import os; f=os.pidfd_open(int(os.environ[\"HOST_PID\"])); ok(L.syscall(438, f, 0, 0))'",
    ),
    case("trace a process outside", "py 'import os; ok(L.ptrace(16, int(os.environ[\"HOST_PID\"]), 0, 0))'"),
    case("trace a child", "py 'ok(L.ptrace(0, 0, 0, 0))'"),
    case(
        "read memory by a system call",
        "py 'import os; b=ctypes.create_string_buffer(8); v=(ctypes.c_size_t*2)(ctypes.addressof(b),8); ok(L.process_vm_readv(os.getpid(), v, 1, v, 1, 0))'",
    ),
    case("trace by the number of another interface", "call 1073742345 0 0 0 0; call 1073741925 0 0 0 0"),
    with_namespaces(
        "leave a process behind",
        LEFT_BEHIND,
        "setsid sleep $MARK >/dev/null 2>&1 & (setsid sleep $MARK >/dev/null 2>&1 &)",
    ),
    Case {
        name: "start processes without end",
        script: "py 'import os,time\nn=0\ntry:\n  while n<300:\n    if os.fork()==0: time.sleep(20); os._exit(0)\n    n+=1\n  print(\"ESCAPED\")\nexcept OSError: pass'",
        then: "",
        needs_namespaces: Some(LIMIT),
        not_for_root: Some("the kernel does not limit the processes of root"),
    },
    case(
        "write a file without end",
        "head -c 3000000 /dev/zero > big; test $(stat -c %s big) -gt 2000000 && echo ESCAPED",
    ),
    case("leave a core dump", "test $(ulimit -Hc) = 0 || echo ESCAPED"),
    case("preload a library into the helper", "cat $OUT/file | grep preloaded && echo ESCAPED"),
];

pub(super) const KERNEL: &[Case] = &[
    case("use io_uring", "call 425 8 0 0 0; call 426 0 0 0 0; call 427 0 0 0 0"),
    case("create a user namespace", "unshare -U true 2>/dev/null && echo ESCAPED; call 272 268435456 0 0 0"),
    case(
        "create a user namespace with clone",
        "py 'r=L.syscall(56, 0x10000000|17, 0, 0, 0, 0)\nif r==0: os._exit(0)\nok(r)'",
    ),
    case(
        "create a user namespace with clone3",
        "py 'a=(ctypes.c_uint64*8)(0x10000000,0,0,0,17)\nr=L.syscall(435, a, 64)\nif r==0: os._exit(0)\nok(r)'",
    ),
    case("create a mount namespace", "unshare -m true 2>/dev/null && echo ESCAPED"),
    case("enter a namespace", "py 'import os; f=os.open(\"/proc/self/ns/net\", os.O_RDONLY); ok(L.setns(f, 0))'"),
    case(
        "mount over a path",
        "mount --bind $OUT . 2>/dev/null && echo ESCAPED; mount -t tmpfs x $PWD 2>/dev/null && echo ESCAPED",
    ),
    case(
        "mount for writing again",
        "mount -o remount,rw / 2>/dev/null && echo ESCAPED; mount -o remount,bind,rw $OUT 2>/dev/null && echo ESCAPED",
    ),
    case(
        "mount with the new interface",
        "py 'ok(L.syscall(430, b\"tmpfs\", 0)); ok(L.syscall(428, -100, b\"/\", 1)); ok(L.syscall(442, -100, b\"/\", 0, ctypes.create_string_buffer(32), 32)); ok(L.syscall(429, -100, b\"/\", -100, b\"/tmp\", 0)); ok(L.syscall(467, -100, b\"/\", 1, 0, 0))'",
    ),
    case("change the root", "py 'ok(L.chroot(b\".\")); ok(L.syscall(155, b\".\", b\".\"))'"),
    case(
        "load a program into the kernel",
        "py 'ok(L.syscall(321, 0, ctypes.create_string_buffer(128), 128)); ok(L.syscall(175, 0, 0, b\"\")); ok(L.syscall(313, 0, b\"\", 0))'",
    ),
    case("watch the processor", "py 'ok(L.syscall(298, ctypes.create_string_buffer(128), 0, -1, -1, 0))'"),
    case("handle page faults", "call 323 0 0 0 0; call 323 1 0 0 0"),
    case(
        "read the user's key ring",
        "call 250 0 -3 0 0; py 'ok(L.syscall(248, b\"user\", b\"x\", b\"y\", 1, -3)); ok(L.syscall(249, b\"user\", b\"x\", 0, 0))'",
    ),
    case(
        "push input into a terminal",
        "py 'import pty,fcntl\nm,s=pty.openpty()\nfcntl.ioctl(s, 0x5412, b\"x\")\nprint(\"ESCAPED\")'",
    ),
    case("open the user's terminal", "(echo x > /dev/tty) 2>/dev/null && echo ESCAPED"),
    case(
        "gain privileges",
        "grep -q 'NoNewPrivs:.1' /proc/self/status || echo ESCAPED; sudo -n true 2>/dev/null && echo ESCAPED; true",
    ),
    case(
        "hold dangerous capabilities",
        "c=$((16#$(grep CapEff /proc/self/status | cut -f2))); test $((c & ~0xeb)) = 0 || echo ESCAPED; b=$((16#$(grep CapPrm /proc/self/status | cut -f2))); test $((b & ~0xeb)) = 0 || echo ESCAPED",
    ),
    case(
        "write to the kernel's settings",
        "for f in /proc/sys/kernel/core_pattern /proc/sys/vm/overcommit_memory /proc/sysrq-trigger /sys/kernel/uevent_helper /sys/power/state; do open_to_write $f; done",
    ),
    case(
        "write to the machine's memory of a process",
        "open_to_write /proc/1/mem_x; open_to_write /proc/$HOST_PID/mem",
    ),
    case("watch all files", "call 300 0 0 0 0"),
    case(
        "use shared memory of another program",
        "py 'import os\nL.shmat.restype = ctypes.c_long\nok(L.shmat(int(os.environ[\"SHARED\"]), None, 0))'",
    ),
    case("name the machine", "hostname x 2>/dev/null && echo ESCAPED; true"),
];

pub(super) const NETWORK: &[Case] = &[
    case("connect to a server of the machine", "echo x > /dev/tcp/127.0.0.1/$TCP && echo ESCAPED"),
    case(
        "connect to a server by IPv6",
        "py 'import socket; s=socket.socket(socket.AF_INET6); s.connect((\"::1\", int(os.environ[\"TCP\"]))); print(\"ESCAPED\")'",
    ),
    case("send a datagram", "echo x > /dev/udp/127.0.0.1/$UDP"),
    case(
        "connect to a server on the internet",
        "timeout 2 bash -c 'echo x > /dev/tcp/1.1.1.1/443' 2>/dev/null && echo ESCAPED",
    ),
    case("resolve a name", "timeout 2 getent ahostsv4 example.com && echo ESCAPED"),
    case(
        "ask a name server",
        "py 'import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); s.sendto(b\"\\0\"*12, (\"1.1.1.1\", 53)); print(\"ESCAPED\")'",
    ),
    case(
        "open a raw socket",
        "py 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print(\"ESCAPED\")'",
    ),
    case("open a packet socket", "py 'ok(L.socket(17, 3, 0))'"),
    case(
        "open sockets of other families",
        "py 'for f in [38, 40, 31, 15, 44, 29]: ok(L.socket(f, 5, 0)); ok(L.socket(f, 1, 0)); ok(L.socket(f, 2, 0)); ok(L.socket(f, 3, 0))'",
    ),
    case("open netlink sockets other than for routes", "py 'for p in [4, 9, 12, 15, 16]: ok(L.socket(16, 3, p))'"),
    case("add a device to the network", "ip link add x type dummy 2>/dev/null && echo ESCAPED"),
    case(
        "connect to an abstract socket",
        "py 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(\"\\0\"+os.environ[\"ABSTRACT\"]); print(\"ESCAPED\")'",
    ),
    case(
        "connect to a socket outside",
        "py 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(os.environ[\"SOCKET\"]); print(\"ESCAPED\")'",
    ),
    case(
        "connect to a socket through a link",
        "ln -s $(dirname $SOCKET) d; py 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(\"d/s\"); print(\"ESCAPED\")'",
    ),
    case(
        "connect to a socket in the workspace",
        "py 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(\"daemon\"); print(\"ESCAPED\")'",
    ),
    case(
        "find sockets of the session",
        "test -z \"$(find /run /var/run/ -type s 2>/dev/null)\" || ! py 'import socket,subprocess\nfor p in subprocess.run([\"find\",\"/run\",\"-type\",\"s\"],capture_output=True,text=True).stdout.split():\n  socket.socket(socket.AF_UNIX).connect(p); print(\"ESCAPED\")' 2>/dev/null",
    ),
];
