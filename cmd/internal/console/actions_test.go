package console_test

import (
	"testing"

	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The connection of the page to the bus is lost for a moment, and then the answers to two actions. The page reads again what it may
// have missed. It does not say that it tries an action again, and the user can: a message is one call then, also if the key is
// pressed twice.
func TestActionsWhoseAnswersAreLost(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.ask("s", "asks", textArgs{Text: "plan"})
	b := browse(t, in, 1280, 800)
	b.open("approvals", "plan")
	b.until(`document.getElementById("link").innerText === "live"`)
	b.eval(`import("/static/live.js").then(m => m.live.addEventListener("open", () => { window.again = true; })) && (window.again = false)`)
	if err := in.bus.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	b.until("again") // it may have missed events
	b.eval(`void (window.ids = [], window.lost = 0, window.fetch = (fetch => async (url, options) => {
		if (options.method !== "POST") return fetch(url, options);
		if (url.startsWith("/api/sessions")) {
			const answer = await fetch(url, options);
			ids.push((await answer.clone().json()).id);
			if (lost === 2) return answer;
		}
		lost++;
		throw new TypeError("lost");
	})(window.fetch))`)
	b.eval(`document.querySelector(".approve .yes").click()`)
	b.shows("The worker does not answer")
	b.until(`!document.querySelector(".approve .yes").disabled`)
	b.open("conversations/new", "Write the first message.")
	b.until(`document.activeElement.matches("textarea") && !document.querySelector(".composer select").hidden`)
	enter := `document.querySelector("textarea").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}))`
	b.eval(`(() => { document.querySelector("textarea").value = "Look at the harbour";` + enter + ";" + enter + `})()`)
	b.until(`lost === 2 && !document.querySelector(".composer button").disabled`)
	if tried := b.eval(`document.getElementById("toasts").innerText.includes("tries again")`); tried != "false" {
		t.Error("the page says that it tries again:", b.eval(`document.getElementById("toasts").innerText`))
	}
	b.eval(enter)
	b.until(`ids.length > 1 && location.hash !== "#/conversations/new"`)
	if ids := b.eval(`[ids.length, new Set(ids).size]`); ids != "2,1" {
		t.Error("requests and calls:", ids)
	}
}
