package configuration

import (
	"regexp"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

// notSecret are keys that sound like secrets, and what they have.
var notSecret = map[string]string{
	"checks.signature.sources.key":      "a public key",
	"dns.key":                           "a file",
	"dns.redis.tls.key":                 "a file",
	"dns.zones.allow.key":               "the name of a key",
	"dns.zones.notify.key":              "the name of a key",
	"dns.zones.secondary.primaries.key": "the name of a key",
	"dns.zones.sign.keys":               "files",
	"dns.zones.tsig.secret-file":        "a file",
	"identity.kerberos.keytab":          "a file",
	"lists.key":                         "a public key",
	"listen.tls.key":                    "a file",
	"state.redis.tls.key":               "a file",
	"votes.redis.tls.key":               "a file",
	"votes.tls.key":                     "a file",
}

// free are secrets that others than owners may replace, and why.
var free = map[string]string{
	"checks.signature.sources.signature": "the placeholder stands for the whole URL",
	"checks.signature.sources.url":       "the placeholder stands for the whole URL",
	"lists.signature":                    "the placeholder stands for the whole URL",
	"lists.url":                          "the placeholder stands for the whole URL",
	"proxy.parent":                       "the placeholder stands for the whole URL",
}

// TestSecretsAndTheirServersAreForOwners: who may change the server of a secret would be sent it.
func TestSecretsAndTheirServersAreForOwners(t *testing.T) {
	sounds := regexp.MustCompile(`pass|secret|token|key`)
	known := map[string]setting.Key{}
	for _, k := range setting.Keys(&Settings{}) {
		known[k.Path] = k
		last := k.Path[strings.LastIndexByte(k.Path, '.')+1:]
		if !k.Group && sounds.MatchString(last) && (k.Secret == "") != (notSecret[k.Path] != "") {
			t.Errorf("%s: tag its field secret:\"yes\", or say here what else it has (now: %q)", k.Path, notSecret[k.Path])
		}
		if !k.Group && k.Secret != "" && (k.Role == "") != (free[k.Path] != "") {
			t.Errorf("%s: tag its group role:\"owner\", or say here why not (now: %q)", k.Path, free[k.Path])
		}
	}
	for _, all := range []map[string]string{notSecret, free} {
		for path := range all {
			if _, ok := known[path]; !ok {
				t.Errorf("%s is not a key any more", path)
			}
		}
	}
	for _, path := range []string{"access.two-people", "access.sign-in.roles", "listen.admin", "listen.token", "events.jsonl", "events.squid", "events.sqlite", "events.parquet.to", "state.redis.addresses", "identity.sign-in.oidc.issuer"} {
		if known[path].Role != "owner" {
			t.Errorf("%s gives power, and everyone with the role operator may change it", path)
		}
	}
}
