package state

import "shuultuur/lib/metric"

// readings are the metrics of a store, with the Stats they come from.
var readings = []struct {
	desc  *metric.Desc
	kind  metric.Kind
	value func(*Stats) int64
}{
	{reading("degraded", "1 while the Redis of the fleet is lost."), metric.Gauge, func(s *Stats) int64 {
		if s.Lost != "" {
			return 1
		}
		return 0
	}},
	{reading("losses_total", "Times that Redis was lost."), metric.Count, func(s *Stats) int64 { return s.Losses }},
	{reading("trips_total", "Requests that waited for Redis."), metric.Count, func(s *Stats) int64 { return s.Trips }},
	{reading("late_total", "Requests that continued without the reply of Redis."), metric.Count, func(s *Stats) int64 { return s.Late }},
	{reading("dropped_total", "Verdicts that did not reach Redis because the queue was full."), metric.Count, func(s *Stats) int64 { return s.Dropped }},
	{reading("replaced_total", "Keys in Redis with a foreign type, which were replaced."), metric.Count, func(s *Stats) int64 { return s.Replaced }},
	{reading("uncounted_total", "Counts of limits, quotas and clicks for which there was no room."), metric.Count, func(s *Stats) int64 { return s.Uncounted }},
	{reading("counters", "Counters of limits, quotas and clicks held."), metric.Gauge, func(s *Stats) int64 { return s.Counters }},
	{reading("instructions", "Instructions kept, with those that were withdrawn lately."), metric.Gauge, func(s *Stats) int64 { return s.Instructions }},
	{reading("instructions_open", "Instructions of other nodes that this node has not carried out yet."), metric.Gauge, func(s *Stats) int64 { return s.Open }},
	{reading("instructions_received_total", "Instructions of other nodes."), metric.Count, func(s *Stats) int64 { return s.Received }},
}

func reading(name, help string) *metric.Desc {
	return metric.NewDesc("shuultuur_state_"+name, help)
}

// Collect implements [metric.Collector].
func (m *Memory) Collect(ch chan<- metric.Metric) { collect(m.Stats(), ch) }

// Collect implements [metric.Collector].
func (f *Fleet) Collect(ch chan<- metric.Metric) { collect(f.Stats(), ch) }

func collect(s Stats, ch chan<- metric.Metric) {
	for _, r := range readings {
		ch <- metric.New(r.desc, r.kind, float64(r.value(&s)))
	}
}
