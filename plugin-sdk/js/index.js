// The contract `pinion:plugin` for JavaScript. Everything that crosses the boundary is converted here: a thrown exception
// becomes a tool error, a string becomes a result, and every record has all of its members.
import { log as write } from 'pinion:plugin/log@0.1.0';
import { report, update } from 'pinion:plugin/progress@0.1.0';
import { cancelled } from 'pinion:plugin/cancellation@0.1.0';

/**
 * An error of a tool with a kind. Any other exception becomes a tool error of the kind `failed`. `content` is for the model in
 * place of the message; `details` and `display` go with it, as in a result.
 */
export class ToolError extends Error {
  constructor(kind, message, { retryable = false, content, details, display } = {}) {
    super(message);
    this.kind = kind;
    this.retryable = retryable;
    this.content = content;
    this.details = details;
    this.display = display;
  }
}

const levels = ['trace', 'debug', 'info', 'warn', 'error'];
/** Writes a line to the host's log: `log.info('…')`. */
export const log = Object.fromEntries(levels.map((level) => [level, (...parts) => write(level, parts.map(words).join(' '))]));

const words = (value) => (typeof value === 'string' ? value : value instanceof Error ? value.message : JSON.stringify(value) ?? String(value));

// The engine of the templates has no TextEncoder and no TextDecoder.
/** Returns the UTF-8 bytes of a text. */
export const bytesOf = (text) => Uint8Array.from(unescape(encodeURIComponent(text)), (letter) => letter.charCodeAt(0));
/** Returns the text of UTF-8 bytes; throws if they are not UTF-8. */
export function textOf(bytes) {
  let letters = '';
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return decodeURIComponent(escape(letters));
}

// Schemas. A schema is plain JSON Schema; `optional` marks a member that need not be there.
const described = (type) => (description, rest = {}) => ({ type, ...(description && { description }), ...rest });
export const string = described('string');
export const number = described('number');
export const integer = described('integer');
export const boolean = described('boolean');
export const array = (items, description, rest = {}) => ({ type: 'array', items, ...(description && { description }), ...rest });
export const oneOf = (values, description) => ({ type: 'string', enum: values, ...(description && { description }) });
export const optional = (schema) => ({ ...schema, [OPTIONAL]: true });
export const object = (members, description) => ({
  type: 'object',
  ...(description && { description }),
  properties: members,
  required: Object.keys(members).filter((name) => !members[name][OPTIONAL]),
  additionalProperties: false,
});
const OPTIONAL = Symbol('optional');

/** Marks the type of a tool's input for TypeScript; returns its argument. */
export const tool = (definition) => definition;

const flags = ['reads', 'writes', 'executes', 'network', 'destructive', 'delegates'];
const effects = (declared = []) => Object.fromEntries(flags.map((flag) => [flag, declared.includes(flag)]));

// A mistake in a definition is reported while the plugin is built.
function checked(name, definition) {
  const unknown = (definition.effects ?? []).filter((effect) => !flags.includes(effect));
  if (unknown.length) throw new Error(`tool ${name}: unknown effect ${unknown.join(', ')}; the effects are ${flags.join(', ')}`);
  if (typeof definition.run !== 'function') throw new Error(`tool ${name}: run is not a function`);
  return definition;
}

// A prototype, because each call would create closures of its own.
class Call {
  constructor(context) {
    this.id = context.callId;
    this.sessionId = context.sessionId;
    this.workspace = context.workspace;
    this.deadlineMs = context.deadlineMs;
    this.route = context.extra ? JSON.parse(context.extra).route : undefined;
  }
  cancelled() { return cancelled(); }
  /** Throws if the call has been cancelled. */
  check() { if (cancelled()) throw new ToolError('cancelled', 'cancelled'); }
  progress(message) { report(words(message)); }
  update(partial) { update(contentOf(partial)); }
}

// Parts of the contract, such as those that another tool returned, stay as they are.
const part = (value) => (typeof value === 'string' ? { tag: 'text', val: value }
  : ['text', 'image', 'other'].includes(value.tag) ? value
  : value.image ? { tag: 'image', val: { mediaType: value.mediaType, data: value.image } }
  : { tag: 'text', val: words(value) });
// Most results are one text.
const contentOf = (value) => (Array.isArray(value) ? value.map(part) : value === undefined || value === null ? [] : [part(value)]);
const json = (value) => (value === undefined ? undefined : JSON.stringify(value));

// Nothing runs after a call has returned, so that a promise would never be settled.
function settled(value) {
  if (typeof value?.then !== 'function') return value;
  throw new ToolError('failed', 'the plugin returned a promise: functions of a plugin must not be async');
}

function displayOf(display) {
  if (!display) return { tag: 'plain' };
  const [tag, language] = display.split(':');
  return language === undefined ? { tag } : { tag, val: language };
}

function outputOf(value) {
  const full = typeof value === 'object' && value !== null && 'content' in value ? value : { content: value };
  return { content: contentOf(full.content), details: json(full.details), display: displayOf(full.display), extra: undefined };
}

// The kinds of errors, and the cases of the host's errors that have one.
const kinds = ['invalid-input', 'not-found', 'denied', 'cancelled', 'failed'];
const kindOf = {
  headless: 'denied', dismissed: 'denied', 'budget-exceeded': 'denied', invalid: 'invalid-input', 'invalid-pattern': 'invalid-input',
};
// What cases without a text mean.
const meanings = {
  headless: 'no user is present to be asked', dismissed: 'the user closed the dialog without an answer',
  changed: 'it has changed in the meantime', 'timed-out': 'it timed out',
};

const toolError = ({ kind = 'failed', message, retryable, content, details, display }) => ({
  kind: kinds.includes(kind) ? kind : 'failed',
  message: String(message),
  retryable: retryable === true,
  content: contentOf(content),
  details: json(details),
  display: displayOf(display),
  extra: undefined,
});

// The error of another tool, which is passed on as it is, with its content and details.
const isToolError = ({ kind, content, display }) => kinds.includes(kind) && Array.isArray(content) && display?.tag !== undefined;

// Any other error of a host function: a record, or a case of a variant.
function hostError({ tag, val, kind, message, retryable, ...rest }) {
  if (tag === undefined) return { kind, message: message ?? words(rest), retryable };
  if (val?.tag !== undefined) return hostError(val);
  const count = ['number', 'bigint'].includes(typeof val) ? `: ${val}` : '';
  const said = typeof val === 'string' ? val : val?.message;
  return {
    kind: kindOf[tag] ?? tag,
    message: said ?? (meanings[tag] ?? tag.replaceAll('-', ' ')) + count,
    retryable: tag === 'changed' || val?.requestSent === false,
  };
}

function errorOf(error) {
  if (error instanceof ToolError) return toolError(error);
  // A host function throws `{ payload }`, or the payload itself.
  const payload = error?.payload ?? error;
  if (payload instanceof Error) {
    (payload.stack ?? '').trim().split('\n').filter(Boolean).forEach((line) => write('warn', line));
    return toolError({ message: payload.message || payload.name });
  }
  if (typeof payload !== 'object' || payload === null) return toolError({ message: words(payload) });
  return isToolError(payload) ? payload : toolError(hostError(payload));
}

// `{ submit: '…' }`, `{ fork: true }`, or a string to print.
function actionOf(action) {
  if (typeof action === 'string') return { tag: 'print', val: action };
  const [[name, val]] = Object.entries(action);
  const tag = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return val === true ? { tag } : { tag, val };
}

/**
 * Makes the exports of a plugin: `export const { tools, commands } = plugin({ tools, commands })`. `offers` lists the same
 * again after the definitions have changed.
 */
export function plugin({ tools = {}, commands = {}, instructions }) {
  for (const [name, definition] of Object.entries(tools)) checked(name, definition);
  const listTools = () => Object.entries(tools).map(([name, tool]) => ({
    name,
    label: tool.label ?? name.replace(/[_-]/g, ' '),
    description: tool.description,
    inputSchema: JSON.stringify(tool.input?.type ? tool.input : object(tool.input ?? {})),
    guidelines: tool.guidelines ?? [],
    effects: effects(tool.effects),
    execution: tool.sequential ? 'sequential' : 'parallel',
    extra: json(tool.extra),
  }));
  const listCommands = () => Object.entries(commands).map(([name, command]) => ({
    name,
    description: command.description,
    argumentHint: command.hint,
    extra: undefined,
  }));
  return {
    tools: {
      listTools,
      callTool(context, name, input) {
        try {
          return outputOf(settled(tools[name].run(JSON.parse(input), new Call(context))));
        } catch (error) {
          throw errorOf(error);
        }
      },
    },
    commands: {
      listCommands,
      completeArgument: (name, typed) => (commands[name].complete?.(typed) ?? []).map((item) => (
        typeof item === 'string' ? { value: item, description: undefined } : item)),
      runCommand(context, name, input) {
        try {
          return [settled(commands[name].run(input, new Call(context)))].flat().filter((action) => action !== undefined).map(actionOf);
        } catch (error) {
          throw errorOf(error).message;
        }
      },
    },
    offers: {
      list: () => ({
        tools: listTools(),
        commands: listCommands(),
        instructions: typeof instructions === 'function' ? instructions() : instructions,
      }),
    },
  };
}
