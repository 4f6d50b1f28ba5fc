//go:build !small

package record

import (
	"time"

	"shuultuur/event"
	"shuultuur/event/clickhouse"
	"shuultuur/event/dansguardian"
	"shuultuur/event/jsonl"
	"shuultuur/event/kafka"
	"shuultuur/event/otlp"
	"shuultuur/event/parquet"
	"shuultuur/event/postgres"
	"shuultuur/event/sqlite"
	"shuultuur/event/squid"
)

func openSQLite(path string, keep time.Duration) (event.Store, error) { return sqlite.Open(path, keep) }

func readSQLite(path string) (readable, error) { return sqlite.OpenReader(path) }

func openPostgres(url string, keep time.Duration) (fleetStore, error) {
	return postgres.Open(url, keep, jsonl.Codec)
}

func openClickHouse(address string, keep time.Duration) (fleetStore, error) {
	return clickhouse.Open(address, keep, jsonl.Codec)
}

func openOTLP(c event.OTLP) (event.Store, error) { return otlp.Open(c) }

func openTraces(c event.OTLP) (event.Store, error) { return otlp.OpenTraces(c) }

func openKafka(c event.Kafka) (event.Store, error) { return kafka.Open(c, jsonl.AppendLine) }

func openParquet(c event.Parquet, data string) (event.Store, error) { return parquet.Open(c, data) }

func openSquid(path string) (event.Store, error) { return squid.Open(path) }

func openDansGuardian(path string) (event.Store, error) { return dansguardian.Open(path) }
