// The types of the contract, which `jco guest-types` generated from `wit/`; `plugins/build.sh` regenerates them.
// Each module needs the same import or export in `wit/world.wit`.
declare module 'pinion:plugin/after-tool-call@0.1.0' {
  /**
   * Called with the outcome of a call, and of calls that failed. Returns the outcome that replaces it; none to leave it as
   * it is. A failed call cannot become a successful one. A hook that fails changes nothing and is reported to the user.
   */
  export function revise(context: CallContext, call: ToolCall, outcome: Result<ToolOutput, ToolError>): Result<ToolOutput, ToolError> | undefined;
  export type CallContext = import('pinion:plugin/types@0.1.0').CallContext;
  export type ToolCall = import('pinion:plugin/types@0.1.0').ToolCall;
  export type ToolOutput = import('pinion:plugin/types@0.1.0').ToolOutput;
  export type ToolError = import('pinion:plugin/types@0.1.0').ToolError;
  export type Result<T, E> = { tag: 'ok', val: T } | { tag: 'err', val: E };
}
declare module 'pinion:plugin/agents@0.1.0' {
  /**
   * Returns the sub-agents that the user has configured. Empty without the grant. Answers while the plugin is loaded, too,
   * so that a tool can describe them.
   */
  export function kinds(): Array<Kind>;
  /**
   * Runs a sub-agent and waits for it. Meanwhile, the user sees its progress.
   */
  export function run(assignment: Assignment): Report;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  /**
   * A sub-agent that the user has configured.
   */
  export interface Kind {
    name: string,
    /**
     * The purpose, for the model.
     */
    description: string,
  }
  /**
   * The rule that selects one of several attempts.
   * # Variants
   *
   * ## `"first"`
   *
   * The first attempt that completes.
   * ## `"fewest-tokens"`
   *
   * The completed attempt that used the fewest tokens.
   * ## `"most-tokens"`
   *
   * The completed attempt that used the most tokens.
   * ## `"judge"`
   *
   * The attempt whose answer a model rates best.
   */
  export type Choice = 'first' | 'fewest-tokens' | 'most-tokens' | 'judge';
  /**
   * Concurrent attempts at the same task. Attempts never get a tool that writes, executes or uses the network.
   */
  export interface Attempts {
    /**
     * 1 to 8; 1 is the same as no attempts.
     */
    count: number,
    choice: Choice,
  }
  export interface Assignment {
    /**
     * The task. The sub-agent sees nothing else of the conversation, unless `context` in `extra` gives it a copy.
     */
    prompt: string,
    /**
     * The name of a configured sub-agent; none for the agent itself with another task.
     */
    kind?: string,
    /**
     * The tools that it may use; none for all that it can get. A tool that it cannot get is an error.
     */
    tools?: Array<string>,
    /**
     * The most turns. The user's setting, 10 by default, is the upper bound.
     */
    maxTurns?: number,
    /**
     * The time after which it is stopped; none for the end of this call.
     */
    timeoutMs?: number,
    attempts?: Attempts,
    /**
     * A JSON object with further settings; members that the host does not know are ignored.
     */
    extra?: Json,
  }
  export interface Report {
    /**
     * The last message of the sub-agent; empty when it said nothing.
     */
    text: string,
    /**
     * The reason why it stopped early; none when it completed.
     */
    shortfall?: string,
    /**
     * The id of its loop in the session.
     */
    loopId: string,
    turns: number,
    /**
     * The sum of all attempts and of choosing one.
     */
    inputTokens: number,
    outputTokens: number,
  }
  export type AgentError = AgentErrorDenied | AgentErrorInvalid | AgentErrorFailed | AgentErrorCancelled;
  /**
   * `agents` was not granted, the tool does not declare `delegates`, or no sub-agent can start here.
   */
  export interface AgentErrorDenied {
    tag: 'denied',
    val: string,
  }
  /**
   * The assignment is invalid; the text says what would be valid.
   */
  export interface AgentErrorInvalid {
    tag: 'invalid',
    val: string,
  }
  /**
   * The sub-agent could not be started.
   */
  export interface AgentErrorFailed {
    tag: 'failed',
    val: string,
  }
  /**
   * The call was cancelled.
   */
  export interface AgentErrorCancelled {
    tag: 'cancelled',
  }
}
declare module 'pinion:plugin/before-compaction@0.1.0' {
  /**
   * Returns further instructions for the summary, at most 4 KiB, such as what must not be lost. A hook that fails is
   * reported to the user.
   */
  export function instructions(context: CallContext, compaction: Compaction): string | undefined;
  export type CallContext = import('pinion:plugin/types@0.1.0').CallContext;
  export interface Compaction {
    /**
     * Messages that the summary replaces.
     */
    messages: number,
    /**
     * Estimated tokens before the compaction.
     */
    tokens: number,
    /**
     * Instructions for the summary that the user gave.
     */
    instructions?: string,
  }
}
declare module 'pinion:plugin/before-prompt@0.1.0' {
  /**
   * Called before a prompt is sent. A hook that fails, or does not answer in time, rejects the prompt.
   */
  export function check(context: CallContext, prompt: string): PromptVerdict;
  export type CallContext = import('pinion:plugin/types@0.1.0').CallContext;
  export type PromptVerdict = PromptVerdictProceed | PromptVerdictWarn | PromptVerdictReject | PromptVerdictAddContext;
  export interface PromptVerdictProceed {
    tag: 'proceed',
  }
  /**
   * The user sees the text, and the prompt is sent.
   */
  export interface PromptVerdictWarn {
    tag: 'warn',
    val: string,
  }
  /**
   * The prompt is not sent; the user sees the text.
   */
  export interface PromptVerdictReject {
    tag: 'reject',
    val: string,
  }
  /**
   * The text, at most 16 KiB, is sent with the prompt, marked as that of the plugin.
   */
  export interface PromptVerdictAddContext {
    tag: 'add-context',
    val: string,
  }
}
declare module 'pinion:plugin/before-tool-call@0.1.0' {
  /**
   * Called before a tool call is approved. A hook that fails, or does not answer in time, denies the call.
   */
  export function check(context: CallContext, call: ToolCall): Verdict;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  export type CallContext = import('pinion:plugin/types@0.1.0').CallContext;
  export type ToolCall = import('pinion:plugin/types@0.1.0').ToolCall;
  export type Verdict = VerdictProceed | VerdictDeny | VerdictAsk | VerdictRewrite;
  export interface VerdictProceed {
    tag: 'proceed',
  }
  /**
   * The call does not run; the text goes to the model.
   */
  export interface VerdictDeny {
    tag: 'deny',
    val: string,
  }
  /**
   * The user decides, even when the call needs no approval otherwise; the text says why.
   */
  export interface VerdictAsk {
    tag: 'ask',
    val: string,
  }
  /**
   * The call runs with this input, which is validated again before anything else sees it.
   */
  export interface VerdictRewrite {
    tag: 'rewrite',
    val: Json,
  }
}
declare module 'pinion:plugin/cancellation@0.1.0' {
  /**
   * Returns whether the user or the agent has cancelled the call. Cheap enough for inner loops. Once true, it stays true
   * for the rest of the call.
   */
  export function cancelled(): boolean;
}
declare module 'pinion:plugin/catalog@0.1.0' {
  export function tools(): Array<ToolInfo>;
  export function commands(): Array<CommandInfo>;
  export function plugins(): Array<PluginInfo>;
  export function models(): Array<ModelInfo>;
  export function usage(): UsageInfo;
  export type Effects = import('pinion:plugin/types@0.1.0').Effects;
  export interface ToolInfo {
    name: string,
    description: string,
    /**
     * The plugin that provides it.
     */
    plugin: string,
    /**
     * The effects that its calls can have: those that it declares, limited to the grants of its plugin.
     */
    effects: Effects,
  }
  export interface CommandInfo {
    name: string,
    description: string,
    argumentHint?: string,
    plugin: string,
  }
  /**
   * A capability that a plugin asks for.
   */
  export interface CapabilityInfo {
    /**
     * The name in manifests and in the config, such as "files".
     */
    name: string,
    /**
     * A verb phrase for people, such as "write files".
     */
    description: string,
    /**
     * The granted extent for people, which may be empty; none when nothing is granted.
     */
    granted?: string,
  }
  export interface PluginInfo {
    name: string,
    version: string,
    description: string,
    /**
     * 1 for the first load, plus one for each reload.
     */
    generation: number,
    /**
     * "built-in", or the path of the file.
     */
    source: string,
    /**
     * The capabilities that it asks for.
     */
    capabilities: Array<CapabilityInfo>,
    /**
     * The reason why the last reload failed, if it did.
     */
    problem?: string,
  }
  export interface ModelInfo {
    /**
     * The name that `--model` accepts.
     */
    name: string,
    /**
     * Whether the model is in use.
     */
    current: boolean,
  }
  /**
   * Usage of this session. Counts that do not fit stay at the largest value.
   */
  export interface UsageInfo {
    requests: number,
    inputTokens: number,
    outputTokens: number,
    cacheReadTokens: number,
    cacheWriteTokens: number,
    /**
     * In US dollars; none when the model's prices are unknown.
     */
    cost?: number,
  }
}
declare module 'pinion:plugin/child-process@0.1.0' {
  /**
   * Starts a program. `stdin` is what it reads first; its standard input stays open. `max-output` has no meaning. At most 8
   * run in a call.
   */
  export function spawn(command: Command): Child;
  export type Command = import('pinion:plugin/process@0.1.0').Command;
  export type ProcessError = import('pinion:plugin/process@0.1.0').ProcessError;
  /**
   * # Variants
   *
   * ## `"stdout"`
   *
   * ## `"stderr"`
   */
  export type OutputStream = 'stdout' | 'stderr';
  export type ReadResult = ReadResultData | ReadResultEnd | ReadResultTimedOut;
  /**
   * At least one byte.
   */
  export interface ReadResultData {
    tag: 'data',
    val: Uint8Array,
  }
  /**
   * The program has closed the stream.
   */
  export interface ReadResultEnd {
    tag: 'end',
  }
  /**
   * Nothing arrived within the time.
   */
  export interface ReadResultTimedOut {
    tag: 'timed-out',
  }
  export interface Exit {
    /**
     * None when a signal ended the program.
     */
    code?: number,
    signal?: number,
  }

  export class Child {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Writes to the program's standard input and returns the number of bytes written, which is 0 after `timeout-ms`.
    */
    write(data: Uint8Array, timeoutMs: number): number;
    /**
    * Closes the program's standard input.
    */
    closeStdin(): void;
    /**
    * Reads at most `limit` bytes, 1 to 1 MiB, of an output stream. The host holds at most 256 KiB that were not read; then
    * the program waits. It collects output while the plugin waits for the program in any of these functions.
    */
    read(source: OutputStream, limit: number, timeoutMs: number): ReadResult;
    /**
    * Waits for the end of the program; none after `timeout-ms`. Once this has returned the end, the host has killed what
    * was left of the process group.
    */
    wait(timeoutMs: number): Exit | undefined;
    /**
    * Kills the process group.
    */
    kill(): void;
  }
}
declare module 'pinion:plugin/commands@0.1.0' {
  /**
   * Called once per load, like `tools.list-tools`.
   */
  export function listCommands(): Array<CommandDefinition>;
  /**
   * Called while the user types; must return within 100 ms. `typed` is the text after the command's name. The call may
   * read granted files, stored values and the catalog, and ask MCP servers that are connected by `mcp.complete`, and change
   * nothing. At most 1,000 completions.
   */
  export function completeArgument(name: string, typed: string): Array<Completion>;
  /**
   * Called when the user enters the command, with all capabilities that the plugin was granted except `agents`, `invoke` and
   * `model`. The host performs the actions, at most 100, in order. `input` is the text after the command's name. An error is
   * shown to the user.
   */
  export function runCommand(context: CallContext, name: string, input: string): Array<Action>;
  export type CallContext = import('pinion:plugin/types@0.1.0').CallContext;
  export type CommandDefinition = import('pinion:plugin/types@0.1.0').CommandDefinition;
  export interface Completion {
    /**
     * Replaces the argument that has been typed.
     */
    value: string,
    description?: string,
  }
  /**
   * An action that has no case of its own.
   */
  export interface OtherAction {
    name: string,
    argument?: string,
  }
  /**
   * An action that the host performs for a command. The host may refuse one, and reports that to the user.
   */
  export type Action = ActionPrint | ActionSubmit | ActionInsert | ActionSetModel | ActionCompact | ActionNewSession | ActionResume | ActionFork | ActionReloadPlugins | ActionQuit | ActionOther;
  /**
   * Show Markdown. The model does not see it.
   */
  export interface ActionPrint {
    tag: 'print',
    val: string,
  }
  /**
   * Send a message to the model as the user's.
   */
  export interface ActionSubmit {
    tag: 'submit',
    val: string,
  }
  /**
   * Insert text into the input line.
   */
  export interface ActionInsert {
    tag: 'insert',
    val: string,
  }
  /**
   * Switch the model: NAME or PROVIDER/NAME, as with `--model`.
   */
  export interface ActionSetModel {
    tag: 'set-model',
    val: string,
  }
  /**
   * Replace the conversation with a summary; the text adds instructions for the summary.
   */
  export interface ActionCompact {
    tag: 'compact',
    val: string | undefined,
  }
  export interface ActionNewSession {
    tag: 'new-session',
  }
  /**
   * Resume the session with this id, or list the sessions.
   */
  export interface ActionResume {
    tag: 'resume',
    val: string | undefined,
  }
  /**
   * Continue in a copy of the session.
   */
  export interface ActionFork {
    tag: 'fork',
  }
  export interface ActionReloadPlugins {
    tag: 'reload-plugins',
  }
  export interface ActionQuit {
    tag: 'quit',
  }
  /**
   * An action of a later version of the host. A host that does not know it reports that to the user.
   */
  export interface ActionOther {
    tag: 'other',
    val: OtherAction,
  }
}
declare module 'pinion:plugin/http@0.1.0' {
  /**
   * Sends a request and waits for the whole answer. Every status is a success.
   */
  export function send(request: Request): Response;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  export interface Request {
    /**
     * Such as "GET".
     */
    method: string,
    /**
     * An absolute URL with the scheme https or http.
     */
    url: string,
    /**
     * The host sets `host`, `content-length` and the headers of the connection itself, and refuses them here.
     */
    headers: Array<[string, string]>,
    /**
     * At most 16 MiB.
     */
    body: Uint8Array,
    /**
     * The name of a secret that the plugin was granted. The host inserts it in the way that the user configured, and only
     * for the servers that it is meant for.
     */
    credential?: string,
    /**
     * The time after which the request is given up; by default 30,000, and never later than the call's deadline.
     */
    timeoutMs?: number,
    /**
     * The most redirects to follow, at most 10, which is the default.
     */
    maxRedirects?: number,
    /**
     * The largest body to accept; by default 4 MiB, at most 16 MiB.
     */
    maxBody?: number,
    /**
     * A JSON object with further settings; members that the host does not know are ignored.
     */
    extra?: Json,
  }
  export interface Response {
    status: number,
    headers: Array<[string, string]>,
    body: Uint8Array,
    /**
     * The URL that answered, after redirects.
     */
    url: string,
  }
  /**
   * A failure, and whether the server may have received the request.
   */
  export interface Failure {
    message: string,
    requestSent: boolean,
  }
  export type HttpError = HttpErrorDenied | HttpErrorInvalid | HttpErrorTooLarge | HttpErrorTimedOut | HttpErrorCancelled | HttpErrorFailed;
  /**
   * Not granted; the text names the rule that is missing.
   */
  export interface HttpErrorDenied {
    tag: 'denied',
    val: string,
  }
  /**
   * The request is malformed.
   */
  export interface HttpErrorInvalid {
    tag: 'invalid',
    val: string,
  }
  /**
   * The answer exceeds `max-body`.
   */
  export interface HttpErrorTooLarge {
    tag: 'too-large',
    val: number,
  }
  export interface HttpErrorTimedOut {
    tag: 'timed-out',
    val: Failure,
  }
  export interface HttpErrorCancelled {
    tag: 'cancelled',
    val: Failure,
  }
  export interface HttpErrorFailed {
    tag: 'failed',
    val: Failure,
  }
}
declare module 'pinion:plugin/invoke@0.1.0' {
  /**
   * Lists the tools that the running call can call. Empty without the grant.
   */
  export function tools(): Array<Callable>;
  /**
   * Calls a tool and waits for its result. The error is `not-found` for a tool that the call cannot call, and `denied` if the
   * user or a hook denies it.
   */
  export function callTool(name: string, input: Json): ToolOutput;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  export type ToolOutput = import('pinion:plugin/types@0.1.0').ToolOutput;
  export type ToolError = import('pinion:plugin/types@0.1.0').ToolError;
  /**
   * A tool that can be called.
   */
  export interface Callable {
    name: string,
    description: string,
    inputSchema: Json,
  }
}
declare module 'pinion:plugin/lifecycle@0.1.0' {
  /**
   * Called on every instance before any other function, without authority: no files, no programs, no sub-agents. `config`
   * is the plugin's section of the config as a JSON object (`{}` when there is none). An error fails the call that the
   * instance was created for.
   */
  export function init(config: Json): void;
  /**
   * Called once per load, without authority and under the fixed limits of loading. On an error, the plugin is not loaded,
   * or its previous generation stays loaded.
   */
  export function selfTest(): void;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
}
declare module 'pinion:plugin/log@0.1.0' {
  /**
   * Writes one line under the plugin's name, cut at 4 KiB. Lines count towards the call's output limit; beyond it, or beyond
   * 1 MiB of log lines, they are dropped. Never blocks and never fails.
   */
  export function log(level: Level, message: string): void;
  /**
   * # Variants
   *
   * ## `"trace"`
   *
   * ## `"debug"`
   *
   * ## `"info"`
   *
   * ## `"warn"`
   *
   * ## `"error"`
   */
  export type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error';
}
declare module 'pinion:plugin/mcp@0.1.0' {
  /**
   * Lists the servers that the grant covers, without starting any. Empty without the grant. In a call, it needs what
   * requests need. A plugin that exports `offers` is asked again when the list has changed.
   */
  export function servers(): Array<Server>;
  /**
   * Starts or reaches a server, and waits until it has said what it offers.
   */
  export function connect(server: string): void;
  /**
   * Calls a tool with a JSON object, its arguments. `extra` is a JSON object with further settings; members that the host does
   * not know are ignored. With the member `task`, the id of one of the server's tasks, it waits for the result of that task
   * instead, and with `cancel: true` besides, it cancels the task. Progress of the server is shown as that of the call.
   */
  export function callTool(server: string, name: string, input: Json, extra: Json | undefined): Json;
  /**
   * Gets the messages of a prompt, with a JSON object of its arguments, all of which are strings.
   */
  export function getPrompt(server: string, name: string, input: Json): Json;
  /**
   * Lists resources: a page that begins at `cursor`.
   */
  export function listResources(server: string, cursor: string | undefined): Json;
  export function listResourceTemplates(server: string, cursor: string | undefined): Json;
  export function readResource(server: string, uri: string): Json;
  /**
   * Completes an argument of a prompt or resource template: `reference` and `argument` as the protocol has them. The member
   * `context` of the request, which has the values of other arguments, may be one of `argument`. Of a server that does not
   * complete arguments, it is an error.
   *
   * While the user types, in `commands.complete-argument`, this and `servers` are the only functions here that work, and only
   * a server that is connected is asked.
   */
  export function complete(server: string, reference: Json, argument: Json): Json;
  /**
   * Writes a text that is too long for a result to a new file, and returns its absolute path, for the model to read. The file
   * has at most 64 MiB, which count as bytes written by the call, and is removed when others need its room.
   */
  export function keep(text: string): string;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  /**
   * # Variants
   *
   * ## `"disabled"`
   *
   * Switched off by the user.
   * ## `"idle"`
   *
   * Not running; the first request starts it.
   * ## `"starting"`
   *
   * ## `"ready"`
   *
   * ## `"failed"`
   *
   * It did not start, or broke down; `problem` says why. The next request tries again.
   * ## `"login-required"`
   *
   * The user has to log in; `problem` names the command.
   */
  export type ServerState = 'disabled' | 'idle' | 'starting' | 'ready' | 'failed' | 'login-required';
  /**
   * A tool of a server.
   */
  export interface ServerTool {
    name: string,
    /**
     * The tool as the server describes it: `description`, `inputSchema`, `annotations` and so on.
     */
    definition: Json,
    /**
     * Whether the user left it switched on.
     */
    enabled: boolean,
    /**
     * A digest of `definition`.
     */
    digest: string,
  }
  /**
   * A prompt of a server.
   */
  export interface ServerPrompt {
    name: string,
    /**
     * The prompt as the server describes it.
     */
    definition: Json,
  }
  /**
   * A configured server, with the offer that it made last, here or in an earlier process.
   */
  export interface Server {
    /**
     * The name in the user's config.
     */
    name: string,
    /**
     * A digest of how the server is started or reached.
     */
    identity: string,
    state: ServerState,
    /**
     * For people: why it does not work, and what to do.
     */
    problem?: string,
    /**
     * The server's own text about its use; at most 64 KiB.
     */
    instructions?: string,
    /**
     * The version of the protocol, once it is known.
     */
    protocol?: string,
    /**
     * At most 4,096. Those whose definitions do not fit into 16 MiB, for all servers together, are left out.
     */
    tools: Array<ServerTool>,
    /**
     * At most 1,024.
     */
    prompts: Array<ServerPrompt>,
    hasResources: boolean,
    /**
     * A digest of `identity` and of the tools that are switched on.
     */
    digest: string,
    /**
     * False until the server has said what it offers for the first time.
     */
    isKnown: boolean,
    /**
     * A JSON object with further facts; ignore unknown members. `tasks` lists calls that the server still works on, or whose
     * results wait there: objects with `id`, `tool` and `created`, in seconds since 1970.
     */
    extra?: Json,
  }
  /**
   * A failure, and whether the server may have received the request.
   */
  export interface Failure {
    message: string,
    requestSent: boolean,
  }
  /**
   * An error that a server returned.
   */
  export interface ServerError {
    /**
     * The code of JSON-RPC; the nearest that fits of a larger one.
     */
    code: number,
    message: string,
    data?: Json,
  }
  export type McpError = McpErrorDenied | McpErrorNotFound | McpErrorInvalid | McpErrorDisabled | McpErrorLoginRequired | McpErrorTooLarge | McpErrorTimedOut | McpErrorCancelled | McpErrorServer | McpErrorFailed;
  /**
   * Not granted; the text says how the user can grant it.
   */
  export interface McpErrorDenied {
    tag: 'denied',
    val: string,
  }
  /**
   * There is no such server; the text names it.
   */
  export interface McpErrorNotFound {
    tag: 'not-found',
    val: string,
  }
  /**
   * The request is malformed.
   */
  export interface McpErrorInvalid {
    tag: 'invalid',
    val: string,
  }
  /**
   * The user switched the server or the tool off.
   */
  export interface McpErrorDisabled {
    tag: 'disabled',
    val: string,
  }
  /**
   * The user has to log in; the text names the command.
   */
  export interface McpErrorLoginRequired {
    tag: 'login-required',
    val: string,
  }
  /**
   * The result exceeds this number of bytes.
   */
  export interface McpErrorTooLarge {
    tag: 'too-large',
    val: number,
  }
  export interface McpErrorTimedOut {
    tag: 'timed-out',
    val: Failure,
  }
  export interface McpErrorCancelled {
    tag: 'cancelled',
    val: Failure,
  }
  export interface McpErrorServer {
    tag: 'server',
    val: ServerError,
  }
  export interface McpErrorFailed {
    tag: 'failed',
    val: Failure,
  }
}
declare module 'pinion:plugin/model@0.1.0' {
  /**
   * Sends one request, without tools, and waits for the answer.
   */
  export function complete(request: CompletionRequest): Completion;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  export type Content = import('pinion:plugin/types@0.1.0').Content;
  /**
   * # Variants
   *
   * ## `"user"`
   *
   * ## `"assistant"`
   */
  export type Role = 'user' | 'assistant';
  export interface Message {
    role: Role,
    content: Array<Content>,
  }
  export interface CompletionRequest {
    system?: string,
    /**
     * Alternating, beginning and ending with the user's; at most 200, and 1 MiB together.
     */
    messages: Array<Message>,
    /**
     * A model that the grant names, in the form of `--model`; none for that of the conversation.
     */
    model?: string,
    /**
     * At most what is left of the grant's tokens.
     */
    maxTokens: number,
    /**
     * JSON Schema of the answer, which must be an object; none for text.
     */
    schema?: Json,
    /**
     * A JSON object with further settings; members that the host does not know are ignored.
     */
    extra?: Json,
  }
  export interface Completion {
    /**
     * The answer; JSON that matches the schema if there is one.
     */
    text: string,
    /**
     * The model that answered.
     */
    model: string,
    inputTokens: number,
    outputTokens: number,
  }
  export type ModelError = ModelErrorDenied | ModelErrorInvalid | ModelErrorBudgetExceeded | ModelErrorCancelled | ModelErrorFailed;
  /**
   * `model` was not granted, the tool does not declare `delegates`, or the grant does not cover the model.
   */
  export interface ModelErrorDenied {
    tag: 'denied',
    val: string,
  }
  /**
   * The request is invalid; the text says what would be valid.
   */
  export interface ModelErrorInvalid {
    tag: 'invalid',
    val: string,
  }
  /**
   * The tokens of the grant, or the limits of the run, are used up.
   */
  export interface ModelErrorBudgetExceeded {
    tag: 'budget-exceeded',
    val: string,
  }
  export interface ModelErrorCancelled {
    tag: 'cancelled',
  }
  export interface ModelErrorFailed {
    tag: 'failed',
    val: string,
  }
}
declare module 'pinion:plugin/offers-host@0.1.0' {
  /**
   * Says that `offers.list` would now return something else. Never blocks and never fails; several calls within 250 ms count
   * as one.
   */
  export function changed(): void;
}
declare module 'pinion:plugin/offers@0.1.0' {
  /**
   * Called with the plugin's grants, as far as they need no conversation, and within 10 s: once after the plugin is loaded,
   * after `offers-host.changed`, and, if the plugin has the grant `mcp`, when the list of servers has changed. A plugin of
   * lifetime `session` is asked on its running instance, any other on a fresh one.
   *
   * The host validates the list like those of a load and replaces the previous one as a whole; an invalid one, or an error,
   * leaves it in place and is reported to the user. The model sees the new list with its next request. A tool or command
   * whose name is taken is dropped from the list. A call of a tool that is gone is an error for the model. All texts and
   * schemas together have at most 1 MiB.
   *
   * A name that `tools.list-tools` has too keeps at most the effects that it declared there when the user granted the
   * plugin its capabilities; any other tool has at most the effects that the tools of `tools.list-tools` declared together.
   * Commands that `commands.list-commands` does not have run with the plugin's grants if it listed any command.
   *
   * After a list, the host pauses for four times its computing time. It asks again when a new instance took the place of
   * one that broke down, and shows the last list until a new instance has answered.
   */
  export function list(): Offer;
  export type CommandDefinition = import('pinion:plugin/types@0.1.0').CommandDefinition;
  export type ToolDefinition = import('pinion:plugin/types@0.1.0').ToolDefinition;
  export interface Offer {
    /**
     * At most 1,024 tools.
     */
    tools: Array<ToolDefinition>,
    /**
     * At most 1,024 commands.
     */
    commands: Array<CommandDefinition>,
    /**
     * Sentences for the system prompt; at most 8 KiB.
     */
    instructions?: string,
  }
}
declare module 'pinion:plugin/process@0.1.0' {
  /**
   * Runs a program in its own process group and waits for it, then kills what is left of the group. While the program
   * runs, the host shows its output as the call's progress.
   */
  export function run(command: Command): Output;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  /**
   * The value of an environment variable.
   */
  export type Variable = VariableText | VariableSecret;
  export interface VariableText {
    tag: 'text',
    val: string,
  }
  /**
   * The name of a secret that the plugin was granted. The host inserts its value.
   */
  export interface VariableSecret {
    tag: 'secret',
    val: string,
  }
  export interface Command {
    /**
     * A name to look up in the granted PATH, or an absolute path.
     */
    program: string,
    args: Array<string>,
    /**
     * Absolute, or relative to the workspace root; by default the workspace root.
     */
    workingDirectory?: string,
    /**
     * Variables in addition to those that the grant names. The program inherits nothing else from the host.
     */
    environment: Array<[string, Variable]>,
    /**
     * The whole standard input of the program.
     */
    stdin: Uint8Array,
    /**
     * The time after which the host kills the program; by default the call's deadline.
     */
    timeoutMs?: number,
    /**
     * Bytes to keep of each output stream, half from its start and half from its end. At most 1 MiB.
     */
    maxOutput: number,
    /**
     * A JSON object with further settings; members that the host does not know are ignored.
     */
    extra?: Json,
  }
  /**
   * The kept part of an output stream.
   */
  export interface Captured {
    /**
     * The start; the whole output when `tail` is empty.
     */
    head: Uint8Array,
    /**
     * The end, when the middle was dropped.
     */
    tail: Uint8Array,
    /**
     * Bytes that the program wrote.
     */
    total: number | bigint,
  }
  export interface Output {
    /**
     * None when a signal ended the program.
     */
    exitCode?: number,
    signal?: number,
    stdout: Captured,
    stderr: Captured,
    /**
     * A file with both streams, interleaved as they arrived, when one of them exceeded `max-output`; the first 64 MiB of
     * them. The host removes it later: the oldest first, once the files of a session take 512 MiB.
     */
    spilledTo?: string,
    durationMs: number,
  }
  export type ProcessError = ProcessErrorDenied | ProcessErrorNotFound | ProcessErrorTimedOut | ProcessErrorCancelled | ProcessErrorIo;
  /**
   * `process` was not granted, or the tool does not declare `executes`.
   */
  export interface ProcessErrorDenied {
    tag: 'denied',
    val: string,
  }
  /**
   * The program or the working directory does not exist.
   */
  export interface ProcessErrorNotFound {
    tag: 'not-found',
    val: string,
  }
  /**
   * The host killed the process group after `timeout-ms`.
   */
  export interface ProcessErrorTimedOut {
    tag: 'timed-out',
    val: Output,
  }
  /**
   * The host killed the process group because the call was cancelled.
   */
  export interface ProcessErrorCancelled {
    tag: 'cancelled',
    val: Output,
  }
  export interface ProcessErrorIo {
    tag: 'io',
    val: string,
  }
}
declare module 'pinion:plugin/progress@0.1.0' {
  /**
   * Shows a short line to the user, such as "compiling 12 of 80". Cut at 4 KiB; counts towards the call's output limit.
   * Never blocks and never fails.
   */
  export function report(message: string): void;
  /**
   * Shows the result so far in place of the previous one; at most 1,000 parts. Counts towards the call's output limit.
   * When updates arrive too fast, the user sees only the latest. Never blocks and never fails.
   */
  export function update(partial: Array<Content>): void;
  export type Content = import('pinion:plugin/types@0.1.0').Content;
}
declare module 'pinion:plugin/questions@0.1.0' {
  /**
   * Asks at most 8 questions, and waits for all answers, which come in the order of the questions. A form whose answer does
   * not match its schema is asked again, with the reason. The outer error is about the list as a whole.
   */
  export function ask(questions: Array<NamedQuestion>): Array<Result<Answer, QuestionError>>;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  export type Completion = import('pinion:plugin/model@0.1.0').Completion;
  export type CompletionRequest = import('pinion:plugin/model@0.1.0').CompletionRequest;
  /**
   * A form, as in `ui.form`.
   */
  export interface Form {
    question: string,
    schema: Json,
  }
  export type Question = QuestionForm | QuestionCompletion | QuestionDirectories | QuestionOther;
  export interface QuestionForm {
    tag: 'form',
    val: Form,
  }
  export interface QuestionCompletion {
    tag: 'completion',
    val: CompletionRequest,
  }
  /**
   * The directories in which the user works: the workspace in a conversation, the roots of a client of `pinion mcp serve`.
   */
  export interface QuestionDirectories {
    tag: 'directories',
  }
  /**
   * A question that has no case of its own, as a JSON object. A host that does not know it answers `invalid`.
   */
  export interface QuestionOther {
    tag: 'other',
    val: Json,
  }
  export interface NamedQuestion {
    /**
     * 1 to 64 of a-z, A-Z, 0-9, '_' and '-'; unique in the list. Clients that know an answer beforehand find the question by it.
     */
    name: string,
    question: Question,
  }
  /**
   * A directory of the user. It grants nothing, and may be one of another machine.
   */
  export interface Directory {
    /**
     * An absolute URI, such as file:///home/ada/project; at most 4 KiB.
     */
    uri: string,
    name?: string,
  }
  export type Answer = AnswerForm | AnswerCompletion | AnswerDirectories | AnswerOther;
  /**
   * JSON that matches the schema.
   */
  export interface AnswerForm {
    tag: 'form',
    val: Json,
  }
  export interface AnswerCompletion {
    tag: 'completion',
    val: Completion,
  }
  /**
   * At most 64.
   */
  export interface AnswerDirectories {
    tag: 'directories',
    val: Array<Directory>,
  }
  /**
   * An answer that has no case of its own, as a JSON object.
   */
  export interface AnswerOther {
    tag: 'other',
    val: Json,
  }
  export type QuestionError = QuestionErrorDenied | QuestionErrorHeadless | QuestionErrorDismissed | QuestionErrorCancelled | QuestionErrorInvalid | QuestionErrorBudgetExceeded | QuestionErrorFailed;
  /**
   * The grant that the question needs is missing or does not reach far enough, or the call may not ask.
   */
  export interface QuestionErrorDenied {
    tag: 'denied',
    val: string,
  }
  /**
   * Nobody can answer: no user is present, or the client does not support such questions.
   */
  export interface QuestionErrorHeadless {
    tag: 'headless',
  }
  /**
   * The user closed the form without an answer.
   */
  export interface QuestionErrorDismissed {
    tag: 'dismissed',
  }
  export interface QuestionErrorCancelled {
    tag: 'cancelled',
  }
  /**
   * The question is invalid, or the plugin has asked too often; the text says which.
   */
  export interface QuestionErrorInvalid {
    tag: 'invalid',
    val: string,
  }
  /**
   * The tokens of the grant, or the limits of the run, are used up.
   */
  export interface QuestionErrorBudgetExceeded {
    tag: 'budget-exceeded',
    val: string,
  }
  export interface QuestionErrorFailed {
    tag: 'failed',
    val: string,
  }
  export type Result<T, E> = { tag: 'ok', val: T } | { tag: 'err', val: E };
}
declare module 'pinion:plugin/secrets@0.1.0' {
  /**
   * Returns whether a secret of this name is granted and has a value.
   */
  export function has(name: string): boolean;
}
declare module 'pinion:plugin/session-events@0.1.0' {
  /**
   * Called with one or more events, oldest first, in the form of `--output-format stream-json`: the starts and ends of runs,
   * turns, messages and tool calls; not their deltas. Events are delivered in batches, and never delay the agent: when the
   * plugin falls behind by more than 1,000 events or 32 MiB, the oldest are dropped, which is logged.
   */
  export function onEvents(events: Array<Json>): void;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
}
declare module 'pinion:plugin/session@0.1.0' {
  /**
   * Returns the entries after the one with this id, or from the start; oldest first, at most `limit`, 1 to 1,000, and 4 MiB.
   * An entry that is larger alone has the type `omitted`.
   */
  export function entries(after: string | undefined, limit: number): Array<Entry>;
  /**
   * Adds an entry of the plugin's own, and returns its id. The model does not see it. Copies of the session keep it. At most
   * 64 KiB of data, and 1,000 entries of a plugin in a session.
   */
  export function append(data: Json): string;
  /**
   * Returns the title that was set last, or else the first line of the first prompt.
   */
  export function title(): string | undefined;
  /**
   * Sets the title of the session: one line of at most 200 bytes. A call may set 20.
   */
  export function setTitle(title: string): void;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  /**
   * An entry on the current branch of the session.
   */
  export interface Entry {
    id: string,
    /**
     * The entry in the format of session files.
     */
    data: Json,
  }
  export type SessionError = SessionErrorDenied | SessionErrorInvalid | SessionErrorIo;
  /**
   * `session` was not granted or does not allow this, or the call belongs to no conversation.
   */
  export interface SessionErrorDenied {
    tag: 'denied',
    val: string,
  }
  /**
   * There is no such entry, or the data is invalid; the text says which.
   */
  export interface SessionErrorInvalid {
    tag: 'invalid',
    val: string,
  }
  export interface SessionErrorIo {
    tag: 'io',
    val: string,
  }
}
declare module 'pinion:plugin/settings@0.1.0' {
  /**
   * Returns the section as a JSON object, as it is now; `{}` when there is none. `lifecycle.init` gets the same object when
   * the instance is created.
   */
  export function current(): Json;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
}
declare module 'pinion:plugin/state@0.1.0' {
  /**
   * Called without authority when no call is running. At most 1 MiB.
   */
  export function saveState(): Uint8Array;
  /**
   * Called without authority on the new instance after `init`. `from-version` is the version of the plugin that saved the
   * state. After an error, the plugin starts without it.
   */
  export function restoreState(saved: Uint8Array, fromVersion: string): void;
}
declare module 'pinion:plugin/storage@0.1.0' {
  export function get(scope: Scope, key: string): Stored | undefined;
  /**
   * Writes a value and returns its version. It is on the disk when the function returns.
   */
  export function set(scope: Scope, key: string, value: Uint8Array): number;
  /**
   * Writes a value that still has the expected version; none if there must be no value. Calls of a plugin run concurrently:
   * to change a value, read it, and write it with this function until it succeeds.
   */
  export function replace(scope: Scope, key: string, expected: number | undefined, value: Uint8Array): number;
  /**
   * Removes a value, if there is one.
   */
  export function remove(scope: Scope, key: string): void;
  /**
   * Lists keys that begin with `prefix` and follow `after`, in the order of their bytes; at most `limit`, 1 to 1,000.
   */
  export function keys(scope: Scope, prefix: string, after: string | undefined, limit: number): Array<string>;
  /**
   * # Variants
   *
   * ## `"plugin"`
   *
   * Kept in all workspaces, until the user removes the values.
   * ## `"workspace"`
   *
   * Kept for this workspace.
   * ## `"session"`
   *
   * Kept for the session. Copies of the session start with its values. Sub-agents have sessions of their own.
   */
  export type Scope = 'plugin' | 'workspace' | 'session';
  /**
   * A value and its version, which changes whenever the value is written, and does not come back when it is removed.
   */
  export interface Stored {
    value: Uint8Array,
    version: number,
  }
  export type StorageError = StorageErrorDenied | StorageErrorInvalid | StorageErrorQuotaExceeded | StorageErrorChanged | StorageErrorIo;
  /**
   * `storage` was not granted, or the call belongs to no session.
   */
  export interface StorageErrorDenied {
    tag: 'denied',
    val: string,
  }
  /**
   * The key is empty or too long, the value too large, or the limit out of range; the text says which.
   */
  export interface StorageErrorInvalid {
    tag: 'invalid',
    val: string,
  }
  /**
   * The value would not fit; the number of bytes that its key and the value may have.
   */
  export interface StorageErrorQuotaExceeded {
    tag: 'quota-exceeded',
    val: number | bigint,
  }
  /**
   * The value has another version than expected. Nothing was written.
   */
  export interface StorageErrorChanged {
    tag: 'changed',
  }
  export interface StorageErrorIo {
    tag: 'io',
    val: string,
  }
}
declare module 'pinion:plugin/tools@0.1.0' {
  /**
   * Called once per load, without authority and under the fixed limits of loading. On an error, the plugin is not loaded,
   * or its previous generation stays loaded. At most 128 tools. All texts and schemas of tools and commands together have at
   * most 128 KiB.
   */
  export function listTools(): Array<ToolDefinition>;
  /**
   * Called for one tool call, by default on a fresh instance, with input that matches `input-schema`.
   *
   * Concurrent calls run on separate instances. When the call is cancelled, `cancellation.cancelled` turns true and imports
   * that wait return `cancelled`; the host drops the instance after a grace period.
   */
  export function callTool(context: CallContext, name: string, input: Json): ToolOutput;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  export type CallContext = import('pinion:plugin/types@0.1.0').CallContext;
  export type ToolDefinition = import('pinion:plugin/types@0.1.0').ToolDefinition;
  export type ToolOutput = import('pinion:plugin/types@0.1.0').ToolOutput;
  export type ToolError = import('pinion:plugin/types@0.1.0').ToolError;
}
declare module 'pinion:plugin/types@0.1.0' {
  /**
   * JSON text. The host parses it on the way in and on the way out.
   */
  export type Json = string;
  /**
   * The effects that a call of a tool may have, as its author declares them.
   *
   * The host enforces the declaration: a call gets no more authority than its tool declares, even if the plugin was
   * granted more. Without `writes`, a tool sees its directories read-only; without `executes`, it cannot use `process`;
   * without `network`, it cannot use `http`; without `delegates`, it can use neither `agents` nor `model`. A declaration
   * never widens authority: only grants do.
   */
  export interface Effects {
    /**
     * Reads files in the granted directories.
     */
    reads?: boolean,
    /**
     * Creates, changes or removes files in the granted directories.
     */
    writes?: boolean,
    /**
     * Runs programs.
     */
    executes?: boolean,
    /**
     * Uses the network.
     */
    network?: boolean,
    /**
     * May destroy data irrecoverably. Affects the order and the wording of the question to the user.
     */
    destructive?: boolean,
    /**
     * Starts sub-agents, which get no more authority than the other flags declare, or asks a model.
     */
    delegates?: boolean,
  }
  /**
   * Whether calls of a tool may run concurrently with others of the same assistant message.
   * # Variants
   *
   * ## `"parallel"`
   *
   * Concurrently with other parallel calls.
   * ## `"sequential"`
   *
   * Alone: after all calls before it, before all calls after it.
   */
  export type Execution = 'parallel' | 'sequential';
  /**
   * An image for the model.
   */
  export interface Image {
    /**
     * One of image/png, image/jpeg, image/gif, image/webp.
     */
    mediaType: string,
    /**
     * The encoded file.
     */
    data: Uint8Array,
  }
  /**
   * One part of a result.
   */
  export type Content = ContentText | ContentImage | ContentOther;
  export interface ContentText {
    tag: 'text',
    val: string,
  }
  export interface ContentImage {
    tag: 'image',
    val: Image,
  }
  /**
   * A kind of content that has no case of its own, as a JSON object with the member `type`. A host that does not know
   * the type treats the object as text.
   */
  export interface ContentOther {
    tag: 'other',
    val: Json,
  }
  /**
   * Presentation of a text result to people. The model always gets plain text.
   */
  export type Display = DisplayPlain | DisplayMarkdown | DisplayDiff | DisplayCode | DisplayOther;
  export interface DisplayPlain {
    tag: 'plain',
  }
  export interface DisplayMarkdown {
    tag: 'markdown',
  }
  /**
   * A unified diff.
   */
  export interface DisplayDiff {
    tag: 'diff',
  }
  /**
   * Source code in the named language, as in a fenced code block; at most 64 bytes.
   */
  export interface DisplayCode {
    tag: 'code',
    val: string,
  }
  /**
   * A way to show it that has no case of its own, as a JSON object. A host that does not know it shows plain text.
   */
  export interface DisplayOther {
    tag: 'other',
    val: Json,
  }
  /**
   * The circumstances of a call.
   */
  export interface CallContext {
    /**
     * The id of the tool call, unique in the session, also in hooks before and after it. `/` and the name of a command.
     */
    callId: string,
    sessionId: string,
    /**
     * Absolute path of the workspace root. Granted directories are preopened at their absolute paths, and nowhere else:
     * resolve relative paths with `workspace.resolve`, or, where all of the workspace is granted, change to it (`chdir`).
     */
    workspace: string,
    /**
     * Milliseconds from the start of the call until the host stops it.
     */
    deadlineMs: number,
    /**
     * A JSON object with further facts about the call; ignore unknown members.
     */
    extra?: Json,
  }
  /**
   * The result of a tool call.
   */
  export interface ToolOutput {
    /**
     * The parts for the model; at most 1,000. The host cuts what is too long in the middle, and marks the cut.
     */
    content: Array<Content>,
    /**
     * JSON for the log and the UI, never for the model; at most 4 MiB and 100,000 values.
     */
    details?: Json,
    display: Display,
    /**
     * A JSON object with further properties; members that the host does not know are ignored.
     */
    extra?: Json,
  }
  /**
   * # Variants
   *
   * ## `"invalid-input"`
   *
   * The input matches the schema but is invalid; the message says how to fix it.
   * ## `"not-found"`
   *
   * Something that the input names does not exist.
   * ## `"denied"`
   *
   * A capability is missing or does not reach far enough; the message names it.
   * ## `"cancelled"`
   *
   * The call stopped because it was cancelled.
   * ## `"failed"`
   *
   * Any other failure.
   */
  export type ErrorKind = 'invalid-input' | 'not-found' | 'denied' | 'cancelled' | 'failed';
  /**
   * The error of a tool call. The model gets it as the call's result, so the message should say how to proceed.
   */
  export interface ToolError {
    kind: ErrorKind,
    message: string,
    /**
     * Whether the same call may succeed later.
     */
    retryable: boolean,
    /**
     * The parts for the model in place of `message`, under the rules of `tool-output.content`; empty for the message. With
     * parts, the host keeps no other kind than `cancelled`.
     */
    content: Array<Content>,
    /**
     * JSON for the log and the UI, as in `tool-output`; dropped without `content`.
     */
    details?: Json,
    /**
     * Presentation of `content`.
     */
    display: Display,
    /**
     * A JSON object with further properties; members that the host does not know are ignored.
     */
    extra?: Json,
  }
  /**
   * A tool, which the model calls.
   */
  export interface ToolDefinition {
    /**
     * 1 to 64 of a-z, A-Z, 0-9, '_' and '-'; unique among all loaded plugins.
     */
    name: string,
    /**
     * For people; at most 80 characters.
     */
    label: string,
    /**
     * For the model; at most 8 KiB.
     */
    description: string,
    /**
     * JSON Schema (2020-12) of the arguments; an object schema of at most 64 KiB.
     */
    inputSchema: Json,
    /**
     * Sentences for the system prompt while the tool is offered; at most 16, and 2 KiB together.
     */
    guidelines: Array<string>,
    effects: Effects,
    execution: Execution,
    /**
     * A JSON object with further properties; members that the host does not know are ignored.
     */
    extra?: Json,
  }
  /**
   * A slash command, which the user enters.
   */
  export interface CommandDefinition {
    /**
     * The name without the slash: 1 to 64 of a-z, A-Z, 0-9, '_' and '-', unique among all loaded plugins.
     */
    name: string,
    /**
     * One line, at most 2 KiB.
     */
    description: string,
    /**
     * A placeholder shown after the name, such as `<model>`; at most 160 bytes.
     */
    argumentHint?: string,
    /**
     * A JSON object with further properties; members that the host does not know are ignored.
     */
    extra?: Json,
  }
  /**
   * A call of a tool.
   */
  export interface ToolCall {
    name: string,
    /**
     * The plugin that provides the tool.
     */
    plugin: string,
    input: Json,
    /**
     * The effects that the call can have.
     */
    effects: Effects,
    /**
     * 0 for calls of the agent, 1 for those of its sub-agents, and so on.
     */
    agentDepth: number,
  }
}
declare module 'pinion:plugin/ui@0.1.0' {
  /**
   * Shows one line to the user. Dropped without the grant, and beyond 60 a minute.
   */
  export function notify(severity: Severity, message: string): void;
  /**
   * Shows a segment of the status line, at most 40 columns, until the plugin replaces or removes it. Dropped without the
   * grant.
   */
  export function status(text: string | undefined): void;
  /**
   * Draws the running call for people, in place of the row with its input. The model does not see it. At most 200 rows and
   * 64 KiB; `invalid` beyond. Does nothing where nobody looks.
   */
  export function drawCall(blocks: Array<Block>): void;
  /**
   * Draws the result of the running call for people, in place of its content.
   */
  export function drawResult(blocks: Array<Block>): void;
  /**
   * Asks a question with the answers yes and no.
   */
  export function confirm(question: string): boolean;
  /**
   * Asks the user to choose one of 1 to 100 options, and returns its index.
   */
  export function select(question: string, options: Array<string>): number;
  /**
   * Asks for a line of text. `initial` is already typed.
   */
  export function input(question: string, initial: string | undefined): string;
  /**
   * Asks for the values of an object with this JSON Schema, one after another: an object schema with 1 to 20 properties, which
   * are strings, numbers, integers, booleans, enumerations of strings, and arrays of their values. Properties may have `title`,
   * `description`, `default`, `minimum`, `maximum`, `minLength`, `maxLength`, `minItems` and `maxItems`, and nothing else.
   * Options have titles if they are in `oneOf` (in the items of an array: `anyOf`) as objects with `const` and `title`, or with
   * `enumNames` beside `enum`. Those of arrays have no commas. The answer matches the schema.
   */
  export function form(question: string, schema: Json): Json;
  export type Json = import('pinion:plugin/types@0.1.0').Json;
  /**
   * # Variants
   *
   * ## `"info"`
   *
   * ## `"warning"`
   *
   * ## `"error"`
   */
  export type Severity = 'info' | 'warning' | 'error';
  export type UiError = UiErrorDenied | UiErrorHeadless | UiErrorDismissed | UiErrorCancelled | UiErrorInvalid;
  /**
   * `ui` was not granted, the call may not use it, or there is no tool call to draw.
   */
  export interface UiErrorDenied {
    tag: 'denied',
    val: string,
  }
  /**
   * Nobody can be asked, because no user is present, or because a hook asks.
   */
  export interface UiErrorHeadless {
    tag: 'headless',
  }
  /**
   * The user closed the dialog without an answer.
   */
  export interface UiErrorDismissed {
    tag: 'dismissed',
  }
  /**
   * The call was cancelled.
   */
  export interface UiErrorCancelled {
    tag: 'cancelled',
  }
  /**
   * The dialog is invalid, or the plugin has asked too often; the text says which.
   */
  export interface UiErrorInvalid {
    tag: 'invalid',
    val: string,
  }
  /**
   * The appearance of a piece of text, in the colours of the user's theme.
   * # Variants
   *
   * ## `"plain"`
   *
   * ## `"strong"`
   *
   * ## `"dim"`
   *
   * ## `"accent"`
   *
   * ## `"success"`
   *
   * ## `"warning"`
   *
   * ## `"error"`
   */
  export type Style = 'plain' | 'strong' | 'dim' | 'accent' | 'success' | 'warning' | 'error';
  export interface Span {
    text: string,
    style: Style,
  }
  /**
   * Columns of a table; rows with fewer cells are filled, longer ones cut.
   */
  export interface Table {
    header: Array<string>,
    rows: Array<Array<string>>,
  }
  export interface Bar {
    label: string,
    done: number,
    /**
     * None when the end is unknown.
     */
    total?: number,
  }
  /**
   * A part of a drawing.
   */
  export type Block = BlockLines | BlockTable | BlockDiff | BlockMarkdown | BlockBar | BlockOther;
  /**
   * Lines of styled text.
   */
  export interface BlockLines {
    tag: 'lines',
    val: Array<Array<Span>>,
  }
  export interface BlockTable {
    tag: 'table',
    val: Table,
  }
  /**
   * A unified diff.
   */
  export interface BlockDiff {
    tag: 'diff',
    val: string,
  }
  export interface BlockMarkdown {
    tag: 'markdown',
    val: string,
  }
  export interface BlockBar {
    tag: 'bar',
    val: Bar,
  }
  /**
   * A part that has no case of its own, as a JSON object. A host that does not know it shows its member `text`.
   */
  export interface BlockOther {
    tag: 'other',
    val: Json,
  }
}
declare module 'pinion:plugin/workspace@0.1.0' {
  /**
   * Returns the absolute path for a path that a model or a user wrote: relative paths start at the workspace root, and `.`
   * and `..` are resolved by name. Denied outside the granted directories. Pass the result to WASI's functions: many
   * C libraries take an absolute path outside the granted directories for a relative one.
   */
  export function resolve(path: string): string;
  /**
   * Reads at most `limit` bytes of a file, 1 to 16 MiB, from `offset`. Fewer, or none, are left at its end.
   */
  export function readFile(path: string, offset: number | bigint, limit: number): Chunk;
  /**
   * Reads a whole text file of at most 16 MiB. A file that is not UTF-8 is an error.
   */
  export function readText(path: string): string;
  /**
   * Replaces the content of a file. Creates missing directories. An existing file keeps its owner, its extended attributes
   * (access control lists among them) and its mode except for setuid and setgid; a symbolic link to a file in the granted
   * directory is followed and kept. WASI cannot do this, because it has no file modes.
   *
   * Readers see either the old or the new content, even after a crash, unless a new file could not stand in for the old
   * one: it has hard links, it is a mount point, the host may not give a new file the same owner and attributes, or its
   * directory admits no new file. The host then writes in place.
   *
   * Needs a grant to write files and, in tools, the effect `writes`.
   */
  export function replaceFile(path: string, content: Uint8Array): void;
  /**
   * Notes the version of a file that the session of the call is about to read, for `replace-unchanged`. Call it before
   * reading. The host forgets notes when it ends; when a session is resumed, every file that changed since its last message
   * counts as one in a state that differs from the noted one.
   */
  export function noteRead(path: string): void;
  /**
   * Replaces a file like `replace-file`, if it is in the expected state: with the content `expected`, or, by default, as
   * the session of the call last noted or replaced it. By default a file that does not exist, or that the session did not
   * note, is replaced in any state. Calls that replace the same file wait for each other, so that none overwrites what
   * another has just written.
   */
  export function replaceUnchanged(path: string, content: Uint8Array, expected: Uint8Array | undefined): void;
  /**
   * Lists files and directories.
   */
  export function walk(options: WalkOptions): WalkResult;
  /**
   * Searches files for a pattern.
   */
  export function search(where: WalkOptions, what: SearchOptions): SearchResult;
  /**
   * # Variants
   *
   * ## `"file"`
   *
   * ## `"directory"`
   *
   * ## `"symlink"`
   *
   * ## `"other"`
   */
  export type Kind = 'file' | 'directory' | 'symlink' | 'other';
  export interface Entry {
    /**
     * Relative to `walk-options.root`, with '/' between the components.
     */
    path: string,
    kind: Kind,
    /**
     * Size in bytes; 0 unless the entry is a file.
     */
    size: number | bigint,
    /**
     * Milliseconds since 1970-01-01 UTC; 0 when the file system does not report it.
     */
    modifiedMs: number | bigint,
  }
  /**
   * Selects files.
   */
  export interface WalkOptions {
    /**
     * A directory or one file; relative to the workspace root, or absolute inside a granted directory.
     */
    root: string,
    /**
     * Globs in .gitignore syntax, matched against paths below `root`. If there is a plain glob, only matching entries are
     * returned, although every directory is walked. Entries that match a glob with a leading '!' are skipped, and so is
     * everything below them. At most 100 globs of 16 KiB together, each of at most 1 KiB and 8 levels of braces.
     */
    globs: Array<string>,
    /**
     * Names of file types, such as "rust" or "py"; if there are any, only files of these types are returned. At most 100.
     */
    types: Array<string>,
    /**
     * The depth limit; 1 for the entries of the root alone, none for no limit.
     */
    maxDepth?: number,
    /**
     * Whether to return files whose name starts with a dot.
     */
    hidden: boolean,
    /**
     * Whether to respect .gitignore, .ignore and .git/info/exclude in the granted directory.
     */
    ignoreFiles: boolean,
    /**
     * The most entries, or matching files, to return; 1 to 100,000.
     */
    limit: number,
  }
  export interface WalkResult {
    /**
     * Sorted by path.
     */
    entries: Array<Entry>,
    /**
     * Whether entries are missing: there are more than `limit`, the result would exceed the host's memory limit, or a
     * directory is nested deeper than the host walks.
     */
    truncated: boolean,
  }
  /**
   * Selects lines in files.
   */
  export interface SearchOptions {
    /**
     * At most 16 KiB.
     */
    pattern: string,
    /**
     * Whether the pattern is a regular expression (syntax of the Rust crate `regex`) or a plain string.
     */
    regex: boolean,
    caseSensitive: boolean,
    /**
     * Whether a match may span lines. Files of more than 8 MiB, or less for complex patterns, are then skipped, and the
     * result is truncated.
     */
    multiline: boolean,
    /**
     * Context lines before and after each match; at most 100 each.
     */
    before: number,
    after: number,
    /**
     * The most matches in all files together; 1 to 100,000.
     */
    maxMatches: number,
    maxMatchesPerFile: number,
    /**
     * Longer lines are cut around the match, and marked.
     */
    maxLineBytes: number,
  }
  export interface Line {
    /**
     * Line number, starting at 1.
     */
    number: number,
    /**
     * The text without its line ending. Invalid UTF-8 is replaced.
     */
    text: string,
    /**
     * Whether the line is a match or context.
     */
    isMatch: boolean,
  }
  export interface FileMatches {
    /**
     * Relative to `walk-options.root`; empty when the root is this file.
     */
    path: string,
    lines: Array<Line>,
    /**
     * The number of matching lines in `lines`.
     */
    matches: number,
  }
  export interface SearchResult {
    /**
     * Sorted by path.
     */
    files: Array<FileMatches>,
    matches: number,
    /**
     * The number of files searched. Binary files, which contain a NUL byte, are skipped.
     */
    searched: number,
    /**
     * Whether a limit was reached, so that there may be more matches.
     */
    truncated: boolean,
  }
  export type WorkspaceError = WorkspaceErrorDenied | WorkspaceErrorNotFound | WorkspaceErrorInvalidPattern | WorkspaceErrorCancelled | WorkspaceErrorIo;
  /**
   * The root is in no granted directory, or the grant does not allow the access.
   */
  export interface WorkspaceErrorDenied {
    tag: 'denied',
    val: string,
  }
  export interface WorkspaceErrorNotFound {
    tag: 'not-found',
    val: string,
  }
  /**
   * A glob, a file type or the pattern is invalid; the text says which and why.
   */
  export interface WorkspaceErrorInvalidPattern {
    tag: 'invalid-pattern',
    val: string,
  }
  export interface WorkspaceErrorCancelled {
    tag: 'cancelled',
  }
  export interface WorkspaceErrorIo {
    tag: 'io',
    val: string,
  }
  /**
   * A part of a file.
   */
  export interface Chunk {
    content: Uint8Array,
    /**
     * Size of the whole file.
     */
    size: number | bigint,
  }
  export type ReplaceError = ReplaceErrorChanged | ReplaceErrorOther;
  /**
   * The file is not in the expected state. Nothing was written.
   */
  export interface ReplaceErrorChanged {
    tag: 'changed',
  }
  export interface ReplaceErrorOther {
    tag: 'other',
    val: WorkspaceError,
  }
}
