//! Attempts to make git run something when the user uses it later: files that the program creates are checked once it
//! has ended.

use super::cases::{Case, case, case_then};

pub(super) const REPOSITORIES: &[Case] = &[
    case(
        "write to the hooks of a repository deep inside",
        "echo x > deep/er/inner/.git/hooks/post-commit && echo ESCAPED",
    ),
    case(
        "change the config of a repository deep inside",
        "git -C deep/er/inner config core.fsmonitor x && echo ESCAPED",
    ),
    case(
        "rename a repository deep inside",
        "mv deep/er/inner/.git deep/er/inner/g && echo ESCAPED; mv deep/er d && echo ESCAPED",
    ),
    case(
        "write to the hooks of a bare repository",
        "echo x > deep/er/bare.git/hooks/update && echo ESCAPED; echo x >> deep/er/bare.git/config && echo ESCAPED",
    ),
    case_then("leave a repository with a monitor", "repository src/new", "cd src/new && git status"),
    case_then(
        "leave a repository with a monitor deep inside",
        "mkdir -p src/a/b && repository src/a/b/c",
        "cd src/a/b/c && git status",
    ),
    case_then(
        "leave a repository with a monitor in a closed directory",
        "mkdir -p src/a/b && repository src/a/b/c; chmod 0 src/a/b; chmod 600 src/a",
        "chmod 755 src/a; chmod 755 src/a/b; cd src/a/b/c && git status",
    ),
    case_then(
        "leave a repository with an alias and hooks that is bare",
        "git init -q --bare src/b && evil src/b/evil && git -C src/b config alias.st '!./evil' && evil src/b/hooks/post-index-change",
        "cd src/b || exit; git st; git read-tree --empty",
    ),
    case_then(
        "leave a repository among the objects of another",
        "git init -q src/r && repository src/r/.git/objects/x && mkdir src/p && echo gitdir: ../r/.git/objects/x/.git > src/p/.git",
        "cd src/p || exit; git status; cd ../r/.git/objects/x && git status",
    ),
    case_then(
        "put a repository in the place of one that includes a config",
        "git init -q src/i && evil src/i/evil && printf '[core]\\n\\tfsmonitor = ./evil\\n' > src/i/more && git -C src/i config include.path ../more",
        "cd src/i && git status",
    ),
    case_then(
        "lead a worktree to a repository of its own",
        "git init -q src/own && evil $PWD/src/own/evil && git -C src/own config core.fsmonitor $PWD/src/own/evil && echo ../../../src/own/.git > .git/worktrees/tree/commondir",
        "cd trees/tree && git status",
    ),
    case_then(
        "give a worktree a config of its own",
        "evil src/evil; git config -f .git/worktrees/tree/config.worktree core.fsmonitor $PWD/src/evil",
        "grep -q fsmonitor .git/worktrees/tree/config.worktree && echo evil >> $OUT/file",
    ),
    case_then(
        "put a repository in the place of a worktree",
        "cd trees/tree && rm -f .git && repository .",
        "cd trees/tree && git status",
    ),
    case_then(
        "make a repository of a worktree's directory",
        "cd .git/worktrees/tree && rm -f commondir && mkdir objects refs && printf '[core]\\n\\tfsmonitor = /bin/false\\n' > config",
        "grep -q false .git/worktrees/tree/config && echo evil >> $OUT/file",
    ),
    case_then(
        "write to a script in a worktree that a setting names",
        "evil trees/tree/tools/clean.sh",
        "cd trees/tree && echo x > a.x && git add a.x",
    ),
    case_then(
        "add a worktree with another script",
        "mkdir -p .git/worktrees/n src/n/tools && echo ref: refs/heads/n > .git/worktrees/n/HEAD && echo ../.. > .git/worktrees/n/commondir && echo $PWD/src/n/.git > .git/worktrees/n/gitdir && echo gitdir: $PWD/.git/worktrees/n > src/n/.git && echo '*.x filter=x' > src/n/.gitattributes && evil src/n/tools/clean.sh",
        "cd src/n && echo x > a.x && git add a.x",
    ),
    case_then(
        "leave a command in the rest of a rebase",
        "evil src/evil; mkdir -p .git/rebase-merge && printf 'exec %s/src/evil\\n' $PWD > .git/rebase-merge/git-rebase-todo",
        "grep -q exec .git/rebase-merge/git-rebase-todo && echo evil >> $OUT/file",
    ),
    case_then(
        "leave a strategy of merges that is a program",
        "evil git-merge-x/evil; mkdir -p .git/rebase-merge .git/sequencer; echo x/evil > .git/rebase-merge/strategy; git config -f .git/sequencer/opts options.strategy x/evil",
        "grep -q evil .git/rebase-merge/strategy .git/sequencer/opts && git-merge-x/evil < /dev/null",
    ),
    case_then(
        "lead git to hooks through a link",
        "git init -q src/l && mkdir src/h && evil src/h/post-index-change && rm -rf src/l/.git/hooks && ln -s ../../h src/l/.git/hooks",
        "cd src/l && git read-tree --empty",
    ),
];
