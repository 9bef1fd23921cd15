package offload

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
)

// misleading are inputs that a reader takes easily for something else. The answer to a query about
// them is right, or has the note.
var misleading = map[string]struct{ text, sql, want, note string }{
	"a cell that begins with a quote": {
		"title\tyear\n" + strings.Repeat("Song\t1977\n", 1_000) + "\"Heroes\" (song)\t1978\n" + strings.Repeat("Other\t1979\n", 100),
		"SELECT count(*), sum(year = 1978) FROM t1", "1101|1", "",
	},
	"a quote that a later row closes": {
		"id\ttext\n" + strings.Repeat("1\tx\n", 500) + "2\t\"open\n" + strings.Repeat("3\ty\n", 2_000) + "4\tclosed\"\n5\tz\n",
		"SELECT count(*), max(id) FROM t1", "2503|5", "",
	},
	"no names":                           {"4\t./a\n8\t./b\n12\t.\n", "SELECT sum(c1), max(c2) FROM t1", "24|./b", "no row has the names"},
	"names that may be a row":            {"ann,oslo\nbob,Rome\n", "SELECT count(*) FROM t1", "1", "header=false makes it a row"},
	"names that are a row in one column": {"ann,oslo\nBob,rome\nEve,Paris\n", "SELECT count(*) FROM t1", "2", "header=false makes it a row"},
	"names over texts":                   {"name,city\nAnn,Oslo\nBob,New York\n", "SELECT count(*) FROM t1", "2", ""},
	"names in upper case over texts":     {"NAME;HOME_CITY\nAnn;Oslo\nBob;rome\n", "SELECT count(*) FROM t1", "2", ""},
	"sep=":                               {"sep=;\nid;name\n1;a,b\n2;c,d\n", "SELECT max(name) FROM t1", "c,d", ""},
	"lines that end in CR":               {"id,name\r1,a\r2,b\r", "SELECT sum(id) FROM t1", "3", ""},
	"comments":                           {"# made by x\nid,name\n1,a\n# more\n2,b\n", "SELECT count(*), sum(id) FROM t1", "2|3", ""},
	"a title":                            {"Report of May\n\nid,name,n\n1,a,5\n2,b,6\n", "SELECT sum(n) FROM t1", "11", "above the table are not rows"},
	"spaces":                             {"id, name, n\n1, a, 5\n2, b, 6\n", "SELECT sum(n) FROM t1 WHERE name = 'b'", "6", ""},
	"rows that lack cells":               {"id,name,n\n1,a\n" + strings.Repeat("2,b,6\n", 20), "SELECT count(*), sum(n) FROM t1", "21|120", "1 rows have fewer cells"},
	"pipes":                              {"id|name\n1|a\n2|b\n", "SELECT sum(id) FROM t1", "3", ""},
	"thousands":                          {"item,price\na,\"1,234.50\"\nb,\"2,000.00\"\nc,7\n", "SELECT sum(price) FROM t1", "3241.5", ""},
	"decimal commas":                     {"item;price\na;1.234,50\nb;2.000,00\nc;7,5\nd;1.000\n", "SELECT sum(price) FROM t1", "4242.0", ""},
	"thousands or decimals":              {"item,n\na,\"1,234\"\nb,\"2,000\"\n", "SELECT sum(n) FROM t1", "3234", "n: '1,234' is read as 1234"},
	"a point in a decimal":               {"item,n\na,1.234\nb,2.000\n", "SELECT sum(n) FROM t1", "3.234", ""},
	"a currency":                         {"item,price\na,€5.00\nb,\"€84,353,379.87\"\nc,€0\nd,0\n", "SELECT sum(price) FROM t1", "84353384.87", ""},
	"a currency behind":                  {"item;price\na;5,00 €\nb;1.234,50 €\n", "SELECT sum(price) FROM t1", "1239.5", ""},
	"several currencies":                 {"item,price\na,€5.00\nb,$7.00\nc,€1.00\n", "SELECT sum(price) FROM t1", "0.0", "price is TEXT (such as '€5.00')"},
	"debts":                              {"item,price\na,($5.00)\nb,\"$1,000.00\"\nc,-$1.00\n", "SELECT sum(price) FROM t1", "994.0", ""},
	"numbers in brackets":                {"item,n\na,(5)\nb,7\n", "SELECT sum(n) FROM t1", "2", "n: '(5)' is read as -5"},
	"spaces between thousands":           {"item;n\na;1 234 567\nb;12\n", "SELECT sum(n) FROM t1", "1234579", ""},
	"percent":                            {"item,rate\na,12.5%\nb,7%\n", "SELECT sum(rate) FROM t1", "19.5", "'12.5%' is read as 12.5"},
	"a unit":                             {"job,took\na,9ms\nb,12ms\nc,0\n", "SELECT max(took) FROM t1", "12", "'9ms' is read as 9"},
	"several units":                      {"job,size\na,9 MB\nb,12 kB\nc,3 GB\n", "SELECT max(size) FROM t1", "9 MB", "size is TEXT (such as '9 MB')"},
	"money in JSON":                      {`[{"p":"$5.00"},{"p":"$1,000.00"},{"p":null}]`, "SELECT sum(p), count(*) FROM t1", "1005.0|3", ""},
	"versions in JSON":                   {`[{"v":"1.9"},{"v":"1.10"}]`, "SELECT max(v) FROM t1", "1.9", "v is TEXT (such as '1.9')"},
	"dates of the US":                    {"day,n\n1/2/2025,1\n12/31/2024,2\n03/04/2025,3\n", "SELECT max(day), sum(n) FROM t1 WHERE day >= '2025-01-01'", "2025-03-04|4", "day: '12/31/2024' is read as 2024-12-31"},
	"dates of the EU":                    {"day;n\n01.02.2025;1\n31.12.2024;2\n", "SELECT max(day) FROM t1", "2025-02-01", "day: '01.02.2025' is read as 2025-02-01"},
	"dates with slashes":                 {"day,n\n31/12/2024 14:05,1\n01/02/2025 09:00,2\n", "SELECT max(day) FROM t1", "2025-02-01 09:00:00", "is read as 2024-12-31 14:05:00"},
	"day or month":                       {"day,n\n01/02/2025,1\n03/04/2025,2\n", "SELECT max(day) FROM t1", "03/04/2025", "day is TEXT (such as '01/02/2025')"},
	"both orders":                        {"day,n\n12/31/2024,1\n31/12/2024,2\n", "SELECT max(day) FROM t1", "31/12/2024", "day is TEXT"},
	"years of two digits":                {"day,n\n12/31/24,1\n1/2/25,2\n", "SELECT max(day) FROM t1", "12/31/24", "day is TEXT"},
	"months with names":                  {"day,n\n5 Jan 2025,1\n12 Feb 2024,2\n", "SELECT max(day) FROM t1", "2025-01-05", "'5 Jan 2025' is read as 2025-01-05"},
	"a date that is missing":             {"day,n\n" + strings.Repeat("2025-01-02,1\n", 50) + "N/A,2\n", "SELECT max(day) FROM t1", "2025-01-02", "1 of 51 cells are no dates (N/A)"},
	"a boolean that is missing":          {"a,paid\n" + strings.Repeat("x,true\n", 50) + "y,N/A\n", "SELECT sum(paid), count(paid) FROM t1", "50|50", "1 of 51 cells are no booleans (N/A)"},
	"text among numbers":                 {"a,n\nx,9\ny,10\nz,many\n", "SELECT max(n) FROM t1", "many", "n is TEXT (such as '9')"},
	"codes":                              {"a,zip\nx,00123\ny,99999\n", "SELECT min(zip) FROM t1", "00123", ""},
	"codes of several lengths":           {"a,n\nx,0\ny,007\nz,10\nw,9\n", "SELECT max(n) FROM t1", "9", "n is TEXT (such as '007')"},
	"factors":                            {"a,n\nx,1k\ny,2k\nz,300\n", "SELECT sum(n) FROM t1", "303.0", "n is TEXT (such as '1k')"},
	"bounds":                             {"a,n\nx,<5\ny,12\nz,>100\nw,~7\n", "SELECT sum(n) FROM t1", "12.0", "n is TEXT (such as '<5')"},
	"durations":                          {"a,n\nx,1h30m\ny,45m\nz,2h\n", "SELECT max(n) FROM t1", "45m", "n is TEXT"},
	"times of a day":                     {"a,n\nx,10:10:05\ny,1:02:03\nz,9:00:00\n", "SELECT max(n) FROM t1", "9:00:00", "n is TEXT"},
	"lakhs":                              {"a,n\nx,\"1,00,000\"\ny,\"2,50,000\"\nz,300\n", "SELECT max(n) FROM t1", "300", "n is TEXT"},
	"names in two cases":                 {`[{"A":1,"a":2},{"a":3}]`, "SELECT sum(a) FROM t1", "1", `"a" is called "a_2", because`},
	"a name twice on the way to the records": {
		`{"items":[{"n":1},{"n":2}],"items":[{"n":3}]}`, "SELECT count(*) FROM t1", "3", `an object has the name "items" again; the rows of both are here`,
	},
	"strings beside records": {
		`{"checks":["a","b","c","d"],"warnings":[{"file":"x","line":1},{"file":"y","line":2}]}`,
		"SELECT count(*), max(file) FROM t1", "2|y", "t1 is .warnings (2 rows); the document also has .checks (4 rows, 1 columns)",
	},
	"a map of records": {
		`{"version":1,"packages":{"a":{"version":"1.0","dev":true},"b/c":{"version":"2.0","funding":[{"url":"x"},{"url":"y"},{"url":"z"}]}}}`,
		"SELECT key, version FROM t1 WHERE dev", "a|1.0", "t1 is .packages (2 rows)",
	},
	"records in the only run": {
		`{"runs":[{"tool":{"name":"x"},"results":[{"rule":"a"},{"rule":"b"}]}]}`, "SELECT count(*) FROM t1", "2", "t1 is .runs[0].results (2 rows); the document also has .runs (1 rows, 2 columns)",
	},
	"sections that are no records":           {`{"a":{"x":1},"b":{"y":2},"items":[{"n":1}]}`, "SELECT sum(n) FROM t1", "1", ""},
	"the first of two tables":                {"# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\ntext\n\n| c | d |\n|---|---|\n| 3 | 4 |\n", "SELECT count(*), sum(a) FROM t1", "1|1", "this is the first table of the text"},
	"a table and lines":                      {"NAME   READY\nweb    1/1\n\nNAME   PORT\nweb    80\n", "SELECT count(*) FROM t1", "1", "this is the first table of the text"},
	"a count of psql":                        {" id | n\n----+---\n  1 | 5\n(1 row)\n\n", "SELECT sum(n) FROM t1", "5", ""},
	"columns of ps":                          {"    PID TTY          TIME CMD\n      1 ?        00:00:01 systemd\n  12345 pts/0    00:10:00 go test\n", "SELECT sum(PID), max(CMD) FROM t1", "12346|systemd", ""},
	"a log of W3C":                           {"#Version: 1.0\n#Fields: date time sc-status\n2025-01-01 10:00 200\n2025-01-01 10:01 404\n", `SELECT count(*) FROM t1 WHERE "sc-status" = 404`, "1", ""},
	"versions":                               {"pkg,version\na,3.10\nb,3.9\nc,3.1\n", "SELECT count(DISTINCT version), max(pkg) FROM t1 WHERE version LIKE '3.1%'", "2|c", "version is TEXT (such as '3.10')"},
	"decimals of two lengths":                {"a,n\nx,3.10\ny,3.9\nz,3.1\n", "SELECT n FROM t1 WHERE n_text = '3.10'", "3.1", "n: '3.10' is read as 3.1; n_text has the text of such cells"},
	"ids with an e":                          {"id,n\n12e1,a\n120,b\n123e4,c\n1230000,d\n", "SELECT count(DISTINCT id) FROM t1", "4", ""},
	"no digit before the point":              {"a,n\nx,.5\ny,.25\nz,1.5\n", "SELECT max(n), sum(n > 0.3) FROM t1", "1.5|2", ""},
	"integers that a real rounds":            {"a,n\nx,9007199254740993\ny,1.5\n", "SELECT n_text FROM t1 WHERE n > 2", "9007199254740993", "'9007199254740993' is read as 9007199254740992; n_text has"},
	"times of several zones":                 {"id,at\n1,2025-01-01T10:00:00+02:00\n2,2025-01-01T09:00:00Z\n", "SELECT id FROM t1 ORDER BY at DESC LIMIT 1", "2", "'2025-01-01T10:00:00+02:00' is read as 2025-01-01T08:00:00 (UTC)"},
	"times with parts of seconds":            {"id,at\n1,2025-01-01T10:00:00Z\n2,2025-01-01T10:00:00.5Z\n3,2025-01-01T10:00:00.25Z\n", "SELECT group_concat(id) FROM (SELECT id FROM t1 ORDER BY at)", "1,3,2", "(UTC)"},
	"times of git":                           {"id,at\n1,2025-01-01 10:00:00 +0200\n2,2025-01-01 09:00:00 +0000\n", "SELECT max(at) FROM t1", "2025-01-01T09:00:00", "(UTC)"},
	"some times have a zone":                 {"id,at\n1,2025-01-01T10:00:00+02:00\n2,2025-01-01T09:00:00\n", "SELECT max(at) FROM t1", "2025-01-01T10:00:00+02:00", "some times have a zone and others have none"},
	"a time in another form":                 {"id,at\n1,2025-01-01T10:00:00\n2,2025-01-01T09:00:00\n", "SELECT count(*) FROM t1 WHERE at >= '2025-01-01 09:30'", "2", "compare with dates such as 2025-01-01T10:00:00"},
	"a part of a date":                       {"d,n\n31/12/2024,1\n01/02/2025,2\n", "SELECT count(*) FROM t1 WHERE d LIKE '31/%'", "0", "LIKE, || and text functions see 2024-12-31, not '31/12/2024'"},
	"a part of a boolean":                    {"a,paid\nx,true\ny,false\n", "SELECT max(length(p)) FROM (SELECT paid AS p FROM t1)", "1", "text functions see 1, not 'true'"},
	"a part of a price":                      {"a,n\nx,5.00\ny,7.50\n", "SELECT count(*) FROM t1 WHERE t1.n NOT LIKE '%.00'", "2", "see 5.0, not '5.00'"},
	"exponents":                              {"n,m\n1e3,a\n2.5E-2,b\n1000,c\n", "SELECT count(DISTINCT n) FROM t1", "2", "n: '1e3' is read as 1000; n_text has the text of such cells"},
	"a decimal at the end":                   {"v,w\n" + strings.Repeat("7,x\n", 900) + "1.5,y\n", "SELECT sum(v) FROM t1", "6301.5", ""},
	"years as names":                         {"2019,2020\n1,2\n3,4\n", "SELECT sum(\"2019\") FROM t1", "4", "the first row was taken for the names"},
	"a row of sums":                          {"item,n\na,5\nb,6\nTotal,11\n", "SELECT sum(n) FROM t1", "22", "the column item has a 'Total'"},
	"yes and no":                             {"a,ok\nx,yes\ny,no\nz,yes\n", "SELECT sum(ok) FROM t1", "0.0", "ok is TEXT (such as 'yes')"},
	"yes as a condition":                     {"a,n,ok\nx,1,yes\ny,2,no\n", "SELECT count(*) FROM t1 WHERE n > 0 AND ok", "0", "ok is TEXT (such as 'yes')"},
	"a text compared with a number":          {"a,n,ok\nx,1,yes\ny,2,no\n", "SELECT count(*) FROM t1 WHERE ok IN (1, 2)", "0", "ok is TEXT (such as 'yes')"},
	"a sum of a condition":                   {"a,n,ok\nx,1,yes\ny,2,no\n", "SELECT sum(ok = 'yes'), max(n - 1) FROM t1 WHERE a LIKE 'x%' OR n", "1|1", ""},
	"nested values as numbers":               {`[{"m":{"ms":5}},{"m":{"ms":10}}]`, "SELECT max(m) FROM t1", `{"ms":5}`, "m is JSON (such as '{\"ms\":5}')"},
	"a value in nested ones":                 {`[{"m":{"ms":5}},{"m":{"ms":10}}]`, "SELECT max(m->>'ms') FROM t1", "10", ""},
	"telephones":                             {"a,phone\nx,+4915112345678\ny,+4917099999999\n", "SELECT min(phone) FROM t1", "+4915112345678", "phone is TEXT"},
	"two tables of cells":                    {"id,n\n1,5\n2,6\n3,6\n\nid,n\n7,7\n", "SELECT count(*) FROM t1", "6", "1 rows follow an empty line"},
	"a space behind a cell":                  {"id,city\n1,Oslo \n2,Oslo\n", "SELECT count(*) FROM t1 WHERE city = 'Oslo'", "1", "city: some cells begin or end with a space, such as 'Oslo '"},
	"rows by columns":                        {`{"columns":["id","n"],"data":[[1,5],[2,6]]}`, "SELECT sum(c2) FROM t1", "11", "t1 is .data"},
	"columns of two types":                   {"day,d\n2025-01-02,01/02/2025\n2025-03-04,03/04/2025\n", "SELECT count(*) FROM t1 AS a JOIN t1 AS b ON a.day = b.d", "0", "day and d are compared, and are of several types (DATE, TEXT)"},
	"points in a file with semicolons":       {"a;n\nx;1.234\ny;5.678\n", "SELECT sum(n) FROM t1", "6.912", "'1.234' is read with a decimal point, not as thousands"},
	"empty cells":                            {"a,b\n1,\n2,x\n3,\n", "SELECT count(b) FROM t1 WHERE b IS NOT NULL", "3", "b: 2 cells are texts such as '' and not NULL"},
	"a day with times":                       {"d,n\n2025-01-01 10:00:00,1\n2025-01-01 11:00:00,2\n", "SELECT count(*) FROM t1 WHERE d BETWEEN '2024-12-31' AND '2025-01-01'", "0", "d has times, such as 2025-01-01 10:00:00, which are later than the text '2025-01-01'"},
	"a bound of times":                       {"d,n\n2025-01-01 10:00:00,1\n2025-01-02 11:00:00,2\n", "SELECT count(*) FROM t1 WHERE d >= '2025-01-01' AND d < '2025-01-02'", "1", ""},
	"a date and a number":                    {"d,n\n2025-01-01,1\n2024-02-01,2\n", "SELECT count(*) FROM t1 WHERE d > 2025", "1", "d is DATE, a text as in ISO 8601, and never equals a number"},
	"days in a zone":                         {"at,n\n2025-01-01T00:30:00+02:00,1\n2025-01-02T08:00:00+02:00,2\n", "SELECT min(date(at)) FROM t1", "2024-12-31", "which functions for dates convert to UTC"},
	"functions for dates":                    {"d,n\n20250131,1\n20241231,2\n", "SELECT count(strftime('%Y', d)) FROM t1", "0", "d is INTEGER, and functions for dates need texts such as 2025-01-31"},
	"a case of a boolean":                    {"a,p\nx,true\ny,false\n", "SELECT sum(CASE p WHEN 'true' THEN 1 ELSE 0 END) FROM t1", "0", "p is BOOLEAN, and never equals the text 'true'"},
	"a boolean in brackets":                  {"a,p\nx,true\ny,false\n", "WITH w(x) AS (SELECT p FROM t1) SELECT count(*) FROM w WHERE x = 'true'", "0", "p is BOOLEAN, and never equals the text 'true'"},
	"NUL":                                    {"id,t\n1,a\x00b\n2,c\n", "SELECT max(length(t)) FROM t1", "3", "is stored as \u2400"},
	"true and a text":                        {`[{"v":true},{"v":"true"},{"v":"x"}]`, "SELECT count(*) FROM t1 WHERE v = 'true'", "2", "v: strings of JSON equal numbers and booleans with the same text"},
	"1 and a text":                           {`[{"v":1},{"v":"1"},{"v":2}]`, "SELECT count(*) FROM t1 WHERE v = 1", "2", "v: strings of JSON equal"},
	"a bar in a cell of psql":                {" id | cmd \n----+-----\n  1 | a | b\n  2 | c\n(2 rows)\n", "SELECT group_concat(cmd) FROM t1", "a \\| b,c", ""},
	"a bar in a cell of mysql":               {"+----+-------+\n| id | cmd   |\n+----+-------+\n|  1 | a | b |\n|  2 | \u6771\u4eac  |\n+----+-------+\n", "SELECT group_concat(cmd) FROM t1", "a \\| b,\u6771\u4eac", ""},
	"lines in a cell of psql":                {" t   | u    \n-----+------\n a  +| one +\n b   | two  \n c++ | d++\n(2 rows)\n", "SELECT * FROM t1 ORDER BY t", "a\\nb|one\\ntwo\nc++|d++", ""},
	"lines in a cell of mysql":               {"+----+-----+\n| id | t   |\n+----+-----+\n|  1 | a\nb |\n|  2 | c   |\n+----+-----+\n", "SELECT * FROM t1", "1|a\\nb\n2|c", ""},
	"names of all columns but the first":     {"\"Weight\",\"Feed\"\n\"1\",26.5,5.2\n\"2\",27.5,5.3\n\"3\",28.5,5.4\n", "SELECT sum(Weight), max(Feed), max(c1) FROM t1", "82.5|5.4|3", "the names were taken for those from the second column on"},
	"rows that end with a comma":             {"w,f\n1,26.5,\n2,27.5,\n3,28.5,\n", "SELECT sum(w), max(f) FROM t1", "6|28.5", ""},
	"several CR at the end of a line":        {"\"a b\",\"n\"\r\r\n\"x\",1.5\r\r\n\"y\",2.5\r\r\n", "SELECT sum(n) FROM t1 WHERE \"a b\" > ''", "4.0", ""},
	"more cells than names":                  {"| a | b |\n|---|---|\n| 1 | x | y |\n| 2 | z |\n", "SELECT * FROM t1", "1|x|y\n2|z|NULL", "1 rows have more cells than the others, from column 3 on"},
	"a table of Org":                         {"| a | b |\n|---+---|\n| 1 | x |\n| 2 | z |\n", "SELECT * FROM t1", "1|x\n2|z", ""},
	"wide characters":                        {"NAME     CITY     N\n\u7530\u4e2d\u592a\u90ce \u6771\u4eac     5\nbob      Rome     6\n", "SELECT CITY FROM t1 WHERE N = 5", "\u6771\u4eac", ""},
	"wide characters of tabwriter":           {"NAME   CITY   N\n\u7530\u4e2d\u592a\u90ce   \u6771\u4eac     5\nbob    Rome   6\n", "SELECT CITY FROM t1 WHERE N = 5", "\u6771\u4eac", ""},
	"a cell wider than its column":           {"NAME     READY   N\nweb      1/1     5\nverylongname-x 2/2     6\nab       3/3     7\n", "SELECT READY FROM t1 WHERE N = 6", "2/2", "1 rows have cells that are not below their names"},
	"quotes behind a backslash":              {"id,text,n\n1,\"a \\\"x, y\\\" b\",5\n2,\"c\",6\n", "SELECT text, n FROM t1 LIMIT 1", "a \"x, y\" b|5", ""},
	"a backslash before a quote":             {"dir,n\n\"C:\\dir\\\",1\n\"D:\\\",2\n", "SELECT dir, n FROM t1 LIMIT 1", "C:\\dir\\|1", ""},
	"a broken line":                          {"{\"n\":1}\n{\"n\":2\n{\"n\":3}\n", "SELECT sum(n) FROM t1", "4", "the JSON in its lines, without the 1 lines that have none"},
	"a decimal that merges, behind others":   {"id,v\nr0,1.0\nr1,3.0\nr2,3.1\nr3,3.10\n", "SELECT v_text FROM t1 WHERE v = 3.1 AND v_text <> ''", "3.10", "v: '3.10' is read as 3.1; v_text has"},
	"an integer that merges, behind others":  {"a,n\nx,1\ny,2\nz,9007199254740993\nw,1.5\n", "SELECT n_text FROM t1 WHERE n > 2", "9007199254740993", "n: '9007199254740993' is read as"},
	"decimals that print as they are":        {"id,v\nr0,1.0\nr1,3.25\n", "SELECT sum(v) FROM t1", "4.25", ""},
	"decimals of JSON":                       {`[{"v":3.1},{"v":3.10},{"v":3.9}]`, "SELECT v_text FROM t1 WHERE v < 4 AND v_text <> ''", "3.10", "v: '3.10' is read as 3.1"},
	"decimals of YAML":                       {"items:\n- v: 3.10\n- v: 3.1\n- v: 3.9\n", "SELECT count(DISTINCT v) FROM t1", "2", "v: '3.10' is read as 3.1"},
	"codes beside decimals":                  {"a,m\nx,3.10\ny,3.9\nz,007\n", "SELECT max(m) FROM t1", "3.9", "m is TEXT (such as '"},
	"versions with letters":                  {"a,r\nx,go1.9\ny,go1.10\n", "SELECT max(r) FROM t1", "go1.9", "'go1.10' is less than 'go1.9'"},
	"ids with letters":                       {"n,r\n1,r9\n2,r10\n", "SELECT max(r) FROM t1", "r9", "'r10' is less than 'r9'"},
	"dates with the day of the week":         {"d,n\nMon 01 Jan 2024,1\n\"Fri, 2 Feb 2024\",2\n", "SELECT min(d), max(d) FROM t1", "2024-01-01|2024-02-02", "d: 'Mon 01 Jan 2024' is read as 2024-01-01"},
	"dates of ctime":                         {"d,n\nMon Jan  1 10:00:00 2024,1\nFri Dec  1 09:00:00 2023,2\n", "SELECT min(d) FROM t1", "2023-12-01 09:00:00", "is read as 2024-01-01 10:00:00"},
	"a column beside a sum":                  {"name,ms\na,1\nb,2\n", "SELECT name, sum(ms) FROM t1", "a|3", "name is neither aggregated nor in GROUP BY"},
	"a column of a function beside a count":  {"name,ms\na,1\nb,2\n", "SELECT upper(name), count(*) FROM t1", "A|2", "name is neither aggregated"},
	"a column in another group":              {"name,g,ms\na,x,1\nb,x,2\n", "SELECT g, name, sum(ms) FROM t1 GROUP BY g", "x|a|3", "name is neither aggregated"},
	"all columns beside a count":             {"name,ms\na,1\nb,2\n", "SELECT *, count(*) FROM t1", "a|1|2", "* is neither aggregated nor in GROUP BY"},
	"a column of a group":                    {"name,g,ms\na,x,1\nb,x,2\n", "SELECT g, name FROM t1 GROUP BY g", "x|a", "name is neither aggregated nor in GROUP BY"},
	"a product of columns":                   {"a,b\n7,2\n", "SELECT a * b, count(*) FROM t1 GROUP BY a, b", "14|1", ""},
	"a column beside a maximum":              {"name,ms\na,1\nb,2\n", "SELECT name, max(ms) FROM t1", "b|2", ""},
	"a column in its group":                  {"name,ms\na,1\na,2\n", "SELECT t1.name AS who, sum(ms) ms FROM t1 GROUP BY name", "a|3", ""},
	"a group by number":                      {"name,ms\na,1\na,2\n", "SELECT upper(name), sum(ms) FROM t1 GROUP BY 1", "A|3", ""},
	"a group by another name":                {"name,ms\na,1\na,2\n", "SELECT substr(name, 1, 1) AS k, sum(ms) FROM t1 GROUP BY k", "a|3", ""},
	"a select in a select":                   {"name,ms\na,1\nb,2\n", "SELECT name, (SELECT sum(ms) FROM t1) FROM t1", "a|3\nb|3", ""},
	"a sum over a window":                    {"name,ms\na,1\nb,2\n", "SELECT name, sum(ms) OVER (ORDER BY name) FROM t1", "a|1\nb|3", ""},
	"a division of integers":                 {"a,b\n7,2\n", "SELECT a / b FROM t1", "3", "an integer divided by an integer has no fraction"},
	"a mean of integers":                     {"a,b\n7,2\n4,2\n", "SELECT sum(a) / count(*) FROM t1", "5", "an integer divided by an integer"},
	"a share of integers":                    {"a,b\n7,2\n4,2\n", "SELECT 100 * sum(b) / sum(t1.a) FROM t1", "36", "an integer divided by an integer"},
	"a share with a fraction":                {"a,b\n8,2\n8,2\n", "SELECT 100.0 * sum(b) / sum(a), a * 1.0 / b, avg(a) / 2, CAST(a AS REAL) / b FROM t1 LIMIT 1", "25.0|4.0|4.0|4.0", "a is neither aggregated"},
	"an order by a text":                     {"name,ms\nb,1\na,2\n", "SELECT name FROM t1 ORDER BY 'name'", "b\na", "ORDER BY 'name' has the same text for each row"},
	"letters beyond ASCII":                   {"name,ms\nÄpfel,1\nÖl,2\n", "SELECT lower(name), upper('é') FROM t1 WHERE lower(name) = 'äpfel'", "äpfel|É", ""},
	"LIKE beyond ASCII":                      {"name,ms\nÄpfel,1\nÖl,2\n", "SELECT count(*) FROM t1 WHERE name LIKE 'ä%'", "1", ""},
	"LIKE a column beyond ASCII":             {"name,p,n\nÄpfel,%PFEL,1\nÖl,ö_,2\na_b,a\\_b,3\n", "SELECT sum(name LIKE p), sum(name LIKE p ESCAPE '\\'), max('aXbXc' LIKE '%xc'), max('ab' LIKE '%a') FROM t1", "2|3|1|0", ""},
	"NOCASE beyond ASCII":                    {"name,ms\näpfel,1\nÄPFEL,2\nZ,3\n", "SELECT name, sum(ms) FROM t1 GROUP BY name COLLATE NOCASE ORDER BY name COLLATE NOCASE DESC", "äpfel|3\nZ|3", ""},
	"a division through an expression":       {"a,b\n7,2\n", "SELECT (a+0)/b FROM t1", "3", "an integer divided by an integer has no fraction"},
	"a division through a function":          {"a,b\n7,2\n", "SELECT count(*) FROM t1 WHERE a/abs(b) > 3", "0", "an integer divided by an integer"},
	"a division through names":               {"a,b\n7,2\n", "WITH x(p, q) AS (SELECT a, b FROM t1) SELECT p/q FROM x", "3", "an integer divided by an integer"},
	"a division without a rest":              {"a,b\n8,2\n", "SELECT a/b, 'a/b' FROM t1 -- /", "4|a/b", ""},
	"a division that is cut":                 {"a,b\n7,2\n", "SELECT CAST(a/b AS INTEGER), a*1.0/b/1 FROM t1", "3|3.5", ""},
	"a text behind a column in ORDER BY":     {"name,ms\nb,1\na,2\n", "SELECT name FROM t1 ORDER BY ms, 'name' DESC LIMIT 1", "b", "ORDER BY 'name' has the same text for each row"},
	"a text in brackets in ORDER BY":         {"name,ms\nb,1\na,2\n", "SELECT name FROM t1 ORDER BY ('name') LIMIT 1", "b", "ORDER BY 'name' has the same text"},
	"a text in the order of a window":        {"name,ms\nb,1\na,2\n", "SELECT name, row_number() OVER (ORDER BY 'name' ROWS UNBOUNDED PRECEDING) FROM t1 LIMIT 1", "b|1", "ORDER BY 'name' has the same text"},
	"a text within an order":                 {"name,ms\nb,1\na,2\n", "SELECT name FROM t1 ORDER BY name = 'b', substr(name, 1), CASE ms WHEN 1 THEN 'x' END LIMIT 1", "a", ""},
	"a column in HAVING":                     {"name,g,ms\na,x,1\nb,x,2\n", "SELECT g, count(*) FROM t1 GROUP BY g HAVING ms > 0", "x|2", "ms is neither aggregated nor in GROUP BY"},
	"a column in ORDER BY of a count":        {"name,g,ms\na,x,1\nb,x,2\n", "SELECT g, count(*) FROM t1 GROUP BY g ORDER BY ms DESC", "x|2", "ms is neither aggregated nor in GROUP BY"},
	"a name in ORDER BY of a count":          {"name,g,ms\na,x,1\nb,x,2\n", "SELECT g, count(*) AS n, max(ms) ms FROM t1 GROUP BY g HAVING n > 1 AND sum(t1.ms) > 1 ORDER BY ms, g, n", "x|2|2", ""},
	"a column beside a distinct count":       {"name,g,ms\na,x,1\nb,x,2\n", "SELECT DISTINCT name, count(*) FROM t1", "a|2", "name is neither aggregated"},
	"a column of WITH beside a sum":          {"name,ms\na,1\nb,2\n", "WITH x(who, took) AS (SELECT * FROM t1) SELECT who, sum(took) FROM x", "a|3", "who is neither aggregated"},
	"prices by the name of WITH":             {"a,n\nx,1k\ny,2k\nz,300\n", "WITH x(i, m) AS (SELECT a, n FROM t1) SELECT sum(m) FROM x", "303.0", "n is TEXT (such as '1k')"},
	"prices by several names":                {"a,n\nx,1k\ny,2k\nz,300\n", "SELECT sum(q) FROM (SELECT coalesce(p, 0) q FROM (SELECT n p FROM t1))", "303.0", "n is TEXT (such as '1k')"},
	"names with numbers":                     {"host,n\ndb-1,1\nweb-2,3\nweb-9,1\nweb-10,2\n", "SELECT host FROM t1 ORDER BY host DESC LIMIT 1", "web-9", "'web-10' is less than 'web-9'"},
	"names with numbers that are not sorted": {"host,n\nweb-9,1\nweb-10,2\n", "SELECT count(host) AS n FROM t1 ORDER BY n", "2", ""},
	"names with numbers of one length":       {"host,n\nweb-09,1\nweb-10,2\n", "SELECT max(host) FROM t1", "web-10", ""},
	"empty cells in a self join":             {"k,n\na,1\n,2\n,3\n", "SELECT count(*) FROM t1 AS x JOIN t1 AS y ON x.k = y.k", "5", "k and k have empty cells, which equal each other"},
	"empty cells that are left out":          {"k,n\na,1\n,2\n,3\n", "SELECT count(*) FROM t1 AS x JOIN t1 AS y ON x.k = y.k WHERE x.k <> ''", "1", ""},
	"a remainder of reals":                   {"a,n\nx,7.5\ny,8.0\n", "SELECT n % 2 FROM t1 WHERE a = 'x'", "1.0", "use mod(n, n)"},
	"mod of reals":                           {"a,n\nx,7.5\ny,8.0\n", "SELECT mod(n, 2) FROM t1 WHERE a = 'x'", "1.5", ""},
	"a list of YAML in lines":                {"# x\n- {name: a, n: 1}\n- {name: b, n: 2}\n", "SELECT name, n FROM t1", "a|1\nb|2", ""},
	"severities":                             {"id,severity\n1,low\n2,critical\n3,medium\n", "SELECT max(severity) FROM t1", "medium", "is less than"},
	"months that are counted":                {"month,n\nJan,1\nApr,2\n", "SELECT count(month) FROM t1", "2", ""},
	"quarters":                               {"q,n\nQ4 2024,1\nQ1 2025,2\n", "SELECT max(q) FROM t1", "Q4 2024", "'Q1 2025' is less than 'Q4 2024'"},
	"versions with a letter":                 {"a,r\nx,v1.9.2\ny,v1.10.0\n", "SELECT max(r) FROM t1", "v1.9.2", "r is TEXT (such as 'v1.9.2')"},
	"a log of W3C with another order":        {"#Fields: date time status\n2025-01-01 10:00 200\n#Fields: status date time\n404 2025-01-01 10:01\n", "SELECT sum(status), max(time) FROM t1", "604|10:01", "1 rows follow a line with the names in another order"},
	"a log of W3C with the same order":       {"#Fields: date time status\n2025-01-01 10:00 200\n#Fields: date time status\n2025-01-01 10:01 404\n", "SELECT sum(status), max(date) FROM t1", "604|2025-01-01", ""},
	"a log of Zeek with another column":      {"#fields\tts\tuid\n1.5\ta\n#fields\tid\tuid\tts\n7\tb\t2.5\n", "SELECT max(ts), max(uid) FROM t1", "2.5|b", "its columns id are left out"},
	"a name again in an object":              {`[{"a":1,"a":2},{"a":3}]`, "SELECT sum(a) FROM t1", "5", "1 cells are the last of several values with the same name"},
	"a name again in a line of a log":        {"x\n{\"a\":1,\"a\":2}\n{\"a\":3}\n", "SELECT sum(a) FROM t1", "5", "1 cells are the last of several values with the same name"},
	"days between dates":                     {"d,n\n2025-01-01,1\n2025-02-01,2\n", "SELECT max(d) - min(d) FROM t1", "0", "d is DATE, a text as in ISO 8601"},
	"days between named dates":               {"d,n\n2025-01-01,1\n2025-02-01,2\n", "SELECT b - a FROM (SELECT max(d) AS b, min(d) AS a FROM t1)", "0", "d is DATE, a text as in ISO 8601"},
	"days between dates as numbers":          {"d,n\n2025-01-01,1\n2025-02-01,2\n", "SELECT julianday(max(d)) - julianday(min(d)), max(n) - min(n) FROM t1", "31.0|1", ""},
	"a year as a number":                     {"d,n\n2024-01-01,1\n2025-02-01,2\n", "SELECT count(*) FROM t1 WHERE strftime('%Y', d) = 2024", "0", "strftime() returns a text, which never equals a number"},
	"a year as a number in front":            {"d,n\n2024-01-01,1\n2025-02-01,2\n", "SELECT count(*) FROM t1 WHERE 2024 = substr(trim(d), 1, 4)", "0", "substr() returns a text"},
	"a named year as a number":               {"d,n\n2024-01-01,1\n2025-02-01,2\n", "SELECT count(*) FROM (SELECT strftime('%Y', d) AS y FROM t1) WHERE y IN (2024, 2025)", "0", "strftime() returns a text"},
	"a year as a text":                       {"d,n\n2024-01-01,1\n2025-02-01,2\n", "SELECT sum(strftime('%Y', d) = '2024'), sum(CAST(substr(d, 1, 4) AS INTEGER) = 2024) FROM t1 WHERE n < 5 AND length(upper(d)) = 10", "1|1", ""},
	"types of EXCEPT":                        {"id,code\n1,01\n10,10\n", "SELECT count(*) FROM (SELECT DISTINCT t1.id FROM t1 EXCEPT SELECT code AS id FROM t1)", "2", "id and code are compared, and are of several types (number, TEXT)"},
	"types of the second column of UNION":    {"id,n,code\n1,5,01\n10,6,10\n", "SELECT count(*) FROM (SELECT max(id, 1), n FROM t1 UNION SELECT id, code FROM t1 LIMIT 9)", "4", "n and code are compared"},
	"types of UNION ALL and equal ones":      {"id,n,code\n1,5,01\n10,6,10\n", "SELECT count(*) FROM (SELECT id, n FROM t1 UNION SELECT n, id FROM t1) UNION ALL SELECT code FROM t1 LIMIT 1", "4", ""},
	"types in NOT IN":                        {"id,code\n1,01\n10,10\n", "SELECT count(*) FROM t1 WHERE code NOT IN (SELECT t1.id FROM t1)", "0", "code and id are compared, and are of several types (TEXT, number)"},
	"types in a subselect":                   {"id,code\n1,01\n10,10\n", "SELECT count(*) FROM t1 WHERE id IN (SELECT code FROM t1)", "2", "id and code are compared"},
	"times of several forms":                 {"id,d,e\n1,2025-01-01T10:00:00Z,2025-01-01 10:00:00\n2,2025-01-02T10:00:00Z,2025-01-02 10:00:00\n", "SELECT count(*) FROM t1 a JOIN t1 b ON a.d = b.e", "0", "d and e are compared, and are of several types (DATE of the form 0000-00-00T00:00:00Z, DATE of the form 0000-00-00 00:00:00)"},
	"times of several forms in EXCEPT":       {"id,d,e\n1,2025-01-01T10:00:00Z,2025-01-01 10:00:00\n2,2025-01-02T10:00:00Z,2025-01-02 10:00:00\n", "SELECT count(*) FROM (SELECT d FROM t1 EXCEPT SELECT e FROM t1)", "2", "d and e are compared"},
	"times of several forms in a subselect":  {"id,d,e\n1,2025-01-01T10:00:00Z,2025-01-01 10:00:00\n2,2025-01-02T10:00:00Z,2025-01-02 10:00:00\n", "SELECT count(*) FROM t1 WHERE e > (SELECT max(d) FROM t1)", "0", "e and d are compared"},
	"a time and a day":                       {"d,e\n2025-01-01 10:00:00,2025-01-01\n", "SELECT count(*) FROM t1 WHERE d = e", "0", "d and e are compared, and are of several types (DATE of the form 0000-00-00 00:00:00, DATE)"},
	"times of several zones in two columns":  {"d,e\n2025-01-01 10:00:00+02:00,2025-01-01 08:00:00+00:00\n", "SELECT count(*) FROM t1 WHERE d = e", "0", "d and e are compared"},
	"times of one form":                      {"d,e\n2025-01-01 10:00:00,2025-01-01 10:00:00\n", "SELECT sum(d = e), sum(date(d) = date(e)) FROM t1", "1|1", ""},
	"unequal to NULL":                        {"a,b\n1,5\n2,\n3,6\n", "SELECT count(*) FROM t1 WHERE b <> 5", "1", "b: 1 cells are NULL, which <> and NOT leave out"},
	"not in, beside NULL":                    {"a,b\n1,5\n2,\n3,6\n", "SELECT count(*) FROM t1 WHERE b NOT IN (5)", "1", "b: 1 cells are NULL"},
	"not in what has NULL":                   {"a,b\n1,5\n2,\n3,6\n", "SELECT count(*) FROM t1 WHERE a NOT IN (SELECT b FROM t1)", "0", "b has 1 NULLs, beside which NOT IN finds no rows"},
	"unequal without NULL":                   {"a,b\n1,5\n2,\n3,6\n", "SELECT count(*) FROM t1 WHERE a <> 1 AND (b != 5 OR b IS NULL) AND a NOT IN (SELECT b FROM t1 WHERE b IS NOT NULL)", "2", ""},
	"null in JSON":                           {`[{"s":"open"},{"s":null},{}]`, "SELECT count(*) FROM t1 WHERE s NOT LIKE 'o%'", "0", "s: 2 cells are NULL"},
	"a list compared with text":              {`[{"t":["a","b"]},{"t":["ab"]}]`, "SELECT count(*) FROM t1 WHERE t = 'a'", "0", "t is JSON: comparisons and text functions see its text, such as '[\"a\",\"b\"]'"},
	"the length of a list":                   {`[{"t":["a","b"]},{"t":["ab"]}]`, "SELECT max(length(t)) FROM t1", "9", "t is JSON"},
	"a value of a list":                      {`[{"t":["a","b"]},{"t":["ab"]}]`, "SELECT sum(t->>0 = 'a'), max(json_array_length(t)), max(upper(t->>0)), max(length(json_extract(t, '$[0]'))) FROM t1", "1|2|AB|2", ""},
	"OR without a comparison":                {"s,n\nok,1\nbad,2\nskip,3\n", "SELECT count(*) FROM t1 WHERE s = 'ok' OR 'bad'", "1", "OR bad is no comparison"},
	"OR with a comparison":                   {"s,n\nok,1\nbad,2\nskip,3\n", "SELECT count(*) FROM t1 WHERE s = 'ok' OR 'bad' = s OR n BETWEEN 7 AND 8 OR s LIKE 'bad'", "2", ""},
	"a count of a condition":                 {"s,n\nok,1\nbad,2\n", "SELECT count(lower(s) = 'bad') FROM t1", "2", "COUNT counts each row whose condition"},
	"a count of what is not NULL":            {"s,n\nok,1\nbad,2\n", "SELECT count(CASE WHEN s = 'bad' THEN 1 END), count(s = 'bad' OR NULL), count(DISTINCT s), count(s || n) FROM t1 WHERE n > 0", "1|1|2|2", ""},
	"the name of a column in single quotes":  {"s,n\nok,1\nbad,2\n", "SELECT count(*) FROM t1 WHERE 'n' > 1", "2", "'n' is a text and not the column"},
	"the sum of a name in single quotes":     {"s,n\nok,1\nbad,2\n", "SELECT sum('n') FROM t1", "0.0", "'n' is a text and not the column"},
	"a text that is also the name":           {"s,n\nn,1\nbad,2\n", "SELECT count(*) FROM t1 WHERE s = 'n' AND s IN ('n') AND lower('n') = s", "1", ""},
	"equal to NULL":                          {"s,n\nok,1\nbad,\n", "SELECT count(*) FROM t1 WHERE n = NULL", "0", "nothing equals NULL; write IS NULL"},
	"JSON compared with a text":              {`[{"m":{"s":"a"}},{"m":{"s":"b"}}]`, "SELECT count(*) FROM t1 WHERE m->'s' = 'a'", "0", "-> gives JSON, such as '\"a\"' with its quotes; compare ->>'s'"},
	"a key with the name of a column":        {`[{"m":{"s":"a"},"s":1},{"m":{"s":"b"},"s":2}]`, "SELECT count(*) FROM t1 WHERE m->>'s' = 'a'", "1", ""},
	"a month of one digit":                   {"d,n\n2025-03-01,1\n2025-04-01,2\n", "SELECT count(*) FROM t1 WHERE strftime('%m', d) = '3'", "0", "strftime('%m') gives two digits: '03', not '3'"},
	"a part of a date with one digit":        {"d,n\n2025-03-01,1\n2025-04-01,2\n", "SELECT count(*) FROM t1 WHERE d LIKE '2025-3%'", "0", "'2025-03', not '2025-3'"},
	"parts of dates with two digits":         {"d,n\n2025-03-01,1\n2025-04-01,2\n", "SELECT sum(d LIKE '2025-03%'), sum(substr(d, 1, 7) = '2025-03'), sum(strftime('%m', d) = '03'), sum(strftime('%w', d) = '6') FROM t1", "1|1|1|1", ""},
	"a time of another form":                 {"at,n\n2025-01-10T10:00:00,1\n2025-01-10T12:00:00,2\n", "SELECT count(*) FROM t1 WHERE at > datetime('2025-01-10 12:00:00', '-1 hour')", "2", "at has values such as 2025-01-10T10:00:00, which datetime() does not give; compare datetime(at)"},
	"a time of the same form":                {"at,n\n2025-01-10T10:00:00,1\n2025-01-10T12:00:00,2\n", "SELECT count(*) FROM t1 WHERE datetime(at) > datetime('2025-01-10 12:00:00', '-1 hour')", "1", ""},
	"a time of the form of datetime":         {"at,n\n2025-01-10 10:00:00,1\n2025-01-10 12:00:00,2\n", "SELECT count(*) FROM t1 WHERE at > datetime('2025-01-10 12:00:00', '-1 hour')", "1", ""},
	"NULL is the first":                      {"s,n\na,5\nb,\nc,3\n", "SELECT s FROM t1 ORDER BY n LIMIT 1", "b", "n: 1 cells are NULL, which sort first; to leave them out, add WHERE n IS NOT NULL"},
	"NULL is not the first":                  {"s,n\na,5\nb,\nc,3\n", "SELECT s FROM t1 WHERE n > 0 ORDER BY t1.n ASC, s LIMIT 1", "c", ""},
	"NULL is the last":                       {"s,n\na,5\nb,\nc,3\n", "SELECT s, (SELECT s FROM t1 ORDER BY n NULLS LAST LIMIT 1) FROM t1 ORDER BY n DESC LIMIT 1", "a|c", ""},
	"a sum with NULL":                        {"a,b\n1,5\n2,\n", "SELECT sum(a + b) FROM t1", "6", "b: 1 cells are NULL, and so are their sums with other columns; write coalesce(b, 0)"},
	"sums with NULL":                         {"a,b\n1,5\n2,\n", "SELECT sum(a) + sum(b), sum(a + coalesce(b, 0)), sum(b - 1), sum(a * b) FROM t1", "8|8|4|5", ""},
	"a choice by a text":                     {"t,n\nt,1\nf,2\n", "SELECT sum(iif(t, 1, 0)) FROM t1", "0", "t is TEXT (such as 't')"},
	"NOT, a comparison and a count":          {"s,n\nok,5432/tcp\nok,0.0.0.0:80->80/tcp\nbad,\n", "SELECT count(*) FROM t1 WHERE NOT s = 'ok' AND n = ''", "1", ""},
	"a space that does not break":            {"city,n\nOslo,1\nOslo\u00a0,2\n", "SELECT sum(n) FROM t1 WHERE city = 'Oslo'", "1", "not seen, such as \"Oslo\\u00a0\""},
	"a character without width":              {"city,n\nOslo,1\nOs\u200blo,2\n", "SELECT sum(n) FROM t1 WHERE city = 'Oslo'", "1", "not seen, such as \"Os\\u200blo\""},
	"an accent of its own":                   {"city,n\nZ\u00fcrich,1\nZu\u0308rich,2\n", "SELECT sum(n) FROM t1 WHERE city = 'Z\u00fcrich'", "1", "not seen, such as \"Zu\\u0308rich\""},
	"spaces and accents within texts":        {"city,n\nZ\u00fcrich\u00a0HB,1\nOslo,2\n", "SELECT sum(n) FROM t1 WHERE city > 'P'", "1", ""},
	"columns of pandas":                      {`{"id":{"0":1,"1":2,"2":3},"n":{"0":30,"1":40,"2":50}}`, "SELECT count(*) FROM t1", "2", "t1 has a row for each column of the document"},
	"numbers in strings of JSON":             {`[{"m":{"v":"9"}},{"m":{"v":"10"}}]`, "SELECT max(m->>'v') FROM t1", "9", "m->>'v' gives texts such as '9'"},
	"a bound for strings of JSON":            {`[{"m":{"v":"9"}},{"m":{"v":"10"}}]`, "SELECT count(*) FROM t1 WHERE json_extract(t1.m, '$.v') > 50", "2", "json_extract(m, '$.v') gives texts such as '9'"},
	"a name of strings of JSON":              {`[{"m":{"v":"9"}},{"m":{"v":"10"}}]`, "SELECT t1.m->>'v' AS v FROM t1 ORDER BY v", "10\n9", "m->>'v' gives texts such as '9'"},
	"numbers of JSON and sums of strings":    {`[{"m":{"v":9,"s":"9"}},{"m":{"v":10,"s":"x"}}]`, "SELECT max(m->>'v'), sum(m->>'s'), max(CAST(m->>'s' AS REAL)), min(m->>'s' = '9') FROM t1 WHERE m->>'v' > 5", "10|9.0|9.0|0", ""},
	"Latin-1 with spaces between thousands":  {"Libell\xe9;Montant\nCaf\xe9;1\xa0234,56\nTh\xe9;-12,00\n", "SELECT sum(Montant), max(\"Libell\u00e9\") FROM t1", "1222.56|Th\u00e9", ""},
	"a row of sums in German":                {"Region;n\nNord;5\nS\u00fcd;6\nSumme;11\n", "SELECT sum(n) FROM t1", "22", "the column Region has a 'Summe'"},
	"a row of sums in French":                {"R;n\nNord;5\nSud;6\nTotal g\u00e9n\u00e9ral;11\n", "SELECT sum(n) FROM t1", "22", "the column R has a 'Total g"},
	"a row of means":                         {"name,ms\na,5\nb,9\nAverage,7\n", "SELECT count(*) FROM t1", "3", "the column name has a 'Average'"},
	"empty rows":                             {"id,n\n1,5\n,\n2,6\n,\n", "SELECT count(*) FROM t1", "4", "t1: 2 rows have only empty cells"},
	"dates of mails":                         {"at,n\n\"Mon, 06 Jan 2025 10:00:00 GMT\",1\n\"Tue, 31 Dec 2024 23:00:00 +0000\",2\n", "SELECT max(at) FROM t1", "2025-01-06 10:00:00", "is read as 2025-01-06 10:00:00"},
	"dates of mails in other zones":          {"at,n\n\"Mon, 06 Jan 2025 10:00:00 +0100\",1\n\"Tue, 31 Dec 2024 23:00:00 CET\",2\n", "SELECT max(at) FROM t1", "Tue, 31 Dec 2024 23:00:00 CET", "at is TEXT (such as 'Mon, 06 Jan"},
	"dates of web servers":                   {"at,n\n31/Dec/2024:23:00:00 +0000,1\n06/Jan/2025:10:00:00 +0000,2\n", "SELECT max(at) FROM t1", "2025-01-06 10:00:00", "is read as 2024-12-31 23:00:00"},
	"months":                                 {"m,n\nJan-25,1\nDec-24,2\nFebruary 2025,3\n", "SELECT max(m) FROM t1", "Jan-25", "m is TEXT (such as 'Jan-25')"},
	"months as names":                        {"name,Jan 2025,Feb 2025\na,1,2\nb,3,4\n", `SELECT sum("Jan 2025") FROM t1`, "4", ""},
	"times with the names of zones":          {"at,n\n2025-03-30 01:59:00 CET,1\n2025-03-30 03:01:00 CEST,2\n", "SELECT max(at) FROM t1", "2025-03-30 03:01:00 CEST", "at is TEXT (such as '2025-03-30"},
	"a grid":                                 {"+---+-----+\n| A | B   |\n+===+=====+\n| 1 | 2   |\n+---+-----+\n| 3 | 4   |\n+---+-----+\n", "SELECT sum(B), count(*) FROM t1", "6|2", ""},
	"a log of Zeek":                          {"#separator \\x09\n#fields\tts\tid.orig_h\n#types\ttime\taddr\n1.5\t10.0.0.1\n2.5\t10.0.0.2\n#close\n", "SELECT count(*), max(ts) FROM t1", "2|2.5", ""},
}

func TestMisleadingInputs(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}}) // in this process, because that is faster
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	all := maps.Clone(misleading)
	maps.Copy(all, misleadingValues)
	for name, row := range all {
		putArtifact(t, store, "s", name, []byte(row.text))
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: row.sql, Artifacts: []string{name}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, got, _ := strings.Cut(res.Text(), ":\n\n")
		_, got, _ = strings.Cut(got, "\n")
		if rows, _, _ := strings.Cut(got, "\n\n["); rows != row.want || !strings.Contains(got, row.note) || row.note == "" && len(res.Notes) > 0 {
			t.Errorf("%s:\n%s\nwant %s and the note %q", name, got, row.want, row.note)
		}
	}
}

// TestColumnsOfOneNameAndSeveralTypes: the note names each type once, and columns of one type have none.
func TestColumnsOfOneNameAndSeveralTypes(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	putArtifact(t, store, "s", "a", []byte("id,at,n,k\n01,2025-01-01T10:00:00Z,1,\n10,2025-01-01T10:00:00Z,2,x\n"))
	putArtifact(t, store, "s", "b", []byte("id,at,n,k\n1,2025-01-01 10:00:00,1,\n10,2025-01-01 10:00:00,3,x\n"))
	for sql, want := range map[string]string{
		"SELECT id FROM a EXCEPT SELECT id FROM b":            "id and id are compared, and are of several types (TEXT, number), which may never be equal",
		"SELECT * FROM a INTERSECT SELECT * FROM b":           "id and id are compared, and are of several types (TEXT, number), which may never be equal",
		"SELECT count(*) FROM a JOIN b USING (at)":            "at and at are compared, and are of several types (DATE of the form 0000-00-00T00:00:00Z, DATE of the form 0000-00-00 00:00:00), which may never be equal",
		"SELECT count(*) FROM a JOIN b ON a.k = b.k":          "k and k have empty cells, which equal each other; to leave them out, add WHERE k <> ''",
		"SELECT k FROM a UNION SELECT k FROM b":               "",
		"SELECT n FROM a UNION SELECT n FROM b":               "",
		"SELECT count(*) FROM a WHERE n IN (SELECT n FROM b)": "",
		"SELECT * FROM a UNION ALL SELECT * FROM b":           "",
	} {
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: sql})
		if err != nil || strings.Join(res.Notes, "|") != want {
			t.Errorf("%s: %v, %v; want the note %q", sql, res, err, want)
		}
	}
}

// TestPlacesOfADocument: each table of a document can be selected, in the form that an answer shows.
func TestPlacesOfADocument(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	var many strings.Builder
	for i := range 40 {
		fmt.Fprintf(&many, `"k%d":{"v":%d,"key":"x"},`, i, i)
	}
	putArtifact(t, store, "s", "doc", []byte(`{"runs":[{"results":[{"n":1},{"n":2}]},{"results":[{"n":4}]}],"by name":{`+many.String()+`"last":{"v":100}},"scripts":{"build":"make","test":"go test"},"empty":[]}`))
	putArtifact(t, store, "s", "rows", []byte("[[1,2],[3,4]]"))
	for path, want := range map[string]string{
		"":                  "SELECT count(*), sum(v), max(key), max(key_2) FROM t1|41|880|last|x",
		".runs[0].results":  "SELECT sum(n) FROM t1|3",
		".runs[1].results":  "SELECT sum(n) FROM t1|4",
		".runs[].results":   "SELECT sum(n) FROM t1|7",
		".runs[].results[]": "SELECT sum(n) FROM t1|7",
		`.["by name"]`:      "SELECT count(*) FROM t1|41",
		`$['by name']`:      "SELECT count(*) FROM t1|41",
		".scripts":          "SELECT value FROM t1 WHERE key = 'test'|go test",
		".empty":            "|there are no rows at .empty; the document has .[\"by name\"] (41 rows, 2 columns), .runs (2 rows, 1 columns), .runs[].results (3 rows, 1 columns), which artifacts: [\"doc:.[\\\"by name\\\"]\"] selects",
		".runs[x]":          "|is not one such as",
	} {
		sql, want, _ := strings.Cut(want, "|")
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: cmp.Or(sql, "SELECT 1"), Artifacts: []string{"doc"}, Path: path})
		if sql == "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %s", path, err, want)
			}
		} else if err != nil || !strings.Contains(res.Text(), "\n"+want) {
			t.Errorf("%s: %v, %v; want %s", path, res, err, want)
		}
	}
	_, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "SELECT 1", Artifacts: []string{"doc", "rows"}, Path: ".runs"})
	wantCode(t, err, tools.CodeInvalidArguments, `write artifacts: ["doc:.runs"]`)
}

// TestNamesOfAllColumnsButTheFirst: they are not one column too far left, also if the reader says that there are names.
func TestNamesOfAllColumnsButTheFirst(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	putArtifact(t, store, "s", "r", []byte("1990,1995\n1,26.5,5.2\n2,27.5,5.3\n3,28.5,5.4\n"))
	header := true
	res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: `SELECT sum("1990") FROM t1`, Artifacts: []string{"r"}, Header: &header})
	if err != nil || !strings.Contains(res.Text(), "82.5") || !strings.Contains(res.Text(), "from the second column on") {
		t.Errorf("%v, %v", res, err)
	}
}

// TestOneColumn: a text without a comma is a table if the reader says which one it would have.
func TestOneColumn(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	r := NewReader(store, ReaderConfig{SQL: sqlite.Engine{}})
	t.Cleanup(func() { _ = r.cfg.SQLCache.Close() })
	for text, want := range map[string]string{"ms\n1.5\n2.5\n": "1|4.0", "1.5\n2.5\n": "1|4.0", "ms\n1.5\n\n2.5\n": "1|4.0", "a b\n": "0|NULL"} {
		putArtifact(t, store, "s", text, []byte(text))
		res, err := r.SQL(t.Context(), "s", SQLQuery{SQL: "WITH x(value) AS (SELECT * FROM t1) SELECT count(*) > 0, sum(value) FROM x", Artifacts: []string{text}, Delimiter: ","})
		if err != nil || !strings.Contains(res.Text(), want) {
			t.Errorf("%q: %v, %v; want %s", text, res, err, want)
		}
	}
}
