package kafka

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

func topologyOf(topics ...string) (t outbox.Topology) {
	for _, name := range topics {
		t.Events = append(t.Events, outbox.EventTopology{Type: "event." + name, Topic: name})
	}
	return t
}

func differencesOf(t *testing.T, err error) []string {
	t.Helper()
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) {
		t.Fatalf("%v, want a MismatchError", err)
	}
	var all []string
	for _, d := range mismatch.Differences {
		all = append(all, d.String())
	}
	return all
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	cluster := Cluster{Brokers: fake.ListenAddrs(), Options: quick()}
	topology := topologyOf("b", "a", "a")

	report, err := Ensure(t.Context(), cluster, topology, EnsureConfig{})
	want := []string{"topic a: the topic: have missing, want there; EnsureConfig.Create makes it", "topic b: the topic: have missing, want there; EnsureConfig.Create makes it"}
	if got := differencesOf(t, err); !slices.Equal(got, want) || len(report.Created) != 0 {
		t.Errorf("nothing is there: %q, %+v", got, report)
	}

	create := EnsureConfig{Create: true, Partitions: 4, Retention: 48 * time.Hour}
	if report, err = Ensure(t.Context(), cluster, topology, create); err != nil || !slices.Equal(report.Created, []string{"a", "b"}) {
		t.Fatalf("create: %v, %+v", err, report)
	}
	if report, err = Ensure(t.Context(), cluster, topology, create); err != nil || len(report.Created) != 0 {
		t.Errorf("again: %v, %+v", err, report)
	}
	if note := "topic a: retention.ms is 172800000: records are deleted after 48h0m0s, handled or not"; !slices.Contains(report.Notes, note) {
		t.Errorf("notes %q, want %q among them", report.Notes, note)
	}

	client, err := cluster.client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	set := func(name, value string) {
		t.Helper()
		if _, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, "a"); err != nil {
			t.Fatal(err)
		}
	}
	set("min.insync.replicas", "1")
	set("cleanup.policy", "compact")
	_, err = Ensure(t.Context(), cluster, topology, EnsureConfig{Create: true, Partitions: 5})
	want = []string{
		"topic a: partitions: have 4, want 5",
		"topic a: min.insync.replicas: have 1, want at least 2",
		"topic a: cleanup.policy: have compact, want delete",
		"topic b: partitions: have 4, want 5",
	}
	if got := differencesOf(t, err); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = Ensure(t.Context(), cluster, topology, EnsureConfig{Create: true, Partitions: 5})
	if got := differencesOf(t, err); !slices.Equal(got, want) {
		t.Errorf("a difference was overwritten: got %q, want %q", got, want)
	}
}

// TestEnsureCreates: a new topic is asked for with all that a confirm rests on, whatever the
// broker's defaults are.
func TestEnsureCreates(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	var asked []kmsg.CreateTopicsRequestTopic
	r.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.CreateTopics}, Observe: true, Count: -1,
		When: func(req kmsg.Request) bool {
			if c, ok := req.(*kmsg.CreateTopicsRequest); ok && asked == nil {
				asked = c.Topics
			}
			return true
		},
	})
	cluster := Cluster{Brokers: r.brokers, Options: quick()}
	if _, err := Ensure(t.Context(), cluster, topologyOf("new"), EnsureConfig{Create: true, ReplicationFactor: 1, Retention: -1}); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 1 || asked[0].NumPartitions != defaultPartitions || asked[0].ReplicationFactor != 1 {
		t.Fatalf("asked for %+v", asked)
	}
	got := make(map[string]string)
	for _, c := range asked[0].Configs {
		got[c.Name] = *c.Value
	}
	want := map[string]string{"min.insync.replicas": "1", "cleanup.policy": "delete", "retention.ms": "-1"}
	if !maps.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
}

// TestEnsureAtATime: a topic that another process creates between the look and the creation is
// compared as one that was there.
func TestEnsureAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	asked, release := make(chan struct{}), make(chan struct{})
	var asks atomic.Int64
	r.cluster.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		if asks.Add(1) == 1 {
			close(asked)
			r.cluster.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	cluster := Cluster{Brokers: r.brokers, Options: quick()}
	config := EnsureConfig{Create: true, ReplicationFactor: 1, Partitions: 4}
	slow := make(chan error, 1)
	go func() {
		wants := config
		wants.Partitions = 5
		_, err := Ensure(t.Context(), cluster, topologyOf("new"), wants)
		slow <- err
	}()
	<-asked
	report, err := Ensure(t.Context(), cluster, topologyOf("new"), config)
	close(release)
	if err != nil || !slices.Equal(report.Created, []string{"new"}) {
		t.Errorf("the faster one: %v, %+v", err, report)
	}
	if got, want := differencesOf(t, <-slow), []string{"topic new: partitions: have 4, want 5"}; !slices.Equal(got, want) {
		t.Errorf("the slower one: got %q, want %q", got, want)
	}
}

func TestEnsureReplication(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2) // one broker, so one replica
	cluster := Cluster{Brokers: r.cluster.ListenAddrs(), Options: quick()}
	_, err := Ensure(t.Context(), cluster, topologyOf(topic), EnsureConfig{})
	want := []string{
		"topic orders: replication factor: have 1, want at least 3",
		"topic orders: min.insync.replicas: have 1, want at least 2",
	}
	if got := differencesOf(t, err); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	report, err := Ensure(t.Context(), cluster, topologyOf(topic), EnsureConfig{ReplicationFactor: 1})
	if err != nil {
		t.Errorf("for development: %v", err)
	}
	if !slices.ContainsFunc(report.Notes, func(s string) bool { return strings.Contains(s, "min.insync.replicas is 1") }) {
		t.Errorf("notes %q don't warn of one replica", report.Notes)
	}
}

func TestEnsureSettings(t *testing.T) {
	setting := func(name, value string) kadm.Config { return kadm.Config{Key: name, Value: &value} }
	for _, c := range []struct {
		name        string
		replicas    int
		configs     []kadm.Config
		differences []string
		notes       int
	}{
		{"good", 3, []kadm.Config{setting("min.insync.replicas", "2"), setting("cleanup.policy", "delete"), setting("retention.ms", "-1")}, nil, 0},
		{
			"unclean", 3,
			[]kadm.Config{setting("min.insync.replicas", "2"), setting("cleanup.policy", "delete"), setting("unclean.leader.election.enable", "true")},
			[]string{"unclean.leader.election.enable"}, 0,
		},
		{"all in sync", 3, []kadm.Config{setting("min.insync.replicas", "3"), setting("cleanup.policy", "delete")}, nil, 1},
		{"more than there are", 3, []kadm.Config{setting("min.insync.replicas", "4"), setting("cleanup.policy", "delete")}, []string{"min.insync.replicas"}, 0},
		{"both policies", 3, []kadm.Config{setting("min.insync.replicas", "2"), setting("cleanup.policy", "compact,delete")}, []string{"cleanup.policy"}, 0},
		{"not told", 3, nil, []string{"min.insync.replicas", "cleanup.policy"}, 0},
		{
			"limits", 3,
			[]kadm.Config{setting("min.insync.replicas", "2"), setting("cleanup.policy", "delete"), setting("retention.ms", "1000"), setting("retention.bytes", "5")},
			nil, 2,
		},
	} {
		e := &ensuring{cfg: EnsureConfig{}.withDefaults()}
		e.settings("t", c.replicas, c.configs)
		var got []string
		for _, d := range e.differences {
			got = append(got, d.Setting)
		}
		if !slices.Equal(got, c.differences) || len(e.report.Notes) != c.notes {
			t.Errorf("%s: differences %q, notes %q", c.name, e.differences, e.report.Notes)
		}
	}
}

func TestEnsureRefusesSettings(t *testing.T) {
	t.Parallel()
	somewhere := Cluster{Brokers: []string{"127.0.0.1:1"}}
	for name, run := range map[string]func() error{
		"nothing": func() error { _, err := Ensure(t.Context(), somewhere, outbox.Topology{}, EnsureConfig{}); return err },
		"name":    func() error { _, err := Ensure(t.Context(), somewhere, topologyOf("a b"), EnsureConfig{}); return err },
		"brokers": func() error { _, err := Ensure(t.Context(), Cluster{}, topologyOf("a"), EnsureConfig{}); return err },
		"in sync": func() error {
			_, err := Ensure(t.Context(), somewhere, topologyOf("a"), EnsureConfig{ReplicationFactor: 2, MinInSync: 3})
			return err
		},
		"negative": func() error {
			_, err := Ensure(t.Context(), somewhere, topologyOf("a"), EnsureConfig{Partitions: -1})
			return err
		},
	} {
		if err := run(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
