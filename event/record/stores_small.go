//go:build small

package record

import (
	"shuultuur/event/jsonl"
	"shuultuur/event/syslog"
)

var standard = Kept{JSONL: "events.jsonl"}

// Kept are the stores that the small build has. It names those that it lacks, to say so.
type Kept struct {
	JSONL        jsonl.Path `yaml:"jsonl"` // JSON lines; the default when no store is named
	Postgres     any        `yaml:"postgres" secret:"yes" lacks:"PostgreSQL"`
	ClickHouse   any        `yaml:"clickhouse" secret:"yes" lacks:"ClickHouse"`
	SQLite       any        `yaml:"sqlite" lacks:"SQLite"`
	Squid        any        `yaml:"squid" lacks:"the log of Squid"`
	DansGuardian any        `yaml:"dansguardian" lacks:"the log of DansGuardian"`
}

// Sent are the receivers that the small build has, and those that it lacks.
type Sent struct {
	Syslog  *syslog.Config `yaml:"syslog"` // log server
	OTLP    any            `yaml:"otlp" lacks:"OpenTelemetry"`
	Kafka   any            `yaml:"kafka" lacks:"Kafka"`
	Parquet any            `yaml:"parquet" lacks:"Parquet"`
}
