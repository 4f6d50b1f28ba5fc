package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"go.yaml.in/yaml/v4"

	"shuultuur/admin/backup"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/intercept"
	"shuultuur/lib/neural/nettest"
	"shuultuur/lib/setting"
	"shuultuur/test/cert"
)

// fileKeys returns the settings keys that name a file of type [setting.File], without the
// names that people choose.
func fileKeys(t reflect.Type, at string, above []reflect.Type, add func(key string)) {
	for _, a := range above {
		if a == t {
			return
		}
	}
	above = append(above, t)
	switch {
	case t == reflect.TypeFor[setting.File]():
		add(strings.TrimPrefix(at, "."))
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		fileKeys(t.Elem(), at, above, add)
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			if name == "" || options == "inline" {
				fileKeys(f.Type, at, above, add)
			} else {
				fileKeys(f.Type, at+"."+name, above, add)
			}
		}
	}
}

// someFiles has settings that name files, and the contents of these: text, or a function that
// makes new contents each time.
var someFiles = []struct {
	settings string
	files    map[string]any // string, or func(*testing.T) map[string]string for files that change together
}{
	{`
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0", tls: {cert: door.pem, key: door.key}}
checks:
  phrase: {weighted: [weighted], banned: [banned], exception: [exception]}
  virus: {hashes: hashes}
  icap: {servers: "icaps://127.0.0.1:1/scan", ca: icap.pem}
  picture: {hashes: {known: {file: pictures}}, model: means.onnx}
  signature: {rules: [rules], classes: classes, threshold: threshold, enable: enable, disable: disable, modify: modify, drop: drop}
identity:
  basic: {file: passwords, ldap: {servers: "ldaps://127.0.0.1:1", base: "dc=example", bind: "cn=x", password: y, ca: ldap.pem}}
  kerberos: {keytab: keytab, ldap: {servers: "ldaps://127.0.0.1:1", base: "dc=example", bind: "cn=x", password: y, ca: kerberos.pem}}
  certificates: {ca: clients.pem, crl: clients.crl}
policies: [{name: all, rules: [{name: ends, action: block, extension: ["@extensions"]}]}]
pages: {templates: pages}
intercept: {root: root.pem, trust: [trust.pem]}
fleet:
  bundles: {from: "https://127.0.0.1:1/bundles", key: "RWTlvkTrIdksI30QX6o1G/ZDHhYzLWcXUX9oQG1VWVjWHrgeYmQ1Gb26", ca: fleet.pem, identity: fleet.identity}
  desk: {key: desk.key}
mail: {server: "smtp://127.0.0.1:1", from: filter@school.example, ca: mail.pem, user: filter, token: mail.token}
`, map[string]any{
		"door.pem": pair("door.pem", "door.key"), "door.key": pair("door.pem", "door.key"),
		"weighted": "<word%d><10>\n", "banned": "<bad%d>\n", "exception": "<good%d>\n", "pages/block.html": "<p>no %d",
		"hashes": "%064d\n", "icap.pem": rootOf("icap.pem"), "pictures": "%032d\n", "means.onnx": model, "extensions": "exe%d\n",
		"rules":     "alert http any any -> any any (msg:\"%d\"; content:\"evil%[1]d\"; sid:1; rev:1;)\n",
		"classes":   "config classification: trojan-activity,Number %d,1\n",
		"threshold": "suppress gen_id 1, sig_id %d\n", "enable": "re:number%d\n", "disable": "re:number%d\n", "modify": "re:number%d \"a\" \"b\"\n", "drop": "re:number%d\n",
		"passwords": "anna%d:$2y$04$abcdefghijklmnopqrstuuH6nS6kLXFm3dUTRFJFzWfK5Fq9SWfZO\n",
		"ldap.pem":  rootOf("ldap.pem"), "kerberos.pem": rootOf("kerberos.pem"), "clients.pem": rootOf("clients.pem"), "clients.crl": revoked, "keytab": tickets,
		"fleet.pem": rootOf("fleet.pem"), "fleet.identity": ageIdentity, "desk.key": deskKey,
		"root.pem": makeRoot, "trust.pem": rootOf("trust.pem"), "mail.pem": rootOf("mail.pem"), "mail.token": "token-%d\n",
	}},
	{`
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0", portal: "127.0.0.1:0"}
policies: [{name: all, rules: []}]
checks: {signature: {rules: [more], suricata: suricata.yaml}}
identity: {sign-in: {oidc: {issuer: "https://127.0.0.1:1", client-id: us, ca: oidc.pem}}}
access: {sign-in: {issuer: "https://127.0.0.1:1", client-id: us, ca: access.pem, roles: {owner: [staff]}}}
portal: {name: filter.school.example}
acme: {names: [filter.school.example], directory: "https://127.0.0.1:1/directory", accept-terms: true, root: acme.pem}
events:
  sqlite: events.db
  syslog: {to: "tls://127.0.0.1:1", ca: syslog.pem}
  otlp: {to: "https://127.0.0.1:1", traces: "https://127.0.0.1:1", ca: otlp.pem}
  kafka: {to: "127.0.0.1:1", topic: web, tls: true, ca: kafka.pem}
state: {redis: {addresses: ["127.0.0.1:1"], tls: {ca: state.pem, cert: state-own.pem, key: state-own.key}}}
votes:
  listen: "127.0.0.1:0"
  tls: {cert: votes.pem, key: votes.key}
  redis: {addresses: ["127.0.0.1:1"], tls: {ca: stream.pem, cert: stream-own.pem, key: stream-own.key}}
dns:
  listen: ["127.0.0.1:0"]
  tls: ["127.0.0.1:0"]
  cert: names.pem
  key: names.key
  hosts-files: [hosts]
  forward: {upstreams: ["tls://127.0.0.1:1#names.example"], ca: forward.pem}
  zones:
    tsig: [{name: transfer, secret-file: secret}]
`, map[string]any{
		"suricata.yaml": "%%YAML 1.1\n---\nvars:\n  address-groups:\n    HOME_NET: \"[10.0.%d.0/24]\"\n",
		"more":          "alert http any any -> any any (msg:\"%d\"; content:\"evil\"; sid:1; rev:1;)\n",
		"oidc.pem":      rootOf("oidc.pem"), "access.pem": rootOf("access.pem"), "acme.pem": rootOf("acme.pem"), "syslog.pem": rootOf("syslog.pem"), "otlp.pem": rootOf("otlp.pem"), "kafka.pem": rootOf("kafka.pem"),
		"state.pem": rootOf("state.pem"), "state-own.pem": pair("state-own.pem", "state-own.key"), "state-own.key": pair("state-own.pem", "state-own.key"),
		"votes.pem": pair("votes.pem", "votes.key"), "votes.key": pair("votes.pem", "votes.key"),
		"stream.pem": rootOf("stream.pem"), "stream-own.pem": pair("stream-own.pem", "stream-own.key"), "stream-own.key": pair("stream-own.pem", "stream-own.key"),
		"names.pem": pair("names.pem", "names.key"), "names.key": pair("names.pem", "names.key"),
		"hosts": "192.0.2.%d host.example\n", "forward.pem": rootOf("forward.pem"),
		"secret": "c2VjcmV0LXNlY3JldC1zZWNyZXQ%d\n",
	}},
	{`
listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0"}
policies: [{name: all, rules: []}]
dns:
  listen: ["127.0.0.1:0"]
  zones: {secondary: [{zone: other.example, primaries: [{address: "127.0.0.1:1", tls: primary.example, ca: primary.pem}]}]}
  redis: {addresses: ["127.0.0.1:1"], tls: {ca: primary.pem, cert: zones.pem, key: zones.key}}
`, map[string]any{ // each reload waits for these zones, which no server has
		"primary.pem": func(t *testing.T, n int) map[string]string {
			all := rootOf("primary.pem")(t, n)
			maps.Copy(all, pair("zones.pem", "zones.key")(t, n))
			return all
		},
	}},
}

type maker = func(t *testing.T, n int) map[string]string

func ageIdentity(t *testing.T, _ int) map[string]string {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"fleet.identity": id.String() + "\n"}
}

func deskKey(t *testing.T, _ int) map[string]string {
	t.Helper()
	_, key, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"desk.key": string(text)}
}

// pair makes a certificate and its key.
func pair(certificate, key string) maker {
	return func(t *testing.T, _ int) map[string]string {
		c, k := cert.Files(t, t.TempDir(), "gateway.example")
		return map[string]string{certificate: read(t, c), key: read(t, k)}
	}
}

func rootOf(name string) maker {
	return func(t *testing.T, _ int) map[string]string {
		c, _ := cert.Files(t, t.TempDir(), "authority.example")
		return map[string]string{name: read(t, c)}
	}
}

// revoked makes a list of an authority below those of the clients.
func revoked(t *testing.T, n int) map[string]string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	by := &x509.Certificate{Subject: pkix.Name{CommonName: "below"}, SubjectKeyId: []byte{1}, KeyUsage: x509.KeyUsageCRLSign}
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(int64(n)), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}, by, key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"clients.crl": string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))}
}

func makeRoot(t *testing.T, _ int) map[string]string {
	r, err := intercept.NewRoot(intercept.RootConfig{Name: "School"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "root.pem")
	if err := r.Write(file, true); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"root.pem": read(t, file)}
}

func model(_ *testing.T, n int) map[string]string {
	return map[string]string{"means.onnx": string(nettest.Means(32)), "means.onnx.yaml": fmt.Sprintf("name: means%d\nsize: 32x32\nstd: [255, 255, 255]\nlabels: [red, green]\nthresholds: {red: 0.5}\n", n)}
}

func tickets(t *testing.T, n int) map[string]string {
	k := keytab.New()
	if err := k.AddEntry("HTTP/proxy.example", "SCHOOL.EXAMPLE", fmt.Sprint("secret", n), time.Unix(int64(n), 0), uint8(n), 18); err != nil {
		t.Fatal(err)
	}
	b, err := k.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"keytab": string(b)}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// write writes a file with content number n, and the files that change with it.
func write(t *testing.T, dir, name string, content any, n int) {
	t.Helper()
	all := map[string]string{}
	switch c := content.(type) {
	case string:
		all[name] = fmt.Sprintf(c, n)
	case maker:
		all = c(t, n)
	}
	for name, text := range all {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryFileThatSettingsNameIsFollowed changes, breaks and repairs each file of [someFiles].
// Their settings use every key that names a file.
func TestEveryFileThatSettingsNameIsFollowed(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{}
	fileKeys(reflect.TypeFor[configuration.Settings](), "", nil, func(key string) { missing[key] = true })
	if len(missing) < 40 {
		t.Errorf("found only %d keys that name files", len(missing))
	}
	for i, tt := range someFiles {
		var settings any
		if err := yaml.Unmarshal([]byte(tt.settings), &settings); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(missing, func(key string, _ bool) bool { return has(settings, strings.Split(key, ".")) })
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, name := range slices.Sorted(maps.Keys(tt.files)) {
				write(t, dir, name, tt.files[name], 1)
			}
			write(t, dir, "shuultuur.yaml", maker(func(*testing.T, int) map[string]string { return map[string]string{"shuultuur.yaml": tt.settings} }), 0)
			g, err := New(t.Context(), filepath.Join(dir, "shuultuur.yaml"), slog.New(slog.NewTextHandler(t.Output(), nil)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = g.close() })
			remembers := func() []any {
				e := g.engine.Load()
				return []any{e.State, e.Events, e.Votes, e.Sessions}
			}
			before := remembers()
			for _, name := range slices.Sorted(maps.Keys(tt.files)) {
				follow(t, g, dir, name, tt.files[name])
			}
			if !slices.Equal(remembers(), before) {
				t.Error("changed files replaced the state, the record, the votes or the sessions")
			}
			whatBackupsKnow(t, g.engine.Load().Settings)
		})
	}
	for key := range missing {
		t.Errorf("no settings of this test name a file at %s", key)
	}
}

// whatBackupsKnow reports files of the data folder, but events, of which backups do not say what they are.
func whatBackupsKnow(t *testing.T, s *configuration.Settings) {
	t.Helper()
	err := filepath.WalkDir(string(s.Data), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "events.") {
			return err
		}
		name, err := filepath.Rel(string(s.Data), file)
		if backup.Kept(filepath.ToSlash(name)) == "" {
			t.Errorf("%s has no row in the table of admin/backup", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// follow changes, breaks and repairs one file.
func follow(t *testing.T, g *Gateway, dir, name string, content any) {
	t.Helper()
	before := g.engine.Load().Revision
	write(t, dir, name, content, 2)
	if err := g.Reload(t.Context()); err != nil {
		t.Errorf("reloading after %s changed: %v", name, err)
	}
	changed := g.engine.Load()
	if changed.Revision == before {
		t.Errorf("nothing was rebuilt after %s changed", name)
	}
	if all := ours(changed); all != nil {
		t.Errorf("faults after %s changed: %v", name, all)
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(t.Context()); err != nil {
		t.Errorf("a missing %s keeps other parts from being rebuilt: %v", name, err)
	}
	if all := ours(g.engine.Load()); len(all) == 0 && name != "pages/block.html" { // without it the built-in page is used
		t.Errorf("no fault is reported although %s is missing", name)
	}
	write(t, dir, name, content, 3)
	if err := g.Reload(t.Context()); err != nil {
		t.Errorf("reloading after %s was repaired: %v", name, err)
	}
	if all := ours(g.engine.Load()); all != nil {
		t.Errorf("faults after %s was repaired: %v", name, all)
	}
}

// ours returns the faults except those of servers that are not running.
func ours(e *engine.Engine) (all []error) {
	return slices.DeleteFunc(e.Faults(), func(err error) bool { return strings.Contains(err.Error(), "127.0.0.1:1:") })
}

// has reports whether settings have a key, without the names that people choose.
func has(settings any, key []string) bool {
	switch s := settings.(type) {
	case []any:
		return slices.ContainsFunc(s, func(s any) bool { return has(s, key) })
	case map[string]any:
		if len(key) == 0 {
			return true
		}
		if v, ok := s[key[0]]; ok && has(v, key[1:]) {
			return true
		}
		for _, v := range s {
			if m, ok := v.(map[string]any); ok && has(m, key) {
				return true
			}
		}
		return false
	}
	return len(key) == 0
}
