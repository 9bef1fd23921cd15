package offload

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/charset"
)

// TestCharsets: all who read text get a text in another charset as they get it in UTF-8. The
// artifact keeps its bytes.
func TestCharsets(t *testing.T) {
	rows := strings.Repeat("Zürich;2 €;x\n", 30_000)
	table := "Ort;Preis;Rest\n" + rows + "Genève;3 €;\"y\"\n"
	doc := `{"l":["né","öl"],` + strings.Repeat(" ", 200_000) + "\n" + `"größe":1}`
	ascii := strings.Repeat("a line of ASCII\n", 100_000) + "Grüße, Zürich\n"
	for _, name := range []string{charset.UTF16LE, charset.UTF16BE, charset.Latin1} {
		store := newFakeStore(StoreConfig{})
		r := NewReader(store, ReaderConfig{})
		for id, text := range map[string]string{"table": table, "doc": doc, "ascii": ascii} {
			data, err := charset.Encode(text, name)
			if err != nil {
				t.Fatal(err)
			}
			rec := putArtifact(t, store, "s", id, []byte(data))
			plain := putArtifact(t, store, "s", "plain-"+id, []byte(text))
			if rec.charset() != name || rec.Chars != plain.Chars || rec.Lines != plain.Lines || rec.Tokens != plain.Tokens ||
				rec.Type != plain.Type || !isMedia(rec.MediaType, plain.MediaType) || rec.Summary != plain.Summary {
				t.Errorf("%s as %s is %+v; want %+v", id, name, rec, plain)
			}
			var raw []byte
			for next := int64(0); ; {
				page, err := r.Read(t.Context(), "s", id, next, 0)
				if err != nil {
					t.Fatal(err)
				}
				raw = append(raw, page.Bytes()...)
				if next = page.NextOffset; next == 0 {
					break
				}
			}
			if string(raw) != data {
				t.Errorf("%s as %s: Read does not give the bytes", id, name)
			}
			for reading, f := range map[string]func(id string) (string, error){
				"page": func(id string) (string, error) {
					p, err := r.GetByID(t.Context(), "s", id, 100, 50)
					return p.Text(), err
				},
				"lines": func(id string) (string, error) {
					l, err := r.GetByLines(t.Context(), "s", id, LinesQuery{StartLine: -2})
					return l.Content, err
				},
				"grep": func(id string) (string, error) {
					g, err := r.Grep(t.Context(), "s", id, GrepQuery{Pattern: "[üö]", MaxResults: 2})
					return g.Text(), err
				},
				"argument": func(id string) (string, error) {
					args, err := r.Expand(t.Context(), "s", nil, fmt.Appendf(nil, `{"content":{"$artifact":%q}}`, id))
					return string(args), err
				},
			} {
				got, err := f(id)
				want, wantErr := f("plain-" + id)
				if want = strings.ReplaceAll(want, "plain-", ""); got != want || err != nil || wantErr != nil {
					t.Errorf("%s as %s: %s is %.300q, %v; want %.300q, %v", id, name, reading, got, err, want, wantErr)
				}
			}
		}
		for id, query := range map[string][2]string{"table": {`map(select(.Ort == "Genève").Preis)`, `["3 €"]`}, "doc": {".l[0]", `"né"`}} {
			res, err := r.JQ(t.Context(), "s", id, JQQuery{Query: query[0]})
			if err != nil || fmt.Sprintf("%s", res.Results) != "["+query[1]+"]" {
				t.Errorf("jq %q of %s as %s is %+v, %v", query[0], id, name, res, err)
			}
		}
	}
}

// The reader shows bytes that are not clearly in a known charset with escapes or not at all. It
// never shows them as other characters.
func TestOtherBytesAreNotDecoded(t *testing.T) {
	for name, data := range map[string]string{
		"UTF-8":            "Zürich\n",
		"UTF-8 and more":   "Zürich caf\xe9",
		"stray bytes":      "a \xff\xfe b \xe9",
		"GBK in words":     "user\xd6\xd0\xce\xc4login",
		"Cyrillic":         "name: \xef\xf0\xe8\xe2\xe5\xf2, and much more text in ASCII",
		"GBK":              "name: \xd6\xd0\xce\xc4, and much more text in ASCII",
		"Shift JIS":        "name: \x93\xfa\x96\x7b, and much more text in ASCII",
		"UTF-32":           "\xff\xfe\x00\x00a\x00\x00\x00b\x00\x00\x00",
		"bytes with BOM":   "\xff\xfe\x00\xd8\x00\xd8\x01\x02",
		"a mark by chance": "\xff\xfe\x80 bad",
		"and even":         "\xff\xfe\x80 bad text",
		"UTF-16 no mark":   "a\x00b\x00",
		"undefined bytes":  "caf\xe9 \x81 \x8d",
	} {
		store := newFakeStore(StoreConfig{})
		if rec := putArtifact(t, store, "s", "id", []byte(data)); rec.charset() != "" {
			t.Errorf("%s is read as %s", name, rec.charset())
		}
	}
}

// TestTextsWithNUL: a text with a few NULs is a text, whatever it looks like otherwise.
func TestTextsWithNUL(t *testing.T) {
	for name, text := range map[string]string{
		"words": "hello\x00world\n", "XML": "<?xml version=\"1.0\"?>\n<a>\x00</a>\n", "HTML": "<!DOCTYPE html><html><body>\x00</body></html>", "names": "./a file\x00./another\x00",
		"a script": "#!/bin/sh\necho \x00\n",
	} {
		if rec := putArtifact(t, newFakeStore(StoreConfig{}), "s", "id", []byte(text)); rec.Type != TypeText {
			t.Errorf("%s: %s, %s", name, rec.Type, rec.MediaType)
		}
	}
}

// TestDecodingNeedsLittleMemory: a large text is decoded into a file.
func TestDecodingNeedsLittleMemory(t *testing.T) {
	data := bytes.Repeat([]byte("caf\xe9 au lait\n"), 40<<20/13)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := decode(t.Context(), bytes.NewReader(data), int64(len(data)), "windows-1252")
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("decoding %d bytes allocates %d", len(data), grown)
	}
	if err := text.Close(); err != nil || text.Index().Lines() != int64(len(data)/13)+1 {
		t.Errorf("%d lines, %v", text.Index().Lines(), err)
	}
}
