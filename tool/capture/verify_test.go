//go:build !small

package capture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"shuultuur/check/signature"
	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/lua"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/test/data"
)

// A verify is a test of suricata-verify.
type verify struct {
	Pcap     any `yaml:"pcap"`
	Requires struct {
		Min string `yaml:"min-version"`
		Lt  string `yaml:"lt-version"`
	} `yaml:"requires"`
	Args   []string `yaml:"args"`
	Checks []struct {
		Filter *struct {
			Count    any            `yaml:"count"`
			Match    map[string]any `yaml:"match"`
			Requires struct {
				Min     string `yaml:"min-version"`
				Lt      string `yaml:"lt-version"`
				Version any    `yaml:"version"`
			} `yaml:"requires"`
			Min string `yaml:"min-version"`
			Lt  string `yaml:"lt-version"`
		} `yaml:"filter"`
	} `yaml:"checks"`
}

// newest reports whether limits of versions include Suricata 9.
func newest(min, lt string) bool {
	major := func(s string) int {
		n, _, _ := strings.Cut(s, ".")
		v, _ := strconv.Atoi(n)
		return v
	}
	return (min == "" || major(min) <= 9) && (lt == "" || major(lt) > 9)
}

// runner runs one test and returns its records.
type runner struct {
	root, dir string
	args      []string
	config    Config
	vars      map[string]string
	limits    []*state.Limit
	scripts   lua.Limits
	rules     []string
	off       []string // features
	sets      map[string]engine.Set
	short     bool // addresses of IPv6
	forwarded *signature.Forwarded
}

var setArg = regexp.MustCompile(`--set\s+(\S+?)=(\S+)`)

func (r *runner) arg(t testing.TB, a string) {
	a = strings.ReplaceAll(a, "${TEST_DIR}", r.dir)
	if strings.Contains(a, "-k none") {
		r.config.Checksums = false
	}
	if strings.Contains(a, "--simulate-ips") {
		r.config.Prevent = true
		r.config.Inline = true
	}
	for _, m := range setArg.FindAllStringSubmatch(a, -1) {
		size := func() int {
			v := strings.ToLower(m[2])
			n, _ := strconv.Atoi(strings.TrimRight(v, "kmgb"))
			switch {
			case strings.Contains(v, "k"):
				n <<= 10
			case strings.Contains(v, "m"):
				n <<= 20
			}
			if n == 0 {
				n = 1 << 30
			}
			return n
		}
		switch m[1] {
		case "app-layer.protocols.tls.ja4-fingerprints":
			r.off = append(r.off, "ja4")
		case "stream.reassembly.urgent.policy":
			r.config.Urgent = m[2]
		case "security.lua.allow-restricted-functions":
			r.scripts.Restricted = m[2] == "true"
		case "stream.midstream":
			r.config.Midstream = m[2] == "true" || m[2] == "yes"
		case "vlan.use-for-tracking":
			r.config.NoVLAN = m[2] == "false"
		case "stream.async-oneside":
			r.config.Async = m[2] == "true"
		case "stream.inline":
			r.config.Inline = m[2] == "true"
		case "app-layer.protocols.http.libhtp.default-config.response-body-decompress-layer-limit":
			r.config.Layers, _ = strconv.Atoi(m[2])
		case "app-layer.protocols.http.libhtp.default-config.response-body-limit":
			r.config.Response = size()
		case "app-layer.protocols.http.libhtp.default-config.request-body-limit":
			r.config.Request = size()
		case "app-layer.protocols.dns.detection-ports.dp", "app-layer.protocols.dns.tcp.detection-ports.dp":
			n, _ := strconv.Atoi(m[2])
			r.config.DNSPorts = append(r.config.DNSPorts, uint16(n))
		case "threshold-file":
			f, err := os.ReadFile(m[2])
			if err == nil {
				r.limits, err = state.ReadLimits(m[2], bytes.NewReader(f))
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// yaml reads the changes of a test's own suricata.yaml.
func (r *runner) yaml() {
	b, err := os.ReadFile(filepath.Join(r.dir, "suricata.yaml"))
	if err != nil {
		return
	}
	settings, err := signature.ReadSuricata(filepath.Join(r.dir, "suricata.yaml"))
	if err == nil {
		r.off, r.short, r.sets, r.forwarded = settings.Off, settings.Short, settings.Sets, settings.Forwarded
	}
	var doc struct {
		Vars struct {
			A map[string]any `yaml:"address-groups"`
		} `yaml:"vars"`
		Stream struct {
			Midstream bool `yaml:"midstream"`
			Inline    any  `yaml:"inline"`
			Async     bool `yaml:"async-oneside"`
		} `yaml:"stream"`
	}
	if yaml.Unmarshal(b, &doc) != nil {
		return
	}
	for k, v := range doc.Vars.A {
		r.vars[k] = fmt.Sprint(v)
	}
	r.config.Midstream = r.config.Midstream || doc.Stream.Midstream
	r.config.Async = r.config.Async || doc.Stream.Async
}

// run runs a test.
func (r *runner) run(t testing.TB, pcap string) (records []map[string]any) {
	parser := rule.NewParser()
	for _, name := range r.off {
		delete(parser.Features, name)
	}
	rules, mistakes, err := parser.ReadFiles(r.rules...)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, m := range mistakes {
		t.Log(m)
	}
	rules, _ = rule.Unique(rules)
	_, ports := address.Groups()
	e, mistakes, err := engine.New(engine.Config{Rules: rules, Vars: r.vars, Ports: ports, Classes: engine.Classes(), Limits: r.limits, Sets: r.sets, Packets: true, Prevent: r.config.Prevent, Scripts: lua.NewPool(r.scripts).Load})
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, m := range mistakes {
		t.Log(m)
	}
	out := NewOutput(nil, nil)
	out.Short, out.Forwarded = r.short, (*Forwarded)(r.forwarded)
	out.Seen = func(m map[string]any) {
		b, err := json.Marshal(m)
		if err != nil {
			t.Error(err)
			return
		}
		var plain map[string]any
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber()
		if err := dec.Decode(&plain); err != nil {
			t.Error(err)
		}
		records = append(records, plain)
	}
	run := New(r.config, e, out)
	if err := run.File(t.Context(), pcap); err != nil {
		t.Error(err)
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
	return records
}

// field finds a.b[0].c in a record.
func field(v any, path string) (any, bool) {
	for part := range strings.SplitSeq(path, ".") {
		if part == "__len" {
			s, ok := v.(string)
			return len(s), ok
		}
		name, idx, indexed := strings.Cut(part, "[")
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[name]; !ok {
			return nil, false
		}
		if indexed {
			i, _ := strconv.Atoi(strings.TrimSuffix(idx, "]"))
			l, ok := v.([]any)
			if !ok || i >= len(l) {
				return nil, false
			}
			v = l[i]
		}
	}
	return v, true
}

// newRunner makes the runner of a test in a folder of the suite.
func newRunner(root, dir string) *runner {
	r := &runner{root: root, dir: filepath.Join(root, dir), vars: map[string]string{}}
	vars, _ := address.Groups()
	for k, v := range vars {
		r.vars[k] = v
	}
	r.vars["HOME_NET"] = "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]"
	r.yaml()
	return r
}

func (r *runner) load(t testing.TB) (*verify, string) {
	var v verify
	b, err := os.ReadFile(filepath.Join(r.dir, "test.yaml"))
	if err != nil {
		t.Error(err)
		return nil, ""
	}
	if err := yaml.Unmarshal(b, &v); err != nil {
		t.Error(err)
		return nil, ""
	}
	r.config.Checksums = true
	for _, a := range v.Args {
		r.arg(t, a)
	}
	r.rules, _ = filepath.Glob(filepath.Join(r.dir, "*.rules"))
	if s, ok := v.Pcap.(string); ok {
		return &v, filepath.Join(r.dir, s)
	}
	for _, pattern := range []string{"*.pcap", "*.pcapng"} {
		if list, _ := filepath.Glob(filepath.Join(r.dir, pattern)); len(list) > 0 {
			return &v, list[0]
		}
	}
	return &v, ""
}

func TestAlertsOfSuricataVerify(t *testing.T) {
	root := data.Path(t, "suricata-verify")
	var tests []struct {
		Test   string         `json:"test"`
		Pcap   []string       `json:"pcap"`
		Rules  []string       `json:"rules"`
		Alerts map[string]int `json:"alerts_suricata_9dev"`
	}
	b, err := os.ReadFile(filepath.Join(root, "tests.json"))
	if err == nil {
		err = json.Unmarshal(b, &tests)
	}
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, x := range tests {
		ok := t.Run(x.Test, func(t *testing.T) {
			r := newRunner(root, x.Test)
			if v, _ := r.load(t); v == nil {
				return
			}
			r.rules = nil
			for _, name := range x.Rules {
				r.rules = append(r.rules, filepath.Join(root, name))
			}
			got := map[string]int{}
			for _, m := range r.run(t, filepath.Join(root, x.Pcap[0])) {
				if m["event_type"] != "alert" {
					continue
				}
				a := m["alert"].(map[string]any)
				app, _ := m["app_proto"].(string)
				if app == "" {
					app = "-"
				}
				got[fmt.Sprintf("%v:%v:%s", a["gid"], a["signature_id"], app)]++
			}
			if fmt.Sprint(got) != fmt.Sprint(x.Alerts) && unsupported[x.Test] == "" {
				t.Errorf("got the alerts %v, want %v", got, x.Alerts)
			}
		})
		if ok {
			passed++
		}
	}
	t.Logf("%d of %d tests passed", passed, len(tests))
}

func TestMoreOfSuricataVerify(t *testing.T) {
	root := data.Path(t, "suricata-verify")
	var names []string
	b, err := os.ReadFile(filepath.Join(root, "more.json"))
	if err == nil {
		err = json.Unmarshal(b, &names)
	}
	if err != nil {
		t.Fatal(err)
	}
	passed, absent := 0, 0
	for _, name := range names {
		r := newRunner(root, name)
		v, pcap := r.load(t)
		if v == nil {
			continue
		}
		if _, err := os.Stat(pcap); err != nil {
			absent++ // the capture belongs to a test that is not here
			continue
		}
		why := verdict(t, r, v, pcap)
		if why == "" {
			passed++
			if unsupported[name] != "" {
				t.Errorf("%s passes now: remove it from the list of unsupported tests", name)
			}
		} else if unsupported[name] == "" {
			t.Errorf("%s: %s", name, why)
		}
	}
	t.Logf("%d of %d tests passed, %d have no capture", passed, len(names), absent)
}

// compared are the types of records that are compared.
var compared = map[string]bool{"alert": true, "http": true, "tls": true, "dns": true, "fileinfo": true, "flow": true,
	"anomaly": true, "drop": true, "smtp": true, "quic": true, "frame": true}

// verdict returns the mistake in the records of a test, "" for none.
func verdict(t *testing.T, r *runner, v *verify, pcap string) string {
	records := r.run(t, pcap)
	for _, c := range v.Checks {
		f := c.Filter
		if f == nil || !compared[fmt.Sprint(f.Match["event_type"])] || !newest(f.Requires.Min, f.Requires.Lt) || !newest(f.Min, f.Lt) {
			continue
		}
		got := 0
		for _, m := range records {
			all := true
			for k, want := range f.Match {
				switch k {
				case "has-key":
					_, ok := field(m, fmt.Sprint(want))
					all = all && ok
					continue
				case "not-has-key":
					_, ok := field(m, fmt.Sprint(want))
					all = all && !ok
					continue
				}
				have, ok := field(m, k)
				all = all && ok && fmt.Sprint(have) == fmt.Sprint(want)
			}
			if all {
				got++
			}
		}
		if want, ok := f.Count.(int); ok && got != want {
			sids := map[string]int{}
			for _, m := range records {
				s, _ := field(m, "alert.signature_id")
				sids[fmt.Sprint(s)]++
			}
			return fmt.Sprintf("%d records, want %d, that are %v (all: %v)", got, want, f.Match, sids)
		}
	}
	return ""
}
