//! Plugins for Pinion in Zig 0.17: tools and commands as functions, on top of `pinion.h`, which has the exports.
const std = @import("std");

const RawCall = opaque {};
extern fn pinion_input(*RawCall) [*:0]const u8;
extern fn pinion_text(*RawCall, [*:0]const u8, ...) bool;
extern fn pinion_print(*RawCall, [*:0]const u8, ...) bool;
extern fn pinion_submit(*RawCall, [*:0]const u8, ...) bool;
extern fn pinion_fail(*RawCall, c_int, [*:0]const u8, ...) bool;
extern fn pinion_progress([*:0]const u8, ...) void;
extern fn pinion_log([*:0]const u8, ...) void;
extern fn pinion_cancelled() bool;
extern fn pinion_resolve(*RawCall, [*:0]const u8) ?[*:0]const u8;

const RawTool = extern struct {
    name: ?[*:0]const u8 = null,
    description: ?[*:0]const u8 = null,
    effects: c_uint = 0,
    run: ?*const fn (*RawCall) callconv(.c) bool = null,
    schema: ?[*:0]const u8 = null,
};
const RawCommand = extern struct {
    name: ?[*:0]const u8 = null,
    description: ?[*:0]const u8 = null,
    hint: ?[*:0]const u8 = null,
    run: ?*const fn (*RawCall) callconv(.c) bool = null,
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

/// An action of a command: show Markdown to the user, or send a message to the model as the user's.
pub const Action = union(enum) { print: []const u8, submit: []const u8 };

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
    pub fn path(call: Call, name: []const u8) ![:0]const u8 {
        const found = pinion_resolve(call.raw, try zeroed(call.arena, name)) orelse return error.Reported;
        return std.mem.span(found);
    }

    /// Reads a whole file.
    pub fn readFile(call: Call, name: []const u8) ![]const u8 {
        var threaded: std.Io.Threaded = .init_single_threaded;
        return std.Io.Dir.cwd().readFileAlloc(threaded.io(), try call.path(name), call.arena, .limited(256 << 20));
    }

    /// Fails with a text for the model: `return call.fail(.not_found, "no such row")`.
    pub fn fail(call: Call, kind: Kind, message: []const u8) error{ Reported, OutOfMemory } {
        _ = pinion_fail(call.raw, @intFromEnum(kind), "%s", (try zeroed(call.arena, message)).ptr);
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
            const input = try std.json.parseFromSliceLeaky(Input, call.arena, std.mem.span(pinion_input(call.raw)), options);
            // Apart, so that a backtrace names it.
            const text = try zeroed(call.arena, try @call(.never_inline, run, .{ call, input }));
            _ = pinion_text(call.raw, "%s", text.ptr);
        }
    };
    return .{ .name = name, .description = description, .effects = @bitCast(effects), .run = entry(Body.body), .schema = comptime schemaOf(Input) ++ "" };
}

/// Makes a slash command of `fn (Call, []const u8) !Action`; it gets the text after its name.
pub fn command(comptime name: [:0]const u8, comptime description: [:0]const u8, comptime hint: ?[:0]const u8, comptime run: anytype) RawCommand {
    const Body = struct {
        fn body(call: Call) !void {
            switch (try @call(.never_inline, run, .{ call, std.mem.span(pinion_input(call.raw)) })) {
                .print => |text| _ = pinion_print(call.raw, "%s", (try zeroed(call.arena, text)).ptr),
                .submit => |text| _ = pinion_submit(call.raw, "%s", (try zeroed(call.arena, text)).ptr),
            }
        }
    };
    return .{ .name = name, .description = description, .hint = if (hint) |text| text.ptr else null, .run = entry(Body.body) };
}

/// Exports the tools and commands: `comptime { pinion.plugin(.{ .tools = .{…}, .commands = .{…} }); }`.
pub fn plugin(comptime parts: anytype) void {
    const Tables = struct {
        const tools = table(RawTool, parts.tools);
        const commands = table(RawCommand, parts.commands);
    };
    @export(&Tables.tools, .{ .name = "pinion_tools" });
    @export(&Tables.commands, .{ .name = "pinion_commands" });
}

fn table(comptime Row: type, comptime rows: anytype) [rows.len + 1]Row {
    var all: [rows.len + 1]Row = undefined;
    for (0..rows.len) |i| all[i] = rows[i];
    all[rows.len] = .{};
    return all;
}

/// Wraps a body: it gets memory that is freed after the call, and its error becomes that of the call.
fn entry(comptime body: fn (Call) anyerror!void) *const fn (*RawCall) callconv(.c) bool {
    return struct {
        fn run(raw: *RawCall) callconv(.c) bool {
            var arena = std.heap.ArenaAllocator.init(std.heap.c_allocator);
            defer arena.deinit();
            body(.{ .raw = raw, .arena = arena.allocator() }) catch |failure| {
                const kind: Kind = switch (failure) {
                    error.Reported => return false,
                    error.FileNotFound => .not_found,
                    error.AccessDenied, error.PermissionDenied => .denied,
                    else => .failed,
                };
                return pinion_fail(raw, @intFromEnum(kind), "%s", @errorName(failure).ptr);
            };
            return true;
        }
    }.run;
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
