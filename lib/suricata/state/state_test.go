package state

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/suricata/rule"
)

var (
	client, server = netip.MustParseAddrPort("10.0.0.1:1000"), netip.MustParseAddrPort("192.0.2.1:80")
	noon           = time.Unix(1e9, 0)
)

func TestBitsOfHostsEndWithTheirTime(t *testing.T) {
	s := New()
	bit := func(command, track string, at time.Time) bool {
		return s.Bit(&rule.Bit{Kind: "x", Command: command, Track: track, Expire: 60}, "seen", client.Addr(), server.Addr(), at)
	}
	if bit("isset", "ip_src", noon) || !bit("isnotset", "ip_src", noon) {
		t.Error("a bit is set that nobody set")
	}
	bit("set", "ip_src", noon)
	if !bit("isset", "ip_src", noon.Add(time.Minute)) || bit("isset", "ip_dst", noon) || bit("isset", "ip_pair", noon) {
		t.Error("the bit of the source is not set, or another one is")
	}
	if bit("isset", "ip_src", noon.Add(61*time.Second)) {
		t.Error("a bit outlived its time")
	}
	bit("toggle", "ip_pair", noon)
	if !s.Bit(&rule.Bit{Kind: "x", Command: "isset", Track: "ip_pair"}, "seen", server.Addr(), client.Addr(), noon) {
		t.Error("the bit of a pair has a direction")
	}
	bit("toggle", "ip_pair", noon)
	bit("set", "ip_dst", noon)
	bit("unset", "ip_dst", noon)
	if bit("isset", "ip_pair", noon) || bit("isset", "ip_dst", noon) {
		t.Error("a bit that was taken back is set")
	}
}

func TestAFlowRemembers(t *testing.T) {
	f := &Flow{}
	for _, x := range []string{"set a", "set b", "toggle c", "toggle b", "unset d"} {
		command, name, _ := strings.Cut(x, " ")
		f.Bit(command, name)
	}
	if got := f.Bits(); !slices.Equal(got, []string{"a", "c"}) || !f.Bit("isset", "a") || !f.Bit("isnotset", "b") {
		t.Errorf("the bits are %v", got)
	}
	add := func(old uint32, _ bool) uint32 { return old + 2 }
	f.SetInt("n", add)
	if v, ok := f.Int("n"); f.SetInt("n", add) != 4 || v != 2 || !ok || f.Ints()["n"] != 4 {
		t.Errorf("the numbers are %v", f.Ints())
	}
	value := []byte("x")
	f.SetVar("v", value)
	value[0] = 'y'
	if v, ok := f.Var("v"); !ok || string(v) != "x" || len(f.Variables()) != 1 {
		t.Errorf("the strings are %q", f.Variables())
	}
	first, second := new(int), new(int)
	if !f.Begin(first, 0) || f.Begin(first, 0) || !f.Begin(first, 1) || !f.Begin(second, 0) {
		t.Error("a packet is the first of its direction once for each engine")
	}
}

// TestLinesChangeWhatARuleDoes counts matches of a rule with lines of threshold.config. An
// alert is shown as +, silent -, changed to a drop d, and none at all 0.
func TestLinesChangeWhatARuleDoes(t *testing.T) {
	vars := map[string]string{"OURS": "10.0.0.0/8"}
	for line, want := range map[string]string{
		"suppress gen_id 1, sig_id 7":                                                                      "----",
		"suppress gen_id 1, sig_id 7, track by_src, ip $OURS":                                              "----",
		"suppress gen_id 1, sig_id 7, track by_dst, ip $OURS":                                              "++++",
		"suppress gen_id 1, sig_id 7, track by_either, ip 192.0.2.1":                                       "----",
		"suppress gen_id 1, sig_id 8":                                                                      "++++",
		"rate_filter gen_id 1, sig_id 7, track by_src, count 2, seconds 60, new_action drop, timeout 60":   "++dd",
		"rate_filter gen_id 1, sig_id 7, track by_flow, count 1, seconds 60, new_action pass, timeout 0":   "+---",
		"threshold gen_id 1, sig_id 7, type limit, track by_both, count 1, seconds 60":                     "+---",
		"threshold gen_id 0, sig_id 0, type threshold, track by_dst, count 2, seconds 60":                  "0+0+",
		"rate_filter gen_id 0, sig_id 0, track by_rule, count 3, seconds 60, new_action reject, timeout 1": "+++d",
	} {
		lines, err := ReadLimits("threshold.config", strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		limits, err := NewLimits(lines, vars)
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(limits, nil); got != want {
			t.Errorf("%s: four matches are %s, want %s", line, got, want)
		}
		if want := strings.HasPrefix(line, "rate_filter"); limits.ChangeActions() != want {
			t.Errorf("%s changes actions: %v", line, !want)
		}
	}
	if _, err := NewLimits([]*Limit{{Threshold: rule.Threshold{Addresses: "$NONE"}}}, nil); err == nil {
		t.Error("a line with an unknown group is accepted")
	}
	own := []*rule.Threshold{{Type: "detection_filter", Track: "by_src", Count: 2, Seconds: 60}}
	if got := shown(nil, own); got != "00++" {
		t.Errorf("a rule with a filter of its own: %s", got)
	}
}

func shown(limits Limits, own []*rule.Threshold) (got string) {
	s, f := New(), &Flow{}
	for i := range 4 {
		e := s.Limit(limits, &Occurrence{Rule: &rule.Rule{About: rule.About{GID: 1, SID: 7}}, Own: own, Src: client, Dst: server, Client: true, Flow: f, Now: noon.Add(time.Duration(i) * time.Second)})
		switch {
		case e.None:
			got += "0"
		case e.Silent:
			got += "-"
		case e.Changed:
			got += "d"
		default:
			got += "+"
		}
	}
	return got
}

// TestDatasetsAreReadFromEveryFormat asks for values in lists and documents.
func TestDatasetsAreReadFromEveryFormat(t *testing.T) {
	for _, x := range []struct {
		name, file string
		d          rule.Dataset
		in, out    string
		doc        string
	}{
		{"base64", "# list\nYQ==\n\nYg==,5\n", rule.Dataset{Type: "string"}, "a", "c", ""},
		{"addresses", "10.0.0.1\n2001:db8::1\n", rule.Dataset{Type: "ip"}, "\x0a\x00\x00\x01", "\x0a\x00\x00\x02", ""},
		{"digests", strings.Repeat("61", 16) + "\n", rule.Dataset{Type: "md5"}, strings.Repeat("a", 16), "a", ""},
		{"lines", `{"v":"a","n":1}` + "\n" + `{"w":2}` + "\n", rule.Dataset{Type: "string", Format: "ndjson", ValueKey: "v"}, "a", "b", `{"n":1,"v":"a"}`},
		{"document", `{"x":{"y":[{"k":{"v":"a"}},{"k":{"v":"b"}}]}}`, rule.Dataset{Type: "string", Format: "json", ArrayKey: "x.y", ValueKey: "k.v", RemoveKey: true}, "b", "c", `{"k":{}}`},
		{"names", "YS5i\n", rule.Dataset{Type: "string", Subdomain: true}, ".x.a.b", ".x.b", ""},
	} {
		s := New()
		x.d.Name, x.d.Load, x.d.Command = x.name, x.name, "isset"
		err := s.Define(Definition{Dataset: &x.d, Source: "own", Read: func() ([]byte, error) { return []byte(x.file), nil }})
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		ok, doc := s.Ask(&x.d, []byte(x.in))
		no, _ := s.Ask(&x.d, []byte(x.out))
		if !ok || no || string(doc) != x.doc {
			t.Errorf("%s: %q is in it: %v with %s, %q: %v", x.name, x.in, ok, doc, x.out, no)
		}
	}
	for file, d := range map[string]rule.Dataset{
		"x": {Type: "ip"}, "zz": {Type: "sha256"}, "*": {Type: "string"}, "{": {Type: "string", Format: "json"}, "[]": {Type: "string", Format: "xml"}, `[{"a":1}]`: {Type: "string", Format: "json", ValueKey: "v"}, `{}`: {Type: "string", Format: "json"},
	} {
		d.Name, d.Load = "bad", "bad.lst"
		if err := New().Define(Definition{Dataset: &d, Read: func() ([]byte, error) { return []byte(file), nil }}); err == nil {
			t.Errorf("a file %s of type %s is read", file, d.Type)
		}
	}
	s := New()
	if err := s.Define(Definition{Dataset: &rule.Dataset{Name: "untyped"}}); err == nil {
		t.Error("a dataset without a type is accepted")
	}
	if _, known := s.Set("unknown", "add", nil); known {
		t.Error("there is a dataset that no rule defines")
	}
}
