"""A NATS client of the standard library alone: publish, subscribe, request, reconnect."""

import json, os, queue, re, socket, ssl, threading, time, traceback, uuid
from typing import Any, Callable, NamedTuple, Optional, Union
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
        self.pending: dict[str, tuple[str, queue.Queue[Union[Message, Exception, None]]]] = {}
        self.pongs: list[threading.Event] = []
        self.refused: dict[str, PermissionError] = {}  # by the subject of the subscription
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
        options = {"verbose": False, "headers": True, "no_responders": True, "protocol": 1, "lang": "python", "version": "1", "name": "stevedore_bus.py", "user": self.user, "pass": self.password}
        hello = f"CONNECT {json.dumps(options)}\r\n" + "".join(f"SUB {s} {group} {sid}\r\n" for sid, (s, group, _) in self.subscriptions.items())
        sock.sendall(hello.encode() + b"PING\r\n")
        while not (line := _line(sock)).startswith(b"PONG"):
            if line.startswith(b"-ERR"):
                raise PermissionError(line[5:].decode())
        sock.settimeout(None)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):  # a connection that is cut without a word ends after a minute
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        self.sock, self.stream, self.max_payload = sock, sock.makefile("rb"), int(info.get("max_payload", 1 << 20))

    def _read(self) -> None:
        while not self.closed:
            try:
                self._dispatch()
            except Exception:  # the connection ended, or what the server says makes no sense
                self._reconnect()

    def _reconnect(self) -> None:
        lost: Optional[Exception] = None  # None: ask again
        while not self.closed:
            time.sleep(0.5)
            try:
                with self.lock:
                    self._dial()
                break
            except PermissionError as err:  # the credential is not valid any more
                lost, self.closed = err, True
            except Exception:
                pass
        for _, answer in list(self.pending.values()):
            answer.put(lost)
        for pong in self.pongs:
            pong.set()
        for notify in list(self.on_reconnect):
            notify()

    def _dispatch(self) -> None:
        line = self.stream.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the server closed the connection")
        verb, *args = line.decode().split() or [""]
        if verb == "PING":
            self._send(b"PONG\r\n")
        elif verb == "PONG" and self.pongs:
            self.pongs.pop(0).set()
        elif verb == "-ERR":
            self._refuse(line[5:].decode().strip().strip("'"))
        elif verb in ("MSG", "HMSG"):
            size, head = int(args[-1]), int(args[-2]) if verb == "HMSG" else 0
            data = self.stream.read(size + 2)
            if len(data) < size + 2:
                raise ConnectionError("the server closed the connection within a message")
            subject, sid, reply = args[0], args[1], args[2] if len(args) == (5 if head else 4) else ""
            version, *lines = data[:head].decode(errors="replace").split("\r\n")
            headers = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines if ":" in line)}
            headers["Status"] = version[9:12]  # of NATS/1.0 503
            _, _, handle = self.subscriptions.get(sid, ("", "", None))
            try:
                if handle:
                    handle(Message(subject, reply, headers, data[head:size]))
            except Exception:
                traceback.print_exc()  # an error of the handler; the other subscriptions go on

    def _refuse(self, text: str) -> None:
        """Tells those whom an error of the server concerns; after other errors it closes the connection."""
        if found := re.match(r'permissions violation for (publish|subscription) to "(\S+)"', text, re.IGNORECASE):
            err = PermissionError(f"the server does not permit it: {text}")
            if found[1].lower() == "subscription":
                self.refused[found[2]] = err
            for subject, answer in list(self.pending.values()):
                if subject == found[2] or found[2].startswith(self.inbox):  # answers cannot be received
                    answer.put(err)

    def _answered(self, msg: Message) -> None:
        if msg.subject in self.pending:
            self.pending[msg.subject][1].put(msg)

    def _send(self, data: bytes) -> None:
        with self.lock:
            self.sock.sendall(data)

    def publish(self, subject: str, data: bytes, reply: str = "", headers: Optional[dict[str, str]] = None) -> None:
        if len(data) > self.max_payload:
            raise ValueError(f"the message has {len(data)} bytes; the server accepts at most {self.max_payload}")
        _check(subject)
        head = "".join(f"{k}: {v}\r\n" for k, v in headers.items()) if headers else ""
        head = f"NATS/1.0\r\n{head}\r\n" if head else ""
        sizes = f"{len(head.encode())} {len(head.encode()) + len(data)}" if head else f"{len(data)}"
        self._send(f"{'H' if head else ''}PUB {subject} {reply} {sizes}\r\n{head}".encode() + data + b"\r\n")

    def subscribe(self, subject: str, handle: Callable[[Message], Any], group: str = "") -> Callable[[], None]:
        """Calls handle for each message, in the thread that reads; returns a function that ends it."""
        _check(subject)
        sid = uuid.uuid4().hex
        self.subscriptions[sid] = (subject, group, handle)
        self._send(f"SUB {subject} {group} {sid}\r\n".encode())
        return lambda: self._send(f"UNSUB {sid}\r\n".encode()) if self.subscriptions.pop(sid, None) else None

    def flush(self, timeout: float = 10) -> None:
        """Waits until the server has read what was sent. Raises the error of a refused subscription."""
        pong = threading.Event()
        with self.lock:
            self.pongs.append(pong)
            self.sock.sendall(b"PING\r\n")
        pong.wait(timeout)
        for subject, _, _ in list(self.subscriptions.values()):
            if subject in self.refused:
                raise self.refused[subject]

    def request(self, subject: str, data: bytes, timeout: float, headers: Optional[dict[str, str]] = None) -> Optional[Message]:
        """Returns the answer, or None if none came in time or the connection was lost. A request that
        the server does not permit is a PermissionError."""
        reply = f"{self.inbox}.{uuid.uuid4().hex}"
        answer: queue.Queue[Union[Message, Exception, None]] = queue.Queue()
        self.pending[reply] = (subject, answer)
        try:
            if denied := self.refused.get(self.inbox + ".*"):
                raise denied
            self.publish(subject, data, reply, headers)
            got = answer.get(timeout=timeout)
            if isinstance(got, Exception):
                raise got
            return got
        except PermissionError:
            raise
        except (OSError, queue.Empty):
            return None
        finally:
            self.pending.pop(reply, None)

    def close(self) -> None:
        self.closed = True
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already


def _check(subject: str) -> None:
    """A subject with white space would be read as more than a subject."""
    if not re.fullmatch(r"[^\s\x00]+", subject):
        raise ValueError(f"the subject {subject!r} is empty or contains white space")


def _line(sock: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = sock.recv(1)
        if not byte:
            raise ConnectionError("the server closed the connection")
        line += byte
    return line.strip()
