# The main targets; .ci/run runs check and the README's test command.

.PHONY: build install check lint race thorough cross size test screenshots bench bench-peers fuzz hostile kill book flood mutants small-streams soak simulate power life eval clock hosts frameworks conformance conformance-packages host-costs release site deploy-lint api test-all try

# "go test ./..." leaves out slow tests (integration/slow), and so do the targets test and race; all others run them.
export STEVEDORE_SLOW = 1
test race: export STEVEDORE_SLOW =

# These measure the disk, or store much: their files are not in memory, where tests keep theirs on Linux (bus/bustest).
bench kill flood small-streams soak: export TMPDIR := $(or $(TMPDIR),/tmp)
bench: export GOGC := $(or $(GOGC),100)

# Without -trimpath, so that both use what "go run" and the tests have compiled.
build:
	go build -ldflags "-s -w" -o bin/stevedore$$(go env GOEXE) ./cmd/stevedore
	go build -ldflags "-s -w" -o bin/stevedore-heartbeat$$(go env GOEXE) ./cmd/heartbeat

# Install both programs, by default where "go install" does.
BINDIR ?= $$(go env GOPATH)/bin
install: build
	mkdir -p $(BINDIR)
	cp bin/stevedore* $(BINDIR)/

# gofmt, the size of the program, and what vet and staticcheck check. The race detector is not part of it: its build and
# its tests are a fifth of the processor time of CI. After a change to what goroutines share, run "make race".
check:
	@test -z "$$(gofmt -l . | tee -a /dev/stderr)" || { echo "gofmt: run gofmt -w on the files above"; exit 1; }
	$(MAKE) --no-print-directory lint

# At Go's default, the checks spend a third of their time on garbage collection.
lint: export GOGC ?= 400
lint: export GOMEMLIMIT ?= 4GiB
lint: size
	go run ./integration/testdata/lint ./...

# The packages whose code, not only its tests, starts goroutines or takes locks; -short and CALM
# leave out what is one goroutine and slow under the detector. The detector does not see into
# processes that tests start, and each one sleeps for a second when it exits, unless GORACE says
# otherwise.
# It leaves out packages in which little is shared, whose tests mostly wait for other processes, or
# which would compile SQLite and a browser's protocol once more: together they take as long as the
# others. "make thorough" runs all.
CALM = ./offload|./offload/(tables|jq|mem|record)|./bus/(agents|dead|embedded|remote|status)|./tools/(builtin|metrics|trouble|agent/provider)|./tools/sandbox(/internal/enter)?|./cmd/internal/.*
race:
	GORACE=atexit_sleep_ms=0 go test -race -short -p 4 -timeout 60m -vet=off -ldflags=-s -shuffle=on $$(grep -rlE '^\s*go [a-zA-Z.]+\(|^\s*go func|\.Go\(|sync\.(Mutex|RWMutex|Map)|atomic\.' --include='*.go' --exclude='*_test.go' bus cmd/internal offload state tools | sed -E 's|^|./|; s|/[^/]*$$||; /testdata/d' | sort -u | grep -vxE '$(CALM)')

# What CI leaves out to be fast, before a release.
thorough: cross conformance hostile test-all
	go fix -diff ./...
	$(MAKE) race CALM=- STEVEDORE_SLOW=1

# Build, link and vet everything, tests included, for the systems that CI does not run on;
# TestTypesOnOtherSystems type-checks it in each run of all tests.
CROSS = windows darwin
cross:
	@set -e; for os in $(CROSS); do echo "GOOS=$$os go build, go vet"; \
	  GOOS=$$os go build ./...; GOOS=$$os go vet ./...; done

# The stripped program must stay within its budget in bytes. The names of its source files are in it,
# so a checkout in a longer path needs a few KB more. SQLite takes 4.3 MB of it, coding hosts' file
# formats and pictures 1.3 MB, chats and tenants 0.5 MB. Look for a new dependency, or for one that
# stops the linker from dropping unused methods (text/template, reflect.Value.MethodByName), before
# raising it.
SIZE_BUDGET = 41000000
size:
	@mkdir -p bin && go run -exec cp ./cmd/worker bin/stevedore # go run strips it, and keeps it for the tests
	@size=$$(wc -c < bin/stevedore); echo "stevedore: $$size bytes, budget $(SIZE_BUDGET)"; \
	  test $$size -le $(SIZE_BUDGET) || { echo "size: the program exceeds SIZE_BUDGET in the Makefile; \"go version -m bin/stevedore\" lists its modules"; exit 1; }

test:
	go test ./...

# All tests, slow ones too: ten minutes on two cores. Run it before a change lands that slow tests could notice.
test-all:
	go test -timeout 60m ./...

# The pictures of the page in docs, from a real Chromium.
screenshots:
	mkdir -p docs/screenshots
	STEVEDORE_SCREENSHOTS=$(CURDIR)/docs/screenshots go test -run TestViews -count=1 ./cmd/internal/console/

# Each benchmark prints its ratio against the raw bus or the raw disk, from interleaved rounds of
# one run. The second one measures "stevedore up" as a process of its own, and its CPU time per
# call. It takes some minutes; close other programs.
bench:
	go test -run '^$$' -bench 'Pipeline|Latency' -benchtime 1x ./bus/worker
	for clients in 1 64 500; do go test -C integration/peers -count=1 -timeout 30m -v . -bare -rounds 5 -clients $$clients || exit 1; done
	go test -run '^$$' -bench Publish -benchtime 1x ./bus
	go test -run '^$$' -bench List -benchtime 3x ./bus/task
	go test -run '^$$' -bench 'Index|Put|Read|Grep|Offload' -benchtime 15x -timeout 60m ./offload/...
	go test -run '^$$' -bench 'Saves' -benchtime 5x ./state

# Durable jobs per second against other job systems, in one table. asynq needs redis-server,
# River needs PostgreSQL.
bench-peers:
	go test -C integration/peers -count=1 -timeout 60m -v . $(PEERS)

# What a run of all tests takes a sample of: all hostile inputs of each parser, with their time and memory,
# and queries of documents of 30 MB. Ten minutes.
hostile:
	STEVEDORE_HOSTILE=1 go test -run 'TestNoInputTakesLong|TestJQHoldsAllRows' -count=1 -timeout 60m -v ./cmd/internal/commands ./offload

# Every fuzz target for 30 s.
FUZZTIME ?= 30s
fuzz: hostile
	@set -e; for dir in $$(go list -f '{{.Dir}}' ./...); do \
	  for target in $$(grep -hEo '^func Fuzz[A-Za-z0-9_]+' $$dir/*_test.go 2>/dev/null | cut -c6-); do \
	    echo "== $$target"; (cd $$dir && go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) .); \
	  done; \
	done

# The crash tests at their full length: about 1,000 kills.
kill:
	STEVEDORE_KILLS=1000 go test -run Kill -count=1 -timeout 30m ./bus/worker/
	STEVEDORE_KILLS=1000 go test -run KillAsync -count=1 -timeout 30m ./integration/
	STEVEDORE_KILLS=20 go test -run 'KillOne|KillUp|KillGateways' -count=1 -timeout 30m ./integration/
	STEVEDORE_TENANTS=100 go test -run KillFleet -count=1 -timeout 30m ./integration/
	STEVEDORE_AGENT_RUNS=200 go test -run AgentsSurvive -count=1 -timeout 30m ./bus/agents/

# The cluster of docs/operate.md, word for word without its alerts: it takes two minutes.
book:
	STEVEDORE_BOOK=1 go test -run TestClusterByTheBook -count=1 ./integration/

# A flood of 100,000 calls in one session, and the waits of 20 others before, beside and after it.
FLOOD ?= 100000
flood:
	STEVEDORE_FLOOD=$(FLOOD) go test -run TestFlood -count=1 -timeout 30m -v ./integration/

# Remove each safeguard in turn, and name the test that fails; a mutant that survives fails.
# More than an hour for all. MUTANTS='a regular expression' selects some. With SIMULATED=100, the only test is the
# simulator, for so many hours: it prints the seed in which each mutant dies.
MUTANTS ?= 1
mutants:
	STEVEDORE_MUTANTS='$(MUTANTS)' STEVEDORE_MUTANTS_SIMULATED='$(SIMULATED)' go test -run TestMutants -count=1 -parallel $$(getconf _NPROCESSORS_ONLN) -timeout 0 -v ./integration/

# 100,000 calls through streams of 16 MiB, and a week of results in virtual time. Some minutes.
small-streams:
	STEVEDORE_SMALL_STREAMS=100000 go test -run TestSmallStreams -count=1 -timeout 30m -v ./bus/worker/
	STEVEDORE_RETENTION_WEEK=1 go test -run 'TestWeekOfResults|TestSmallStreamTakes' -count=1 -timeout 30m -v ./bus/retention/

# Clients, workers and servers as processes that are killed, suspended, isolated and
# wiped; a ledger checks every promise. STEVEDORE_SOAK_SEED repeats a run.
SOAK ?= 10m
soak:
	STEVEDORE_SOAK=$(SOAK) go test -run Soak -count=1 -timeout 0 -v ./integration/

# A whole installation in virtual time, with faults from seeds of two hours each, one on each processor. FIRST is the
# first seed. For a seed that fails, it runs about 30 beginnings of it, and prints the shortest one that still fails, what
# happened there, and how to repeat it.
HOURS ?= 200
FIRST ?= 1
simulate:
	@mkdir -p bin && go test -c -o bin/simulate.test ./integration/simulate
	@seq $(FIRST) $$(($(FIRST) + $(HOURS) / 2 - 1)) | xargs -P $$(getconf _NPROCESSORS_ONLN) -I @ sh -c \
	  'GOGC=300 STEVEDORE_SIMULATE=1 STEVEDORE_SIMULATE_SEED=@ bin/simulate.test -test.v -test.run TestSimulate -test.timeout 30m >bin/simulate-@.log 2>&1; \
	  grep -h "seed @:" bin/simulate-@.log; \
	  if grep -q "^PASS" bin/simulate-@.log; then rm bin/simulate-@.log; else echo "seed @ FAILED: bin/simulate-@.log"; \
	  STEVEDORE_SHRINK=@ bin/simulate.test -test.v -test.run TestShrink -test.timeout 0; fi' | \
	  awk '{print} /simulated in/ {h += 2; c += $$(NF-9); l += $$(NF-7); f += $$(NF-4); p += $$(NF-2)} /FAILED/ {bad++} END {print h " hours, " c " calls, " l " retried letters, " f " faults, " p " promises checked, " bad+0 " seeds failed"; exit bad > 0}'

# The same, but a server that is killed loses what it did not sync, as in a power failure: it syncs each write, on an ext4
# on a loop device. Linux, as root. If you interrupt it, "umount" what "mount" lists under the directory of the tests.
power: export STEVEDORE_SIMULATE_POWER = 1
power:
	go test -count=1 -run TestPowerFailure ./integration/simulate
	$(MAKE) --no-print-directory simulate

# Two weeks of a person with Telegram and two bridges in virtual time, with kills, outages, budgets,
# reminders and approvals. Some minutes.
LIFE ?= 14
life:
	STEVEDORE_LIFE=$(LIFE) go test -run TestLife -count=1 -timeout 0 -v ./integration/simulate

# Scripted models ask about large results: right answers, calls, characters (docs/eval.md).
# With ANTHROPIC_API_KEY or OPENAI_API_KEY, a real model does so too; that costs money.
eval:
	STEVEDORE_EVAL=1 go test -run TestReport -count=1 -timeout 0 -v ./integration/eval/

# A week of heartbeats in virtual time while the clock jumps. It builds the
# standard library anew, with a clock that can be moved.
clock:
	STEVEDORE_CLOCK=1 go test -run ClockJumps -count=1 -timeout 30m ./cmd/internal/heartbeat/

# Coding hosts from npm, 1.2 GB, with a scripted model: mcp install, a big result, mcp uninstall, the plugin.
HOSTS ?= $${TMPDIR:-/tmp}/stevedore-hosts
hosts:
	mkdir -p "$(HOSTS)"
	cd "$(HOSTS)" && npm install --no-audit --no-fund $(addsuffix @latest,@anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai @mariozechner/pi-coding-agent @modelcontextprotocol/server-filesystem)
	STEVEDORE_HOSTS="$(HOSTS)/node_modules" go test -run "OfClaudeCode|RealHosts" -count=1 -v ./integration/

# The adapters of integration/node/frameworks.mjs with the frameworks from npm, 500 MB, and a scripted model.
FRAMEWORKS ?= $${TMPDIR:-/tmp}/stevedore-frameworks
frameworks:
	mkdir -p "$(FRAMEWORKS)"
	cd "$(FRAMEWORKS)" && npm install --no-audit --no-fund ai@6 @ai-sdk/openai-compatible @openai/agents openai langchain@1 @langchain/core @langchain/openai @anthropic-ai/claude-agent-sdk zod
	STEVEDORE_FRAMEWORKS="$(FRAMEWORKS)" go test -run TestRealFrameworks -count=1 -v ./integration/

# The official suite of MCP, with Node 22, through the proxy and against the gateway; and each MCP client with each server.
CONFORMANCE ?= $${TMPDIR:-/tmp}/stevedore-conformance
conformance: conformance-packages
	STEVEDORE_CONFORMANCE="$(CONFORMANCE)" go test -run 'TestConformance|TestMCPClients' -count=1 -v ./integration/
conformance-packages:
	mkdir -p "$(CONFORMANCE)"
	cd "$(CONFORMANCE)" && npm install --no-audit --no-fund --loglevel=error node@22 @modelcontextprotocol/conformance@0.1.16

# What 20 turns cost in each host with one result of each size; half an hour.
HOST_COSTS ?= .
host-costs:
	STEVEDORE_HOSTS="$(HOSTS)/node_modules" STEVEDORE_HOST_COSTS='$(HOST_COSTS)' go test -run CostsInHosts -count=1 -timeout 0 -v ./integration/

# The files of a release for six platforms: make release VERSION=v1.2.3. CI runs all tests before.
release:
	integration/deploy/release/release.sh $(VERSION)

# The site of the documentation: open site/index.html. It fails if a link leads nowhere.
SITE ?= site
site:
	go run ./integration/deploy/site "$(SITE)"

# Check the files of integration/deploy with Kustomize, the types of Kubernetes and the loader of
# Compose; a minute the first time.
deploy-lint:
	STEVEDORE_LINT=1 go test -run TestDeployLint -count=1 ./integration/

# Compare the Go API with that of the newest release.
api:
	integration/deploy/release/api.sh

# Try the packages of "make release" from their files: npx, pip, .deb, and the tutorial and the
# recipes with the program of the archive.
DIST ?= dist
try:
	STEVEDORE_DIST="$(abspath $(DIST))" go test -run 'TestBuiltPackages|TestTutorial|TestCookbook' -count=1 -v ./integration/
