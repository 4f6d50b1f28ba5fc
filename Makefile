# make        build ./bin/shuultuur
# make run    build it and start the gateway on 127.0.0.1:8080
# make test   everything that is tested; installs what the tests need
# make lint   go vet, gofmt and the linters of .golangci.yml
# make fuzz   every fuzz target for FUZZTIME each
# make bench  the benchmarks side by side with the peers that are installed
.POSIX:

GO = go
GOFLAGS = -trimpath
FUZZTIME = 20s
LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0

all: build

build:
	CGO_ENABLED=0 $(GO) build $(GOFLAGS) -o bin/shuultuur ./cmd/shuultuur

run: build
	./bin/shuultuur run

test:
	sh test/setup.sh
	$(GO) vet ./...
	$(GO) test -race ./...
	sh test/cross.sh

lint:
	test -z "$$(gofmt -l .)"
	$(GO) vet ./...
	$(GO) run $(LINT) run

fuzz:
	sh test/fuzz.sh $(FUZZTIME)

bench:
	$(GO) run ./bench all -o docs/benchmarks.md

clean:
	rm -rf bin

.PHONY: all build run test lint fuzz bench clean
