const std = @import("std");
const pinion = @import("pinion");

const Input = struct { path: []const u8 };

fn count(call: pinion.Call, input: Input) ![]const u8 {
    call.progress("reading the file");
    const text = try call.readFile(input.path);
    var words = std.mem.tokenizeAny(u8, text, " \t\r\n");
    var n: usize = 0;
    while (words.next()) |_| n += 1;
    return std.fmt.allocPrint(call.arena, "{d} words", .{n});
}

fn ask(call: pinion.Call, input: []const u8) !pinion.Action {
    return .{ .submit = try std.fmt.allocPrint(call.arena, "Count the words in {s}.", .{input}) };
}

comptime {
    pinion.plugin(.{
        .tools = .{pinion.tool("{{tool}}", "{{example}}ounts the words of a file.", .{ .reads = true }, count)},
        .commands = .{pinion.command("{{name}}", "Ask for the number of words in a file", "<file>", ask)},
    });
}
