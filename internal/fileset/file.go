// Package fileset compares the files that should be there with those that are,
// and brings the second to the first without ever touching what isn't ours.
package fileset

// File is a file that should be there.
type File struct {
	Path string // relative to the folder of events.yaml, slash separated
	Data []byte

	// Once marks a file that is written when it is missing and then belongs to
	// the user: never compared, never overwritten, never removed.
	Once bool
}
