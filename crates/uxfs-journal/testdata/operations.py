"""Operations that leave many kinds of log item behind. Usage: operations.py DIRECTORY ROUNDS SEED"""

import os
import random
import sys


def sync_directory(path):
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def make_files(directory, numbers):
    for index in range(numbers.randrange(5, 40)):
        path = os.path.join(directory, "file_%d_%s" % (index, "x" * numbers.randrange(0, 60)))
        with open(path, "wb") as file:
            if index % 3 == 0:
                file.write(b"z" * numbers.randrange(1, 20000))
            if index % 7 == 0:
                file.seek(numbers.randrange(1 << 20))
                file.write(b"end")
        if index % 4 == 0:
            os.setxattr(path, "user.k%d" % index, b"v" * numbers.randrange(0, 300))
        if index % 11 == 0:
            os.setxattr(path, "user.big", b"b" * 9000)
        if index % 5 == 0:
            os.link(path, path + ".hard")
        if index % 6 == 0:
            os.symlink("t" * numbers.randrange(1, 900), path + ".sym")


def main():
    root, rounds, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    numbers = random.Random(seed)
    base = os.path.join(root, "w%d" % seed)
    os.makedirs(base, exist_ok=True)
    for turn in range(rounds):
        directory = os.path.join(base, "d%d" % turn)
        os.mkdir(directory)
        make_files(directory, numbers)
        names = sorted(os.listdir(directory))
        for name in names[::3]:
            os.rename(os.path.join(directory, name), os.path.join(base, "moved_%d_%s" % (turn, name[:200])))
        for name in names[1::3]:
            os.unlink(os.path.join(directory, name))
        if turn % 4 == 3:
            sync_directory(directory)


main()
