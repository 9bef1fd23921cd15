"""The server does not answer some requests of stevedore_bus.py, and refuses one."""

import json

from stevedore_bus import Stevedore, StevedoreError
from tinynats import Message

event = {"Nats-Sequence": "7", "Status": ""}
none = Message("", "", {"Status": "503"}, b"")  # no responders: the stream has no leader yet


class Answers:
    """A connection with the answers to requests, in their order."""

    closed, max_payload = False, 1024

    def __init__(self, *answers):
        self.answers, self.requests, self.on_reconnect = list(answers), [], set()

    def request(self, subject, data, timeout, headers=None):
        self.requests.append((subject, data, headers))
        return self.answers.pop(0)

    def subscribe(self, subject, handle):
        return lambda: None

    def flush(self):
        pass


def bus(*answers):
    return Stevedore(Answers(*answers), "s", "default", "stevedore")


# What was missed is read when the stream answers.
for after in 0, None:
    stored = Message("stevedore.completion.s.c", "", event, b'{"id":"c"}')
    later = Message("stevedore.completion.s.d", "", {**event, "Nats-Sequence": "8"}, b'{"id":"d"}')
    b = bus(none, stored, *([] if after == 0 else [none, later]))
    got = next(b.completions(after))
    assert got["sequence"] == (7 if after == 0 else 8), got

# A part of an object that the server did not acknowledge is published again, and one that it refuses is an error.
ack = Message("", "", {"Status": ""}, b'{"stream":"OBJ","seq":1}')
result = Message("stevedore.result.s.r", "", {"Status": ""}, b'{"id":"r"}')
b = bus(None, ack, ack, ack, result)
assert b.offload("t", "x" * 1000, id="r") == {"id": "r"}
first, again, about, raw, read = b.nc.requests
assert first == again and first[2]["Nats-Msg-Id"] and first[0].startswith("$O.stevedore_blobs.C."), b.nc.requests
assert about[0].startswith("$O.stevedore_blobs.M.") and about[2]["Nats-Rollup"] == "sub" and about[2]["Nats-Msg-Id"] != first[2]["Nats-Msg-Id"], about
assert json.loads(raw[1])["object"] == "s/r", raw
try:
    bus(Message("", "", {"Status": ""}, b'{"error":{"code":400,"description":"maximum bytes exceeded"}}')).offload("t", "x" * 1000, id="r")
except StevedoreError as err:
    assert err.code == "not_stored" and "maximum bytes" in str(err), err
else:
    raise AssertionError("an object that is not stored")
print("ok")
