package configuration

import (
	"encoding"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

// notSecret are keys that sound like secrets, and what they have.
var notSecret = map[string]string{
	"acme.key":                          "a kind of key",
	"checks.signature.sources.key":      "a public key",
	"dns.key":                           "a file",
	"dns.redis.tls.key":                 "a file",
	"dns.zones.allow.key":               "the name of a key",
	"dns.zones.notify.key":              "the name of a key",
	"dns.zones.update.key":              "the name of a key",
	"dns.zones.secondary.primaries.key": "the name of a key",
	"dns.zones.sign.keys":               "files",
	"dns.zones.tsig.secret-file":        "a file",
	"identity.kerberos.keytab":          "a file",
	"lists.key":                         "a public key",
	"listen.tls.key":                    "a file",
	"mail.token":                        "a file",
	"fleet.bundles.key":                 "a public key",
	"fleet.desk.key":                    "a file",
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

// operators are the keys that everyone with the role operator may change, with those below them, and
// why that gives no power that the role does not have. The longest that fits counts.
var operators = map[string]string{
	"lists":     "what is blocked is an operator's work; files are bounded by their place",
	"checks":    "what is found is an operator's work; servers that would be sent bodies are an owner's",
	"policies":  "who may do what on the web is an operator's work",
	"identity":  "who is whom decides policies alone; passwords, tickets and sign-in are an owner's",
	"proxy":     "limits, ports and networks of the proxy; who would be sent the traffic is an owner's",
	"cache":     "what is stored; where, and with whom it is shared, are an owner's",
	"icap":      "who may ask, and how much; the addresses are an owner's",
	"pages":     "block pages are templates that can read nothing",
	"intercept": "how long certificates live; the root and whom it trusts are an owner's",
	"votes":     "which votes count; where they are kept, and mail, are an owner's",
	"portal":    "pages of clients; the addresses are an owner's",
	"alerts":    "what is watched for; who hears of it is an owner's",
	"dns":       "names and answers; addresses, keys, and who would be sent the queries are an owner's",
	"updates":   "whether to look for a newer version",
}

// TestEveryKeyHasARoleOrAReason: a new key is an owner's by its tag, or somebody says here why not. Keys
// that show people's browsing are for two.
func TestEveryKeyHasARoleOrAReason(t *testing.T) {
	used := map[string]bool{}
	for _, k := range setting.Keys(&Settings{}) {
		if k.Role != "" {
			continue
		}
		at, found := k.Path, false
		for {
			if found = operators[at] != ""; found {
				used[at] = true
				break
			}
			i := strings.LastIndexByte(at, '.')
			if i < 0 {
				break
			}
			at = at[:i]
		}
		if !found {
			t.Errorf("%s: tag its field role:\"owner\", or say in operators why everyone who may change settings may change it", k.Path)
		}
	}
	for at := range operators {
		if !used[at] {
			t.Errorf("%s is not a key that operators may change any more", at)
		}
	}
	known := map[string]setting.Key{}
	for _, k := range setting.Keys(&Settings{}) {
		known[k.Path] = k
	}
	for _, path := range []string{"access", "access.two-people", "access.urls", "events", "events.sqlite", "listen.token", "alerts.to", "reports", "mail"} {
		if !known[path].Two {
			t.Errorf("%s shows people's browsing, and one person may change it where two are needed to look", path)
		}
	}
}

// TestEachKeyOfPowerIsNoticed sets each key that is an owner's, alone and beside others, and demands
// that the change is seen as one of power.
func TestEachKeyOfPowerIsNoticed(t *testing.T) {
	tried := 0
	for _, k := range setting.Keys(&Settings{}) {
		if k.Role != "owner" || k.Group {
			continue
		}
		tried++
		was, is := &Settings{}, &Settings{}
		if !fill(reflect.ValueOf(is).Elem(), strings.Split(k.Path, ".")) {
			t.Errorf("%s: the test cannot set it", k.Path)
			continue
		}
		if maps.Equal(setting.Powers(was, "owner"), setting.Powers(is, "owner")) {
			t.Errorf("%s can be set without being noticed", k.Path)
		}
		if k.Two && maps.Equal(setting.ForTwo(was), setting.ForTwo(is)) {
			t.Errorf("%s can be set without a second person", k.Path)
		}
	}
	if tried < 100 {
		t.Errorf("%d keys were tried", tried)
	}
}

// fill sets the key at path below v to a value that is not zero, and reports whether it could.
func fill(v reflect.Value, path []string) bool {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return fill(v.Index(0), path)
	case reflect.Map:
		key, of := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if !fill(key, nil) || !fill(of, path) {
			return false
		}
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, of)
		return true
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name, flags, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			switch {
			case strings.Contains(flags, "inline"):
				if fill(v.Field(i), path) {
					return true
				}
			case len(path) > 0 && name == path[0]:
				return fill(v.Field(i), path[1:])
			}
		}
		return len(path) == 0 && fillText(v)
	}
	if len(path) > 0 {
		return false
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	default:
		return fillText(v)
	}
	return true
}

// fillText sets a value that is written as a text.
func fillText(v reflect.Value) bool {
	u, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	if !ok {
		return false
	}
	for _, text := range []string{"192.0.2.0/24", "192.0.2.1", "8h", "mo", "10/1h", "viewer", "x", "1"} {
		if u.UnmarshalText([]byte(text)) == nil {
			return true
		}
	}
	return false
}
