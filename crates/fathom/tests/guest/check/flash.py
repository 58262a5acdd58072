"""An NVMe drive behind a port of this machine. What it says of itself stands in the file /run/played: words and numbers."""

import socket
import struct
import threading
from pathlib import Path

PORT = 4430
REFUSED = 0x4002 << 1
# Sectors of 512 bytes, which it calls slower, and of 4096.
FORMATS = [(9, 2), (12, 0)]
SIZE = 64 << 20


def facts():
    words = Path("/run/played").read_text().split()
    return dict(zip(words[::2], map(int, words[1::2])))


class Controller:
    """One, with an administrative queue and one more."""

    def __init__(self):
        self.ready = 0
        self.transitions = 0

    def register(self, offset):
        return {0: 127 | 1 << 16 | 20 << 24 | 1 << 37, 8: 0x10300, 0x1C: self.ready}.get(offset, 0)

    def fabric(self, command):
        """Connect, and reading and writing of registers: status, result, data."""
        kind, offset = command[4], struct.unpack_from("<I", command, 44)[0]
        if kind == 1:
            return 0, 1, b""
        if kind == 4:
            return 0, self.register(offset), b""
        if kind == 0 and offset == 0x14:
            (value,) = struct.unpack_from("<Q", command, 48)
            self.ready = value & 1 | (8 if value >> 14 & 3 else 0)
        return 0, 0, b""

    def admin(self, command):
        code = command[0]
        word = struct.unpack_from("<I", command, 40)[0]
        number = word & 0xFF
        if code == 0x06:
            data = identify(number)
            return (REFUSED, 0, b"") if data is None else (0, 0, data)
        if code == 0x02:
            return 0, 0, health() if number == 2 else b""
        if code == 0x09 and number == 0x0C:
            (self.transitions,) = struct.unpack_from("<I", command, 44)
        if code == 0x0A:
            return 0, {0x06: 1, 0x0C: self.transitions}.get(number, 0), b""
        return 0, 0, b""


def identify_controller():
    page = bytearray(4096)
    struct.pack_into("<20s40s8s", page, 4, b"flash-1".ljust(20), b"LAB NVME".ljust(40), b"1.0".ljust(8))
    struct.pack_into("<HI", page, 78, 1, 0x10300)
    # One state of saving more than the working one, which it may take by itself; warm from 343 K on, hot from 358 K on.
    struct.pack_into("<BBBHH", page, 263, 1, 0, 1, 343, 358)
    page[111] = 1
    struct.pack_into("<H", page, 320, 10)
    struct.pack_into("<BBHI", page, 512, 0x66, 0x44, 128, 1)
    page[525] = 1
    struct.pack_into("<I", page, 536, 1 | 1 << 2 | 1 << 20)
    page[768:773] = b"flash"
    struct.pack_into("<II", page, 1792, 4, 1)
    struct.pack_into("<HxBII", page, 2048, 800, 0, 0, 0)
    struct.pack_into("<HxBII", page, 2048 + 32, 1, 2, 500, 5000)
    return page


def identify(kind):
    page = bytearray(4096)
    if kind == 0:
        current = facts()["format"]
        blocks = SIZE >> FORMATS[current][0]
        struct.pack_into("<QQQBBB", page, 0, blocks, blocks, blocks, 0, len(FORMATS) - 1, current)
        page[104:120] = b"fathom-lab-flash"
        for number, (shift, performance) in enumerate(FORMATS):
            struct.pack_into("<HBB", page, 128 + 4 * number, 0, shift, performance)
    elif kind == 1:
        page = identify_controller()
    elif kind == 2:
        struct.pack_into("<I", page, 0, 1)
    elif kind == 3:
        page[:20] = b"\x02\x10\0\0" + b"fathom-lab-flash"
    elif kind not in (5, 6):
        return None
    return bytes(page)


def health():
    said = facts()
    page = bytearray(512)
    struct.pack_into("<BHBBB", page, 0, said["warning"], said["celsius"] + 273, 100, 10, said["used"])
    return bytes(page)


def received(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def respond(connection, controller, command, is_admin):
    code = command[0]
    if is_admin and code == 0x0C:
        # Events: none ever comes.
        return
    if code == 0x7F:
        status, result, data = controller.fabric(command)
    elif is_admin:
        status, result, data = controller.admin(command)
    else:
        status, result, data = (REFUSED if code == 1 else 0), 0, b""
    number = command[2:4]
    (room,) = struct.unpack_from("<I", command, 32)
    # Commands that end on 2 give data to the host.
    if status == 0 and room and code != 0x7F and code & 3 == 2:
        data = data.ljust(room, b"\0")[:room]
        head = struct.pack("<BBBBI2sHII4x", 7, 4, 24, 24, 24 + room, number, 0, 0, room)
        connection.sendall(head + data)
    connection.sendall(struct.pack("<BBBBIQHH2sH", 5, 0, 24, 0, 24, result, 0, 0, number, status))


def serve(connection, controller):
    is_admin = True
    try:
        while True:
            kind, _, _, _, size = struct.unpack("<BBBBI", received(connection, 8))
            body = received(connection, size - 8)
            if kind == 0:
                connection.sendall(struct.pack("<BBBBIHBBI112x", 1, 0, 128, 0, 128, 0, 0, 0, 65536))
            elif kind == 4:
                if body[0] == 0x7F and body[4] == 1:
                    is_admin = struct.unpack_from("<H", body, 42)[0] == 0
                respond(connection, controller, body, is_admin)
    except (EOFError, OSError):
        connection.close()


listener = socket.create_server(("127.0.0.1", PORT))
Path("/run/played.ready").touch()
controller = Controller()
while True:
    peer, _ = listener.accept()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(peer, controller), daemon=True).start()
