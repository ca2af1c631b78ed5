package migration_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outboxgen/outboxgen/internal/migration"
)

func TestNextVersion(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600))
	for _, c := range []struct {
		want  string
		names []string
	}{
		{"20260304040607", nil},
		{"20260304040607", []string{"readme.md", "schema.sql", "v1_a.sql", "20260101000000_a.sql"}},
		{"20270101000001", []string{"20270101000000_a.up.sql"}}, // another clock was ahead
		{"000013", []string{"000012_a.up.sql", "000012_a.down.sql", "000002_b.up.sql"}},
		{"00100", []string{"00099_a.sql"}},
		{"10", []string{"9_a.sql"}},
		{"20260304040607", []string{"00001_a.sql", "20250101000000_b.sql"}}, // as the last one
		{"20260304040607", []string{"99999999999999999999999_a.sql"}},
	} {
		if got := migration.NextVersion(c.names, now); got != c.want {
			t.Errorf("%v: %s, not %s", c.names, got, c.want)
		}
	}
}

func TestFiles(t *testing.T) {
	const up, down = "CREATE TABLE t;\n", "DROP TABLE t;\n"
	for tool, want := range map[migration.Tool][]migration.File{
		migration.Plain:         {{"add.sql", up}},
		migration.Goose:         {{"7_add.sql", "-- +goose Up\n" + up + "\n-- +goose Down\n" + down}},
		migration.GolangMigrate: {{"7_add.up.sql", up}, {"7_add.down.sql", down}},
		migration.Atlas:         {{"7_add.sql", up}},
	} {
		if diff := cmp.Diff(want, migration.Files(tool, "7", "add", up, down)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tool, diff)
		}
	}
	// What has no way back says nothing of one.
	for tool, want := range map[migration.Tool][]migration.File{
		migration.Goose:         {{"7_add.sql", "-- +goose Up\n" + up}},
		migration.GolangMigrate: {{"7_add.up.sql", up}},
	} {
		if diff := cmp.Diff(want, migration.Files(tool, "7", "add", up, "")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tool, diff)
		}
	}
}
