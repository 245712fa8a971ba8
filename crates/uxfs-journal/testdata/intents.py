"""Long chains of deferred work while the log is forced again and again, so that intents and their ends land in
different checkpoints (in one checkpoint the kernel leaves both out). Usage: intents.py DIRECTORY EXTENTS NAMES
"""

import fcntl
import os
import subprocess
import sys
import threading

FICLONE = 0x40049409


def force(path, stop):
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    turn = 0
    while not stop.is_set():
        os.utime(path, (turn, turn))
        os.fsync(handle)
        turn += 1


def fragmented(path, extents):
    commands = ["fpunch %d 4096" % (index * 8192) for index in range(extents)]
    with open(path, "wb") as file:
        file.write(b"f" * (extents * 8192))
    subprocess.run(["xfs_io"] + [word for command in commands for word in ("-c", command)] + [path], check=True)


def clone(source, target):
    with open(source, "rb") as old, open(target, "wb") as new:
        fcntl.ioctl(new, FICLONE, old.fileno())


def main():
    root, extents, names = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    one, two, three = (os.path.join(root, name) for name in ("one", "two", "three"))
    fragmented(one, extents)
    fragmented(three, extents)
    stop = threading.Event()
    forcer = threading.Thread(target=force, args=(os.path.join(root, "forced"), stop))
    forcer.start()
    clone(one, two)
    # Every second block of this is shared: written over, it moves.
    with open(two, "r+b") as file:
        file.write(b"w" * (extents * 4096))
        os.fsync(file.fileno())
    subprocess.run(["xfs_io", "-c", "exchangerange %s" % three, one], check=False)
    for turn in range(names):
        name = os.path.join(root, "name%d" % turn)
        os.close(os.open(name, os.O_CREAT | os.O_RDWR))
        os.setxattr(name, "user.a", b"a" * 5000)
        os.rename(name, name + "_longer" * 5)
        os.close(os.open(name, os.O_CREAT | os.O_RDWR))
        os.rename(name + "_longer" * 5, name)
    os.truncate(two, 4096)
    os.unlink(one)
    os.unlink(three)
    stop.set()
    forcer.join()


main()
