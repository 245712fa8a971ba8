"""Makes a log look as if the machine stopped while records were being written.

Usage: damage.py IMAGE LOG_BYTE LOG_LENGTH BACK HOW

BACK says which record: 0 is the newest (highest h_lsn), 1 the one before, and so on. HOW:
  flip   a bit of its payload is wrong
  hole   it was never written: its blocks are of the cycle before
  cut    its second half was never written
  front  its header was never written
"""

import struct
import sys

BLOCK = 512


def records(log):
    found = []
    for block in range(len(log) // BLOCK):
        sector = log[block * BLOCK : block * BLOCK + BLOCK]
        magic, cycle, _, payload, lsn = struct.unpack(">IIIIQ", sector[:24])
        (operations,) = struct.unpack(">I", sector[40:44])
        # The kernel stamps records without operations ahead of the head; they are not history.
        if magic == 0xFEEDBABE and operations:
            (size,) = struct.unpack(">I", sector[320:324])
            headers = max(1, (size + 32767) // 32768)
            found.append((lsn, block, cycle, headers, headers + (payload + 511) // 512, payload))
    return sorted(found, reverse=True)


def main():
    path, start, length, back, how = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
    with open(path, "r+b") as image:
        image.seek(start)
        log = image.read(length)
        lsn, block, cycle, headers, blocks, payload = records(log)[back]

        def put(index, data):
            image.seek(start + (block + index) * BLOCK % length)
            image.write(data)

        if how == "flip":
            byte = ((block + headers) * BLOCK + payload // 2) % length
            image.seek(start + byte)
            image.write(bytes([log[byte] ^ 0x10]))
        else:
            first, last = {"hole": (0, blocks), "cut": (blocks // 2, blocks), "front": (0, 1)}[how]
            for index in range(first, last):
                wrapped = (block + index) * BLOCK >= length
                put(index, struct.pack(">I", cycle - (not wrapped)) + bytes(BLOCK - 4))
        print("%s the record at block %d, %d before the newest" % (how, block, back), file=sys.stderr)


main()
