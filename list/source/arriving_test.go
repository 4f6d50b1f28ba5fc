package source

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestHowMuchHasArrivedIsKnown(t *testing.T) {
	content := lines(1000)
	half, rest := make(chan bool), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = io.WriteString(w, content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
		close(half)
		<-rest
		_, _ = io.WriteString(w, content[len(content)/2:])
	}))
	defer server.Close()
	store := newStore(t)
	items := Items{"own": {Source: resolve(t, Config{URL: []string{server.URL}}), Try: TryList("own", domains)}}
	used := make(chan bool)
	r := NewRefresher(func() (*Store, Items) { return store, items }, func(context.Context, string) { close(used) }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	<-half
	want := []Progress{{"own", int64(len(content) / 2), int64(len(content))}}
	for end := time.Now().Add(time.Minute); !slices.Equal(r.Progress(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v has arrived, want %+v", r.Progress(), want)
		}
	}
	close(rest)
	<-used
	if got := r.Progress(); len(got) > 0 {
		t.Errorf("afterwards %+v", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
