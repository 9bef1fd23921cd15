# Reads the output of go test -v: prints the lines of the packages, what each test that failed has
# printed, and the ten slowest tests.

/^=== (RUN|CONT|NAME|PAUSE) / { test = $3; next }

# A line of a subtest is indented by its depth; others are what a test has printed.
/^ *--- (PASS|FAIL|SKIP): / && index($0, "---") == 1 + 4 * split($3, parts, "/") - 4 {
  seconds = substr($NF, 2) + 0
  if ($2 == "FAIL:") printf "%s%s\n", said[$3], $0
  tests[++ran] = $3; took[ran] = seconds
  test = $3; said[test] = ""
  next
}

/^(ok|FAIL|---|\?) *\t/ || /^FAIL$/ || /^(panic|SIGQUIT): / || /^# / { crashed = /^(panic|SIGQUIT): / ; print }

/^(ok|FAIL|\?) *\t/ { # the tests before were those of this package
  for (; listed < ran;) package[++listed] = $2
  test = ""; crashed = 0; delete said
  next
}

/^PASS$/ || /^FAIL$/ || /^(panic|SIGQUIT): / || /^# / { next }

test == "" || crashed { print; next }

{ if (++kept[test] < 10000) said[test] = said[test] $0 "\n" }

END {
  print "== the ten slowest tests"
  for (i = 1; i <= ran; i++)
    for (at = 10; at > 0 && took[i] > slow[at] + 0; at--) {
      slow[at + 1] = slow[at]; line[at + 1] = line[at]
      slow[at] = took[i]; line[at] = package[i] " " tests[i]
    }
  for (at = 1; at <= 10 && line[at] != ""; at++) printf "%7.1f s  %s\n", slow[at], line[at]
}
