package outbox

import "context"

// Route leads from an event type to a handler method. Make one with [On].
type Route struct {
	bind func(Envelope) (func(context.Context, *Tx) error, error)
}

// On makes the route of one event type: a message is decoded by its schema
// version, before any transaction is open, and handed to handle inside one.
func On[T any](
	decode func(schemaVersion int, data []byte) (T, error),
	handle func(context.Context, *Tx, Message[T]) error,
) Route {
	return Route{bind: func(e Envelope) (func(context.Context, *Tx) error, error) {
		payload, err := decode(e.SchemaVersion, e.Data)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, tx *Tx) error {
			return handle(ctx, tx, Message[T]{Envelope: e, Payload: payload})
		}, nil
	}}
}
