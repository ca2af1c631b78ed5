package schemadiff_test

import (
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/dbserver"
	"github.com/outboxgen/outboxgen/internal/dbtest"
	"github.com/outboxgen/outboxgen/internal/schemadiff"
)

// mutation is a change of live tables, and what the difference is called.
type mutation struct {
	name    string
	change  []string
	want    []string // parts of the findings, one each; no finding more
	cost    string   // what the printed statements hold; "" for either server's own way
	only    dbserver.Flavor
	options schemadiff.Options
	lost    string // table whose seeded row doesn't have its old values
}

var drop = schemadiff.Options{Drop: true}

var mutations = []mutation{
	{name: "column dropped", change: []string{"ALTER TABLE consumed_event DROP COLUMN outcome"}, want: []string{"consumed_event: the column outcome is missing [missing-column]"}, cost: "ALGORITHM=INSTANT", lost: "consumed_event"},
	{name: "column without a default dropped", change: []string{"ALTER TABLE outbox_event DROP COLUMN created_at"}, want: []string{"the column created_at is missing"}, cost: "LOCK=NONE", lost: "outbox_event"},
	{name: "payload dropped", change: []string{"ALTER TABLE outbox_event DROP COLUMN payload"}, want: []string{"the column payload is missing"}, lost: "outbox_event"},
	{name: "text column dropped", change: []string{"ALTER TABLE outbox_relay DROP COLUMN host"}, want: []string{"the column host is missing"}, cost: "ALGORITHM=INSTANT", lost: "outbox_relay"},
	{name: "numbering dropped", change: []string{"ALTER TABLE consumed_event MODIFY id BIGINT NOT NULL"}, want: []string{"the column id has the attribute none, not auto_increment"}, cost: "ALGORITHM=COPY"},
	{name: "number narrowed", change: []string{"ALTER TABLE outbox_event MODIFY event_version INT NOT NULL"}, want: []string{"the column event_version is int, not bigint"}, cost: "ALGORITHM=COPY"},
	{name: "number signed", change: []string{"ALTER TABLE outbox_event MODIFY attempts INT NOT NULL DEFAULT 0"}, want: []string{"the column attempts is int, not int unsigned"}, cost: "ALGORITHM=COPY"},
	{name: "text narrowed", change: []string{"ALTER TABLE outbox_event MODIFY event_type VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"}, want: []string{"the column event_type is varchar(100), not varchar(128)"}, cost: "ALGORITHM=INPLACE"},
	{name: "text narrowed a lot", change: []string{"ALTER TABLE outbox_failure MODIFY reason VARCHAR(50) NOT NULL"}, want: []string{"the column reason is varchar(50), not varchar(1024)"}, cost: "ALGORITHM=COPY"},
	{name: "text widened", change: []string{"ALTER TABLE outbox_event MODIFY event_type VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"}, want: []string{"the column event_type is varchar(200), not varchar(128)"}, cost: "ALGORITHM=COPY"},
	{name: "time without microseconds", change: []string{"ALTER TABLE parked_event MODIFY parked_at DATETIME NOT NULL"}, want: []string{"the column parked_at is datetime, not datetime(6)"}, cost: "ALGORITHM=COPY"},
	{name: "JSON as a text", change: []string{"ALTER TABLE outbox_event MODIFY payload LONGTEXT NOT NULL"}, want: []string{"the column payload is longtext, not json"}, cost: "ALGORITHM=COPY"},
	{name: "JSON without its check", change: []string{"ALTER TABLE outbox_event MODIFY payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"}, want: []string{"the column payload is longtext, not json"}, cost: "ALGORITHM=COPY"},
	{name: "body as JSON", change: []string{"ALTER TABLE parked_event MODIFY body MEDIUMBLOB NOT NULL"}, want: []string{"the column body is mediumblob, not longblob"}, cost: "ALGORITHM=COPY"},
	{name: "default changed", change: []string{"ALTER TABLE outbox_event ALTER COLUMN status SET DEFAULT 2"}, want: []string{"the column status has the default '2', not '0'"}, cost: "ALGORITHM=INSTANT"},
	{name: "default dropped", change: []string{"ALTER TABLE outbox_event ALTER COLUMN published_at DROP DEFAULT"}, want: []string{"the column published_at has the default none, not '1970-01-01 00:00:00'"}, cost: "ALGORITHM=INSTANT"},
	{name: "default added", change: []string{"ALTER TABLE outbox_event ALTER COLUMN schema_version SET DEFAULT 1"}, want: []string{"the column schema_version has the default '1', not none"}, cost: "ALGORITHM=INSTANT"},
	{name: "default of an empty text changed", change: []string{"ALTER TABLE outbox_lane ALTER COLUMN lease_owner SET DEFAULT 'x'"}, want: []string{"the column lease_owner has the default 'x', not ''"}, cost: "ALGORITHM=INSTANT"},
	{name: "default of the server's clock", change: []string{"ALTER TABLE outbox_event MODIFY available_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)"}, want: []string{"the column available_at has the default (now(6)), not none"}, cost: "ALGORITHM=INSTANT"},
	{name: "changed by every update", change: []string{"ALTER TABLE outbox_event MODIFY available_at DATETIME(6) NOT NULL ON UPDATE CURRENT_TIMESTAMP(6)"}, want: []string{"the column available_at has the attribute on update current_timestamp(6), not none"}},
	{name: "nullable", change: []string{"ALTER TABLE outbox_event MODIFY attempts INT UNSIGNED NULL DEFAULT 0"}, want: []string{"the column attempts may be NULL"}},
	{name: "nullable in a plain table", change: []string{"ALTER TABLE outbox_relay MODIFY pid BIGINT NULL"}, want: []string{"the column pid may be NULL"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "collation changed", change: []string{"ALTER TABLE outbox_event MODIFY aggregate_type VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL"}, want: []string{"the column aggregate_type has the collation utf8mb4_general_ci, not utf8mb4_bin"}, cost: "ALGORITHM=COPY"},
	{name: "charset changed", change: []string{"ALTER TABLE outbox_failure MODIFY kind VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"}, want: []string{"the column kind has the charset utf8mb4, not ascii"}, cost: "ALGORITHM=COPY"},
	{name: "default charset changed", change: []string{"ALTER TABLE outbox_relay DEFAULT CHARSET=latin1"}, want: []string{"the default charset is latin1, not utf8mb4"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "whole table in latin1", change: []string{"ALTER TABLE outbox_failure CONVERT TO CHARACTER SET latin1"}, want: []string{"the default charset is latin1, not utf8mb4", "the column event_id has the charset latin1, not ascii", "the column kind has the charset latin1, not ascii", "the column reason has the charset latin1, not utf8mb4"}, cost: "ALGORITHM=COPY"},
	{name: "lane by other lanes", change: []string{"ALTER TABLE outbox_event MODIFY lane SMALLINT UNSIGNED GENERATED ALWAYS AS (CRC32(CONCAT(aggregate_type, aggregate_id)) % 32) STORED"}, want: []string{"the column lane is made by crc32(concat(aggregate_type, aggregate_id)) % 32, not by crc32(concat(aggregate_type, aggregate_id)) % 64"}, cost: "ALGORITHM=COPY, LOCK=SHARED"},
	{name: "lane not generated", change: []string{"ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim, DROP COLUMN lane, ADD COLUMN lane SMALLINT UNSIGNED, ADD KEY ix_outbox_event_claim (status, lane, available_at, event_version, aggregate_hash)"}, want: []string{"the column lane is made by none", "has a column that is made anew"}, cost: "ALGORITHM=COPY, LOCK=SHARED"},
	{name: "lane not generated and index renamed", options: drop, change: []string{"ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim, DROP COLUMN lane, ADD COLUMN lane SMALLINT UNSIGNED, ADD KEY mine (status, lane, available_at, event_version, aggregate_hash)"}, want: []string{"the column lane is made by none", "the index ix_outbox_event_claim is missing", "the index mine is not ours"}, cost: "ALGORITHM=COPY, LOCK=SHARED"},
	{name: "hash not stored", change: []string{"ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim, DROP COLUMN aggregate_hash, ADD COLUMN aggregate_hash INT UNSIGNED GENERATED ALWAYS AS (CRC32(CONCAT(aggregate_type, aggregate_id))) VIRTUAL, ADD KEY ix_outbox_event_claim (status, lane, available_at, event_version, aggregate_hash)"}, want: []string{"the column aggregate_hash is made by", "has a column that is made anew"}, cost: "ALGORITHM=COPY, LOCK=SHARED"},
	{name: "index and lane missing", change: []string{"ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim, DROP COLUMN lane"}, want: []string{"the column lane is missing", "the index ix_outbox_event_claim is missing"}, cost: "ALGORITHM=COPY, LOCK=SHARED"},
	{name: "index missing", change: []string{"ALTER TABLE outbox_event DROP INDEX ix_outbox_event_claim"}, want: []string{"the index ix_outbox_event_claim is missing [missing-key]"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "index of other columns", change: []string{"ALTER TABLE consumer_failure DROP INDEX ix_consumer_failure_age, ADD KEY ix_consumer_failure_age (failed_at, consumer_name)"}, want: []string{"the index ix_consumer_failure_age is of (failed_at, consumer_name), not of (consumer_name, failed_at)"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "index of a prefix", change: []string{"ALTER TABLE parked_event DROP INDEX ix_parked_event_consumer, ADD KEY ix_parked_event_consumer (consumer_name(10), id)"}, want: []string{"(consumer_name(10), id), not of (consumer_name, id)"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "index downwards", only: dbserver.MySQL, change: []string{"ALTER TABLE parked_event DROP INDEX ix_parked_event_consumer, ADD KEY ix_parked_event_consumer (consumer_name, id DESC)"}, want: []string{"(consumer_name, id desc), not of (consumer_name, id)"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "index invisible", only: dbserver.MySQL, change: []string{"ALTER TABLE outbox_event ALTER INDEX ix_outbox_event_claim INVISIBLE"}, want: []string{"the index ix_outbox_event_claim is hidden"}, cost: "LOCK=NONE"},
	{name: "index ignored", only: dbserver.MariaDB, change: []string{"ALTER TABLE outbox_event ALTER INDEX ix_outbox_event_claim IGNORED"}, want: []string{"the index ix_outbox_event_claim is hidden"}, cost: "LOCK=NONE"},
	{name: "index renamed", change: []string{"ALTER TABLE parked_event RENAME INDEX ix_parked_event_consumer TO mine"}, want: []string{"the index ix_parked_event_consumer is named mine"}, cost: "RENAME INDEX"},
	{name: "constraint renamed", change: []string{"ALTER TABLE consumed_event RENAME INDEX uq_consumed_event_identity TO uq_mine"}, want: []string{"the unique constraint uq_consumed_event_identity is named uq_mine [different-key]"}, cost: "RENAME INDEX `uq_mine` TO uq_consumed_event_identity"},
	{name: "constraint missing", change: []string{"ALTER TABLE consumed_event DROP INDEX uq_consumed_event_identity"}, want: []string{"the unique constraint uq_consumed_event_identity is missing"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "constraint no longer unique", change: []string{"ALTER TABLE consumed_event DROP INDEX uq_consumed_event_identity, ADD KEY uq_consumed_event_identity (consumer_name, event_id)"}, want: []string{"the unique constraint uq_consumed_event_identity isn't unique"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "constraint replaced by an index", options: drop, change: []string{"ALTER TABLE consumed_event DROP INDEX uq_consumed_event_identity, ADD KEY mine (consumer_name, event_id)"}, want: []string{"the unique constraint uq_consumed_event_identity is missing", "the index mine is not ours"}, cost: "ADD CONSTRAINT uq_consumed_event_identity UNIQUE"},
	{name: "primary key of other columns", change: []string{"ALTER TABLE consumer_failure DROP PRIMARY KEY, ADD PRIMARY KEY (event_id, consumer_name)"}, want: []string{"the primary key is (event_id, consumer_name), not (consumer_name, event_id)"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "primary key missing", change: []string{"ALTER TABLE outbox_failure DROP PRIMARY KEY"}, want: []string{"the primary key is missing"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "engine", change: []string{"ALTER TABLE consumer_failure ENGINE=MyISAM"}, want: []string{"the engine is MyISAM, not InnoDB [different-engine]"}, cost: "ALGORITHM=COPY"},
	{name: "engine and more", change: []string{"ALTER TABLE consumer_failure ENGINE=MyISAM, DROP INDEX ix_consumer_failure_age, ALTER COLUMN attempts SET DEFAULT 1"}, want: []string{"the engine is MyISAM", "the column attempts has the default '1', not none", "the index ix_consumer_failure_age is missing"}, cost: "ALGORITHM=COPY"},
	{name: "view missing", change: []string{"DROP VIEW outbox_event_state"}, want: []string{"outbox_event_state: the view is missing [missing-view]"}},
	{name: "view of before", change: []string{"CREATE OR REPLACE VIEW outbox_event_state AS SELECT e.event_id, e.status AS state FROM outbox_event e"}, want: []string{"outbox_event_state: the view asks something else [different-view]"}},
	{name: "table missing", change: []string{"DROP TABLE outbox_task"}, want: []string{"outbox_task: the table is missing [missing-table]"}, lost: "outbox_task"},
	{name: "extra column", options: drop, change: []string{"ALTER TABLE outbox_event ADD COLUMN note VARCHAR(10)"}, want: []string{"outbox_event: the column note is not ours [extra-column]"}, cost: "ALGORITHM=INSTANT"},
	{name: "extra generated column", options: drop, change: []string{"ALTER TABLE outbox_event ADD COLUMN twice INT GENERATED ALWAYS AS (attempts * 2) STORED"}, want: []string{"outbox_event: the column twice is not ours"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "extra index", options: drop, change: []string{"ALTER TABLE outbox_event ADD KEY `my own` (event_type)"}, want: []string{"outbox_event: the index my own is not ours [extra-key]"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "extra column in an extra index", options: drop, change: []string{"ALTER TABLE outbox_event ADD COLUMN note VARCHAR(10), ADD UNIQUE mine (note)"}, want: []string{"the unique constraint mine is not ours", "the column note is not ours"}, cost: "ALGORITHM=INPLACE, LOCK=NONE"},
	{name: "several changes", options: drop, change: []string{
		"ALTER TABLE outbox_event DROP COLUMN published_at, DROP INDEX ix_outbox_event_claim, ADD COLUMN old INT, ALTER COLUMN status SET DEFAULT 1",
		"DROP VIEW outbox_event_state",
	}, want: []string{"status has the default", "published_at is missing", "ix_outbox_event_claim is missing", "the column old", "the view is missing"}, lost: "outbox_event"},
}

// TestMutations: a difference is found and named, and nothing else; the printed
// statements do away with it on the server, in the way that they say, and the rows keep their values.
func TestMutations(t *testing.T) {
	want := layouts(t, "ordering: aggregate")
	for _, m := range mutations {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
				if m.only != "" && m.only != db.Flavor {
					return // the other server has no such thing
				}
				t.Parallel()
				create(t, db, want.Want)
				seed(t, db)
				before := rows(t, db)
				db.Exec(t, m.change...)

				pool := db.Open(t)
				plan := diff(t, pool, want, m.options)
				found := messages(plan)
				for _, part := range m.want {
					if !strings.Contains(found, part) {
						t.Errorf("no finding says %q:\n%s", part, found)
					}
				}
				if len(plan.Findings) != len(m.want) {
					t.Errorf("%d findings, not %d:\n%s", len(plan.Findings), len(m.want), found)
				}
				if !strings.Contains(plan.SQL(), m.cost) {
					t.Errorf("no %s in\n%s", m.cost, plan.SQL())
				}
				if strings.Contains(plan.SQL(), "ALGORITHM=COPY") != strings.Contains(plan.SQL(), "-- Not online") {
					t.Errorf("says another thing than it does:\n%s", plan.SQL())
				}
				func() {
					defer func() {
						if t.Failed() {
							t.Log(plan.SQL())
						}
					}()
					apply(t, db, plan)
				}()
				requireEmpty(t, diff(t, pool, want, schemadiff.Options{}))
				after := rows(t, db)
				for table := range before {
					if table != m.lost && before[table] != after[table] {
						t.Errorf("%s has changed:\n%s\n%s", table, before[table], after[table])
					}
				}
				if m.lost != "" && m.lost != "outbox_task" && after[m.lost] == "" {
					t.Errorf("%s has lost its row", m.lost)
				}
			})
		})
	}
}
