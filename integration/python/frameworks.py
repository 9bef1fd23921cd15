"""Keeps long tool results out of the prompts of agent frameworks: copy this file.

It needs Python 3.9, the program stevedore, or a client of stevedore_bus.py, and no package but the
framework. The functions are safe for use in several threads.
"""

import asyncio, dataclasses, hashlib, json, re, subprocess, threading, uuid
from concurrent.futures import Future
from typing import Any, Callable, Optional

NAME = "read_result"
DESCRIPTION = 'Read a stored result by lines (10-40, -20), grep, jq, offset, or sql (SELECT ... FROM "ID" JOIN "ID2")'
PARAMETERS = {"type": "object", "properties": {**{k: {"type": "string"} for k in ("id", "lines", "grep", "jq", "sql", "cursor")}, "offset": {"type": "integer"}}}


class ResultsError(Exception):
    """A failure with a code: "not_installed", "closed", "rejected" (the arguments of read) or "failed"."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


class Results:
    """Stores long results and reads them: with the program command, or with bus, a client of stevedore_bus.py.

    session names the conversation: with the same one, results stay readable after a restart. data is
    the directory of the program, args are more arguments of "stevedore mcp wrap". Results of fewer
    than min_chars characters are not sent. on_error learns why a result could not be stored; the
    model then gets it as it is.
    """

    def __init__(self, command: str = "stevedore", args: tuple[str, ...] = (), session: Optional[str] = None, data: Optional[str] = None, bus: Any = None, min_chars: int = 2000, on_error: Callable[[Exception], None] = lambda err: None):
        self.session = bus.session if bus else session or "sdk-" + uuid.uuid4().hex[:18]
        self.command, self.bus, self.min_chars, self.on_error = command, bus, min_chars, on_error
        self.argv = ["mcp", "wrap", "--session", self.session, *(["--data", data] if data else []), *args, "-"]
        self._lock, self._child, self._closed, self._ids = threading.Lock(), None, False, 0
        self._known: dict[str, str] = {}  # a repeated conversion of a result changes no prompt

    def offload(self, tool: str, value: Any) -> Any:
        """The value if it is short, or else a reference for the model. The same result has the same reference."""
        if _has_media(value):
            return value
        try:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)
        except (ValueError, TypeError, RecursionError) as err:  # a cycle, or too deep
            self.on_error(err)
            return value
        if len(text) < self.min_chars:
            return value
        digest = hashlib.sha256(f"{tool}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
        short = self._known.get(digest)
        if short is None:
            try:
                short = self._over_bus(tool, text) if self.bus else self._call(tool, {"content": [{"type": "text", "text": text}]})
            except Exception as err:
                self.on_error(err)
                return value
            if len(self._known) >= 1000:
                self._known.pop(next(iter(self._known)), None)
            self._known[digest] = short
        return value if short == text else short

    def shorten(self, tool: str, value: Any) -> Any:
        """The value with a reference in place of each long string, so that it keeps its shape."""
        if isinstance(value, str):
            return self.offload(tool, value)
        if isinstance(value, list):
            return [self.shorten(tool, v) for v in value]
        if not isinstance(value, dict) or _is_media(value):
            return value
        return {k: self.shorten(tool, v) for k, v in value.items()}

    def read(self, id: str = "", lines: str = "", grep: str = "", jq: str = "", sql: str = "", offset: int = 0, cursor: str = "") -> str:
        """Reads a stored result; without an id, the list."""
        args = {k: v for k, v in dict(id=id, lines=lines, grep=grep, jq=jq, sql=sql, offset=offset, cursor=cursor).items() if v}
        return self._read_bus(**args) if self.bus else self._call(NAME, args)

    def run(self, **args: Any) -> str:
        """read for the model: the text of an error is the result."""
        try:
            return self.read(**args)
        except Exception as err:
            return _named(str(err)) if self.bus else str(err)

    def close(self) -> None:
        with self._lock:
            self._closed, child, self._child = True, self._child, None
        if child:
            try:
                child[0].stdin.close()
            except OSError:
                pass  # the process ended
            child[0].wait()

    def __enter__(self) -> "Results":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # "stevedore mcp wrap -" speaks MCP and returns what a call gives it.

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        with self._lock:
            if self._closed:
                raise ResultsError("closed", "the results were closed")
            if self._child is None:
                self._child = self._start()
            future = self._ask(self._child, "tools/call", {"name": name, "arguments": arguments})
        result = future.result()
        text = "\n".join(b["text"] for b in result.get("content", []) if b.get("type") == "text")
        if result.get("isError"):
            raise ResultsError("rejected", text)
        return text

    def _start(self) -> tuple[subprocess.Popen, dict[int, Future]]:
        try:
            process = subprocess.Popen([self.command, *self.argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as err:
            raise ResultsError("not_installed", f"start {self.command}: {err}") from err
        child: tuple[subprocess.Popen, dict[int, Future]] = (process, {})
        threading.Thread(target=self._receive, args=child, daemon=True).start()
        self._ask(child, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "stevedore-python", "version": "1"}})
        self._say(child, {"method": "notifications/initialized"})
        return child

    def _ask(self, child: tuple[subprocess.Popen, dict[int, Future]], method: str, params: dict[str, Any]) -> Future:
        self._ids += 1
        child[1][self._ids] = future = Future()
        self._say(child, {"id": self._ids, "method": method, "params": params})
        return future

    def _say(self, child: tuple[subprocess.Popen, dict[int, Future]], message: dict[str, Any]) -> None:
        try:
            child[0].stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            child[0].stdin.flush()
        except OSError:
            pass  # the process ended, and _receive says so

    def _receive(self, process: subprocess.Popen, waiting: dict[int, Future]) -> None:
        for line in process.stdout:
            message = json.loads(line)
            future = waiting.pop(message.get("id"), None)
            if future and "error" in message:
                future.set_exception(ResultsError("failed", message["error"]["message"]))
            elif future:
                future.set_result(message["result"])
        code = process.wait()
        with self._lock:
            if self._child and self._child[0] is process:
                self._child = None
            for future in waiting.values():
                future.set_exception(ResultsError("closed", f"{self.command} ended with exit code {code}"))
            waiting.clear()

    def _over_bus(self, tool: str, text: str) -> str:
        name = re.sub(r"^(?=-|h_)", "r_", re.sub(r"[^A-Za-z0-9_-]", "_", tool)[:40], flags=re.I)
        short = self.bus.offload(name, text, id=f"{name}_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}")["for_llm"]
        return text if short == text else _named(short)

    def _read_bus(self, id: str = "", lines: str = "", grep: str = "", jq: str = "", sql: str = "", offset: int = 0, cursor: Optional[str] = None) -> str:
        if jq:
            return self.bus.jq(id, jq, cursor=cursor)
        if sql:
            return self.bus.sql(sql, artifacts=[id] if id else None, cursor=cursor)
        if grep:
            return self.bus.grep(id, grep, cursor=cursor)
        if cursor:
            return self.bus.lines(id, cursor=cursor)
        if lines:
            found = re.fullmatch(r"\s*(-?\d+)(?:\s*-\s*(-?\d+))?\s*", lines)
            if not found:
                raise ResultsError("rejected", f'lines {lines!r}: want a range such as "10-40", a line such as "10", or "-20" for the last 20 lines')
            start = int(found[1])
            return self.bus.lines(id, start, int(found[2]) if found[2] else start if start > 0 else None)
        return self.bus.page(id, offset) if id else self.bus.artifacts(offset)


def _is_media(part: dict[str, Any]) -> bool:
    """Whether a value is a part with media in a form of a chat API or a framework: a model gets it whole, or not at all."""
    kind = str(part.get("type"))
    return bool(re.match("(input_)?(image|audio|video|media)", kind) or re.match("(input_)?file", kind) and {"mediaType", "mimeType", "mime_type", "file_data"} & part.keys())


def _has_media(value: Any) -> bool:
    """Whether a result is media, as a value or an object of a framework, or a list with some."""
    parts = [v if isinstance(v, dict) else getattr(v, "__dict__", {}) for v in (value if isinstance(value, (list, tuple)) else [value])]
    return any(_is_media(part) or any(isinstance(field, bytes) for field in part.values()) for part in parts)


_PARTS = {"get_knowledge_by_id": "offset", "get_knowledge_by_lines": "lines", "grep_knowledge": "grep", "jq_knowledge": "jq", "sql_knowledge": "sql"}


def _named(text: str) -> str:
    """The text of a worker with the one tool for models in place of those that it names."""
    names = rf"\b({'|'.join(_PARTS)})\b(\(artifact(?:s|_id)(?:, \w+)*\))?"
    text = re.sub(names, lambda m: f"{NAME}(id, {_PARTS[m[1]]})" if m[2] else f"{NAME} with {_PARTS[m[1]]}", text)
    return text.replace("query_artifacts", NAME)


def _plain(value: Any) -> Any:
    """The JSON of a model of pydantic or of a dataclass."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else str(value)


def for_pydantic_ai(results: Results) -> Any:
    """A capability: Agent(model, capabilities=[for_pydantic_ai(results)])."""
    from pydantic_ai import Tool
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.toolsets import FunctionToolset

    class Offloading(AbstractCapability):
        def get_toolset(self) -> Any:
            return FunctionToolset([Tool.from_schema(results.run, name=NAME, description=DESCRIPTION, json_schema=PARAMETERS)])

        async def after_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
            return result if call.tool_name == NAME else await asyncio.to_thread(results.offload, call.tool_name, result)

    return Offloading()


def for_langchain(results: Results) -> Any:
    """A middleware: create_agent(model, tools, middleware=[for_langchain(results)])."""
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.tools import StructuredTool

    def short(request: Any, message: Any) -> Any:
        name, content = request.tool_call["name"], getattr(message, "content", None)
        return message.model_copy(update={"content": results.shorten(name, content)}) if content and name != NAME else message

    class Offloading(AgentMiddleware):
        tools = [StructuredTool.from_function(results.run, name=NAME, description=DESCRIPTION, args_schema=PARAMETERS)]

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return short(request, handler(request))

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await asyncio.to_thread(short, request, await handler(request))

    return Offloading()


def for_openai_agents(results: Results, tools: list[Any]) -> list[Any]:
    """The tools, with a guardrail for the outputs of functions, and read_result: Agent(tools=for_openai_agents(results, tools))."""
    from agents import FunctionTool, ToolGuardrailFunctionOutput, ToolOutputGuardrail

    async def check(data: Any) -> Any:
        short = await asyncio.to_thread(results.offload, data.context.tool_name, data.output)
        return ToolGuardrailFunctionOutput.allow() if short is data.output else ToolGuardrailFunctionOutput.reject_content(short)

    async def read(_context: Any, args: str) -> str:
        return await asyncio.to_thread(lambda: results.run(**json.loads(args or "{}")))

    guardrail = ToolOutputGuardrail(guardrail_function=check, name="stevedore")
    guarded = [dataclasses.replace(t, tool_output_guardrails=[*(t.tool_output_guardrails or []), guardrail]) if isinstance(t, FunctionTool) else t for t in tools]
    return [*guarded, FunctionTool(name=NAME, description=DESCRIPTION, params_json_schema=PARAMETERS, on_invoke_tool=read, strict_json_schema=False)]


def for_adk(results: Results) -> dict[str, Any]:
    """Google ADK: Agent(tools=[..., adk["tool"]], after_tool_callback=adk["after_tool_callback"]) with adk = for_adk(results)."""

    def read_result(id: str = "", lines: str = "", grep: str = "", jq: str = "", sql: str = "", offset: int = 0, cursor: str = "") -> str:
        return results.run(id=id, lines=lines, grep=grep, jq=jq, sql=sql, offset=offset, cursor=cursor)

    read_result.__doc__ = DESCRIPTION

    async def after_tool(tool: Any, args: dict[str, Any], tool_context: Any, tool_response: Any) -> Optional[dict[str, Any]]:
        if tool.name == NAME:
            return None
        short = await asyncio.to_thread(results.shorten if isinstance(tool_response, dict) else results.offload, tool.name, tool_response)
        if isinstance(short, dict):  # many short strings are long together
            short = await asyncio.to_thread(results.offload, tool.name, short)
        if short == tool_response:
            return None
        return short if isinstance(short, dict) else {"result": short}

    return {"tool": read_result, "after_tool_callback": after_tool}
