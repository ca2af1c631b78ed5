// Package delivery stands between a broker's subscriber and the handler. The
// subscriber hands over what the broker delivers; an [Engine] calls the handler and
// says what to tell the broker.
//
//   - Events of one aggregate are handled one at a time, in the order of their
//     delivery; those of different aggregates together, up to a limit.
//   - A message is acknowledged after its handler has returned nil.
//   - A message that failed is given back to the broker with a delay. Later events
//     of its aggregate that come meanwhile are given back too. Where a broker knows
//     no delay it waits here, and they behind it.
//   - While the database can't be worked with, nothing is given back and nothing is
//     counted: the messages stay here, and one of them tries again after growing
//     waits. When it has failed several times, others may try: it may be the one
//     that a statement of its own cuts off.
package delivery
