package opnsense

import (
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/tool/importer/importertest"
)

func TestWhatIsMadeOfAConfiguration(t *testing.T) {
	importertest.Golden(t, "opnsense", Import, Rules)
}

// TestTheSectionOfOlderVersionsIsRead: before OPNsense 21 the name server had a section and names of
// its own, and was switched on by elements that are merely there.
func TestTheSectionOfOlderVersionsIsRead(t *testing.T) {
	const system = "<system><domain>lan.example</domain><dnsserver>9.9.9.9</dnsserver></system>"
	const hosts = "<hosts><host>nas</host><domain>lan.example</domain><rr>A</rr><ip>192.168.1.9</ip><descr>Disk</descr><aliases><item><host>disk</host><domain>lan.example</domain></item></aliases></hosts>" +
		"<hosts><host>*</host><domain>wild.example</domain><rr>A</rr><ip>192.168.1.10</ip></hosts>"
	for name, tt := range map[string]struct {
		unbound    string
		has, lacks []string
		status     int
	}{
		"all of it": {
			unbound: "<enable>1</enable><port>5353</port><dnssec>1</dnssec><forwarding/>" + hosts + "<domainoverrides><domain>corp.example</domain><ip>10.0.0.53@5353</ip></domainoverrides>" +
				"<acls><acl_name>guests</acl_name><acl_action>deny</acl_action><row><acl_network>192.168.9.0</acl_network><mask>24</mask></row><row><acl_network>2001:db8::</acl_network><mask>32</mask></row></acls>",
			has: []string{":5353", "validate: true", "upstreams: [9.9.9.9]", "nas.lan.example: [192.168.1.9]", "disk.lan.example: [nas.lan.example]", "'*.wild.example': [192.168.1.10]", "corp.example: ['10.0.0.53:5353']", "192.168.9.0/24", "2001:db8::/32"},
		},
		"switched on by being there": {unbound: "<enable/><dnssec/>", has: []string{"validate: true"}, lacks: []string{"upstreams"}},
		"lines of its own":           {unbound: "<enable/><custom_options>c2VydmVyOgogIGxvY2FsLXpvbmU6IGEuZXhhbXBsZSByZWZ1c2UK</custom_options>", has: []string{"listen"}, status: 3},
		"today's beside it": {
			unbound: "<enable/><port>5353</port></unbound><OPNsense><unboundplus><general><port>53</port></general><hosts><host><enabled>1</enabled><hostname>new</hostname><domain>lan.example</domain><rr>A</rr><server>192.168.1.8</server></host></hosts></unboundplus></OPNsense><unbound>" + hosts,
			has:     []string{":53'", "new.lan.example: [192.168.1.8]"}, lacks: []string{"5353"},
		},
	} {
		dir := importertest.Folder(t, map[string]string{"config.xml": "<?xml version=\"1.0\"?>\n<opnsense>" + system + "<unbound>" + tt.unbound + "</unbound></opnsense>"})
		got, r := importertest.Run(t, "opnsense", Import, filepath.Join(dir, "config.xml"))
		for _, want := range tt.has {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", name, want, got)
			}
		}
		for _, not := range tt.lacks {
			if strings.Contains(got, not) {
				t.Errorf("%s: %q in\n%s", name, not, got)
			}
		}
		if r.Status() != tt.status {
			t.Errorf("%s: the status is %d, want %d", name, r.Status(), tt.status)
		}
	}
}
