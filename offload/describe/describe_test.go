package describe

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// read returns the columns of a text, the number of its rows, and the last row.
func read(t *testing.T, text string, known Hints) (form Form, columns []string, n int, last []string) {
	t.Helper()
	form = Table([]byte(text), true, known)
	rows, err := form.Rows(strings.NewReader(text))
	if err != nil {
		return form, nil, 0, nil
	}
	for {
		row, err := rows.Next()
		if err == io.EOF {
			return form, rows.Columns(), n, last
		}
		if err != nil {
			return form, nil, 0, nil
		}
		n, last = n+1, append([]string{}, row...)
	}
}

// TestTable: how a table is written is found in its text, also where a text misleads.
func TestTable(t *testing.T) {
	titles := "title\tyear\n" + strings.Repeat("Song\t1977\n", 1_000) + "\"Heroes\" (song)\t1978\n" + strings.Repeat("Other\t1979\n", 100)
	for name, row := range map[string]struct {
		text, columns, last string
		rows                int
		certain             bool
		assumed             string
	}{
		"CSV":                    {"id,name\n1,a\n2,b\n", "id|name", "2|b", 2, true, ""},
		"semicolons":             {"a;b\n1,5;2,5\n3,5;4,5\n", "a|b", "3,5|4,5", 2, true, ""},
		"rules under the names":  {"Package  Version\n-------- -------\nrequests 2.32.3\nurllib3  2.2.2\n", "Package|Version", "urllib3|2.2.2", 2, true, ""},
		"pipes":                  {"id|name|at\n1|a|2025-01-01\n2|b|2025-01-02\n", "id|name|at", "2|b|2025-01-02", 2, true, ""},
		"pipes in a column":      {"id,name,note\n" + strings.Repeat("1,b,a|b\n", 30), "id|name|note", "1|b|a|b", 30, true, ""},
		"decimal commas":         {"a;b\n" + strings.Repeat("1,5;2,5\n", 30), "a|b", "1,5|2,5", 30, true, ""},
		"sep=":                   {"sep=;\nid;name\n1;a,b\n2;c,d\n", "id|name", "2|c,d", 2, true, ""},
		"CR":                     {"id,name\r1,a\r2,b\r", "id|name", "2|b", 2, true, ""},
		"CRLF":                   {"id,name\r\n1,a\r\n2,b\r\n", "id|name", "2|b", 2, true, ""},
		"comments":               {"# made by x\n# on Monday\nid,name\n1,a\n# more\n2,b\n", "id|name", "2|b", 2, true, ""},
		"names behind #":         {"##version 4\n#chrom\tpos\nchr1\t5\nchr2\t7\n", "chrom|pos", "chr2|7", 2, true, ""},
		"a title":                {"Report of May, all regions\n\nid,name,price,city\n1,a,2,x\n2,b,3,y\n", "id|name|price|city", "2|b|3|y", 2, true, "above the table"},
		"a title of Excel":       {"Report,,\nid,name,price\n1,a,2\n2,b,3\n", "id|name|price", "2|b|3", 2, true, "above the table"},
		"spaces":                 {"id, name, price\n1, \"a, b\", 2\n2, c, 3\n", "id|name|price", "2|c|3", 2, true, ""},
		"ragged":                 {"id,name,price\n1,a\n2,b,3\n4,c,5\n" + strings.Repeat("5,d,6\n", 20), "id|name|price", "5|d|6", 23, true, ""},
		"W3C":                    {"#Software: IIS\n#Fields: date time cs-uri\n2025-01-01 10:00 /a\n#Date: x\n2025-01-01 10:01 /b\n", "date|time|cs-uri", "2025-01-01|10:01|/b", 2, true, ""},
		"Zeek":                   {"#separator \\x09\n#fields\tts\tuid\n#types\ttime\tstring\n1.5\tC1\n2.5\tC2\n#close\tx\n", "ts|uid", "2.5|C2", 2, true, ""},
		"no names":               {"4\t./a\n8\t./b\n12\t.\n", "|", "12|.", 3, true, "c1, c2"},
		"no names, dates":        {"2025-01-01,5,x\n2025-01-02,6,y\n2025-01-03,7,z\n", "||", "2025-01-03|7|z", 3, true, "c1, c2"},
		"no names, repeated":     {"M\ta.go\nM\tb.go\nA\tc.go\n", "|", "A|c.go", 3, true, "c1, c2"},
		"years as names":         {"country,2019,2020\nAT,5,6\nDE,7,8\n", "country|2019|2020", "DE|7|8", 2, false, ""},
		"all text":               {"Name,City\nAnn,Oslo\nBob,Rome\n", "Name|City", "Bob|Rome", 2, true, "header=false"},
		"text of another style":  {"name,city\nAnn,Oslo\nBob,Rome\n", "name|city", "Bob|Rome", 2, true, ""},
		"an empty name":          {",name\n0,a\n1,b\n2,c\n", "|name", "2|c", 3, false, ""},
		"a quote in a cell":      {titles, "title|year", "Other|1979", 1_101, true, ""},
		"quotes of an inch":      {"size,name\n\"5\"\" wide\",a\n\"6\"\" wide\",b\n", "size|name", "6\" wide|b", 2, true, ""},
		"cells of several lines": {"id,text,n\n1,\"two\nlines, and \"\"more\"\"\",5\n2,\"a\r\nb\",6\n", "id|text|n", "2|a\nb|6", 2, true, ""},
		"the last cell":          {"id,text\n1,\"two\nlines\"\n2,\"x\"\n3,y\n", "id|text", "3|y", 3, true, ""},
		"a quote never closed":   {"id\ttext\n1\t\"open\n2\tb\n3\t\"c\n", "id|text", "3|\"c", 3, true, ""},
		"a quote closed below":   {"id\ttext\n1\t\"open\n2\tb\n3\tc\"\n4\td\n", "id|text", "4|d", 4, true, ""},
		"psql":                   {" id | name\n----+------\n  1 | a\n(1 row)\n", "id|name", "1|a", 1, true, ""},
		"kubectl":                {"NAME   READY\nweb    1/1\napi    0/1\n", "NAME|READY", "api|0/1", 2, true, ""},
		"ps":                     {"    PID TTY          TIME CMD\n      1 ?        00:00:01 systemd\n  12345 pts/0    00:10:00 go test\n", "PID|TTY|TIME|CMD", "12345|pts/0|00:10:00|go test", 2, true, ""},
		"df": {"Filesystem     1K-blocks     Used Available Use% Mounted on\noverlay         61255492 20000000  38000000  35% /\ntmpfs              65536        0     65536   0% /dev\n",
			"Filesystem|1K-blocks|Used|Available|Use%|Mounted on", "tmpfs|65536|0|65536|0%|/dev", 2, true, ""},
		"free":        {"               total        used        free\nMem:        16332080     1000000     2000000\nSwap:              0           0           0\n", "|total|used|free", "Swap:|0|0|0", 2, true, ""},
		"docker":      {"CONTAINER ID   IMAGE     COMMAND       PORTS\nabc            nginx     \"/entry x\"\ndef            redis     \"redis\"       6379/tcp\n", "CONTAINER ID|IMAGE|COMMAND|PORTS", "def|redis|\"redis\"|6379/tcp", 2, true, ""},
		"ls":          {"total 8\n-rw-r--r-- 1 root root  5 Jan  1 10:00 a\n-rw-r--r-- 1 root root 15 Jan  1 10:00 b\n", "", "", 0, false, ""},
		"a long cell": {"NAME   READY\n" + strings.Repeat("web    1/1\n", 250) + "a-long-name   0/1\n", "NAME|READY", "a-long-name|0/1", 251, true, ""},
		"ps aux":      {"USER         PID %CPU COMMAND\nroot           1  0.0 /sbin/init splash\nnobody       999 12.5 /usr/bin/x -y\n", "USER|PID|%CPU|COMMAND", "nobody|999|12.5|/usr/bin/x -y", 2, true, ""},
		"prose":       {"This is a text, and it\nhas commas, as texts have.\nBut not, in, each line.\n", "This is a text|and it", "But not|in|each line.", 2, false, ""},
		"a log":       {strings.Repeat("2025-01-01 10:00:00,123 INFO it works, with commas\n", 9), "", "", 0, false, ""},
		"code":        {strings.Repeat("let a = 1;\nlet b = 2;\n", 20), "", "", 0, false, ""},
		"a Makefile":  {strings.Repeat("\tgo build\n", 20), "", "", 0, false, ""},
	} {
		form, columns, n, last := read(t, row.text, Hints{})
		assumed := strings.Join(form.Assumed, "; ")
		if strings.Join(columns, "|") != row.columns || n != row.rows || row.last != "" && strings.Join(last, "|") != row.last ||
			form.Certain != row.certain || !strings.Contains(assumed, row.assumed) || row.assumed == "" && row.certain && assumed != "" {
			t.Errorf("%s: %q, %d rows to %q, of %+v", name, columns, n, last, form)
		}
	}
	yes, no := true, false
	for name, row := range map[string]struct {
		text  string
		known Hints
		want  string
	}{
		"names after all":    {"4,a\n8,b\n", Hints{Header: &yes}, "[4 a] 1"},
		"no names after all": {"name,city\nAnn,Oslo\n", Hints{Header: &no}, "[ ] 2"},
		"another comma":      {"a~b,c\n1~2,3\n", Hints{Comma: '~'}, "[a b,c] 1"},
	} {
		form, columns, n, _ := read(t, row.text, row.known)
		if got := fmt.Sprint(columns, " ", n); got != row.want || len(form.Assumed) > 0 {
			t.Errorf("%s: %s, want %s, of %+v", name, got, row.want, form)
		}
	}
}

// FuzzTable: no text makes a reader fail in an unknown way or lose a line that has no quotes.
func FuzzTable(f *testing.F) {
	for _, text := range []string{"a,b\n1,2\n", "sep=;\na;b\n", "#Fields: a b\n1 2\n", "a\t\"b\n\"c\td\n", "a | b\n--|--\n1 | 2", "A  B\n1  2\n", "\"a\n\"\"b\",c\n\"d\"e,f\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		form, _, n, _ := read(t, text, Hints{})
		if form.Kind == Cells && !strings.Contains(text, `"`) && n > strings.Count(text, string(form.end()))+1 {
			t.Errorf("%d rows", n)
		}
	})
}
