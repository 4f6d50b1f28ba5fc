package shuultuur

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shuultuur/test/race"

	"go.yaml.in/yaml/v4"

	"shuultuur/admin/why"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/gateway"
	"shuultuur/intercept"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/test/cert"
)

// named has the files that the examples name.
var named = map[string]string{
	"own.txt":                        "own.example\n",
	"games.txt":                      "games.example\n",
	"closed.txt":                     "bank.example\n",
	"words.list":                     "<blimey><30>\n",
	"w.list":                         "#listcategory: \"Bad words\"\n<blimey><60>\n",
	"b.list":                         "<forbidden>\n",
	"e.list":                         "<excepted>\n",
	"lists/own.txt":                  "own.example\n",
	"users":                          "anna:$2y$04$abcdefghijklmnopqrstuuH6nS6kLXFm3dUTRFJFzWfK5Fq9SWfZO\n",
	"example.com.zone":               "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 300\n NS ns1\nns1 A 192.0.2.53\n",
	"lists/blacklists/bank/domains":  "bank.example\n",
	"lists/blacklists/adult/domains": "adult.example\n",
}

// example writes settings to a new folder with the files that examples name.
// Every server gets a free port of this machine.
func example(t *testing.T, settings string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range named {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pem, key := cert.Files(t, dir, "gateway.example")
	for name, file := range map[string]string{"dns.pem": pem, "dns.key": key} {
		if err := os.Link(file, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err == nil {
		err = root.Write(filepath.Join(dir, "root.pem"), false)
	}
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := yaml.Load([]byte(settings), &v); err != nil {
		t.Fatal(err)
	}
	listen, _ := v["listen"].(map[string]any)
	if listen == nil {
		listen = map[string]any{}
	}
	for _, key := range []string{"proxy", "admin", "transparent", "sinkhole"} {
		if _, given := listen[key]; given && listen[key] != "off" || key == "proxy" || key == "admin" && !given {
			listen[key] = "127.0.0.1:0"
		}
	}
	v["listen"], v["data"] = listen, "./data"
	if names, ok := v["dns"].(map[string]any); ok {
		for _, key := range []string{"listen", "tls", "https", "quic"} {
			if _, given := names[key]; given || key == "listen" {
				names[key] = []string{"127.0.0.1:0"}
			}
		}
	}
	text, err := yaml.Dump(v)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "shuultuur.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// run runs a gateway while use works with it.
func run(t *testing.T, file string, use func(*gateway.Gateway)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	g, err := gateway.New(ctx, file, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Error(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	use(g)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestTheExamplesOfTheFoldersStart starts the settings files in the README.md of each folder
// and in the guides. Those that need a server elsewhere are only checked.
func TestTheExamplesOfTheFoldersStart(t *testing.T) {
	race.Without(t)
	for page, text := range pages(t) {
		if !strings.Contains(page, "/") || strings.HasPrefix(page, "docs/") && !strings.HasPrefix(page, "docs/guide-") {
			continue
		}
		for _, settings := range yamlBlocks(text) {
			t.Run(page, func(t *testing.T) {
				file := example(t, settings)
				_, done, err := engine.Explain(t.Context(), file)
				if err != nil && strings.Contains(err.Error(), "no such file") {
					t.Skipf("an example names a file that the test does not make: %v", err)
				}
				if err != nil {
					t.Fatalf("starting an example: %v in\n%s", err, settings)
				}
				done()
				if !strings.Contains(settings, "redis:") && !strings.Contains(settings, "postgres:") && !strings.Contains(settings, "url:") {
					run(t, file, func(*gateway.Gateway) {})
				}
				if strings.HasPrefix(page, "docs/guide-") {
					restoredAnswersTheSame(t, file)
				}
			})
		}
	}
}

// restoredAnswersTheSame changes a list by hand, makes a backup, restores it on an empty
// machine, and compares the answers to a hundred questions.
func restoredAnswersTheSame(t *testing.T, file string) {
	t.Helper()
	s, err := configuration.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := collection.Open(t.Context(), s.Lists, string(s.Data), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.Lists {
		change := map[string][]list.Change{name: {{Entry: "by-hand.example", Category: cmp.Or(s.Lists[name].Category, "by-hand")}, {Entry: "own.example", Remove: true}}}
		if err := lists.Change(t.Context(), change, func() error { return nil }); err != nil {
			t.Logf("the list %s is not changed: %v", name, err) // one that has not been fetched
		}
	}
	var b bytes.Buffer
	if _, err := configuration.Backup(&b, file); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "shuultuur.yaml")
	if _, err := configuration.Restore(&b, other); err != nil {
		t.Fatal(err)
	}
	was, is := answers(t, file), answers(t, other)
	for q, want := range was {
		if is[q] != want {
			t.Errorf("%s: after the backup was restored the answer is %s, it was %s", q, is[q], want)
		}
	}
}

// answers returns what a gateway with settings decides about a hundred questions.
func answers(t *testing.T, file string) map[string]string {
	t.Helper()
	e, done, err := engine.Explain(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	all := map[string]string{}
	for _, host := range []string{"by-hand.example", "own.example", "games.example", "bank.example", "adult.example", "www.google.com", "plain.example", "www.youtube.com", "192.0.2.1", "sub.games.example"} {
		for _, from := range []string{"127.0.0.1", "192.168.1.7", "10.0.0.7", "10.1.2.3", "2001:db8::7"} {
			for _, path := range []string{"/", "/search?q=casino"} {
				x, err := e.Why(t.Context(), why.Question{URL: "http://" + host + path, Client: netip.MustParseAddr(from)})
				q := host + path + " from " + from
				if err != nil {
					all[q] = err.Error()
					continue
				}
				all[q] = fmt.Sprint(x.Action, " ", x.Policy, " ", x.Rule, " ", len(x.Findings))
			}
		}
	}
	return all
}

const everything = `
lists: {own: {format: domains, path: own.txt}}
checks:
  category: {lists: [own]}
  phrase: {banned: [b.list]}
policies: [{name: all, decrypt: true, rules: [{name: own, action: block, category: [own]}]}]
intercept: {root: root.pem}
dns: {listen: ["127.0.0.1:0"], forward: {upstreams: ["127.0.0.1:1"]}}
`

// TestEveryMetricIsInAManual: the README.md of the part that counts it has each metric of a
// running gateway.
func TestEveryMetricIsInAManual(t *testing.T) {
	manual := ""
	for _, text := range pages(t) {
		manual += text
	}
	var missing []string
	run(t, example(t, everything), func(g *gateway.Gateway) {
		for _, name := range metrics(t, g) {
			if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "promhttp_") {
				continue // metrics of libraries
			}
			if !strings.Contains(manual, name) {
				missing = append(missing, name)
			}
		}
	})
	if len(missing) > 0 {
		t.Errorf("no README.md has these %d metrics: %q", len(missing), missing)
	}
}

var typeLine = regexp.MustCompile(`(?m)^# TYPE (\S+)`)

// metrics returns the names of the metrics that a gateway shows.
func metrics(t *testing.T, g *gateway.Gateway) (names []string) {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second}
	r, err := client.Get("http://" + g.AdminAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range typeLine.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if len(names) < 20 {
		t.Errorf("found only %d metrics", len(names))
	}
	return names
}
