package index

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/match"
	"shuultuur/lib/suricata/rule"
)

// entries compiles rules on the bodies of responses, or on packets.
func entries(t *testing.T, kinds Kind, rules ...string) (all []*Entry) {
	t.Helper()
	rs, mistakes, err := rule.NewParser().Read("a.rules", strings.NewReader(strings.Join(rules, "\n")))
	if err != nil || len(mistakes) > 0 || len(rs) != len(rules) {
		t.Fatal(err, mistakes)
	}
	var c match.Compiler
	p := address.NewParser(nil, nil)
	for _, r := range rs {
		e := &Entry{Rule: r, Dirs: rule.ToClient, Kinds: kinds, Fast: -1, Single: len(r.Groups) == 0}
		if e.Ends, err = p.Ends(r.Header); err != nil {
			t.Fatal(err)
		}
		for _, g := range r.Groups {
			k, err := c.Group(g, 0, func(rule.Match) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			e.Groups = append(e.Groups, k)
		}
		e.Choose()
		all = append(all, e)
	}
	return all
}

// found returns the rules that the tables of one kind find in data.
func found(tables []*Table, data string) (hits []int32) {
	var seen match.Sight
	for _, t := range tables {
		hits = t.Anchored([]byte(data), hits)
		hits = t.Find([]byte(data), &seen, hits)
	}
	slices.Sort(hits)
	return slices.Compact(hits)
}

func TestRulesAreFoundByTheirPattern(t *testing.T) {
	all := entries(t, OnMessage,
		`alert http any any -> any any (file.data; content:"zyxwvut"; sid:1;)`,
		`alert http any any -> any any (file.data; content:"ZYXW"; nocase; sid:2;)`,
		`alert http any any -> any any (http.response_body; content:"qqqqq"; sid:3;)`,
		`alert http any any -> any any (file.data; content:"MZ"; startswith; sid:4;)`,
		`alert http any any -> any any (file.data; content:"PK"; offset:2; depth:4; sid:5;)`,
		`alert http any any -> any any (file.data; pcre:"/^x/"; sid:6;)`,
		`alert http any any -> any any (http.location; content:"evil"; sid:7;)`,
		`alert http any any -> any any (file.data; content:".exe"; content:"Zq9~vJw"; sid:8;)`)
	s := &New(all, Config{})[1]
	if !slices.Equal(s.Always, []int32{5}) {
		t.Errorf("the rules %v are always tried, want the one without a content", s.Always)
	}
	if s.Heads != 1 || len(s.Messages) != 2 || s.Messages[0].Buffer != rule.Location || !s.Messages[1].HasTwin {
		t.Errorf("%d of %d tables are of heads; want that of Location before that of bodies", s.Heads, len(s.Messages))
	}
	for data, want := range map[string][]int32{
		"a zyxwvut": {0, 1}, "ZyXw": {1}, "qqqqq": {2}, "MZ": {3}, "xMZ": nil, "__PK": {4}, "_____PK": nil, "evil": {6}, ".exe": nil, ".exe Zq9~vJw": {7},
	} {
		if got := found(s.Messages, data); !slices.Equal(got, want) {
			t.Errorf("in %q the rules %v may match, want %v", data, got, want)
		}
	}
	if text := all[7].Pattern(); string(text) != "Zq9~vJw" {
		t.Errorf("a rule waits for %q, want the rarer text", text)
	}
	all[7].Groups[0].Sought = nil
	if s = &New(all, Config{All: true})[1]; len(s.Always) != len(all) || len(s.Messages) > 0 {
		t.Errorf("%d of %d rules are always tried, want all", len(s.Always), len(all))
	}
}

func TestStreamsAreSearchedWithTheBodyOfAMessage(t *testing.T) {
	all := entries(t, OnStream|OnPacket,
		`alert tcp any any -> any any (content:"outside"; sid:1;)`,
		`alert tcp any any -> any any (content:!"x"; sid:2;)`)
	s := &New(all, Config{})[1]
	if s.Beginning == nil || !s.OnStream || len(s.Packets)+len(s.Streams) > 0 || !slices.Equal(s.Rest, []int32{1}) {
		t.Errorf("without packets the tables are %+v", s)
	}
	if got := found(append(s.Messages, s.Beginning), "all outside"); !slices.Equal(got, []int32{0}) || s.Beginning.Reach() < 512 {
		t.Errorf("the rules %v may match", got)
	}
	s = &New(all, Config{Packets: true})[1]
	if s.Beginning != nil || len(s.Packets) != 1 || len(s.Streams) != 1 || !s.Packets[0].Streamed {
		t.Errorf("with packets the tables are %+v", s)
	}
	if p := s.Packets[0]; len(p.Patterns()) != 1 || p.Longest() != len("outside") {
		t.Errorf("the patterns are %v", p.Patterns())
	}
}

func TestRulesOnAddressesAreFoundByTheirNetworks(t *testing.T) {
	all := entries(t, OnPacket,
		`alert ip 192.0.2.0/24 any -> any any (sid:1;)`,
		`alert ip any any -> [198.51.100.1-198.51.100.5] any (sid:2;)`,
		`alert ip !192.0.2.0/24 any -> any any (sid:3;)`,
		`alert ip 192.0.2.0/24 any <> any any (sid:4;)`)
	s := &New(all, Config{Packets: true})[1]
	for ends, want := range map[string][]int32{"192.0.2.9 10.0.0.1": {0, 2, 3}, "10.0.0.1 198.51.100.4": {1, 2, 3}, "10.0.0.1 198.51.100.6": {2, 3}, "2001:db8::1 2001:db8::2": {2, 3}} {
		src, dst, _ := strings.Cut(ends, " ")
		got := s.First(netip.MustParseAddr(src), netip.MustParseAddr(dst), nil)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("from %s the rules %v may match, want %v", ends, got, want)
		}
	}
}
