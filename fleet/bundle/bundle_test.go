package bundle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"

	"shuultuur/lib/setting"
)

var quiet = slog.New(slog.DiscardHandler)

// A keyPair is a desk's key, as settings name it.
type keyPair struct {
	secret setting.File
	public string
	key    minisign.PrivateKey
}

func newKey(t *testing.T) keyPair {
	t.Helper()
	public, key, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "desk.key")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return keyPair{setting.File(file), public.String(), key}
}

// A node is a user of bundles that keeps them in memory.
type node struct {
	files    map[string]string
	used     int
	fails    error
	drift    []string
	problems []string
	rates    Rates
}

func (n *node) Use(_ context.Context, folder string, m *Manifest, gone []string) error {
	if n.fails != nil {
		return n.fails
	}
	if n.files == nil {
		n.files = map[string]string{}
	}
	for _, f := range m.Files {
		b, err := os.ReadFile(filepath.Join(folder, f.Name))
		if err != nil {
			return err
		}
		n.files[f.Name] = string(b)
	}
	for _, name := range gone {
		delete(n.files, name)
	}
	n.used++
	return nil
}
func (n *node) Drift(*Manifest) []string   { return n.drift }
func (n *node) Fares() (Rates, []string)   { return n.rates, n.problems }
func (n *node) Wait(context.Context) error { return nil }

func newTaker(t *testing.T, name, from string, k keyPair, u User, change func(*Source)) *Taker {
	t.Helper()
	s := &Source{From: from, Key: k.public}
	if change != nil {
		change(s)
	}
	tk, err := NewTaker(&Config{Name: name, Bundles: s}, Dir(t.TempDir()), "1", u, func(Report) {}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func newDesk(t *testing.T, k keyPair, to string, reports func() []Report, change func(*Offers)) *Desk {
	t.Helper()
	o := &Offers{To: to, Key: k.secret}
	if change != nil {
		change(o)
	}
	d, err := NewDesk(&Config{Desk: o}, Dir(t.TempDir()), reports, func(uint64) {}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func none() []Report { return nil }

func content(version string, files map[string]string) Content {
	c := Content{Version: version, Keys: []string{"policies"}, Files: map[string][]byte{SettingsName: []byte("policies: []\n")}}
	for name, text := range files {
		c.Files[name] = []byte(text)
	}
	return c
}

// TestANodeTakesWhatTheDeskOffers: over a folder, a web server and another node, whole, encrypted or
// not; what a later bundle lacks goes.
func TestANodeTakesWhatTheDeskOffers(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	identity := filepath.Join(t.TempDir(), "identity")
	if err := os.WriteFile(identity, []byte(id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sealed := range []bool{false, true} {
		k, offer := newKey(t), t.TempDir()
		d := newDesk(t, k, offer, none, func(o *Offers) {
			if sealed {
				o.Recipients = []string{id.Recipient().String()}
			}
		})
		change := func(s *Source) {
			if sealed {
				s.Identity = setting.File(identity)
			}
		}
		srv := httptest.NewServer(http.FileServer(http.Dir(offer)))
		defer srv.Close()
		first, second := &node{}, &node{}
		near, far := newTaker(t, "a", offer, k, first, change), newTaker(t, "b", srv.URL, k, second, change)
		third := &node{}
		beyond := newTaker(t, "c", string(near.dir), k, third, change)
		for i, files := range []map[string]string{
			{"lists/own.txt": "one.example\n", "phrases/words": strings.Repeat("<word>\n", 50_000), "empty": ""},
			{"lists/own.txt": "two.example\n", "empty": ""},
		} {
			if _, err := d.Publish(t.Context(), content(fmt.Sprint(i), files), true, time.Now()); err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(files)
			want[SettingsName] = "policies: []\n"
			for name, x := range map[string]struct {
				t *Taker
				n *node
			}{"folder": {near, first}, "web": {far, second}} {
				for range 2 { // the second look changes nothing
					if err := x.t.Look(t.Context()); err != nil {
						t.Fatalf("%s, sealed %v, bundle %d: %v", name, sealed, i, err)
					}
				}
				if !maps.Equal(x.n.files, want) || x.n.used != i+1 {
					t.Errorf("%s, sealed %v, bundle %d: the node has %d files after %d uses", name, sealed, i, len(x.n.files), x.n.used)
				}
			}
			if err := beyond.Look(t.Context()); err != nil || !maps.Equal(third.files, want) {
				t.Errorf("from a node, sealed %v, bundle %d: %v, %d files", sealed, i, err, len(third.files))
			}
		}
		if sealed {
			all, _ := filepath.Glob(filepath.Join(offer, blobFolder, "*"))
			for _, file := range all {
				if b, _ := os.ReadFile(file); strings.Contains(string(b), "example") {
					t.Errorf("%s is readable for everybody", file)
				}
			}
			if err := newTaker(t, "d", offer, k, &node{}, nil).Look(t.Context()); err == nil || !strings.Contains(err.Error(), "identity") {
				t.Errorf("a node without an identity: %v, want what it lacks", err)
			}
		}
	}
}

// TestWhatIsNotTheDesksIsNotTaken: another key, changed bytes, an older or expired bundle, keys that the
// node does not give away, a blob that is cut short. What was in use stays, and the node says why.
func TestWhatIsNotTheDesksIsNotTaken(t *testing.T) {
	k := newKey(t)
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, offer string, d *Desk)
		want  string
	}{
		"another key": {func(t *testing.T, offer string, _ *Desk) {
			if _, err := newDesk(t, newKey(t), offer, none, nil).Publish(t.Context(), content("evil", nil), true, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}, "not signed"},
		"a changed manifest": {func(t *testing.T, offer string, _ *Desk) {
			file := filepath.Join(offer, manifestName)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_ = os.WriteFile(file, []byte(strings.Replace(string(b), `"share": 1`, `"share": 0.5`, 1)), 0o600)
		}, "not signed"},
		"no signature": {func(t *testing.T, offer string, _ *Desk) { _ = os.Remove(filepath.Join(offer, signatureName)) }, "no such file"},
		"an empty manifest": {func(t *testing.T, offer string, _ *Desk) {
			_ = os.WriteFile(filepath.Join(offer, manifestName), nil, 0o600)
		}, "not signed"},
		"an older bundle": {func(t *testing.T, offer string, _ *Desk) {
			if _, err := newDesk(t, k, offer, none, nil).Publish(t.Context(), content("old", nil), true, time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}, "an older one is not taken"},
		"an expired one": {func(t *testing.T, offer string, d *Desk) {
			m := d.kept.Offered
			m.Serial++
			m.Created, m.Expires = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
			put(t, offer, &m, k)
		}, "has expired"},
		"a key of the node": {func(t *testing.T, offer string, d *Desk) {
			m := d.kept.Offered
			m.Serial, m.Keys = m.Serial+1, []string{"access"}
			put(t, offer, &m, k)
		}, "not in fleet: bundles: takes"},
		"a file above": {func(t *testing.T, offer string, d *Desk) {
			m := d.kept.Offered
			m.Serial, m.Files = m.Serial+1, append(slices.Clone(m.Files), File{Name: "../evil", Sum: m.Files[0].Sum})
			text, _ := jsonOf(&m)
			_ = os.WriteFile(filepath.Join(offer, manifestName), text, 0o600)
			_ = os.WriteFile(filepath.Join(offer, signatureName), minisign.Sign(k.key, text), 0o600)
		}, "not below the folder"},
		"a blob cut short": {func(t *testing.T, offer string, d *Desk) {
			if _, err := d.Publish(t.Context(), content("2", map[string]string{"x": strings.Repeat("y", 1000)}), true, time.Now()); err != nil {
				t.Fatal(err)
			}
			all, _ := filepath.Glob(filepath.Join(offer, blobFolder, "*"))
			for _, file := range all {
				_ = os.Truncate(file, 10)
			}
		}, "something else than its manifest says"},
		"the blob of another file": {func(t *testing.T, offer string, d *Desk) {
			m := d.kept.Offered
			m.Serial++
			m.Files = append(slices.Clone(m.Files), File{Name: "big", Size: 5, Sum: m.Files[0].Sum})
			put(t, offer, &m, k)
		}, "not what the manifest says"},
	} {
		t.Run(name, func(t *testing.T) {
			offer, n := t.TempDir(), &node{}
			d := newDesk(t, k, offer, none, nil)
			tk := newTaker(t, "a", offer, k, n, nil)
			if _, err := d.Publish(t.Context(), content("good", map[string]string{"a": "b"}), true, time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := tk.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := maps.Clone(n.files)
			tt.spoil(t, offer, d)
			err := tk.Look(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
			if !maps.Equal(n.files, before) || n.used != 1 {
				t.Errorf("the node has %v, want what it had: %v", n.files, before)
			}
			if p := tk.Problems(); len(p) != 1 || !strings.Contains(p[0], tt.want) {
				t.Errorf("problems %q, want one with %q", p, tt.want)
			}
			if r := tk.Report(time.Now()); r.Version != "good" || !strings.Contains(r.Why, tt.want) {
				t.Errorf("the node reports %+v", r)
			}
		})
	}
}

func put(t *testing.T, offer string, m *Manifest, k keyPair) {
	t.Helper()
	text, signature, err := m.Sign(k.key)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(offer, manifestName), text, 0o600), os.WriteFile(filepath.Join(offer, signatureName), signature, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestABundleThatCannotBeUsedIsRefusedOnce: the node keeps what it has, does not try again at each look,
// and takes the next.
func TestABundleThatCannotBeUsedIsRefusedOnce(t *testing.T) {
	k, offer, n := newKey(t), t.TempDir(), &node{}
	d, tk := newDesk(t, k, offer, none, nil), newTaker(t, "a", offer, k, n, nil)
	publish := func(v string) {
		if _, err := d.Publish(t.Context(), content(v, map[string]string{"v": v}), true, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	publish("1")
	if err := tk.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	publish("2")
	n.fails = errors.New(`settings.yaml:1: "polices" is not a key`)
	for i, want := range []bool{true, false, false} {
		if err := tk.Look(t.Context()); (err != nil) != want {
			t.Errorf("look %d: %v", i, err)
		}
	}
	if r := tk.Report(time.Now()); r.Version != "1" || r.Refused != d.Status().Offered.Serial || r.Bad(r.Refused) == "" {
		t.Errorf("the node reports %+v", r)
	}
	n.fails = nil
	publish("3")
	if err := tk.Look(t.Context()); err != nil || n.files["v"] != "3" || len(tk.Problems()) != 0 {
		t.Errorf("the next bundle: %v, %q, problems %q", err, n.files["v"], tk.Problems())
	}
}

// TestNodesKeepTheirPlaceInTheOrder: who takes a bundle at one share takes it at each larger one, and a
// share has about as many nodes as it says.
func TestNodesKeepTheirPlaceInTheOrder(t *testing.T) {
	takers := map[float64]int{}
	for i := range 10_000 {
		was := false
		for _, s := range Shares {
			m := Manifest{Share: s}
			takes := m.Takes(fmt.Sprint("node-", i))
			if was && !takes {
				t.Fatalf("node %d no longer takes a bundle at %v", i, s)
			}
			if was = takes; takes {
				takers[s]++
			}
		}
	}
	for _, s := range Shares {
		if got := float64(takers[s]) / 10_000; math.Abs(got-s) > 0.02 {
			t.Errorf("at %v, %v of the nodes take a bundle", s, got)
		}
	}
}

// TestMistakesInSettings: each names its key.
func TestMistakesInSettings(t *testing.T) {
	k := newKey(t)
	good := func() *Config {
		return &Config{Bundles: &Source{From: t.TempDir(), Key: k.public}, Desk: &Offers{Key: k.secret}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"bundles.from":        func(c *Config) { c.Bundles.From = "" },
		"bundles.from ":       func(c *Config) { c.Bundles.From = "gopher://x" },
		"bundles.key":         func(c *Config) { c.Bundles.Key = "RWx" },
		"bundles.every":       func(c *Config) { c.Bundles.Every = 1 },
		"bundles.takes":       func(c *Config) { c.Bundles.Takes = []string{"listen"} },
		"bundles.takes ":      func(c *Config) { c.Bundles.Takes = []string{"dns.cache"} },
		"bundles.identity":    func(c *Config) { c.Bundles.Identity = k.secret },
		"bundles.from.access": func(c *Config) { c.Bundles.From = "s3://lake" },
		"bundles.from.token":  func(c *Config) { c.Bundles.From, c.Bundles.Token = "http://desk", "t" },
		"desk.key":            func(c *Config) { c.Desk.Key = "" },
		"desk.key ":           func(c *Config) { c.Desk.Key = "/nowhere" },
		"desk.carries":        func(c *Config) { c.Desk.Carries = []string{"data"} },
		"desk.recipients":     func(c *Config) { c.Desk.Recipients = []string{"age2"} },
		"desk.to":             func(c *Config) { c.Desk.To = "https://x" },
		"desk.expires":        func(c *Config) { c.Desk.Expires = setting.Duration(time.Minute) },
		"name":                func(c *Config) { c.Name = "a\nb" },
	} {
		c := good()
		change(c)
		err := c.Check()
		at := ""
		for e := err; ; {
			s, ok := errors.AsType[*setting.Error](e)
			if !ok {
				break
			}
			at, e = strings.TrimPrefix(at+"."+s.Key, "."), s.Err
		}
		if at != strings.TrimSpace(want) {
			t.Errorf("want a mistake at %s, got %q: %v", want, at, err)
		}
	}
}

// TestWhatOthersMayTakeFromANode: what belongs to a bundle, and nothing else of the folder.
func TestWhatOthersMayTakeFromANode(t *testing.T) {
	k, offer := newKey(t), t.TempDir()
	tk := newTaker(t, "a", offer, k, &node{}, nil)
	m, err := newDesk(t, k, offer, none, nil).Publish(t.Context(), content("1", nil), true, time.Now())
	if err == nil {
		err = tk.Look(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		manifestName: true, signatureName: true, blobFolder + "/" + m.Files[0].Sum: true,
		heldName: false, "../" + heldName: false, blobFolder: false, blobFolder + "/../" + heldName: false, "": false, deskName: false,
	} {
		r, err := tk.dir.Offered(t.Context(), name)
		if (err == nil) != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v, want it %v", name, err, want)
		}
		if err == nil {
			r.Close()
		}
	}
}

// TestAServerOfBundlesIsKilledAndReturns: what is in use stays and the problem is named, until the server
// is back on its address.
func TestAServerOfBundlesIsKilledAndReturns(t *testing.T) {
	k, offer, n := newKey(t), t.TempDir(), &node{}
	d := newDesk(t, k, offer, none, nil)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve := func(l net.Listener) *http.Server {
		s := &http.Server{Handler: http.FileServer(http.Dir(offer))}
		go func() { _ = s.Serve(l) }()
		return s
	}
	srv := serve(at)
	tk := newTaker(t, "a", "http://"+at.Addr().String(), k, n, nil)
	for i := range 3 {
		if _, err := d.Publish(t.Context(), content(fmt.Sprint(i), map[string]string{"v": fmt.Sprint(i)}), true, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := tk.Look(t.Context()); err != nil || n.files["v"] != fmt.Sprint(i) || len(tk.Problems()) > 0 {
			t.Fatalf("bundle %d: %v, %q, problems %q", i, err, n.files["v"], tk.Problems())
		}
		srv.Close()
		if err := tk.Look(t.Context()); err == nil || n.files["v"] != fmt.Sprint(i) || len(tk.Problems()) != 1 {
			t.Fatalf("after bundle %d, without a server: %v, %q, problems %q", i, err, n.files["v"], tk.Problems())
		}
		if at, err = net.Listen("tcp", at.Addr().String()); err != nil {
			t.Fatal(err)
		}
		srv = serve(at)
	}
	srv.Close()
}
