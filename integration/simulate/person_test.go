package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// question is what a person wrote to the agent. Its marker is in every text that it causes.
type question struct {
	channel, kind, marker string
	at                    time.Time
}

// request is what the model is sent for a question.
type request struct {
	texts []string // what the user and the model said, with the notices
}

// person writes in one chat, mostly by day.
type person struct {
	*life
	channel  string
	rnd      *rand.Rand
	answered map[int64]bool // messages of the bot that the person reacted to
	pressed  int
}

func (p *person) live(end time.Time) {
	p.answered = map[int64]bool{}
	for time.Now().Before(end) {
		time.Sleep(time.Duration(1+p.rnd.IntN(90*60)) * time.Second)
		if hour := time.Now().Hour(); hour < 7 {
			time.Sleep(time.Duration(7-hour) * time.Hour)
		}
		p.react()
		for range 1 + p.rnd.IntN(7)/4*2 {
			p.ask([]string{"ask", "ask", "look", "once", "danger", "remind", "tell", "background"}[p.rnd.IntN(8)])
			time.Sleep(time.Duration(p.rnd.IntN(40)) * time.Second)
		}
	}
	for range 3 { // the reminders and questions of the last hours get their answers, too
		time.Sleep(2 * time.Hour)
		p.react()
	}
	time.Sleep(time.Hour)
	p.ask("ask")
}

// ask asks the agent for something of a kind.
func (p *person) ask(kind string) {
	p.mu.Lock()
	q := &question{p.channel, kind, fmt.Sprintf("%s%05d", p.channel[:1]+p.channel[2:3], len(p.asked)), time.Now()}
	p.asked = append(p.asked, q)
	p.mu.Unlock()
	p.networks[p.channel].write(written{chat: p.chats[p.channel], text: kind + " " + q.marker})
}

// react answers the questions of the bot, and says "done" to reminders.
func (p *person) react() {
	n := p.networks[p.channel]
	for _, s := range n.view(p.chats[p.channel]) {
		if p.answered[s.number] {
			continue
		}
		p.answered[s.number] = true
		switch {
		case s.keyboard != "":
			yes := p.rnd.IntN(3) > 0
			if p.pressed++; p.pressed%2 == 0 {
				if yes { // to any question that is open
					p.approve(n.view(p.chats[p.channel])...)
				}
				n.write(written{chat: s.chat, text: map[bool]string{true: "yes", false: "no, later"}[yes]})
				continue
			}
			if yes {
				p.approve(s)
			}
			data := map[bool]string{true: "yes", false: "no"}[yes]
			if p.channel == "telegram" {
				data += ":" + regexp.MustCompile(`yes:([^"]+)"`).FindStringSubmatch(s.keyboard)[1]
			}
			n.write(written{chat: s.chat, button: data, on: &s})
		case strings.HasPrefix(s.text, "reminder "):
			p.ask("done")
		}
	}
}

var mayRun = regexp.MustCompile(`^May asked run for (\S+)\?`)

// approve tells the ledger which calls may run from now on.
func (p *person) approve(questions ...shown) {
	for _, s := range questions {
		if m := mayRun.FindStringSubmatch(s.text); m != nil {
			p.ledger.approve(m[1])
		}
	}
}

// friend is the model. It is as strict as the APIs of models are.
type friend struct {
	life     *life
	process  *process
	requests int
}

var asking = regexp.MustCompile(`^(ask|look|once|danger|remind|tell|background|done) ([a-z]{2}\d{5})$`)

// Complete implements agent.Provider.
func (f *friend) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	f.life.mu.Lock()
	f.requests++
	n := f.requests
	f.life.mu.Unlock()
	if err := tools.Sleep(ctx, time.Duration(1+n%5)*time.Second); err != nil {
		return agent.Response{}, err
	}
	if f.process.link.died() {
		<-ctx.Done()
		return agent.Response{}, ctx.Err()
	}
	if n%13 == 0 {
		return agent.Response{}, &agent.ProviderError{Code: agent.CodeOverloaded, Model: "m", Status: 529, Retryable: true, Message: "overloaded"}
	}
	if wrong := invalid(req.Messages); wrong != "" {
		f.life.ledger.wrong(wrong)
	}
	var kind, marker string
	var seen request
	for _, m := range req.Messages {
		for _, b := range m.Content {
			if b.Type == agent.TypeText {
				seen.texts = append(seen.texts, b.Text)
				if found := asking.FindStringSubmatch(b.Text); found != nil && m.Role == agent.RoleUser {
					kind, marker = found[1], found[2]
				}
			} else if b.Type == agent.TypeToolUse && b.Name != "cron" { // the text of a reminder is said later
				seen.texts = append(seen.texts, string(b.Input))
			}
		}
	}
	f.life.mu.Lock()
	f.life.requests[marker] = seen
	f.life.mu.Unlock()
	cost := 0.01
	if time.Since(f.life.began)/(24*time.Hour) == expensiveDay {
		cost = 0.5
	}
	res := agent.Response{StopReason: agent.StopToolUse, Model: "m", Usage: agent.Usage{Input: 100, Output: 10, Cost: cost}}
	tool, in := useOf(kind, marker, n)
	last := req.Messages[len(req.Messages)-1].Content
	if tool == "" || slices.ContainsFunc(last, func(b agent.Block) bool { return b.Type == agent.TypeToolResult && b.ToolUseID == "use-"+marker }) {
		res.Content, res.StopReason = []agent.Block{agent.Text("answer to " + marker)}, agent.StopEndTurn
		return res, nil
	}
	body, err := json.Marshal(in)
	res.Content = []agent.Block{agent.ToolUse("use-"+marker, tool, body)}
	return res, err
}

// useOf returns the call with which the model answers a question, if it needs one.
func useOf(kind, marker string, n int) (tool string, in any) {
	switch kind {
	case "look":
		return "idempotent", args{MS: n % 3 * 1000, Size: n % 4 / 3 * 60_000}
	case "once":
		return "once", args{MS: n % 3 * 1000}
	case "danger":
		return "asked", args{MS: 10}
	case "remind":
		return "cron", map[string]any{"action": "add", "name": "r-" + marker, "message": "reminder " + marker, "in_seconds": 60 + n%60*100}
	case "tell":
		return "message", map[string]any{"content": "note " + marker}
	case "background":
		return "async", args{MS: n % 10 * 60_000, User: "found " + marker}
	}
	return "", nil
}

// invalid says what an API of models would reject in a request.
func invalid(messages []agent.Message) string {
	var open []string // calls of the message before
	for i, m := range messages {
		var results []string
		if want := []string{agent.RoleUser, agent.RoleAssistant}[i%2]; m.Role != want || len(m.Content) == 0 {
			return fmt.Sprintf("message %d of a request has the role %q and %d blocks", i, m.Role, len(m.Content))
		}
		var uses []string
		for _, b := range m.Content {
			switch b.Type {
			case agent.TypeText:
				if strings.TrimSpace(b.Text) == "" {
					return fmt.Sprintf("message %d of a request has an empty text", i)
				}
			case agent.TypeToolUse:
				uses = append(uses, b.ID)
			case agent.TypeToolResult:
				results = append(results, b.ToolUseID)
			}
		}
		if !slices.Equal(open, results) {
			return fmt.Sprintf("message %d of a request has the results of %q after the calls %q", i, results, open)
		}
		open = uses
	}
	if len(open) > 0 {
		return fmt.Sprintf("a request ends with the calls %q", open)
	}
	return ""
}

// judgeLife holds what the chats show, and what the model was sent, against what was asked.
func (l *life) judgeLife() {
	defer func() {
		if spent := time.Since(l.began) > (expensiveDay+1)*24*time.Hour; spent && l.refused == 0 {
			l.t.Error("the budget of the expensive day refused nothing")
		}
	}()
	for _, wrong := range l.ledger.wrongs {
		l.t.Error(wrong)
	}
	for name, n := range l.networks {
		l.judgeChat(name, n.view(l.chats[name]))
		if len(n.waiting) > 0 && name != "telegram" { // telegram keeps the last one until the next poll confirms it
			l.t.Errorf("%s: %d messages were not handed in", name, len(n.waiting))
		}
	}
}

func (l *life) judgeChat(name string, view []shown) {
	var order, want, refused []string
	times := map[string]int{}
	for i, s := range view {
		if times[s.text]++; times[s.text] == 2 && !l.mayRepeat(name, s, view[:i]) && !repeated.MatchString(s.text) {
			l.t.Errorf("%s shows twice %q", name, s.text)
		}
		if marker, ok := strings.CutPrefix(s.text, "answer to "); ok && times[s.text] == 1 {
			order = append(order, marker)
		}
	}
	budgets := 0
	for _, s := range view {
		if strings.Contains(s.text, "budget") {
			budgets++
		}
	}
	for _, q := range l.asked {
		if q.channel != name {
			continue
		}
		if times["answer to "+q.marker] == 0 {
			refused = append(refused, q.kind+" "+q.marker)
			continue
		}
		want = append(want, q.marker)
		text := map[string]string{"remind": "reminder ", "tell": "note ", "background": "found "}[q.kind]
		if text != "" && times[text+q.marker] == 0 {
			l.t.Errorf("%s: %q was promised and is not shown", name, text+q.marker)
		}
	}
	l.refused += len(refused)
	if len(refused) > budgets {
		l.t.Errorf("%s: no answer to %q, and the budget was spent %d times", name, refused, budgets)
	}
	if !slices.Equal(order, want) {
		l.t.Errorf("%s: the answers are in the order %q, want %q", name, order, want)
	}
	for _, s := range view {
		if repeated.MatchString(s.text) {
			continue
		}
		i := slices.IndexFunc(l.asked, func(q *question) bool {
			return q.channel == name && q.at.After(s.at) && l.requests[q.marker].texts != nil
		})
		if i < 0 {
			continue
		}
		text, _, _ := strings.Cut(s.text, "\n\n✅")
		text, _, _ = strings.Cut(text, "\n\n❌")
		if n := l.requests[l.asked[i].marker].count(text); n != 1 {
			l.t.Errorf("%s: at %s the user saw %q, and the request for %q of %s has it %d times", name, s.at.Format("02 15:04:05"), s.text,
				l.asked[i].kind+" "+l.asked[i].marker, l.asked[i].at.Format("02 15:04:05"), n)
		}
	}
}

// repeated are texts that a chat may get more than once.
var repeated = regexp.MustCompile(`^(✅|❌|This question has)|budget`)

// mayRepeat reports whether telegram, which has no ids of the senders, got a text again because the
// process died before it had noted the answer.
func (l *life) mayRepeat(name string, s shown, before []shown) bool {
	i := slices.IndexFunc(before, func(b shown) bool { return b.text == s.text })
	return name == "telegram" && i >= 0 && slices.ContainsFunc(l.restarts, func(at time.Time) bool { return !at.Before(before[i].at) && at.Before(s.at) })
}

func (r request) count(text string) (n int) {
	for _, have := range r.texts {
		n += strings.Count(have, text)
	}
	return n
}
