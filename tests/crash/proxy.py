"""A man in the middle of a server's connections: forwards, delays, stalls, cuts, and lets a filter change what passes.

    proxy = Proxy("/tmp/x/.s.PGSQL.5432")
    conninfo = "host=127.0.0.1 port=%d" % proxy.port

Mode `pass` forwards. `reset()` ends all connections with a RST. `refuse` resets what there is and what comes. `stall` keeps
connections open and forwards nothing, as a cable that was pulled: neither side hears anything until `heal()`, which resets the
stalled ones (TCP would give them up at last) and forwards again. `delay` forwards with a pause before each piece.
"""
import select
import socket
import struct
import threading
import time


class Link:
    """One connection: `client` is the side that connected to us, `server` the server's. state is the filter's own."""

    def __init__(self, client, server):
        self.client, self.server, self.state = client, server, None
        self.stalled = False


class Proxy:
    def __init__(self, path, make_filter=None):
        """make_filter(link) returns filter(to_client, data) -> data to be sent on, None to cut the connection."""
        self.path, self.make_filter = path, make_filter
        self.mode, self.pause = "pass", 0.0
        self.links, self.lock = [], threading.Lock()
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()
        self.reset()

    def reset(self):
        with self.lock:
            links, self.links = self.links, []
        for link in links:
            self._cut(link)

    def refuse(self):
        self.mode = "refuse"
        self.reset()

    def stall(self):
        self.mode = "stall"

    def delay(self, seconds):
        self.mode, self.pause = "pass", seconds

    def heal(self):
        stalled = self.mode == "stall"
        self.mode, self.pause = "pass", 0.0
        if stalled:
            self.reset()

    @staticmethod
    def _cut(link):
        for side in (link.client, link.server):
            try:
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass
            try:
                # wakes the thread that waits on it; the close after it is the RST
                if side.family == socket.AF_UNIX:
                    side.shutdown(socket.SHUT_RDWR)
                side.close()
            except OSError:
                pass

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        link = None
        if self.mode != "refuse":
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                server.connect(self.path)
                link = Link(client, server)
            except OSError:
                server.close()
        if link is None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            return
        with self.lock:
            self.links.append(link)
        change = self.make_filter(link) if self.make_filter else (lambda to_client, data: data)
        try:
            self._forward(link, change)
        except (OSError, ValueError):
            pass
        with self.lock:
            if link in self.links:
                self.links.remove(link)
        self._cut(link)

    def _forward(self, link, change):
        sides = [link.client, link.server]
        while True:
            if self.mode == "stall":
                time.sleep(0.02)
                if link not in self.links:
                    return
                continue
            ready, _, _ = select.select(sides, [], [], 0.2)
            if self.mode == "stall":
                continue
            for side in ready:
                data = side.recv(65536)
                if not data:
                    return
                if self.pause:
                    time.sleep(self.pause)
                data = change(side is link.server, data)
                if data is None:
                    return
                (link.client if side is link.server else link.server).sendall(data)
