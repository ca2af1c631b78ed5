-- One row an event, written in the transaction of the business change.
-- status is 0 pending, 2 published, 3 dead. An aggregate's events are all in one
-- lane, and a relay leases lanes: so they are published in order, one at a time.
-- available_at is a row's place in that order and never changes; a failed event
-- waits for next_attempt_at. The columns that change are NOT NULL and of fixed
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
  next_attempt_at DATETIME(6) NOT NULL DEFAULT '1970-01-01 00:00:00',
  aggregate_hash  INT UNSIGNED GENERATED ALWAYS AS (CRC32(CONCAT(aggregate_type, aggregate_id))) STORED,
  lane            SMALLINT UNSIGNED GENERATED ALWAYS AS (CRC32(CONCAT(aggregate_type, aggregate_id)) % 64) STORED,
  PRIMARY KEY (event_id),
  KEY ix_outbox_event_claim (status, lane, available_at, event_version, aggregate_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- The last error of an event: kept apart, so that the event's row keeps its width.
CREATE TABLE outbox_failure (
  event_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason    VARCHAR(1024) NOT NULL,
  failed_at DATETIME(6) NOT NULL,
  PRIMARY KEY (event_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- The lanes. lease_version is new with every lease. Relays add the rows.
CREATE TABLE outbox_lane (
  lane          SMALLINT UNSIGNED NOT NULL,
  lease_owner   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  lease_until   DATETIME(6) NOT NULL DEFAULT '1970-01-01 00:00:00',
  lease_version BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (lane)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- The relays' runs: owner is the lease_owner of lanes, host and pid are for people.
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

-- Which of several processes does a task that one is enough for, such as the purge.
CREATE TABLE outbox_task (
  task         VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  holder       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  holder_until DATETIME(6) NOT NULL,
  PRIMARY KEY (task)
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
    WHEN l.lane IS NOT NULL THEN 'PUBLISHING'
    ELSE 'PENDING'
  END AS state,
  COALESCE(l.lease_owner, '') AS lease_owner,
  r.host AS lease_host,
  r.pid AS lease_pid,
  COALESCE(l.lease_until, '1970-01-01 00:00:00') AS lease_until,
  e.attempts,
  f.kind AS last_error_kind,
  f.reason AS last_error,
  e.created_at,
  GREATEST(e.available_at, e.next_attempt_at) AS available_at,
  e.published_at
FROM outbox_event e
LEFT JOIN outbox_lane l ON l.lane = e.lane
  AND l.lease_until > UTC_TIMESTAMP() + INTERVAL MICROSECOND(CURRENT_TIMESTAMP(6)) MICROSECOND
  AND e.status = 0
  AND e.available_at <= UTC_TIMESTAMP() + INTERVAL MICROSECOND(CURRENT_TIMESTAMP(6)) MICROSECOND
  AND e.next_attempt_at <= UTC_TIMESTAMP() + INTERVAL MICROSECOND(CURRENT_TIMESTAMP(6)) MICROSECOND
LEFT JOIN outbox_relay r ON r.owner = l.lease_owner
LEFT JOIN outbox_failure f ON f.event_id = e.event_id;
