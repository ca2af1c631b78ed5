package gogen

import (
	"fmt"
	"strings"
	"testing"
)

// reconcileSQLC is what sqlc makes of a source with these column types.
func reconcileSQLC(params, row string) map[string][]byte {
	return map[string][]byte{"reconcile.sql.go": []byte(fmt.Sprintf(`package outboxdb

import (
	"database/sql"
	"encoding/json"
	"time"
)

type OrdersKind string

type NullOrdersKind struct{ Valid bool }

type ReconcileOrderAcceptedParams struct {
%s
}

type ReconcileOrderAcceptedRow struct {
%s
}
`, params, row))}
}

const (
	goodParams = "TenantID int64\nRequestID string"
	goodRow    = "EventID string\nAggregateID int64\nCreatedUs int64"
)

func TestReconcileParameters(t *testing.T) {
	for _, c := range []struct{ params, row, want string }{
		{goodParams, goodRow, "tenantID int64, requestID string"},
		{"ID uint64\nURL []byte", goodRow, "id uint64, url []byte"},
		{"URLPath string\nX int32", goodRow, "urlPath string, x int32"},
		{"PlacedOn time.Time\nDoc json.RawMessage", goodRow, "placedOn time.Time, doc json.RawMessage"},
		{"Type string\nLen int16", goodRow, "typeValue string, lenValue int16"},
		{"Ctx string\nDB string", goodRow, "ctxValue string, dbValue string"},
		{"Rows string\nFound string", goodRow, "rowsValue string, foundValue string"},
		{"I string\nRow string", goodRow, "iValue string, rowValue string"},
		{goodParams, goodRow, "return outbox.ReconciledRows(found)"},
		{"Time time.Time\nError bool", goodRow, "timeValue time.Time, errorValue bool"},
		{"Outbox string\nOutboxValue string", goodRow, "outboxValue string, outboxValueValue string"},
		{"Kind OrdersKind\nN int64", goodRow, "kind string, n int64"},
		{"Kind OrdersKind\nN int64", goodRow, "Kind: outboxdb.OrdersKind(kind)"},
		{goodParams, "EventID []byte\nAggregateID []byte\nCreatedUs int64", "string(row.EventID), string(row.AggregateID), row.CreatedUs"},
		{goodParams, "EventID string\nAggregateID uint32\nCreatedUs int64", "row.EventID, row.AggregateID, row.CreatedUs"},
		{goodParams, "EventID string\nAggregateID OrdersKind\nCreatedUs int64", "row.EventID, string(row.AggregateID), row.CreatedUs"},
	} {
		in := input(t, parse(t, read(t, "testdata/example/events.yaml")))
		in.DB = reconcileSQLC(c.params, c.row)
		src := dataOf(generate(t, in), "reconcile.gen.go")
		if !strings.Contains(strings.Join(strings.Fields(src), " "), c.want) {
			t.Errorf("%q, %q: no %q in\n%s", c.params, c.row, c.want, src)
		}
	}
}

// Line and column of the names in testdata/example/events.yaml.
func TestReconcileProblems(t *testing.T) {
	for _, c := range []struct {
		params, row string
		want        []string
	}{
		{"TenantID sql.NullInt64\nRequestID string", goodRow, []string{"31:17 source-column-nullable"}},
		{"TenantID sql.NullInt64\nRequestID sql.NullString", goodRow, []string{"31:17 source-column-nullable", "31:28 source-column-nullable"}},
		{"TenantID int64\nRequestID NullOrdersKind", goodRow, []string{"31:28 source-column-nullable"}},
		{"TenantID int64\nRequestID interface{}", goodRow, []string{"31:28 source-column-type"}},
		{goodParams, "EventID sql.NullString\nAggregateID int64\nCreatedUs int64", []string{"32:17 source-column-nullable"}},
		{goodParams, "EventID int64\nAggregateID sql.NullInt64\nCreatedUs int64", []string{"32:17 source-column-type", "33:21 source-column-nullable"}},
		{goodParams, "EventID string\nAggregateID time.Time\nCreatedUs int64", []string{"33:21 source-column-type"}},
		{goodParams, "EventID string\nAggregateID int64\nCreatedUs sql.NullInt64", []string{"34:19 source-column-nullable"}},
		{goodParams, "EventID string\nAggregateID int64\nCreatedUs interface{}", []string{"34:19 source-column-type"}},
		{"TenantID int64", goodRow, []string{"29:5 source-query"}},
		{goodParams, "EventID string", []string{"29:5 source-query"}},
	} {
		in := input(t, parse(t, read(t, "testdata/example/events.yaml")))
		in.DB = reconcileSQLC(c.params, c.row)
		files, problems := Generate(in)
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%d:%d %s", p.Pos.Line, p.Pos.Col, p.Rule))
		}
		if files != nil || strings.Join(got, "; ") != strings.Join(c.want, "; ") {
			t.Errorf("%q, %q: %d files, %q, want %q", c.params, c.row, len(files), got, c.want)
		}
	}
}

func TestNoSourceNoReconcile(t *testing.T) {
	yaml := everything("", "string")
	if src := dataOf(generate(t, input(t, parse(t, yaml))), "reconcile.gen.go"); src != "" {
		t.Error(src)
	}
}
