package spec

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"
)

var uuidText = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// misfits says what of an encoded object doesn't fit the fields: keys that none has,
// required ones that lack, and values of another type. path is that of the object.
func misfits(path string, fields []*Field, values map[string]json.RawMessage) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(fields, func(f *Field) bool { return f.Name.Text == name })
		if i < 0 {
			wrong = append(wrong, fmt.Sprintf("has the key %s, and there is no such field", quote(path+name)))
		} else if fields[i].Type != nil { // one that is broken is reported
			wrong = append(wrong, misfit(path+name, fields[i].Type, values[name])...)
		}
	}
	for _, f := range fields {
		if _, ok := values[f.Name.Text]; !ok && !f.Optional {
			wrong = append(wrong, fmt.Sprintf("lacks %s, which is required", quote(path+f.Name.Text)))
		}
	}
	return wrong
}

func misfit(at string, t *Type, value json.RawMessage) []string {
	var members map[string]json.RawMessage
	var items []json.RawMessage
	ok := true
	switch t.Kind {
	case KindJSON:
	case KindStruct:
		if ok = json.Unmarshal(value, &members) == nil && members != nil; ok {
			return misfits(at+".", t.Named.Fields, members)
		}
	case KindMap:
		ok = json.Unmarshal(value, &members) == nil && members != nil
		for _, key := range slices.Sorted(maps.Keys(members)) {
			items = append(items, members[key])
		}
	case KindList:
		ok = json.Unmarshal(value, &items) == nil && items != nil
	case KindBool:
		ok = string(value) == "true" || string(value) == "false"
	case KindInt32:
		ok = isWholeNumber(value, 32)
	case KindInt64:
		ok = isWholeNumber(value, 64)
	case KindFloat64:
		_, err := strconv.ParseFloat(string(value), 64)
		ok = err == nil
	default:
		var text *string
		ok = json.Unmarshal(value, &text) == nil && text != nil && isText(*text, t)
	}
	if !ok {
		return []string{fmt.Sprintf("has a value of %s that is no %s of this version", quote(at), t)}
	}
	var wrong []string
	for _, item := range items {
		wrong = append(wrong, misfit(at+"[]", t.Elem, item)...)
	}
	return wrong
}

func isWholeNumber(value json.RawMessage, bits int) bool {
	_, err := strconv.ParseInt(string(value), 10, bits)
	return err == nil
}

// isText reports a string that a type whose values are strings has among its values.
func isText(text string, t *Type) bool {
	var err error
	switch t.Kind {
	case KindEnum:
		return slices.ContainsFunc(t.Named.Enum, func(v EnumValue) bool { return v.Name.Text == text })
	case KindDecimal:
		return decimalText.MatchString(text)
	case KindUUID:
		return uuidText.MatchString(text)
	case KindTimestamp:
		_, err = time.Parse(time.RFC3339Nano, text)
	case KindDate:
		_, err = time.Parse(time.DateOnly, text)
	case KindDuration:
		_, err = time.ParseDuration(text)
	case KindBytes:
		_, err = base64.StdEncoding.DecodeString(text)
	default: // any string
	}
	return err == nil
}
