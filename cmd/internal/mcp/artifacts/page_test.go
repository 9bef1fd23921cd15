package artifacts

import (
	"io"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// TestContents: the pages of an artifact are its text, in any encoding, or its bytes if one of them is no text.
func TestContents(t *testing.T) {
	store := mem.New(offload.StoreConfig{})
	offloader, reader := offload.NewOffloader(store, offload.Config{}), offload.NewReader(store, offload.ReaderConfig{})
	utf16 := "\xff\xfe" + strings.Repeat("a\x00 \x00l\x00i\x00n\x00e\x00\n\x00", 5_000)
	for id, row := range map[string]struct{ stored, want string }{
		"utf-8":  {strings.Repeat("Zeile für Zeile\n", 2_000), strings.Repeat("Zeile für Zeile\n", 2_000)},
		"utf-16": {utf16, strings.Repeat("a line\n", 5_000)},
		"table":  {"\xff\xfe" + strings.Repeat("1\x00,\x002\x00\n\x00", 9_000), strings.Repeat("1,2\n", 9_000)},
		"stray":  {strings.Repeat("a line\n", 5_000) + "\xff\xfe\xfd", strings.Repeat("a line\n", 5_000) + "\xff\xfe\xfd"},
		"binary": {"\x89PNG\r\n\x1a\n" + strings.Repeat("\x00é\xff", 10_000), "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00é\xff", 10_000)},
	} {
		_, err := offloader.Attach(t.Context(), tools.Call{ID: id, Session: "s"}, io.NewSectionReader(strings.NewReader(row.stored), 0, int64(len(row.stored))))
		if err != nil {
			t.Fatal(err)
		}
		got, pages := "", 0
		for next, ok := URI("s", id), true; ok; pages++ {
			address, err := ParseURI(next)
			if err != nil {
				t.Fatal(err)
			}
			contents, err := Read(t.Context(), reader, "s", address)
			if err != nil {
				t.Fatal(err)
			}
			got += contents[0].Text + string(contents[0].Blob)
			if contents[0].Text != "" && !strings.HasSuffix(contents[0].MIMEType, "; charset=utf-8") {
				t.Errorf("%s: a page of text is %s", id, contents[0].MIMEType)
			}
			next, ok = contents[0].Meta["stevedore/next"].(string)
		}
		if got != row.want || pages < 2 {
			t.Errorf("%s: %d pages with %d bytes, want %d", id, pages, len(got), len(row.want))
		}
	}
	cut := Contents(Address{Session: "s", ID: "a"}, tools.Artifact{}, &offload.Page{Content: "text", Notes: []string{"the rest is lost"}})
	if len(cut) != 2 || cut[0].Text != "text" || cut[1].Text != "[the rest is lost]" {
		t.Errorf("the last page of what is not complete: %+v", cut)
	}
}
