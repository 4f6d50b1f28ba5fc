package configuration

import (
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

// notPeople are keys that sound as if they named people or clients, and what they have.
var notPeople = map[string]string{
	"access.sign-in.groups":            "the name of a claim",
	"access.sign-in.user":              "names of claims",
	"checks.icap.clients":              "whether clients are named to a server",
	"dns.redis.addresses":              "servers",
	"events.kafka.user":                "the gateway's account",
	"identity.accounting.groups":       "names of attributes",
	"identity.basic.ldap.user":         "the name of an attribute",
	"identity.certificates.groups":     "the name of a part of a certificate",
	"identity.certificates.user":       "names of parts of a certificate",
	"identity.headers.groups":          "names of fields",
	"identity.headers.user":            "names of fields",
	"icap.users":                       "names of fields",
	"icap.groups":                      "names of fields",
	"identity.kerberos.ldap.user":      "the name of an attribute",
	"identity.sign-in.oidc.groups":     "the name of a claim",
	"identity.sign-in.oidc.user":       "names of claims",
	"mail.user":                        "the gateway's account",
	"policies.tenants.microsoft.allow": "organisations",
	"policies.tenants.slack.allow":     "organisations",
	"state.redis.addresses":            "servers",
	"votes.redis.addresses":            "servers",
}

func TestKeysThatNamePeopleSaySo(t *testing.T) {
	sounds := strings.Fields("addresses client clients client-ids user users person group groups who whom as mail networks monitors purge allow deny recursion members")
	known := map[string]bool{}
	for _, k := range setting.Keys(&Settings{}) {
		last := k.Path[strings.LastIndexByte(k.Path, '.')+1:]
		known[k.Path] = true
		why := notPeople[k.Path]
		switch {
		case k.Group || !slices.Contains(sounds, last) && why == "":
		case k.People == (why != ""):
			t.Errorf("%s: tag its field names:\"people\", or say here what else it has (now: %q)", k.Path, why)
		}
	}
	for path := range notPeople {
		if !known[path] {
			t.Errorf("%s is not a key any more", path)
		}
	}
}
