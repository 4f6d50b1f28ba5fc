package capture

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/rule"
	"shuultuur/test/data"
)

// Several goroutines find in a capture exactly what one finds, in its order:
// records, alerts, and the effects of thresholds on them.
func TestSeveralCoresGiveTheSameResult(t *testing.T) {
	root := data.Path(t, "suricata-verify")
	captures, err := filepath.Glob(filepath.Join(root, "*", "*.pcap"))
	more, _ := filepath.Glob(filepath.Join(root, "*", "*", "*.pcap")) // the pattern is right, as above
	if captures = append(captures, more...); err != nil || len(captures) < 50 {
		t.Fatalf("looking for captures: got %d, %v, want at least 50", len(captures), err)
	}
	rules, mistakes, err := rule.NewParser().Read("test.rules", strings.NewReader(`
		alert http any any -> any any (msg:"every exchange"; http.method; content:"G"; sid:1;)
		alert http any any -> any any (msg:"some"; http.uri; content:"/"; threshold:type threshold, track by_src, count 3, seconds 3600; sid:2;)
		alert http any any -> any any (msg:"late"; http.uri; content:"/"; detection_filter:track by_dst, count 5, seconds 3600; sid:3;)
		alert dns any any -> any any (msg:"names"; dns.query; content:"."; threshold:type limit, track by_src, count 2, seconds 60; sid:4;)
		alert tcp any any -> any any (msg:"stream"; content:"HTTP/1.1"; sid:5;)`))
	if err != nil || len(mistakes) > 0 {
		t.Fatalf("reading the rules: %v, mistakes %v", err, mistakes)
	}
	run := func(cores int) (eve, fast string, stats Stats) {
		e, _, err := engine.New(engine.Config{Rules: rules, Packets: true})
		if err != nil {
			t.Fatal(err)
		}
		var a, b bytes.Buffer
		r := New(Config{Cores: cores}, e, NewOutput(&a, &b))
		for _, name := range captures {
			if err := r.File(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		return a.String(), b.String(), *r.Stats()
	}
	eve, fast, stats := run(1)
	if stats.Alerts() < 100 {
		t.Fatal("the captures cause too few alerts to compare:", stats)
	}
	for _, cores := range []int{2, 5} {
		eve2, fast2, stats2 := run(cores)
		if fast2 != fast {
			t.Errorf("with %d cores the alerts differ from those of one core: %s", cores, difference(fast, fast2))
		}
		if eve2 != eve {
			t.Errorf("with %d cores the records differ from those of one core: %s", cores, difference(eve, eve2))
		}
		if stats2 != stats {
			t.Errorf("with %d cores the statistics are %+v, with one core %+v", cores, stats2, stats)
		}
	}
}

// difference returns the first lines that differ.
func difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return as[i] + "\n" + bs[i]
		}
	}
	return "one is shorter"
}
