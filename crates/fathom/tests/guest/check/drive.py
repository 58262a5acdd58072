"""A drive behind the kernel's own target for SCSI. What it says of itself stands in the file /run/NAME: words and numbers."""

import mmap
import os
import struct
import sys
from pathlib import Path

BLOCKS, BLOCK = 65536, 512
NAME = sys.argv[1]
IS_ATA = NAME.startswith("ata")
GOOD, CHECK_CONDITION = 0, 2


def facts():
    words = Path(f"/run/{NAME}").read_text().split()
    return dict(zip(words[::2], map(int, words[1::2])))


def refused():
    """Illegal request: invalid field."""
    return CHECK_CONDITION, b"", bytes([0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0]).ljust(18, b"\0")


def padded(text, size):
    return text.encode().ljust(size)[:size]


def inquiry(cdb):
    if not cdb[1] & 1:
        vendor = padded("ATA" if IS_ATA else "LAB", 8)
        return bytes([0, 0, 6, 2, 31, 0, 0, 2]) + vendor + padded(f"LAB {NAME}", 16) + b"1.0 "
    pages = {
        0x00: bytes([0x00, 0x80, 0x83, 0xB1]),
        0x80: padded(f"serial-{NAME}", 16),
        0x83: bytes([1, 3, 0, 8]) + b"\x5f\xa7\0\0\0\0" + padded(NAME, 2),
        0xB1: struct.pack(">H", 1 if IS_ATA else 7200).ljust(60, b"\0"),
    }
    page = pages.get(cdb[2])
    return None if page is None else bytes([0, cdb[2], 0, len(page)]) + page


def mode_page(code):
    # The write cache is on; a bridge may hide that.
    cache = 0 if facts()["hidden"] else 4
    return bytes([0x08, 18, cache]).ljust(20, b"\0") if code in (0x08, 0x3F) else None


def parameter(code, value):
    return struct.pack(">HBB", code, 3, len(value)) + value


def log_page(code, said):
    pages = {
        0x0D: parameter(0, bytes([0, said["celsius"]])) + parameter(1, bytes([0, said["limit"]])),
        0x11: parameter(1, bytes([0, 0, 0, said["used"]])),
        0x2F: parameter(0, bytes([said["code"], said["qualifier"], said["celsius"], 0])),
    }
    pages[0] = bytes([0, *pages])
    page = pages.get(code)
    return None if page is None else struct.pack(">BBH", code, 0, len(page)) + page


def summed(page):
    page[511] = -sum(page[:511]) & 0xFF
    return bytes(page)


def identify():
    words = [0] * 256
    # So many logical sectors in a physical one, as a power of two, which READ CAPACITY does not tell.
    words[106] = 0x6000 | facts()["exponent"]
    # A drive with SMART, logs and a cache, all on; no platters.
    words[0], words[82], words[85], words[217] = 0x40, 0x21, 0x21, 1
    words[83], words[86], words[84], words[87] = 0x4000, 0, 0x4020, 0x4020
    return struct.pack("<256H", *words)


def smart_data(said):
    page = bytearray(512)
    attributes = [(5, said["replaced"]), (9, 1000), (197, said["pending"]), (198, 0), (199, said["cable"])]
    for place, (number, raw) in enumerate(attributes):
        struct.pack_into("<BHBBI", page, 2 + 12 * place, number, 0x33, 100, 100, raw)
    return summed(page)


def self_tests():
    page = bytearray(512)
    struct.pack_into("<BBH", page, 2, 2, 0, 990)
    page[508] = 1
    return summed(page)


def statistics(page_number, said):
    if page_number == 0:
        return struct.pack("<5H", 1, 0, 0, 0, 8).ljust(512, b"\0")
    valid = 3 << 62
    page = bytearray(512)
    page[2] = page_number
    if page_number == 5:
        struct.pack_into("<Q", page, 8, valid | said["celsius"])
        struct.pack_into("<Q", page, 0x58, valid | said["limit"])
    else:
        struct.pack_into("<Q", page, 8, valid | said["used"])
    return bytes(page)


def registers(count, middle, high):
    """Sense data with the registers of a command that came to a good end."""
    sense = bytes([0x72, 1, 0, 0x1D, 0, 0, 0, 14, 9, 12, 0, 0, 0, count, 0, 0, 0, middle, 0, high, 0, 0x50])
    return CHECK_CONDITION, b"", sense


def ata(cdb, said):
    command, feature, low, middle = cdb[14], cdb[4], cdb[8], cdb[10]
    if command == 0xE5:
        return registers(0xFF, 0, 0)
    if command == 0xB0 and feature == 0xDA:
        return registers(0, 0x4F, 0xC2)
    if command == 0xEC:
        return GOOD, identify(), b""
    if command == 0xB0 and feature in (0xD0, 0xD5):
        return GOOD, smart_data(said) if feature == 0xD0 else self_tests(), b""
    if command == 0x2F and low in (0, 4):
        return GOOD, statistics(middle, said) if low else statistics(0, said), b""
    return refused()


def answer(cdb):
    """Status, data and sense data."""
    code = cdb[0]
    data = b""
    if code == 0x85:
        return ata(cdb, facts()) if IS_ATA else refused()
    if code == 0x12:
        data = inquiry(cdb)
    elif code == 0x03:
        data = bytes([0x70]).ljust(18, b"\0")
    elif code == 0x25:
        data = struct.pack(">II", BLOCKS - 1, BLOCK)
    elif code == 0x9E and cdb[1] & 0x1F == 0x10:
        data = struct.pack(">QI", BLOCKS - 1, BLOCK).ljust(32, b"\0")
    elif code in (0x1A, 0x5A):
        page = mode_page(cdb[2] & 0x3F)
        head = bytes([3 + len(page or b""), 0, 0, 0]) if code == 0x1A else struct.pack(">H6x", 6 + len(page or b""))
        data = None if page is None else head + page
    elif code == 0x4D:
        data = None if IS_ATA else log_page(cdb[2] & 0x3F, facts())
    elif code in (0x08, 0x28, 0x88):
        data = bytes(1 << 20)
    elif code not in (0x00, 0x0A, 0x1B, 0x1E, 0x2A, 0x35, 0x8A, 0x91):
        data = None
    return refused() if data is None else (GOOD, data, b"")


def serve(number):
    size = int(Path(f"/sys/class/uio/{number}/maps/map0/size").read_text(), 16)
    file = os.open(f"/dev/{number}", os.O_RDWR)
    ring = mmap.mmap(file, size)
    _, _, start, length = struct.unpack_from("<HHII", ring, 0)
    Path(f"/run/{NAME}.ready").touch()
    while True:
        os.read(file, 4)
        (tail,) = struct.unpack_from("<I", ring, 64)
        while tail != struct.unpack_from("<I", ring, 12)[0]:
            entry = start + tail
            (head,) = struct.unpack_from("<I", ring, entry)
            # 0 only fills the ring up, and 2 tells of an abort.
            if head & 7 == 1:
                parts, _, _, block = struct.unpack_from("<IIIxxxxQ", ring, entry + 8)
                places = [struct.unpack_from("<QQ", ring, entry + 48 + 16 * n) for n in range(parts)]
                status, data, sense = answer(ring[block : block + 16])
                for place, room in places:
                    part, data = data[:room], data[room:]
                    ring[place : place + len(part)] = part
                struct.pack_into("<BBHI96s", ring, entry + 8, status, 0, 0, 0, sense)
            tail = (tail + (head & ~7)) % length
            struct.pack_into("<I", ring, 64, tail)
        os.write(file, b"\0\0\0\0")


names = {path.parent.name: path.read_text() for path in Path("/sys/class/uio").glob("uio*/name")}
serve(next(number for number, name in names.items() if name.strip().endswith(f"/{NAME}")))
