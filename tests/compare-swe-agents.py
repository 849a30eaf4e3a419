#!/usr/bin/env python3
"""Solves the same instances with `pinion eval swe-bench` and mini-swe-agent, and compares their predictions.

    tests/compare-swe-agents.py [--pinion PATH] [--venv DIR] [--keep DIR]

Makes four repositories and a data set, and serves a scripted model on the loopback interface. Both agents get the same
answers: each is one call of the tool `bash`, and the last one submits as mini-swe-agent's prompt asks. Each prediction
must apply to a fresh clone with `git apply`, and both must leave the same tree, with the files that the script expects.

mini-swe-agent is installed from the package index into `--venv`, by default a temporary directory. Pinion runs programs
without a sandbox if `pinion-sandbox` is not beside the command.

Exits with 1 if predictions differ, with 2 if there is no command to run, and with 3 if mini-swe-agent cannot be
installed.
"""

import argparse
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = "mini-swe-agent==2.4.6"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached --binary"
DONE = "The issue is fixed."

# For each instance: the files of its repository, the issue, the commands that fix it, files of the right tree (`None`:
# no file), and agents that cannot solve it.
TASKS = {
    "maker__adder-1": {
        "files": {
            "adder/__init__.py": "def add(one, other):\n    return one - other\n",
            "tests/test_add.py": "from adder import add\n\nassert add(1, 2) == 3\n",
        },
        "issue": "add() subtracts its arguments",
        "commands": [
            "python3 -B -c 'from adder import add; print(add(1, 2))'",
            "sed -i 's/one - other/one + other/' adder/__init__.py",
            "PYTHONPATH=. python3 -B tests/test_add.py && echo passed",
        ],
        "expected": {"adder/__init__.py": "def add(one, other):\n    return one + other\n"},
    },
    "maker__layout-2": {
        "files": {
            "old name.txt": "".join(f"line {number}\n" for number in range(40)),
            "run.sh": "#!/bin/sh\necho run\n",
            "gone.txt": "obsolete\n",
            ".gitignore": "build/\n",
        },
        "issue": "The files have the wrong names and modes",
        "commands": [
            "mkdir -p docs build && mv 'old name.txt' docs/new.txt && rm gone.txt && chmod +x run.sh",
            "printf 'no newline at the end' > docs/añadido.txt; printf 'a\\000b\\377' > docs/data.bin",
            "ln -s new.txt docs/link.txt; echo object > build/out.o; git status --short",
        ],
        "expected": {"gone.txt": None, "build/out.o": None, "docs/añadido.txt": "no newline at the end"},
    },
    "other__value-3": {
        "files": {"read.me": "first\nsecond\n", "deep/er/value.json": '{"value": "wrong"}\n'},
        "issue": "The value is wrong, and a line is missing",
        "commands": [
            "echo third >> read.me; exit 3",
            "sed -i 's/wrong/right/' deep/er/value.json && cat deep/er/value.json",
        ],
        "expected": {"read.me": "first\nsecond\nthird\n", "deep/er/value.json": '{"value": "right"}\n'},
    },
    "other__windows-4": {
        "files": {"read.me": "first\r\nsecond\r\n"},
        "issue": "A line is missing",
        "commands": ["printf 'third\\r\\n' >> read.me"],
        "expected": {"read.me": "first\r\nsecond\r\nthird\r\n"},
        "unsolvable": {"mini-swe-agent": "it reads its patch as text, which drops carriage returns"},
    },
}

# Runs in the environment of mini-swe-agent: its agent, its prompt for SWE-bench and its local environment.
DRIVER = """
import json, sys, yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import builtin_config_dir
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
url, checkout, issue, out = sys.argv[1:]
config = yaml.safe_load((builtin_config_dir / "benchmarks" / "swebench.yaml").read_text())
settings = config["model"] | {
    "model_name": "openai/scripted", "cost_tracking": "ignore_errors",
    "model_kwargs": {"api_base": url, "api_key": "none", "drop_params": True},
}
agent = DefaultAgent(LitellmModel(**settings), LocalEnvironment(cwd=checkout), **config["agent"])
result = agent.run(issue)
with open(out, "w") as file:
    json.dump({"status": result["exit_status"], "patch": result["submission"], "turns": agent.n_calls}, file)
"""


def run(command, **options):
    """Runs a command, and returns its output. Ends the script if it fails."""
    ended = subprocess.run(list(map(str, command)), capture_output=True, stdin=subprocess.DEVNULL, **options)
    if ended.returncode != 0:
        text = (ended.stdout + ended.stderr).decode(errors="replace")
        sys.exit(f"{' '.join(map(str, command))[:200]} failed:\n{text}")
    return ended.stdout


def git(directory, *arguments):
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*", "-c", "core.autocrlf=false"]
    environment = os.environ | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return run(["git", *settings, *arguments], cwd=directory, env=environment).decode().strip()


def make_repositories(root):
    """Writes the repositories and the data set, and returns the instances."""
    instances = []
    for name, task in TASKS.items():
        repo = name.rsplit("-", 1)[0].replace("__", "/")
        directory = root / "repos" / repo
        for path, content in task["files"].items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(content.encode())
        git(directory, "init", "-q", "--template=")
        git(directory, "add", "-A")
        git(directory, "commit", "-qm", "base")
        base = git(directory, "rev-parse", "HEAD")
        # The name selects the answers.
        issue = f"{task['issue']} ({name})"
        instances.append({"instance_id": name, "repo": repo, "base_commit": base, "problem_statement": issue})
    (root / "data.jsonl").write_text("".join(json.dumps(instance) + "\n" for instance in instances))
    return instances


class ScriptedModel(http.server.BaseHTTPRequestHandler):
    """A server of chat completions, whose answers depend on the instance and on the number of tool results."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = json.dumps(request["messages"])
        name = next(name for name in TASKS if name in text)
        done = sum(message["role"] == "tool" for message in request["messages"])
        commands = TASKS[name]["commands"] + [SUBMIT]
        message = {"role": "assistant", "content": DONE}
        if done < len(commands):
            call = {"name": "bash", "arguments": json.dumps({"command": commands[done]})}
            calls = [{"index": 0, "id": f"call_{done}", "type": "function", "function": call}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        reason = "tool_calls" if message["content"] is None else "stop"
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        head = {"id": "1", "created": 1, "model": "scripted"}
        if request.get("stream"):
            choice = {"index": 0, "delta": message, "finish_reason": reason}
            chunk = {**head, "object": "chat.completion.chunk", "choices": [choice], "usage": usage}
            self.answer("text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")
        else:
            choice = {"index": 0, "message": message, "finish_reason": reason}
            reply = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            self.answer("application/json", json.dumps(reply))

    def do_GET(self):
        self.answer("application/json", json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}))

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def install(venv):
    """Installs mini-swe-agent and returns its Python. Ends the script with 3 if that is not possible here."""
    python = venv / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", venv])
    if subprocess.run([python, "-c", "import minisweagent"], capture_output=True).returncode != 0:
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode != 0:
            print(f"could not install {PACKAGE}, perhaps because no package index can be reached:", file=sys.stderr)
            print(ended.stderr.strip()[-500:], file=sys.stderr)
            sys.exit(3)
    return python


def solve_with_pinion(pinion, root, url):
    """Returns the patches, the turns and the seconds of Pinion."""
    home, out = root / "home", root / "pinion"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PINION_HOME": str(home), "OPENAI_API_KEY": "none"}
    options = ["--base-url", url, "--approve", "all"]
    if not (pinion.parent / "pinion-sandbox").exists():
        print("note: programs of Pinion run without a sandbox", file=sys.stderr)
        options.append("--no-sandbox")
    command = [pinion, "eval", "swe-bench", "data.jsonl", "--repos", "repos", "--out", out]
    start = time.perf_counter()
    run([*command, "-m", "openai-chat/scripted", "--", *options], cwd=root, env=environment)
    seconds = time.perf_counter() - start
    lines = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    patches = {line["instance_id"]: line["model_patch"] for line in lines}
    turns = [json.loads((out / name / "result.json").read_text())["turns"] for name in patches]
    return patches, sum(turns), seconds


def solve_with_mini(python, root, url, instances):
    """Returns the patches, the turns and the seconds of mini-swe-agent."""
    home = root / "mini-home"
    home.mkdir()
    quiet = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(home), "MSWEA_CONFIGURED": "true"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LITELLM_LOCAL_MODEL_COST_MAP": "True"} | quiet
    patches, turns, start = {}, 0, time.perf_counter()
    for instance in instances:
        checkout = root / "mini" / instance["instance_id"]
        git(root, "clone", "-q", root / "repos" / instance["repo"], checkout)
        out = root / "result.json"
        run([python, "-c", DRIVER, url, checkout, instance["problem_statement"], out], env=environment, cwd=root)
        result = json.loads(out.read_text())
        if result["status"] != "Submitted":
            sys.exit(f"mini-swe-agent ended {instance['instance_id']} with {result['status']}")
        patches[instance["instance_id"]], turns = result["patch"], turns + result["turns"]
    return patches, turns, time.perf_counter() - start


def tree_after(root, instance, agent, patch):
    """Applies a patch to a fresh clone, checks the files, and returns the id of the tree, or the problem."""
    judged = root / "judged" / agent / instance["instance_id"]
    git(root, "clone", "-q", root / "repos" / instance["repo"], judged)
    (root / "judged.patch").write_bytes(patch.encode())
    applied = subprocess.run(["git", "apply", root / "judged.patch"], cwd=judged, capture_output=True, text=True)
    if applied.returncode != 0:
        return None, f"its patch does not apply: {applied.stderr.strip()}"
    for path, content in TASKS[instance["instance_id"]]["expected"].items():
        file = judged / path
        found = file.read_bytes().decode() if file.exists() else None
        if found != content:
            return None, f"`{path}` is {found!r} after its patch, not {content!r}"
    git(judged, "add", "-A", "-f")
    return git(judged, "write-tree"), None


def compare(root, instances, solutions):
    """Prints a row for each instance, and returns whether all are equal."""
    is_equal = True
    for instance in instances:
        name, trees = instance["instance_id"], []
        for agent, (patches, _, _) in solutions.items():
            tree, problem = tree_after(root, instance, agent, patches.get(name, ""))
            reason = TASKS[name].get("unsolvable", {}).get(agent)
            if problem:
                print(f"{name}: {agent}: {problem}" + (f" (expected: {reason})" if reason else ""))
            if not (problem and reason):
                trees.append(tree)
        same = trees[0] is not None and len(set(trees)) == 1
        is_equal &= same
        print(f"{name:18} {'same tree ' + trees[0][:12] if same else f'different: {trees}'}")
    for agent, (_, turns, seconds) in solutions.items():
        print(f"{agent:18} {turns} turns in {seconds:.1f} s")
    return is_equal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pinion", type=pathlib.Path, default=ROOT / "target/release/pinion")
    parser.add_argument("--venv", type=pathlib.Path, help="where mini-swe-agent is, or is to be installed")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the repositories and results in this new directory")
    options = parser.parse_args()
    pinion = options.pinion.resolve()
    if not pinion.exists():
        print(f"no command `{pinion}`; build it, or name it with --pinion", file=sys.stderr)
        sys.exit(2)
    root = pathlib.Path(tempfile.mkdtemp(prefix="compare-swe-agents-"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ScriptedModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        python = install((options.venv or root / "venv").resolve())
        instances = make_repositories(root)
        solutions = {
            "pinion": solve_with_pinion(pinion, root, url),
            "mini-swe-agent": solve_with_mini(python, root, url, instances),
        }
        is_equal = compare(root, instances, solutions)
    finally:
        server.shutdown()
        if options.keep:
            shutil.move(root, options.keep)
        else:
            shutil.rmtree(root, ignore_errors=True)
    sys.exit(0 if is_equal else 1)


if __name__ == "__main__":
    main()
