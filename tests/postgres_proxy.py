"""A TCP proxy in front of the tests' Postgres server that loses answers, for tests of what a client makes of that."""

import socket
import struct
import threading
from contextlib import suppress

from psycopg.conninfo import conninfo_to_dict

from tests import postgres_server

OVER = b"Z"
"""The message that ends each answer: ready for the next query."""


SYNC = b"S\0\0\0\x04"
"""The message that ends each request."""


class Proxy:
    """Forwards to the server, whole answers only.

    lose: the so-manieth answer from now on is not passed on, but its connection is closed; 0: none.
    cut: the so-manieth request from now on is passed on, and its connection closed before that.
    lost: how many answers or connections were lost so far.   answers: how many came from the server.
    """

    def __init__(self):
        place = conninfo_to_dict(postgres_server.dsn())
        self.behind = f"{place['host']}/.s.PGSQL.{place['port']}"
        self.lose = self.cut = self.lost = self.answers = 0
        self.lock = threading.Lock()
        self.open = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def dsn(self):
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres sslmode=disable gssencmode=disable"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.listener.close()
        for connection in self.open:
            end(connection)

    def accept(self):
        with suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.behind)
                self.open += [client, server]
                threading.Thread(target=self.requests, args=(client, server), daemon=True).start()
                threading.Thread(target=self.replies, args=(client, server), daemon=True).start()

    def counted(self, name):
        """Whether it is this one's turn to be lost."""
        with self.lock:
            left = getattr(self, name)
            if left:
                setattr(self, name, left - 1)
                self.lost += left == 1
            return left == 1

    def requests(self, client, server):
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if SYNC in data and self.counted("cut"):
                    end(client)
                    server.sendall(data)
                    return  # the server is not told: what it does, it goes on doing
                server.sendall(data)
        end(server)

    def replies(self, client, server):
        data = b""
        with suppress(OSError):
            while more := server.recv(1 << 16):
                data += more
                place = start = 0
                while len(data) >= place + 5:
                    size = 1 + struct.unpack_from("!i", data, place + 1)[0]
                    if len(data) < place + size:
                        break
                    kind, place = data[place : place + 1], place + size
                    if kind == OVER:
                        self.answers += 1
                        if self.counted("lose"):
                            end(client)
                            end(server)
                            return
                        client.sendall(data[start:place])
                        start = place
                data = data[start:]
        with suppress(OSError):
            client.sendall(data)  # a server that says why it ends the connection
        end(client)


def end(connection):
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
