package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxJSONDepth is how deep a json field may nest. MariaDB's JSON functions stop
// at 32 levels, and the field stands inside a payload.
const maxJSONDepth = 24

// CheckJSON says why a JSON document would not come back from a JSON column as
// it was: MySQL rounds numbers beyond 64 bits or a double, and keeps only the
// last of two equal keys.
func CheckJSON(doc json.RawMessage) error {
	if len(doc) == 0 {
		return errors.New("no JSON value")
	}
	if !utf8.Valid(doc) {
		return errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if err := checkJSONValue(dec, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

func checkJSONValue(dec *json.Decoder, depth int) error {
	if depth > maxJSONDepth {
		return errors.New("nested deeper than " + strconv.Itoa(maxJSONDepth) + " levels")
	}
	token, err := dec.Token()
	if err != nil {
		return errors.New("not JSON")
	}
	switch token := token.(type) {
	case json.Number:
		return checkJSONNumber(token.String())
	case json.Delim:
		var keys map[string]bool
		if token == '{' {
			keys = map[string]bool{}
		}
		for dec.More() {
			if keys != nil {
				key, err := dec.Token()
				if err != nil {
					return errors.New("not JSON")
				}
				if name := key.(string); keys[name] {
					return errors.New("an object has the same key twice")
				} else {
					keys[name] = true
				}
			}
			if err := checkJSONValue(dec, depth+1); err != nil {
				return err
			}
		}
		if _, err := dec.Token(); err != nil {
			return errors.New("not JSON")
		}
	}
	return nil
}

func checkJSONNumber(text string) error {
	if !strings.ContainsAny(text, ".eE") {
		if text == "-0" {
			return errors.New("a number is -0")
		}
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return nil
		}
		if _, err := strconv.ParseUint(text, 10, 64); err == nil {
			return nil
		}
		return errors.New("a number needs more than 64 bits")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !sameDecimal(text, strconv.FormatFloat(f, 'e', -1, 64)) {
		return errors.New("a number needs more than a double")
	}
	return nil
}

// sameDecimal reports whether two JSON numbers are the same number.
func sameDecimal(a, b string) bool {
	digitsA, expA := decimalParts(a)
	digitsB, expB := decimalParts(b)
	return digitsA == digitsB && (expA == expB || strings.Trim(digitsA, "-0") == "")
}

// decimalParts returns the sign and significant digits, and the power of ten of
// the last of them.
func decimalParts(s string) (digits string, exp int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(s), "e")
	exp, _ = strconv.Atoi(power)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exp -= len(fraction)
	sign := ""
	if rest, negative := strings.CutPrefix(whole, "-"); negative {
		sign, whole = "-", rest
	}
	all := strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(all, "0")
	return sign + trimmed, exp + len(all) - len(trimmed)
}
