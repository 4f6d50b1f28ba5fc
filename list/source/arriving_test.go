package source

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	items := Items{"own": {Source: resolve(t, Config{URL: server.URL}), Try: TryList("own", domains)}}
	used := false
	r := NewRefresher(func() (*Store, Items) { return store, items }, func(context.Context, string) { used = true }, slog.New(slog.DiscardHandler))
	ended := make(chan bool)
	go func() { r.fetch(t.Context(), store, items); close(ended) }()
	<-half
	want := Progress{"own", int64(len(content) / 2), int64(len(content))}
	for end := time.Now().Add(time.Minute); r.Progress() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%+v has arrived, want %+v", r.Progress(), want)
		}
	}
	close(rest)
	<-ended
	if got := r.Progress(); got != (Progress{}) || !used {
		t.Errorf("afterwards %+v, in use: %v", got, used)
	}
}
