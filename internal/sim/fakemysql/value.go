package fakemysql

import (
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

type kind uint8

const (
	null kind = iota
	integer
	text
	moment   // microseconds since 1970
	interval // microseconds
)

// value is a value of SQL.
type value struct {
	kind kind
	i    int64
	s    string
}

func intValue(i int64) value   { return value{kind: integer, i: i} }
func textValue(s string) value { return value{kind: text, s: s} }

func boolValue(b bool) value {
	if b {
		return intValue(1)
	}
	return intValue(0)
}

func (v value) isTrue() bool { return v.kind == integer && v.i != 0 }

// fromDriver makes a value of an argument.
func fromDriver(v driver.Value) (value, error) {
	switch v := v.(type) {
	case nil:
		return value{}, nil
	case int64:
		return intValue(v), nil
	case uint64:
		return intValue(int64(v)), nil
	case bool:
		return boolValue(v), nil
	case string:
		return textValue(v), nil
	case []byte:
		return textValue(string(v)), nil
	default:
		return value{}, fmt.Errorf("an argument of type %T", v)
	}
}

func (v value) toDriver() driver.Value {
	switch v.kind {
	case null:
		return nil
	case integer:
		return v.i
	case moment:
		return []byte(time.UnixMicro(v.i).UTC().Format("2006-01-02 15:04:05.000000"))
	default:
		return []byte(v.s)
	}
}

// asMoment reads a text as a time where one is wanted.
func (v value) asMoment() value {
	if v.kind != text {
		return v
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, v.s); err == nil {
			return value{kind: moment, i: t.UnixMicro()}
		}
	}
	return v
}

// compare returns false when one of them is NULL.
func compare(a, b value) (int, bool) {
	if a.kind == null || b.kind == null {
		return 0, false
	}
	if a.kind == moment {
		b = b.asMoment()
	} else if b.kind == moment {
		a = a.asMoment()
	}
	if a.kind == text || b.kind == text {
		return strings.Compare(a.s, b.s), true
	}
	return cmp.Compare(a.i, b.i), true
}

// keyPart is v as a part of a key: the order of keys is that of their values.
func (v value) keyPart() string {
	if v.kind == text {
		return v.s + "\x00"
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(v.i)^1<<63)
	return string(b[:])
}

// words is v as the server quotes it in a message.
func (v value) words() string {
	if v.kind == text {
		return v.s
	}
	return fmt.Sprint(v.i)
}
