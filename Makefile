# make        build ./bin/shuultuur
# make run    build it and start the gateway on 127.0.0.1:8080
# make quick  the tests that need no foreign program and no long time
# make test   everything that is tested; installs what the tests need, and ends
#             with the tests that were skipped and why
# make lint   go vet, gofmt and the linters of .golangci.yml
# make vuln   known holes in the modules that are used, where their database can be had
# make fuzz   every fuzz target for FUZZTIME each
# make dist   every package, into out/; VERSION=1.2.3 names the version
# make pgo    the profile that builds are optimised with (cmd/shuultuur/default.pgo), anew
# make bench  all benchmarks side by side with their peers, which it installs, on a machine
#             that does nothing else for an hour; writes docs/benchmarks.md and bench/history.jsonl
# make bench-short    those that show most, in a quarter of an hour; writes nothing
# make bench-compare OLD=COMMIT    this tree and that commit by turns
.POSIX:

GO = go
FUZZTIME = 20s
VULN = golang.org/x/vuln/cmd/govulncheck@latest
LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0

all: build

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/shuultuur ./cmd/shuultuur

run: build
	./bin/shuultuur run

quick:
	SHUULTUUR_QUICK=1 $(GO) test -short ./...

# The profile changes how fast the program is, not what it does, and compiling everything by it
# takes minutes for each kind of build.
test:
	sh test/setup.sh
	GOFLAGS="$$GOFLAGS -pgo=off" CGO_ENABLED=0 E2GUARDIAN_TIME=30s $(GO) test -trimpath -vet=off ./check/phrase -run RandomScores & \
		GOFLAGS="$$GOFLAGS -pgo=off" sh test/cross.sh; rest=$$?; wait $$! && exit $$rest
	GOFLAGS="$$GOFLAGS -pgo=off" $(GO) run ./test/report

lint:
	test -z "$$(gofmt -l .)"
	$(GO) vet ./...
	$(GO) vet -C bench ./...
	$(GO) vet -tags small ./...
	$(GO) run $(LINT) run
	cd bench && $(GO) run $(LINT) run

# Status 3 says that holes were found; others, that the database or the program cannot be had.
vuln:
	GOBIN="$$PWD/out/tools" $(GO) install $(VULN) && out/tools/govulncheck ./... || { s=$$?; test $$s -ne 3 && echo "make vuln: not checked (status $$s)"; }

fuzz:
	sh test/fuzz.sh $(FUZZTIME)

bench:
	sh bench/setup.sh
	$(GO) run -C bench . all -o ../docs/benchmarks.md

bench-short:
	sh bench/setup.sh
	$(GO) run -C bench . short -rounds 3 -seconds 1

bench-compare:
	sh bench/setup.sh
	$(GO) run -C bench . compare -rounds 7 -seconds 1 $(OLD)

pgo:
	GO="$(GO)" sh dist/pgo.sh

dist:
	sh dist/build.sh "$${VERSION:-$$(sh dist/version.sh)}" "$${KEY:-}"

clean:
	rm -rf bin out

.PHONY: all build run quick test lint vuln fuzz pgo bench bench-short bench-compare dist clean
