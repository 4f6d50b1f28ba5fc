package state

import "github.com/prometheus/client_golang/prometheus"

// readings are the metrics of a store, and how its Stats have them.
var readings = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Stats) int64
}{
	{reading("degraded", "1 while the Redis of the fleet is lost."), prometheus.GaugeValue, func(s *Stats) int64 {
		if s.Lost != "" {
			return 1
		}
		return 0
	}},
	{reading("losses_total", "Times that Redis was lost."), prometheus.CounterValue, func(s *Stats) int64 { return s.Losses }},
	{reading("trips_total", "Requests that waited for Redis."), prometheus.CounterValue, func(s *Stats) int64 { return s.Trips }},
	{reading("late_total", "Requests that continued without the reply of Redis."), prometheus.CounterValue, func(s *Stats) int64 { return s.Late }},
	{reading("dropped_total", "Verdicts that did not reach Redis because the queue was full."), prometheus.CounterValue, func(s *Stats) int64 { return s.Dropped }},
	{reading("replaced_total", "Keys in Redis that had a type which is not ours and were replaced."), prometheus.CounterValue, func(s *Stats) int64 { return s.Replaced }},
	{reading("uncounted_total", "Counts of limits, quotas and clicks for which there was no room."), prometheus.CounterValue, func(s *Stats) int64 { return s.Uncounted }},
	{reading("counters", "Counters of limits, quotas and clicks held."), prometheus.GaugeValue, func(s *Stats) int64 { return s.Counters }},
	{reading("instructions", "Instructions kept, with those that were withdrawn lately."), prometheus.GaugeValue, func(s *Stats) int64 { return s.Instructions }},
	{reading("instructions_open", "Instructions of other nodes that this node has not carried out yet."), prometheus.GaugeValue, func(s *Stats) int64 { return s.Open }},
	{reading("instructions_received_total", "Instructions of other nodes."), prometheus.CounterValue, func(s *Stats) int64 { return s.Received }},
}

func reading(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("shuultuur_state_"+name, help, nil, nil)
}

// Describe implements [prometheus.Collector].
func (m *Memory) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range readings {
		ch <- r.desc
	}
}

// Collect implements [prometheus.Collector].
func (m *Memory) Collect(ch chan<- prometheus.Metric) { collect(m.Stats(), ch) }

// Collect implements [prometheus.Collector].
func (f *Fleet) Collect(ch chan<- prometheus.Metric) { collect(f.Stats(), ch) }

func collect(s Stats, ch chan<- prometheus.Metric) {
	for _, r := range readings {
		ch <- prometheus.MustNewConstMetric(r.desc, r.kind, float64(r.value(&s)))
	}
}
