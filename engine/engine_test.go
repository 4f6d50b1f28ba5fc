//go:build !small

package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/why"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/filter"
	"shuultuur/whatif"
)

const school = `listen: {proxy: "127.0.0.1:0", admin: off}
lists:
  games: {path: games.list, format: domains, category: games}
checks: {category: {lists: [games]}}
identity:
  addresses: {anna: [10.0.0.1], ben: [10.0.0.2]}
  groups: {pupils: [anna]}
policies:
  - name: pupils
    groups: [pupils]
    rules:
      - {name: no games, action: block, category: [category/games]}
    expect:
      - {url: "http://play.example/", is: block}
  - name: everyone
    rules:
      - {name: no uploads, action: block, method: [POST]}
dns:
  listen: ["127.0.0.1:0"]
`

// folder writes files into a new folder, and returns the path of the settings.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	before := time.Now().Add(-time.Hour) // a file that is being written may change again
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, before, before); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "shuultuur.yaml")
}

func schoolFiles() map[string]string {
	return map[string]string{"shuultuur.yaml": school, "games.list": "play.example\n"}
}

func TestAnEngineExplainsWhatItDecides(t *testing.T) {
	e, done, err := engine.Explain(t.Context(), folder(t, schoolFiles()))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	for _, tt := range []struct {
		q    why.Question
		want string // action, policy and rule
		line int
	}{
		{why.Question{URL: "http://play.example/x", User: "anna", Groups: []string{"pupils"}}, "block pupils/no games", 12},
		{why.Question{URL: "http://play.example/x", As: "pupils"}, "block pupils/no games", 12},
		{why.Question{URL: "http://play.example/x"}, "pass everyone/", 15},
		{why.Question{URL: "http://other.example/", Method: "POST"}, "block everyone/no uploads", 17},
	} {
		x, err := e.Why(t.Context(), tt.q)
		if err != nil {
			t.Errorf("%+v: %v", tt.q, err)
			continue
		}
		if got := x.Action + " " + x.Policy + "/" + x.Rule; got != tt.want || x.Line != tt.line {
			t.Errorf("%+v: %s by line %d, want %s by line %d", tt.q, got, x.Line, tt.want, tt.line)
		}
	}
	if _, err := e.Why(t.Context(), why.Question{URL: "http://play.example/", As: "teachers"}); err == nil {
		t.Error("a policy that is not there decides")
	}
	if err := e.Expectations(t.Context()); err != nil {
		t.Errorf("expectations: %v", err)
	}
	for who, want := range map[string]string{"10.1.2.3": "10.1.2.3", "10.0.0.0/8": "10.0.0.0/8", "anna": "anna", "pupils": "pupils", "nobody": ""} {
		if got, err := e.NormaliseWho(who); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", who, got, err, want)
		}
	}
}

// A mistake in the settings or in a file that they name has its file and line, and nothing is left
// behind.
func TestMistakesNameTheirLine(t *testing.T) {
	for name, tt := range map[string]struct{ from, to, want string }{
		"a list that is not there": {"games.list", "none.list", "none.list"},
		"a category nobody has":    {"[category/games]", "[category/nothing]", "shuultuur.yaml:12"},
		"an action nobody knows":   {"action: block, method", "action: bolck, method", "shuultuur.yaml:17"},
		"two policies of a name":   {"name: everyone", "name: pupils", "shuultuur.yaml"},
		"a port that is none": {`dns:
  listen: ["127.0.0.1:0"]`, `dns:
  listen: ["127.0.0.1:x"]`, "shuultuur.yaml:19"},
	} {
		files := schoolFiles()
		files["shuultuur.yaml"] = strings.Replace(school, tt.from, tt.to, 1)
		file := folder(t, files)
		e, done, err := engine.Explain(t.Context(), file)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if e != nil || done != nil {
			t.Errorf("%s: there is an engine", name)
		}
		if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != len(files) {
			t.Errorf("%s: the trial left files: %v, %v", name, all, err)
		}
	}
}

// A reload builds what has changed and what is built from it, and takes over the rest.
func TestAReloadTakesOverWhatIsUnchanged(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	file := folder(t, schoolFiles())
	read := func() *configuration.Settings {
		t.Helper()
		s, err := configuration.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, err := engine.Build(t.Context(), read(), nil, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	last, changes := first, 0
	defer func() { last.Drop(nil, log) }()
	change := func(what, name, from, to string, policies, lists, names bool) {
		t.Helper()
		path := filepath.Join(filepath.Dir(file), name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.Replace(text, []byte(from), []byte(to), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		changes++
		at := time.Now().Add(-time.Hour + time.Duration(changes)*time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		next, err := engine.Build(t.Context(), read(), last, nil, log)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := next.Policies != last.Policies; got != policies {
			t.Errorf("%s: the policies are new: %v, want %v", what, got, policies)
		}
		if got := next.Lists != last.Lists; got != lists {
			t.Errorf("%s: the lists are new: %v, want %v", what, got, lists)
		}
		if got := next.Identity != last.Identity; got != names {
			t.Errorf("%s: the identity is new: %v, want %v", what, got, names)
		}
		last.Drop(next, log)
		last = next
	}
	change("nothing", "shuultuur.yaml", "", "", false, false, false)
	change("a comment", "shuultuur.yaml", "policies:", "# rules\npolicies:", false, false, false)
	change("a rule", "shuultuur.yaml", "[POST]", "[PUT]", true, false, false)
	change("a list", "games.list", "play.example", "fun.example", true, true, false)
	change("a group", "shuultuur.yaml", "[anna]", "[anna, ben]", true, false, true)
	tr := &filter.Transaction{Start: time.Now(), Proto: filter.DNS, Host: "fun.example", Client: filter.Client{User: "ben", Groups: []string{"pupils"}}, Last: filter.Name}
	last.Policies.Decide(t.Context(), tr, filter.Name)
	if tr.Verdict.Action != filter.Block {
		t.Errorf("after all changes the verdict is %+v", tr.Verdict)
	}
	if first.Revision == last.Revision {
		t.Error("another engine has the same revision")
	}
}

// A changed part that cannot be built leaves its last state in force, says so, and is built when
// its file is mended.
func TestAFaultOfOnePartClosesNoOther(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	file := folder(t, schoolFiles())
	games := filepath.Join(filepath.Dir(file), "games.list")
	build := func(old *engine.Engine) *engine.Engine {
		t.Helper()
		s, err := configuration.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.Build(t.Context(), s, old, nil, log)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	blocks := func(e *engine.Engine) bool {
		tr := &filter.Transaction{Start: time.Now(), Proto: filter.DNS, Host: "play.example", Client: filter.Client{User: "anna", Groups: []string{"pupils"}}, Last: filter.Name}
		e.Policies.Decide(t.Context(), tr, filter.Name)
		return tr.Verdict.Action == filter.Block
	}
	e := build(nil)
	defer func() { e.Drop(nil, log) }()
	for _, step := range []struct {
		text   string
		faulty bool
	}{{"play.example\n", false}, {"", true}, {"play.example\nmore.example\n", false}} {
		if step.text == "" {
			if err := os.Remove(games); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(games, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		next := build(e)
		e.Drop(next, log)
		e = next
		if !blocks(e) {
			t.Errorf("with the list %q the site passes", step.text)
		}
		if got := len(e.Faults()) > 0; got != step.faulty {
			t.Errorf("with the list %q faults are %v", step.text, e.Faults())
		}
	}
}

func TestSquidIsAnsweredFromSettingsAlone(t *testing.T) {
	var out bytes.Buffer
	in := strings.NewReader("10.0.0.1 anna GET http://play.example/ -\n10.0.0.1 anna GET http://other.example/ -\n")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	files := schoolFiles()
	files["shuultuur.yaml"] = strings.Replace(school, "  - name: pupils\n    groups: [pupils]\n", "  - name: pupils\n    users: [anna]\n", 1)
	if err := engine.AnswerSquid(ctx, folder(t, files), "acl", in, &out, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(out.String()))
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "ERR") || !strings.HasPrefix(lines[1], "OK") {
		t.Errorf("Squid is told %q", lines)
	}
	if err := engine.AnswerSquid(ctx, filepath.Join(t.TempDir(), "none.yaml"), "acl", in, &out, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("settings that are not there answer")
	}
}

const everything = `
mail: {server: "smtp://mail.school.example:587", from: filter@school.example}
alerts:
  themes: {self-harm: {severity: high}}
  to: [{mail: head@school.example}]
reports: [{every: week, mail: [head@school.example]}]
votes: {listen: "127.0.0.1:0"}
portal: {name: gate.school.example}
cache: {memory: 16MiB}
`

// Settings with every part are tried without listening or writing, and each part says what it is.
func TestATrialOfEverythingWritesNothing(t *testing.T) {
	files := schoolFiles()
	files["shuultuur.yaml"] = strings.Replace(school, `admin: off}`, `admin: off, portal: "127.0.0.1:0", icap: "127.0.0.1:0", squid: helpers.sock}`, 1) + everything
	file := folder(t, files)
	e, done, err := engine.Explain(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	var keys []string
	for _, p := range e.Parts() {
		keys = append(keys, p.Name)
	}
	for _, want := range []string{"lists", "policies", "mail", "alerts", "reports", "votes", "portal", "icap", "cache", "nameserver", "resolver"} {
		if !slices.ContainsFunc(keys, func(k string) bool { return strings.Contains(k, want) }) {
			t.Errorf("no part is %s: %q", want, keys)
		}
	}
	if e.Failing() || len(e.Problems()) > 0 || len(e.Faults()) > 0 || e.SharesState() {
		t.Errorf("problems %q, faults %v", e.Problems(), e.Faults())
	}
	all, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(all) != len(files) {
		t.Errorf("the trial left files: %v, %v", all, err)
	}
	var out bytes.Buffer
	if e.Print(&out); !strings.Contains(out.String(), "games") {
		t.Errorf("the lists are not printed: %q", out.String())
	}
	if len(e.AskPauses(t.Context())) != 0 {
		t.Error("a pause came from nowhere")
	}
	e.AskSession(t.Context(), netip.MustParseAddr("10.0.0.1"))
}

func TestNamesAndRecordedRequestsAreJudgedAgain(t *testing.T) {
	e, done, err := engine.Explain(t.Context(), folder(t, schoolFiles()))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	anna, err := e.Identify(t.Context(), netip.MustParseAddr("10.0.0.1"))
	if err != nil || anna.User != "anna" || !slices.Contains(anna.Groups, "pupils") {
		t.Fatalf("10.0.0.1 is %+v, %v", anna, err)
	}
	for name, blocked := range map[string]bool{"play.example": true, "www.play.example": true, "other.example": false} {
		x, err := e.Name(e.Policies, anna, name, 1)
		if err != nil || (x.Transaction.Verdict.Action == filter.Block) != blocked || x.Upstream == blocked {
			t.Errorf("%s: %+v, %v", name, x, err)
		}
	}
	for _, j := range []whatif.Judge{e.Judge("new"), e.JudgeInOrder("new")} {
		for addr, user := range map[string]string{"10.0.0.1": "", "10.9.9.9": "anna"} {
			c := j.Client(t.Context(), &whatif.Entry{Client: netip.MustParseAddr(addr), User: user})
			tr := &filter.Transaction{Start: time.Now(), Proto: filter.DNS, Host: "play.example", Client: c, Last: filter.Name}
			j.Decider.Decide(t.Context(), tr, filter.Name)
			if tr.Verdict.Action != filter.Block {
				t.Errorf("%s %s: client %+v, verdict %+v", addr, user, c, tr.Verdict)
			}
		}
	}
	changed, release, err := engine.TryChange(t.Context(), e, e.Settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	if changed.Lists != e.Lists || changed.Pauses == e.Pauses {
		t.Error("a trial of a change shares pauses, or does not share lists")
	}
	release()
}

// TestTunnelsOfNamesAreRefused: as the name server has them judged, name by name.
func TestTunnelsOfNamesAreRefused(t *testing.T) {
	files := schoolFiles()
	files["shuultuur.yaml"] = strings.Replace(school, "      - {name: no uploads", "      - {name: ways around, action: block, category: [around/dns]}\n      - {name: no uploads", 1)
	e, done, err := engine.Explain(t.Context(), folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	decider, at, refused := e.Judge("new").Decider, time.Now(), map[bool]int{}
	for i := range 60 {
		for tunnel, host := range map[bool]string{true: fmt.Sprintf("%040x%05d.t.example.com", i*7919, i), false: fmt.Sprintf("www%d.example.org", i)} {
			tr := &filter.Transaction{Start: at, Proto: filter.DNS, Type: 16, Host: host, Last: filter.Name, Terse: i%2 == 0}
			tr.Client.Addr = netip.MustParseAddr("10.9.9.9")
			if decider.Decide(t.Context(), tr, filter.Name); tr.Verdict.Action == filter.Block {
				refused[tunnel]++
			}
		}
		at = at.Add(time.Second)
	}
	if refused[true] < 40 || refused[false] > 0 {
		t.Errorf("%d names of a tunnel are refused and %d others, want at least 40 of 60, and none", refused[true], refused[false])
	}
}

// TestEventsInOrderUseUpQuotas: each is judged with what those before it have used.
func TestEventsInOrderUseUpQuotas(t *testing.T) {
	files := schoolFiles()
	files["shuultuur.yaml"] = strings.Replace(school, "    groups: [pupils]\n    rules:", "    groups: [pupils]\n    quotas: [{bytes: 1MB}]\n    rules:", 1)
	e, done, err := engine.Explain(t.Context(), folder(t, files))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	j := e.JudgeInOrder("new")
	if !j.Counts() {
		t.Fatal("a judge of quotas counts nothing")
	}
	start := time.Date(2026, 3, 2, 10, 0, 0, 0, time.Local)
	for i, blocked := range []bool{false, false, true, false} { // the last is of the next day
		at := start.Add(time.Duration(i) * time.Minute)
		if i == 3 {
			at = at.AddDate(0, 0, 1)
		}
		tr := &filter.Transaction{Start: at, Proto: filter.HTTP, Host: "other.example", Last: filter.Request,
			Client: j.Client(t.Context(), &whatif.Entry{Client: netip.MustParseAddr("10.0.0.1")})}
		j.Begin(at)
		j.Decider.Decide(t.Context(), tr, filter.Request)
		if got := tr.Verdict.Action == filter.Block; got != blocked {
			t.Errorf("event %d: %+v, want blocked %v", i, tr.Verdict, blocked)
		}
		tr.BytesOut, tr.Duration = 600_000, time.Second
		j.End(t.Context(), tr)
	}
}

// TestAHostGivesWhatTheEngineInUseHas: nothing before the first.
func TestAHostGivesWhatTheEngineInUseHas(t *testing.T) {
	h := &engine.Host{InUse: func() *engine.Engine { return nil }, Log: slog.New(slog.DiscardHandler)}
	if h.Texts("de") != nil || h.Root() != nil || (*engine.Host)(nil).Texts("de") != nil {
		t.Error("a host without an engine gives texts or a root")
	}
	e, done, err := engine.Explain(t.Context(), folder(t, schoolFiles()))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	h.InUse = func() *engine.Engine { return e }
	if got := h.GroupsOf(netip.MustParseAddr("10.9.9.9"), "anna"); !slices.Contains(got, "pupils") {
		t.Errorf("the groups of anna are %q", got)
	}
	if h.Root() != nil {
		t.Error("a gateway that decrypts nothing has a root")
	}
}
