-- The payload of order.accepted, version 2, as the order service wrote it: for
-- outboxgen reconcile --republish, when the event is lost and the order is not. Amounts are texts,
-- times RFC 3339 with six digits. An order is accepted as its version 1, whatever became of it
-- since. The customer's note is not kept, and left out.
SELECT
  JSON_OBJECT(
    'order_id', o.id,
    'order_version', 1,
    'tenant_id', o.tenant_id,
    'lines', (
      SELECT JSON_ARRAYAGG(JSON_OBJECT(
        'sku', l.sku,
        'quantity', l.quantity,
        'unit_price', JSON_OBJECT('amount', CAST(l.unit_price AS CHAR), 'currency', o.currency)
      ))
      FROM order_line l
      WHERE l.order_id = o.id
    ),
    'total', JSON_OBJECT('amount', CAST(o.total AS CHAR), 'currency', o.currency),
    'accepted_at', DATE_FORMAT(o.created_at, '%Y-%m-%dT%H:%i:%s.%fZ')
  ) AS payload,
  1 AS aggregate_version
FROM orders o
WHERE o.acceptance_event_id = ?
