// Package sim runs writers, relays and consumers, the real ones, on a simulated database and a
// simulated broker in a bubble of testing/synctest, and breaks them on a schedule that a
// seed decides. After that everything heals, and package history judges what is there.
//
// A [Plan] is all that a run depends on: the same plan takes the same course. Actors are
// processes. One that is killed at some point goes no further there, loses its
// connections, and is started anew a little later; one that is stopped does nothing until it
// is continued, past the end of its leases or not.
//
// [Explore] goes through all interleavings of a small case instead.
package sim
