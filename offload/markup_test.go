package offload

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"

	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
)

// TestMarkup: the preview of YAML and XML is the shape of their JSON, and jq and SQL read it.
func TestMarkup(t *testing.T) {
	t.Parallel()
	store := newFakeStore(StoreConfig{})
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	junit, err := os.ReadFile("testdata/markup/junit.xml")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := os.ReadFile("testdata/markup/pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wide, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().Bytes(junit)
	if err != nil {
		t.Fatal(err)
	}
	multi := strings.Repeat("---\nkind: Job\nspec:\n  n: 1\n", 60)
	for _, row := range []struct {
		id, text, preview, jq, result, sql, cells string
	}{
		{"junit", string(junit), "testcase: [30 elements, each: {@classname: string, @name: string, @time: string, failure?: {@message: string",
			`[.testsuites.testsuite[].testcase[] | select(.failure)] | length`, "9",
			`SELECT count(*), max("@time"), sum("@time" > 0.28) FROM "junit:.testsuites.testsuite[].testcase"`, "90|0.29|3"},
		{"wide", string(wide), "XML, which jq and SQL read", `.testsuites."@tests"`, `"90"`, `SELECT sum("@tests") FROM wide`, "90"},
		{"pods", string(pods), "YAML, which jq and SQL read as JSON of the shape {apiVersion: string, items: [12 elements, each: {",
			`.items[] | select(.status.phase == "Pending") | .metadata.name`, `"web-3"`,
			`SELECT sum(json_extract(status, '$.containerStatuses[0].restartCount')) FROM pods`, "21"},
		{"multi", multi, "[60 elements, each: {kind: string, spec: {n: number}}]", `map(.spec.n) | add`, "60", `SELECT kind, count(*) FROM multi GROUP BY 1`, "Job|60"},
		{"large", "items:\n" + strings.Repeat("- name: web\n  ports: [80]\n", 30_000), "elements, each: {name: string", `.items | length`, "30000",
			`SELECT count(*) FROM large`, "30000"},
	} {
		rec := putArtifact(t, store, "s", row.id, []byte(row.text))
		if !strings.Contains(rec.Summary, row.preview) || !strings.Contains(notice(rec), "with jq_knowledge(artifact_id, query), sql_knowledge(") {
			t.Errorf("%s has the preview\n%s", row.id, Reference(rec))
		}
		res, err := r.JQ(t.Context(), "s", row.id, JQQuery{Query: row.jq})
		if err != nil || !strings.Contains(res.Text(), "\n"+row.result) {
			t.Errorf("%s: %s is %v, %v", row.id, row.jq, res, err)
		}
		rows, err := r.SQL(t.Context(), "s", SQLQuery{SQL: row.sql})
		if err != nil || !strings.Contains(rows.Text(), "\n"+row.cells) {
			t.Errorf("%s: %s is %v, %v", row.id, row.sql, rows, err)
		}
	}
	res, err := r.JQ(t.Context(), "s", "junit", JQQuery{Query: `.testsuites.testsuite | map(select(."@time" > 1)) | length`})
	if err != nil || !strings.Contains(res.Text(), `compares "1.5" with 1`) {
		t.Errorf("jq compares a text of XML with a number without a note: %v, %v", res, err)
	}
}

// TestMarkupIsRefused: what is no document, is one only by chance, or is too large, is a text.
func TestMarkupIsRefused(t *testing.T) {
	t.Parallel()
	store := newFakeStore(StoreConfig{})
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x]\n")
	for i := range 20 {
		bomb.WriteString(fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 8), i))
	}
	for id, row := range map[string]struct{ text, media, want string }{
		"bomb":     {bomb.String(), mediaText, "not JSON"},
		"entities": {`<!DOCTYPE a [<!ENTITY b "c">]><a>` + strings.Repeat("<i>&b;</i>", 500) + "</a>", mediaText, "not JSON"},
		"mail":     {strings.Repeat("From: a\nTo: b\n  c\n\nText.\n", 100), mediaText, "not JSON"},
		"markdown": {"---\ntitle: a\ntags:\n  - b\n---\n" + strings.Repeat("# Title\n\nSome text: here it is.\n", 100), mediaText, "not JSON"},
		"code":     {strings.Repeat("try:\n  f(x)\nexcept E:\n  g()\n", 100), mediaText, "not JSON"},
		"page":     {"<!DOCTYPE html>\n<html><body>" + strings.Repeat("<p>a</p>", 400) + "</body></html>", mediaText, "not JSON"},
		"huge":     {"a:\n" + strings.Repeat("- [x]\n", 9<<20/6), mediaText, "not JSON"},
		"broken":   {"a:\n" + strings.Repeat("- [x]\n", 1<<18) + "- {", mediaYAML, "cannot be read as a document of YAML (yaml: line"},
	} {
		if rec := putArtifact(t, store, "s", id, []byte(row.text)); rec.MediaType != row.media {
			t.Errorf("%s is %s", id, rec.MediaType)
		}
		if _, err := r.JQ(t.Context(), "s", id, JQQuery{Query: "."}); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("jq reads %s: %v", id, err)
		}
		if _, err := r.SQL(t.Context(), "s", SQLQuery{Artifacts: []string{id}}); row.media == mediaYAML && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("SQL reads %s: %v", id, err)
		}
	}
}

// TestFlatYAML: a key and a value in each line are a document, unless a key is there twice, as in a log.
func TestFlatYAML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: web\nversion: 1.50\nenv:\n":                          `{"name":"web","version":1.50,"env":null}`,
		"# made by x\na: 1\nb: [2]\r\n\n\"c.d\": \"x: y\"":          `{"a":1,"b":[2],"c.d":"x: y"}`,
		"INFO: started\nERROR: no file\nINFO: ended\n":              "",
		"From: a\nTo: b\nSubject: Re: hello\n":                      "",
		"Some text: here\nit: goes on\n":                            "",
		"error: no such file\n":                                     "",
		strings.Repeat("a", 5_000) + ": 1\nb: 2\n":                  "",
		"x: 1\n" + strings.Repeat("y", 5_000) + ": 1\nb: 2\n":       "",
		"x: 1\nz: 2\ny: " + strings.Repeat("y", 5_000) + "\nb: 2\n": `{"x":1,"z":2,"y":"` + strings.Repeat("y", 5_000) + `","b":2}`,
	} {
		res, err := stored(t, []byte(text)).JQ(t.Context(), "s", "a", JQQuery{Query: "."})
		if want == "" {
			wantCode(t, err, tools.CodeInvalidArguments, "not JSON")
		} else if err != nil || len(res.Results) != 1 || string(res.Results[0]) != want {
			t.Errorf("%q is %v, %v; want %s", text, res, err, want)
		}
	}
}
