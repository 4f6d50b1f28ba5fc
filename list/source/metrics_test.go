package source

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"shuultuur/lib/metric"
)

// TestCountersAreThereBeforeTheirFirstEvent: alerts compare with the value before.
func TestCountersAreThereBeforeTheirFirstEvent(t *testing.T) {
	r := NewRefresher(func() (*Store, Items) { return nil, Items{"ads": {}} }, func(context.Context, string) {}, slog.New(slog.DiscardHandler))
	w := httptest.NewRecorder()
	metric.Handler(r).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, result := range []string{"taken", "unchanged", "refused"} {
		if want := `shuultuur_list_fetches_total{list="ads",result="` + result + `"} 0`; !strings.Contains(w.Body.String(), want) {
			t.Errorf("the metrics lack %s:\n%s", want, w.Body)
		}
	}
}
