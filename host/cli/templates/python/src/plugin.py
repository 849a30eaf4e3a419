from pathlib import Path
from typing import Annotated

from pinion import Call, Commands, Tools, command, submit, tool


@tool(name="{{tool}}", reads=True)
def count(call: Call, path: Annotated[str, "The file, relative to the workspace"]):
    """{{example}}ounts the words of a file."""
    call.progress(f"reading {path}")
    return f"{len(Path(call.path(path)).read_text().split())} words"


@command(name="{{name}}", hint="<file>")
def ask(input):
    """Ask for the number of words in a file"""
    return submit(f"Count the words in {input}.")
