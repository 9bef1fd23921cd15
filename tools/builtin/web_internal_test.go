package builtin

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestIsPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"8.8.8.8": true, "93.184.216.34": true, "1.1.1.1": true, "100.63.255.255": true, "100.128.0.0": true, "172.15.0.1": true, "172.32.0.1": true, "192.0.1.1": true,
		"198.17.0.1": true, "198.20.0.1": true, "223.255.255.255": true, "168.63.129.17": true,
		"2606:4700::1111": true, "2001:4860:4860::8888": true, "2a00::1": true, "2001:200::1": true, "64:ff9b::808:808": true, "::ffff:8.8.8.8": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "100.64.0.1": false, "100.100.100.200": false, "127.0.0.1": false, "127.255.255.255": false,
		"168.63.129.16": false, "169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false, "192.0.0.1": false, "192.0.0.192": false, "192.0.2.1": false,
		"192.31.196.1": false, "192.52.193.1": false, "192.88.99.1": false, "192.168.1.1": false, "192.175.48.1": false, "198.18.0.1": false, "198.19.255.255": false,
		"198.51.100.1": false, "203.0.113.1": false, "224.0.0.1": false, "239.255.255.255": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::127.0.0.1": false, "::8.8.8.8": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:0:127.0.0.1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::808:808": false, "100::1": false, "100:0:0:1::1": false,
		"2001::1": false, "2001:0:7f00:1::": false, "2001:2::1": false, "2001:10::1": false, "2001:20::1": false, "2001:db8::1": false, "2002:7f00:1::": false, "2002:808:808::": false,
		"2620:4f:8000::1": false, "3fff::1": false, "4000::1": false, "5f00::1": false, "fc00::1": false, "fd00:ec2::254": false, "fe80::1": false, "fe80::1%lo": false, "2a00::1%lo": false,
		"fec0::1": false, "ff02::1": false,
		"2a00::5efe:7f00:1": false, "2a00::200:5efe:a00:1": false, "2a00::5eff:7f00:1": true,
	} {
		if got := isPublic(netip.MustParseAddr(addr)); got != want {
			t.Errorf("isPublic(%s) = %v, want %v", addr, got, want)
		}
	}
	if isPublic(netip.Addr{}) {
		t.Error("the zero address is public")
	}
}

func TestGuard(t *testing.T) {
	check := guard([]netip.Prefix{netip.MustParsePrefix("192.168.1.0/24")})
	for _, tt := range []struct {
		network, address string
		ok               bool
	}{
		{"tcp4", "8.8.8.8:80", true}, {"tcp6", "[2606:4700::1]:443", true}, {"tcp4", "192.168.1.7:80", true}, {"tcp6", "[::ffff:192.168.1.7]:80", true},
		{"tcp4", "192.168.2.7:80", false}, {"udp4", "8.8.8.8:80", false}, {"unix", "/run/docker.sock", false}, {"tcp4", "example.com:80", false}, {"tcp4", "", false},
	} {
		if err := check(t.Context(), tt.network, tt.address, nil); (err == nil) != tt.ok {
			t.Errorf("%s %s: %v", tt.network, tt.address, err)
		}
	}
}

// All parsers read an accepted URL in the same way, and errors do not contain a
// password.
func FuzzURLGuard(f *testing.F) {
	for _, seed := range []string{
		"https://example.com/a?b#c", "http://user:secret@example.com/", "http://１２７.０.０.１/", "http://[::ffff:127.0.0.1%25x]:80/", "HTTP://EXAMPLE.com:80", "file:///etc/passwd",
		"http://a\\@b/", "http:/\\/x", "http://日本.jp/ü", "http://%31%32%37.0.0.1/", "http://[::1]", "//x", "http:x", "http://a:b", "http://xn--/", "http://a..b/", "http://localhost%00.com/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := parseURL(raw)
		if err != nil {
			return
		}
		again, err := url.Parse(u.String())
		if err != nil {
			t.Fatalf("%q became %q, which cannot be read: %v", raw, u, err)
		}
		if again.Scheme != u.Scheme || again.Hostname() != u.Hostname() || again.Port() != u.Port() || again.User != nil {
			t.Errorf("%q became %q, which reads as host %q", raw, u, again.Host)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Hostname() == "" {
			t.Errorf("%q passed as %q", raw, u)
		}
		for _, c := range u.Host {
			if c <= ' ' || c >= utf8.RuneSelf || strings.ContainsRune(`/\@?#%`, c) {
				t.Errorf("%q passed with the host %q", raw, u.Host)
			}
		}
		if err := checkURL(again); err != nil {
			t.Errorf("%q passed, %q does not: %v", raw, u, err)
		}
		if shown := showURL(u); strings.ContainsAny(shown, "\r\n\x1b") {
			t.Errorf("shown as %q", shown)
		}
	})
}

func toMarkdown(t testing.TB, page string) string {
	t.Helper()
	out, err := convertPage(markdownRequest{URL: "https://example.com/dir/page"}, strings.NewReader(page))
	if err != nil {
		t.Fatalf("%.100q: %v", page, err)
	}
	return out
}

func TestMarkdown(t *testing.T) {
	for page, want := range map[string]string{
		"":                                       "",
		"plain text":                             "plain text",
		"<p>a<p>b":                               "a\n\nb",
		"<div>a<div>b</div>c</div>":              "a\n\nb\n\nc",
		"<p>a <span>b</span><b>c</b> d":          "a b**c** d",
		"<b>a<i>b</b>c</i>":                      "**a*b*c**",
		"<p><b>a<p>b":                            "**a**\n\n**b**",
		"<h1>a</h1>b<h3>c <a href=/x>d</a></h3>": "# a\n\nb\n\n### c [d](https://example.com/x)",
		"<a href='/x'><div><h2>Title</h2><p>text</div></a>":                                                     "[**Title**  \n\\\ntext](https://example.com/x)",
		"<base href=/other/><a href=x>y</a>":                                                                    "[y](https://example.com/other/x)",
		"<a href='javascript:evil()'>a</a> <a href='data:x,y'>b</a> <a name=x>c</a> <a href=mailto:a@b.c>d</a>": "a b c [d](mailto:a@b.c)",
		"<img src=i.png alt=pic> <img src='data:image/png;base64,AAAA' alt=inline> <img src='data:x,'>":         "![pic](https://example.com/dir/i.png) inline",
		"<ul><li>a<li>b<ul><li>c</ul><li>d</ul>e":                                                               "- a\n- b\n  \n  - c\n- d\n\ne",
		"<ol><li>a</li><li><p>b</p><p>c</p></li></ol>":                                                          "1. a\n2. b\n   \n   c",
		"<ul>a<p>b</ul><li>c":                                          "- a\n  \n  b\n\nc",
		"<blockquote>a<p>b</blockquote>c":                              "> a\n> \n> b\n\nc",
		"<pre><code class='x language-go'>a &lt; b\n\tc</code></pre>d": "```go\na < b\n\tc\n```\n\nd",
		"<pre>a<b>b</b>\n  c<div>d</div></pre>":                        "```\nab\n  c\nd\n```",
		"<p>use <code>x*y</code></p>":                                  "use `x*y`",
		"<table><tr><th>a<th>b<tr><td>c<td><p>d<p>e</table>f":          "| a | b |\n|---|---|\n| c | d<br /><br /><br /><br />e |\n\nf",
		"<table><td>a</table>":                                         "| a |\n|---|",
		"<table>a<tr>b</table>":                                        "ab",
		"<table><tr><td><table><tr><td>a</table></table>":              "| a |\n|---|",
		"<table><tr><td colspan=100000000 rowspan=65534>a</table>":     "| a |\n|---|",
		"a<br>b<hr>c": "a  \nb\n\n* * *\n\nc",
		"<script>a</script><style>b</style>c<svg><title>d</title><p>e</svg><noscript>f</noscript><template>g</template>h": "c\n\neh",
		"<script/>a</script>b":             "b",
		"<svg/>a":                          "a",
		"1 * 2 [x] &lt;b> # y":             "1 * 2 \\[x] &lt;b&gt; # y",
		"<!-- a --><?b?><!doctype c>d":     "d",
		"</p></b></table></td></li></ul>a": "a",
		"<h1>a<p>b<ul><li>c</h1>d":         "# a b c\n\nd",
	} {
		if got := toMarkdown(t, page); got != want {
			t.Errorf("%s\n got %q\nwant %q", page, got, want)
		}
	}
}

func TestTitleOf(t *testing.T) {
	for page, want := range map[string]string{
		"<title>\n a &amp; b\t</title>": "a & b", "<head><meta x><title>a</title>": "a", "<title></title>": "", "": "", "<p>a": "", "<body><title>a</title>": "", "<svg><title>a</title>": "",
		"<title>never closed": "never closed",
	} {
		if got := titleOf(strings.NewReader(page)); got != want {
			t.Errorf("%q: got %q, want %q", page, got, want)
		}
	}
}

// No text of a page is lost.
func TestMarkdownOfLongPages(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string][3]string{
		"paragraphs": {"", "<p>word%d</p>", ""}, "one paragraph": {"<p>", "word%d ", ""}, "list": {"<ul>", "<li>word%d", "</ul>"}, "item": {"<ul><li>", "word%d ", "</ul>"},
		"table": {"<table>", "<tr><td>word%d<td>x", "</table>"}, "cell": {"<table><tr><td>", "word%d ", "</table>"}, "row": {"<table><tr>", "<td>word%d", "</table>"},
		"code": {"<pre><code>", "word%d\n", "</code></pre>"}, "link": {"<a href=x>", "word%d ", "</a>"}, "quote": {"<blockquote>", "<p>word%d", ""}, "breaks": {"", "word%d<br>", ""}, "headings": {"", "<h2>word%d</h2>", ""},
	} {
		var page strings.Builder
		page.WriteString(parts[0])
		const words = 4000
		for i := range words {
			fmt.Fprintf(&page, parts[1], i)
		}
		page.WriteString(parts[2])
		got := strings.FieldsFunc(toMarkdown(t, page.String()), func(r rune) bool { return !('a' <= r && r <= 'z' || '0' <= r && r <= '9') })
		next := 0
		for _, field := range got {
			if field == fmt.Sprint("word", next) {
				next++
			}
		}
		if next != words {
			t.Errorf("%s: word %d is missing or out of order", name, next)
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, seed := range []string{"<p>a<b>b</p>c", "<table><tr><td>a<ul><li>b</table>", "<a href=x><h1>y</a>", "<pre><code class=language-x>`</pre>", "<svg><p></svg>", "<ul><ul><li>a</ol>", "<td>x<tr>y", "<img src=x alt='<b>'>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, page string) {
		if _, err := convertPage(markdownRequest{URL: "https://example.com/"}, strings.NewReader(page)); err != nil {
			t.Errorf("%q: %v", page, err)
		}
	})
}

// A proxy would resolve names without the guard. A request to loopback cannot test
// this, because it never uses the proxy of the environment.
func TestClientHasNoProxy(t *testing.T) {
	if newClient(WebConfig{}).Transport.(*http.Transport).Proxy != nil {
		t.Error("the client uses a proxy")
	}
}
