package unbound

import (
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
)

const withTags = `server:
	interface: 127.0.0.1@5300
	do-not-query-localhost: no
	access-control: 10.0.0.0/8 allow
	define-tag: "kids staff"
	access-control-tag: 10.1.0.0/16 "kids"
	access-control-tag: 10.2.0.0/16 "staff"
	access-control-tag-action: 10.2.0.0/16 staff transparent
	local-zone: "games.example." always_nxdomain
	local-zone-tag: "games.example." "kids"
	local-zone: "wiki.example." refuse
	local-zone-tag: "wiki.example." "kids staff"
	local-zone: "evil.example." always_nxdomain
	local-zone-override: "evil.example." 10.3.0.0/16 transparent
	local-zone-override: "staff.example." 10.2.9.0/24 always_nxdomain
`

// Clients with a tag get the zones of the tag, and others do not.
func TestTagsBecomePoliciesOfTheirClients(t *testing.T) {
	dir := importertest.Folder(t, map[string]string{"unbound.conf": withTags})
	settings, r := importertest.Run(t, "unbound", Import, dir)
	for _, want := range []string{"10.1.0.0/16", "10.2.9.0/24", "10.3.0.0/16", "blocked-1"} {
		if !strings.Contains(settings, want) {
			t.Errorf("the settings lack %q:\n%s", want, settings)
		}
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "access-control-tag 10.1.0.0/16") {
		t.Errorf("the report does not say what became of the tags:\n%s", text.String())
	}
}

func TestBrokenTagsAreReportedNotGuessed(t *testing.T) {
	for line, want := range map[string]string{
		`access-control-tag: 10.1.0.0/16`:                    "words are missing",
		`access-control-tag: nowhere "kids"`:                 "nowhere",
		`access-control-tag-action: 10.1.0.0/16 kids dance`:  "dance is not a kind of zone",
		`access-control-tag-action: 10.1.0.0/16 kids`:        "words are missing",
		`local-zone-override: "a.example." 10.1.0.0/16`:      "words are missing",
		`local-zone-override: "a.example." 10.1.0.0/16 jump`: "jump is not a kind of zone",
	} {
		dir := importertest.Folder(t, map[string]string{"unbound.conf": "server:\n\tinterface: 127.0.0.1@5300\n\taccess-control: 10.0.0.0/8 allow\n\t" + line + "\n"})
		_, r := importertest.Run(t, "unbound", Import, dir)
		var text strings.Builder
		if err := r.Text(&text); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("%s: %v, the report lacks %q:\n%s", line, err, want, text.String())
		}
	}
}

// A certificate that does not fit its key, or is not there, opens no port for TLS unsaid.
func TestACertificateThatCannotBeUsedIsReported(t *testing.T) {
	dir := importertest.Folder(t, map[string]string{
		"unbound.conf": "server:\n\tinterface: 127.0.0.1@5300\n\tinterface: 127.0.0.1@853\n\ttls-port: 853\n\ttls-service-key: \"server.key\"\n\ttls-service-pem: \"server.pem\"\n\taccess-control: 10.0.0.0/8 allow\n",
		"server.pem":   "no certificate", "server.key": "no key"})
	settings, r := importertest.Run(t, "unbound", Import, dir)
	var text strings.Builder
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "they cannot be used") {
		t.Errorf("%v, the report does not name the certificate:\n%s", err, text.String())
	}
	if strings.Contains(settings, "cert:") {
		t.Errorf("the settings use the certificate:\n%s", settings)
	}
}
