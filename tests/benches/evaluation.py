#!/usr/bin/env python3
"""Compares `pinion eval run` with a bare loop over `pinion -p`, on the same scripted cases, one after the other.

    tests/benches/evaluation.py [--pinion PATH] [--cases N] [--rounds N] [--most RATIO]

Both run the same prompt with the same script, flags and session file in a directory with the same file. The evaluation
also makes a workspace for each case, compares its files, evaluates, and stores the result. The rounds of both
alternate, and the fastest round of each counts. Exits with 1 if the evaluation takes more than `--most` times as long
(1.2), which is meant for an optimised build on a machine with nothing else to do.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write_cases(root, count):
    """Writes the script and the set of cases, and returns the file of the set."""
    script = root / "script.jsonl"
    replies = [{"calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]}, {"text": "done"}]
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    expect = {"answer": {"exact": "done"}, "files": {"equal": {"a.txt": "one\n"}}}
    case = {"prompt": "go", "replay": "script.jsonl", "workspace": {"files": {"a.txt": "one\n"}}, "expect": expect}
    cases = [{"id": f"case-{number}", **case} for number in range(count)]
    file = root / "set.yaml"
    file.write_text(json.dumps({"id": "bench", "cases": cases}))
    return file


def timed(command, environment, directory):
    """Runs a command to its end, and returns the seconds."""
    start = time.perf_counter()
    ended = subprocess.run(command, env=environment, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True)
    seconds = time.perf_counter() - start
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{ended.stdout.decode()}{ended.stderr.decode()}")
    return seconds


def bare_loop(pinion, root, environment, count, round_number):
    """Runs the prompt once for each case, in the same directory, and returns the seconds."""
    workspace, scratch = root / "bare", root / f"sessions-{round_number}"
    workspace.mkdir(exist_ok=True)
    (workspace / "a.txt").write_text("one\n")
    scratch.mkdir()
    start = time.perf_counter()
    for number in range(count):
        session, script = scratch / f"{number}.jsonl", root / "script.jsonl"
        options = ["--quiet", "--output-format", "stream-json", "--session", session, "--replay", script]
        timed([pinion, "-C", workspace, "-p", *options, "--", "go"], environment, root)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pinion", type=pathlib.Path, default=ROOT / "target/release/pinion")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=float, default=1.2)
    options = parser.parse_args()
    pinion = options.pinion.resolve()
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        home = root / "home"
        home.mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PINION_HOME": str(home)}
        file = write_cases(root, options.cases)
        # The first run fills the caches of compiled plugins.
        timed([pinion, "eval", "run", "--quiet", "--case", "case-0", file], environment, root)
        evaluation, bare = [], []
        for number in range(options.rounds):
            evaluation.append(timed([pinion, "eval", "run", "--quiet", file], environment, root))
            bare.append(bare_loop(pinion, root, environment, options.cases, number))
    ratio = min(evaluation) / min(bare)
    for name, seconds in [("pinion eval run", evaluation), ("bare loop", bare)]:
        rounds = ", ".join(f"{one:.2f}" for one in seconds)
        print(f"{name:16} {min(seconds):6.2f} s for {options.cases} cases ({rounds})")
    print(f"{'ratio':16} {ratio:6.2f}, at most {options.most} expected")
    sys.exit(1 if ratio > options.most else 0)


if __name__ == "__main__":
    main()
