package orders

import (
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
)

// The widths of the columns. What doesn't fit is the caller's mistake, and must
// not be rounded: the row and the event would differ.
const (
	maxRequestID = 64
	maxSKU       = 64
	moneyDigits  = 20 // DECIMAL(20, 4)
	moneyScale   = 4
)

// check refuses what can't be an order, and adds up its total.
func check(r Request) (total decimal.Decimal, err error) {
	invalid := func(reason string) error { return fmt.Errorf("%w: %s", ErrInvalid, reason) }
	switch {
	case r.TenantID <= 0:
		return total, invalid("the tenant is missing")
	case r.RequestID == "" || len(r.RequestID) > maxRequestID || !isPrintableASCII(r.RequestID):
		return total, invalid("request_id needs 1 to 64 printable ASCII characters")
	case !r.Currency.Valid():
		return total, invalid("currency")
	case len(r.Lines) == 0:
		return total, invalid("no lines")
	}
	for _, line := range r.Lines {
		switch price := line.UnitPrice; {
		case line.SKU == "" || len(line.SKU) > maxSKU:
			return total, invalid("a line's sku needs 1 to 64 bytes")
		case line.Quantity <= 0:
			return total, invalid("a line's quantity is not positive")
		case price.Currency != r.Currency:
			return total, invalid("a line's price is not in the order's currency")
		case price.Amount.IsNegative() || !isMoney(price.Amount):
			return total, invalid("a line's price is negative, too large, or finer than four decimals")
		}
		total = total.Add(line.UnitPrice.Amount.Mul(decimal.NewFromInt32(line.Quantity)))
	}
	if !isMoney(total) {
		return total, invalid("the total is too large")
	}
	return total, nil
}

func isMoney(d decimal.Decimal) bool {
	// The exponent first: "1e999999999" is short to write and long to calculate with.
	return d.Exponent() >= -moneyScale && d.Exponent() <= moneyDigits &&
		d.Abs().LessThan(decimal.New(1, moneyDigits-moneyScale))
}

func isPrintableASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
