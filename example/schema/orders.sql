-- The order service's own tables, and the tables of its two consumers. In a
-- real system each service keeps its own; here they share one database.

CREATE TABLE orders (
  id                    BIGINT NOT NULL AUTO_INCREMENT,
  tenant_id             BIGINT NOT NULL,
  request_id            VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  version               BIGINT NOT NULL DEFAULT 1,
  status                VARCHAR(16) NOT NULL,
  currency              CHAR(3) NOT NULL,
  total                 DECIMAL(20, 4) NOT NULL,
  acceptance_event_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at            DATETIME(6) NOT NULL,
  PRIMARY KEY (id),
  -- The entry's idempotency key: a repeated request finds the order of the first.
  CONSTRAINT uq_orders_request UNIQUE (tenant_id, request_id),
  -- For outboxgen reconcile: which order an event is of.
  KEY ix_orders_acceptance_event (acceptance_event_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE order_line (
  order_id   BIGINT NOT NULL,
  line_no    INT NOT NULL,
  sku        VARCHAR(64) NOT NULL,
  quantity   INT NOT NULL,
  unit_price DECIMAL(20, 4) NOT NULL,
  PRIMARY KEY (order_id, line_no),
  CONSTRAINT fk_order_line_order FOREIGN KEY (order_id) REFERENCES orders (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE stock (
  sku       VARCHAR(64) NOT NULL,
  available INT NOT NULL,
  PRIMARY KEY (sku)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- The notification planner's: which tenants want which notifications, and what
-- is to be sent. A job's sender uses the event id as its idempotency key.
CREATE TABLE notification_channel (
  tenant_id BIGINT NOT NULL,
  channel   VARCHAR(16) NOT NULL,
  PRIMARY KEY (tenant_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE notification_job (
  id         BIGINT NOT NULL AUTO_INCREMENT,
  tenant_id  BIGINT NOT NULL,
  order_id   BIGINT NOT NULL,
  event_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind       VARCHAR(32) NOT NULL,
  planned_at DATETIME(6) NOT NULL,
  PRIMARY KEY (id),
  KEY ix_notification_job_order (order_id),
  CONSTRAINT fk_notification_job_channel FOREIGN KEY (tenant_id) REFERENCES notification_channel (tenant_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- The sales report's: one row a tenant, day and currency.
CREATE TABLE sales_report (
  tenant_id BIGINT NOT NULL,
  day       DATE NOT NULL,
  currency  CHAR(3) NOT NULL,
  orders    BIGINT NOT NULL,
  total     DECIMAL(24, 4) NOT NULL,
  PRIMARY KEY (tenant_id, day, currency)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
