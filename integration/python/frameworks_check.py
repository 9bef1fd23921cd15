"""Checks frameworks.py without the frameworks: modules of their names have the classes that it uses.

python3 frameworks_check.py WORKER DIRECTORY [NATS_URL]
"""

import asyncio, dataclasses, json, re, sys, threading, types
from typing import Any, Callable, Optional

WORKER, DIRECTORY, *URL = sys.argv[1:]
ROWS = [{"id": i, "name": f"row {i}", "ok": i != 777} for i in range(3000)]
TEXT = "\n".join(f"line {r['id']}{'' if r['ok'] else ' ERROR disk full'}" for r in ROWS)


def module(name: str, **members: Any) -> None:
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)


@dataclasses.dataclass
class Shape:
    """An object with the attributes that it is made with."""

    def __init__(self, **members: Any):
        vars(self).update(members)

    def model_copy(self, update: dict[str, Any]) -> "Shape":
        return Shape(**{**vars(self), **update})


@dataclasses.dataclass
class FunctionTool:
    name: str
    on_invoke_tool: Callable
    description: str = ""
    params_json_schema: Optional[dict] = None
    strict_json_schema: bool = True
    tool_output_guardrails: Optional[list] = None


Schema = Shape()
Schema.from_schema = lambda run, **more: Shape(run=run, **more)
Schema.from_function = Schema.from_schema
module("pydantic_ai", Tool=Schema)
module("pydantic_ai.capabilities", AbstractCapability=object)
module("pydantic_ai.toolsets", FunctionToolset=lambda tools: Shape(tools=tools))
module("langchain", agents=None)
module("langchain.agents")
module("langchain.agents.middleware", AgentMiddleware=object)
module("langchain_core")
module("langchain_core.tools", StructuredTool=Schema)
Output = Shape()
Output.allow, Output.reject_content = lambda: Shape(behavior="allow"), lambda message: Shape(behavior="reject_content", message=message)
module("agents", FunctionTool=FunctionTool, ToolGuardrailFunctionOutput=Output, ToolOutputGuardrail=lambda **more: Shape(**more))

from frameworks import Results, ResultsError, for_adk, for_langchain, for_openai_agents, for_pydantic_ai


def id_of(reference: Any) -> str:
    found = re.search("artifact '([^']+)'", reference if isinstance(reference, str) else "")
    assert found, f"no reference: {str(reference)[:300]}"
    return found[1]


def exercise(results: Results) -> None:
    assert results.offload("t", "short") == "short"
    value = {"short": True}
    assert results.offload("t", value) is value
    text = "\n".join(line + " " * 40 for line in TEXT.splitlines())
    reference = results.offload("search", text)
    artifact = id_of(reference)
    assert "read_result(id, " in reference and "_knowledge(" not in reference, reference  # the model has no other tool
    part = results.read(id=artifact, lines="1-3000")
    rest = results.read(id=artifact, cursor=re.search('continue with cursor="([^"]+)"', part)[1])
    assert f"Lines {int(re.search('Lines 1-([0-9]+)', part)[1]) + 1}-" in rest, rest[:200]
    assert "line 777 ERROR disk full" in results.read(id=artifact, grep="ERROR")
    assert re.search("line 1 *\n.*line 2 *", results.read(id=artifact, lines="2-3"))
    assert "line 2999" in results.read(id=artifact, lines="-1")
    assert "line 0" in results.read(id=artifact)
    assert artifact in results.read()
    data = "A" * 100_000
    url = "data:image/png;base64," + data
    media = [{"type": "media", "data": data, "mime_type": "image/png"}, {"type": "image_url", "image_url": {"url": url}}, {"type": "input_image", "image_url": url}, {"type": "file", "base64": data, "mime_type": "application/pdf"}]
    assert results.shorten("t", media) == media
    picture = Shape(kind="binary", data=b"A" * 100_000, media_type="image/png")  # BinaryContent of pydantic-ai
    assert all(results.offload("t", whole) is whole for whole in (media, media[2], picture, [picture]))
    assert "artifact '" in results.shorten("t", [{"type": "file", "path": "a", "content": text}])[0]["content"]
    table = id_of(results.offload("a query", [{**r, "note": "x" * 300} for r in ROWS]))  # on a bus, too long for a message
    assert "row 777" in results.read(id=table, jq="[.[] | select(.ok | not) | .name]")
    assert "100" in results.read(id=table, sql=f'SELECT count(*) AS n FROM "{table}" WHERE id < 100')
    assert table in results.read() and table not in results.read(offset=1)
    assert "want a range" in results.run(id=artifact, lines="x")
    assert re.search("not JSON.*read_result", results.run(id=artifact, jq="."), re.S)
    try:
        results.read(id="nosuch", grep="x")
    except Exception as err:
        assert err.code in ("rejected", "not_found"), err
    else:
        raise AssertionError("no error")


options: dict[str, Any] = {"command": WORKER, "data": DIRECTORY + "/data", "session": "check"}
results = Results(**options)
exercise(results)
print("ok: the core, over stdio")

reference = results.offload("search", TEXT)
with Results(**options) as other:  # another process gives the same reference, and reads what the first one stored
    assert other.offload("search", TEXT) == reference
    assert "ERROR disk full" in other.read(id=id_of(reference), lines="778")
    other._child[0].kill()
    other._child[0].wait()
    for _ in range(1000):  # the call that notices may fail; the next one starts the program again
        if "ERROR disk full" in other.run(id=id_of(reference), lines="778"):
            break
    else:
        raise AssertionError("the program is not started again")
try:
    other.read()
    raise AssertionError("closed results can be read")
except ResultsError as err:
    assert err.code == "closed"
print("ok: references that do not change, and a program that dies")

errors: list[Exception] = []
missing = Results(command=DIRECTORY + "/nosuch", on_error=errors.append)
assert missing.offload("t", ROWS) is ROWS and "nosuch" in missing.run()
broken = Results(command=WORKER, args=("--tools", "wrong"), on_error=errors.append)
assert broken.offload("t", TEXT) == TEXT
assert [err.code for err in errors] == ["not_installed", "closed"], errors
cycle: list = []
cycle.append(cycle)
assert broken.offload("t", cycle) is cycle and isinstance(errors[2], ValueError)
print("ok: without the program")


async def shapes() -> None:
    capability = for_pydantic_ai(results)
    after = lambda name, result: capability.after_tool_execute(None, call=Shape(tool_name=name), tool_def=None, args={}, result=result)
    assert id_of(await after("search", ROWS)) and await after("search", 7) == 7 and await after("read_result", TEXT) == TEXT
    assert "line 0" in capability.get_toolset().tools[0].run(id=id_of(reference), lines="1")

    middleware = for_langchain(results)
    message, request = Shape(content=[{"type": "text", "text": TEXT}]), Shape(tool_call={"name": "search"})
    assert id_of(middleware.wrap_tool_call(request, lambda _: message).content[0]["text"])

    async def handler(_: Any) -> Any:
        return Shape(content=TEXT)

    assert id_of((await middleware.awrap_tool_call(request, handler)).content)
    assert (await middleware.awrap_tool_call(Shape(tool_call={"name": "read_result"}), handler)).content == TEXT
    assert middleware.wrap_tool_call(request, lambda _: "a command") == "a command"

    search, hosted, read = for_openai_agents(results, [FunctionTool("search", lambda: None), Shape(name="hosted")])
    check = lambda output: search.tool_output_guardrails[0].guardrail_function(Shape(context=Shape(tool_name="search"), output=output))
    assert id_of((await check(ROWS)).message) and (await check({"a": 1})).behavior == "allow" and hosted.name == "hosted"
    assert "line 0" in await read.on_invoke_tool(None, json.dumps({"id": id_of(reference), "lines": "1"}))

    adk = for_adk(results)
    after = lambda name, response: adk["after_tool_callback"](Shape(name=name), {}, None, response)
    assert id_of((await after("search", {"text": TEXT, "n": 1}))["text"]) and id_of((await after("search", {"rows": ROWS}))["result"])
    assert id_of((await after("search", TEXT))["result"]) and await after("search", {"a": 1}) is None and await after("read_result", {"result": TEXT}) is None
    assert "line 0" in adk["tool"](id=id_of(reference), lines="1")


asyncio.run(shapes())
print("ok: the shapes of four frameworks")
results.close()

if URL:
    from stevedore_bus import connect

    bus = connect(URL[0], session="frameworks-py")
    exercise(Results(bus=bus, min_chars=1000))
    seen: list[Any] = []
    stopped = bus.call("agent", {"prompt": "wait"}, id="long", on_progress=lambda p: seen.append(p) or threading.Thread(target=bus.cancel, args=["long"]).start())
    assert stopped["outcome"] == "cancelled" and seen and bus.task("long")
    bus.close()
    print("ok: over the bus")
