package policy

import (
	"context"
	"testing"

	"shuultuur/filter"
)

// openings is a check like that of tunnels.
type openings struct{ fake }

func (openings) Wants(t *filter.Transaction, s filter.Stage) bool {
	return s == filter.Name && t.Opening.Kind != ""
}

func (openings) Find(_ context.Context, t *filter.Transaction, _ filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	return append(dst, filter.Finding{Check: filter.Tunnel, Category: t.Opening.Kind}), nil
}

// TestRulesAboutTunnelsKeepTheirOrder: an exception behind a rule about what is said first waits until
// that is known, one before it does not, and where it will never be known nothing waits.
func TestRulesAboutTunnelsKeepTheirOrder(t *testing.T) {
	var kinds []filter.Category
	for _, k := range []string{"http", "tls", "ssh", "vpn", "unknown"} {
		kinds = append(kinds, filter.Category{Name: k})
	}
	refuse := Rule{Name: "tunnels", Action: "block", Category: []string{"tunnel/ssh", "tunnel/unknown"}, Port: []string{"443"}}
	allow := Rule{Name: "good", Action: "allow", Host: []string{"good.example"}}
	for name, tt := range map[string]struct {
		rules       []Rule
		port        uint16
		awaited     bool
		kind        string
		first, then filter.Action
	}{
		"TLS":               {[]Rule{refuse, allow}, 443, true, "tls", filter.Pass, filter.Allow},
		"SSH":               {[]Rule{refuse, allow}, 443, true, "ssh", filter.Pass, filter.Block},
		"SSH elsewhere":     {[]Rule{refuse, allow}, 22, true, "ssh", filter.Allow, filter.Allow},
		"an exception":      {[]Rule{allow, refuse}, 443, true, "ssh", filter.Allow, filter.Allow},
		"nobody will know":  {[]Rule{refuse, allow}, 443, false, "", filter.Allow, filter.Allow},
		"VPN, of no rule":   {[]Rule{refuse, allow}, 443, true, "vpn", filter.Pass, filter.Allow},
		"unless it is said": {[]Rule{{Name: "only TLS", Action: "block", Unless: []string{"tunnel/tls"}}}, 443, true, "tls", filter.Pass, filter.Pass},
	} {
		e := newEngine(t, tt.rules, &openings{fake{name: filter.Tunnel, known: kinds}})
		if !e.AsksTunnels() {
			t.Errorf("%s: rules name what is said first, and it is not asked for", name)
		}
		x := &filter.Transaction{Proto: filter.TLS, Host: "good.example", Port: tt.port, Last: filter.Name}
		x.Opening.Awaited = tt.awaited
		e.Decide(t.Context(), x, filter.Name)
		if x.Verdict.Action != tt.first {
			t.Errorf("%s: at first %v, want %v", name, x.Verdict.Action, tt.first)
		}
		x.Opening = filter.Opening{Kind: tt.kind}
		e.Decide(t.Context(), x, filter.Name)
		if x.Verdict.Action != tt.then {
			t.Errorf("%s: then %v, want %v", name, x.Verdict.Action, tt.then)
		}
	}
	if newEngine(t, []Rule{allow}, &openings{fake{name: filter.Tunnel, known: kinds}}).AsksTunnels() {
		t.Error("no rule names what is said first, and it is asked for")
	}
}
