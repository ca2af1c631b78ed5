package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// EnsureConfig has the settings of [Ensure]. The zero value verifies and creates nothing.
type EnsureConfig struct {
	// Create creates the topics that are missing. By default each is a difference.
	Create bool

	// ReplicationFactor is how many replicas each partition has to have at least.
	// Defaults to 3. Say 1 for a development cluster of one broker.
	ReplicationFactor int

	// MinInSync is the least min.insync.replicas: so many replicas have an event
	// that is confirmed. Defaults to ReplicationFactor less one, at least 1.
	MinInSync int

	// Partitions of a topic that is created; they bound how many processes of a
	// consumer work at a time. Choose them for good: when they change, an
	// aggregate's later events go to another partition than its earlier ones. When set, a
	// topic that is there has to have so many. Defaults to 6 when a topic is created.
	Partitions int

	// Retention is how long a topic that is created keeps its records, handled or not.
	// Negative for ever. Defaults to the broker's, 7 days unless it was changed.
	Retention time.Duration
}

const defaultPartitions = 6

func (c EnsureConfig) withDefaults() EnsureConfig {
	if c.ReplicationFactor == 0 {
		c.ReplicationFactor = 3
	}
	if c.MinInSync == 0 {
		c.MinInSync = max(c.ReplicationFactor-1, 1)
	}
	return c
}

func (c EnsureConfig) validate() error {
	switch {
	case min(c.ReplicationFactor, c.MinInSync, c.Partitions) < 0:
		return errors.New("kafka: EnsureConfig has a negative setting")
	case c.MinInSync > c.ReplicationFactor:
		return errors.New("kafka: EnsureConfig.MinInSync is above ReplicationFactor: nothing could be published")
	case c.ReplicationFactor > 1<<15-1 || c.Partitions > 1<<31-1:
		return errors.New("kafka: EnsureConfig.ReplicationFactor or Partitions is too large")
	}
	return nil
}

// Report is what [Ensure] did and saw.
type Report struct {
	// Created are the topics that were missing.
	Created []string

	// Notes are settings under which the broker may drop what no consumer has
	// handled yet, or confirms less than one might think. They may be meant.
	Notes []string
}

// Ensure verifies that the cluster has the topics of the topology's events, with the
// replication on which a confirm rests, and that they are neither compacted
// nor may be led by a replica that lags (unclean.leader.election.enable). With
// [EnsureConfig.Create] it creates what is missing. What is there is never changed.
// The error is a [*MismatchError] when something has to be changed, or is missing.
// Consumer groups need no preparation. Several processes may call it at a time: one creates a
// topic, the others compare it.
func Ensure(ctx context.Context, cluster Cluster, topology outbox.Topology, cfg EnsureConfig) (Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return Report{}, err
	}
	var topics []string
	for _, e := range topology.Events {
		if err := checkTopic(e.Topic); err != nil {
			return Report{}, fmt.Errorf("kafka: ensure: event %s: %w", e.Type, err)
		}
		topics = append(topics, e.Topic)
	}
	if len(topics) == 0 {
		return Report{}, errors.New("kafka: ensure: the topology has no events")
	}
	slices.Sort(topics)
	client, err := cluster.client()
	if err != nil {
		return Report{}, err
	}
	defer client.Close()
	e := &ensuring{admin: kadm.NewClient(client), topics: slices.Compact(topics), cfg: cfg}
	if err := e.run(ctx); err != nil {
		return e.report, fmt.Errorf("kafka: ensure: %w", err)
	}
	if len(e.differences) > 0 {
		return e.report, fmt.Errorf("kafka: ensure: %w", &MismatchError{Differences: e.differences})
	}
	return e.report, nil
}

// ensuring is one call of Ensure.
type ensuring struct {
	admin       *kadm.Client
	topics      []string
	cfg         EnsureConfig
	report      Report
	differences []Difference
}

func (e *ensuring) run(ctx context.Context) error {
	found, err := e.admin.ListTopics(ctx, e.topics...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var there, overtaken []string
	for _, topic := range e.topics {
		switch err := found[topic].Err; {
		case err == nil:
			there = append(there, topic)
		case !errors.Is(err, kerr.UnknownTopicOrPartition):
			return fmt.Errorf("topic %s: %w", topic, err)
		case !e.cfg.Create:
			e.differ(topic, "the topic", "missing", "there; EnsureConfig.Create makes it")
		default:
			err := e.create(ctx, topic)
			switch {
			case errors.Is(err, kerr.TopicAlreadyExists): // another process was faster
				overtaken = append(overtaken, topic)
			case err != nil:
				return fmt.Errorf("create topic %s: %w", topic, err)
			}
		}
	}
	if len(overtaken) > 0 {
		others, err := knownTopics(ctx, e.admin, overtaken)
		if err != nil {
			return err
		}
		maps.Copy(found, others)
		there = append(there, overtaken...)
	}
	if len(there) == 0 {
		return nil
	}
	configs, err := e.admin.DescribeTopicConfigs(ctx, there...)
	if err != nil {
		return fmt.Errorf("describe topics: %w", err)
	}
	for _, topic := range there {
		config, err := configs.On(topic, nil)
		if err == nil {
			err = config.Err
		}
		if err != nil {
			return fmt.Errorf("describe topic %s: %w", topic, err)
		}
		e.partitions(topic, found[topic].Partitions)
		e.settings(topic, found[topic].Partitions.NumReplicas(), config.Configs)
	}
	return nil
}

func (e *ensuring) create(ctx context.Context, topic string) error {
	settings := map[string]*string{
		"min.insync.replicas": new(strconv.Itoa(e.cfg.MinInSync)),
		"cleanup.policy":      new("delete"),
	}
	switch {
	case e.cfg.Retention < 0:
		settings["retention.ms"] = new("-1")
	case e.cfg.Retention > 0:
		settings["retention.ms"] = new(strconv.FormatInt(e.cfg.Retention.Milliseconds(), 10))
	}
	partitions := e.cfg.Partitions
	if partitions == 0 {
		partitions = defaultPartitions
	}
	//nolint:gosec // bounded by validate
	_, err := e.admin.CreateTopic(ctx, int32(partitions), int16(e.cfg.ReplicationFactor), settings, topic)
	if err != nil {
		return err
	}
	e.report.Created = append(e.report.Created, topic)
	return nil
}

func (e *ensuring) partitions(topic string, all kadm.PartitionDetails) {
	if want := e.cfg.Partitions; want != 0 && len(all) != want {
		e.differ(topic, "partitions", len(all), want)
	}
	for _, p := range all.Sorted() {
		if have, want := len(p.Replicas), e.cfg.ReplicationFactor; have < want {
			e.differ(topic, "replication factor", have, fmt.Sprintf("at least %d", want))
			return
		}
	}
}

func (e *ensuring) settings(topic string, replicas int, configs []kadm.Config) {
	get := func(name string) string {
		for _, c := range configs {
			if c.Key == name {
				return c.MaybeValue()
			}
		}
		return ""
	}
	inSync, err := strconv.Atoi(get("min.insync.replicas"))
	switch {
	case err != nil || inSync < e.cfg.MinInSync:
		e.differ(topic, "min.insync.replicas", get("min.insync.replicas"), fmt.Sprintf("at least %d", e.cfg.MinInSync))
	case inSync > replicas:
		e.differ(topic, "min.insync.replicas", inSync, fmt.Sprintf("at most %d, the replicas that there are", replicas))
	case inSync == replicas && replicas > 1:
		e.note(topic, "min.insync.replicas is %d of %d replicas: while one broker is away nothing is taken", inSync, replicas)
	}
	if inSync == 1 {
		e.note(topic, "min.insync.replicas is 1: what one broker has confirmed can be lost with it")
	}
	if v := get("cleanup.policy"); v != "delete" {
		e.differ(topic, "cleanup.policy", v, "delete")
	}
	if v := get("unclean.leader.election.enable"); v == "true" {
		e.differ(topic, "unclean.leader.election.enable", v, "false")
	}
	if ms, err := strconv.ParseInt(get("retention.ms"), 10, 64); err == nil && ms >= 0 {
		e.note(topic, "retention.ms is %d: records are deleted after %v, handled or not", ms, time.Duration(ms)*time.Millisecond)
	}
	if v := get("retention.bytes"); v != "" && v != "-1" {
		e.note(topic, "retention.bytes is %s: the oldest records of a larger partition are deleted, handled or not", v)
	}
}

func (e *ensuring) note(topic, format string, args ...any) {
	e.report.Notes = append(e.report.Notes, "topic "+topic+": "+fmt.Sprintf(format, args...))
}

func (e *ensuring) differ(topic, setting string, have, want any) {
	e.differences = append(e.differences, Difference{
		Thing: "topic " + topic, Setting: setting, Have: fmt.Sprint(have), Want: fmt.Sprint(want),
	})
}
