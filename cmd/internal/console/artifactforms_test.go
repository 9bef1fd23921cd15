package console_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"image"
	"image/png"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// An artifact is a table with sorted columns, a tree with paths, or a text whose levels have colours.
func TestFormsOfAnArtifact(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.call("harbour", "toolu_stock", "inventory", textArgs{Lines: 3000})
	in.call("harbour", "toolu_logs", "logs", textArgs{Lines: 60_000})
	b := browse(t, in, 1440, 900)
	press := func(name string) {
		b.eval("[...document.querySelectorAll('main button')].find(b => b.innerText.startsWith('" + name + "')).click()")
	}
	cell := func(row, column int) string {
		return b.eval("document.querySelectorAll('.grid tbody tr')[" + string(rune('0'+row)) + "].children[" + string(rune('0'+column)) + "].innerText")
	}

	b.open("artifacts/harbour/toolu_stock", "inventory")
	b.until("document.querySelectorAll('.scroller .row').length > 0")
	b.shows("expires in 7 days")
	press("Table")
	b.shows("3,000 rows")
	if got := b.eval("[...document.querySelectorAll('.grid th')].map(h => h.innerText.replace(/\\s+/g, ' '))"); got != "id integer,name text,weight integer" {
		t.Errorf("the columns are %s", got)
	}
	press("weight")
	b.until("document.querySelector('th[aria-sort=ascending]')?.innerText.includes('weight')")
	press("weight")
	b.until("!!document.querySelector('th[aria-sort=descending]')")
	if got := cell(0, 2); got != "999" {
		t.Errorf("the first weight is %s", got)
	}
	b.screenshot("artifact-table")
	press("More rows")
	b.until("document.querySelectorAll('.grid tbody tr').length > 200")
	b.eval("document.querySelector('[aria-label=SELECT]').focus()")
	b.press("select count(*) as n, max(weight) as most, 9007199254740993 as big from t1\r")
	b.until("document.querySelectorAll('.grid tbody tr').length === 1")
	if got := cell(0, 0) + " " + cell(0, 1) + " " + cell(0, 2); got != "3000 999 9007199254740993" {
		t.Errorf("the answer is %s", got)
	}
	b.accessible()
	b.eval("document.querySelector('[aria-label=SELECT]').select()")
	b.press("drop table t1\r")
	b.until("!!document.querySelector('.other .problem')")

	press("Tree")
	b.shows("[3,000]")
	b.eval("document.querySelector('.tree summary').click()")
	b.until("document.querySelectorAll('.tree .node').length === 101")
	press("More")
	b.until("document.querySelectorAll('.tree .node').length === 201")
	b.eval("document.querySelectorAll('.tree summary')[200].click()")
	b.shows("\"container 199\"")
	b.screenshot("artifact-tree")
	b.accessible()

	b.open("artifacts/harbour/toolu_logs", "crane")
	b.until("document.querySelector('.row[data-level=error]')?.innerText.includes(' error ')")
	if got := b.eval("[...document.querySelectorAll('.row[data-level=error]')].every(r => r.innerText.includes(' error '))"); got != "true" {
		t.Error("a line has the colour of another level")
	}
	b.screenshot("artifact-levels")
	if got := b.eval("[...document.querySelectorAll('.viewer button')].map(b => b.innerText)"); strings.Contains(got, "Table") {
		t.Errorf("a log has the buttons %s", got)
	}

	in.call("harbour", "toolu_coloured", "web_fetch", textArgs{Text: strings.Repeat("12:00 \x1b[31mERROR\x1b[0m boom\n", 3000)})
	b.open("artifacts/harbour/toolu_coloured", "web_fetch")
	b.until("document.querySelectorAll('.row[data-level=error]').length > 0")

	// What has no rows says so to a person.
	in.call("harbour", "toolu_long", "web_fetch", textArgs{Text: `{"text":"` + strings.Repeat("crane ", 10_000) + `","berth":9007199254740993}`})
	b.open("artifacts/harbour/toolu_long", "web_fetch")
	press("Table")
	b.until("document.querySelector('.other .problem')?.innerText.endsWith('). Text shows all of it.')")
	press("Tree")
	b.until("document.querySelector('.tree')?.innerText.includes('9007199254740993')")
	press("Text")
	b.until("!!document.querySelector('[data-viewer]').offsetParent && !document.querySelector('.other').offsetParent")

	in.call("harbour", "toolu_aligned", "web_fetch", textArgs{Text: "NAME      READY  STATUS    RESTARTS  AGE\n" + strings.Repeat("crane-1   1/1    Running   0         4d\ncrane-22  0/1    Pending   12        21h\n", 900)})
	b.open("artifacts/harbour/toolu_aligned", "web_fetch")
	press("Table")
	b.shows("1,800 rows")

	// Keys and cells of a hostile document are texts.
	rows, err := json.Marshal(slices.Repeat([]map[string]string{{hostile: hostile, "k": hostile}}, 300))
	if err != nil {
		t.Fatal(err)
	}
	in.call("harbour", "toolu_hostile", "web_fetch", textArgs{Text: string(rows)})
	b.open("artifacts/harbour/toolu_hostile", "web_fetch")
	for name, selector := range map[string]string{"Table": ".grid tbody td", "Tree": ".tree .node"} {
		press(name)
		b.until("!!document.querySelector('" + selector + "')")
		if name == "Tree" {
			b.eval("document.querySelector('.tree summary').click()")
			b.until("document.querySelectorAll('.tree .node .node').length === 2")
		}
		if found := b.eval(`[...document.querySelectorAll("main script, main img, main svg, [onerror], [onload]")].length + " " + window.pwned`); found != "0 undefined" {
			t.Errorf("%s: elements and effects of the text: %s", name, found)
		}
	}
}

// A picture is shown by the page, and no other artifact has a type that a browser opens.
func TestPictureOfAnArtifact(t *testing.T) {
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.call("harbour", "toolu_picture", "photo", textArgs{})
	in.call("harbour", "toolu_vector", "web_fetch", textArgs{Text: `<svg xmlns="http://www.w3.org/2000/svg"><script>window.pwned=1</script>` + strings.Repeat("<g></g>", 10_000) + `</svg>`})
	b := browse(t, in, 1440, 900)
	b.open("artifacts/harbour/toolu_picture", "photo")
	b.until("document.querySelector('.other img')?.naturalWidth === 400")
	b.accessible()
	for id, want := range map[string]string{"toolu_vector": "application/octet-stream attachment; filename=toolu_vector.txt", "toolu_picture": "image/png attachment; filename=toolu_picture.png"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", in.url+"/api/artifacts/harbour/"+id+"/content", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Content-Type") + " " + resp.Header.Get("Content-Disposition"); got != want {
			t.Errorf("%s has the type %s: %s", id, got, resp.Status)
		}
	}
}

// noise is a picture that no compression makes small.
func noise() string {
	img := image.NewGray(image.Rect(0, 0, 400, 300))
	_, _ = rand.Read(img.Pix)
	var data bytes.Buffer
	_ = png.Encode(&data, img) // to memory
	return data.String()
}
