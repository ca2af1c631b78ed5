# `make help` lists the targets.
.DEFAULT_GOAL := help

# The servers that tests run on: a private MySQL and MariaDB, started for the
# command that follows and stopped after it.
WITH_SERVERS = go run ./internal/dbserver/cmd/withservers

# The generator links sqlc, which without cgo builds in half the time. It has no
# tests of its own: internal/cli tests the binary.
OUTBOXGEN = bin/outboxgen

# The race detector shuffles goroutines, so that no simulated plan takes the same course
# twice: internal/sim is tested without it.

# The example's, and those of its variants for the tests.
CONFIGS = events.yaml $(wildcard internal/variants/*/events.yaml)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: setup ## Show the whole story on a real database and a real broker (DB=mysql|mariadb, BROKER=nats|rabbitmq|kafka)
	go run ./example/demo $(if $(DB),-db $(DB)) $(if $(BROKER),-broker $(BROKER))

.PHONY: test
test: setup-cc check vet ## Run every test, on a private MySQL and a private MariaDB
	$(WITH_SERVERS) -- go test -race -timeout 30m $$(go list ./... | grep -v -e /cmd/outboxgen$$ -e /internal/sim$$)
	go test -timeout 15m ./internal/sim

.PHONY: vet
vet: setup ## Look for mistakes that need no run: gofmt and go vet
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi
	CGO_ENABLED=0 go vet ./...

.PHONY: check
check: build ## See that the generated files are what events.yaml says
	@printf '%s\n' $(CONFIGS) | xargs -n 1 -t $(OUTBOXGEN) check --force -f

.PHONY: generate
generate: build ## Write the generated files anew
	@printf '%s\n' $(CONFIGS) | xargs -n 1 -t $(OUTBOXGEN) generate -f

.PHONY: build
build: setup ## Build bin/outboxgen
	CGO_ENABLED=0 go build -o $(OUTBOXGEN) ./cmd/outboxgen

# The official parser of AsyncAPI, with its rules, reads what is made of every events.yaml
# that the parser's tests take for good.
ASYNCAPI_PARSER = @asyncapi/parser@3.6.6

.PHONY: validate-exports
validate-exports: build ## Let the official AsyncAPI parser read the exports (needs npm)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	npm install --prefix "$$dir" --silent --no-audit --no-fund --ignore-scripts $(ASYNCAPI_PARSER) && \
	n=0 && for f in $(CONFIGS) internal/spec/testdata/good/*/events.yaml; do \
		n=$$((n + 1)); $(OUTBOXGEN) export asyncapi -f $$f >"$$dir/$$n.yaml" || exit 1; \
	done && NODE_PATH="$$dir/node_modules" node internal/export/asyncapicheck/check.cjs "$$dir"/*.yaml

.PHONY: server
server: setup ## Run a throwaway database until Ctrl-C and print its DSN (DB=mysql or DB=mariadb)
	$(WITH_SERVERS) -$(or $(DB),mysql) -- go run ./internal/dbserver/cmd/scratch

.PHONY: broker
broker: setup ## Run a throwaway broker until Ctrl-C and print its URL (BROKER=nats, rabbitmq or kafka)
	go run ./internal/brokers/cmd/scratchbroker $(if $(BROKER),-broker $(BROKER))

.PHONY: test-kafka
test-kafka: setup-cc ## Test on a real Apache Kafka, one and three brokers (needs java and mvn; OUTBOXGEN_KAFKA_LIBS: a release's libs)
	OUTBOXGEN_KAFKA=1 go test -race -timeout 15m -v -run TestReal ./runtime/broker/kafka

.PHONY: bench
bench: setup ## Measure drains, latencies and claims on both databases, ten minutes (BENCH_ARGS=-full: hours, -short: a minute)
	$(WITH_SERVERS) -- go run ./internal/bench $(BENCH_ARGS)

.PHONY: verify
verify: setup ## Simulate 30,000 plans, break every point on both databases and all brokers, and write the record; less than a quarter of an hour
	$(SIM) -sim.seeds=30000
	go run ./internal/verify/cmd/verify $(VERIFY_ARGS)

.PHONY: verify-full
verify-full: setup ## The same at full size, 300,000 plans and 18,000 experiments, hours (fewer: SEEDS=30000 VERIFY_ARGS='-count 3')
	$(SIM) -sim.seeds=$(or $(SEEDS),300000)
	go run ./internal/verify/cmd/verify -count 24 $(VERIFY_ARGS)

.PHONY: soak
soak: setup ## Run millions of events through the relays and watch memory and connections (half an hour)
	$(WITH_SERVERS) -- go run ./internal/soak $(SOAK_ARGS)

.PHONY: order
order: setup ## Kill, stop and restart relays at full size and check the order (a quarter of an hour or more)
	$(WITH_SERVERS) -- go run ./internal/faultrun $(ORDER_ARGS)

.PHONY: fuzz
fuzz: setup ## Fuzz every target, each for FUZZTIME (one minute)
	@grep -rlE --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$$file"); do \
			echo "$$target in $$(dirname "$$file")"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),1m) "$$(dirname "$$file")" || exit 1; \
		done; \
	done

.PHONY: mutants
mutants: setup ## Break our own code in dozens of ways and see the tests notice (a quarter of an hour; MUTANTS_ARGS='-run REGEXP')
	$(WITH_SERVERS) -- go run ./internal/mutants $(MUTANTS_ARGS)

.PHONY: consumerproof
consumerproof: setup ## Kill consumers, poison a queue and take the database away at full size (NATS, RabbitMQ, Kafka)
	OUTBOXGEN_CONSUMERPROOF=full $(WITH_SERVERS) -- go test -count=1 -timeout 60m -v ./internal/consumerproof

.PHONY: broker-faults
broker-faults: setup ## Break real brokers in the middle of 20,000 events and read them back (BROKER=nats, rabbitmq, kafka or kfake, DB=, EVENTS=; a quarter of an hour)
	$(WITH_SERVERS) $(if $(DB),-$(DB)) -- go run ./internal/brokerfaults $(if $(BROKER),-broker $(BROKER)) $(if $(EVENTS),-events $(EVENTS)) $(FAULT_ARGS)

.PHONY: runbooks
runbooks: setup ## Carry out docs/operations.md with its faults injected, five minutes (DB=, BROKER=nats or rabbitmq, RUNBOOKS_ARGS='-run REGEXP')
	go run ./internal/runbooks $(if $(DB),-db $(DB)) $(if $(BROKER),-broker $(BROKER)) $(RUNBOOKS_ARGS)

SIM = go test -count=1 -timeout 5h -run TestPlans ./internal/sim

.PHONY: sim
sim: setup ## Run writers, relays and consumers on simulated servers that break (SEED=n: that plan again; SEEDS=n: so many)
	$(SIM) -v $(if $(SEED),-sim.seed=$(SEED)) $(if $(SEEDS),-sim.seeds=$(SEEDS))

.PHONY: lint
lint: setup ## Run golangci-lint (fetched and built at the first run)
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run

.PHONY: setup setup-cc
setup:
	@.ci/setup

setup-cc:
	@.ci/setup cc
