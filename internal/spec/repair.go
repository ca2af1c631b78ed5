package spec

// The functions below make a legal name of one from another format. They return ""
// when none is near: the text has letters of another script, say, or is too long.

// RepairService repairs a service's name: "Order Service" is order-service.
func RepairService(text string) string { return serviceName.repaired(text) }

// RepairEvent repairs an event's name: "OrderAccepted" is order.accepted.
func RepairEvent(text string) string { return eventName.repaired(text) }

// RepairConsumer repairs a consumer's name: "onOrderAccepted" is on-order-accepted.
func RepairConsumer(text string) string { return consumerName.repaired(text) }

// RepairField repairs a field's name: "orderId" is order_id.
func RepairField(text string) string { return fieldName.repaired(text) }

// RepairType repairs a type's name: "line_item" is LineItem.
func RepairType(text string) string { return typeName.repaired(text) }

// RepairAggregateType repairs the type of an aggregate: "SalesOrder" is sales_order.
func RepairAggregateType(text string) string { return aggregateTyp.repaired(text) }

// RepairPackage repairs a Go package's name, which is to mean nothing to Go itself.
func RepairPackage(text string) string {
	if name := packageName.repaired(text); !isGoWord(name) {
		return name
	}
	return ""
}

// IsEnumValue reports a text that can be the value of an enum.
func IsEnumValue(text string) bool {
	return len(text) <= enumValue.most && enumValue.pattern.MatchString(text)
}

// GoName is the Go name of a wire name: order.accepted is OrderAccepted.
func GoName(wire string) string { return goName(wire) }

func (r nameRule) repaired(text string) string {
	for _, s := range []string{text, r.repair(text)} {
		if len(s) <= r.most && r.pattern.MatchString(s) {
			return s
		}
	}
	return ""
}
