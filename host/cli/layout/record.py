#!/usr/bin/env python3
"""Records which functions a run of pinion executes, and writes `run.ld`, which places them together.

    cargo rustc --release --locked -p pinion-cli --bin pinion -- -C strip=none -C link-arg=-Wl,-Map=/tmp/pinion.map
    python3 host/cli/layout/record.py /tmp/pinion.map target/release/pinion ARGUMENTS... > host/cli/layout/run.ld

The arguments should make a typical run. Linux on x86-64 only: every function gets a breakpoint, which is removed when it is
hit. The map must be one of rust-lld. Names are recorded without the hashes that change with the compiler, for each
crate, and are shortened to prefixes where few other functions match.
"""

import bisect
import collections
import ctypes
import os
import re
import signal
import struct
import subprocess
import sys

PATTERN_COST = 2000  # bytes of functions that were not executed and that are placed among the others to save a pattern
MISS_COST = 16000  # bytes of them that are worth one executed function

TRACEME, CONT, GETREGS, SETREGS, SETOPTIONS = 0, 7, 12, 13, 0x4200
FORKS_AND_EXIT_KILL = 0x2 | 0x4 | 0x8 | 0x10 | 0x100000
ALL_THREADS = 0x40000000


class Registers(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_ulonglong)
        for name in "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base "
        "gs_base ds es fs gs".split()
    ]


def text_section(program):
    """Yields address, offset and size of the sections with code."""
    data = open(program, "rb").read()
    (table,) = struct.unpack_from("<Q", data, 0x28)
    count, names = struct.unpack_from("<HH", data, 0x3C)
    sections = [struct.unpack_from("<IIQQQQ", data, table + 64 * i) for i in range(count)]
    for name, _, _, address, offset, size in sections:
        start = sections[names][4] + name
        if data[start : data.index(b"\0", start)].startswith(b".text"):
            yield address, data[offset : offset + size]


def restore(process, address, byte):
    """Removes a breakpoint from a process, unless it has ended."""
    try:
        memory = os.open(f"/proc/{process}/mem", os.O_RDWR)
    except OSError:
        return
    try:
        os.pwrite(memory, byte, address)
    except OSError:
        pass
    finally:
        os.close(memory)


def executed(program, arguments):
    """Runs the program and returns the symbols of the functions that it executed."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    symbols = collections.defaultdict(list)
    for line in subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True).stdout.splitlines():
        address, kind, name = line.split(" ", 2)
        if kind in "tTwW":
            symbols[int(address, 16)].append(name)
    child = os.fork()
    if child == 0:
        libc.ptrace(TRACEME, 0, None, None)
        os.dup2(2, 1)
        os.execv(program, [program, *arguments])
    os.waitpid(child, 0)
    libc.ptrace(SETOPTIONS, child, None, ctypes.c_void_p(FORKS_AND_EXIT_KILL))
    maps = [line.split() for line in open(f"/proc/{child}/maps")]
    base = min(int(f[0].split("-")[0], 16) - int(f[2], 16) for f in maps if f[-1] == program)
    memory = os.open(f"/proc/{child}/mem", os.O_RDWR)
    original = {}
    for start, code in text_section(program):
        patched = bytearray(code)
        for address in symbols:
            if start <= address < start + len(code):
                original[address] = code[address - start : address - start + 1]
                patched[address - start] = 0xCC
        os.pwrite(memory, bytes(patched), base + start)
    libc.ptrace(CONT, child, None, None)
    hit, registers = set(), Registers()
    while True:
        try:
            task, status = os.waitpid(-1, ALL_THREADS)
        except ChildProcessError:
            return [name for address in hit for name in symbols[address]]
        if not os.WIFSTOPPED(status):
            continue
        deliver = os.WSTOPSIG(status)
        if deliver == signal.SIGTRAP:
            libc.ptrace(GETREGS, task, None, ctypes.byref(registers))
            address = registers.rip - 1 - base
            if status >> 16 == 0 and address in original:
                hit.add(address)
                # A forked process has a copy of the memory, with the breakpoints that were left at that time.
                for process in {child, task}:
                    restore(process, base + address, original[address])
                registers.rip -= 1
                libc.ptrace(SETREGS, task, None, ctypes.byref(registers))
            deliver = 0
        elif deliver == signal.SIGSTOP:
            deliver = 0
        libc.ptrace(CONT, task, None, ctypes.c_void_p(deliver))


def stable(symbol):
    """Returns the name without the hash of the legacy scheme, and with a mark for each one of the v0 scheme."""
    return re.sub(r"Cs[0-9A-Za-z]+_(?=\d)", "C?", re.sub(r"17h[0-9a-f]{16}E.*$", "17h", symbol))


def functions(link_map, hot):
    """Returns, for each crate and stable name, the bytes of executed and of other functions, and the number of executed ones."""
    crates = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0, 0]))
    line_of_section = re.compile(r"\s*[0-9a-f]+\s+[0-9a-f]+\s+([0-9a-f]+)\s+\d+ {9}(\S+):\(\.text\.([^)]*)\)$")
    for line in open(link_map, errors="replace"):
        section = line_of_section.match(line)
        if not section:
            continue
        size, file, symbol = int(section[1], 16), section[2], section[3]
        library = re.search(r"lib([A-Za-z0-9_]+)-[0-9a-f]+\.rlib", file)
        if library or "/pinion-" in file:
            entry = crates[f"*lib{library[1]}-*.rlib:*" if library else "*/pinion-*.o"][stable(symbol)]
            is_hot = symbol.removeprefix("unlikely.") in hot
            entry[0 if is_hot else 1] += size
            entry[2] += is_hot
    return crates


def prefixes(entries):
    """Returns the cheapest set of prefixes of names."""
    names = sorted(entries)
    cold = [entries[name][1] for name in names]
    hits = [entries[name][2] for name in names]

    def cheapest(low, high, depth):
        count = sum(hits[low:high])
        if count == 0:
            return 0, []
        here = PATTERN_COST + sum(cold[low:high])
        if high - low == 1:
            return min((here, [names[low]]), (MISS_COST * count, []))
        while names[low][depth : depth + 1] == names[high - 1][depth : depth + 1] != "":
            depth += 1
        total, chosen, first = 0, [], low
        while first < high:
            letter, last = names[first][depth : depth + 1], first
            while last < high and names[last][depth : depth + 1] == letter:
                last += 1
            cost, found = cheapest(first, last, depth + 1)
            total, chosen, first = total + cost, chosen + found, last
        return (here, [names[low][:depth]]) if here <= total else (total, chosen)

    def matches(prefix):
        return bisect.bisect_left(names, prefix), bisect.bisect_left(names, prefix + "\x7f")

    for prefix in cheapest(0, len(names), 0)[1]:
        while len(prefix) > 4 and matches(prefix[:-1]) == matches(prefix):
            prefix = prefix[:-1]
        yield prefix.replace("C?", "Cs*_")


def main():
    link_map, program, *arguments = sys.argv[1:]
    hot = set(executed(os.path.realpath(program), arguments))
    print("/* Functions that a run executes, placed together; written by record.py. */")
    print("SECTIONS {\n  .text.run : {")
    for file, entries in sorted(functions(link_map, hot).items()):
        patterns = list(prefixes(entries))
        if patterns:
            print(f"    {file}(")
            for pattern in patterns:
                print(f"      .text.{pattern}*")
            print("    )")
    print("  }\n} INSERT BEFORE .text;")


main()
