package gogen

import (
	"strings"
	"testing"
)

// TestVersionsBehaviour runs tests of upcasts beside the generated code.
func TestVersionsBehaviour(t *testing.T) {
	m := newModule(t)
	m.add("shop", input(t, parse(t, read(t, "testdata/versions/events.yaml"))))
	m.write("shop/gen/orderevents/versions_test.go", read(t, "testdata/versions/versions_test.go.txt"))
	m.mustRun("test", "-count=1", "./shop/gen/orderevents")
}

// amount is a Go type for decimals; MarshalJSON and UnmarshalJSON are a test's.
const amount = `package amount

import "errors"

var errForm = errors.New("not what this type reads")

type Decimal struct{ S string }

func (d Decimal) MarshalJSON() ([]byte, error) { return []byte(MARSHAL), nil }

func (d *Decimal) UnmarshalJSON(b []byte) error {
	if READS {
		d.S = string(b[1 : len(b)-1])
		return nil
	}
	return errForm
}
`

// TestFrozenWireForm: the generated tests fail on the user's machine when a Go type of the
// user's own writes another form than the one that was published, or can't read a default.
func TestFrozenWireForm(t *testing.T) {
	m := newModule(t)
	yaml := read(t, "testdata/versions/events.yaml")
	for folder, c := range map[string]struct {
		marshal, reads string
		want           string // empty: the tests pass
	}{
		"astring": {`"\"" + d.S + "\""`, `true`, ""},
		"anumber": {`d.S`, `true`, "TestOrderAcceptedV2Upcast TestOrderAcceptedV2Fixture TestOrderCancelledV1Fixture"},
		"nozero":  {`"\"" + d.S + "\""`, `string(b) != "\"0.00\""`, "the default of refund: a value does not fit its type"},
		"nohalf":  {`"\"" + d.S + "\""`, `string(b) != "\"0.50\""`, "the default of fee: a value does not fit its type"},
	} {
		m.write("types/"+folder+"/amount/amount.go", strings.NewReplacer("MARSHAL", c.marshal, "READS", c.reads).Replace(amount))
		in := input(t, parse(t, strings.Replace(yaml, "github.com/shopspring/decimal.Decimal", testModule+"/types/"+folder+"/amount.Decimal", 1)))
		m.add(folder, in)
		out, err := m.run("test", "-vet=off", "-count=1", "./"+folder+"/gen/orderevents")
		if (err == nil) != (c.want == "") {
			t.Errorf("%s: %v\n%s", folder, err, out)
			continue
		}
		for want := range strings.SplitSeq(c.want, " ") {
			if strings.HasPrefix(want, "Test") && !strings.Contains(out, "--- FAIL: "+want+" ") {
				t.Errorf("%s: %s has not failed\n%s", folder, want, out)
			}
		}
		if !strings.HasPrefix(c.want, "Test") && !strings.Contains(out, c.want) {
			t.Errorf("%s: no %q in\n%s", folder, c.want, out)
		}
	}
}
