package collection

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"shuultuur/list"
	"shuultuur/list/source"
)

// hosts returns a list of hosts.
func hosts(prefix string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d.example\n", prefix, i)
	}
	return b.String()
}

// damages are what can happen to the file of a fetched list.
var damages = map[string]func(t *testing.T, file string, content []byte){
	"truncated":       func(t *testing.T, file string, content []byte) { write(t, file, content[:len(content)/3]) },
	"cut in a name":   func(t *testing.T, file string, content []byte) { write(t, file, content[:len(content)-12]) },
	"emptied":         func(t *testing.T, file string, _ []byte) { write(t, file, nil) },
	"one bit flipped": func(t *testing.T, file string, content []byte) { write(t, file, flipped(content)) },
	"zeros":           func(t *testing.T, file string, content []byte) { write(t, file, make([]byte, len(content))) },
	"rubbish":         func(t *testing.T, file string, _ []byte) { write(t, file, []byte("<html>\x00\x01\x02 %%% !!!\n&&&\n")) },
	"another list":    func(t *testing.T, file string, _ []byte) { write(t, file, []byte("other.example\n")) },
	"deleted":         func(t *testing.T, file string, _ []byte) { remove(t, file) },
	"a folder":        func(t *testing.T, file string, _ []byte) { remove(t, file); mkdir(t, file) },
	"link deleted":    func(t *testing.T, file string, _ []byte) { remove(t, filepath.Join(filepath.Dir(file), "current")) },
	"state emptied": func(t *testing.T, file string, _ []byte) {
		write(t, filepath.Join(filepath.Dir(file), "state.json"), nil)
	},
	"state rubbish": func(t *testing.T, file string, _ []byte) {
		write(t, filepath.Join(filepath.Dir(file), "state.json"), []byte("{["))
	},
	"state deleted": func(t *testing.T, file string, _ []byte) { remove(t, filepath.Join(filepath.Dir(file), "state.json")) },
	"state and file": func(t *testing.T, file string, _ []byte) {
		write(t, file, nil)
		remove(t, filepath.Join(filepath.Dir(file), "state.json"))
	},
	"folder deleted": func(t *testing.T, file string, _ []byte) { removeAll(t, filepath.Dir(file)) },
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func removeAll(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func flipped(content []byte) []byte {
	all := append([]byte(nil), content...)
	all[len(all)/2] ^= 1
	return all
}

// compiledAs are what can be the matter with the compiled file at the same time.
var compiledAs = map[string]func(t *testing.T, file string){
	"good":    func(*testing.T, string) {},
	"flipped": func(t *testing.T, file string) { data, _ := os.ReadFile(file); replace(t, file, flipped(data)) },
	"cut":     func(t *testing.T, file string) { data, _ := os.ReadFile(file); replace(t, file, data[:len(data)/2]) },
	"emptied": func(t *testing.T, file string) { replace(t, file, nil) },
	"deleted": remove,
}

// replace puts a new file in the place of one that may be mapped.
func replace(t *testing.T, file string, data []byte) {
	t.Helper()
	remove(t, file)
	write(t, file, data)
}

// TestADamagedFetchedListDoesNotOpenTheFilter: whatever happens to the file of the version in use,
// and to what was compiled, an older version or the compiled list goes on blocking, /health has the
// fault, and the next fetch makes it good although its server has nothing new.
func TestADamagedFetchedListDoesNotOpenTheFilter(t *testing.T) {
	for damage, do := range damages {
		for compiled, spoil := range compiledAs {
			if (compiled == "cut" || compiled == "emptied") && damage != "truncated" {
				continue
			}
			for _, when := range []string{"start", "reload"} {
				t.Run(damage+"/compiled "+compiled+"/"+when, func(t *testing.T) {
					t.Parallel()
					nothing := compiled != "good" && (damage == "folder deleted" || damage == "state and file") // is left
					damagedList(t, do, spoil, nothing, when == "reload")
				})
			}
		}
	}
}

func damagedList(t *testing.T, do func(*testing.T, string, []byte), spoil func(*testing.T, string), nothing, reload bool) {
	var content atomic.Value
	content.Store(hosts("a", 200))
	unchanged := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tag := fmt.Sprintf("%q", content.Load().(string)[:3])
		if r.Header.Get("If-None-Match") == tag {
			unchanged++
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", tag)
		_, _ = w.Write([]byte(content.Load().(string)))
	}))
	defer srv.Close()
	dir := t.TempDir()
	cfg := Config{"ads": {Config: list.Config{Format: list.Domains}, Fetch: source.Config{URL: []string{srv.URL}}}}
	client := source.NewClient(nil, func(string) bool { return false }, (&net.Dialer{}).DialContext)
	var c *Collection
	open := func(previous *Collection) {
		t.Helper()
		next, err := Open(t.Context(), cfg, dir, previous, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("the lists cannot be opened, so a gateway would not start: %v", err)
		}
		c = next
	}
	blocks := func(name string) bool {
		t.Helper()
		hits, err := c.Search(name)
		if err != nil {
			t.Fatal(err)
		}
		return len(hits) > 0
	}
	update := func() source.Change {
		t.Helper()
		got, err := c.Update(context.Background(), client, "ads")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	open(nil)
	update() // a1 …
	open(c)
	content.Store(hosts("b", 190) + hosts("a", 10)) // both versions have a1.example
	update()
	open(c)
	if !blocks("b1.example") || !blocks("a1.example") || len(c.Problems()) > 0 {
		t.Fatalf("before the damage: problems %q", c.Problems())
	}
	link, err := os.Readlink(c.store(nil).Path("ads"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "sources", "ads", link)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	do(t, file, good)
	spoil(t, c.file("ads"))
	for range 2 { // also when it is tried again
		previous := c
		if !reload {
			previous = nil
		}
		open(previous)
		if !nothing && !blocks("a1.example") {
			t.Fatalf("a name in both versions is not blocked; problems: %q", c.Problems())
		}
		if len(c.Problems()) == 0 {
			t.Fatal("/health is clean")
		}
	}
	was := unchanged
	if got := update(); !got.Updated {
		t.Fatalf("the next fetch brings no good version: %+v", got)
	}
	if unchanged != was {
		t.Error("the server was asked whether anything is new, though what is here is damaged")
	}
	open(c)
	if !blocks("b1.example") || !blocks("a1.example") || len(c.Faults())+len(c.Problems()) > 0 {
		t.Errorf("after the next fetch: problems %q", c.Problems())
	}
	if got := update(); got.Updated || unchanged != was+1 {
		t.Errorf("once it is good it is fetched again: %+v, asked %d times", got, unchanged-was)
	}
	if v, err := c.store(nil).Rollback("ads"); err == nil && v.Entries != 200 {
		t.Errorf("rolling back returns %+v; want the version before, and not the damaged one", v)
	}
}
