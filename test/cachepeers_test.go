package test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/gateway"
	"shuultuur/test/peer"
)

const cachePeersSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
lists:
  own: {path: own.txt, format: domains}
checks: {category: {lists: [own]}}
policies:
  - name: all
    rules: [{name: own, action: block, category: [own]}]
cache:
  peers: {listen: "%s", nodes: [%s], secret: only these gateways know}
proxy: {private: [127.0.0.0/8], parent: "http://%s"}
`

// Three gateways store each object once, and each has its own verdicts. When one is killed
// under load, no client notices.
func TestGatewaysShareObjectsAndSurviveALoss(t *testing.T) {
	var fetched atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		w.Header().Set("Cache-Control", "max-age=600")
		fmt.Fprintf(w, "this is %s", r.URL.Path)
	}))
	defer origin.Close()
	var names []string
	for range 3 {
		names = append(names, "127.0.0.1:"+peer.Port(t))
	}
	nodes := make([]*gateway.Gateway, 3)
	ends := make([]func(), 3)
	for i, name := range names {
		dir := t.TempDir()
		own := "blocked.example\n"
		if i == 1 {
			own = "other.example\n"
		}
		for file, text := range map[string]string{"own.txt": own, "shuultuur.yaml": fmt.Sprintf(cachePeersSettings, name, strings.Join(names, ", "), origin.Listener.Addr())} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(context.Background())
		g, err := gateway.New(ctx, filepath.Join(dir, "shuultuur.yaml"), slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			stop()
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		var once sync.Once
		nodes[i], ends[i] = g, func() {
			once.Do(func() {
				stop()
				if err := <-ended; err != nil {
					t.Errorf("a gateway ended with: %v", err)
				}
			})
		}
		t.Cleanup(ends[i])
	}
	problems := func(i int) string {
		_, text, err := get(http.DefaultClient, "http://"+nodes[i].AdminAddr()+"/health")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("this did not happen within a minute: %s", what)
			}
		}
	}
	for i := range nodes {
		until("the nodes do not find each other", func() bool { return !strings.Contains(problems(i), "cache's peer") })
	}
	const objects = 60
	ask := func(node, object int) {
		status, body, err := get(through(nodes[node].ProxyAddr()), fmt.Sprintf("http://shared.example/%d", object))
		if err != nil || status != 200 || body != fmt.Sprintf("this is /%d", object) {
			t.Errorf("node %d, object %d: status %d, body %q, %v; want 200 and the object", node, object, status, body, err)
		}
	}
	for node := range nodes {
		for i := range objects {
			ask(node, i)
		}
	}
	if n := fetched.Load(); n != objects {
		t.Errorf("the origin was asked %d times for %d objects, want once for each", n, objects)
	}
	// Each node decides by its own policy about the same object.
	for i, want := range []int{403, 200, 403} {
		if status, _, err := get(through(nodes[i].ProxyAddr()), "http://blocked.example/"); status != want {
			t.Errorf("node %d: status %d, %v; want %d", i, status, err, want)
		}
	}
	var load sync.WaitGroup
	var stop atomic.Bool
	for node := range 2 {
		load.Go(func() {
			for i := 0; !stop.Load(); i++ {
				ask(node, i%objects)
			}
		})
	}
	ends[2]()
	until("nobody notices that a node is lost", func() bool { return strings.Contains(problems(0), "cache's peer "+names[2]) })
	for i := range objects {
		ask(i%2, i)
	}
	stop.Store(true)
	load.Wait()
}
