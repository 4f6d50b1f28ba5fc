package comparison_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/tool/importer"
	"shuultuur/tool/importer/comparison"
	"shuultuur/tool/importer/report"
	"shuultuur/whatif"
)

// only refuses the hosts that it names.
type only []string

func (o only) Wants(*filter.Transaction, filter.Stage) bool { return false }

func (o only) Decide(_ context.Context, t *filter.Transaction, _ filter.Stage) {
	t.Verdict.Action = filter.Pass
	if slices.Contains(o, t.Host) {
		t.Verdict.Action, t.Verdict.Reason.Rule = filter.Block, "ours"
	}
}

func ours(refused ...string) whatif.Judge {
	return whatif.Judge{Name: "ours", Decider: only(refused), Client: func(_ context.Context, e *whatif.Entry) filter.Client {
		return filter.Client{Addr: e.Client, User: e.User}
	}}
}

// imported writes files and imports the first of them.
func imported(t *testing.T, program string, files ...string) (path, to string, r *report.Report) {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(files[i+1], "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, to = filepath.Join(dir, files[0]), filepath.Join(dir, "new")
	r, err := importer.Run(t.Context(), program, path, to)
	if err != nil {
		t.Fatal(err)
	}
	return path, to, r
}

const squidConf = "http_port 3128\nacl lan src 10.0.0.0/8\nacl bad dstdomain .bad.example\nacl lost dstdomain lost.example\nhttp_access deny bad\nhttp_access deny lost\nhttp_access allow all\naccess_log DIR/access.log\n"

const squidLog = "1795420800.000 1 10.0.0.6 TCP_MISS/200 10 GET http://fine.example/ - HIER_NONE/- text/html\n" +
	"1795420801.000 1 10.0.0.6 TCP_DENIED/403 10 GET http://www.bad.example/x - HIER_NONE/- text/html\n"

func TestDifferencesAreFoundAndWhatOpensComesFirst(t *testing.T) {
	path, to, r := imported(t, "squid", "squid.conf", squidConf, "access.log", squidLog)
	// These settings have lost a rule, and refuse one name too many.
	if err := comparison.Run(t.Context(), "squid", path, to, ours("bad.example", "www.bad.example", "a.b.bad.example", "fine.example"), r); err != nil {
		t.Fatal(err)
	}
	if len(r.Comparisons) != 2 {
		t.Fatalf("%d comparisons: want one of the sample and one of the log: %+v", len(r.Comparisons), r.Comparisons)
	}
	sample, log := r.Comparisons[0], r.Comparisons[1]
	if sample.Judged < 900 || len(sample.Opened) == 0 || !strings.Contains(sample.Opened[0].String(), "lost.example") {
		t.Errorf("the sample: %+v", sample)
	}
	if log.Judged != 2 || len(log.Opened) != 0 || len(log.Closed) != 1 || log.Closed[0].Examples[0] != "http://fine.example/" {
		t.Errorf("the log: %+v", log)
	}
	lines := strings.Join(sample.Lines(), "\n")
	if closed := strings.Index(lines, "refused now:"); closed >= 0 && closed < strings.Index(lines, "allowed now:") {
		t.Errorf("what opens does not come first:\n%s", lines)
	}
	if r.Status() != report.Opened {
		t.Errorf("the status is %d although something opens", r.Status())
	}
	if text := r.Consequences("good"); !strings.Contains(text, "allow what squid refuses") || strings.Contains(text, "good") {
		t.Errorf("the consequences are %q", text)
	}
}

func TestEqualRulesDifferInNothing(t *testing.T) {
	path, to, r := imported(t, "squid", "squid.conf", "http_access deny all\n")
	all := whatif.Judge{Name: "ours", Decider: everything{}, Client: ours().Client}
	if err := comparison.Run(t.Context(), "squid", path, to, all, r); err != nil {
		t.Fatal(err)
	}
	if len(r.Comparisons) != 1 || r.Comparisons[0].Judged < 900 || len(r.Comparisons[0].Opened)+len(r.Comparisons[0].Closed) > 0 || r.Status() != 0 {
		t.Errorf("%+v, status %d", r.Comparisons, r.Status())
	}
}

type everything struct{}

func (everything) Wants(*filter.Transaction, filter.Stage) bool { return false }
func (everything) Decide(_ context.Context, t *filter.Transaction, _ filter.Stage) {
	t.Verdict.Action = filter.Block
}

func TestLogsAreFoundWhereTheConfigurationSays(t *testing.T) {
	const query = "Nov 23 08:00:00 dnsmasq[417]: query[A] fine.example from 10.0.0.6\n"
	for _, tt := range []struct {
		name, program string
		files         []string
		judged        int64 // of the log; -1: it is not read
		failed        string
	}{
		{"dnsmasq", "dnsmasq", []string{"dnsmasq.conf", "server=9.9.9.9\nlog-facility=DIR/q.log\n", "q.log", query}, 1, ""},
		{"no log", "dnsmasq", []string{"dnsmasq.conf", "server=9.9.9.9\nlog-facility=DIR/q.log\n"}, -1, ""},
		{"an empty log", "dnsmasq", []string{"dnsmasq.conf", "server=9.9.9.9\nlog-facility=DIR/q.log\n", "q.log", ""}, -1, ""},
		{"beside", "adguardhome", []string{"AdGuardHome.yaml", "schema_version: 28\nuser_rules: ['||bad.example^']\n", "data/querylog.json",
			`{"T":"2026-11-23T08:00:00Z","QH":"fine.example","QT":"A","IP":"10.0.0.6","Result":{}}` + "\n"}, 1, ""},
		{"another form", "squid", []string{"squid.conf", "http_access allow all\naccess_log DIR/access.log\n", "access.log", "what is this\n"}, -1, "match none of the formats"},
		{"a file of the folder is no log", "squid", []string{"squid.conf", "http_access allow all\naccess_log none\n", "access.log", squidLog}, -1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, to, r := imported(t, tt.program, tt.files...)
			if err := comparison.Run(t.Context(), tt.program, path, to, ours(), r); err != nil {
				t.Fatal(err)
			}
			judged, failed := int64(-1), ""
			if len(r.Comparisons) > 1 {
				if failed = r.Comparisons[1].Failed; failed == "" {
					judged = r.Comparisons[1].Judged
				}
			}
			if judged != tt.judged || !strings.Contains(failed, tt.failed) || (failed == "") != (tt.failed == "") {
				t.Errorf("%d requests of a log are judged (%q), want %d (%q)", judged, failed, tt.judged, tt.failed)
			}
		})
	}
}

// TestProgramsWithoutRulesAreComparedByTheirLog has a log of e2guardian, whose verdicts are in it.
func TestProgramsWithoutRulesAreComparedByTheirLog(t *testing.T) {
	to := t.TempDir()
	dir := t.TempDir()
	log := filepath.Join(dir, "access.log")
	conf := "loglocation = '" + log + "'\nfilterports = 8080\n"
	line := "2026.11.23 8:00:00 - 10.0.0.6 http://bad.example/ *DENIED* Banned site: bad.example GET 0 0 Banned 1 403 - - group - -\n"
	for name, text := range map[string]string{filepath.Join(dir, "e2guardian.conf"): conf, log: line} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &report.Report{Program: "e2guardian"}
	if err := comparison.Run(t.Context(), "e2guardian", dir, to, ours(), r); err != nil {
		t.Fatal(err)
	}
	if len(r.Comparisons) != 1 || r.Comparisons[0].Judged != 1 || len(r.Comparisons[0].Opened) != 1 {
		t.Errorf("%+v", r.Comparisons)
	}
}
