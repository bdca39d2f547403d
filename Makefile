# Everything needs Go alone, except race (a C compiler) and check's govulncheck. What make builds
# here is compiled as the tests are, so that it is compiled once; what is released has no paths.

GO       ?= go
FUZZTIME ?= 30s
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT   ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE     ?= $(shell git show -s --format=%cI HEAD 2>/dev/null)
# -s and -w leave out what only debuggers read, 12 MB; stack dumps and pprof do not need it.
LDFLAGS   = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
SWEEPS    = TestSoakSimulation|TestSoakMutations
# What only measures or tests, and needs much that the product does not, has a go.mod.
NESTED    = bench/compare gateway/codegen gateway/observability gateway/page/browser
MODULES   = . $(NESTED)

RELEASE   = bin/release
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
IMAGE    ?= kvslots:$(VERSION)

# Where "make run" serves.
ADDR      = $(or $(KVSLOTS_HTTP_ADDR),127.0.0.1:8080)

.PHONY: needs-go run cluster build man release image test test-browser race check soak bench bench-others bench-clients benchmarks fuzz

needs-go:
	@$(GO) list -m >/dev/null || { echo "kvslots needs Go $$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.mod) or later: https://go.dev/dl" >&2; exit 1; }

run: build ## serve on 127.0.0.1:8080, data in ./kvslots-data, and print what to try
	@while kill -0 $$$$ 2>/dev/null; do \
		if bin/kvslots ready --server http://$(ADDR) >/dev/null 2>&1; then \
			printf '%s\n' '' 'The page is at http://$(ADDR)/. In another terminal, in this directory, try:' '' \
				"  curl -X PUT http://$(ADDR)/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01 -d '{\"count\": 5}'" \
				"  bin/kvslots lock --server http://$(ADDR) nightly -- sh -c 'echo the job runs; sleep 5'" ''; \
			break; \
		fi; \
		sleep 0.2; \
	done & exec bin/kvslots serve

NODES = 127.0.0.1:6221,127.0.0.1:6222,127.0.0.1:6223

cluster: build ## three gateways on 127.0.0.1:8081 to 8083, each with a copy, data in ./kvslots-cluster; Ctrl-C ends them
	@mkdir -p -m 700 kvslots-cluster; test -s kvslots-cluster/secret || bin/kvslots cluster secret >kvslots-cluster/secret
	@for n in 1 2 3; do \
		bin/kvslots serve --cluster $(NODES) --cluster-secret-file kvslots-cluster/secret --cluster-self 127.0.0.1:622$$n \
			--http-addr 127.0.0.1:808$$n --data-dir kvslots-cluster/$$n & \
		nodes="$$nodes $$!"; \
	done; trap 'kill $$nodes' INT TERM; wait; wait

build: needs-go ## bin/kvslots
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/kvslots ./cmd/kvslots

man: build ## man pages and completions in bin/share, to be copied to /usr/share or /usr/local/share
	bin/kvslots man bin/share

release: ## programs for PLATFORMS with their checksums, in bin/release; the same bytes from the same commit and Go
	rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	set -e; for platform in $(PLATFORMS); do \
		os=$${platform%/*} arch=$${platform#*/}; \
		name=kvslots-$(VERSION)-$$os-$$arch; [ $$os != windows ] || name=$$name.exe; \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(RELEASE)/$$name ./cmd/kvslots; \
	done
	cp LICENSE $(RELEASE)
	cd $(RELEASE) && if command -v sha256sum >/dev/null; then sha256sum *; else shasum -a 256 *; fi >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS

image: ## an image named IMAGE, for this machine; IMAGE_FLAGS are further flags of docker buildx build
	docker buildx build -f cmd/kvslots/deploy/Dockerfile --build-arg VERSION=$(VERSION) \
		--build-arg COMMIT=$(COMMIT) --build-arg DATE=$(DATE) -t $(IMAGE) $(IMAGE_FLAGS) .

test: needs-go ## the packages wait more than they compute, so four at a time
	CGO_ENABLED=0 $(GO) test -p 4 -parallel 8 -timeout 20m ./...
	for module in $(NESTED); do CGO_ENABLED=0 $(GO) test -C $$module -count=1 ./... || exit; done

# Elsewhere these tests are skipped. KVSLOTS_PICTURES is the directory for pictures of the page.
test-browser: ## the tests of the page in Chromium, named by KVSLOTS_BROWSER or found in PATH
	browser=$${KVSLOTS_BROWSER:-$$(command -v chromium || command -v chromium-browser || command -v google-chrome)}; \
	if [ -z "$$browser" ]; then echo "test-browser needs Chromium: apt-get install chromium, or set KVSLOTS_BROWSER to its path" >&2; exit 1; fi; \
	KVSLOTS_BROWSER=$$browser $(GO) test -C gateway/page/browser -count=1 -timeout 20m ./...

race:
	for module in $(MODULES); do $(GO) test -C $$module -race -short -timeout 20m ./... || exit; done

check: ## formatting, vet, staticcheck, known vulnerabilities, direction of imports, documents
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt:"; echo "$$unformatted"; exit 1; fi
	staticcheck=$$($(GO) tool -n staticcheck) && for module in $(MODULES); do \
		(cd $$module && $(GO) vet ./... && $$staticcheck ./...) || exit; \
	done
	$(GO) test -count=1 -run 'TestImports|TestRulesArePure|TestTopLevel|TestDocument' ./cmd/kvslots
	@if ! command -v govulncheck >/dev/null; then \
		echo "govulncheck: skipped, not installed (go install golang.org/x/vuln/cmd/govulncheck@latest)"; \
	else \
		for module in $(MODULES); do \
			govulncheck -C $$module ./...; code=$$?; \
			case $$code in \
				0) ;; \
				3) exit 3 ;; \
				*) echo "govulncheck: skipped, it could not run (exit code $$code)" ;; \
			esac; \
		done; \
	fi

# Tests read KVSLOTS_SOAK. All tests run, so that none has to be listed here; the longest
# ones have time limits of their own.
soak: ## all tests at their full length, about 3 hours; -p 1 has them print as they go
	for module in $(MODULES); do KVSLOTS_SOAK=1 $(GO) test -C $$module -count=1 -p 1 -timeout 4h -skip '$(SWEEPS)' -v ./... || exit; done
	@set -e; for sweep in $(subst |, ,$(SWEEPS)); do \
		echo $$sweep; \
		KVSLOTS_SOAK=1 $(GO) test -count=1 -timeout 6h -run "^$$sweep\$$" -v ./kvslots/internal/sim; \
	done

bench: ## measure, about 5 minutes: a table, and a line a target; plots in bench/plots
	$(GO) run -C bench/compare . --plots ../plots

bench-others: ## other lock servers alone, beside the library and HTTP; says which are missing
	@$(GO) run -C bench/compare . --status
	$(GO) run -C bench/compare . --workload pairs --clients 1,64 --transport library,http --sync always

bench-clients: ## the processor time of a borrow and a return in each client, beside the HTTP client alone
	KVSLOTS_COST=1 $(GO) test -count=1 -p 1 -v -run 'Cost|TestClient' ./kvslots/client/promisestest ./kvslots/client/python ./kvslots/client/typescript | grep ' µs '

benchmarks: ## Go's own benchmarks, with their allocations
	$(GO) test -run '^$$' -bench . -benchmem ./...

fuzz: ## each target for FUZZTIME
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done
