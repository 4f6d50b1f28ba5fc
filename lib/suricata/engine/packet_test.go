package engine

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
	"shuultuur/lib/suricata/traffic"
)

// build compiles rules for packets.
func build(t testing.TB, rules ...string) *Engine {
	t.Helper()
	rs, mistakes, err := rule.NewParser().Read("test.rules", strings.NewReader(strings.Join(rules, "\n")))
	if err != nil || len(mistakes) > 0 {
		t.Fatal(err, mistakes)
	}
	vars, ports := address.Groups()
	e, mistakes, err := New(Config{Rules: rs, Vars: vars, Ports: ports, Packets: true})
	if err != nil || len(mistakes) > 0 {
		t.Fatal(err, mistakes)
	}
	return e
}

// raw is a source with only a payload.
type raw []byte

func (r raw) Buffer(_ rule.Direction, b rule.Buffer, i int) ([]byte, bool) {
	return r, b == rule.Payload && i == 0
}
func (raw) Numbers(rule.Direction, string) ([]uint64, bool) { return nil, false }
func (raw) Word(rule.Direction, string, string) bool        { return false }
func (raw) Event(string, string) bool                       { return false }
func (raw) Files(rule.Direction) []*traffic.File            { return nil }

func sids(as []Alert) (out []uint32) {
	for _, a := range as {
		out = append(out, a.SID)
	}
	slices.Sort(out)
	return out
}

func packetTx(src, dst string, data string, f *state.Flow) *Tx {
	return &Tx{Flow: f, Source: raw(data), L4: rule.TCP, Client: netip.AddrPortFrom(netip.MustParseAddr(src), 1000),
		Server: netip.AddrPortFrom(netip.MustParseAddr(dst), 80), Now: time.Unix(1e9, 0)}
}

func TestRulesOnAddressesAlertOncePerDirection(t *testing.T) {
	e := build(t,
		`alert ip [192.0.2.1,198.51.100.0/24] any -> any any (sid:1;)`,
		`alert ip any any -> [203.0.113.5-203.0.113.9] any (sid:2;)`,
		`alert ip !192.0.2.1 any -> any any (sid:3;)`,
		`alert ip 2001:db8::/32 any <> any any (sid:4;)`,
		`alert ip any any -> 198.51.100.7 any (sid:5;)`)
	for _, x := range []struct {
		src, dst string
		want     []uint32
	}{
		{"192.0.2.1", "203.0.113.7", []uint32{1, 2}},
		{"198.51.100.200", "203.0.113.4", []uint32{1, 3}},
		{"10.0.0.1", "203.0.113.9", []uint32{2, 3}},
		{"10.0.0.1", "198.51.100.7", []uint32{3, 5}},
		{"2001:db8::1", "::1", []uint32{3, 4}},
	} {
		f := &state.Flow{}
		if got := sids(e.Try(packetTx(x.src, x.dst, "", f), rule.ToServer, false, nil)); !slices.Equal(got, x.want) {
			t.Errorf("a packet from %s to %s matched %v, want %v", x.src, x.dst, got, x.want)
		}
		if got := e.Try(packetTx(x.src, x.dst, "", f), rule.ToServer, false, nil); len(got) > 0 {
			t.Errorf("a second packet from %s to %s matched %v, want none", x.src, x.dst, sids(got))
		}
	}
}

func TestShortPatternsAtTheirPlace(t *testing.T) {
	e := build(t,
		`alert tcp any any -> any any (content:"MZ"; depth:2; sid:1;)`,
		`alert tcp any any -> any any (content:"PK"; offset:3; depth:4; sid:2;)`,
		`alert tcp any any -> any any (content:"cws"; nocase; startswith; sid:3;)`,
		`alert tcp any any -> any any (content:"ab"; within:4; distance:1; sid:4;)`,
		`alert tcp any any -> any any (content:"zz"; sid:5;)`)
	for data, want := range map[string][]uint32{
		"MZ....":    {1},
		".MZ...":    nil,
		"...PK.":    {2},
		".....PK":   {2},
		"......PK":  nil,
		"CWS":       {3},
		".ab":       {4},
		"...ab":     {4},
		"....ab":    nil,
		"ab":        nil,
		".....zz..": {5},
	} {
		tx := packetTx("10.0.0.1", "10.0.0.2", data, &state.Flow{})
		if got := sids(e.Try(tx, rule.ToServer, false, nil)); !slices.Equal(got, want) {
			t.Errorf("the payload %q matched %v, want %v", data, got, want)
		}
	}
}

// TestAWindowFindsTheSameAsTheWholeStream moves a window over a stream and compares the matching
// rules with those of an engine that searches each whole window: the window finds each once.
func TestAWindowFindsTheSameAsTheWholeStream(t *testing.T) {
	rules := []string{
		`alert tcp-stream any any -> any any (content:"needle"; sid:1;)`,
		`alert tcp-stream any any -> any any (content:"first"; content:"second"; distance:0; sid:2;)`,
		`alert tcp-stream any any -> any any (content:"second"; content:"first"; distance:0; within:20; fast_pattern; sid:3;)`,
		`alert tcp-stream any any -> any any (content:"x1"; sid:4;)`,
	}
	e := build(t, rules...)
	const kept = 40
	for _, text := range []string{
		strings.Repeat(".", 30) + "needle" + strings.Repeat(".", 60),
		"first" + strings.Repeat(".", 25) + "second......first",
		strings.Repeat(".", 45) + "second.......first...x1..needle",
	} {
		for step := 1; step < 30; step++ {
			win := &Window{}
			var data []byte
			var got, want []uint32
			for from := 0; from < len(text); from += step {
				piece := text[from:min(len(text), from+step)]
				data = append(data, piece...)
				win.SetSearched(int64(from + len(piece)))
				got = append(got, sids(e.TryStream(packetTx("10.0.0.1", "10.0.0.2", string(data), &state.Flow{}), rule.ToServer, win, nil))...)
				want = append(want, sids(e.Try(packetTx("10.0.0.1", "10.0.0.2", string(data), &state.Flow{}), rule.ToServer, true, nil))...)
				data = data[max(0, len(data)-kept):]
				win.Kept = len(data)
			}
			slices.Sort(got)
			slices.Sort(want)
			if want = slices.Compact(want); !slices.Equal(got, want) {
				t.Fatalf("%q in steps of %d: %v, want %v", text, step, got, want)
			}
		}
	}
}
