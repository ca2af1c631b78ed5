package integration

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)

// Whatever a payload may hold comes back equal from the JSON column, in both
// ways in which the driver can bind it.
func TestPayloadsSurviveTheColumn(t *testing.T) {
	each(t, func(t *testing.T, server dbtest.Database, db *outbox.DB) {
		mustExec(t, db, "CREATE TABLE doc (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload JSON NOT NULL)")
		prepared := open(t, via(t, server, "", func(c *mysql.Config) { c.InterpolateParams = false }))
		for name, db := range map[string]*outbox.DB{"interpolated": db, "prepared": prepared} {
			through := func(t *rapid.T, encoded json.RawMessage) json.RawMessage {
				res, err := db.Exec("INSERT INTO doc (payload) VALUES (?)", encoded)
				if err != nil {
					t.Fatalf("insert: %v", err)
				}
				id, _ := res.LastInsertId()
				var back json.RawMessage
				if err := db.QueryRow("SELECT payload FROM doc WHERE id = ?", id).Scan(&back); err != nil {
					t.Fatalf("select: %v", err)
				}
				return back
			}
			t.Run(name+"/order.accepted", rapid.MakeCheck(func(t *rapid.T) {
				in := genAccepted(t)
				if err := in.Validate(); err != nil {
					t.Skip("not a payload")
				}
				encoded, err := json.Marshal(in)
				if err != nil {
					t.Fatal(err)
				}
				out, err := outbox.DecodePayload[orderevents.OrderAccepted](through(t, encoded))
				if err != nil {
					t.Fatalf("decode: %v", err)
				}
				if diff := cmp.Diff(in, out, cmp.Comparer(decimal.Decimal.Equal), nilIsEmpty); diff != "" {
					t.Fatal(diff)
				}
			}))
			t.Run(name+"/any JSON", rapid.MakeCheck(func(t *rapid.T) {
				encoded, err := json.Marshal(genJSON(t, 5))
				if err != nil {
					t.Fatal(err)
				}
				if outbox.CheckJSON(encoded) != nil {
					t.Skip("refused by the writer")
				}
				var in, out any
				decode(t, encoded, &in)
				decode(t, through(t, encoded), &out)
				if diff := cmp.Diff(in, out); diff != "" {
					t.Fatalf("%s\n%s", encoded, diff)
				}
			}))
		}
	})
}

// nilIsEmpty: a required list that is nil travels as an empty one.
var nilIsEmpty = cmp.FilterPath(func(p cmp.Path) bool {
	return p.Last().Type().Kind() == reflect.Slice
}, cmp.FilterValues(func(a, b any) bool {
	return reflect.ValueOf(a).Kind() == reflect.Slice && reflect.ValueOf(a).Len() == 0 &&
		reflect.ValueOf(b).Kind() == reflect.Slice && reflect.ValueOf(b).Len() == 0
}, cmp.Ignore()))

func decode(t *rapid.T, data []byte, v any) {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var raw any
	if err := dec.Decode(&raw); err != nil {
		t.Fatal(err)
	}
	*v.(*any) = numbers(raw)
}

// numbers makes equal numbers equal values, however they are written.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if d, err := decimal.NewFromString(v.String()); err == nil {
			return d.String()
		}
		return v.String()
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

func genAccepted(t *rapid.T) orderevents.OrderAccepted {
	p := orderevents.OrderAccepted{
		OrderID:      rapid.Int64().Draw(t, "order_id"),
		OrderVersion: rapid.Int64().Draw(t, "order_version"),
		TenantID:     rapid.Int64().Draw(t, "tenant_id"),
		Total:        genMoney(t),
		AcceptedAt:   outbox.TimestampOf(time.UnixMicro(rapid.Int64Range(-62135596800_000000, 253402300799_999999).Draw(t, "at"))),
	}
	for range rapid.IntRange(0, 3).Draw(t, "lines") {
		line := orderevents.LineItem{SKU: genText(t), Quantity: rapid.Int32().Draw(t, "quantity"), UnitPrice: genMoney(t)}
		if rapid.Bool().Draw(t, "has attributes") {
			line.Attributes = map[string]string{genText(t): genText(t), "x": genText(t)}
		}
		p.Lines = append(p.Lines, line)
	}
	if rapid.Bool().Draw(t, "has note") {
		note := genText(t)
		p.Note = &note
	}
	return p
}

func genMoney(t *rapid.T) orderevents.Money {
	digits := rapid.StringMatching(`-?[0-9]{1,20}\.[0-9]{1,10}`).Draw(t, "amount")
	return orderevents.Money{
		Amount:   decimal.RequireFromString(digits),
		Currency: rapid.SampledFrom([]orderevents.Currency{orderevents.CurrencyCNY, orderevents.CurrencyEUR}).Draw(t, "currency"),
	}
}

// genText draws any text, with what hurts databases more often than chance would.
func genText(t *rapid.T) string {
	return rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"", "\x00", "a\x00b", "'", `"`, `\`, "\\'", "</script>", "\u2028", "😀", "é", "e\u0301", " a ", "%s", "?", "\x1a", "\r\n"}),
	).Draw(t, "text")
}

func genJSON(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return genText(t)
	case 1:
		return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{
			0.1, 1e22, 1e-7, 5e-324, math.MaxFloat64, 123456789.125, 1.0000000000000002,
		})).Draw(t, "float")
	case 2:
		return rapid.SampledFrom([]any{int64(math.MaxInt64), int64(math.MinInt64), uint64(math.MaxUint64), int64(0)}).Draw(t, "int")
	case 3:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "literal")
	case 4:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "len") {
			list = append(list, genJSON(t, depth-1))
		}
		return list
	default:
		object := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "len") {
			object[genText(t)] = genJSON(t, depth-1)
		}
		return object
	}
}

// As deep as a json field may be, it still fits into both databases.
func TestDeepestPayloadFits(t *testing.T) {
	each(t, func(t *testing.T, _ dbtest.Database, db *outbox.DB) {
		mustExec(t, db, "CREATE TABLE doc (payload JSON NOT NULL)")
		depth := 0
		for outbox.CheckJSON(nested(depth+1)) == nil {
			depth++
		}
		if depth < 10 {
			t.Fatalf("only %d levels are allowed", depth)
		}
		// In a field of a nested type, in a list.
		doc := fmt.Sprintf(`{"a":{"b":[%s]}}`, nested(depth))
		mustExec(t, db, "INSERT INTO doc VALUES (?)", json.RawMessage(doc))
	})
}

func nested(depth int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
}

// What must not compile doesn't.
func TestMisuseDoesNotCompile(t *testing.T) {
	cases := []struct{ name, code, want string }{
		{
			"a pool for a transaction",
			`func f(ctx context.Context, db *sql.DB) error {
				return orderevents.WriteOrderAccepted(ctx, db, outbox.NewEventID(), orderevents.OrderAccepted{})
			}`,
			"*sql.DB does not implement outbox.Transaction (missing method StmtContext)",
		},
		{
			"our pool for a transaction",
			`func f(ctx context.Context, db *outbox.DB) error {
				return orderevents.WriteOrderAccepted(ctx, db, outbox.NewEventID(), orderevents.OrderAccepted{})
			}
			var _ *sql.DB`,
			"missing method StmtContext",
		},
		{
			"a connection for a transaction",
			`func f(ctx context.Context, c *sql.Conn) error {
				return orderevents.WriteOrderAccepted(ctx, c, outbox.NewEventID(), orderevents.OrderAccepted{})
			}`,
			"missing method StmtContext",
		},
		{
			"a handler without a method",
			`type handler struct{}
			func (handler) HandleOrderAccepted(context.Context, *outbox.Tx, outbox.Message[orderevents.OrderAccepted]) error { return nil }
			func f(db *outbox.DB, u orderevents.Upcaster) { orderevents.NewNotificationPlanner(db, handler{}, u, nil) }
			var _ *sql.DB`,
			"missing method HandleOrderCancelled",
		},
		{
			"another event's payload",
			`func f(ctx context.Context, tx *sql.Tx) error {
				return orderevents.WriteOrderAccepted(ctx, tx, outbox.NewEventID(), orderevents.OrderCancelled{})
			}`,
			"cannot use orderevents.OrderCancelled{}",
		},
		{
			"right use",
			`func f(ctx context.Context, tx *sql.Tx) error {
				return orderevents.WriteOrderAccepted(ctx, tx, outbox.NewEventID(), orderevents.OrderAccepted{})
			}`,
			"",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// A folder of this module that no pattern of go matches.
			dir, err := os.MkdirTemp(".", "_misuse")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			code := `package misuse
import (
	"context"
	"database/sql"
	"github.com/outboxgen/outboxgen/gen/orderevents"
	"github.com/outboxgen/outboxgen/runtime/outbox"
)
` + c.code
			if err := os.WriteFile(filepath.Join(dir, "misuse.go"), []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("go", "build", "-o", os.DevNull, "./"+dir).CombinedOutput()
			if c.want == "" {
				if err != nil {
					t.Errorf("does not compile: %s", out)
				}
			} else if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("got %v, want %q in:\n%s", err, c.want, out)
			}
		})
	}
}
