"""A client of Stevedore for agents and tools in Python: "pip install stevedore-bus", or copy
this file and tinynats.py.

It needs Python 3.9 and nothing else. The functions are safe for use in several threads.
"""

import base64, hashlib, json, os, queue, re, time, uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, Optional

from tinynats import Connection, Message

# These tools act in Stevedore's own conversations and channels, not in those of your agent.
INTERNAL_TOOLS = ("agent", "subagent", "spawn", "tasks", "cron", "message")


START = 'Start "stevedore up", and run: eval "$(stevedore up --print-env)"'


class StevedoreError(Exception):
    """A rejection with a code of docs/protocol.md, "timeout", "closed", "not_stored" or "permission_denied"."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


def _is_token(name: str) -> bool:
    return re.fullmatch(r"(?!-|[hH]_)[A-Za-z0-9_-]{1,64}", name) is not None


class Stevedore:
    def __init__(self, nc: Connection, session: str, queue: str, prefix: str):
        if not _is_token(session):
            raise StevedoreError("invalid_arguments", f"the session {session!r} is not of the form [A-Za-z0-9_-]{{1,64}}, not beginning with - or h_")
        self.nc, self.session, self.queue, self.prefix = nc, session, queue, prefix

    def ask(self, subject: str, body: dict[str, Any], timeout: float = 60) -> dict[str, Any]:
        """Repeats a request, which is lost if the worker that has it dies: first after 10 s, later each
        minute. A call has an id, so a repetition does not run it again."""
        deadline, wait = time.monotonic() + timeout, 5
        while True:
            wait = min(60, 2 * wait)
            try:
                msg = self.nc.request(f"{self.prefix}.rpc.{subject}", json.dumps(body).encode(), max(0.001, min(wait, deadline - time.monotonic())))
            except PermissionError as err:
                raise StevedoreError("permission_denied", f"{subject}: {err}") from err
            code = msg.headers.get("Nats-Service-Error-Code", "") if msg else ""
            if msg and msg.data and not code:
                return json.loads(msg.data)
            if msg and code and code not in ("stopping", "timeout"):
                raise StevedoreError(code, json.loads(msg.data)["error"]["message"])
            if self.nc.closed:
                raise StevedoreError("closed", f"{subject}: the connection is closed; a call goes on: connect, and call again with the same id")
            if time.monotonic() > deadline - 0.5:
                why = "no worker is running" if msg and msg.headers["Status"] == "503" else code or "no answer"
                raise StevedoreError("timeout", f"{subject}: {why} within {timeout} s; a call goes on: call again with the same id")
            time.sleep(0.5)

    def tools(self, format: str = "anthropic", exclude: tuple[str, ...] = INTERNAL_TOOLS) -> list[dict[str, Any]]:
        """The tools of the workers as the tool list of an API: "anthropic" or "openai"."""
        if format not in ("anthropic", "openai"):
            raise StevedoreError("invalid_arguments", f'the format is {format!r}; want "anthropic" or "openai"')
        found = {t["name"]: t for t in self.ask("tools.ls", {"queue": self.queue})["tools"] if t["name"] not in exclude}
        for name, t in found.items():
            if "parameters" not in t:  # all schemas together do not fit into a message
                t["parameters"] = self.ask("tools.show", {"queue": self.queue, "tool": name})["tools"][0].get("parameters", {"type": "object"})
        if format == "openai":
            return [{"type": "function", "function": {k: t[k] for k in ("name", "description", "parameters") if k in t}} for t in found.values()]
        return [{"name": t["name"], "description": t.get("description", ""), "input_schema": t["parameters"]} for t in found.values()]

    def call(self, tool: str, args: Optional[dict[str, Any]] = None, id: Optional[str] = None, timeout: float = 3600, on_progress: Optional[Callable[[dict[str, Any]], None]] = None, **fields: Any) -> dict[str, Any]:
        """Submits a call and waits for its result. A tool that failed is a result with is_error. The same
        id gives the same result and never a second run. on_progress gets the progress of a call whose id is
        a token, in the thread that reads, so it must not wait for the bus. fields are other fields of a call, such as channel."""
        id = id or str(uuid.uuid4())
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool):  # a model can invent any name
            text = f"there is no tool {tool[:80]!r}"
            return {"id": id, "session": self.session, "tool": tool, "outcome": "failed", "is_error": True, "for_llm": text, "error": {"code": "unknown_tool", "message": text}}
        names = f".{self.session}.{id}" if _is_token(id) else ""
        unsubscribe = self.nc.subscribe(f"{self.prefix}.progress{names}", lambda msg: on_progress(json.loads(msg.data))) if on_progress and names else lambda: None
        try:
            return self.ask(f"call.{self.queue}.{tool}{names}", {**fields, "id": id, "session": self.session, "args": args or {}}, timeout)
        finally:
            unsubscribe()

    def cancel(self, id: str) -> dict[str, Any]:
        return self.ask(f"task.{self.session}.cancel", {"id": id})

    def task(self, id: str) -> dict[str, Any]:
        """The state of a call."""
        return self.ask(f"task.{self.session}.get", {"id": id})

    def offload(self, tool: str, text: str, id: Optional[str] = None, timeout: float = 60, **fields: Any) -> dict[str, Any]:
        """Shortens the result of a tool that your program ran, and returns it. The same id gives the same
        result. fields are other fields of a raw result, such as is_error."""
        id = id or "raw-" + str(uuid.uuid4())
        if not _is_token(id):
            raise StevedoreError("invalid_arguments", f"the id {id!r} is not of the form [A-Za-z0-9_-]{{1,64}}, not beginning with - or h_")
        data = text.encode("utf-8", "replace")
        big = len(data) >= self.nc.max_payload // 4  # escapes make it longer
        body = {**fields, "id": id, "session": self.session, **({"object": self._upload(f"{self.session}/{id}", data)} if big else {"for_llm": text})}
        end = time.monotonic() + timeout
        again = 0.0
        while time.monotonic() < end:
            if time.monotonic() >= again:  # the stream keeps the first one
                self._publish(f"{self.prefix}.raw.{self.queue}.{tool}.{self.session}.{id}", json.dumps(body).encode())
                again = time.monotonic() + 5
            msg = self.nc.request(f"$JS.API.DIRECT.GET.{self.prefix.upper().replace('.', '_')}_RESULTS", json.dumps({"last_by_subj": f"{self.prefix}.result.{self.session}.{id}"}).encode(), 5)
            if msg and msg.data and not msg.headers.get("Status"):
                return json.loads(msg.data)
            time.sleep(0.05)
        raise StevedoreError("timeout", f"no worker shortened the result of {tool} within {timeout} s")

    def _publish(self, subject: str, data: bytes, headers: Optional[dict[str, str]] = None) -> Optional[Message]:
        try:
            return self.nc.request(subject, data, 5, headers)
        except PermissionError as err:
            raise StevedoreError("permission_denied", f"{subject}: {err}") from err

    def _store(self, subject: str, data: bytes, headers: Optional[dict[str, str]] = None) -> None:
        """Publishes until the server says that it is stored, for a minute."""
        headers, end = {**(headers or {}), "Nats-Msg-Id": uuid.uuid4().hex}, time.monotonic() + 60
        while True:
            msg = self._publish(subject, data, headers)
            ack = json.loads(msg.data) if msg and msg.data else {}
            if "seq" in ack:
                return
            error = ack.get("error", {})
            if error.get("code", 500) < 500 or self.nc.closed or time.monotonic() > end:
                raise StevedoreError("not_stored", f"{subject}: {error.get('description', 'no answer')}")
            time.sleep(0.2)

    def _upload(self, name: str, data: bytes) -> str:
        """Stores an object: its chunks, then its description."""
        bucket, nuid = f"{self.prefix.replace('.', '_')}_blobs", uuid.uuid4().hex
        chunks = range(0, len(data), 1 << 17)
        for start in chunks:
            self._store(f"$O.{bucket}.C.{nuid}", data[start : start + (1 << 17)])
        encode = lambda b: base64.urlsafe_b64encode(b).decode()
        about = {"name": name, "bucket": bucket, "nuid": nuid, "size": len(data), "chunks": len(chunks), "digest": "SHA-256=" + encode(hashlib.sha256(data).digest()), "options": {"max_chunk_size": 1 << 17}}
        self._store(f"$O.{bucket}.M.{encode(name.encode())}", json.dumps(about).encode(), {"Nats-Rollup": "sub"})
        return name

    def _read(self, function: str, **body: Any) -> str:
        return self.ask(f"artifact.{self.session}.{function}", {k: v for k, v in body.items() if v is not None})["text"]

    def lines(self, artifact_id: str, start: Optional[int] = None, end: Optional[int] = None, cursor: Optional[str] = None) -> str:
        """Lines of an artifact. A cursor of an earlier answer needs no lines."""
        return self._read("lines", artifact_id=artifact_id, start_line=start, end_line=end, cursor=cursor)

    def grep(self, artifact_id: str, pattern: str, **more: Any) -> str:
        return self._read("grep", artifact_id=artifact_id, pattern=pattern, **more)

    def page(self, artifact_id: str, offset: int = 0, limit: int = 15_000) -> str:
        return self._read("get", artifact_id=artifact_id, offset=offset, limit=limit)

    def artifacts(self, offset: Optional[int] = None) -> str:
        """The list of the artifacts of the session, without the newest offset ones."""
        return self._read("query", offset=offset)

    def jq(self, artifact_id: str, query: str, cursor: Optional[str] = None) -> str:
        return self._read("jq", artifact_id=artifact_id, query=query, cursor=cursor)

    def sql(self, sql: str, artifacts: Optional[list[str]] = None, cursor: Optional[str] = None) -> str:
        """The rows of a query over artifacts as tables."""
        return self._read("sql", sql=sql, artifacts=artifacts, cursor=cursor)

    def completions(self, after: Optional[int] = None) -> Iterator[dict[str, Any]]:
        """The completions of the session's async calls: those stored from now on, or those after a
        sequence (0: all). Each has the field "sequence"."""
        subject = f"completion.{self.session}.*"
        news: queue.Queue[Optional[Message]] = queue.Queue()
        missed = lambda: news.put(None)  # read the stream
        sequence = lambda msg: int(msg.headers.get("Nats-Sequence", 0)) if msg else 0

        def stored(query: dict[str, Any]) -> Optional[Message]:
            while not self.nc.closed:
                msg = self.nc.request(f"$JS.API.DIRECT.GET.{self.prefix.upper().replace('.', '_')}_RESULTS", json.dumps(query).encode(), 5)
                if msg and msg.headers["Status"] in ("", "404"):  # otherwise nobody answers for the stream now
                    return msg
                time.sleep(0.2)
            return None

        def follow(last: int) -> Iterator[dict[str, Any]]:
            try:
                yield {}  # for the call of next below
                missed()
                while not self.nc.closed:
                    msg = news.get() or stored({"seq": last + 1, "next_by_subj": f"{self.prefix}.{subject}"})
                    if msg and sequence(msg) > last:  # otherwise it was read before, or nothing was missed
                        last = sequence(msg)
                        if ".stored." not in msg.subject:
                            missed()
                        yield {**json.loads(msg.data), "sequence": last}
            finally:
                self.nc.on_reconnect.discard(missed)
                unsubscribe()

        unsubscribe = self.nc.subscribe(f"{self.prefix}.stored.{subject}", news.put)
        self.nc.on_reconnect.add(missed)
        try:
            self.nc.flush()
            if after is None:
                after = sequence(stored({"last_by_subj": f"{self.prefix}.{subject}"}))
                if not news.empty():  # it came meanwhile
                    after = min([after] + [sequence(msg) - 1 for msg in list(news.queue) if msg])
        except PermissionError as err:
            unsubscribe()
            raise StevedoreError("permission_denied", f"{subject}: {err}") from err
        events = follow(after)
        next(events)
        return events

    def serve(self, subject: str, definition: dict[str, Any], run: Callable[[dict[str, Any], dict[str, Any]], Any], threads: int = 8) -> None:
        """Serves a tool on a subject, in the background; see --remote-tool. run(args, call) returns a text or
        {"for_llm": ...}. An exception is a failure that the model sees."""
        pool = ThreadPoolExecutor(threads)

        def answer(msg: Message, result: Callable[[], Any]) -> None:
            try:
                value = result()
                self.nc.publish(msg.reply, (value if isinstance(value, str) else json.dumps(value)).encode())
            except Exception as err:
                code = err.code if isinstance(err, StevedoreError) else "tool_failed"
                self.nc.publish(msg.reply, b"", headers={"Nats-Service-Error-Code": code, "Nats-Service-Error": " ".join(str(err).split())[:1000]})

        def started(msg: Message) -> Any:
            call = json.loads(msg.data)
            return run(call.get("args", {}), call)

        self.nc.subscribe(subject + ".definition", lambda msg: answer(msg, lambda: definition), "tools")
        self.nc.subscribe(subject, lambda msg: pool.submit(answer, msg, lambda: started(msg)), "tools")
        try:
            self.nc.flush()
        except PermissionError as err:
            raise StevedoreError("permission_denied", f"{subject}: {err}") from err

    def close(self) -> None:
        self.nc.close()


def connect(url: Optional[str] = None, user: Optional[str] = None, password: Optional[str] = None, session: str = "default", queue: str = "default", prefix: str = "stevedore") -> Stevedore:
    """Connects to a URL, with or without a credential; default NATS_URL, NATS_USER, NATS_PASSWORD."""
    try:
        connection = Connection(url or os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), user, password)
    except ConnectionError as err:
        raise ConnectionError(f"{err}. {START}") from err
    return Stevedore(connection, session, queue, prefix)
