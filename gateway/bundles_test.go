package gateway

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"shuultuur/fleet/bundle"
)

// A fleetOfTwo is a desk and a node that takes what it offers.
type fleetOfTwo struct {
	t          *testing.T
	offer      string
	desk, node *Gateway
	files      map[*Gateway]string
}

const deskPolicies = `lists: {own: {format: domains, path: lists/own.txt, category: own}}
checks: {category: {lists: [own]}}
policies:
  - name: everyone
    expect: [{url: "http://bad.example/", is: block}]
    rules: [{name: own, action: block, category: [own]}]
`

func newFleetOfTwo(t *testing.T) *fleetOfTwo {
	t.Helper()
	public, key, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleetOfTwo{t: t, offer: t.TempDir(), files: map[*Gateway]string{}}
	begin := func(files map[string]string) *Gateway {
		dir := t.TempDir()
		for name, text := range files {
			lay(t, filepath.Join(dir, name), text)
		}
		g := serving(t, filepath.Join(dir, "shuultuur.yaml"))
		f.files[g] = dir
		return g
	}
	const own = "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\n"
	f.desk = begin(map[string]string{
		"desk.key": string(secret), "lists/own.txt": "bad.example\n",
		"shuultuur.yaml": own + fmt.Sprintf("fleet: {name: desk, desk: {to: %q, key: desk.key}}\n", f.offer) + deskPolicies,
	})
	f.node = begin(map[string]string{
		"lists/other.txt": "other.example\n",
		"shuultuur.yaml":  own + fmt.Sprintf("# this node's own\nfleet: {name: node, bundles: {from: %q, key: %q, every: 1h}}\n", f.offer, public) + "policies: [{name: everyone, rules: []}]\npages: {name: Here}\n",
	})
	// The node looks by itself when it begins to serve; then the tests do.
	for end := time.Now().Add(20 * time.Second); len(f.node.engine.Load().State.InForce(bundle.Topic)) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the node has not looked for a bundle")
		}
	}
	return f
}

func lay(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// offers has the desk offer what it decides by.
func (f *fleetOfTwo) offers(version string) error {
	p := &pages{gateway: f.desk}
	return p.fleetParts().Publish(f.t.Context(), version, "", true)
}

// looks has the node look for a bundle.
func (f *fleetOfTwo) looks() error { return f.node.engine.Load().Bundles.Taker.Look(f.t.Context()) }

func (f *fleetOfTwo) read(g *Gateway, name string) string {
	b, err := os.ReadFile(filepath.Join(f.files[g], name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.t.Error(err)
	}
	return string(b)
}

func (f *fleetOfTwo) report() bundle.Report {
	return f.node.engine.Load().Bundles.Taker.Report(time.Now())
}

// TestANodeDecidesAsItsDesk: keys and files of the desk arrive, the rest of the node's settings stays with
// its comments, and a later bundle takes away what it lacks.
func TestANodeDecidesAsItsDesk(t *testing.T) {
	f := newFleetOfTwo(t)
	if err := f.offers("1"); err != nil {
		t.Fatal(err)
	}
	if err := f.looks(); err != nil {
		t.Fatal(err)
	}
	text := f.read(f.node, "shuultuur.yaml")
	for _, want := range []string{"# this node's own", "name: node", "pages: {name: Here}", "name: own, action: block"} {
		if !strings.Contains(text, want) {
			t.Errorf("the node's settings lack %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "desk.key") || f.read(f.node, "desk.key") != "" {
		t.Error("the node has the key of the desk")
	}
	if got := f.read(f.node, "lists/own.txt"); got != "bad.example\n" || f.read(f.node, "lists/other.txt") == "" {
		t.Errorf("the node's lists: %q", got)
	}
	if r := f.report(); r.Version != "1" || len(r.Drift) > 0 || r.Refused != 0 {
		t.Errorf("the node reports %+v", r)
	}

	lay(t, filepath.Join(f.files[f.node], "lists/own.txt"), "mine.example\n")
	if r := f.report(); len(r.Drift) != 1 || r.Drift[0] != "lists/own.txt" {
		t.Errorf("after a file was changed: %q", r.Drift)
	}
	lay(t, filepath.Join(f.files[f.desk], "lists/new.txt"), "bad.example\nworse.example\n")
	if err := os.Remove(filepath.Join(f.files[f.desk], "lists/own.txt")); err != nil {
		t.Fatal(err)
	}
	lay(t, filepath.Join(f.files[f.desk], "shuultuur.yaml"), strings.ReplaceAll(f.read(f.desk, "shuultuur.yaml"), "lists/own.txt", "lists/new.txt"))
	if err := f.desk.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.offers("2"), f.looks()); err != nil {
		t.Fatal(err)
	}
	if f.read(f.node, "lists/own.txt") != "" || f.read(f.node, "lists/new.txt") == "" {
		t.Error("the node has the list of the bundle before, or lacks the new one")
	}
	if r := f.report(); r.Version != "2" || len(r.Drift) > 0 {
		t.Errorf("the node reports %+v", r)
	}
}

// TestABundleThatANodeCannotUseChangesNothing: mistakes, expectations that are not met, places that are
// not a bundle's. Settings and files stay byte for byte, and the node says why.
func TestABundleThatANodeCannotUseChangesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		text, list string
		want       string
	}{
		"an expectation": {deskPolicies, "good.example\n", "bad.example"},
		"a mistake":      {strings.ReplaceAll(deskPolicies, "action: block,", "action: blok,"), "bad.example\n", "blok"},
		"a lost file":    {strings.ReplaceAll(deskPolicies, "lists/own.txt", "lists/none.txt"), "bad.example\n", "none.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleetOfTwo(t)
			if err := errors.Join(f.offers("1"), f.looks()); err != nil {
				t.Fatal(err)
			}
			before := tree(t, f.files[f.node])
			d := f.desk.engine.Load().Bundles.Desk
			c := bundle.Content{Version: "2", Keys: []string{"lists", "checks", "policies"}, Files: map[string][]byte{bundle.SettingsName: []byte(tt.text), "lists/own.txt": []byte(tt.list)}}
			if _, err := d.Publish(t.Context(), c, true, time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := f.looks(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
			after := tree(t, f.files[f.node])
			for file, was := range before {
				if !strings.HasPrefix(strings.TrimPrefix(file, f.files[f.node]), "/data") && after[file] != was {
					t.Errorf("%s has changed", file)
				}
			}
			if r := f.report(); r.Version != "1" || r.Refused == 0 || !strings.Contains(r.Why, tt.want) {
				t.Errorf("the node reports %+v", r)
			}
		})
	}
}

// TestABundleHasNoPlaceInWhatIsTheNodesOwn: its settings, its data folder, keys that only an owner may
// name, links.
func TestABundleHasNoPlaceInWhatIsTheNodesOwn(t *testing.T) {
	f := newFleetOfTwo(t)
	if err := os.Symlink(t.TempDir(), filepath.Join(f.files[f.node], "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shuultuur.yaml", "shuultuur.yaml/x", "data/accounts/accounts.json", "data", "link/x", "shuultuur.yaml.saved"} {
		if err := (bundleUser{f.node}).mayPlace([]string{name}); err == nil {
			t.Errorf("%q may be placed", name)
		}
	}
	if err := (bundleUser{f.node}).mayPlace([]string{"lists/own.txt", "phrases/new/words"}); err != nil {
		t.Error(err)
	}
}

// TestWhatWasInterruptedIsPutBackAtTheNextStart: the program ends between two files.
func TestWhatWasInterruptedIsPutBackAtTheNextStart(t *testing.T) {
	f := newFleetOfTwo(t)
	if err := errors.Join(f.offers("1"), f.looks()); err != nil {
		t.Fatal(err)
	}
	dir := f.files[f.node]
	want := f.read(f.node, "shuultuur.yaml")
	if _, err := (bundleUser{f.node}).keepReplaced([]byte(want), []string{"lists/own.txt", "lists/brought.txt"}); err != nil {
		t.Fatal(err)
	}
	lay(t, filepath.Join(dir, "lists/own.txt"), "half")
	lay(t, filepath.Join(dir, "lists/brought.txt"), "half")
	// A start puts it back; a second gateway on the same data folder cannot, so its part is called.
	for range 2 {
		if err := putReplacedBackAtStart(filepath.Join(dir, "shuultuur.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	if f.read(f.node, "lists/own.txt") != "bad.example\n" || f.read(f.node, "lists/brought.txt") != "" || f.read(f.node, "shuultuur.yaml") != want {
		t.Error("what was interrupted is not put back")
	}
}

// TestSecretsAreNotOfferedInTheClear: what a bundle carries can be read by everybody who reaches the
// place, unless it has recipients.
func TestSecretsAreNotOfferedInTheClear(t *testing.T) {
	f := newFleetOfTwo(t)
	file := filepath.Join(f.files[f.desk], "shuultuur.yaml")
	lay(t, file, strings.Replace(f.read(f.desk, "shuultuur.yaml"), "lists: {own:", `lists: {far: {url: "https://lists.example/x", headers: {Authorization: "Bearer a-long-secret"}}, own:`, 1))
	if err := f.desk.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.offers("1"); err == nil || !strings.Contains(err.Error(), "recipients") {
		t.Errorf("got %v, want what to do", err)
	}
	if all, _ := os.ReadDir(f.offer); len(all) > 0 {
		t.Errorf("the place has %v", all)
	}
}

// TestTheDesksPageShowsTheFleet: by the reports of the nodes.
func TestTheDesksPageShowsTheFleet(t *testing.T) {
	f := newFleetOfTwo(t)
	if err := errors.Join(f.offers("1"), f.looks()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	tell := func(r bundle.Report) {
		i, err := r.Instruction()
		if err == nil {
			err = f.desk.engine.Load().State.Issue(i)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := f.report()
	for name, change := range map[string]func(*bundle.Report){
		"runs":    func(*bundle.Report) {},
		"waits":   func(r *bundle.Report) { r.Serial = 0 },
		"refused": func(r *bundle.Report) { r.Refused, r.Why = r.Serial+1, "it is full" },
		"drifts":  func(r *bundle.Report) { r.Drift = []string{"policies"} },
		"silent":  func(r *bundle.Report) { r.At = now.Add(-time.Hour) },
	} {
		one := r
		one.Node = name
		change(&one)
		tell(one)
	}
	got := bundleUser{f.desk}.fleet(now)
	if !got.Desk || got.Takes || got.Offered.Version != "1" || len(got.Nodes) != 5 {
		t.Errorf("the fleet is %+v", got)
	}
	for _, n := range got.Nodes {
		if n.State != n.Name {
			t.Errorf("node %s is shown as %s", n.Name, n.State)
		}
	}
}
