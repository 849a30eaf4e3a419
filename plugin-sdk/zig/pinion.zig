//! Plugins for Pinion in Zig 0.17: tools, commands, hooks and the other exports as functions, on top of `pinion.h`.
const std = @import("std");

const RawCall = opaque {};
extern fn pinion_input(*RawCall) [*:0]const u8;
extern fn pinion_text(*RawCall, [*:0]const u8, ...) bool;
extern fn pinion_fail(*RawCall, c_int, [*:0]const u8, ...) bool;
extern fn pinion_progress([*:0]const u8, ...) void;
extern fn pinion_log([*:0]const u8, ...) void;
extern fn pinion_cancelled() bool;
extern fn pinion_resolve(*RawCall, [*:0]const u8) ?[*:0]const u8;
extern fn pinion_input_size(*RawCall) usize;
extern fn pinion_allocate(*RawCall, usize) [*]u8;
extern fn pinion_name(*RawCall) [*:0]const u8;
extern fn pinion_context_of(*RawCall) *const Context;
extern fn pinion_bytes(*RawCall, [*]const u8, usize) bool;
extern fn pinion_details(*RawCall, [*:0]const u8, ...) bool;
extern fn pinion_image(*RawCall, [*:0]const u8, [*]const u8, usize) bool;
extern fn pinion_display(*RawCall, [*:0]const u8) bool;
extern fn pinion_retryable(*RawCall) bool;
extern fn pinion_act(*RawCall, c_int, ?[*:0]const u8) bool;
extern fn pinion_complete(*RawCall, [*:0]const u8, ?[*:0]const u8) void;
extern fn pinion_deny(*RawCall, [*:0]const u8, ...) bool;
extern fn pinion_ask(*RawCall, [*:0]const u8, ...) bool;
extern fn pinion_rewrite(*RawCall, [*:0]const u8, ...) bool;
extern fn pinion_warn(*RawCall, [*:0]const u8, ...) bool;
extern fn pinion_add_context(*RawCall, [*:0]const u8, ...) bool;
extern fn pinion_offer_tool(*RawCall, *const RawTool) void;
extern fn pinion_offer_command(*RawCall, *const RawCommand) void;

const RawTool = extern struct {
    name: ?[*:0]const u8 = null,
    description: ?[*:0]const u8 = null,
    effects: c_uint = 0,
    run: ?*const fn (*RawCall) callconv(.c) bool = null,
    schema: ?[*:0]const u8 = null,
    is_sequential: bool = false,
    label: ?[*:0]const u8 = null,
    /// A JSON object with further properties.
    extra: ?[*:0]const u8 = null,

    /// Lets calls run alone: after all calls before them, before all calls after them.
    pub fn sequential(made: RawTool) RawTool {
        var changed = made;
        changed.is_sequential = true;
        return changed;
    }
};
const RawCommand = extern struct {
    name: ?[*:0]const u8 = null,
    description: ?[*:0]const u8 = null,
    hint: ?[*:0]const u8 = null,
    run: ?*const fn (*RawCall) callconv(.c) bool = null,
    complete: ?*const fn (*RawCall) callconv(.c) void = null,

    /// Completes the argument with `fn (Call, []const u8) ![]const Completion`, which gets what has been typed.
    pub fn completing(made: RawCommand, comptime complete: anytype) RawCommand {
        const Body = struct {
            fn run(raw: *RawCall) callconv(.c) void {
                _ = guarded(raw, body, .{});
            }
            fn body(call: Call) !void {
                for (try @call(.never_inline, complete, .{ call, inputOf(call) })) |one| {
                    const description = if (one.description) |text| (try zeroed(call.arena, text)).ptr else null;
                    pinion_complete(call.raw, (try zeroed(call.arena, one.value)).ptr, description);
                }
            }
        };
        var changed = made;
        changed.complete = Body.run;
        return changed;
    }
};

/// Effects that a tool declares; a call gets no more than these, whatever the user granted.
pub const Effects = packed struct(c_uint) {
    reads: bool = false,
    writes: bool = false,
    executes: bool = false,
    network: bool = false,
    destructive: bool = false,
    delegates: bool = false,
    rest: u26 = 0,
};

/// An action that the host performs for a command, in the order of the contract.
pub const Action = union(enum) {
    /// Shows Markdown to the user.
    print: []const u8,
    /// Sends a message to the model as the user's.
    submit: []const u8,
    insert: []const u8,
    set_model: []const u8,
    compact: ?[]const u8,
    new_session,
    resume_session: ?[]const u8,
    fork,
    reload_plugins,
    quit,
};

/// Replaces the argument that has been typed.
pub const Completion = struct { value: []const u8, description: ?[]const u8 = null };

/// The circumstances of a call. Texts are null where the contract has none.
pub const Context = extern struct {
    call_id: ?[*:0]const u8,
    session_id: ?[*:0]const u8,
    workspace: ?[*:0]const u8,
    deadline_ms: u32,
    /// A JSON object with further facts.
    extra: ?[*:0]const u8,
};

/// One call of a tool or command.
pub const Call = struct {
    raw: *RawCall,
    /// Freed when the call ends.
    arena: std.mem.Allocator,

    /// Shows a short line to the user.
    pub fn progress(_: Call, message: [:0]const u8) void {
        pinion_progress("%s", message.ptr);
    }

    /// Writes a line to the host's log.
    pub fn log(_: Call, message: [:0]const u8) void {
        pinion_log("%s", message.ptr);
    }

    /// Returns whether the call has been cancelled.
    pub fn cancelled(_: Call) bool {
        return pinion_cancelled();
    }

    /// Returns the absolute path for a path that the model or the user wrote.
    pub fn path(call: Call, text: []const u8) ![:0]const u8 {
        const found = pinion_resolve(call.raw, try zeroed(call.arena, text)) orelse return error.Reported;
        return std.mem.span(found);
    }

    /// Reads a whole file.
    pub fn readFile(call: Call, file: []const u8) ![]const u8 {
        var threaded: std.Io.Threaded = .init_single_threaded;
        return std.Io.Dir.cwd().readFileAlloc(threaded.io(), try call.path(file), call.arena, .limited(256 << 20));
    }

    /// Returns the circumstances of the call.
    pub fn context(call: Call) *const Context {
        return pinion_context_of(call.raw);
    }

    /// Returns the name of the tool or command that is called.
    pub fn name(call: Call) [:0]const u8 {
        return std.mem.span(pinion_name(call.raw));
    }

    /// Adds JSON for the log and the UI, never for the model.
    pub fn details(call: Call, json: []const u8) !void {
        _ = pinion_details(call.raw, "%s", (try zeroed(call.arena, json)).ptr);
    }

    /// Adds an image for the model.
    pub fn image(call: Call, media_type: [:0]const u8, data: []const u8) void {
        _ = pinion_image(call.raw, media_type.ptr, data.ptr, data.len);
    }

    /// Shows the text to people as "plain", "markdown", "diff", or "code:" and a language.
    pub fn display(call: Call, way: [:0]const u8) void {
        _ = pinion_display(call.raw, way.ptr);
    }

    /// Says that the same call may succeed later.
    pub fn retryable(call: Call) void {
        _ = pinion_retryable(call.raw);
    }

    /// Copies a text for what is offered, which lives longer than `arena`.
    pub fn lasting(call: Call, text: []const u8) [:0]const u8 {
        const copy = pinion_allocate(call.raw, text.len + 1);
        @memcpy(copy[0..text.len], text);
        copy[text.len] = 0;
        return copy[0..text.len :0];
    }

    /// Adds a tool, in `offers`. Its texts are constant or `lasting`.
    pub fn offerTool(call: Call, one: RawTool) void {
        pinion_offer_tool(call.raw, &one);
    }

    /// Adds a command, in `offers`. Its texts are constant or `lasting`.
    pub fn offerCommand(call: Call, one: RawCommand) void {
        pinion_offer_command(call.raw, &one);
    }

    /// Fails with a text for the model: `return call.fail(.not_found, "no such row")`.
    pub fn fail(call: Call, kind: Kind, message: []const u8) error{ Reported, OutOfMemory } {
        _ = pinion_fail(call.raw, @backingInt(kind), "%s", (try zeroed(call.arena, message)).ptr);
        return error.Reported;
    }
};

/// Kinds of errors.
pub const Kind = enum(c_int) { invalid_input, not_found, denied, cancelled, failed };

/// Makes a tool of `fn (Call, Input) ![]const u8`, where `Input` is a struct; members with defaults may be left out.
pub fn tool(comptime name: [:0]const u8, comptime description: [:0]const u8, comptime effects: Effects, comptime run: anytype) RawTool {
    const Input = @typeInfo(@TypeOf(run)).@"fn".param_types[1].?;
    const Body = struct {
        fn body(call: Call) !void {
            const options: std.json.ParseOptions = .{ .ignore_unknown_fields = true };
            const input = try std.json.parseFromSliceLeaky(Input, call.arena, inputOf(call), options);
            // Apart, so that a backtrace names it.
            const text = try zeroed(call.arena, try @call(.never_inline, run, .{ call, input }));
            _ = pinion_text(call.raw, "%s", text.ptr);
        }
    };
    return .{ .name = name, .description = description, .effects = @bitCast(effects), .run = entry(Body.body), .schema = comptime schemaOf(Input) ++ "" };
}

/// Makes a slash command of `fn (Call, []const u8) !Action`, or of one that returns `![]const Action`; it gets the text after its
/// name.
pub fn command(comptime name: [:0]const u8, comptime description: [:0]const u8, comptime hint: ?[:0]const u8, comptime run: anytype) RawCommand {
    const Body = struct {
        fn body(call: Call) !void {
            const answer = try @call(.never_inline, run, .{ call, inputOf(call) });
            if (@TypeOf(answer) == Action) return act(call, answer);
            for (answer) |one| try act(call, one);
        }
    };
    return .{ .name = name, .description = description, .hint = if (hint) |text| text.ptr else null, .run = entry(Body.body) };
}

fn act(call: Call, action: Action) !void {
    const argument: ?[]const u8 = switch (action) {
        .print, .submit, .insert, .set_model => |text| text,
        .compact, .resume_session => |text| text,
        .new_session, .fork, .reload_plugins, .quit => null,
    };
    const text = if (argument) |text| (try zeroed(call.arena, text)).ptr else null;
    _ = pinion_act(call.raw, @backingInt(action), text);
}

/// A tool call that a hook is called for.
pub const ToolCall = struct {
    name: [:0]const u8,
    plugin: [:0]const u8,
    /// JSON.
    input: [:0]const u8,
    effects: Effects,
    /// 0 for calls of the agent, 1 for those of its sub-agents, and so on.
    agent_depth: u32,

    fn of(call: Call, raw: *const RawToolCall) ToolCall {
        return .{ .name = std.mem.span(raw.name), .plugin = std.mem.span(raw.plugin), .input = inputOf(call), .effects = @bitCast(raw.effects), .agent_depth = raw.agent_depth };
    }
};
const RawToolCall = extern struct { name: [*:0]const u8, plugin: [*:0]const u8, effects: c_uint, agent_depth: u32 };
const RawOutcome = extern struct { is_error: bool, text: [*:0]const u8 };

/// The answer to a tool call: the texts are for the model, for the user, and the new input.
pub const Verdict = union(enum) { proceed, deny: []const u8, ask: []const u8, rewrite: []const u8 };

/// The answer to a prompt: the texts are for the user, for the user, and for the model.
pub const PromptVerdict = union(enum) { proceed, warn: []const u8, reject: []const u8, add_context: []const u8 };

/// What a call returned.
pub const Outcome = struct { is_error: bool, text: [:0]const u8 };

/// What a summary replaces, with the user's instructions for it.
pub const Compaction = struct { messages: u32, tokens: u32, instructions: [:0]const u8 };

/// Exports what the plugin has: `comptime { pinion.plugin(.{ .tools = .{…}, .commands = .{…} }); }`.
///
/// Each of these members belongs to an `export` in `wit/world.wit`:
///
/// - `before_tool_call: fn (Call, ToolCall) !Verdict`; an error denies the call;
/// - `after_tool_call: fn (Call, ToolCall, Outcome) !?[]const u8`, the text that replaces that of the outcome;
/// - `before_prompt: fn (Call, []const u8) !PromptVerdict`; an error rejects the prompt;
/// - `before_compaction: fn (Call, Compaction) !?[]const u8`, instructions for the summary;
/// - `session_event: fn (Call, []const u8) !void`, for the export `session-events`;
/// - `offers: fn (Call) !?[]const u8`, which calls `offerTool` and `offerCommand` and returns sentences for the system prompt;
/// - `init: fn (Call, []const u8) !void`, which gets the config, and `self_test: fn (Call) !void`, for `lifecycle`;
/// - `save_state: fn (Call) ![]const u8` and `restore_state: fn (Call, []const u8, []const u8) !void`, which gets what was saved and
///   the version of the plugin that saved it, for `state`.
pub fn plugin(comptime parts: anytype) void {
    const Parts = @TypeOf(parts);
    const Exports = struct {
        const tools = table(RawTool, parts.tools);
        const commands = table(RawCommand, parts.commands);

        fn beforeToolCall(raw: *RawCall, of: *const RawToolCall) callconv(.c) bool {
            return guarded(raw, checkCall, .{of});
        }
        fn checkCall(call: Call, of: *const RawToolCall) !void {
            switch (try @call(.never_inline, parts.before_tool_call, .{ call, ToolCall.of(call, of) })) {
                .proceed => {},
                .deny => |text| _ = pinion_deny(call.raw, "%s", (try zeroed(call.arena, text)).ptr),
                .ask => |text| _ = pinion_ask(call.raw, "%s", (try zeroed(call.arena, text)).ptr),
                .rewrite => |text| _ = pinion_rewrite(call.raw, "%s", (try zeroed(call.arena, text)).ptr),
            }
        }

        fn afterToolCall(raw: *RawCall, of: *const RawToolCall, outcome: *const RawOutcome) callconv(.c) void {
            quietly(raw, revise, .{ of, outcome });
        }
        fn revise(call: Call, of: *const RawToolCall, raw: *const RawOutcome) !void {
            const outcome: Outcome = .{ .is_error = raw.is_error, .text = std.mem.span(raw.text) };
            try say(call, try @call(.never_inline, parts.after_tool_call, .{ call, ToolCall.of(call, of), outcome }));
        }

        fn beforePrompt(raw: *RawCall) callconv(.c) bool {
            return guarded(raw, checkPrompt, .{});
        }
        fn checkPrompt(call: Call) !void {
            switch (try @call(.never_inline, parts.before_prompt, .{ call, inputOf(call) })) {
                .proceed => {},
                .warn => |text| _ = pinion_warn(call.raw, "%s", (try zeroed(call.arena, text)).ptr),
                .reject => |text| _ = pinion_deny(call.raw, "%s", (try zeroed(call.arena, text)).ptr),
                .add_context => |text| _ = pinion_add_context(call.raw, "%s", (try zeroed(call.arena, text)).ptr),
            }
        }

        fn beforeCompaction(raw: *RawCall, messages: u32, tokens: u32) callconv(.c) void {
            quietly(raw, instruct, .{ messages, tokens });
        }
        fn instruct(call: Call, messages: u32, tokens: u32) !void {
            const compaction: Compaction = .{ .messages = messages, .tokens = tokens, .instructions = inputOf(call) };
            try say(call, try @call(.never_inline, parts.before_compaction, .{ call, compaction }));
        }

        fn sessionEvent(raw: *RawCall) callconv(.c) void {
            quietly(raw, handle, .{});
        }
        fn handle(call: Call) !void {
            try @call(.never_inline, parts.session_event, .{ call, inputOf(call) });
        }

        fn offer(call: Call) !void {
            try say(call, try @call(.never_inline, parts.offers, .{call}));
        }

        fn initialize(call: Call) !void {
            try @call(.never_inline, parts.init, .{ call, inputOf(call) });
        }

        fn testItself(call: Call) !void {
            try @call(.never_inline, parts.self_test, .{call});
        }

        fn saveState(raw: *RawCall) callconv(.c) void {
            quietly(raw, save, .{});
        }
        fn save(call: Call) !void {
            const saved: []const u8 = try @call(.never_inline, parts.save_state, .{call});
            _ = pinion_bytes(call.raw, saved.ptr, saved.len);
        }

        fn restoreState(raw: *RawCall, version: [*:0]const u8) callconv(.c) bool {
            return guarded(raw, restore, .{version});
        }
        fn restore(call: Call, version: [*:0]const u8) !void {
            const saved = pinion_input(call.raw)[0..pinion_input_size(call.raw)];
            try @call(.never_inline, parts.restore_state, .{ call, saved, std.mem.span(version) });
        }
    };
    if (@hasField(Parts, "tools")) @export(&Exports.tools, .{ .name = "pinion_tools" });
    if (@hasField(Parts, "commands")) @export(&Exports.commands, .{ .name = "pinion_commands" });
    if (@hasField(Parts, "before_tool_call")) @export(&Exports.beforeToolCall, .{ .name = "pinion_before_tool_call" });
    if (@hasField(Parts, "after_tool_call")) @export(&Exports.afterToolCall, .{ .name = "pinion_after_tool_call" });
    if (@hasField(Parts, "before_prompt")) @export(&Exports.beforePrompt, .{ .name = "pinion_before_prompt" });
    if (@hasField(Parts, "before_compaction")) @export(&Exports.beforeCompaction, .{ .name = "pinion_before_compaction" });
    if (@hasField(Parts, "session_event")) @export(&Exports.sessionEvent, .{ .name = "pinion_session_event" });
    if (@hasField(Parts, "offers")) @export(entry(Exports.offer), .{ .name = "pinion_offers" });
    if (@hasField(Parts, "init")) @export(entry(Exports.initialize), .{ .name = "pinion_init" });
    if (@hasField(Parts, "self_test")) @export(entry(Exports.testItself), .{ .name = "pinion_self_test" });
    if (@hasField(Parts, "save_state")) @export(&Exports.saveState, .{ .name = "pinion_save_state" });
    if (@hasField(Parts, "restore_state")) @export(&Exports.restoreState, .{ .name = "pinion_restore_state" });
}

/// Sets the text of a call; null is none.
fn say(call: Call, maybe: ?[]const u8) !void {
    if (maybe) |text| _ = pinion_text(call.raw, "%s", (try zeroed(call.arena, text)).ptr);
}

fn inputOf(call: Call) [:0]const u8 {
    return std.mem.span(pinion_input(call.raw));
}

fn table(comptime Row: type, comptime rows: anytype) [rows.len + 1]Row {
    var all: [rows.len + 1]Row = undefined;
    for (0..rows.len) |i| all[i] = rows[i];
    all[rows.len] = .{};
    return all;
}

/// Makes the function of a body that takes the call alone.
fn entry(comptime body: anytype) *const fn (*RawCall) callconv(.c) bool {
    return &struct {
        fn run(raw: *RawCall) callconv(.c) bool {
            return guarded(raw, body, .{});
        }
    }.run;
}

/// Runs a body with memory that is freed after it; its error becomes that of the call.
fn guarded(raw: *RawCall, comptime body: anytype, arguments: anytype) bool {
    var arena = std.heap.ArenaAllocator.init(std.heap.c_allocator);
    defer arena.deinit();
    const call: Call = .{ .raw = raw, .arena = arena.allocator() };
    @call(.auto, body, .{call} ++ arguments) catch |failure| {
        const kind: Kind = switch (@as(anyerror, failure)) {
            error.Reported => return false,
            error.FileNotFound => .not_found,
            error.AccessDenied, error.PermissionDenied => .denied,
            else => .failed,
        };
        return pinion_fail(raw, @backingInt(kind), "%s", @errorName(failure).ptr);
    };
    return true;
}

/// Runs a body whose error changes nothing; the log has it.
fn quietly(raw: *RawCall, comptime body: anytype, arguments: anytype) void {
    var arena = std.heap.ArenaAllocator.init(std.heap.c_allocator);
    defer arena.deinit();
    const call: Call = .{ .raw = raw, .arena = arena.allocator() };
    @call(.auto, body, .{call} ++ arguments) catch |failure| pinion_log("%s", @errorName(failure).ptr);
}

fn schemaOf(comptime T: type) [:0]const u8 {
    return switch (@typeInfo(T)) {
        .bool => "{\"type\":\"boolean\"}",
        .int => "{\"type\":\"integer\"}",
        .float => "{\"type\":\"number\"}",
        .optional => |of| schemaOf(of.child),
        .pointer => |of| if (of.child == u8) "{\"type\":\"string\"}" else "{\"type\":\"array\",\"items\":" ++ schemaOf(of.child) ++ "}",
        .@"struct" => |of| blk: {
            var properties: [:0]const u8 = "";
            var required: [:0]const u8 = "";
            for (of.field_names, of.field_types, of.field_attrs) |name, Field, attributes| {
                properties = properties ++ (if (properties.len > 0) "," else "") ++ "\"" ++ name ++ "\":" ++ schemaOf(Field);
                if (attributes.default_value_ptr == null) required = required ++ (if (required.len > 0) "," else "") ++ "\"" ++ name ++ "\"";
            }
            break :blk "{\"type\":\"object\",\"properties\":{" ++ properties ++ "},\"required\":[" ++ required ++ "]}";
        },
        else => @compileError("no JSON Schema for " ++ @typeName(T)),
    };
}

/// Copies a text and ends it with a NUL, for C.
fn zeroed(arena: std.mem.Allocator, text: []const u8) ![:0]u8 {
    const copy = try arena.allocSentinel(u8, text.len, 0);
    @memcpy(copy, text);
    return copy;
}
