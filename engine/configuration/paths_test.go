package configuration

import (
	"strings"
	"testing"
)

// TestALogNeverLandsOnAnotherFile: neither on what the settings name, nor on what belongs to them, nor
// on what the gateway keeps in its data folder, under each kind of log.
func TestALogNeverLandsOnAnotherFile(t *testing.T) {
	const beside = `lists: {own: {format: domains, path: own.txt}, many: {format: ut1, path: many}}
intercept: {root: root.pem, trust: [more.pem]}
identity: {basic: {file: users}}
checks: {phrase: {weighted: [words]}, signature: {rules: [my.rules]}}
dns: {zones: {files: [{path: my.zone}], sign: [{zones: [example], keys: [Kexample]}]}, hosts-files: [my.hosts], key: dns.key, cert: dns.pem}
pages: {templates: pages}
`
	for _, kind := range []string{"sqlite", "jsonl", "squid", "dansguardian"} {
		for _, at := range []string{"../own.txt", "../many", "../root.pem", "../root-key.pem", "../more.pem", "../users", "../words", "../my.rules", "../my.zone", "../Kexample.key", "../Kexample.private",
			"../my.hosts", "../dns.key", "../dns.pem", "../pages", "../shuultuur.yaml", "../shuultuur.yaml.saved", "/d/x/../shuultuur.yaml",
			"secret.key", "accounts/accounts.json", "accounts/audit.log", "lists/own.edits", "lists/new", "versions/x", "sources/own/state.json", "lock", "votes", "votes.db", "votes.db-wal", "zones/x", "alerts.json", "reports.json", "instructions", "format.json", "cache/x", "spool/x", "last-good/lists/x", "datasets/x", "clock-sqlite.json"} {
			s, err := Parse("/d/shuultuur.yaml", []byte(beside+"events: {"+kind+": "+at+"}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Apart(); err == nil || !strings.Contains(err.Error(), "name another file") {
				t.Errorf("%s at %s: %v, want a refusal", kind, at, err)
			}
		}
		for _, at := range []string{"events.db", "logs/events.jsonl", "access.log", "../logs/access.log", "/var/log/shuultuur/access.log"} {
			s, err := Parse("/d/shuultuur.yaml", []byte(beside+"events: {"+kind+": "+at+"}\n"))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Apart(); err != nil {
				t.Errorf("%s at %s: %v", kind, at, err)
			}
		}
	}
}
