package wait_test

import (
	"net/http"
	"testing"
	"time"

	"shuultuur/lib/wait"
)

func TestServersSayHowLongToWait(t *testing.T) {
	now := time.Now()
	for field, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "0": 0, "": 0, "soon": 0, "-5": 0, "1.5": 0, "99999999": 99999999 * time.Second, "99999999999999": 0,
		now.Add(time.Hour).UTC().Format(http.TimeFormat):   time.Hour,
		now.Add(-time.Hour).UTC().Format(http.TimeFormat):  0,
		now.AddDate(1, 0, 0).UTC().Format(http.TimeFormat): now.AddDate(1, 0, 0).Sub(now),
	} {
		if got := wait.Asked(http.Header{"Retry-After": {field}}, now); (got - want).Abs() > time.Second {
			t.Errorf("%q: %v, want %v", field, got, want)
		}
	}
}
