package engine

import (
	"slices"
	"testing"
)

// TestServersOfTheSettingsAreNeeds: every server that the settings name is found, wherever it stands, and
// nothing that clients ask for.
func TestServersOfTheSettingsAreNeeds(t *testing.T) {
	got := serversOf([]byte(`
listen: {proxy: "proxy.example:8080"}
lists: {games: {url: "https://lists.example/x"}}   # those in use are known otherwise
pages: {contact: "https://help.example/"}
policies:
  - {name: all, rules: [{name: r, action: redirect, to: "https://elsewhere.example/"}]}
portal: {pac: [{proxies: ["other.example:3128"]}]}
dns:
  forward:
    upstreams: [dns.example, 192.0.2.1, "tls://dot.example", "https://doh.example/dns-query", "[2001:db8::1]:53", "plain.example:5353", dns.local]
    routes: {corp.example: ["tcp://ns.corp.example"], lan: [192.0.2.3]}
identity:
  basic:
    radius: {servers: [radius.example, "radius2.example:1812"]}
    ldap: {url: "ldaps://LDAP.example."}
mail: {server: "smtp://mail.example:587"}
alerts: {to: [{webhook: "https://user:secret@hooks.example/x"}]}
events: {postgres: "postgres://u:p@db.example/x?sslmode=disable"}
state: {redis: {addresses: ["redis.example:6379", "10.0.0.1:6379", "redis:6379"]}}
checks: {virus: {clamd: [/run/clamd.sock, "clamd.example:3310"]}, signature: {vars: {PORTS: "80:90"}}}
proxy: {parent: "http://parent.example:3128", no-parent: [near.example]}
dns.more: "a.example:http"
`))
	want := []string{"dns.example", "dot.example", "doh.example", "plain.example", "dns.local", "ns.corp.example", "radius.example", "radius2.example", "ldap.example", "mail.example", "hooks.example", "db.example", "redis.example", "clamd.example", "parent.example"}
	if !slices.Equal(got, want) {
		t.Errorf("the servers are\n%q, want\n%q", got, want)
	}
}
