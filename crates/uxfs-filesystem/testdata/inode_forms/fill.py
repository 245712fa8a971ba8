"""Fills a mounted XFS with every form of inode. Contents: each 1 KiB block holds its own index, repeated."""
import os, socket, stat, struct, subprocess, sys

os.chdir(sys.argv[1])


def blocks(first, count):
    return b"".join(struct.pack("<Q", index) * 128 for index in range(first, first + count))


def write(name, offset, data):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
    os.pwrite(fd, data, offset)
    os.fsync(fd)
    os.close(fd)


def io(name, *commands):
    arguments = ["xfs_io", "-f"]
    for command in commands:
        arguments += ["-c", command]
    subprocess.run([*arguments, name], check=True)


def fragment(name, count):
    """Every second block is punched out again: `count` extents, or twice as many where they lie apart."""
    write(name, 0, blocks(0, 2 * count))
    fd = os.open(name, os.O_RDWR)
    for index in range(1, 2 * count, 2):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        punch(fd, index * 1024, 1024)
    os.fsync(fd)
    os.close(fd)


import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def punch(fd, offset, length):
    if libc.fallocate(fd, 3, offset, length):
        raise OSError(ctypes.get_errno(), "punch")


write("empty", 0, b"")
write("small", 0, b"hello, world\n")
write("blocks", 0, blocks(0, 100) + b"end")
write("sparse", 5 * 1024 + 100, b"after a hole")
write("sparse", 1 << 20, blocks(1024, 3))
os.truncate("sparse", (1 << 40) + 12345)
io("unwritten", "falloc 0 100k", "pwrite -q -S 0x55 10k 3k", "pwrite -q -S 0x66 50500 10", "fsync")
io("past_end", "pwrite -q -S 0x77 0 3000", "falloc -k 0 200k", "fsync")
fragment("root_level_1", 40)
fragment("root_level_2", 800)
fragment("two_root_entries", 3800)
write("shared", 0, blocks(0, 64))
subprocess.run(["cp", "--reflink=always", "shared", "clone"], check=True)
write("clone", 20 * 1024, b"changed")
os.mkdir("directory")
for index in range(150):
    write(f"directory/file_{index:03}", 0, b"%d" % index)
os.symlink("target", "symlink")
os.symlink("s" * 300, "remote_symlink")
os.symlink("b" * 968, "block_symlink")
os.symlink("B" * 969, "two_block_symlink")
os.symlink("m" * 1023, "longest_symlink")
os.mknod("character", stat.S_IFCHR | 0o600, os.makedev(5, 1))
os.mknod("block", stat.S_IFBLK | 0o660, os.makedev(259, 70000))
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
os.link("small", "hard")
os.chown("small", 1000, 1001)
os.chmod("small", 0o4751)
os.utime("small", ns=(-1_000_000_001, 5_000_000_000_123_456_789))
write("attributes", 0, b"x")
for index in range(40):
    os.setxattr("attributes", f"user.attribute_{index}", bytes([index]) * 100)
# Inodes that were in use once.
for index in range(0, 150, 3):
    os.unlink(f"directory/file_{index:03}")
