package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// Conversations are found by their words and have titles; a message goes to the chosen model, and
// a conversation is deleted after a question.
func TestConversationsOnThePage(t *testing.T) {
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	end := `{"kind":"end","run":"r","end":{"reason":"done"}}`
	in.say("s1", `{"kind":"user","run":"r","message":{"role":"user","content":[{"type":"text","text":"How is <b>the tide</b>?"}]}}`,
		`{"kind":"assistant","run":"r","model":"big","message":{"role":"assistant","content":[{"type":"text","text":"It rises since noon."}]}}`, end)
	in.say("s2", `{"kind":"user","run":"r","grant":{"model":"small"},"message":{"role":"user","content":[{"type":"text","text":"Move the crane"}]}}`, end)
	in.say("h_child", `{"kind":"user","run":"c","call":{"id":"c","session":"sub/s1/r-t1-0","tool":"subagent"},"message":{"role":"user","content":[{"type":"text","text":"the task of a sub-agent"}]}}`)
	b := browse(t, in, 1280, 800)
	b.open("conversations", "Move the crane")
	if strings.Contains(b.text(), "the task of") {
		t.Error("the conversations of sub-agents are among those of users")
	}
	b.eval(`document.querySelector(".master .check input").click()`)
	b.shows("the task of a sub-agent")
	b.shows("How is <b>the tide</b>?")
	b.search("RISES")
	b.until(`document.querySelectorAll("[data-row]").length === 1`)
	b.shows("It rises since noon.")
	b.press("xyz")
	b.shows("No conversation has these words")
	b.accessible()
	b.open("conversations/s2", "Move the crane") // the model that answered last is chosen
	b.until(`document.querySelector("select[aria-label=Model]").value === "small"`)
	// The last run of the other one names no model, so the worker's first one answers, also if the page knows the
	// models before the conversation.
	b.eval(`(() => {
		const now = window.fetch, models = () => document.querySelector("select[aria-label=Model]").options.length;
		const wait = async () => { while (!models()) await new Promise(r => setTimeout(r, 10)) };
		window.fetch = async (url, ...rest) => { if (String(url).includes("/api/sessions/s1")) await wait(); return now(url, ...rest) };
	})()`)
	b.open("conversations/s1", "agent · big")
	b.until(`document.querySelector("select[aria-label=Model]").value === "big"`)
	b.until(`document.querySelector(".detail h1").textContent.includes("the tide")`)
	if n := b.eval(`document.querySelectorAll(".detail h1 b").length`); n != "0" {
		t.Error("the title became HTML")
	}
	b.until(`document.querySelector("select[aria-label=Model]").options.length === 2`)
	b.eval(`(() => { const s = document.querySelector("select[aria-label=Model]"); s.value = "small"; s.dispatchEvent(new Event("change")); document.querySelector("textarea").focus() })()`)
	b.press("and now?" + kb.Enter)
	bustest.WaitUntil(t, "the message with the model", func() bool {
		_, body := in.request("GET", "/api/calls?session=s1", "")
		return strings.Contains(body, "page-")
	})
	_, calls := in.request("GET", "/api/calls?session=s1", "")
	_, id, _ := strings.Cut(calls, `"id":"page-`)
	if _, body := in.request("GET", "/api/calls/s1/page-"+id[:strings.IndexByte(id, '"')], ""); !strings.Contains(body, `\"model\":\"small\"`) {
		t.Errorf("the call has not the model: %s", body)
	}
	b.eval(`[...document.querySelectorAll("main button")].find(b => b.innerText === "Delete").click()`)
	b.until(`!!document.querySelector("dialog")`)
	b.eval(`document.querySelector("dialog .danger").click()`)
	b.until(`location.hash === "#/conversations"`)
	b.until(`!document.querySelector(".list").innerText.includes("tide")`)
	if _, body := in.request("GET", "/api/sessions/s1", ""); !strings.Contains(body, `"entries":[]`) {
		t.Errorf("it is still stored: %s", body)
	}
}

// A conversation that begins on the page has its buttons at once and keeps the focus, and what its sub-agents
// write is not shown as the words of its agent.
func TestConversationBegunOnThePage(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := startAgents(t, harbourScript)
	b := browse(t, in, 1280, 800)
	b.open("conversations", "No conversation yet")
	b.open("conversations/new", "Write the first message.")
	b.eval(`(() => {
		window.seen = "";
		new MutationObserver(() => { seen += document.querySelector(".log")?.innerText || "" }).observe(document.body, { childList: true, subtree: true, characterData: true });
	})()`)
	b.until(`document.activeElement.matches("textarea")`)
	b.press("Look at the harbour" + kb.Enter)
	b.until(`["Trace", "Delete"].every(name => [...document.querySelectorAll(".title .quiet")].some(e => e.innerText === name))`)
	b.until(`document.activeElement.matches("textarea")`)
	question := in.questions(2)
	b.until(`document.querySelectorAll("[data-busy]").length >= 2`)
	seen := b.eval("seen")
	if strings.Contains(seen, "I release") || strings.Contains(seen, "I read the log") || !strings.Contains(seen, "I send three helpers.") {
		t.Errorf("while the sub-agents work, the page shows %s", seen)
	}
	b.run(chromedp.Reload()) // what began before the page was opened is shown, too
	b.until(`document.querySelectorAll("[data-busy]").length >= 2`)
	for _, plan := range []string{"plan-one", "plan-two"} {
		if _, err := approvals.Answer(t.Context(), in.bus, question(plan), task.Answer{Approve: true, By: "a test"}); err != nil {
			t.Fatal(err)
		}
	}
	b.shows("The harbour is fine.")
	b.until(`document.querySelectorAll("[data-busy]").length === 0`)
}

// Of a turn whose calls end one by one, the others are shown as running: in a run whose ids are hashes in
// subjects, and in one whose begin is not on the page, only if its events name them.
func TestCallsThatRunAreShown(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	user := `{"run":%q,"kind":"user","message":{"role":"user","content":[{"type":"text","text":"Two calls"}]}}`
	calls := `{"run":%q,"kind":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"u1","name":"grep","input":{"berth":9007199254740993}},` +
		`{"type":"tool_use","id":"u2","name":"deploy","input":{}}]}}`
	result := `{"run":%q,"kind":"results","answers":[{"call":"r1-t1-0","tool":"grep","outcome":"completed","for_llm":"found"}]}`
	for session, entries := range map[string][]string{"half": {user, calls, result}, "hash": {user, calls}, "late": {calls}} {
		for _, entry := range entries {
			in.say(session, fmt.Sprintf(entry, map[string]string{"half": "r1", "hash": "r.1", "late": "r1"}[session]))
		}
	}
	b := browse(t, in, 1280, 800)
	busy := `[...document.querySelectorAll("[data-busy]")].map(e => e.innerText.trim()).join()`
	b.open("conversations/half", "Two calls")
	b.until(busy + ` === "deploy"`)
	if got := b.eval(`document.querySelector("[data-call=grep]").textContent.split("9007199254740993").length`); got != "3" { // in the line and in the whole
		t.Errorf("the page changes a number: %s", b.eval(`document.querySelector("[data-call=grep]").textContent`))
	}
	event := `import("/static/live.js").then(m => m.live.dispatchEvent(new CustomEvent("frame", {detail: {connected: true, progress: {%q: {activity: [
		{type: "tool_start", turn: 1, call: "h_1", tool: "deploy"}]}}}})))`
	for _, session := range []string{"hash", "late"} {
		b.open("conversations/"+session, "2 calls")
		if got := b.eval(busy); got != "" {
			t.Errorf("%s: %s", session, got)
		}
		b.eval(fmt.Sprintf(event, session+".run"))
		b.until(busy + ` === "deploy"`)
	}
}

// A person approves the arguments as they will run.
func TestApprovalOfALargeNumber(t *testing.T) {
	needBrowser(t)
	t.Parallel()
	b := browse(t, start(t, console.Config{}), 1280, 800)
	b.open("conversations", "No conversation yet")
	b.eval(`void (window.fetch = (fetch => (url, ...o) => !url.startsWith("/api/approvals") ? fetch(url, ...o) : Promise.resolve(new Response(
		'{"approvals":[{"session":"s","id":"c","tool":"pay","args":{"account":9007199254740993},' +
		'"asked_at":"2026-11-22T04:00:00Z","deadline":"2030-11-22T04:00:00Z"}]}')))(window.fetch))`)
	b.eval(`void (location.hash = "#/approvals")`)
	b.shows("9007199254740993")
}
