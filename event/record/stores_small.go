//go:build small

package record

import (
	"time"

	"shuultuur/event"
	"shuultuur/release"
)

func openSQLite(string, time.Duration) (event.Store, error) { return nil, release.Lacks("SQLite") }

func readSQLite(string) (readable, error) { return nil, release.Lacks("SQLite") }

func openPostgres(string, time.Duration) (fleetStore, error) { return nil, release.Lacks("PostgreSQL") }

func openClickHouse(string, time.Duration) (fleetStore, error) {
	return nil, release.Lacks("ClickHouse")
}

func openOTLP(event.OTLP) (event.Store, error) { return nil, release.Lacks("OpenTelemetry") }

func openTraces(event.OTLP) (event.Store, error) { return nil, release.Lacks("OpenTelemetry") }

func openKafka(event.Kafka) (event.Store, error) { return nil, release.Lacks("Kafka") }

func openParquet(event.Parquet, string) (event.Store, error) { return nil, release.Lacks("Parquet") }

func openSquid(string) (event.Store, error) { return nil, release.Lacks("the log of Squid") }

func openDansGuardian(string) (event.Store, error) {
	return nil, release.Lacks("the log of DansGuardian")
}
