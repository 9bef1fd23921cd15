"""Answer SQL queries with Python's sqlite3, with tables that Python imports on its own.

Input: {"csv": text, "json": text, "queries": [...]}. Output: one list of rows for each query.
"""
import csv
import io
import json
import re
import sqlite3
import sys


def typed(values):
    seen = [v for v in values if v not in ("", None)]
    if seen and all(re.fullmatch(r"-?(0|[1-9]\d{0,17})", v) for v in seen):
        return "INTEGER", lambda v: None if v == "" else int(v)
    if seen and all(re.fullmatch(r"-?(0|[1-9]\d{0,14})(\.\d+)?", v) for v in seen):
        return "REAL", lambda v: None if v == "" else float(v)
    return "TEXT", lambda v: v


def load_csv(db, text):
    header, *rows = csv.reader(io.StringIO(text))
    columns = [typed([r[i] for r in rows]) for i in range(len(header))]
    db.execute("CREATE TABLE t1 (%s)" % ", ".join(f'"{n}" {t}' for n, (t, _) in zip(header, columns)))
    for r in rows:
        db.execute("INSERT INTO t1 VALUES (%s)" % ",".join("?" * len(header)), [f(v) for (_, f), v in zip(columns, r)])


def load_json(db, text):
    rows = json.loads(text)["data"]["rows"]
    names = list(dict.fromkeys(k for r in rows for k in r))

    def kind(name):
        values = [r[name] for r in rows if r.get(name) is not None]
        if all(isinstance(v, int) for v in values):
            return "INTEGER"
        if all(isinstance(v, (int, float)) for v in values):
            return "REAL"
        return "TEXT"

    def value(v):
        return json.dumps(v, separators=(",", ":")) if isinstance(v, (dict, list)) else v

    db.execute("CREATE TABLE t2 (%s)" % ", ".join(f'"{n}" {kind(n)}' for n in names))
    for r in rows:
        db.execute("INSERT INTO t2 VALUES (%s)" % ",".join("?" * len(names)), [value(r.get(n)) for n in names])


work = json.load(sys.stdin)
base = sqlite3.connect(":memory:")
load_csv(base, work["csv"])
load_json(base, work["json"])
json.dump([base.execute(q).fetchall() for q in work["queries"]], sys.stdout)
