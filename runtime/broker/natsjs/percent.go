package natsjs

import (
	"errors"
	"strings"
	"unicode/utf8"
)

const upperHex = "0123456789ABCDEF"

// encodeValue writes an attribute's value as the binding's section 3.1.3.2 wants
// it: space, double quote, percent and whatever isn't printable ASCII become
// %XY, byte by byte of the UTF-8.
func encodeValue(s string) string {
	plain := true
	for i := range len(s) {
		if mustEncode(s[i]) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := range len(s) {
		if c := s[i]; mustEncode(c) {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func mustEncode(c byte) bool {
	return c <= ' ' || c >= 0x7f || c == '"' || c == '%'
}

var (
	errPercent = errors.New("a percent sign isn't followed by two hexadecimal digits")
	errUTF8    = errors.New("the value isn't UTF-8")
	errQuoted  = errors.New("a quoted value doesn't end with its quote")
)

// decodeValue reads a value back: double quotes with backslash escapes first,
// which earlier versions of the binding allowed, then one round of percent
// decoding. The result is UTF-8.
func decodeValue(s string) (string, error) {
	s, err := unquote(s)
	if err != nil {
		return "", err
	}
	if strings.IndexByte(s, '%') >= 0 {
		var b strings.Builder
		b.Grow(len(s))
		for i := 0; i < len(s); i++ {
			if s[i] != '%' {
				b.WriteByte(s[i])
				continue
			}
			if i+2 >= len(s) {
				return "", errPercent
			}
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi < 0 || lo < 0 {
				return "", errPercent
			}
			b.WriteByte(byte(hi<<4 | lo))
			i += 2
		}
		s = b.String()
	}
	if !utf8.ValidString(s) {
		return "", errUTF8
	}
	return s, nil
}

func unquote(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		return s, nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c == '"' && i == len(s)-1:
			return b.String(), nil
		case c == '"':
			return "", errQuoted
		default:
			b.WriteByte(c)
		}
	}
	return "", errQuoted
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}
