package upcasts

import (
	"testing"

	"github.com/outboxgen/outboxgen/gen/orderevents"
)

func TestOrderAcceptedV1(t *testing.T) {
	old := orderevents.OrderAcceptedV1{OrderID: 7, TotalCents: 123405}
	got, err := new(Upcaster).UpcastOrderAcceptedV1ToV2(old, orderevents.OrderAcceptedV2{OrderID: 7})
	if err != nil || got.OrderID != 7 || got.Total.Amount.StringFixed(2) != "1234.05" || got.Total.Currency != orderevents.CurrencyCNY {
		t.Errorf("%+v, %v", got, err)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}
