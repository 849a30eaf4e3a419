const std = @import("std");
const pinion = @import("pinion");

const Input = struct { path: []const u8, top: u32 = 20 };

/// Replaces each run of digits or hexadecimal digits that begins with a digit by `#`, so that lines that differ only in
/// times, addresses and counts become one.
fn pattern(arena: std.mem.Allocator, line: []const u8) ![]const u8 {
    var out: std.ArrayList(u8) = .empty;
    var i: usize = 0;
    while (i < line.len) {
        if (std.ascii.isDigit(line[i])) {
            while (i < line.len and std.ascii.isHex(line[i])) i += 1;
            try out.append(arena, '#');
        } else {
            try out.append(arena, line[i]);
            i += 1;
        }
    }
    return out.items;
}

const Entry = struct { text: []const u8, count: usize };

fn more(_: void, a: Entry, b: Entry) bool {
    return if (a.count == b.count) std.mem.lessThan(u8, a.text, b.text) else a.count > b.count;
}

fn patterns(call: pinion.Call, input: Input) ![]const u8 {
    const arena = call.arena;
    var counts: std.StringArrayHashMapUnmanaged(usize) = .empty;
    var lines = std.mem.tokenizeScalar(u8, try call.readFile(input.path), '\n');
    var n: usize = 0;
    while (lines.next()) |line| : (n += 1) {
        if (n % 4096 == 0 and call.cancelled()) return call.fail(.cancelled, "cancelled");
        const slot = try counts.getOrPutValue(arena, try pattern(arena, line), 0);
        slot.value_ptr.* += 1;
    }
    const entries = try arena.alloc(Entry, counts.count());
    for (entries, counts.keys(), counts.values()) |*entry, text, count| entry.* = .{ .text = text, .count = count };
    std.mem.sort(Entry, entries, {}, more);
    var out: std.ArrayList(u8) = .empty;
    for (entries[0..@min(input.top, entries.len)]) |entry| {
        try out.appendSlice(arena, try std.fmt.allocPrint(arena, "{d} {s}\n", .{ entry.count, entry.text }));
    }
    return out.items;
}

fn ask(call: pinion.Call, input: []const u8) !pinion.Action {
    return .{ .submit = try std.fmt.allocPrint(call.arena, "What goes wrong in {s}? Begin with log_patterns.", .{input}) };
}

comptime {
    pinion.plugin(.{
        .tools = .{pinion.tool("log_patterns", "Counts the lines of a log file by pattern, with numbers replaced by #.", .{ .reads = true }, patterns)},
        .commands = .{pinion.command("log", "Ask what goes wrong in a log file", "<file>", ask)},
    });
}
