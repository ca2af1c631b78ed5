package rabbitmq

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// What the end of a channel says of the messages that were on their way.
func TestJudge(t *testing.T) {
	t.Parallel()
	noExchange := &amqp.Error{Server: true, Code: amqp.NotFound, Reason: "NOT_FOUND - no exchange 'x' in vhost '/'"}
	noWrite := &amqp.Error{Server: true, Code: amqp.AccessRefused, Reason: "ACCESS_REFUSED - write access to exchange 'x' in vhost '/' refused for user 'u'"}
	tooLarge := &amqp.Error{Server: true, Code: amqp.PreconditionFailed, Reason: "PRECONDITION_FAILED - message size 9 is larger than configured max size 5"}
	for name, c := range map[string]struct {
		reason  *amqp.Error
		pending []sent
		want    string // the kinds' first letters: unKnown, unAvailable, Rejected
	}{
		"one to a missing exchange":     {noExchange, []sent{{exchange: "x"}}, "A"},
		"before it":                     {noExchange, []sent{{exchange: "y"}, {exchange: "x"}}, "KA"},
		"behind it":                     {noExchange, []sent{{exchange: "x"}, {exchange: "y"}}, "AA"},
		"which of two":                  {noExchange, []sent{{exchange: "x"}, {exchange: "x"}, {exchange: "y"}}, "KAA"},
		"no message of it":              {noExchange, []sent{{exchange: "y"}}, "K"},
		"another name with the same x":  {noExchange, []sent{{exchange: "xx"}}, "K"},
		"no permission":                 {noWrite, []sent{{exchange: "y"}, {exchange: "x"}, {exchange: "y"}}, "KAA"},
		"too large":                     {tooLarge, []sent{{size: 1}, {size: 9}, {size: 1}}, "KRA"},
		"which of two is too large":     {tooLarge, []sent{{size: 9}, {size: 9}}, "KA"},
		"the connection is lost":        {&amqp.Error{Code: amqp.FrameError, Reason: "EOF"}, []sent{{exchange: "x"}}, "K"},
		"closed by us":                  {nil, []sent{{exchange: "x"}}, "K"},
		"another error of the broker's": {&amqp.Error{Server: true, Code: amqp.InternalError, Reason: "INTERNAL_ERROR exchange 'x'"}, []sent{{exchange: "x"}}, "K"},
	} {
		pending := make(map[uint64]*sent)
		for i := range c.pending {
			c.pending[i].tag = uint64(i + 1)
			pending[c.pending[i].tag] = &c.pending[i]
		}
		verdict := judge(c.reason, pending)
		got := ""
		for i := range c.pending {
			err := verdict(&c.pending[i], errors.New("cause"))
			got += map[outbox.FailureKind]string{
				outbox.FailureUnknown: "K", outbox.FailureUnavailable: "A", outbox.FailureRejected: "R",
			}[outbox.FailureKindOf(err)]
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
