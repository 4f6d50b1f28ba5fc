// Package metrictest reads the counts of a collector, for tests.
package metrictest

import (
	"fmt"
	"strconv"
	"strings"

	"shuultuur/lib/metric"
)

// Read returns the values of collectors by name and labels, as a scrape shows them:
// `queries_total{type="A"}`. It fails the test on a value that a scrape would refuse.
func Read(all ...metric.Collector) (map[string]float64, error) {
	var text strings.Builder
	if err := metric.Write(&text, all...); err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		values[line[:i]] = v
	}
	return values, nil
}
