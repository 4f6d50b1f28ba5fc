package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/gateway"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/redistest"
)

// TestAPersonIsErasedFromVotesAndQuotas: a user who has signed in votes, uses a quota, occurs
// in decisions and sessions, and gets more time. After the erasure no file of the data folder
// contains the name.
func TestAPersonIsErasedFromVotesAndQuotas(t *testing.T) {
	const name = "zebedee"
	g, dir := votesGatewayIn(t, "", `
state: {file: state.db}
events: {sqlite: events.db}
identity:
  addresses: {`+name+`: [10.9.9.9]}
  groups: {pupils: []}
`)
	session := func(method string) {
		t.Helper()
		form := url.Values{"address": {"127.0.0.1"}, "user": {name}, "seconds": {"600"}}
		if status, text := adminCall(t, g, method, "/api/sessions", form); status != 200 && status != 204 {
			t.Fatalf("%s /api/sessions: status %d, want 200 or 204: %s", method, status, text)
		}
	}
	session("POST")
	client := through(g.ProxyAddr())
	defer client.CloseIdleConnections()
	token := tokenOf(t, client, "http://ads.example/x")
	vote := func() {
		t.Helper()
		res, err := client.PostForm("http://ads.example/.well-known/shuultuur/votes", url.Values{"token": {token}, "comment": {name + " needs it"}, "mail": {name + "@example.org"}})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 202 {
			t.Fatalf("sending a vote: got %s, want 202", res.Status)
		}
	}
	vote()
	remedy := ""
	waittest.Until(t, "the vote is in the queue", func() bool {
		_, text := adminCall(t, g, "GET", "/votes", nil)
		var all []struct{ Remedy string }
		if json.Unmarshal([]byte(text), &all) == nil && len(all) == 1 {
			remedy = all[0].Remedy
		}
		return remedy != ""
	})
	if status, text := adminCall(t, g, "POST", "/votes", url.Values{"remedy": {remedy}, "action": {"open"}, "who": {name}, "for": {"1h"}, "reason": {"for " + name}}); status != 200 {
		t.Fatalf("accepting the vote of %s: status %d: %s", name, status, text)
	}
	if status, _, err := get(client, "http://ads.example/x"); err != nil || status != 200 {
		t.Errorf("after the decision: status %d, %v", status, err)
	}
	if status, text := adminCall(t, g, "POST", "/bonus", url.Values{"who": {name}, "minutes": {"15"}}); status != 200 {
		t.Fatalf("giving %s a bonus: status %d, want 200: %s", name, status, text)
	}
	if status, text := adminCall(t, g, "GET", "/why?url=http://other.example/&user="+name, nil); status != 200 {
		t.Fatalf("GET /why for %s: status %d, want 200: %s", name, status, text)
	}
	before := fmt.Sprint(holding(t, dir, name))
	for _, want := range []string{"votes.db", "instructions", "votes/0"} {
		if !strings.Contains(before, want) {
			t.Errorf("before the erasure only %s contain the name; the test shows nothing about %s", before, want)
		}
	}
	status, text := adminCall(t, g, "POST", "/privacy/erase", url.Values{"user": {name}, "client": {"127.0.0.1"}})
	if status != 409 || !strings.Contains(text, `"votes"`) || strings.Count(text, `"error"`) != 1 || !strings.Contains(text, "the settings in use name this person") {
		t.Fatal(status, text) // only the owner of the settings can remove the name there
	}
	if files := holding(t, dir, name); len(files) > 0 {
		t.Errorf("after the erasure %q still contain the name", files)
	}
	if _, text := adminCall(t, g, "GET", "/votes", nil); strings.TrimSpace(text) != "[]" && strings.Contains(text, name) {
		t.Errorf("after the erasure the queue has %s", text)
	}
	if status, _, err := get(client, "http://ads.example/x"); err != nil || status != 403 {
		t.Errorf("after the erasure the decision does not hold: status %d, %v", status, err)
	}
}

// holding returns the files below a folder that contain a name. It leaves out the settings,
// which their owner edits.
func holding(t *testing.T, dir, name string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "shuultuur.yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // a segment whose votes are counted
			return nil
		}
		if bytes.Contains(data, []byte(name)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// TestAPersonsVotesAreErasedOnAllNodes: one node forwards votes to another, which counts them.
// Whichever of them is asked to erase a person, neither keeps votes or instructions that
// contain the name.
func TestAPersonsVotesAreErasedOnAllNodes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const secret = ", secret: a secret of both nodes"
	redisLine := "\nstate: {redis: {addresses: [" + server.Addr + "]}}\n"
	counts, countsIn := votesGatewayIn(t, secret, redisLine)
	sends, sendsIn := votesGatewayIn(t, secret+", forward: 'http://"+counts.VotesAddr()+"'", redisLine)
	client := through(sends.ProxyAddr())
	defer client.CloseIdleConnections()
	for name, node := range map[string]*gateway.Gateway{"zebedee": counts, "dougal": sends} {
		if status, text := adminCall(t, sends, "POST", "/api/sessions", url.Values{"address": {"127.0.0.1"}, "user": {name}, "seconds": {"600"}}); status != 200 {
			t.Fatalf("signing %s in: status %d, want 200: %s", name, status, text)
		}
		res, err := client.PostForm("http://ads.example/.well-known/shuultuur/votes", url.Values{"token": {tokenOf(t, client, "http://ads.example/x")}, "mail": {name + "@example.org"}})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 202 {
			t.Fatalf("sending a vote: got %s, want 202", res.Status)
		}
		db := filepath.Join(countsIn, "data", "votes.db")
		waittest.Until(t, "the vote of "+name+" is counted", func() bool {
			return strings.Contains(fmt.Sprint(holding(t, countsIn, name)), db)
		})
		if files := holding(t, sendsIn, name); !strings.Contains(fmt.Sprint(files), filepath.Join("data", "votes")) {
			t.Errorf("on the node that forwards only %q contain %s; the test shows nothing about its log", files, name)
		}
		if status, text := adminCall(t, node, "POST", "/privacy/erase", url.Values{"user": {name}, "client": {"127.0.0.1"}}); status != 200 || !strings.Contains(text, "other nodes") || strings.Contains(text, `"error"`) {
			t.Fatalf("erasing %s: status %d, want 200 and a note about other nodes: %s", name, status, text)
		}
		for _, dir := range []string{countsIn, sendsIn} { // each node erases its record and its audit log alone
			files := ""
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%s still contain %s", files, name)
				}
			})
			waittest.Until(t, "no file of votes in "+dir+" holds "+name, func() bool {
				files = fmt.Sprint(holding(t, dir, name))
				return !strings.Contains(files, "votes") && !strings.Contains(files, "instructions")
			})
		}
	}
}
