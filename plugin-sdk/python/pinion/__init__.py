"""The contract ``pinion:plugin`` for Python.

Decorate functions with :func:`tool` and :func:`command`, and import ``Tools`` and ``Commands`` into the plugin's module, and
``Offers`` if they change while the plugin is loaded. Schemas come from annotations, errors from exceptions.
"""

# Only modules that are imported while the component is built exist at run time; these are often imported lazily.
import collections, dataclasses, datetime, enum, heapq, importlib, inspect, json, os, posixpath, re, traceback, types, typing  # noqa: E401

from componentize_py_types import Err
from wit_world.imports import cancellation as _cancellation, log as _log, progress as _progress, types as _types


def _module(name):
    """Returns the bindings of an interface that not every world has."""
    try:
        return importlib.import_module(f"wit_world.{name}")
    except ImportError:
        return None


_commands, _offers, _workspace = _module("exports.commands"), _module("exports.offers"), _module("imports.workspace")

__all__ = ["Call", "Commands", "Offers", "Output", "ToolError", "Tools", "command", "log", "submit", "tool"]

Kind = typing.Literal["invalid-input", "not-found", "denied", "cancelled", "failed"]


class ToolError(Exception):
    """An error of a tool with a kind; any other exception becomes a tool error, too.

    ``content`` is for the model in place of the message; ``details`` and ``display`` go with it, as in :class:`Output`.
    """

    def __init__(self, message: str, kind: Kind = "failed", *, retryable: bool = False, content=None, details=None,
                 display: str = "plain"):
        super().__init__(message)
        self.kind, self.retryable = kind, retryable
        self.content, self.details, self.display = content, details, display


@dataclasses.dataclass
class Output:
    """A result with more than a text. ``display`` is plain, markdown, diff or code:LANGUAGE."""

    content: typing.Any
    details: typing.Any = None
    display: str = "plain"


class Call:
    """The circumstances of a call. ``route`` is the member ``route`` of the ``extra`` that the tool was offered with, if any."""

    def __init__(self, context):
        self.id, self.session_id = context.call_id, context.session_id
        self.workspace, self.deadline_ms = context.workspace, context.deadline_ms
        self.route = json.loads(context.extra).get("route") if context.extra else None

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
    if origin is tuple and arguments[-1:] != (...,):
        items = [_schema(a) for a in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in (list, tuple, set):
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is dict:
        if arguments[0] is not str:
            raise TypeError(f"the keys of a JSON object are strings: {annotation!r}")
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    if dataclasses.is_dataclass(annotation):
        known = typing.get_type_hints(annotation, include_extras=True)
        return _object((field.name, known[field.name], _default(field)) for field in dataclasses.fields(annotation))
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return {"enum": [member.value for member in annotation]}
    if annotation in _JSON:
        return {"type": _JSON[annotation]}
    if annotation in (typing.Any, inspect.Parameter.empty):
        return {}
    raise TypeError(f"no JSON Schema for the annotation {annotation!r}")


def _default(field):
    """Returns the default of a dataclass's field as that of a parameter. One that is created for each object is not shown."""
    if field.default_factory is not dataclasses.MISSING:
        return None
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default


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
    if origin is tuple and arguments[-1:] != (...,):
        return tuple(map(_value, arguments, value))
    if origin in (list, tuple, set):
        return origin(_value(arguments[0], item) for item in value)
    if origin is dict:
        return {key: _value(arguments[1], item) for key, item in value.items()}
    if origin in (typing.Union, types.UnionType) and value is not None:
        chosen = [a for a in arguments if a is not type(None)]
        return _value(chosen[0], value) if len(chosen) == 1 else value
    if dataclasses.is_dataclass(annotation):
        known = typing.get_type_hints(annotation, include_extras=True)
        return annotation(**{name: _value(known[name], member) for name, member in value.items()})
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return annotation(value)
    return value


def tool(*, name=None, reads=False, writes=False, executes=False, network=False, destructive=False, delegates=False,
         sequential=False, label=None, guidelines=(), schema=None, extra=None):
    """Offers a function as a tool. Its name, docstring and annotations become the tool's name, description and schema.

    The first parameter is the :class:`Call`, the others are the input. ``extra`` has further properties: ``resource`` and
    ``task`` of the interface ``tools``; ``route``, ``bound-to`` and ``approved-by`` of ``offers``.
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
            effects=effects, execution=_types.Execution.SEQUENTIAL if sequential else _types.Execution.PARALLEL,
            extra=None if extra is None else json.dumps(extra))
        _registered_tools[name] = function, definition, {p.name: p.annotation for p in parameters}
        return function
    return register


def submit(message: str):
    """Makes the action that sends a message to the model as the user's."""
    return _commands.Action_Submit(message)


def command(*, name=None, hint=None, complete=None):
    """Offers a function as a slash command. It gets the text after the command's name; with two parameters, the first one is
    the :class:`Call`.

    It returns a string to show to the user, an action such as :func:`submit`, a list of them, or nothing.
    """
    def register(function):
        _registered_commands[name or function.__name__.replace("_", "-")] = function, hint, complete
        return function
    return register


# Parts of the contract, such as those that another tool returned, stay as they are.
_PARTS = (_types.Content_Text, _types.Content_Image, _types.Content_Other)


def _shown(value):
    """Returns the members that results and errors share."""
    parts = value.content if isinstance(value.content, (list, tuple)) else [value.content]
    content = [part if isinstance(part, _PARTS) else _types.Content_Text(str(part)) for part in parts if part is not None]
    kind, _, language = value.display.partition(":")
    display = _types.Display_Code(language) if kind == "code" else getattr(_types, f"Display_{kind.title()}")()
    details = None if value.details is None else json.dumps(value.details)
    return {"content": content, "details": details, "display": display, "extra": None}


def _output(value):
    return _types.ToolOutput(**_shown(value if isinstance(value, Output) else Output(value)))


_KINDS = {"Denied": "denied", "Headless": "denied", "Dismissed": "denied", "BudgetExceeded": "denied", "NotFound": "not-found",
          "Cancelled": "cancelled", "Invalid": "invalid-input", "InvalidPattern": "invalid-input"}
# What cases without a text mean.
_MEANINGS = {"Headless": "no user is present to be asked", "Dismissed": "the user closed the dialog without an answer",
             "Changed": "it has changed in the meantime", "TimedOut": "it timed out"}


def _from_host(error):
    """Converts the error of a host function: a text, a record, or a case of a variant."""
    name, _, case = type(error).__name__.rpartition("_")
    if not name:
        return ToolError(error if isinstance(error, str) else getattr(error, "message", None) or repr(error))
    value = getattr(error, "value", None)
    if "_" in type(value).__name__:
        return _from_host(value)
    words = _MEANINGS.get(case) or re.sub("(?<!^)(?=[A-Z])", " ", case).lower()
    count = f": {value}" if isinstance(value, int) else ""
    message = value if isinstance(value, str) else getattr(value, "message", words + count)
    retryable = case == "Changed" or getattr(value, "request_sent", True) is False
    return ToolError(message, _KINDS.get(case, "failed"), retryable=retryable)


def _foreign(error):
    """Converts an exception that has no kind."""
    message = str(error) or type(error).__name__
    if isinstance(error, OSError):
        if error.strerror:  # The numbers are those of WASI, which mean something else elsewhere.
            message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        kinds = {FileNotFoundError: "not-found", PermissionError: "denied"}
        return ToolError(message, next((k for t, k in kinds.items() if isinstance(error, t)), "failed"))
    for line in traceback.format_exc(limit=-3).splitlines():
        log(line, "warn")
    return ToolError(f"{type(error).__name__}: {message}")


def _error(error):
    if isinstance(error, Err):
        if isinstance(error.value, _types.ToolError):
            return error.value  # That of another tool, with its content and details.
        error = _from_host(error.value)
    elif not isinstance(error, ToolError):
        error = _foreign(error)
    kind = _types.ErrorKind[error.kind.replace("-", "_").upper()]
    message = str(error) or type(error).__name__
    return _types.ToolError(kind=kind, message=message, retryable=error.retryable, **_shown(error))


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
            function, definition, known = _registered_tools[name]
            if definition.effects & (_types.Effects.READS | _types.Effects.WRITES):
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
            function = _registered_commands[name][0]
            _enter(context.workspace)
            takes_call = len(inspect.signature(function).parameters) > 1
            done = function(Call(context), input) if takes_call else function(input)
            actions = done if isinstance(done, list) else [] if done is None else [done]
            return [_commands.Action_Print(action) if isinstance(action, str) else action for action in actions]
        except Exception as error:
            raise Err(_error(error).message)


class Offers:
    """The export ``offers``: the tools and commands that are registered now. Assign ``instructions`` for the system prompt."""

    instructions = None

    def list(self):
        return _offers.Offer(tools=Tools().list_tools(), commands=Commands().list_commands(),
                             instructions=type(self).instructions)
