package rabbitmq

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// checkExchange asks the broker once whether the exchange is there. A message for one that
// isn't would end the channel, and with it leave its neighbours unknown.
func (l *link) checkExchange(ctx context.Context, name string) error {
	l.mu.Lock()
	known := l.exchanges[name]
	l.mu.Unlock()
	if known {
		return nil
	}
	result := make(chan error, 1)
	go func() { result <- l.findExchange(name) }()
	timer := time.NewTimer(l.timeout)
	defer timer.Stop()
	select {
	case err := <-result:
		if err != nil {
			return notSentError(err)
		}
	case <-ctx.Done():
		return notSentError(context.Cause(ctx))
	case <-timer.C:
		l.kill(errNoAnswer)
		return notSentError(errNoAnswer)
	}
	l.mu.Lock()
	l.exchanges[name] = true
	l.mu.Unlock()
	return nil
}

func (l *link) findExchange(name string) error {
	channel, err := l.conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.ExchangeDeclarePassive(name, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
		return exchangeError(name, err) // the broker has closed the channel
	}
	return channel.Close()
}
