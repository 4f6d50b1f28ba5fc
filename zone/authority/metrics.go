//go:build !small

package authority

import "shuultuur/lib/metric"

func desc(name, help string, labels ...string) *metric.Desc {
	return metric.NewDesc("shuultuur_dns_"+name, help, labels...)
}

var (
	descZones         = desc("zones", "Zones of our own that are served.")
	descRecords       = desc("zone_records", "Records in them.")
	descFaults        = desc("zone_faults", "Zones that are not served as their files are.")
	descConnected     = desc("redis_connected", "1 while Redis reports changes to zones.")
	descKept          = desc("redis_kept", "Zones of Redis that are served from their last good copies, as Redis has not answered since the start.")
	descProblems      = desc("redis_problems", "Values in Redis that cannot be served.")
	descLoads         = desc("redis_loads_total", "Zones read from Redis.")
	descFailures      = desc("redis_failures_total", "Reads that Redis did not answer, or zones that could not be served.")
	descEvents        = desc("redis_events_total", "Keys of zones that were written.")
	descInterruptions = desc("redis_interruptions_total", "Losses of the connection that reports changes.")
	descSlowest       = desc("redis_load_slowest_seconds", "Longest time from reading to serving a zone.")
	descWatched       = desc("health_watched", "Addresses whose health is checked.")
	descChecks        = desc("health_checks_total", "Health checks of addresses: made here, failed, taken from another node (shared), begun late.", "result")
	descHealthErrors  = desc("health_redis_errors_total", "Results of health checks that Redis did not accept or return.")
	descAliases       = desc("alias_lookups_total", "Lookups of ANAME targets elsewhere; stale are answers from before a lookup that failed.", "result")
)

// Collect implements metric.Collector.
func (a *Authority) Collect(c chan<- metric.Metric) {
	put := func(d *metric.Desc, kind metric.Kind, v float64, labels ...string) {
		c <- metric.New(d, kind, v, labels...)
	}
	const counter, gauge = metric.Count, metric.Gauge
	zones, records := a.responder.Zones(), 0
	for _, z := range zones {
		records += z.Records
	}
	put(descZones, gauge, float64(len(zones)))
	put(descRecords, gauge, float64(records))
	put(descFaults, gauge, float64(len(a.files.Faults())))
	a.publisher.Collect(c)
	if a.redis == nil {
		return
	}
	st, connected := a.redis.Stats(), 0.0
	if st.Connected {
		connected = 1
	}
	put(descConnected, gauge, connected)
	put(descKept, gauge, float64(st.Kept))
	put(descProblems, gauge, float64(st.Problems))
	put(descLoads, counter, float64(st.Loads))
	put(descFailures, counter, float64(st.Failures))
	put(descEvents, counter, float64(st.Events))
	put(descInterruptions, counter, float64(st.Interruptions))
	put(descSlowest, gauge, st.Slowest.Seconds())
	put(descWatched, gauge, float64(st.Health.Watched))
	put(descChecks, counter, float64(st.Health.Checks), "done")
	put(descChecks, counter, float64(st.Health.Failed), "failed")
	put(descChecks, counter, float64(st.Health.Shared), "shared")
	put(descChecks, counter, float64(st.Health.Late), "late")
	put(descHealthErrors, counter, float64(st.Health.RedisErrors))
	put(descAliases, counter, float64(st.Aliases.Lookups-min(st.Aliases.Lookups, st.Aliases.Failed)), "found")
	put(descAliases, counter, float64(st.Aliases.Failed), "failed")
	put(descAliases, counter, float64(st.Aliases.Stale), "stale")
}
