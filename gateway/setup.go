package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shuultuur/admin/home"
	"shuultuur/admin/lists"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/intercept"
)

// A SetupOffer has what the gateway needs to offer the first steps.
type SetupOffer struct {
	Topics  []home.Topic
	Compose func(now []byte, a home.Answers) []byte // returns the settings for the answers
	Steps   func(a home.Answers) []string           // returns how to try them
}

// OfferSetup offers the first steps at the admin address, once, and returns the link to them;
// "" if there is no admin address.
func (g *Gateway) OfferSetup(o SetupOffer) string {
	at := g.AdminAddr()
	if at == "" {
		return ""
	}
	s := &home.Setup{Token: rand.Text(), Topics: o.Topics}
	s.Write = func(ctx context.Context, a home.Answers) (*home.SetUp, error) { return g.setUp(ctx, &o, a) }
	g.setup.Store(s)
	return (&url.URL{Scheme: "http", Host: at, Path: "/setup", RawQuery: "token=" + s.Token}).String()
}

// Remark makes the start page show what look finds low on this machine, for the settings in a
// file.
func (g *Gateway) Remark(look func(file string) []home.Remark) {
	all := look(g.file)
	g.remarks.Store(&all)
}

// setUp writes the settings for the answers, and a root certificate if wanted, and tests
// their requirements.
func (g *Gateway) setUp(ctx context.Context, o *SetupOffer, a home.Answers) (*home.SetUp, error) {
	now, err := os.ReadFile(g.file)
	if err != nil {
		return nil, err
	}
	done := &home.SetUp{File: g.file, Certificate: a.Certificate, Steps: o.Steps(a)}
	if a.Certificate {
		root, err := intercept.MakeRoot(intercept.RootConfig{})
		if err != nil {
			return nil, err
		}
		file := filepath.Join(filepath.Dir(g.file), "root.pem")
		if err := root.Write(file, false); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("writing the root certificate: %w", err)
		}
	}
	if done.Remarks, err = g.saveSettings(ctx, o.Compose(now, a), web.Tag(now), "first steps", "for a "+a.Who); err != nil {
		return nil, &web.BadChange{Err: err}
	}
	since := time.Now()
	done.Look = func(ctx context.Context, from netip.Addr) []home.SetupTest {
		return append(g.setupTests(ctx, a), g.comesThrough(ctx, a, from, since)...)
	}
	return done, nil
}

// setupTests tests whether the new settings can work.
func (g *Gateway) setupTests(ctx context.Context, a home.Answers) (all []home.SetupTest) {
	if a.Proxy {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", g.ProxyAddr())
		t := home.SetupTest{Text: "The proxy takes connections at " + g.ProxyAddr() + "."}
		if err != nil {
			t = home.SetupTest{Text: "The proxy takes no connections: " + err.Error(), Bad: true}
		} else {
			c.Close()
		}
		all = append(all, t)
	}
	if a.DNS && a.Network {
		t := home.SetupTest{Text: "Port 53 is free for the name server."}
		err := portFree(ctx, "0.0.0.0:53") // as the settings name it
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrPermission):
			t = home.SetupTest{Text: "This user may not use port 53: run the gateway as a service, or give it the right to bind low ports.", Bad: true}
		default:
			t = home.SetupTest{Text: "Port 53 is in use; stop the name server that uses it before the restart: " + err.Error(), Bad: true}
		}
		all = append(all, t)
	}
	for _, a := range g.refresher.Progress() {
		all = append(all, home.SetupTest{Text: a.Name, Wait: true, Fetching: lists.FetchProgress{Done: a.Done, Total: a.Total}})
	}
	for _, p := range g.engine.Load().Lists.Problems() { // lists that are still being fetched
		all = append(all, home.SetupTest{Text: p, Wait: true})
	}
	if strings.HasPrefix(g.health().State, "degraded") {
		all = append(all, home.SetupTest{Text: "The state of the fleet cannot be reached.", Bad: true})
	}
	return all
}

// portFree returns nil if a name server could listen at an address, by UDP and TCP.
func portFree(ctx context.Context, at string) error {
	var l net.ListenConfig
	c, err := l.ListenPacket(ctx, "udp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	t, err := l.Listen(ctx, "tcp", at)
	if err != nil {
		return err
	}
	return t.Close()
}

// maxSeen bounds the events that are searched for one of a browser.
const maxSeen = 1000

// comesThrough reports whether a client has used the proxy since a time, and whether it trusts
// the root certificate: then there is an event of a decrypted page.
func (g *Gateway) comesThrough(ctx context.Context, a home.Answers, from netip.Addr, since time.Time) (all []home.SetupTest) {
	record := g.Store()
	if !a.Proxy || record == nil || !from.IsValid() {
		return nil
	}
	f := event.Filter{Since: since}
	if err := f.And(event.Client, false, from.String()); err != nil {
		return []home.SetupTest{{Text: err.Error(), Bad: true}}
	}
	through, trusted, n := false, false, 0
	for row, err := range record.Query(ctx, f, event.Page{Newest: true}) {
		if err != nil {
			return []home.SetupTest{{Text: err.Error(), Bad: true}}
		}
		through = through || row.Proto != filter.DNS
		trusted = trusted || row.Proto == filter.HTTP && strings.HasPrefix(row.URL, "https://")
		if n++; n == maxSeen || through && (trusted || !a.Certificate) {
			break
		}
	}
	t := home.SetupTest{Text: "This browser comes through the proxy."}
	if !through {
		t = home.SetupTest{Text: "Nothing of this browser has come through the proxy yet: name the proxy in its settings, and open any page.", Wait: true}
	}
	all = append(all, t)
	if a.Certificate {
		t = home.SetupTest{Text: "This browser trusts the certificate."}
		if !trusted {
			t = home.SetupTest{Text: "This browser has opened no encrypted page with the certificate yet: install it, and open one.", Wait: true}
		}
		all = append(all, t)
	}
	return all
}
