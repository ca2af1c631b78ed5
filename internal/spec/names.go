package spec

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// nameRule is what a kind of name may look like.
type nameRule struct {
	what    string // "event name"
	pattern *regexp.Regexp
	most    int    // characters
	reads   string // the pattern in words
	repair  func(string) string
}

// Names that become wire identity, broker subjects, Go identifiers or SQL
// identifiers are held to patterns narrow enough for all of these at once.
// The fields of the table, of Go and of the brokers set the lengths:
// outbox_event.event_type holds 128 characters, MySQL identifiers 64, AMQP's short
// strings 255 bytes, of which a queue leaves some to queues that belong to it. A
// NATS stream is a folder and a subject's part, a Kafka topic has 249 characters.
var (
	serviceName  = nameRule{"the service name", regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`), 63, "lower-case letters, digits and dashes, beginning with a letter", kebab}
	eventName    = nameRule{"the event name", regexp.MustCompile(`^[a-z][a-z0-9]*([.-][a-z][a-z0-9]*)*$`), 128, "lower-case words joined by dots or dashes", dotted}
	consumerName = nameRule{"the consumer name", regexp.MustCompile(`^[a-z][a-z0-9]*([.-][a-z][a-z0-9]*)*$`), 128, "lower-case words joined by dots or dashes", kebab}
	fieldName    = nameRule{"the field name", regexp.MustCompile(`^[a-z][a-z0-9_]*$`), 48, "lower-case letters, digits and underscores, beginning with a letter", snake}
	typeName     = nameRule{"the type name", regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`), 48, "letters and digits, beginning with an upper-case letter", pascal}
	enumValue    = nameRule{"the enum value", regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`), 64, "letters, digits, underscores, dots and dashes, beginning with a letter or digit", nil}
	tableName    = nameRule{"the table name", regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), 64, "letters, digits and underscores", nil}
	columnName   = nameRule{"the column name", regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), 64, "letters, digits and underscores", nil}
	aggregateTyp = nameRule{"the aggregate type", regexp.MustCompile(`^[a-z][a-z0-9_-]*$`), 64, "lower-case letters, digits, dashes and underscores, beginning with a letter", snake}
	goNameRule   = nameRule{"go_name", regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`), 64, "letters and digits, beginning with an upper-case letter", pascal}
	packageName  = nameRule{"the Go package name", regexp.MustCompile(`^[a-z][a-z0-9_]*$`), 64, "lower-case letters, digits and underscores, beginning with a letter", lower}
	streamName   = nameRule{"the stream", regexp.MustCompile(`^[A-Za-z0-9_-]+$`), 255, "letters, digits, dashes and underscores", stream}
	exchangeName = nameRule{"the exchange", regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`), 255, "letters, digits, dots, dashes, underscores and colons", nil}
	topicName    = nameRule{"the topic", regexp.MustCompile(`^[A-Za-z0-9._-]+$`), 249, "letters, digits, dots, dashes and underscores", nil}
	keyName      = nameRule{"the key", regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`), 255, "words of letters, digits, dashes and underscores, joined by dots", nil}
	queueName    = nameRule{"the queue", regexp.MustCompile(`^[A-Za-z0-9._-]+$`), 200, "letters, digits, dots, dashes and underscores", nil}
	groupName    = nameRule{"the group", regexp.MustCompile(`^[A-Za-z0-9._-]+$`), 249, "letters, digits, dots, dashes and underscores", nil}
	prefixName   = nameRule{"table_prefix", regexp.MustCompile(`^[a-z][a-z0-9_]*$`), longestPrefix, "lower-case letters, digits and underscores, beginning with a letter", snake}
)

// name reads n as a name under a rule.
func (c *checker) name(n *node, rule nameRule) (Name, bool) {
	text, ok := c.scalar(n, rule.what)
	return Name{Text: text, Pos: n.pos}, ok && c.checkName(n, text, rule)
}

// checkName reports text, which stands at n, when it breaks a rule.
func (c *checker) checkName(n *node, text string, rule nameRule) bool {
	if n.plain && isYAML11Bool(n.text) {
		c.problem(n, "unquoted-boolean",
			fmt.Sprintf("%s is %s without quotes, which many YAML readers take for a boolean", rule.what, n.text),
			fmt.Sprintf("write %q in quotes", n.text))
		return false
	}
	if len(text) > rule.most {
		c.problem(n, "name-too-long", fmt.Sprintf("%s has %d characters, and at most %d fit", rule.what, len(text), rule.most), "")
		return false
	}
	if rule.pattern.MatchString(text) {
		return true
	}
	hint := "use " + rule.reads
	if rule.repair != nil {
		if s := rule.repair(text); s != text && len(s) <= rule.most && rule.pattern.MatchString(s) {
			hint = fmt.Sprintf("write %q: %s", s, rule.reads)
		}
	}
	c.problem(n, "bad-name", fmt.Sprintf("%s %s is not allowed", rule.what, quote(text)), hint)
	return false
}

// isUnquotedNumber reports a text that YAML readers take for a number, or for
// a date, and may write back as another text: 0123 as 83.
func (c *checker) isUnquotedNumber(n *node, what string) bool {
	if n.kind != kindScalar || !n.plain || !yamlNumber.MatchString(n.text) {
		return false
	}
	kind := "a number"
	if yamlDate.MatchString(n.text) {
		kind = "a date"
	}
	c.problem(n, "unquoted-number",
		fmt.Sprintf("%s is %s without quotes, which YAML readers take for %s", what, n.text, kind),
		fmt.Sprintf("write %q in quotes", n.text))
	return true
}

// What YAML 1.1 and 1.2 read as numbers and dates, of the texts that may be values.
var (
	yamlDate   = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}$`)
	yamlNumber = regexp.MustCompile(`^([0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|` +
		`[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})$`)
)

func lower(s string) string { return strings.ToLower(s) }

// dotted is for events: payment.authorized.
func dotted(s string) string { return separated(s, ".", ".-") }

func kebab(s string) string { return separated(s, "-", ".-") }

func stream(s string) string { return strings.ToUpper(snake(s)) }

func snake(s string) string { return separated(s, "_", "_") }

// separated puts a separator at each change from lower to upper case and in
// place of every character that is none of letters, digits and keep.
func separated(s, separator, keep string) string {
	var b strings.Builder
	last := rune(0)
	for _, r := range s {
		if r > unicode.MaxASCII {
			return s // what a letter of another script is called here is for its owner to say
		}
		if unicode.IsUpper(r) && (unicode.IsLower(last) || unicode.IsDigit(last)) {
			b.WriteString(separator)
		}
		if !isWord(byte(r)) && !strings.ContainsRune(keep, r) || r == '_' && separator != "_" {
			b.WriteString(separator)
		} else {
			b.WriteRune(unicode.ToLower(r))
		}
		last = r
	}
	return strings.Trim(b.String(), separator+keep)
}

// pascal is separated's counterpart for types.
func pascal(s string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// path reads a path that counts from the config file and stays below it.
func (c *checker) path(n *node, what string) (Name, bool) {
	text, ok := c.scalar(n, what)
	if !ok {
		return Name{}, false
	}
	problem, hint := "", ""
	switch {
	case strings.Contains(text, `\`):
		problem, hint = "contains a backslash", "separate folders with /"
	case strings.HasPrefix(text, "/"), len(text) > 1 && text[1] == ':', strings.HasPrefix(text, "~"):
		problem, hint = "is not relative", "paths count from the folder of events.yaml"
	case hasDotDot(text):
		problem, hint = "leads out of the folder of events.yaml", `remove ".."`
	}
	if problem != "" {
		c.problem(n, "bad-path", fmt.Sprintf("%s %s %s", what, quote(text), problem), hint)
		return Name{}, false
	}
	return Name{Text: path.Clean(text), Pos: n.pos}, true
}

func hasDotDot(p string) bool {
	for element := range strings.SplitSeq(p, "/") {
		if element == ".." {
			return true
		}
	}
	return false
}
