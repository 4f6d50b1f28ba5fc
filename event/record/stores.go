//go:build !small

package record

import (
	"shuultuur/event/clickhouse"
	"shuultuur/event/dansguardian"
	"shuultuur/event/jsonl"
	"shuultuur/event/kafka"
	"shuultuur/event/otlp"
	"shuultuur/event/parquet"
	"shuultuur/event/postgres"
	"shuultuur/event/sqlite"
	"shuultuur/event/squid"
	"shuultuur/event/syslog"
)

// standard is what events are kept in when the settings name no store for that.
var standard = Kept{SQLite: "events.db"}

// Kept are the stores that keep events here or in a database. The first in this order that can
// be asked is asked.
type Kept struct {
	Postgres     postgres.URL       `yaml:"postgres" secret:"yes"`   // URL of a PostgreSQL database, for fleets
	ClickHouse   clickhouse.Address `yaml:"clickhouse" secret:"yes"` // HTTP address of a ClickHouse database, for large fleets
	SQLite       sqlite.Path        `yaml:"sqlite"`                  // database file; the default when no store is named
	JSONL        jsonl.Path         `yaml:"jsonl"`                   // JSON lines
	Squid        squid.Path         `yaml:"squid"`                   // Squid's native access.log
	DansGuardian dansguardian.Path  `yaml:"dansguardian"`            // DansGuardian's access.log, format 1
}

// Sent are the receivers that events are sent to. Each has a spool for the time when it is away.
type Sent struct {
	Syslog  *syslog.Config  `yaml:"syslog"`  // log server
	OTLP    *otlp.Config    `yaml:"otlp"`    // OpenTelemetry collector
	Kafka   *kafka.Config   `yaml:"kafka"`   // a topic of a Kafka cluster
	Parquet *parquet.Config `yaml:"parquet"` // Parquet files in a folder or an object store
}
