package outbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHeaderBytes bounds all names and values of a message's headers together.
const maxHeaderBytes = 8 << 10

// reservedHeaders are names, and beginnings of names, that a broker or
// CloudEvents takes as a command or as its own: Nats-Rollup purges a subject,
// RabbitMQ's CC and BCC add routing keys.
var (
	reservedHeaders        = map[string]bool{"cc": true, "bcc": true, "content-type": true}
	reservedHeaderPrefixes = []string{"nats-", "ce-", "cloudevents", "x-", "amq."}
)

// CheckHeader says why a header can't be set by a writer, or nil.
func CheckHeader(name, value string) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("header %q: use lower-case letters, digits and dashes", name)
	}
	if reservedHeaders[name] {
		return fmt.Errorf("header %q is reserved", name)
	}
	for _, prefix := range reservedHeaderPrefixes {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("header %q: names that begin with %q are reserved", name, prefix)
		}
	}
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("header %q: its value has a control character or is not UTF-8", name)
	}
	if strings.TrimSpace(value) != value {
		return fmt.Errorf("header %q: its value begins or ends with a blank, which brokers cut off", name)
	}
	return nil
}

func encodeHeaders(headers map[string]string) (json.RawMessage, error) {
	for name, value := range headers {
		if err := CheckHeader(name, value); err != nil {
			return nil, err
		}
	}
	if size := headerBytes(headers); size > maxHeaderBytes {
		return nil, fmt.Errorf("headers: %d bytes, at most %d", size, maxHeaderBytes)
	}
	if len(headers) == 0 {
		return json.RawMessage("{}"), nil
	}
	return json.Marshal(headers)
}

func headerBytes(headers map[string]string) (n int) {
	for name, value := range headers {
		n += len(name) + len(value)
	}
	return n
}
