package test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"shuultuur/cache/simulate"
	"shuultuur/gateway"
	"shuultuur/test/data"
	"shuultuur/tool/replay"
	"shuultuur/whatif"
)

const cacheReplaySettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
policies: [{name: readers}]
proxy: {parent: "http://%s"}
cache: {memory: %d, disk: %d, rules: [{min: 24h}]}
`

// A log that is replayed through the gateway reaches the hit rate of its
// simulation.
func TestAReplayedLogHitsAsSimulated(t *testing.T) {
	const requests, size = 12_000, 96 << 20
	log := squidLog(t, requests)
	trace, err := simulate.Read(strings.NewReader(log), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	simulated, err := simulate.Run(t.Context(), trace, simulate.Options{Sizes: []int64{size}, Policies: []string{"s3-fifo"}})
	if err != nil {
		t.Fatal(err)
	}
	want := simulated.Results[1]

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	origin := replay.NewOrigin(l, false)
	var fetched atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		origin.ServeHTTP(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() { server.Close(); <-served }()

	file := filepath.Join(t.TempDir(), "shuultuur.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, cacheReplaySettings, origin.Addr(), want.Memory, size-want.Memory), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(ctx, file, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	sender, err := replay.New(replay.SendConfig{Proxy: g.ProxyAddr(), Origin: origin, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	source := &whatif.Source{Files: []string{"-"}, Stdin: strings.NewReader(log)}
	r, err := sender.Run(t.Context(), source.Entries(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if r.Answered != requests || len(r.Errors) > 0 {
		t.Fatalf("%d of %d requests were answered; errors: %v", r.Answered, requests, r.Errors)
	}
	got := 1 - float64(fetched.Load()-1)/requests // the probe is fetched too
	t.Logf("hit rate %.4f; the simulation says %.4f", got, want.Hits)
	if math.Abs(got-want.Hits) > 0.01 {
		t.Errorf("hit rate %.4f; the simulation says %.4f", got, want.Hits)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the gateway ended with: %v", err)
	}
}

// squidLog returns the first requests of a trace as Squid would log them. The objects are six
// times as large as in the trace, so that the cache cannot hold all.
func squidLog(t *testing.T, requests int) string {
	t.Helper()
	f, err := os.Open(data.Path(t, "traces", "adaptsize.trace.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	n := 0
	for lines := bufio.NewScanner(z); lines.Scan() && n < requests; {
		var at, id string
		var size int64
		if _, err := fmt.Sscan(lines.Text(), &at, &id, &size); err != nil || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fmt.Fprintf(&b, "%d.%03d 1 10.1.2.3 TCP_MISS/200 %d GET http://www.example.com/%s - HIER_DIRECT/192.0.2.1 image/png\n", 1767258000+n/1000, n%1000, 6*size, id)
		n++
	}
	return b.String()
}
