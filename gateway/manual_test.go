package gateway

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
)

// TestTheFormSaysWhatTheManualSays: the manual is given to a gateway whose pages are there already.
func TestTheFormSaysWhatTheManualSays(t *testing.T) {
	file := folder(t, map[string]string{"shuultuur.yaml": "listen: {proxy: '127.0.0.1:0', admin: '127.0.0.1:0'}\npolicies: [{name: all}]\n"})
	ctx, stop := context.WithCancel(context.Background())
	g, err := New(ctx, file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const meaning = "how long a kept connection waits for its next request, said by a test"
	g.SetManual(fstest.MapFS{"proxy.md": {Data: []byte("| key | default | meaning |\n|--|--|--|\n| `proxy.idle` | 1m | " + meaning + " |\n")}})
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	req, _ := http.NewRequest("GET", "http://"+g.AdminAddr()+"/settings/form?q=proxy.idle", nil)
	req.Header.Set("Accept", "text/html")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if page, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(page), "said by a test") {
		t.Errorf("status %d, %v; the form lacks what the manual says:\n%s", res.StatusCode, err, page)
	}
}
