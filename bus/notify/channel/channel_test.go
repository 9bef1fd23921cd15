package channel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConsoleIsHarmless(t *testing.T) {
	var out bytes.Buffer
	c := NewConsole(&out)
	n := Notification{Tool: "sh\x1b[2Jell", Session: "s\n1", Note: "n\u202eote", IsError: true,
		Text: "\x1b]0;title\x07red\r\nnext\rover\u202egnp\u200b\u2066\u00ad\ufeff\u0085 \xff\U000e0041 tab\tümlaut 漢字\n\n"}
	if err := c.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	want := `» failed: sh\x1b[2Jell in session s\n1 (n\u202eote)` + "\n" +
		`  \x1b]0;title\x07red` + "\n" + `  next\x0dover\u202egnp\u200b\u2066\xad\ufeff\x85 \xff\U000e0041 tab` + "\tümlaut 漢字\n"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestFileAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "out.jsonl")
	channel, err := Open("file:"+path, Env{})
	if err != nil {
		t.Fatal(err)
	}
	send := func(text string) {
		t.Helper()
		if err := channel.Send(t.Context(), Notification{ID: "i", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	send("one\nline")
	// A crash left an incomplete line.
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"text":"ha`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	send("two")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("file: %q", data)
	}
	for i, want := range map[int]string{0: "one\nline", 2: "two"} {
		var n Notification
		if err := json.Unmarshal([]byte(lines[i]), &n); err != nil || n.Text != want {
			t.Errorf("line %d: %q, %v", i, lines[i], err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestFileAsText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.txt")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	if err := NewFile(path).Send(t.Context(), Notification{Text: "a\x1bb\n[2026-01-02 03:04:05] » forged", Tool: "shell", At: at}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if want := "[2026-01-02 03:04:05] » shell\n" + `  a\x1bb` + "\n  [2026-01-02 03:04:05] » forged\n\n"; err != nil || string(data) != want {
		t.Errorf("got %q, %v, want %q", data, err, want)
	}
}

func TestFileFailureIsAnError(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	if err := NewFile("/dev/full").Send(t.Context(), Notification{Text: "a"}); err == nil {
		t.Error("no error from a full device")
	}
}

// Each kind accepts exactly the settings in its help, a setting with a * only as a
// secret, and it requires the settings without brackets.
func TestKindsMatchTheirHelp(t *testing.T) {
	env := Env{ReadFile: func(string) ([]byte, error) { return []byte("x"), nil }}
	word := regexp.MustCompile(`(\[?)\b([a-z]+)(\*?)(?: \([^)]*\))?`)
	all := map[string]bool{}                     // settings of any kind
	settings := map[string]map[string][]string{} // by kind and name: brackets, name, star
	for _, k := range kinds {
		if k.settings == pathAlone || k.settings == "" {
			continue
		}
		settings[k.name] = map[string][]string{}
		for _, m := range word.FindAllStringSubmatch(k.settings, -1) {
			all[m[2]], settings[k.name][m[2]] = true, m
		}
	}
	for kind, has := range settings {
		for name := range all {
			var without, spec []string
			for other := range has {
				if other != name {
					without = append(without, other+"=file:x")
				}
			}
			spec = append(slices.Clone(without), name+"=x")
			_, err := Open(kind+":"+strings.Join(spec, ","), env)
			said := fmt.Sprint(err)
			if unknown := strings.Contains(said, "unknown settings: "+name); unknown == (has[name] != nil) {
				t.Errorf("%s with %s: %s", kind, name, said)
			}
			if secret := strings.Contains(said, name+" is a secret"); secret != (has[name] != nil && has[name][3] != "") {
				t.Errorf("%s with %s: %s", kind, name, said)
			}
			if len(without) == 0 {
				continue
			}
			_, err = Open(kind+":"+strings.Join(without, ","), env)
			if required := strings.Contains(fmt.Sprint(err), "the setting "+name+" is required"); required != (has[name] != nil && has[name][1] == "") {
				t.Errorf("%s without %s: %v", kind, name, err)
			}
		}
	}
}

func TestOpen(t *testing.T) {
	env := Env{
		Stdout:    io.Discard,
		LookupEnv: func(name string) (string, bool) { return "1234567:the-secret", name == "TOKEN" },
		ReadFile: func(name string) ([]byte, error) {
			if name == "/run/url" {
				return []byte("https://hooks.example.com/the-secret\n"), nil
			}
			return nil, fs.ErrNotExist
		},
	}
	for _, spec := range []string{
		"console", "file:a,b=c:d", "slack:url=file:/run/url", "discord:url=file:/run/url", "mattermost:url=file:/run/url",
		"ntfy:url=https://ntfy.sh/topic", "gotify:url=https://g.example.com,token=env:TOKEN", "http:url=https://x.example.com/a=b",
		"webhook:url=https://x.example.com/in", "telegram:token=env:TOKEN,chat=42",
		"bridge:", "bridge:chat=C1,allow=C2;C3,style=slack",
		"email:host=mail.example.com,user=me,password=env:TOKEN,from=a@example.com,to=b@example.com;c@example.com,tls=ssl",
	} {
		if c, err := Open(spec, env); err != nil || c == nil {
			t.Errorf("Open(%q): %v", spec, err)
		}
	}
	for spec, want := range map[string]string{
		"":                                     "no such kind",
		"file:":                                "want a path",
		"consol":                               "no such kind",
		"slack":                                "the setting url is required",
		"bridge:style=slick":                   "style: want one of discord, mattermost, slack",
		"bridge:token=env:TOKEN":               "unknown settings: token",
		"slack:token=env:TOKEN":                "unknown settings: token",
		"slack:url=https://x/the-secret":       "url is a secret",
		"slack:https://x/the-secret":           "want NAME=VALUE,NAME=VALUE after the colon; known are url",
		"telegram:token=123:the-secret":        "token is a secret",
		"telegram:token=env:NONE":              `"NONE" is not set`,
		"slack:url=file:/none":                 "does not exist",
		"slack:url=env:TOKEN":                  "want a URL of the form",
		"ntfy:url=https://x.example.com,tok=1": "unknown settings: tok; known are url, token",
		"console:color=never":                  "unknown settings: color; it has none",
		"webhook:ulr=https://x,the-secret-that-was-cut=1":            "unknown settings: (an invalid name), ulr; known are url, secret",
		"webhook:url=https://x.example.com,secret=env:TOKEN":         "whsec_",
		"gotify:url=https://x,token=the-secret":                      "token is a secret",
		"http:url=https://x,template=/none":                          "does not exist",
		"email:host=x,from=a@example.com,to=nobody":                  "not an address",
		"email:host=x,from=a@example.com,to=b@example.com,tls=maybe": "want starttls",
	} {
		if c, err := Open(spec, env); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "the-secret") {
			t.Errorf("Open(%q) = %v, %v, want %q", spec, c, err, want)
		}
	}
	if !strings.Contains(KindsHelp(), "\n  ntfy        url, [token*]\n") {
		t.Errorf("help is\n%s", KindsHelp())
	}
	if _, err := Open("console", Env{}); err == nil {
		t.Error("a console without a terminal")
	}
}
