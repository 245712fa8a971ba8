"""Fills an empty file system with directories and attributes of every form."""
import os
import struct
import sys

root = os.fsencode(sys.argv[1])


def path(*names):
    return b"/".join((root,) + names)


def touch(*names):
    os.close(os.open(path(*names), os.O_CREAT | os.O_WRONLY, 0o644))


def colliding(count):
    """Names of one hash: flipping bit 0 of one byte and bit 7 of the next changes nothing."""
    for index in range(count):
        name = bytearray(b"ABCDEFGHIJKLMNOPQRST")
        for pair in range(10):
            if index >> pair & 1:
                name[2 * pair] ^= 0x01
                name[2 * pair + 1] ^= 0x80
        yield bytes(name)


touch(b"base")
for name in (b"empty", b"short", b"block", b"leaf", b"node", b"collide", b"odd", b"deep", b"attributes", b"links"):
    os.mkdir(path(name))
for name in (b"a", b"bb", b"ccc", b"dddd"):
    touch(b"short", name)
os.unlink(path(b"short", b"bb"))
for index in range(30):
    touch(b"block", b"name_%d" % index)
for index in range(0, 30, 4):
    os.unlink(path(b"block", b"name_%d" % index))
for index in range(220):
    os.link(path(b"base"), path(b"leaf", b"a_longer_name_%d" % index))
for index in range(20):
    os.unlink(path(b"leaf", b"a_longer_name_%d" % (index * 7)))
for index in range(1300):
    os.link(path(b"base"), path(b"node", b"an_even_longer_name_%06d" % index))
for index in range(400, 800):  # whole data blocks go: holes
    os.unlink(path(b"node", b"an_even_longer_name_%06d" % index))
for name in colliding(1020):
    os.link(path(b"base"), path(b"collide", name))
for name in (b"x" * 255, b"\xff\xfe\x80", b"new\nline", "ünï".encode(), b" ", b"...", b"a" * 254 + b"\xc3"):
    touch(b"odd", name)
os.mkfifo(path(b"odd", b"fifo"))
os.mknod(path(b"odd", b"character"), 0o020600, os.makedev(5, 1))
os.mknod(path(b"odd", b"block"), 0o060600, os.makedev(8, 1))

below = b"deep"
for index in range(30):
    below += b"/level_%d" % index
    os.mkdir(path(below))
touch(below, b"bottom")
os.link(path(below, b"bottom"), path(b"deep", b"bottom too"))

for name, target in (
    (b"to_file", b"../short/a"),
    (b"to_directory", b"../short"),
    (b"absolute", b"/short/a"),
    (b"above_root", b"../../../../short/a"),
    (b"slash_behind", b"../short/"),
    (b"chain", b"to_directory/../links/to_file"),
    (b"itself", b"itself"),
    (b"dangling", b"nowhere"),
    (b"long", b"../links/" * 60 + b"to_file"),
):
    os.symlink(target, path(b"links", name))
os.symlink(b"../short/a", path(b"links", b"step_0"))
for index in range(1, 45):
    os.symlink(b"step_%d" % (index - 1), path(b"links", b"step_%d" % index))


def attribute(file, name, value):
    os.setxattr(path(b"attributes", file), name, value)


for name in (b"none", b"short", b"leaf", b"remote", b"node", b"collide", b"names", b"removed", b"acl"):
    touch(b"attributes", name)
attribute(b"short", b"user.one", b"1")
attribute(b"short", b"trusted.two", b"22")
attribute(b"short", b"security.three", b"333")
attribute(b"short", b"user.empty", b"")
for index in range(12):
    attribute(b"leaf", b"user.attribute_%d" % index, b"v" * (index * 3))
attribute(b"remote", b"user.small", b"s")
attribute(b"remote", b"user.one_block", bytes(range(256)) * 3)
attribute(b"remote", b"user.exactly_two", b"2" * (968 * 2))
attribute(b"remote", b"user.largest", b"m" * 65536)
for index in range(900):
    attribute(b"node", b"user.an_attribute_%d" % index, b"v" * (index % 50))
for name in colliding(150):
    attribute(b"collide", b"user." + name, name)
attribute(b"names", b"user." + b"n" * 250, b"longest")
attribute(b"names", b"user.\xff\xfe", b"bytes")
attribute(b"names", b"trusted." + b"t" * 247, b"longest")
for index in range(60):
    attribute(b"removed", b"user.attribute_%d" % index, b"v" * 60)
for index in range(0, 60, 3):
    os.removexattr(path(b"attributes", b"removed"), b"user.attribute_%d" % index)


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NO_ID = 0xFFFFFFFF
shared = ((1, 7, NO_ID), (2, 7, 1000), (4, 5, NO_ID), (8, 5, 100), (16, 7, NO_ID), (32, 5, NO_ID))
attribute(b"acl", b"system.posix_acl_access", acl(*shared))
os.mkdir(path(b"attributes", b"with_default"))
attribute(b"with_default", b"system.posix_acl_default", acl(*shared))
touch(b"attributes", b"with_default", b"inherits")
attribute(b"with_default", b"user.of_a_directory", b"yes")
