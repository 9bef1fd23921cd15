"""A NATS client of the standard library alone: publish, subscribe, request, reconnect."""

import json, os, queue, socket, ssl, threading, time, uuid
from typing import Any, Callable, NamedTuple, Optional
from urllib.parse import unquote, urlsplit


class Message(NamedTuple):
    subject: str
    reply: str
    headers: dict[str, str]
    data: bytes


class Connection:
    def __init__(self, url: str, user: Optional[str] = None, password: Optional[str] = None, wait: float = 10):
        self.urls = [urlsplit(one.strip() if "://" in one else "nats://" + one.strip()) for one in url.split(",")]
        first = self.urls[0]
        self.user = user or unquote(first.username or "") or os.environ.get("NATS_USER", "")
        self.password = password or unquote(first.password or "") or os.environ.get("NATS_PASSWORD", "")
        self.inbox, self.lock, self.closed = "_INBOX." + uuid.uuid4().hex, threading.Lock(), False
        self.pending: dict[str, queue.Queue[Optional[Message]]] = {}
        self.on_reconnect: set[Callable[[], Any]] = set()
        self.subscriptions: dict[str, tuple[str, str, Callable[[Message], Any]]] = {"0": (self.inbox + ".*", "", self._answered)}
        deadline = time.monotonic() + wait
        while True:
            try:
                self._dial()
                break
            except OSError as err:
                if isinstance(err, PermissionError) or time.monotonic() > deadline:
                    raise ConnectionError(f"connect to {first.hostname}:{first.port or 4222}: {err}") from err
                time.sleep(0.5)
        threading.Thread(target=self._read, daemon=True).start()

    def _dial(self) -> None:
        url = self.urls[0]
        self.urls.append(self.urls.pop(0))  # the next attempt uses the next server
        sock = socket.create_connection((url.hostname, url.port or 4222), timeout=5)
        info = json.loads(_line(sock)[5:])
        if url.scheme == "tls" or info.get("tls_required"):
            sock = ssl.create_default_context(cafile=os.environ.get("NATS_CA")).wrap_socket(sock, server_hostname=url.hostname)
        options = {"verbose": False, "headers": True, "no_responders": True, "protocol": 1, "lang": "python", "version": "1", "name": "stevedore.py", "user": self.user, "pass": self.password}
        hello = f"CONNECT {json.dumps(options)}\r\n" + "".join(f"SUB {s} {group} {sid}\r\n" for sid, (s, group, _) in self.subscriptions.items())
        sock.sendall(hello.encode() + b"PING\r\n")
        while not (line := _line(sock)).startswith(b"PONG"):
            if line.startswith(b"-ERR"):
                raise PermissionError(line[5:].decode())
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.sock, self.stream, self.max_payload = sock, sock.makefile("rb"), info["max_payload"]

    def _read(self) -> None:
        while not self.closed:
            try:
                self._dispatch()
            except (OSError, ValueError):
                while not self.closed:
                    time.sleep(0.5)
                    try:
                        with self.lock:
                            self._dial()
                        break
                    except (OSError, ValueError):
                        pass
                for answer in list(self.pending.values()):
                    answer.put(None)
                for notify in list(self.on_reconnect):
                    notify()

    def _dispatch(self) -> None:
        verb, *args = self.stream.readline().decode().split() or [""]
        if verb == "":
            raise ConnectionError("the server closed the connection")
        if verb == "PING":
            self._send(b"PONG\r\n")
        if verb in ("MSG", "HMSG"):
            size, head = int(args[-1]), int(args[-2]) if verb == "HMSG" else 0
            data = self.stream.read(size + 2)[:size]
            subject, sid, reply = args[0], args[1], args[2] if len(args) == (5 if head else 4) else ""
            version, *lines = data[:head].decode().split("\r\n")
            headers = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines if ":" in line)}
            headers["Status"] = version[9:12]  # of NATS/1.0 503
            if sid in self.subscriptions:
                self.subscriptions[sid][2](Message(subject, reply, headers, data[head:]))

    def _answered(self, msg: Message) -> None:
        if answer := self.pending.get(msg.subject):
            answer.put(msg)

    def _send(self, data: bytes) -> None:
        with self.lock:
            self.sock.sendall(data)

    def publish(self, subject: str, data: bytes, reply: str = "", headers: Optional[dict[str, str]] = None) -> None:
        if len(data) > self.max_payload:
            raise ValueError(f"the message has {len(data)} bytes; the server accepts at most {self.max_payload}")
        head = "".join(f"{k}: {v}\r\n" for k, v in headers.items()) if headers else ""
        head = f"NATS/1.0\r\n{head}\r\n" if head else ""
        sizes = f"{len(head.encode())} {len(head.encode()) + len(data)}" if head else f"{len(data)}"
        self._send(f"{'H' if head else ''}PUB {subject} {reply} {sizes}\r\n{head}".encode() + data + b"\r\n")

    def subscribe(self, subject: str, handle: Callable[[Message], Any], group: str = "") -> Callable[[], None]:
        """Calls handle for each message, in the thread that reads; returns a function that ends it."""
        sid = uuid.uuid4().hex
        self.subscriptions[sid] = (subject, group, handle)
        self._send(f"SUB {subject} {group} {sid}\r\n".encode())
        return lambda: self._send(f"UNSUB {sid}\r\n".encode()) if self.subscriptions.pop(sid, None) else None

    def request(self, subject: str, data: bytes, timeout: float) -> Optional[Message]:
        """Returns the answer, or None if none came in time or the connection was lost."""
        reply = f"{self.inbox}.{uuid.uuid4().hex}"
        self.pending[reply] = queue.Queue()
        try:
            self.publish(subject, data, reply)
            return self.pending[reply].get(timeout=timeout)
        except (OSError, queue.Empty):
            return None
        finally:
            del self.pending[reply]

    def close(self) -> None:
        self.closed = True
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already


def _line(sock: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = sock.recv(1)
        if not byte:
            raise ConnectionError("the server closed the connection")
        line += byte
    return line.strip()
