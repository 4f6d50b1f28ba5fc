package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/engine/configuration"
	"shuultuur/lib/setting"
)

// secretSettings has a secret under each key that is one, as SECRET-N.
const secretSettings = `# the token was SECRET-00-a-token once
listen:
  proxy: 127.0.0.1:0
  admin: 127.0.0.1:0
  token: SECRET-00-a-token # keep it
events:
  jsonl: events.jsonl
  postgres: "postgres://u:SECRET-01-pw@127.0.0.1:1/db"
  clickhouse: http://u:SECRET-02-pw@127.0.0.1:1/db
  otlp: {to: "http://127.0.0.1:1/v1/logs?token=SECRET-03-pw", headers: {Authorization: 'SECRET-04 it''s', other: SECRET-05-x}}
  kafka: {to: 127.0.0.1:1, topic: x, user: x, tls: true, password: SECRET-06-pw}
  parquet: {to: "s3://bucket/x", key: SECRET-07-key, secret: SECRET-08-sec, endpoint: "http://127.0.0.1:1"}
lists:
  own: {format: domains, path: own.txt}
  paid: {format: domains, url: "https://u:SECRET-09-pw@lists.example/x"}
  keyed: {format: domains, url: "https://lists.example/x?license_key=SECRET-10-pw"}
  free: {format: domains, url: "https://lists.example/free?v=2"}
identity:
  groups: {teachers: [192.0.2.1]}
  basic: {networks: [192.0.2.0/24], ldap: {servers: [ldaps://127.0.0.1:1], base: "dc=x", bind: "cn=x", password: SECRET-11-pw}}
mail: {server: smtp://127.0.0.1:1, from: a@school.example, user: x, password: SECRET-12-pw}
alerts:
  themes: {bad: {host: [bad.example]}}
  to: [{webhook: [{url: "https://hooks.example/SECRET-13-path", token: SECRET-14-tok}]}]
proxy: {parent: "http://u:SECRET-15-pw@127.0.0.1:1"}
access: {sign-in: {issuer: "https://127.0.0.1:1", client-id: x, secret: SECRET-16-sec, roles: {operator: [ops]}}}
pages: {contact: IT room}
policies: [{name: all, rules: []}]
`

const secretCount = 17

// A client of the admin address with a role.
type rolled struct {
	t     *testing.T
	at    string
	token string
}

func (c rolled) do(method, path, body string, head ...string) (status int, text string, h http.Header) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+c.at+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

// settings returns the settings as this role sees them, with their tag.
func (c rolled) settings() (text, tag string) {
	c.t.Helper()
	status, text, h := c.do("GET", "/settings", "")
	if status != http.StatusOK {
		c.t.Fatalf("GET /settings: %d %s", status, text)
	}
	return text, h.Get("ETag")
}

func (c rolled) put(text, tag string) (int, string) {
	c.t.Helper()
	status, said, _ := c.do("PUT", "/settings?reason=test", text, "If-Match", tag, "Content-Type", "application/yaml")
	return status, said
}

var form = []string{"Content-Type", "application/x-www-form-urlencoded"}

// withRoles runs a gateway with settings, and returns a client for each role.
func withRoles(t *testing.T, settings string) (file string, of map[account.Role]rolled) {
	t.Helper()
	file = folder(t, map[string]string{"shuultuur.yaml": settings, "own.txt": "bet.example\n", "shuultuur.yaml.saved": "#!/bin/sh\n"})
	g, err := New(t.Context(), file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-done // events for servers that do not exist are lost
	})
	book, err := account.Open(account.Folder(filepath.Join(filepath.Dir(file), "data")), nil)
	if err != nil {
		t.Fatal(err)
	}
	of = map[account.Role]rolled{}
	for _, role := range slices.Backward(account.Roles) { // the first account is an owner
		var groups []string
		if role == account.Helper {
			groups = []string{"teachers"}
		}
		if err := book.Add(role.String(), role, groups, ""); err != nil {
			t.Fatal(err)
		}
		token, _, err := book.NewToken(role.String(), "test", []string{"write"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		of[role] = rolled{t, g.AdminAddr(), token}
	}
	return file, of
}

// TestSecretsInSettingsAreForOwners: nobody below an owner finds a secret anywhere, and what an
// operator saves back keeps every secret.
func TestSecretsInSettingsAreForOwners(t *testing.T) {
	file, of := withRoles(t, secretSettings)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	owner, operator := of[account.Owner], of[account.Operator]
	if text, _ := owner.settings(); text != secretSettings || strings.Count(text, "SECRET-") != secretCount+1 {
		t.Errorf("an owner sees\n%s", text)
	}
	text, tag := operator.settings()
	for _, kept := range []string{"path: own.txt", "contact: IT room", "free?v=2", "# keep it", "server: smtp://127.0.0.1:1", "teachers: [192.0.2.1]"} {
		if !strings.Contains(text, kept) {
			t.Errorf("an operator does not see %q in\n%s", kept, text)
		}
	}
	if strings.Trim(tag, `"`) == web.Tag(before) {
		t.Error("an operator gets a digest of the text, by which a secret could be guessed")
	}
	changed := strings.Replace(text, "IT room", "the library", 1)
	if status, said := operator.put(changed, tag); status != http.StatusOK {
		t.Fatalf("an operator changes a contact: %d %s", status, said)
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != strings.Replace(secretSettings, "IT room", "the library", 1) {
		t.Errorf("after an operator changed a contact the settings are\n%s", now)
	}
	_, list, _ := owner.do("GET", "/settings/versions", "")
	id := strings.Split(strings.SplitAfter(list, `"id":"`)[1], `"`)[0]
	older := strings.Split(strings.SplitAfter(list, `"id":"`)[2], `"`)[0]
	broken := strings.Replace(changed, "format: domains", "format: dom", 1)
	for role, c := range of {
		if role == account.Owner {
			continue
		}
		for _, page := range []string{"application/json", "text/html"} {
			for _, path := range []string{"/settings", "/settings/versions", "/settings/versions/" + id, "/settings/versions/" + older, "/policies", "/clients", "/lists", "/health", "/system", "/alerts", "/system/backup", "/audit"} {
				if status, said, _ := c.do("GET", path, "", "Accept", page); strings.Contains(said, "SECRET-") {
					t.Errorf("GET %s as %s as %v: %d with a secret:\n%s", path, page, role, status, said)
				}
			}
			for path, f := range map[string]url.Values{
				"/settings":         {"text": {broken}, "tag": {"x"}},
				"/settings?":        {"text": {strings.Replace(changed, "library", "hall", 1)}, "tag": {strings.Trim(tag, `"`)}},
				"/settings/check":   {"text": {broken}},
				"/settings/check?":  {"text": {strings.ReplaceAll(broken, "contact: ", "contact: [")}},
				"/clients?dry_run=": {"name": {"anna"}, "address": {"10.0.0.7"}},
			} {
				if status, said, _ := c.do("POST", path, f.Encode(), append(form, "Accept", page)...); strings.Contains(said, "SECRET-") {
					t.Errorf("POST %s as %v: %d with a secret:\n%s", path, role, status, said)
				}
			}
		}
	}
}

// TestAPlaceholderStaysUnderItsKey: a secret cannot be moved to where it could be read.
func TestAPlaceholderStaysUnderItsKey(t *testing.T) {
	file, of := withRoles(t, secretSettings)
	operator := of[account.Operator]
	text, tag := operator.settings()
	hidden, err := setting.Hide([]byte(secretSettings), &configuration.Settings{}, nil)
	if err != nil || bytes.Contains(hidden.Text, []byte("SECRET")) {
		t.Fatalf("hiding: %v\n%s", err, hidden.Text)
	}
	kept := text[strings.Index(text, "kept-"):][:25]
	for name, moved := range map[string]string{
		"to a value":          strings.Replace(text, "IT room", kept, 1),
		"into a value":        strings.Replace(text, "IT room", "ask "+kept, 1),
		"to another secret":   strings.Replace(text, "from: a@school.example", "from: "+kept, 1),
		"to a key":            strings.Replace(text, "teachers:", kept+":", 1),
		"to a list's address": strings.Replace(text, "https://lists.example/free?v=2", "https://lists.example/"+kept, 1),
	} {
		if status, said := operator.put(moved, tag); status != http.StatusForbidden {
			t.Errorf("a placeholder moved %s: %d %s", name, status, said)
		}
	}
	status, said := operator.put(strings.Replace(text, "- {name: own", "- {name: own", 1)+"# "+kept+"\n", tag)
	if now, _ := os.ReadFile(file); strings.Count(string(now), "SECRET-00") != 2 {
		t.Errorf("a placeholder in a comment became a secret: %d %s", status, said)
	}
}

// TestAnOperatorStaysAnOperator tries every key that only an owner may change, in every way in which
// settings are changed.
func TestAnOperatorStaysAnOperator(t *testing.T) {
	const base = "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\nlists: {own: {format: domains, path: own.txt}}\nidentity: {groups: {teachers: [192.0.2.1]}}\npolicies: [{name: all, rules: []}]\n"
	file, of := withRoles(t, base)
	operator, owner := of[account.Operator], of[account.Owner]
	data := filepath.Join(filepath.Dir(file), "data")
	climbs := map[string]string{
		"access.names": "access: {names: [x.example]}", "access.two-people": "access: {two-people: true}", "access.urls": "access: {urls: viewer}",
		"access.sign-in": "access: {sign-in: {issuer: 'https://x.example', client-id: x, roles: {owner: [x]}}}",
		"events.jsonl":   "events: {jsonl: x.jsonl}", "events.squid": "events: {squid: ../shuultuur.yaml.saved}", "events.dansguardian": "events: {dansguardian: accounts/accounts.json}",
		"events.sqlite": "events: {sqlite: votes.db}", "events.postgres": "events: {postgres: 'postgres://x.example/x'}", "events.parquet": "events: {parquet: {to: lists}}",
		"events.keep": "events: {keep: 1d}", "events.anonymise": "events: {anonymise: 2d}", "state.file": "state: {file: secret.key}", "state.redis": "state: {redis: {addresses: 127.0.0.1:1}}",
		"data": "data: other", "mail": "mail: {server: 'smtp://x.example', from: x@x.example}", "votes.store": "votes: {store: secret.key}", "votes.nats": "votes: {nats: 'nats://x.example'}",
		"cache.folder": "cache: {folder: data/accounts, disk: 100MiB}", "cache.peers": "cache: {peers: {listen: '127.0.0.1:1', name: x, nodes: [x], secret: 0123456789abcdef}}",
		"dns.zones.folder": "dns: {zones: {folder: data/accounts}}", "dns.redis": "dns: {redis: {addresses: 127.0.0.1:1}}", "dns.zones.update": "dns: {zones: {update: [{key: x}]}}", "dns.zones.tsig": "dns: {zones: {tsig: [{name: x, secret: eA==}]}}",
		"intercept.root": "intercept: {root: x.pem}", "alerts.to.webhook": "alerts: {themes: {x: {host: [x.example]}}, to: [{webhook: [{url: 'https://x.example'}]}]}",
		"a list that is the accounts": "lists: {own: {format: domains, path: data/accounts/accounts.json}}", "a list that is the settings": "lists: {own: {format: domains, path: shuultuur.yaml}}",
		"a list that is the program": "lists: {own: {format: domains, path: shuultuur.yaml.saved}}", "a list through a link": "lists: {own: {format: domains, path: link}}",
		"a list of everything": "lists: {own: {format: ut1, path: .}}", "a zone that is a key": "dns: {zones: {files: [{path: data/secret.key, origin: x}]}}", "templates that are the data": "pages: {templates: data}",
		"listen.token": "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0, token: 0123456789abcdef}", "listen.squid": "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0, squid: data/accounts/accounts.json}",
		"listen.monitors":                    "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0, monitors: 0.0.0.0/0}",
		"a list whose address is a file":     "lists: {own: {format: domains, url: 'secret-file:data/secret.key'}}",
		"a list whose address is a variable": "lists: {own: {format: domains, url: 'secret-env:HOME'}}",
		"identity.basic":                     "identity: {groups: {teachers: [192.0.2.1]}, basic: {file: own.txt}}",
	}
	if err := os.Symlink(filepath.Join(data, "accounts", "accounts.json"), filepath.Join(filepath.Dir(file), "link")); err != nil {
		t.Fatal(err)
	}
	_, tag := operator.settings()
	for key, climb := range climbs {
		top, _, _ := strings.Cut(climb, ":")
		var lines []string
		for line := range strings.Lines(base) {
			if !strings.HasPrefix(line, top+":") {
				lines = append(lines, line)
			}
		}
		text := strings.Join(lines, "") + climb + "\n"
		f := url.Values{"text": {text}, "tag": {strings.Trim(tag, `"`)}, "what": {"save"}, "checked": {web.Tag([]byte(text))}}
		for way, try := range map[string]func() (int, string){
			"PUT": func() (int, string) { return operator.put(text, tag) },
			"a form": func() (int, string) {
				s, said, _ := operator.do("POST", "/settings", f.Encode(), form...)
				return s, said
			},
			"dry run": func() (int, string) { s, said, _ := operator.do("PUT", "/settings?dry_run=yes", text); return s, said },
		} {
			status, said := try()
			first, _, _ := strings.Cut(key, " ")
			if status != http.StatusForbidden || !strings.Contains(said, "owner") || strings.Contains(key, ".") && !strings.Contains(said, strings.Split(first, ".")[0]) {
				t.Errorf("an operator changes %s by %s: %d %.300s, want 403 with the key and the role", key, way, status, said)
			}
		}
		if now, _ := os.ReadFile(file); string(now) != base {
			t.Fatalf("an operator changed %s:\n%s", key, now)
		}
	}
	// An owner may, and an operator may neither undo that nor take it back from the history.
	_, tag = owner.settings()
	if status, said := owner.put(base+"events: {keep: 20d}\n", tag); status != http.StatusOK {
		t.Fatalf("an owner changes events: %d %s", status, said)
	}
	_, tag = operator.settings()
	if status, said := operator.put(base, tag); status != http.StatusForbidden || !strings.Contains(said, "events") {
		t.Errorf("an operator takes a version back: %d %s", status, said)
	}
	if status, said := operator.put(strings.Replace(base, "[192.0.2.1]", "[192.0.2.1, 192.0.2.2]", 1)+"events: {keep: 20d}\n", tag); status != http.StatusOK {
		t.Errorf("an operator adds a teacher: %d %s", status, said)
	}
	for role, c := range of {
		if role < account.Operator {
			if status, said := c.put(base, tag); status != http.StatusForbidden {
				t.Errorf("%v saves settings: %d %s", role, status, fmt.Sprintf("%.200s", said))
			}
		}
	}
}
