//go:build !small

package test

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.yaml.in/yaml/v4"

	"shuultuur/lib/wait/waittest"
	"shuultuur/test/peer"
	"shuultuur/test/redistest"
)

// A trouble is one that an alert is about.
type trouble struct {
	make  func()                            // brings it about
	until func(page map[string]string) bool // reports whether a page of metrics shows it; nil: at once
	grows bool                              // goes on growing while it lasts; otherwise it happens once
}

// TestEachAlertFiresForAGatewayInThatTrouble brings each trouble about once in a gateway and lets
// Prometheus judge its pages of metrics: the alert fires after the first event, and not before.
func TestEachAlertFiresForAGatewayInThatTrouble(t *testing.T) {
	t.Parallel()
	promtool := peer.Program(t, "promtool")
	redis := redistest.Start(t)
	refused := make(chan struct{}) // closed when the authority refuses
	authority := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-refused:
			http.Error(w, "no", http.StatusInternalServerError)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(authority.Close)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/list" {
			<-refused
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "a page")
	}))
	t.Cleanup(origin.Close)
	names := &dns.Server{Addr: "127.0.0.1:" + peer.Port(t), Net: "udp", Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetReply(q)) })}
	answering := make(chan struct{})
	names.NotifyStartedFunc = func() { close(answering) }
	go func() { _ = names.ListenAndServe() }()
	t.Cleanup(func() { _ = names.Shutdown() })
	<-answering

	dir := t.TempDir()
	file := filepath.Join(dir, "shuultuur.yaml")
	at := "127.0.0.1:" + peer.Port(t)
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})
	settings := fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0, portal: 127.0.0.1:0, portal-tls: 127.0.0.1:0}
acme: {names: [gate.own.example], directory: %q, root: root.pem, accept-terms: true}
dns: {listen: [%q], forward: {upstreams: [%q]}}
state: {redis: {addresses: %q}}
events: {jsonl: /dev/full, queue: 100}
lists: {ads: {format: domains, url: %q}}
checks: {category: {lists: [ads]}, virus: {clamd: "127.0.0.1:%s"}}
proxy: {private: [127.0.0.0/8], per-client: 2}
policies: [{name: all, rules: [{name: own, action: block, host: [own.example]}, {name: ads, action: block, category: [ads]}, {name: virus, action: block, category: [virus]}]}]
`, authority.URL, at, names.Addr, redis.Addr, origin.URL+"/list", peer.Port(t))
	for name, text := range map[string]string{file: settings, filepath.Join(dir, "root.pem"): string(root)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := start(t, file)
	client := through(g.proxy)
	ask := func() {
		c := dns.Client{Timeout: time.Second}
		if _, _, err := c.Exchange(new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.example.", time.Now().UnixNano()), dns.TypeA), at); err != nil {
			t.Log(err) // the trouble of the name server
		}
	}
	pageOf := func() map[string]string { return metricsOf(t, g.admin) }
	above := func(series string, least float64) func(map[string]string) bool {
		return func(page map[string]string) bool {
			v, err := strconv.ParseFloat(page[series], 64)
			return err == nil && v >= least
		}
	}
	troubles := map[string]trouble{
		"ShuultuurSettingsRefused": {make: func() {
			if err := os.WriteFile(file, []byte(settings+"nonsense: yes\n"), 0o600); err != nil {
				t.Error(err)
			}
			_ = g.cmd.Process.Signal(syscall.SIGHUP)
		}, until: above(`shuultuur_reloads_total{result="refused"}`, 1)},
		"ShuultuurEventsLost": {make: func() {
			for range 300 {
				_, _, _ = get(client, "http://own.example/")
			}
		}, until: above(`shuultuur_events_dropped_total{store="jsonl"}`, 1)},
		"ShuultuurCheckFails": {make: func() { _, _, _ = get(client, origin.URL) }, until: above(`shuultuur_policy_check_failures_total{check="virus"}`, 1)},
		"ShuultuurUpstreamDown": {make: func() { _ = names.Shutdown() }, until: func(page map[string]string) bool {
			ask()
			return page[fmt.Sprintf("shuultuur_dns_upstream_up{to=%q}", "udp://"+names.Addr)] == "0"
		}},
		"ShuultuurFleetDegraded":         {make: redis.Stop, until: above("shuultuur_state_degraded", 1)},
		"ShuultuurListNotRenewed":        {make: func() { close(refused) }, until: above(`shuultuur_list_fetches_total{list="ads",result="refused"}`, 1)},
		"ShuultuurCertificateNotRenewed": {grows: true, until: above("shuultuur_certificate_failures", 1)},
		"ShuultuurOverloaded": {grows: true, make: func() {
			client.CloseIdleConnections()
			for range 150 {
				c, err := net.Dial("tcp", g.proxy)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				_, _ = c.Write([]byte("GET "))
			}
		}, until: above("shuultuur_overload_total", 100)},
		"ShuultuurDown": {},
	}

	ask()
	before := pageOf()
	for _, name := range []string{"ShuultuurSettingsRefused", "ShuultuurEventsLost", "ShuultuurCheckFails", "ShuultuurUpstreamDown", "ShuultuurFleetDegraded", "ShuultuurListNotRenewed", "ShuultuurCertificateNotRenewed", "ShuultuurOverloaded"} {
		if x := troubles[name]; x.make != nil {
			x.make()
		}
	}
	after := map[string]string{}
	for name, x := range troubles {
		if x.until != nil {
			waittest.Until(t, "the metrics of "+name, func() bool {
				after = pageOf()
				return x.until(after)
			})
		}
	}
	after = pageOf()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	text, err := os.ReadFile("../dist/monitoring/alerts.yml")
	if err == nil {
		err = yaml.Unmarshal(text, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`shuultuur_[a-z_]+`)
	type sample struct {
		Labels string `yaml:"labels"`
		Value  int    `yaml:"value"`
	}
	tests := []any{}
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			x, known := troubles[r.Alert]
			if !known {
				t.Errorf("%s is not tried with a gateway", r.Alert)
			}
			series := []map[string]string{{"series": `up{job="shuultuur", instance="in"}`, "values": "1x9 0x200"}, {"series": `up{job="shuultuur", instance="well"}`, "values": "1x210"}}
			if r.Alert != "ShuultuurDown" {
				series = nil
			}
			for s, now := range after {
				name, labels, _ := strings.Cut(strings.TrimSuffix(s, "}"), "{")
				if !strings.Contains(" "+strings.Join(named.FindAllString(r.Expr, -1), " ")+" ", " "+name+" ") {
					continue
				}
				with := func(instance string) string {
					return fmt.Sprintf("%s{%s}", name, strings.TrimPrefix(labels+`,instance="`+instance+`"`, ","))
				}
				was, there := before[s]
				if !there {
					t.Errorf("%s is not there before its first event", s)
					continue
				}
				then := now + "x200"
				if x.grows {
					a, _ := strconv.ParseFloat(was, 64)
					b, _ := strconv.ParseFloat(now, 64)
					then = fmt.Sprintf("%v+%vx200", b, b-a)
				}
				series = append(series, map[string]string{"series": with("in"), "values": was + "x9 " + then}, map[string]string{"series": with("well"), "values": was + "x210"})
			}
			fires := fmt.Sprintf(`count by (instance) (ALERTS{alertstate="firing", alertname=%q})`, r.Alert)
			tests = append(tests, map[string]any{"interval": "1m", "input_series": series, "promql_expr_test": []any{
				map[string]any{"expr": fires, "eval_time": "9m", "exp_samples": []sample{}},
				map[string]any{"expr": `max by (instance) (max_over_time(ALERTS{alertstate="firing", alertname="` + r.Alert + `"}[200m]))`, "eval_time": "200m", "exp_samples": []sample{{`{instance="in"}`, 1}}},
			}})
		}
	}
	rule, err := filepath.Abs("../dist/monitoring/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Dump(map[string]any{"rule_files": []string{rule}, "evaluation_interval": "1m", "tests": tests})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "alerts_test.yml"), out, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(promtool, "test", "rules", filepath.Join(dir, "alerts_test.yml")).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s\n%s", err, said, out)
	}
}

// metricsOf returns the samples of a page of metrics, by name and labels.
func metricsOf(t *testing.T, admin string) map[string]string {
	t.Helper()
	_, text, err := get(http.DefaultClient, "http://"+admin+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if series, value, ok := strings.Cut(lines.Text(), "} "); ok && !strings.HasPrefix(series, "#") {
			page[series+"}"] = value
		} else if series, value, ok := strings.Cut(lines.Text(), " "); ok && series != "#" {
			page[series] = value
		}
	}
	return page
}
