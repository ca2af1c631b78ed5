package rabbitmq

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// defaultRetryDelays are the waits of messages that failed, a queue each.
func defaultRetryDelays() []time.Duration {
	return []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute}
}

func checkRetryDelays(delays []time.Duration) error {
	for i, d := range delays {
		if d < time.Millisecond || d%time.Millisecond != 0 || i > 0 && d <= delays[i-1] {
			return errors.New("rabbitmq: RetryDelays want to be whole milliseconds, each longer than the one before")
		}
	}
	return nil
}

// retryQueue is the queue in which messages of queue wait for delay. The delay is in its
// name: a queue's time to live can't be changed.
func retryQueue(queue string, delay time.Duration) string { return queue + ".retry." + delay.String() }

// retryDelay picks the longest delay that isn't above the wait, or the shortest one. A
// message that comes early finds those in front of it still noted; one that came late could
// be overtaken.
func retryDelay(delays []time.Duration, wait time.Duration) time.Duration {
	i, _ := slices.BinarySearch(delays, wait+1)
	return delays[max(i-1, 0)]
}

// unlimitedDeliveries is understood from RabbitMQ 4.0 on, which without it drops a message
// that was taken back 20 times. Before, there is no limit unless one is set, and a limit
// of -1 drops a message that was taken back once.
const unlimitedDeliveries = -1

// queueArgs are those of a consumer's queue.
func queueArgs(version string, cfg EnsureConfig) amqp.Table {
	args := amqp.Table{"x-queue-type": "quorum"}
	if majorVersion(version) >= 4 && !cfg.DeliveryLimitByPolicy {
		args["x-delivery-limit"] = int32(unlimitedDeliveries)
	}
	if cfg.SingleActiveConsumer {
		args["x-single-active-consumer"] = true
	}
	return args
}

// retryArgs are those of a queue in which messages wait. Only a quorum queue moves them on
// with confirms, so that none is lost on the way back: the strategy at-least-once,
// which wants overflow reject-publish.
func retryArgs(queue string, delay time.Duration) amqp.Table {
	return amqp.Table{
		"x-queue-type":              "quorum",
		"x-message-ttl":             delay.Milliseconds(),
		"x-dead-letter-exchange":    "", // the default exchange: straight into the queue
		"x-dead-letter-routing-key": queue,
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	}
}

func majorVersion(version string) int {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return 0
	}
	return n
}

// oldestVersion is the first with quorum queues that have a time to live and dead-letter
// at least once.
const oldestVersion = "3.10"

func checkVersion(version string) error {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, err1 := strconv.Atoi(major)
	n, err2 := strconv.Atoi(minor)
	if err1 != nil || err2 != nil || m > 3 || m == 3 && n >= 10 {
		return nil // what calls itself otherwise must show what it can
	}
	return fmt.Errorf("the broker is RabbitMQ %s; %s or later is needed", version, oldestVersion)
}
