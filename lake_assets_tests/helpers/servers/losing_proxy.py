"""A proxy before a database that loses the answer to a chosen message: the database has done what was asked, and the
client does not know.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_BYTES = 1 << 16


@contextmanager
def losing_proxy(port: int, loses: Callable[[bytes], bool]) -> Iterator[int]:
    """The port of a proxy before a port of this machine, inside of the block. `loses`: whether the answer to these
    bytes of a client is lost; the connection is closed then."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve, args=(server, port, loses), daemon=True)
        thread.start()
        yield server.getsockname()[1]
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def _serve(server: socket.socket, port: int, loses: Callable[[bytes], bool]) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            database = socket.create_connection(("127.0.0.1", port))
            lost = threading.Event()
            for work in (_ask, _answer):
                threading.Thread(target=work, args=(client, database, loses, lost), daemon=True).start()


def _ask(
    client: socket.socket, database: socket.socket, loses: Callable[[bytes], bool], lost: threading.Event
) -> None:
    with suppress(OSError):
        while data := client.recv(_BYTES):
            if loses(data):
                lost.set()
            database.sendall(data)
    if not lost.is_set():
        _close(client, database)


def _answer(
    client: socket.socket, database: socket.socket, loses: Callable[[bytes], bool], lost: threading.Event
) -> None:
    with suppress(OSError):
        while (data := database.recv(_BYTES)) and not lost.is_set():
            client.sendall(data)
    _close(client, database)


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
