package mysqlerr

import "strings"

// constraintOf returns the name of the key that the message of a duplicate key
// error gives, without its table, or "" when it can't be told with certainty.
//
// The message is `Duplicate entry 'VALUE' for key 'KEY'` in the language of the
// server, in some with words after the key. Values come first and may hold
// anything, quotes and the text "for key 'x'" among it, so only the last quoted
// word counts, and it must look like an identifier. MySQL writes the table before
// the key since 8.0.19, MariaDB doesn't.
func constraintOf(message string) string {
	end := strings.LastIndexByte(message, '\'')
	if end < 0 {
		return ""
	}
	start := strings.LastIndexByte(message[:end], '\'')
	if start < 0 {
		return ""
	}
	key := message[start+1 : end]
	if dot := strings.LastIndexByte(key, '.'); dot >= 0 {
		key = key[dot+1:]
	}
	if key == "" || strings.Trim(key, identifierBytes) != "" {
		return ""
	}
	return key
}

const identifierBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
