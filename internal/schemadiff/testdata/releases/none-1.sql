-- One row an event, written in the transaction of the business change.
-- status is 0 pending, 2 published, 3 dead. A pending row whose lease_until is
-- ahead is being published. The columns that change are NOT NULL and of fixed
-- width: the servers then change a row in place instead of writing it anew.
-- Times are UTC as DATETIME, which knows neither session zones nor 2038.
CREATE TABLE outbox_event (
  event_id        CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  aggregate_type  VARCHAR(64)  COLLATE utf8mb4_bin NOT NULL,
  aggregate_id    VARCHAR(128) COLLATE utf8mb4_bin NOT NULL,
  event_type      VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  event_version   BIGINT NOT NULL,
  schema_version  INT NOT NULL,
  payload         JSON NOT NULL,
  headers         JSON NOT NULL,
  created_at      DATETIME(6) NOT NULL,
  status          TINYINT UNSIGNED NOT NULL DEFAULT 0,
  attempts        INT UNSIGNED NOT NULL DEFAULT 0,
  available_at    DATETIME(6) NOT NULL,
  published_at    DATETIME(6) NOT NULL DEFAULT '1970-01-01 00:00:00',
  lease_owner     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  lease_token     BIGINT NOT NULL DEFAULT 0,
  lease_until     DATETIME(6) NOT NULL DEFAULT '1970-01-01 00:00:00',
  PRIMARY KEY (event_id),
  KEY ix_outbox_event_claim (status, available_at, event_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- The last error of an event: kept apart, so that the event's row keeps its width.
CREATE TABLE outbox_failure (
  event_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason    VARCHAR(1024) NOT NULL,
  failed_at DATETIME(6) NOT NULL,
  PRIMARY KEY (event_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- The relays' runs: owner is the lease_owner of their events, host and pid are for people.
CREATE TABLE outbox_relay (
  owner       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  host        VARCHAR(255) NOT NULL,
  pid         BIGINT NOT NULL,
  started_at  DATETIME(6) NOT NULL,
  alive_until DATETIME(6) NOT NULL,
  PRIMARY KEY (owner)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row an effect: a consumer inserts it in the transaction of its own
-- change, so that an event delivered again is refused by the constraint. Its
-- name is compared by the consumers: rename it and they no longer know it.
CREATE TABLE consumed_event (
  id            BIGINT NOT NULL AUTO_INCREMENT,
  consumer_name VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  event_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  consumed_at   DATETIME(6) NOT NULL,
  PRIMARY KEY (id),
  CONSTRAINT uq_consumed_event_identity UNIQUE (consumer_name, event_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- What people ask of an event.
CREATE VIEW outbox_event_state AS
SELECT
  e.event_id,
  e.event_type,
  e.aggregate_type,
  e.aggregate_id,
  e.event_version,
  CASE
    WHEN e.status = 2 THEN 'PUBLISHED'
    WHEN e.status = 3 THEN 'DEAD'
    WHEN e.lease_until > UTC_TIMESTAMP() + INTERVAL MICROSECOND(CURRENT_TIMESTAMP(6)) MICROSECOND THEN 'PUBLISHING'
    ELSE 'PENDING'
  END AS state,
  e.lease_owner,
  r.host AS lease_host,
  r.pid AS lease_pid,
  e.lease_until,
  e.attempts,
  f.kind AS last_error_kind,
  f.reason AS last_error,
  e.created_at,
  e.available_at,
  e.published_at
FROM outbox_event e
LEFT JOIN outbox_relay r ON r.owner = e.lease_owner
LEFT JOIN outbox_failure f ON f.event_id = e.event_id;
