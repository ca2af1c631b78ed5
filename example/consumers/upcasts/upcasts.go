// Package upcasts makes newer payloads of older ones.
package upcasts

import (
	"github.com/shopspring/decimal"

	"github.com/outboxgen/outboxgen/gen/orderevents"
)

// Upcaster implements orderevents.Upcaster.
type Upcaster struct{}

var _ orderevents.Upcaster = (*Upcaster)(nil)

// UpcastOrderAcceptedV1ToV2 makes version 2 of order.accepted of version 1, which had a
// total in cents, always CNY, and no lines.
func (u *Upcaster) UpcastOrderAcceptedV1ToV2(old orderevents.OrderAcceptedV1, prefilled orderevents.OrderAcceptedV2) (orderevents.OrderAcceptedV2, error) {
	prefilled.Total = orderevents.Money{Amount: decimal.New(old.TotalCents, -2), Currency: orderevents.CurrencyCNY}
	prefilled.Lines = []orderevents.LineItem{}
	return prefilled, nil
}
