"""Makes many small checkpoints that look alike, to fill a log with bytes that compress well.

Usage: churn.py DIRECTORY COUNT
"""

import os
import sys


def main():
    root, count = sys.argv[1], int(sys.argv[2])
    one, two = os.path.join(root, "one"), os.path.join(root, "two")
    if os.path.exists(two):
        one, two = two, one
    handle = os.open(root, os.O_RDONLY)
    file = os.open(one, os.O_RDWR | os.O_CREAT)
    for turn in range(count):
        os.pwrite(file, b"u" * 512, turn % 50 * 512)
        os.setxattr(one, "user.v", b"v" * (turn % 97 * 7))
        os.rename(one, two)
        one, two = two, one
        os.fsync(handle)
        os.fsync(file)


main()
