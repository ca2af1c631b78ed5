package outbox

import (
	"fmt"
	"regexp"
	"time"
)

// timestampLayout is RFC 3339 in UTC with the six digits that a DATETIME(6) keeps.
const timestampLayout = "2006-01-02T15:04:05.000000Z07:00"

// Timestamp is a point in time as it travels and as the databases keep it: in
// UTC, to the microsecond. It encodes as RFC 3339.
type Timestamp struct{ time.Time }

// TimestampOf returns t in UTC, cut to the microsecond, so that what is written
// equals what is read back.
func TimestampOf(t time.Time) Timestamp { return Timestamp{t.UTC().Truncate(time.Microsecond)} }

// Validate refuses what RFC 3339 can't hold.
func (t Timestamp) Validate() error {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return formError("the year is outside 0 to 9999")
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return t.UTC().AppendFormat(nil, `"`+timestampLayout+`"`), nil
}

// UnmarshalJSON implements json.Unmarshaler. It takes any RFC 3339 time.
func (t *Timestamp) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	parsed, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(data))
	if err != nil {
		return formError("not an RFC 3339 time")
	}
	*t = TimestampOf(parsed)
	return nil
}

// Date is a calendar day without a time zone. It encodes as "2006-01-02".
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// DateOf returns the day of t in t's location.
func DateOf(t time.Time) Date {
	y, m, d := t.Date()
	return Date{Year: y, Month: m, Day: d}
}

// Validate refuses a day that no calendar has. The zero Date is one of them.
func (d Date) Validate() error {
	t := time.Date(d.Year, d.Month, d.Day, 0, 0, 0, 0, time.UTC)
	if d.Year < 0 || d.Year > 9999 || DateOf(t) != d {
		return formError("not a calendar day")
	}
	return nil
}

func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day) }

// MarshalJSON implements json.Marshaler.
func (d Date) MarshalJSON() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return []byte(`"` + d.String() + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Date) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	t, err := time.Parse(`"`+time.DateOnly+`"`, string(data))
	if err != nil {
		return formError("not a date of the form 2006-01-02")
	}
	*d = DateOf(t)
	return nil
}

// Duration is a length of time. It encodes as Go writes it, such as "1h30m0.5s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return formError(`not a duration such as "1h30m"`)
	}
	*d = Duration(parsed)
	return nil
}

// Decimal is an exact decimal number, kept as its text: an optional minus sign,
// digits, and a fraction. It encodes as a JSON string, so that no reader rounds
// it. Map decimal to a type of your own under go.types in events.yaml to
// calculate with it. The zero value is not a number.
type Decimal string

var decimalPattern = regexp.MustCompile(`^-?[0-9]{1,128}(\.[0-9]{1,128})?$`)

// Validate refuses text that isn't a decimal number.
func (d Decimal) Validate() error {
	if !decimalPattern.MatchString(string(d)) {
		return formError(`not a decimal number such as "12.50"`)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Decimal) MarshalText() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return []byte(d), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Decimal) UnmarshalText(text []byte) error {
	if err := Decimal(text).Validate(); err != nil {
		return err
	}
	*d = Decimal(text)
	return nil
}
