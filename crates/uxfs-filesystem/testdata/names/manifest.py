"""What the kernel says of every name: entries (path, name, inode, type, cookie) and attributes (path, name, value), all
names and values in hexadecimal, sorted."""
import ctypes
import os
import struct
import sys

GETDENTS64 = 217
# From the types of getdents to those of directory entries on disk.
TYPES = {8: 1, 4: 2, 2: 3, 6: 4, 1: 5, 12: 6, 10: 7}
libc = ctypes.CDLL(None, use_errno=True)
root = os.fsencode(sys.argv[1])
lines = []


def entries(directory):
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    buffer = ctypes.create_string_buffer(65536)
    while (length := libc.syscall(GETDENTS64, handle, buffer, 65536)) > 0:
        at = 0
        while at < length:
            inode, next_cookie, size, kind = struct.unpack_from("<QqHB", buffer.raw, at)
            yield buffer.raw[at + 19 : at + size].split(b"\0")[0], inode, TYPES[kind], next_cookie
            at += size
    assert length == 0
    os.close(handle)


def attributes(relative):
    file = root + relative
    for name in os.listxattr(file, follow_symlinks=False):
        value = os.getxattr(file, name, follow_symlinks=False)
        lines.append("X %s %s %s" % (relative.hex(), os.fsencode(name).hex(), value.hex()))


def walk(relative):
    attributes(relative)
    cookie = 8  # of "."
    for name, inode, kind, next_cookie in entries(root + relative):
        lines.append("E %s %s %d %d %d" % (relative.hex(), name.hex(), inode, kind, cookie))
        cookie = next_cookie
        if name not in (b".", b".."):
            below = relative + b"/" + name
            walk(below) if kind == 2 else attributes(below)


sys.setrecursionlimit(10000)
walk(b"")
print("\n".join(sorted(lines)))
