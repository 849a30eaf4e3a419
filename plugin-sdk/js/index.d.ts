/** The kinds of errors that a tool reports. */
export type ErrorKind = 'invalid-input' | 'not-found' | 'denied' | 'cancelled' | 'failed';

/** An error of a tool with a kind. Any other exception becomes a tool error of the kind `failed`. */
export class ToolError extends Error {
  constructor(kind: ErrorKind, message: string, options?: ErrorOptions);
  readonly kind: ErrorKind;
  readonly retryable: boolean;
  readonly content?: Content;
  readonly details?: unknown;
  readonly display?: Display;
}
interface ErrorOptions extends Partial<Output> {
  /** Whether the same call may succeed later. */
  retryable?: boolean;
}

type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error';
/** The host's log: `log.info('…')`. */
export const log: Record<Level, (...parts: unknown[]) => void>;

/** Returns the UTF-8 bytes of a text. */
export function bytesOf(text: string): Uint8Array;
/** Returns the text of UTF-8 bytes; throws if they are not UTF-8. */
export function textOf(bytes: Uint8Array): string;

/** A JSON Schema for values of the type `T`. */
export type Schema<T = unknown> = { readonly __type?: T; readonly [member: string]: unknown };
/** The schema of a member that need not be there. */
export type Optional<T> = Schema<T> & { readonly __optional?: true };
type Members = Record<string, Schema<any>>;
type OptionalNames<M extends Members> = { [K in keyof M]: M[K] extends { __optional?: true } ? ('__optional' extends keyof M[K] ? K : never) : never }[keyof M];
/** The type of values that match a schema. */
export type Infer<S> = S extends Schema<infer T> ? T : never;
/** The type of objects with these members. */
export type InferMembers<M extends Members> =
  { [K in Exclude<keyof M, OptionalNames<M>>]: Infer<M[K]> } & { [K in OptionalNames<M>]?: Infer<M[K]> };

type Rest = Record<string, unknown>;
export function string(description?: string, rest?: Rest): Schema<string>;
export function number(description?: string, rest?: Rest): Schema<number>;
export function integer(description?: string, rest?: Rest): Schema<number>;
export function boolean(description?: string, rest?: Rest): Schema<boolean>;
export function array<T>(items: Schema<T>, description?: string, rest?: Rest): Schema<T[]>;
export function oneOf<const T extends string>(values: readonly T[], description?: string): Schema<T>;
export function optional<T>(schema: Schema<T>): Optional<T>;
export function object<M extends Members>(members: M, description?: string): Schema<InferMembers<M>>;

/** One call of a tool or command. */
export interface Call {
  readonly id: string;
  readonly sessionId: string;
  /** The absolute path of the workspace. */
  readonly workspace: string;
  /** Milliseconds from the start of the call until the host stops it. */
  readonly deadlineMs: number;
  /** The value that the tool was offered with as `extra.route`; undefined without one, and in commands. */
  readonly route: unknown;
  /** Returns whether the call has been cancelled. */
  cancelled(): boolean;
  /** Throws if the call has been cancelled. */
  check(): void;
  /** Shows a short line to the user. */
  progress(message: string): void;
  /** Shows the result so far. */
  update(partial: Content): void;
}

type Image = { image: Uint8Array; mediaType: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp' };
/** A part of the contract, such as one that another tool returned. */
type HostPart =
  | { tag: 'text'; val: string } | { tag: 'image'; val: { mediaType: string; data: Uint8Array } } | { tag: 'other'; val: string };
type Part = string | Image | HostPart;
export type Content = Part | Part[];
/** A result with more than a text. */
export interface Output {
  content: Content;
  /** For the log and the UI, never for the model. */
  details?: unknown;
  display?: Display;
}
export type Display = 'plain' | 'markdown' | 'diff' | `code:${string}`;

export type Effect = 'reads' | 'writes' | 'executes' | 'network' | 'destructive' | 'delegates';

export interface Tool<M extends Members = any> {
  /** For the model. */
  description: string;
  /** For people; by default the tool's name. */
  label?: string;
  /** The members of the input, or a JSON Schema of an object. */
  input?: M;
  /** The effects that a call may have. Without any, its calls see no files. */
  effects?: Effect[];
  /** Sentences for the system prompt. */
  guidelines?: string[];
  /** Runs the tool's calls one at a time. */
  sequential?: boolean;
  /** Further properties: `resource` and `task` of the interface `tools`; `route`, `bound-to` and `approved-by` of `offers`. */
  extra?: Record<string, unknown>;
  run(input: InferMembers<M>, call: Call): Content | Output | undefined;
}

/** Returns its argument, and infers the type of the input from its schema. */
export function tool<const M extends Members = {}>(definition: Tool<M>): Tool<M>;

/** An action for the host; a string is shown to the user. */
export type Action =
  | string
  | { print: string } | { submit: string } | { insert: string } | { setModel: string }
  | { compact: string | undefined } | { resume: string | undefined }
  | { newSession: true } | { fork: true } | { reloadPlugins: true } | { quit: true };

export interface Command {
  description: string;
  /** A placeholder shown after the name, such as `<file>`. */
  hint?: string;
  /** Returns completions for what has been typed after the name. */
  complete?(typed: string): (string | { value: string; description?: string })[];
  run(input: string, call: Call): Action | Action[] | undefined;
}

export interface Definition {
  tools?: Record<string, Tool<any>>;
  commands?: Record<string, Command>;
  /** Sentences for the system prompt, which `offers` returns. */
  instructions?: string | (() => string | undefined);
}

/** Makes the exports of a plugin. `offers` lists the tools and commands of the definition as it is then. */
export function plugin(definition: Definition): { tools: object; commands: object; offers: { list(): import('pinion:plugin/offers@0.1.0').Offer } };
