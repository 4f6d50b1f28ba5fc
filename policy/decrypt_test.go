package policy

import (
	"context"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

func TestFaultyCertificatesAreBlockedUnlessARuleSaysOtherwise(t *testing.T) {
	e, err := New(Config{{Name: "all", Decrypt: true, Rules: []Rule{
		{Name: "bank", Action: "allow", Host: []string{"bank.test"}},
		{Name: "router", Action: "warn", Category: []string{"self-signed"}, Host: []string{"router.test"}},
		{Name: "old", Action: "allow", Category: []string{"certificate/expired"}, Host: []string{"old.test"}},
	}}, {Name: "never covered"}}, []filter.Check{&fake{name: "certificate", known: []filter.Category{{Name: "expired"}, {Name: "self-signed"}, {Name: "wrong-host"}}}}, Parts{Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	judge := func(host, fault, cookie string) *filter.Transaction {
		x := &filter.Transaction{Host: host, URL: "https://" + host + "/", Proto: filter.HTTP, Last: filter.ResponseBody}
		x.Request = &message.Request{Method: "GET", Target: []byte("/"), Proto: 11}
		if cookie != "" {
			x.Request.Add("Cookie", Cookie+"="+cookie)
		}
		if fault != "" {
			x.Findings = append(x.Findings, filter.Finding{Check: "certificate", Category: fault})
		}
		e.Decide(context.Background(), x, filter.Name)
		if v := x.Verdict; v.Action == filter.Pass {
			e.Decide(context.Background(), x, filter.Request)
		}
		return x
	}
	for _, tt := range []struct {
		host, fault string
		action      filter.Action
		rule        string
	}{
		{"fine.test", "", filter.Pass, ""},
		{"fine.test", "expired", filter.Block, "certificate"},
		{"bank.test", "expired", filter.Allow, "bank"},
		{"old.test", "expired", filter.Allow, "old"},
		{"old.test", "wrong-host", filter.Block, "certificate"},
		{"router.test", "self-signed", filter.Warn, "router"},
	} {
		x := judge(tt.host, tt.fault, "")
		if v := x.Verdict; v.Action != tt.action || v.Reason.Rule != tt.rule {
			t.Errorf("%s %s: got %v by rule %q, want %v by %q", tt.host, tt.fault, v.Action, v.Reason.Rule, tt.action, tt.rule)
		}
	}
	token := clicked(t, e, judge("router.test", "self-signed", ""))
	if v := judge("router.test", "self-signed", token).Verdict; v.Action != filter.Pass {
		t.Errorf("warning that was clicked through: got %v by rule %q, want pass", v.Action, v.Reason.Rule)
	}
	if !e.Decrypts(&filter.Transaction{}) {
		t.Error("Decrypts is false although the policy says decrypt")
	}
}

func TestRulesMayAskForTheHellosFingerprint(t *testing.T) {
	const app, other = "t13d1516h2_8daaf6152771_e5627efa2ab1", "t13d1517h2_8daaf6152771_e5627efa2ab2"
	e, err := New(Config{{Name: "all", Rules: []Rule{
		{Name: "app", Action: "allow", JA4: []string{app}},
		{Name: "no plain tunnels", Action: "block", JA4: []string{filter.NoHello}},
		{Name: "closed", Action: "block", Host: []string{"closed.test"}},
	}}}, nil, Parts{Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if !e.AsksJA4() {
		t.Error("AsksJA4 is false although a rule has a fingerprint")
	}
	for _, tt := range []struct {
		proto     filter.Proto
		host, ja4 string
		action    filter.Action
		rule      string
	}{
		{filter.TLS, "closed.test", "", filter.Pass, ""}, // the hello may fit an allow rule
		{filter.TLS, "closed.test", app, filter.Allow, "app"},
		{filter.TLS, "closed.test", other, filter.Block, "closed"},
		{filter.TLS, "open.test", filter.NoHello, filter.Block, "no plain tunnels"},
		{filter.TLS, "open.test", other, filter.Pass, ""},
		{filter.HTTP, "closed.test", "", filter.Block, "closed"}, // without TLS there is no hello
	} {
		x := &filter.Transaction{Host: tt.host, Proto: tt.proto, JA4: tt.ja4, Last: filter.Name}
		e.Decide(context.Background(), x, filter.Name)
		if v := x.Verdict; v.Action != tt.action || v.Reason.Rule != tt.rule {
			t.Errorf("%s %s %q: got %v by rule %q, want %v by %q", tt.proto, tt.host, tt.ja4, v.Action, v.Reason.Rule, tt.action, tt.rule)
		}
	}
	if _, err := New(Config{{Name: "all", Rules: []Rule{{Name: "x", Action: "block", JA4: []string{"chrome"}}}}}, nil, Parts{}); err == nil {
		t.Error("New accepted an invalid fingerprint")
	}
}
