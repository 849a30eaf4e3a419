"""The contract ``pinion:plugin`` for Python.

Decorate functions with :func:`tool` and :func:`command`, and import ``Tools`` and ``Commands`` into the plugin's module.
Schemas come from annotations, errors from exceptions.
"""

# Only modules that are imported while the component is built exist at run time; these are often imported lazily.
import collections, dataclasses, datetime, enum, heapq, inspect, json, os, posixpath, re, traceback, types, typing  # noqa: E401

from componentize_py_types import Err
from wit_world.exports import commands as _commands, tools as _tools
from wit_world.imports import cancellation as _cancellation, log as _log, progress as _progress, types as _types

try:  # Worlds without `import pinion:plugin/workspace` have none.
    from wit_world.imports import workspace as _workspace
except ImportError:
    _workspace = None

__all__ = ["Call", "Commands", "Output", "ToolError", "Tools", "command", "log", "submit", "tool"]

Kind = typing.Literal["invalid-input", "not-found", "denied", "cancelled", "failed"]


class ToolError(Exception):
    """An error of a tool with a kind; any other exception becomes a tool error, too."""

    def __init__(self, message: str, kind: Kind = "failed", *, retryable: bool = False, details=None):
        super().__init__(message)
        self.kind, self.retryable, self.details = kind, retryable, details


@dataclasses.dataclass
class Output:
    """A result with more than a text. ``display`` is plain, markdown, diff or code:LANGUAGE."""

    content: typing.Any
    details: typing.Any = None
    display: str = "plain"


class Call:
    """The circumstances of a call."""

    def __init__(self, context):
        self.id, self.session_id = context.call_id, context.session_id
        self.workspace, self.deadline_ms = context.workspace, context.deadline_ms

    def cancelled(self) -> bool:
        """Returns whether the call has been cancelled."""
        return _cancellation.cancelled()

    def check(self) -> None:
        """Raises an error if the call has been cancelled."""
        if self.cancelled():
            raise ToolError("cancelled", "cancelled")

    def progress(self, message: str) -> None:
        """Shows a short line to the user."""
        _progress.report(str(message))

    def path(self, name: str) -> str:
        """Resolves a path that the model or the user wrote, for ``open`` and ``pathlib``.

        Relative paths start at the workspace. A path outside the granted directories is an error of the kind ``denied``.
        """
        if _workspace is not None:
            return _workspace.resolve(name)
        full = posixpath.normpath(posixpath.join(self.workspace, name))
        if full != self.workspace and not full.startswith(self.workspace.rstrip("/") + "/"):
            raise ToolError(f"`{name}` is outside the workspace", "denied")
        return full


def log(message, level: typing.Literal["trace", "debug", "info", "warn", "error"] = "info") -> None:
    """Writes a line to the host's log."""
    _log.log(_log.Level[level.upper()], str(message))


_JSON = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
_registered_tools, _registered_commands = {}, {}


def _schema(annotation) -> dict:
    """Returns the JSON Schema of an annotation."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _schema(arguments[0]) | {"description": next((a for a in arguments[1:] if isinstance(a, str)), "")}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        options = [_schema(a) for a in arguments if a is not type(None)]
        return options[0] if len(options) == 1 else {"anyOf": options}
    if origin in (list, tuple, set):
        return {"type": "array", "items": _schema(arguments[0]) if arguments else {}}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    if dataclasses.is_dataclass(annotation):
        fields = [(f.name, annotation.__annotations__[f.name], f.default) for f in dataclasses.fields(annotation)]
        return _object((n, a, inspect.Parameter.empty if d is dataclasses.MISSING else d) for n, a, d in fields)
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return {"enum": [member.value for member in annotation]}
    if annotation in _JSON:
        return {"type": _JSON[annotation]}
    if annotation in (typing.Any, inspect.Parameter.empty):
        return {}
    raise TypeError(f"no JSON Schema for the annotation {annotation!r}")


def _object(members) -> dict:
    properties, required = {}, []
    for name, annotation, default in members:
        properties[name] = _schema(annotation)
        if default is inspect.Parameter.empty:
            required.append(name)
        elif default is not None and isinstance(default, (str, int, float, bool)):
            properties[name]["default"] = default
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _value(annotation, value):
    """Converts a JSON value to what a parameter is annotated with."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _value(arguments[0], value)
    if origin in (list, tuple, set) and arguments:
        return origin(_value(arguments[0], item) for item in value)
    if origin in (typing.Union, types.UnionType) and value is not None:
        chosen = [a for a in arguments if a is not type(None)]
        return _value(chosen[0], value) if len(chosen) == 1 else value
    if dataclasses.is_dataclass(annotation):
        known = annotation.__annotations__
        return annotation(**{name: _value(known[name], member) for name, member in value.items()})
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return annotation(value)
    return value


def tool(*, name=None, reads=False, writes=False, executes=False, network=False, destructive=False, delegates=False,
         sequential=False, label=None, guidelines=(), schema=None):
    """Offers a function as a tool. Its name, docstring and annotations become the tool's name, description and schema.

    The first parameter is the :class:`Call`, the others are the input.
    """
    own_name = name
    wanted = {"READS": reads, "WRITES": writes, "EXECUTES": executes, "NETWORK": network, "DESTRUCTIVE": destructive,
              "DELEGATES": delegates}

    def register(function):
        name = own_name or function.__name__
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        effects = _types.Effects(0)
        for flag in (flag for flag, is_wanted in wanted.items() if is_wanted):
            effects |= _types.Effects[flag]
        schema_ = schema or _object((p.name, p.annotation, p.default) for p in parameters)
        definition = _types.ToolDefinition(
            name=name, label=label or name.replace("_", " "),
            description=inspect.getdoc(function) or "", input_schema=json.dumps(schema_), guidelines=list(guidelines),
            effects=effects, execution=_types.Execution.SEQUENTIAL if sequential else _types.Execution.PARALLEL, extra=None)
        _registered_tools[name] = function, definition, {p.name: p.annotation for p in parameters}
        return function
    return register


def submit(message: str):
    """Makes the action that sends a message to the model as the user's."""
    return _commands.Action_Submit(message)


def command(*, name=None, hint=None, complete=None):
    """Offers a function as a slash command. It gets the text after the command's name.

    It returns a string to show to the user, an action such as :func:`submit`, a list of them, or nothing.
    """
    def register(function):
        _registered_commands[name or function.__name__.replace("_", "-")] = function, hint, complete
        return function
    return register


def _output(value):
    value = value if isinstance(value, Output) else Output(value)
    parts = value.content if isinstance(value.content, (list, tuple)) else [value.content]
    content = [part if isinstance(part, (_types.Content_Text, _types.Content_Image)) else _types.Content_Text(str(part))
               for part in parts if part is not None]
    kind, _, language = value.display.partition(":")
    display = _types.Display_Code(language) if kind == "code" else getattr(_types, f"Display_{kind.title()}")()
    return _types.ToolOutput(content=content, details=None if value.details is None else json.dumps(value.details),
                             display=display, extra=None)


def _from_host(error):
    """Returns the kind and text of an error of the host's functions."""
    case = type(error.value).__name__.rpartition("_")[2]
    kinds = {"Denied": "denied", "NotFound": "not-found", "Cancelled": "cancelled", "InvalidPattern": "invalid-input"}
    return ToolError(str(getattr(error.value, "value", case)), kinds.get(case, "failed"))


def _error(error):
    if isinstance(error, Err):
        error = _from_host(error)
    kinds = {FileNotFoundError: "not-found", PermissionError: "denied"}
    kind = getattr(error, "kind", None) or next((k for t, k in kinds.items() if isinstance(error, t)), "failed")
    message = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:  # The numbers are those of WASI, which mean something else elsewhere.
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if not isinstance(error, (ToolError, OSError)):
        message = f"{type(error).__name__}: {message}"
        for line in traceback.format_exc(limit=-3).splitlines():
            log(line, "warn")
    details = getattr(error, "details", None)
    return _types.ToolError(kind=_types.ErrorKind[kind.replace("-", "_").upper()], message=message,
                            retryable=getattr(error, "retryable", False), content=[],
                            details=None if details is None else json.dumps(details), display=_types.Display_Plain(),
                            extra=None)


def _enter(workspace):
    """Makes relative paths start at the workspace. Without a grant, there is no workspace to enter."""
    try:
        os.chdir(workspace)
    except OSError:
        pass


class Tools:
    """The export ``tools``."""

    def list_tools(self):
        return [definition for _, definition, _ in _registered_tools.values()]

    def call_tool(self, context, name, input):
        try:
            function, _, known = _registered_tools[name]
            _enter(context.workspace)
            members = {key: _value(known.get(key), value) for key, value in json.loads(input).items()}
            return _output(function(Call(context), **members))
        except Exception as error:
            raise Err(_error(error))


class Commands:
    """The export ``commands``."""

    def list_commands(self):
        return [_types.CommandDefinition(name=name, description=inspect.getdoc(function) or "", argument_hint=hint,
                                            extra=None)
                for name, (function, hint, _) in _registered_commands.items()]

    def complete_argument(self, name, typed):
        complete = _registered_commands[name][2]
        return [_commands.Completion(value=value, description=None) for value in (complete(typed) if complete else [])]

    def run_command(self, context, name, input):
        try:
            done = _registered_commands[name][0](input)
            actions = done if isinstance(done, list) else [] if done is None else [done]
            return [_commands.Action_Print(action) if isinstance(action, str) else action for action in actions]
        except Exception as error:
            raise Err(str(error) or type(error).__name__)
