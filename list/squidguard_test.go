package list

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/test/peer"
)

// TestAgreesWithSquidGuard feeds the same random lists and URLs to squidGuard
// and to us, and requires a reason for every difference.
func TestAgreesWithSquidGuard(t *testing.T) {
	program := peer.Program(t, "squidGuard")
	rounds, asks := 6, 1500
	if testing.Short() {
		rounds = 2
	}
	explained := map[string]int{}
	total, blocked := 0, 0
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(round), 11))
		x := randomTree(rnd)
		dir := t.TempDir()
		conf := writeSquidGuard(t, dir, append(x.domains, x.dotted...), x.urls, x.expressions)
		var urls []string
		for range asks {
			urls = append(urls, x.url(rnd))
		}
		theirs := askSquidGuard(t, program, conf, urls)
		ours, _ := compilePath(t, Config{Format: UT1, Match: Prefix, Path: setting.Source(filepath.Join(dir, "db"))})
		hidden := map[string][]string{} // our entries that squidGuard does not find, with URLs
		for i, u := range urls {
			total++
			entry := matchingEntry(t, ours, u)
			if theirs[i] {
				blocked++
			}
			switch {
			case (entry != "") == theirs[i]:
			case slices.Contains(x.dotted, "."+entry):
				explained["an entry with a dot in front, which squidGuard never matches"]++
			case strings.Contains(u, "/.") || strings.HasSuffix(u, "."):
				explained["/../ and /./, which squidGuard does not resolve"]++
			case strings.Contains(u, ":8080") && (strings.HasPrefix(entry, "www") || slices.Contains(x.expressions, entry)):
				explained["a port, which squidGuard cuts only where it looks for the name without www"]++
			case entry != "":
				hidden[entry] = append(hidden[entry], u)
			default:
				t.Errorf("%s: squidGuard blocks it, we do not; domains %q, URLs %q, expressions %q", u, x.domains, x.urls, x.expressions)
			}
		}
		for entry, urls := range hidden {
			var domains, paths []string
			if strings.Contains(entry, "/") {
				paths = []string{entry}
			} else {
				domains = []string{entry}
			}
			for i, yes := range askSquidGuard(t, program, writeSquidGuard(t, t.TempDir(), domains, paths, nil), urls) {
				if !yes {
					t.Errorf("%s: we find %q, squidGuard does not, even in a list of its own", urls[i], entry)
					continue
				}
				explained["an entry that squidGuard finds only where it is alone: its search goes astray among neighbours"]++
			}
		}
	}
	t.Logf("%d URLs, %d blocked by squidGuard; differences: %v", total, blocked, explained)
	if blocked < total/20 {
		t.Errorf("squidGuard blocked only %d of %d: the URLs do not match the lists", blocked, total)
	}
}

// writeSquidGuard writes lists and settings for squidGuard, and returns the
// path of the settings.
func writeSquidGuard(t testing.TB, dir string, domains, urls, expressions []string) string {
	t.Helper()
	files, dest := map[string]string{"log/x": ""}, ""
	for name, lines := range map[string][]string{"domain": domains, "url": urls, "expression": expressions} {
		if len(lines) > 0 {
			files["db/bad/"+name+"s"] = strings.Join(lines, "\n") + "\n"
			dest += name + "list bad/" + name + "s\n"
		}
	}
	files["conf"] = "dbhome " + dir + "/db\nlogdir " + dir + "/log\ndest bad {\n" + dest + "}\n" +
		"acl {\n default {\n pass !bad all\n redirect http://blocked.test/\n }\n}\n"
	write(t, dir, files)
	return filepath.Join(dir, "conf")
}

// matchingEntry returns the last entry or expression of f that covers a URL, or
// "".
func matchingEntry(t testing.TB, f *File, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	var q Query
	q.SetURL(strings.ToLower(u.Hostname()), []byte(strings.TrimPrefix(strings.TrimPrefix(raw, u.Scheme+"://"), u.Host)))
	found, err := f.Lookup(&q, nil)
	if err == nil {
		found, err = f.Search(&q, found)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		return ""
	}
	text, _, _ := f.written(found[len(found)-1])
	return text
}

type squidTree struct{ domains, dotted, urls, expressions []string }

var squidLabels = []string{"a", "bb", "www", "www2", "ads", "shop", "x-y"}

func squidHost(rnd *rand.Rand) string {
	host := []string{"com", "net", "co.uk"}[rnd.IntN(3)]
	for range 1 + rnd.IntN(3) {
		host = squidLabels[rnd.IntN(len(squidLabels))] + "." + host
	}
	return host
}

func squidPath(rnd *rand.Rand) string {
	path := ""
	for range rnd.IntN(4) {
		path += "/" + []string{"x", "dir", "foo", "Bar", "y.html", "a%62c"}[rnd.IntN(6)]
	}
	return path
}

func randomTree(rnd *rand.Rand) (x squidTree) {
	for range 6 {
		x.domains = append(x.domains, squidHost(rnd))
		x.dotted = append(x.dotted, "."+squidHost(rnd))
	}
	for range 30 {
		if p := squidPath(rnd); p != "" && !strings.Contains(p, "%") {
			x.urls = append(x.urls, squidHost(rnd)+p)
		}
	}
	x.expressions = []string{`(^|[-.?+=/_])(porn|sexo)([-.?+=/_]|$)`, `^bb\.net/foo`, `\.(zip|exe)$`, `y\.html[?]`}[:1+rnd.IntN(4)]
	return x
}

func (x *squidTree) url(rnd *rand.Rand) string {
	host, path := squidHost(rnd), squidPath(rnd)
	switch rnd.IntN(4) {
	case 0:
		host, path, _ = strings.Cut(x.urls[rnd.IntN(len(x.urls))], "/")
		path = "/" + path + []string{"", "/more", "s", "?q"}[rnd.IntN(4)]
		if rnd.IntN(3) == 0 {
			host = []string{"www.", "www7.", "sub."}[rnd.IntN(3)] + host
		}
	case 1:
		host = []string{"", "deep.", "not"}[rnd.IntN(3)] + x.domains[rnd.IntN(len(x.domains))]
	}
	if path == "" {
		path = "/"
	}
	switch rnd.IntN(12) {
	case 0:
		path += "/porn/" // a word of the expressions
	case 1:
		path += ".zip"
	case 2:
		path = "/other/.." + path
	case 3:
		path = "/" + path
	case 4:
		host += ":8080"
	case 5:
		path = strings.ToUpper(path)
	}
	return "http://" + host + path
}

// askSquidGuard returns for each URL whether squidGuard blocks it.
func askSquidGuard(t testing.TB, program, conf string, urls []string) []bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-c", conf)
	var in bytes.Buffer
	for _, u := range urls {
		fmt.Fprintf(&in, "%s 192.0.2.1/- - GET\n", u)
	}
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("squidGuard does not run here: %v", err)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != len(urls) {
		log, _ := os.ReadFile(filepath.Join(filepath.Dir(conf), "log", "squidGuard.log"))
		t.Fatalf("got %d answers to %d questions: %s", len(lines), len(urls), log)
	}
	answers := make([]bool, len(urls))
	for i, line := range lines {
		answers[i] = strings.HasPrefix(line, "OK")
	}
	return answers
}
