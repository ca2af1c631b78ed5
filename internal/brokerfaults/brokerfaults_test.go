package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/mysqldb"
)

func TestMain(m *testing.M) {
	childIfAsked()
	os.Exit(m.Run())
}

// TestFaults runs some of the faults, small; make broker-faults runs all, and has a real
// Kafka.
func TestFaults(t *testing.T) {
	for _, test := range []struct{ broker, fault string }{
		{"nats", "kill"},
		{"nats", "full"},
		{"rabbitmq", "alarm"},
		{"rabbitmq", "delete-exchange"},
		{"kfake", "cut"},
		{"kfake", "replicas"},
	} {
		t.Run(test.broker+"/"+test.fault, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			server := dbtest.New(t, dbserver.MySQL)
			server.Exec(t, orderevents.Schema()...)
			db, err := mysqldb.Open(server.DSN)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			report, err := runOn(t.Context(), db, test.broker, test.fault,
				settings{events: 300, lease: 3 * time.Second, drain: time.Minute})
			t.Log(report)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Every broker has a cut, and every fault a name of its own.
func TestScenarios(t *testing.T) {
	for _, name := range brokerNames {
		b, err := newBroker(name)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, sc := range b.scenarios() {
			if sc.script == nil || len(sc.topology.Events) == 0 || slices.Contains(names, sc.name) {
				t.Errorf("%s: scenario %q is incomplete, or there twice", name, sc.name)
			}
			names = append(names, sc.name)
		}
		if !slices.Contains(names, "cut") {
			t.Errorf("%s has %v", name, names)
		}
	}
}
