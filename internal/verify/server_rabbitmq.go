package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/internal/history"
	"github.com/outboxgen/outboxgen/internal/rabbitserver"
	"github.com/outboxgen/outboxgen/runtime/broker/rabbitmq"
)

type rabbitServer struct {
	server *rabbitserver.Server

	mu   sync.Mutex
	read map[string][]history.Message // by place
}

// parentHeartbeat bears a machine that stands still for a while.
const parentHeartbeat = 30 * time.Second

func startRabbit(ctx context.Context, progress func(string)) (*rabbitServer, error) {
	s, err := rabbitserver.Start(ctx, rabbitserver.Config{Progress: progress})
	if err != nil {
		return nil, err
	}
	if !s.Private() {
		return nil, fmt.Errorf("the experiments kill the server: unset %s", rabbitserver.EnvVar)
	}
	return &rabbitServer{server: s, read: map[string][]history.Message{}}, nil
}

func (s *rabbitServer) addr() string { return s.server.Addr() }

func (s *rabbitServer) version() string {
	version := "RabbitMQ, version unknown"
	if conn, err := amqp.Dial(s.server.URL()); err == nil {
		version = fmt.Sprintf("RabbitMQ %v", conn.Properties["version"])
		_ = conn.Close() // it has told
	}
	return version
}

// with runs fn on a channel of its own.
func (s *rabbitServer) with(ctx context.Context, fn func(*amqp.Channel) error) error {
	conn, err := amqp.DialConfig(s.server.URL(), amqp.Config{Heartbeat: parentHeartbeat})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now()) })
	defer stop()
	ch, err := conn.Channel()
	if err == nil {
		err = fn(ch)
	}
	return errors.Join(err, conn.Close())
}

// audit names the queue that gets a copy of everything.
func (p place) audit() string { return p.Name + ".audit" }

func (s *rabbitServer) ensure(ctx context.Context, p place) error {
	_, err := rabbitmq.Ensure(ctx, p.connector(parentHeartbeat), p.topology(), rabbitmq.EnsureConfig{Create: true, RetryDelays: retryDelays()})
	if err != nil {
		return err
	}
	return s.with(ctx, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(p.audit(), true, false, false, false, nil); err != nil {
			return err
		}
		return ch.QueueBind(p.audit(), "#", p.Name, false, nil)
	})
}

// messages takes them out of the audit queue, and remembers them: given back they would
// not be there again at once.
func (s *rabbitServer) messages(ctx context.Context, p place) ([]history.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.with(ctx, func(ch *amqp.Channel) error {
		for {
			d, ok, err := ch.Get(p.audit(), true)
			if err != nil || !ok {
				return err
			}
			m, err := newMessage(func(name string) string {
				value, _ := d.Headers["cloudEvents:"+name].(string)
				return value
			}, d.Body)
			if err != nil {
				return err
			}
			s.read[p.Name] = append(s.read[p.Name], m)
		}
	})
	return slices.Clone(s.read[p.Name]), err
}

func (s *rabbitServer) queues(p place) []string {
	queue := p.topology().Consumers[0].Queue
	names := []string{queue, p.audit()}
	for _, d := range retryDelays() {
		names = append(names, queue+".retry."+d.String())
	}
	return names
}

// idle can't tell what waits for an acknowledgement.
func (s *rabbitServer) idle(ctx context.Context, p place) (idle bool, err error) {
	err = s.with(ctx, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(p.topology().Consumers[0].Queue, true, false, false, false, nil)
		idle = q.Messages == 0
		return err
	})
	return idle, err
}

func (s *rabbitServer) remove(ctx context.Context, p place) error {
	s.mu.Lock()
	delete(s.read, p.Name)
	s.mu.Unlock()
	return s.with(ctx, func(ch *amqp.Channel) error {
		for _, name := range s.queues(p) {
			if _, err := ch.QueueDelete(name, false, false, false); err != nil {
				return err
			}
		}
		return ch.ExchangeDelete(p.Name, false, false)
	})
}

func (s *rabbitServer) kill() error { return s.server.Kill() }

func (s *rabbitServer) restart(ctx context.Context) error { return s.server.Restart(ctx) }

func (s *rabbitServer) close() { s.server.Close() }
