//go:build !small

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	reasons "shuultuur/admin/why"
	"shuultuur/test/peer"
	"shuultuur/test/race"
)

// squidGuardRules writes lists into a folder and returns a configuration that names them.
func squidGuardRules(t *testing.T, r *rand.Rand, dir string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# generated\ndbhome %s\nlogdir %[1]s\n", dir)
	b.WriteString("time always {\n  weekly smtwhfa 00:00 - 24:00\n}\ntime once {\n  date 2001.01.01\n}\n")
	var names []string
	for i, lines := range []string{"ip 10.1.0.0/16", "ip 10.2.0.5 192.0.2.9", "ip 10.0.0.0/255.0.0.0", "ip 10.1.0.1-10.1.0.9", "user anna", "user ben\n  ip 10.2.0.0/16"} {
		if r.IntN(2) == 0 {
			continue
		}
		name := fmt.Sprintf("who%d", i)
		names = append(names, name)
		fmt.Fprintf(&b, "%s %s {\n  %s\n%s}\n", pick(r, "src", "source"), name, lines, pick(r, "", "", "  within always\n", "  outside once\n", "  within once\n"))
	}
	var dests []string
	for i := range 2 + r.IntN(3) {
		name := fmt.Sprintf("to%d", i)
		dests = append(dests, name)
		fmt.Fprintf(&b, "%s %s {\n%s", pick(r, "dest", "destination"), name, pick(r, "", "", "", "  within always\n", "  within once\n"))
		for _, kind := range []struct {
			key   string
			lines []string
		}{{"domainlist", []string{"ads.example", "games.example", "www.ads.example", "OTHER.example", "a.games.example"}},
			{"urllist", []string{"other.example/play", "ads.example/Play", "games.example/1.gif", "www.other.example/a"}},
			{"expressionlist", []string{`play`, `\.gif`, `ads\.example/`, `[?]x=1$`, `(Play|gif)`, `[0-9]\.gif$`}}} {
			if r.IntN(2) == 0 {
				continue
			}
			text := ""
			for range 1 + r.IntN(3) {
				text += pick(r, kind.lines...) + "\n"
			}
			if err := os.WriteFile(filepath.Join(dir, name+"-"+kind.key), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "  %s %s-%s\n", kind.key, name, kind.key)
		}
		b.WriteString("}\n")
	}
	pass := func() string {
		words := ""
		for range r.IntN(4) {
			words += pick(r, "", "!") + pick(r, dests...) + " "
		}
		return words + pick(r, "any", "all", "none", "!in-addr any", "in-addr none")
	}
	b.WriteString("acl {\n")
	for _, name := range append(names, "default") {
		when := ""
		if name != "default" {
			when = pick(r, "", "", " within always", " within once", " outside always")
		}
		fmt.Fprintf(&b, "  %s%s {\n    pass %s\n    redirect http://blocked.example/?u=%%u\n  }", name, when, pass())
		if when != "" && r.IntN(2) == 0 {
			fmt.Fprintf(&b, " else {\n    pass %s\n    redirect http://blocked.example/else\n  }", pass())
		}
		b.WriteString("\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// TestImportOfSquidGuardOpensNothingThatSquidGuardRefuses imports generated configurations and asks a
// real squidGuard and the result the same.
//
// CONFIGURATIONS in the environment is their number.
func TestImportOfSquidGuardOpensNothingThatSquidGuardRefuses(t *testing.T) {
	race.Without(t)
	peer.Program(t, "squidGuard")
	count, seed := generated(10)
	allowed, refused, closed := 0, 0, 0
	for i := range count {
		dir := t.TempDir()
		openFolder(t, dir)
		text := squidGuardRules(t, rand.New(rand.NewPCG(57, uint64(seed+i))), dir)
		conf := filepath.Join(dir, "squidGuard.conf")
		if err := os.WriteFile(conf, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		var asks []squidAsk
		var in bytes.Buffer
		r := rand.New(rand.NewPCG(58, uint64(seed+i)))
		for range 60 {
			a := someSquidAsk(r)
			a.port = ""
			asks = append(asks, a)
			user := a.user
			if user == "" {
				user = "-"
			}
			fmt.Fprintf(&in, "http://%s%s %s/- %s GET\n", a.host, a.path, a.client, user)
		}
		cmd := peer.Command(t, "squidGuard", "-c", conf)
		cmd.Stdin = &in
		out, err := cmd.Output()
		answers := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
		if log, _ := os.ReadFile(filepath.Join(dir, "squidGuard.log")); err != nil || len(answers) != len(asks) || bytes.Contains(log, []byte("emergency")) {
			t.Fatalf("configuration %d: %d answers: %v\n%s\n%s", seed+i, len(answers), err, text, log)
		}
		result := importResultOf(t, "squidguard", conf, fmt.Sprintf("configuration %d", seed+i), text)
		if result == nil {
			continue
		}
		for n, a := range asks {
			x, err := result.engine.Why(t.Context(), reasons.Question{URL: "http://" + a.host + a.path, Client: netip.MustParseAddr(a.client), User: a.user, Method: "GET"})
			if err != nil {
				t.Fatal(err)
			}
			ok, theirs := x.Action == "pass" || x.Action == "allow", !strings.HasPrefix(answers[n], "OK")
			switch {
			case ok && !theirs, !ok && theirs && !result.closes:
				t.Errorf("configuration %d: http://%s%s of %s, %q, passes by rule %q of %q: %v; by squidGuard: %v\n%s", seed+i, a.host, a.path, a.client, a.user, x.Rule, x.Policy, ok, theirs, text)
			case ok:
				allowed++
			case theirs:
				closed++
			default:
				refused++
			}
			if t.Failed() {
				break
			}
		}
		result.done()
	}
	t.Logf("%d configurations: %d requests allowed, %d refused by both, %d by the import alone", count, allowed, refused, closed)
	if allowed == 0 || refused == 0 {
		t.Errorf("%d requests are allowed, %d refused: the configurations try nothing", allowed, refused)
	}
}
