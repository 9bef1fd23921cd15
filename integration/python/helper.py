"""Uses every function of stevedore_bus.py. It prints "cut" when the test should cut its
connection, and ends with status 0 only if every answer is as expected."""

import json, os, re, sys, time, traceback
from concurrent.futures import ThreadPoolExecutor

from stevedore_bus import StevedoreError, connect

bus = connect(session="python")
pool = ThreadPoolExecutor()


def rejects(code, f):
    try:
        f()
    except StevedoreError as err:
        assert err.code == code, (err.code, err)
    else:
        raise AssertionError("no error")


def tools_as_the_lists_of_two_apis():
    tools = {t["name"]: t for t in bus.tools()}
    assert tools["grep_knowledge"]["input_schema"]["type"] == "object"
    assert "spawn" not in tools
    assert "spawn" in [t["name"] for t in bus.tools(exclude=())]
    shell = [t for t in bus.tools("openai") if t["function"]["name"] == "shell"][0]
    assert shell["type"] == "function" and shell["function"]["parameters"]["properties"]["command"]


def read_a_big_result_back():
    result = bus.call("shell", {"command": "seq 1 50000"}, id="big")
    assert result["outcome"] == "completed" and result["artifact"]["artifact_id"] == "big", result
    assert re.match(r"Found 2 match.*49998: 49998", bus.grep("big", "^4999[89]$", context_before=1), re.DOTALL)
    assert "40000\n40001" in bus.lines("big", 40_000, 40_001)
    assert "1\n2\n3\n" in bus.page("big", 0, 6)
    again = bus.call("shell", {"command": "seq 1 50000"}, id="big")
    assert again["started_at"] == result["started_at"], "the same id gives the same result"


def failures():
    rejects("not_found", lambda: bus.lines("none", 1))
    rejects("id_mismatch", lambda: bus.call("read_file", {"path": "."}, id="big"))
    rejects("invalid_arguments", lambda: connect(session="a.b"))
    try:
        connect(password="wrong")
    except ConnectionError as err:
        assert "Authorization" in str(err) and "stevedore up --print-env" in str(err), err
    else:
        raise AssertionError("a wrong password is accepted")
    for name in ("none", "read file", "", "x 2\r\n{}\r\nPUB stevedore.call.default.shell.default.inj1 39\r\n{\"args\":{\"command\":\"touch injected\"}}\r\nPUB a"):
        assert bus.call(name)["error"]["code"] == "unknown_tool"
    assert not os.path.exists("injected")
    rejects("invalid_arguments", lambda: bus.offload("t", "text", id="a b"))
    try:
        bus.nc.publish("a b", b"")
    except ValueError as err:
        assert "white space" in str(err), err
    else:
        raise AssertionError("a subject with a space is sent")
    rejects("invalid_arguments", lambda: bus.tools("opnai"))
    assert bus.call("read_file", {"path": "note.txt"}, id="any text, ünïcödé")["for_llm"] == "A note.\n"


def the_connection_is_cut_while_a_call_runs():
    call = pool.submit(bus.call, "shell", {"command": "echo ran >> runs; sleep 1; cat runs"}, id="cut")
    time.sleep(0.3)
    print("cut", flush=True)
    result = call.result()
    assert result["outcome"] == "completed" and result["for_llm"].count("ran") == 1, result


def completions_live_and_missed():
    live = bus.completions()  # from now on, not from the first next()
    print("cut", flush=True)
    assert bus.call("spawn", {"task": "say hi"}, id="child")["outcome"] == "async"
    time.sleep(1.5)
    event = next(live)
    assert event["id"] == "child" and "hi" in event["for_llm"], event
    live.close()
    missed = next(bus.completions(after=0))
    assert missed["sequence"] == event["sequence"], missed


def what_the_server_does_not_permit():
    limited = connect(os.environ["LIMITED_URL"], user="limited", password="limited", session="python")
    began = time.monotonic()
    rejects("permission_denied", lambda: limited.call("shell", {"command": "true"}))
    rejects("permission_denied", lambda: limited.serve("acme.shout", {}, print))
    rejects("permission_denied", lambda: limited.completions())
    assert time.monotonic() - began < 10
    limited.close()


def a_worker_dies_with_the_request():
    """Another worker answers the next request. The result of a call is stored under its id."""
    worker = connect(os.environ["LIMITED_URL"], user="worker", password="worker")
    client = connect(os.environ["LIMITED_URL"], user="worker", password="worker")
    seen = []

    def answer(msg):
        seen.append(json.loads(msg.data)["id"])
        if len(seen) > 1:
            worker.nc.publish(msg.reply, b'{"for_llm":"done"}')

    worker.nc.subscribe("stevedore.rpc.call.>", answer)
    worker.nc.flush()
    assert client.call("shell", {"command": "true"}, timeout=50)["for_llm"] == "done"
    assert len(seen) == 2 and seen[0] == seen[1], seen
    worker.close()
    client.close()


def answers_that_are_cut():
    """The server ends within a message, sends what makes no sense, and then works."""
    import socket, threading

    server = socket.create_server(("127.0.0.1", 0))
    info = b'INFO {"headers":true}\r\n'

    def serve():
        for broken in (b"MSG x 0 100\r\nshort", b"MSG\r\n", b"HMSG x 0 4 1\r\n{}\r\n", None):
            conn, _ = server.accept()
            conn.sendall(info + b"PONG\r\n")
            read = conn.makefile("rb")
            for line in read:
                if line.startswith(b"PUB"):
                    _, subject, reply, size = line.split()
                    read.read(int(size) + 2)
                    conn.sendall(broken or b"MSG %s 0 %d\r\n%s\r\n" % (reply, 14, b'{"text":"yes"}'))
                    if broken:
                        read.close()
                        conn.close()
                        break

    threading.Thread(target=serve, daemon=True).start()
    lame = connect(f"nats://127.0.0.1:{server.getsockname()[1]}")
    assert lame.page("x") == "yes"
    lame.close()
    try:
        lame.call("read_file", {"path": "note.txt"})
    except StevedoreError as err:
        assert err.code == "closed" and "is closed" in str(err), err
    else:
        raise AssertionError("a closed connection calls")


def serve_a_tool():
    def shout(args, call):
        if args["text"] == "":
            raise StevedoreError("invalid_arguments", "there is nothing to shout")
        return "x" * 3_000_000 if args["text"] == "big" else args["text"].upper() + "!"

    bus.serve("acme.shout", {"description": "Shout.", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}, "effect": "idempotent"}, shout)
    result = bus.call("shout", {"text": "hi"})
    assert result["for_llm"] == "HI!", result
    failed = bus.call("shout", {"text": ""})
    assert failed["error"]["code"] == "invalid_arguments" and failed["for_llm"] == "there is nothing to shout", failed
    assert bus.call("shout", {"text": "big"})["is_error"]


failed = False
for step in (tools_as_the_lists_of_two_apis, read_a_big_result_back, failures, the_connection_is_cut_while_a_call_runs, completions_live_and_missed, serve_a_tool, what_the_server_does_not_permit, a_worker_dies_with_the_request, answers_that_are_cut):
    try:
        step()
        print("ok:", step.__name__, flush=True)
    except Exception:
        failed = True
        print("FAILED:", step.__name__, traceback.format_exc(), flush=True)
bus.close()
pool.shutdown(wait=False, cancel_futures=True)
sys.exit(failed)
