package main

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// How ours knows the client. Tickets and client certificates need other clients than the load is, and the
// cookie of the portal begins a session once, after which the requests are those of bySession.
const (
	byPassword = "password" // with each request
	bySession  = "session"  // of its address, begun on the portal
)

// The person who signs in.
const (
	benchUser     = "anna"
	benchPassword = "a password for the benchmark"
)

// signedIn returns a scenario that compares ours with an older program, by turns: to know who asks may
// cost at most 2 % more than it did.
func signedIn(name, about, how string, urls func(*rig) []string) scenario {
	s := scenario{
		name: name, about: about, unit: "pages", connections: 10, urls: urls, signIn: how,
		peers: subject + "," + subject + "-before", timeout: 20 * time.Second, most: 60 * time.Second,
		targets: []target{{subject + "-before", cpuPerFetch, 1.02}},
	}
	if how == byPassword {
		s.header = []string{"Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(benchUser+":"+benchPassword))}
	}
	return s
}

// signInSettings writes the password file, and returns our settings of identity and the address of the
// portal, "" if there is none.
func (r *peerRig) signInSettings(dir string) (identity, portal string, err error) {
	if r.signIn == "" {
		return "", "", nil
	}
	file, digest := filepath.Join(dir, "users"), sha1.Sum([]byte(benchPassword))
	if err := os.WriteFile(file, []byte(benchUser+":{SHA}"+base64.StdEncoding.EncodeToString(digest[:])+"\n"), 0o600); err != nil {
		return "", "", err
	}
	if r.signIn == byPassword {
		return fmt.Sprintf("identity: {basic: {file: %q}}", file), "", nil
	}
	if portal, err = freeAddr(); err != nil {
		return "", "", err
	}
	return fmt.Sprintf("identity: {basic: {file: %q, networks: [192.0.2.0/24]}, sign-in: {}}", file), portal, nil
}

// signInAt begins a session of this machine's address.
func signInAt(ctx context.Context, portal string) error {
	form := url.Values{"name": {benchUser}, "password": {benchPassword}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+portal+"/sign-in", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("signing in on the portal: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("signing in on the portal: %s", res.Status)
	}
	return nil
}
