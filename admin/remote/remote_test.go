package remote_test

import (
	"io"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/remote"
	"shuultuur/list"
)

func TestAProgramAsksAGatewayForEverything(t *testing.T) {
	h := admintest.NewHouse(t)
	s := httptest.NewServer(h)
	defer s.Close()
	c, ctx := remote.Client{URL: s.URL, Token: h.Token}, t.Context()
	local := netip.MustParseAddr("10.0.0.1")
	for what, do := range map[string]func() error{
		"lists":    func() error { _, err := c.Lists(ctx); return err },
		"search":   func() error { _, err := c.SearchLists(ctx, "a.example"); return err },
		"change":   func() error { return c.ChangeList(ctx, "own", []list.Change{{Entry: "a.example"}}) },
		"pause":    func() error { _, err := c.Pause(ctx, "anna", "5m"); return err },
		"sessions": func() error { _, err := c.Sessions(ctx, local); return err },
		"purge":    func() error { return c.CachePurge(ctx, "host", "a.example") },
		"quotas":   func() error { _, err := c.Quotas(ctx, "", local, ""); return err },
		"why":      func() error { _, err := c.Why(ctx, "http://a.example/", "10.0.0.1", "", "", ""); return err },
		"health":   func() error { _, err := c.Health(ctx); return err },
		"backup":   func() error { return c.Backup(ctx, io.Discard) },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, do := range map[string]func() error{
		"look":        func() error { _, err := c.CacheLook(ctx, "http://a.example/", nil); return err },
		"list":        func() error { _, err := c.List(ctx, "none", true); return err },
		"fetch":       func() error { _, _, err := c.Fetch(ctx, "none", false); return err },
		"wrong token": func() error { _, err := remote.Client{URL: s.URL, Token: "wrong"}.Lists(ctx); return err },
		"no address":  func() error { _, err := remote.Client{}.Lists(ctx); return err },
	} {
		if err := do(); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	text, tag, err := c.Settings(ctx)
	if err != nil || string(text) != "a: 1\n" || tag == "" {
		t.Errorf("settings: %q with tag %q, %v", text, tag, err)
	}
	if _, err := c.SaveSettings(ctx, []byte("a: mistake\n"), "", ""); err == nil || !strings.Contains(err.Error(), "mistake") {
		t.Errorf("trying settings with a mistake: %v", err)
	}
	if _, err := c.SaveSettings(ctx, []byte("a: 2\n"), tag, "because"); err != nil {
		t.Errorf("saving settings: %v", err)
	}
}

func TestAProgramLooksAfterAccounts(t *testing.T) {
	h := admintest.NewHouse(t)
	s := httptest.NewServer(h)
	defer s.Close()
	a := remote.AccountClient{Client: remote.Client{URL: s.URL, Token: h.Token}, Context: t.Context()}
	for what, do := range map[string]func() error{
		"add":      func() error { return a.Add("tim", account.Viewer, nil, "correct horse battery") },
		"edit":     func() error { return a.Edit("the-helper", account.Helper, []string{"7b"}) },
		"password": func() error { return a.SetPassword("the-helper", "another horse battery") },
		"totp":     func() error { return a.EndTOTP("the-helper") },
		"remove":   func() error { return a.Remove("the-viewer") },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	all, err := a.All()
	if err != nil || len(all) != len(account.Roles) {
		t.Errorf("%d accounts, %v", len(all), err)
	}
	if was, err := a.EndToken("none", "tim"); was || err != nil {
		t.Errorf("ending no token: %v, %v", was, err)
	}
	if entries, err := a.Entries(0, 3); err != nil || len(entries) != 3 {
		t.Errorf("%d entries of the audit log, %v", len(entries), err)
	}
	if v, err := a.Verify(); err != nil || v.Broken != "" {
		t.Errorf("the chain of the audit log: %+v, %v", v, err)
	}
}
