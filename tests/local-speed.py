#!/usr/bin/env python3
"""Compares the speed of the engine in Pinion with llama.cpp, on the same file and the same number of threads.

    tests/local-speed.py MODEL FILE

FILE has the output of `cargo run -p pinion-local-models --features engine --example generate MODEL`. Needs
`pip install xllamacpp==2026.10.11549`. Fails if Pinion writes fewer than half as many tokens per second as llama.cpp.
"""
import os
import pathlib
import re
import sys

import xllamacpp

LEAST_RATIO = 0.5
# As in host/local-models/examples/generate.rs.
PROMPT = "The quick brown fox jumps over the lazy dog, and writes a story about it. " * 24
TOKENS = 128


def llama_cpp(model):
    """Returns tokens per second, read and written."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx, params.n_parallel, params.sampling.temp = 2048, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = len(os.sched_getaffinity(0))
    server = xllamacpp.Server(params)

    def answer(words, tokens):
        messages = [{"role": "user", "content": words}]
        request = {"messages": messages, "max_tokens": tokens, "ignore_eos": True}
        return server.handle_chat_completions(request)["timings"]

    answer("Hello", 1)
    timings = answer(PROMPT, TOKENS)
    return timings["prompt_per_second"], timings["predicted_per_second"]


def pinion(file):
    read, written = re.findall(r"^([\d.]+) tokens/s$", pathlib.Path(file).read_text(), re.MULTILINE)
    return float(read), float(written)


def main(model, file):
    ours, theirs = pinion(file), llama_cpp(model)
    for work, own, other in zip(("reading", "writing"), ours, theirs):
        print(f"{work}: {own:.1f} tokens/s, llama.cpp {other:.1f}, ratio {own / other:.2f}")
    if ours[1] / theirs[1] < LEAST_RATIO:
        sys.exit(f"Pinion writes fewer than {LEAST_RATIO} times the tokens of llama.cpp")


if __name__ == "__main__":
    main(*sys.argv[1:])
