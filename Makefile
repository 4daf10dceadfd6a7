# The modules of go.work: a new one is tested and linted because it is listed there. As folders below this one, in whose name there may
# be a space.
MODULES = $(or $(shell go list -m | sed 's|^github.com/fairsem/fairsem|.|'),$(error go list found no module))
PACKAGES = $(addsuffix /...,$(MODULES))
# One package that cannot be read makes go list print none, and what is made of an empty list would pass.
list = $(or $(shell go list $(1)),$(error go list found no package))

LINT_VERSION = v2.15.0
VULN_VERSION = v1.9.0
# Where all clones find it, built by make lint.
LINT = $(shell go env GOPATH)/bin/golangci-lint-$(LINT_VERSION)

# FAIRSEM_REDIS_SERVER=valkey-server works too.
SERVER = $(or $(FAIRSEM_REDIS_SERVER),redis-server)
# Programs that the tests start, each with the Debian package that has it.
PROGRAMS = $(SERVER):$(SERVER) tmux:tmux chromium:chromium zsh:zsh fish:fish less:less ps:procps groff:groff-base systemd-analyze:systemd prometheus:prometheus promtool:prometheus

# Any other clone finds the results of a build in go's cache: compiling and linting a fresh one takes as long as one that is built already.
export GOFLAGS += -trimpath

.DEFAULT_GOAL = help
.NOTPARALLEL:
.PHONY: test unit integration stress format lint fmt tidy api vuln fuzz compat bench bench-smoke chaos chaos-smoke model pictures release release-check binaries setup clean help

# The linter and its facts on every dependency take 15 minutes of a processor to build, more than all that is tested. So a
# machine that has no linter yet does without it: go test then runs all of go vet.
LINTED = $(if $(wildcard $(LINT)),lint)

# The compiler, and what it makes, collect garbage less often: that takes a tenth of the CPU time less. A process still collects before it
# has 2 GiB.
test unit: export GOGC = 400
test unit: export GOMEMLIMIT = 2GiB
# The smoke run of the bench only has to run, and mostly waits: it goes beside the linter and the tests. Chaos goes alone, because
# its checks of liveness allow for little load.
# What a shell has begun with & ignores Ctrl-C, so a trap ends it.
test: setup ## what CI tests on each system; what make lint says, where it has been run once
	@trap 'kill 0' INT; mkdir -p .bin; $(MAKE) --no-print-directory bench-smoke >.bin/bench-smoke.log 2>&1 & bench=$$!; failed=0; \
	$(MAKE) --no-print-directory $(or $(LINTED),format) unit || failed=1; \
	wait $$bench || { cat .bin/bench-smoke.log; failed=1; }; exit $$failed
	@$(MAKE) --no-print-directory chaos-smoke
	@$(if $(LINTED),,echo "golangci-lint did not run: make lint builds it")

# Packages with goroutines that fairsem's users run get the race detector; make stress runs everything with it. The tests of the scripts and
# of releases have no goroutines, nor has code that checks histories or writes text. The bench, chaos and the examples are programs
# around the library, and the tests of the command mostly start it: a program that was built with the race detector takes four times as
# long to start. Its other packages have it.
UNRACED = $(call list,./internal/protocol ./internal/history ./internal/labels ./internal/machine ./release ./bench/... ./chaos/... \
	./examples/... ./cmd/fairsem $(addprefix ./cmd/fairsem/internal/,announce change manual pictures render screen text))
RACED = $(LONGEST) $(filter-out $(LONGEST) $(UNRACED) $(LAST),$(call list,$(PACKAGES)))
# The tests with the longest waits go first: at the end nothing else would use the processors meanwhile.
LONGEST = $(call list,. ./fairsempgx ./cmd/fairsem/internal/web ./cmd/fairsem/internal/doctor ./fairsemasynq ./fairsemhttp)
# These follow those without the race detector, which would end before the others.
LAST = $(call list,./fairsemgrpc/... ./fairsemotel/... ./internal/redistest)

# Random tests take fewer steps with -short, and tables have fewer rows; make stress and make compat run all of them. Three packages at
# a time, one of them without the race detector, keep two processors busy; with four, a slow machine takes a second for an answer, so only
# the last ones are four, which mostly wait.
# All that is linked with -race is compiled with it: the linker takes generic code, such as that of sync.Map, from any package that has
# it, and with a copy that the race detector does not see it reports races that are none.
# A process that was built with the race detector otherwise takes a second to end: each package's tests, and all they start. What the
# detector notes of memory lies in huge pages, and for up to 4 MiB they are cleared instead of mapped anew: page faults were a fifth of
# the CPU time of the root package.
unit stress: export GORACE = atexit_sleep_ms=0 no_huge_pages_for_shadow=0 clear_shadow_mmap_threshold=4194304
# What is not linked with -race is compiled without C, as what is released is: the tests of releases and of the alerts build that, and
# so does all of it only once where go's cache is empty.
bench bench-smoke chaos chaos-smoke: export CGO_ENABLED = 0
unit: TEST = go test -vet=$(if $(LINTED),off,all) -short -shuffle=on
unit: ## go test of every module, with the race detector where users run goroutines
	@trap 'kill 0' INT; failed=0; { CGO_ENABLED=0 $(TEST) -p 1 $(UNRACED) || failed=1; $(TEST) -race -p 2 $(LAST) || failed=1; exit $$failed; } & others=$$!; \
	$(TEST) -race -p 2 $(RACED) || failed=1; \
	wait $$others || failed=1; exit $$failed

# The short forms are part of make test.
integration: export FAIRSEM_INTEGRATION = 1
integration: setup ## the long runs against other servers: eight processes on one PostgreSQL, jobs of asynq and River, some minutes
	cd fairsempgx && go test -count=1 -v -timeout 10m -run EightProcesses .
	cd fairsemasynq && go test -count=1 -v -timeout 10m -run ThroughRestartsAndAnOutage .
	cd fairsemriver && go test -count=1 -v -timeout 10m -run ThroughRestartsAndAnOutage .

stress: export RUNS = 200
stress: setup ## the tests of every package beside a busy loop for each core: make stress RUNS=20, hours else
	.ci/stress

format:
	@bad=$$(gofmt -l .) || exit 1; test -z "$$bad" || { echo "not formatted (make fmt):"; echo "$$bad"; exit 1; }

lint: format $(LINT) ## gofmt and golangci-lint, go vet included, over every module
	$(LINT) run $(PACKAGES)

fmt: ## gofmt everything
	gofmt -w .

tidy: ## go mod tidy in every module, with the library of this folder
	cd release && go run . tidy

api: ## write down the exported API: release/api, with which the tests compare it
	cd release && go run . api

vuln: ## govulncheck: known vulnerabilities in what any module calls
	set -e; for dir in $(MODULES); do (cd $$dir; go run golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION) ./...); done

# go test fuzzes one target at a time. It writes its findings to testdata/fuzz, from where make test runs them too.
fuzz: FOR = 20s
fuzz: ## every fuzz target for a while: make fuzz FOR=5m
	set -e; for dir in . ./internal/protocol; do \
		targets=$$(go test -list '^Fuzz' $$dir); \
		for target in $$(echo "$$targets" | grep '^Fuzz'); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FOR) $$dir; done; done

compat: setup ## the tests of the library on the installed server, Redis 8.0, Valkey 8.1 and Valkey 9: a table
	servers=$$(.ci/servers .bin/servers) && .ci/compat $(SERVER) $$servers

bench: setup bench/node/node_modules ## fairsem beside its peers: bench/results, ten minutes of a quiet machine
	cd bench && go run .

bench-smoke: setup bench/node/node_modules ## the same in seconds, for nothing but to see that it runs
	cd bench && go run . -smoke -out "$(CURDIR)/.bin/bench-smoke"

# Each run of a fault lasts FOR, and there are SEEDS of each, two at a time.
chaos: FOR = 10s
SEEDS = 1

chaos: setup ## break workers, servers and networks, and see what is kept: make chaos FOR=60s SEEDS=10
	cd chaos && go run . -broken -for $(FOR) && go run . -for $(FOR) -seeds $(SEEDS)

chaos-smoke: setup ## the same with a few faults, in half a minute
	cd chaos && go run . -smoke -for 5s -parallel 4 -out "$(CURDIR)/.bin/chaos-smoke"

model: PROGRAMS = spin:spin timeout:coreutils
model: setup ## check the model of the protocol with spin, some minutes: docs/model/README.md
	docs/model/check.sh

pictures: PROGRAMS = $(SERVER):$(SERVER) tmux:tmux chromium:chromium
pictures: FOR = 8m
pictures: setup ## the pictures of the docs, of programs that really run: docs/pictures, ten minutes
	mkdir -p .bin && cd cmd/fairsem && go build -o "$(CURDIR)/.bin/fairsem" . && \
		go run ./internal/pictures -fairsem "$(CURDIR)/.bin/fairsem" -out "$(CURDIR)/docs/pictures" -for $(FOR)
	cd bench && go run ./tenants -out "$(CURDIR)/docs/pictures/tenants.svg"

release: ## a commit and tags, nothing pushed: make release VERSION=v0.1.0, with DRY_RUN=1 in a temporary clone
	cd release && go run . $(if $(filter-out 0,$(DRY_RUN)),check,cut) $(or $(VERSION),$(error which version? make release VERSION=v0.1.0))

release-check: ## a dry run of the next minor version, or of VERSION
	cd release && go run . check $(VERSION)

binaries: ## static binaries of the last commit for each system, with checksums: .bin/dist
	cd release && go run . binaries -out "$(CURDIR)/.bin/dist"

# One of the peers is written for node. The bench says so when it leaves it out, because node or a registry is missing.
bench/node/node_modules: bench/node/package-lock.json
	cd bench/node && { npm ci --ignore-scripts --no-audit --no-fund && touch node_modules || rm -rf node_modules; }

# The race detector needs a C compiler. Debian starts the servers' own services; the tests neither use nor stop them. It has the
# programs of PostgreSQL in a folder of their version.
# Nothing is removed: systemd-analyze needs no systemd that runs, but a machine with another init may refuse its package.
setup: ## install what the tests need and the machine lacks, through apt
	@need=; \
	for pair in $(PROGRAMS); do command -v $${pair%:*} >/dev/null || need="$$need $${pair#*:}"; done; \
	test -e /usr/share/bash-completion/bash_completion || need="$$need bash-completion"; \
	test -e /usr/share/i18n/locales/da_DK || need="$$need locales"; \
	command -v $$(go env CC) >/dev/null || need="$$need gcc libc6-dev"; \
	command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || need="$$need postgresql"; \
	test -n "$$need" || exit 0; \
	command -v apt-get >/dev/null || { echo "please install:$$need"; exit 1; }; \
	test "$$(id -u)" = 0 || sudo=sudo; set -ex; \
	$$sudo apt-get update -q; \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends --no-remove $$need

$(LINT):
	dir=$$(mktemp -d) && GOBIN=$$dir go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION) && \
	mkdir -p $(dir $@) && mv $$dir/golangci-lint $@ && rmdir $$dir

clean: ## remove what make built
	rm -rf .bin bench/node/node_modules

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
