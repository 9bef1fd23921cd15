"""An agent in plain Python whose tools run in Stevedore's workers:

  python3 agent.py "How many lines of the kernel log mention usb?"

It needs no package: urllib sends the requests to a server of chat completions.
"""

import json, os, sys, urllib.request

from stevedore_bus import connect

bus = connect(session=os.environ.get("SESSION", "python-agent"))
tools = bus.tools("openai")
messages = [{"role": "user", "content": sys.argv[1]}]


def turn():
    request = urllib.request.Request(
        os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions",
        json.dumps({"model": "gpt-5", "messages": messages, "tools": tools}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)["choices"][0]["message"]


while True:
    message = turn()
    messages.append(message)
    if not message.get("tool_calls"):
        print(message["content"])
        break
    for call in message["tool_calls"]:
        result = bus.call(call["function"]["name"], json.loads(call["function"]["arguments"] or "{}"), id=call["id"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result["for_llm"]})
bus.close()
