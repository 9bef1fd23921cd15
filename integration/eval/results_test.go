package eval

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// result is a tool result with questions about it.
type result struct {
	name, text string
	questions  []question
}

// question has one right answer. A policy knows the pattern and the query that a model
// would write for the question; the query is empty if the result is not JSON or a table.
type question struct {
	text    string
	answer  string // must be in what the policy read
	pattern string
	query   string
	after   int  // lines after a match that have the answer
	counts  bool // the answer is a number of matches, so all of the result is needed
}

func find(text, answer, pattern, query string) question {
	return question{text: text, answer: answer, pattern: pattern, query: query}
}

func count(text string, n int, pattern, query string) question {
	return question{text: text, answer: fmt.Sprint(n), pattern: pattern, query: query, counts: true}
}

// generate makes the 15 results, each with 4 questions.
func generate(seed uint64) []result {
	r := rand.New(rand.NewPCG(seed, 1))
	return []result{
		logs(r), accessLog(r), buildLog(r), traces(r), users(r, false), apiPage(r), events(r), orders(r),
		metrics(r), html(r), minified(r), users(r, true), commits(r), listing(r), source(r),
	}
}

var (
	levels = []string{"INFO", "INFO", "INFO", "WARN", "ERROR"}
	cities = []string{"Lisbon", "Osaka", "Quito", "Tallinn", "Windhoek"}
)

func logs(r *rand.Rand) result {
	var b strings.Builder
	errors, special := 0, ""
	for i := range 6_000 {
		level := levels[r.IntN(len(levels))]
		if level == "ERROR" {
			errors++
		}
		line := fmt.Sprintf("2026-03-01T10:%02d:%02d.%03dZ %s request req-%06d took %d ms\n", i/60%60, i%60, i%1000, level, i, r.IntN(900))
		if i == 4_321 {
			line = "2026-03-01T11:12:01.321Z FATAL disk /dev/sdb is full, code E-7731\n"
			special = "E-7731"
		}
		b.WriteString(line)
	}
	took := field(b.String(), "req-003333 took ", " ")
	return result{"application log", b.String(), []question{
		count("How many ERROR lines are there?", errors, " ERROR ", ""),
		find("What is the code of the fatal error?", special, "FATAL", ""),
		find("How long did req-003333 take?", took, "req-003333", ""),
		count("How many requests took 500 to 599 ms?", strings.Count(b.String(), "took 5")-short(b.String()), `took 5\d\d ms`, ""),
	}}
}

// short counts the times "took 5 ms" and "took 5x ms".
func short(text string) (n int) {
	for i := range 100 {
		if i == 5 || i/10 == 5 {
			n += strings.Count(text, fmt.Sprintf("took %d ms", i))
		}
	}
	return n
}

// field returns the text between two texts.
func field(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	value, _, _ := strings.Cut(rest, after)
	return value
}

func accessLog(r *rand.Rand) result {
	var b strings.Builder
	notFound := 0
	for i := range 5_000 {
		status := []int{200, 200, 200, 304, 404, 500}[r.IntN(6)]
		if status == 404 {
			notFound++
		}
		fmt.Fprintf(&b, "10.0.%d.%d - - [01/Mar/2026:10:00:%02d +0000] \"GET /items/%d HTTP/1.1\" %d %d\n", r.IntN(256), i%256, i%60, i, status, 100+r.IntN(9_000))
	}
	return result{"access log", b.String(), []question{
		count("How many requests got 404?", notFound, `" 404 `, ""),
		find("Which status did /items/3210 get?", field(b.String(), "/items/3210 HTTP/1.1\" ", " "), "/items/3210 ", ""),
		find("How many bytes had the answer for /items/4999?", field(field(b.String(), "/items/4999 HTTP/1.1\"", "\n")+"|", "", "|")[5:], "/items/4999 ", ""),
		count("How many requests were there for items 100 to 199?", 100, `/items/1\d\d `, ""),
	}}
}

func buildLog(r *rand.Rand) result {
	var b strings.Builder
	failed := 0
	for i := range 3_000 {
		if r.IntN(40) == 0 {
			failed++
			fmt.Fprintf(&b, "\x1b[31mFAIL\x1b[0m pkg/module%d/handler_test.go:%d: got %d, want %d\n", i, 10+i%90, i, i+1)
			continue
		}
		fmt.Fprintf(&b, "\x1b[32mok\x1b[0m   pkg/module%d\t%d.%03ds\tcoverage: %d.%d%% of statements\n", i, r.IntN(9), r.IntN(1000), r.IntN(100), r.IntN(10))
	}
	b.WriteString("\x1b[1mexit status 2 after 184 seconds\x1b[0m\n")
	coverage := field(field(b.String(), "pkg/module1501\t", "\n"), "coverage: ", "%")
	q := find("What coverage has module1501?", coverage, `module1501\t`, "")
	if coverage == "" {
		q = find("What did the test of module1501 want?", "1502", `module1501/`, "")
	}
	return result{"build log with colors", b.String(), []question{
		count("How many tests failed?", failed, "FAIL", ""), q,
		find("How long did the build take?", "184 seconds", "exit status", ""),
		count("How many packages are ok?", 3_000-failed, `ok.{0,8}pkg/`, ""),
	}}
}

func traces(r *rand.Rand) result {
	var b strings.Builder
	kinds := []string{"NullPointerException", "TimeoutException", "IllegalStateException"}
	n := map[string]int{}
	for i := range 400 {
		kind := kinds[r.IntN(3)]
		n[kind]++
		fmt.Fprintf(&b, "Exception in thread \"worker-%d\" java.lang.%s: job %d failed\n", i%16, kind, 7_000+i)
		for k := range 8 {
			fmt.Fprintf(&b, "\tat com.example.service.Layer%d.call(Layer%d.java:%d)\n", k, k, 10+r.IntN(500))
		}
	}
	b.WriteString("Caused by: java.sql.SQLException: deadlock on table invoices_2026\n")
	return result{"stack traces", b.String(), []question{
		count("How many TimeoutExceptions are there?", n["TimeoutException"], "TimeoutException", ""),
		find("On which table was the deadlock?", "invoices_2026", "deadlock", ""),
		find("Which exception ended job 7222?", field(b.String()[strings.LastIndex(b.String()[:strings.Index(b.String(), "job 7222")], "java.lang."):], "java.lang.", ":"), "job 7222 ", ""),
		count("How many jobs failed?", 400, `job \d+ failed`, ""),
	}}
}

type user struct {
	ID    int      `json:"id"`
	Name  string   `json:"name"`
	City  string   `json:"city"`
	Score int      `json:"score"`
	Tags  []string `json:"tags"`
}

func makeUsers(r *rand.Rand, n int) (all []user) {
	for i := range n {
		all = append(all, user{i, fmt.Sprintf("user-%04d", i), cities[r.IntN(5)], r.IntN(100_000), []string{"a", fmt.Sprint("t", i%9)}})
	}
	return all
}

func users(r *rand.Rand, pretty bool) result {
	all := makeUsers(r, 2_500)
	var data []byte
	name := "JSON array, one line"
	if data, _ = json.Marshal(all); pretty {
		data, _ = json.MarshalIndent(all, "", "  ")
		name = "JSON array, indented"
	}
	inQuito, most := 0, all[0]
	for _, u := range all {
		if u.City == "Quito" {
			inQuito++
		}
		if u.Score > most.Score {
			most = u
		}
	}
	space := strings.Repeat(" ", map[bool]int{true: 1}[pretty])
	return result{name, string(data), []question{
		count("How many users live in Quito?", inQuito, `"city":`+space+`"Quito"`, `[.[] | select(.city == "Quito")] | length`),
		{text: "What is the score of user-2222?", answer: fmt.Sprint(all[2222].Score), pattern: "user-2222", query: `.[] | select(.name == "user-2222") | .score`, after: 2},
		find("Who has the highest score?", most.Name, `"score":`, "max_by(.score) | .name"),
		count("How many users are there?", 2_500, `"id":`, "length"),
	}}
}

func apiPage(r *rand.Rand) result {
	page := map[string]any{"meta": map[string]any{"total": 91_234, "next": "/v1/users?cursor=zx81", "took_ms": 17}, "items": makeUsers(r, 1_800), "warnings": []string{"field score is deprecated"}}
	data, _ := json.Marshal(page)
	item := page["items"].([]user)[900]
	return result{"API page", string(data), []question{
		find("What is the cursor of the next page?", "zx81", "cursor", ".meta.next"),
		find("How many users exist in total?", "91234", "total", ".meta.total"),
		find("In which city lives user 900?", item.City, `"id":900,`, ".items[900].city"),
		find("What is deprecated?", "field score is deprecated", "deprecated", ".warnings"),
	}}
}

func events(r *rand.Rand) result {
	var b strings.Builder
	logins := 0
	for i := range 3_000 {
		kind := []string{"login", "logout", "purchase"}[r.IntN(3)]
		if kind == "login" {
			logins++
		}
		fmt.Fprintf(&b, `{"seq":%d,"kind":"%s","user":"u%d","amount":%d}`+"\n", i, kind, r.IntN(500), r.IntN(10_000))
	}
	return result{"NDJSON events", b.String(), []question{
		count("How many logins are there?", logins, `"kind":"login"`, `[.[] | select(.kind == "login")] | length`),
		find("Which user has event 2718?", field(b.String()[strings.Index(b.String(), `"seq":2718,`):], `"user":"`, `"`), `"seq":2718,`, `select(.seq == 2718) | .user`),
		find("What is the amount of event 1000?", field(b.String()[strings.Index(b.String(), `"seq":1000,`):], `"amount":`, "}"), `"seq":1000,`, `.[1000].amount`),
		count("How many events are there?", 3_000, `"seq"`, `[., inputs] | length`),
	}}
}

func orders(r *rand.Rand) result {
	var b strings.Builder
	b.WriteString("order,customer,city,amount,note\n")
	osaka, sum := 0, 0
	for i := range 4_000 {
		city, amount := cities[r.IntN(5)], r.IntN(1_000)
		if city == "Osaka" {
			osaka++
		}
		sum += amount
		fmt.Fprintf(&b, "%d,\"Customer, %d\",%s,%d,no note\n", 50_000+i, r.IntN(900), city, amount)
	}
	return result{"CSV of orders", b.String(), []question{
		count("How many orders go to Osaka?", osaka, ",Osaka,", `map(select(.city == "Osaka")) | length`),
		find("What is the amount of order 52345?", field(field(b.String(), "\n52345,\"Customer, ", "\n"), ",", ",no"), "^52345,", `.[] | select(.order == "52345") | .amount`),
		{text: "What is the sum of all amounts?", answer: fmt.Sprint(sum), pattern: "sum", query: "map(.amount | tonumber) | add", counts: true},
		count("How many orders are there?", 4_000, `no note$`, "length"),
	}}
}

func metrics(r *rand.Rand) result {
	var b strings.Builder
	b.WriteString("host\tmetric\tvalue\n")
	for i := range 6_000 {
		fmt.Fprintf(&b, "host%d\t%s\t%d\n", i/4, []string{"cpu", "memory", "disk", "net"}[i%4], r.IntN(100_000))
	}
	value := field(b.String(), "host1234\tdisk\t", "\n")
	return result{"TSV of metrics", b.String(), []question{
		find("What is the disk value of host1234?", value, `^host1234\tdisk`, `.[] | select(.host == "host1234" and .metric == "disk") | .value`),
		count("How many cpu values are there?", 1_500, `\tcpu\t`, `map(select(.metric == "cpu")) | length`),
		find("Which metric is in the last row?", "net", `^host1499\t`, ".[-1].metric"),
		count("How many hosts are there?", 1_500, `\tnet\t`, "map(.host) | unique | length"),
	}}
}

func html(r *rand.Rand) result {
	var b strings.Builder
	b.WriteString("<html><head><title>Catalogue</title></head><body>")
	for i := range 1_500 {
		fmt.Fprintf(&b, `<div class="card" id="p%d"><h2>Product %d</h2><span class="price">%d.99</span><a href="/buy/%d?ref=x">Buy</a></div>`, i, i, r.IntN(500), i)
	}
	b.WriteString(`<footer>Contact: shop@example.net</footer></body></html>`)
	return result{"HTML page, one line", b.String(), []question{
		count("How many products are there?", 1_500, `class="card"`, ""),
		find("What does product 1111 cost?", field(b.String()[strings.Index(b.String(), "Product 1111<"):], `price">`, "<"), "Product 1111<", ""),
		find("What is the contact address?", "shop@example.net", "Contact", ""),
		find("Where can product 42 be bought?", "/buy/42", `/buy/42\?`, ""),
	}}
}

func minified(r *rand.Rand) result {
	var b strings.Builder
	for i := range 3_000 {
		fmt.Fprintf(&b, "function f%d(a,b){return a*%d+b}var v%d=f%d(1,2);", i, r.IntN(1000), i, i)
	}
	b.WriteString(`var VERSION="4.17.3-beta";`)
	return result{"minified code", b.String(), []question{
		find("Which version is it?", "4.17.3-beta", "VERSION", ""),
		count("How many functions are there?", 3_000, `function f\d+`, ""),
		find("What does f2000 multiply by?", field(b.String(), "function f2000(a,b){return a*", "+"), `function f2000\(`, ""),
		find("How is v77 computed?", "f77(1,2)", "v77=", ""),
	}}
}

func commits(r *rand.Rand) result {
	var b strings.Builder
	fixes := 0
	for i := range 1_500 {
		verb := []string{"Add", "Fix", "Remove"}[r.IntN(3)]
		if verb == "Fix" {
			fixes++
		}
		fmt.Fprintf(&b, "commit %016x%08x\nAuthor: dev%d <dev%d@example.org>\nDate:   day %d\n\n    %s feature number %d\n\n", r.Uint64(), i, i%12, i%12, i, verb, i)
	}
	verb := field(field(b.String()[strings.Index(b.String(), "Date:   day 700\n"):], "\n\n    ", "\n")+"|", "", " ")
	return result{"git log", b.String(), []question{
		count("How many commits fix something?", fixes, "^    Fix ", ""),
		find("What did the commit of day 700 do?", verb+" feature number 700", "feature number 700$", ""),
		count("How many commits has dev7?", 125, "^Author: dev7 ", ""),
		find("Which author wrote feature number 1499?", "dev11", "Date:   day 1499", ""),
	}}
}

func listing(r *rand.Rand) result {
	var b strings.Builder
	for i := range 4_000 {
		fmt.Fprintf(&b, "-rw-r--r-- 1 app app %9d Mar  1 10:%02d ./data/part-%05d.bin\n", r.IntN(1_000_000_000), i%60, i)
	}
	b.WriteString("-rw------- 1 root root       412 Feb  2 03:04 ./etc/secret.key\n")
	size := strings.TrimSpace(field(b.String()[strings.Index(b.String(), "part-02999")-40:], "app app", "Mar"))
	return result{"directory listing", b.String(), []question{
		find("How large is part-02999.bin?", size, "part-02999", ""),
		find("Who owns the secret key?", "root root", "secret", ""),
		count("How many .bin files are there?", 4_000, `\.bin$`, ""),
		find("When was the key written?", "Feb  2 03:04", `\.key`, ""),
	}}
}

func source(r *rand.Rand) result {
	var b strings.Builder
	b.WriteString("package generated\r\n\r\nimport \"errors\"\r\n\r\n")
	for i := range 1_500 {
		fmt.Fprintf(&b, "// Handler%d handles requests of kind %d.\r\nfunc Handler%d(n int) (int, error) {\r\n\tif n < 0 {\r\n\t\treturn 0, errors.New(\"negative\")\r\n\t}\r\n\treturn n + %d, nil\r\n}\r\n\r\n", i, i, i, r.IntN(10_000))
	}
	return result{"source code with CRLF", b.String(), []question{
		count("How many handlers are there?", 1_500, "^func Handler", ""),
		{text: "What does Handler777 add?", answer: field(b.String()[strings.Index(b.String(), "func Handler777("):], "return n + ", ","), pattern: `func Handler777\(`, after: 5},
		count("How many functions return an error of a negative number?", 1_500, "negative", ""),
		find("Which package is it?", "package generated", "^package", ""),
	}}
}
