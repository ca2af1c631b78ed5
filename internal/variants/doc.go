// Package variants holds the example's events with other settings of the
// outbox, for the tests: a folder each, with its own events.yaml and what is
// generated from it. The Go names are those of gen/orderevents, so that a test
// changes the kind of store by changing an import.
//
//   - rows: ordering none; a consumer with settings other than the defaults
//   - rowsdelete: ordering none, keep_published none
//   - lanesdelete: ordering aggregate, keep_published none
//
// ordering aggregate with published events kept is the example itself. The
// other variants have no consumers, and none a source, which don't depend on the
// settings of the outbox.
package variants
