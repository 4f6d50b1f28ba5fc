package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"shuultuur/admin/account"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/event/record"
	"shuultuur/intercept"
	"shuultuur/lib/datadir"
	"shuultuur/test/race"
)

// used makes a folder that a gateway has used, with the settings, keys, accounts, lists and logs
// beside each other, and returns its settings file.
func used(t *testing.T) string {
	t.Helper()
	file := folder(t, map[string]string{
		"shuultuur.yaml":       "lists: {own: {format: domains, path: own.txt}}\nintercept: {root: root.pem}\npolicies: [{name: all, rules: []}]\n",
		"own.txt":              "bet.example\n",
		"shuultuur.yaml.saved": "#!/bin/sh\nexit 0\n",
		"empty":                "",
		"binary":               "\x7fELF\x02\x01\x01\x00 no line ends here",
		"access.log":           "1767225600.123    180 10.1.2.3 TCP_MISS/200 4711 GET http://example.com/ - HIER_DIRECT/192.0.2.1 text/html\n1767225601.1",
		"words":                "<casino><50>\n",
		"users":                "anna:$2y$05$abcdefghijklmnopqrstuv\n",
	})
	dir := filepath.Dir(file)
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Write(filepath.Join(dir, "root.pem"), false); err != nil {
		t.Fatal(err)
	}
	s, err := configuration.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	held, err := datadir.Open(string(s.Data))
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	r, err := record.Open(s.Events, record.Parts{Data: string(s.Data), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := r.Run(stopped); err != nil {
		t.Fatal(err)
	}
	book, err := account.Open(account.Folder(string(s.Data)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Add("olga", account.Owner, nil, ""); err != nil {
		t.Fatal(err)
	}
	if err := account.NewLog(account.Folder(string(s.Data))).Add(account.Entry{By: "olga", Action: "test"}); err != nil {
		t.Fatal(err)
	}
	return file
}

// tree describes all files below a folder: mode, time and content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum := [sha256.Size]byte{}
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum = sha256.Sum256(text)
		}
		all[path] = fmt.Sprintf("%v %d %v %x", info.Mode(), info.Size(), info.ModTime(), sum[:8])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// pathKeys are settings that name a file or folder, with PATH in its place.
var pathKeys = []string{
	"events: {sqlite: PATH}", "events: {jsonl: PATH}", "events: {squid: PATH}", "events: {dansguardian: PATH}", "events: {jsonl: PATH, squid: PATH, anonymise: 1d}",
	"events: {parquet: {to: PATH}}", "events: {parquet: {to: PATH}, spool: 1MiB}",
	"data: PATH", "cache: {folder: PATH, disk: 100MiB}", "state: {file: PATH}", "listen: {squid: PATH}", "pages: {templates: PATH}",
	"votes: {store: PATH, listen: 127.0.0.1:0}", "identity: {basic: {file: PATH}}", "identity: {names: {leases: [PATH]}}", "intercept: {root: PATH}", "intercept: {root: root.pem, trust: [PATH]}",
	"checks: {phrase: {weighted: [PATH]}}", "checks: {signature: {rules: [PATH]}}", "checks: {picture: {hashes: {x: {file: PATH, type: pdq, locked: true}}}}",
	"lists: {own: {format: domains, path: PATH}}", "lists: {new: {format: urls, path: PATH, category: x}}",
	"dns: {zones: {files: [{path: PATH}]}}", "dns: {zones: {folder: PATH, files: [{path: PATH}], sign: [{zones: [example], keys: [PATH]}]}}", "dns: {zones: {folder: PATH}, listen: 127.0.0.1:0}",
	"listen: {tls: {cert: PATH, key: PATH}}", "alerts: {}",
	"state: {file: accounts/../PATH}", "checks: {virus: {clamd: PATH, hashes: [PATH]}}", "checks: {phrase: {banned: [PATH], exception: [PATH]}}", "checks: {picture: {model: PATH}}",
	"checks: {signature: {rules: [own.txt], classes: PATH, threshold: PATH, enable: PATH, disable: PATH, modify: PATH, drop: PATH, suricata: PATH}}",
	"dns: {listen: 127.0.0.1:0, hosts-files: [PATH], forward: {upstreams: [127.0.0.1], ca: PATH, trust-anchors: [PATH]}}", "identity: {kerberos: {keytab: PATH}}", "identity: {certificates: {ca: PATH, crl: [PATH]}, names: {hosts: [PATH]}}",
	"mail: {server: 'smtp://127.0.0.1:1', from: x@x.example, ca: PATH}", "mail: {server: 'smtp://127.0.0.1:1', from: x@x.example, user: x, token: PATH}",
	"fleet: {desk: {to: PATH, key: PATH}}", "fleet: {desk: {key: PATH}}",
	"fleet: {bundles: {from: PATH, key: RWQBAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICEiIyQlJico, identity: PATH, takes: [lists]}}",
	"fleet: {bundles: {from: 'https://127.0.0.1:1', key: RWQBAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICEiIyQlJico, ca: PATH}}",
	"acme: {names: [filter.school.example], directory: 'https://127.0.0.1:1/directory', accept-terms: true, root: PATH}",
	"access: {sign-in: {issuer: 'https://127.0.0.1:1', client-id: us, ca: PATH, roles: {owner: [staff]}}}", "identity: {sign-in: {oidc: {issuer: 'https://127.0.0.1:1', client-id: us, ca: PATH}}}",
	"identity: {basic: {ldap: {servers: ['ldaps://127.0.0.1:1'], base: dc=x, ca: PATH}}}",
	"events: {syslog: {to: 'tls://127.0.0.1:1', ca: PATH}}", "events: {otlp: {to: 'https://127.0.0.1:1', ca: PATH}}", "events: {kafka: {to: '127.0.0.1:1', topic: web, tls: true, ca: PATH}}",
	"identity: {kerberos: {keytab: PATH, ldap: {servers: ['ldaps://127.0.0.1:1'], base: dc=x, ca: PATH}}}",
	"state: {redis: {addresses: ['127.0.0.1:1'], tls: {ca: PATH, cert: PATH, key: PATH}}}", "dns: {listen: 127.0.0.1:0, redis: {addresses: ['127.0.0.1:1'], tls: {ca: PATH, cert: PATH, key: PATH}}}",
	"votes: {listen: 127.0.0.1:0, redis: {addresses: ['127.0.0.1:1'], tls: {ca: PATH, cert: PATH, key: PATH}}}",
	"votes: {listen: 127.0.0.1:0, tls: {cert: PATH, key: PATH}}",
	"checks: {icap: {servers: 'icaps://127.0.0.1:1/x', ca: PATH}}",
	"dns: {listen: 127.0.0.1:0, tls: 127.0.0.1:0, cert: PATH, key: PATH, dnstap: PATH}", "dns: {listen: 127.0.0.1:0, dnstap: 'unix:PATH'}",
	"dns: {listen: 127.0.0.1:0, zones: {tsig: [{name: transfer, secret-file: PATH}], secondary: [{zone: other.example, primaries: [{address: '127.0.0.1:1', tls: primary.example, ca: PATH}]}]}}",
}

// TestEveryKeyOfAFileIsChecked: whoever adds a key that names a file adds it to pathKeys.
func TestEveryKeyOfAFileIsChecked(t *testing.T) {
	missing := map[string]bool{}
	fileKeys(reflect.TypeFor[configuration.Settings](), "", nil, func(key string) { missing[key] = true })
	for _, line := range pathKeys {
		var settings any
		if err := yaml.Unmarshal([]byte(line), &settings); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		maps.DeleteFunc(missing, func(key string, _ bool) bool { return has(settings, strings.Split(key, ".")) })
	}
	for key := range missing {
		t.Errorf("no line of pathKeys names a file at %s", key)
	}
}

// TestACheckChangesNoFile: settings may name any file under any key. Whoever checks them, explains a
// request by them or looks at their effect changes, creates and removes nothing.
func TestACheckChangesNoFile(t *testing.T) {
	race.Without(t)
	file := used(t)
	dir := filepath.Dir(file)
	own := folder(t, map[string]string{"shuultuur.yaml": "listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\npolicies: [{name: all, rules: []}]\n"})
	g, err := New(t.Context(), own, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		_ = g.Run(ctx)
	}()
	want := tree(t, dir)
	paths := slices.Collect(maps.Keys(want))
	paths = append(paths, filepath.Join(dir, "new"), filepath.Join(dir, "none", "new"), filepath.Join(dir, "data", "new"))
	aside := filepath.Join(t.TempDir(), "aside.yaml") // has no data folder
	for _, key := range pathKeys {
		for _, path := range paths {
			text := strings.ReplaceAll(key, "PATH", path) + "\npolicies: [{name: all, rules: []}]\n"
			for _, where := range []string{file, aside} {
				s, err := configuration.Parse(where, []byte(text))
				if err != nil {
					t.Fatal(err) // each line is written as the settings are
				}
				if _, done, err := engine.Try(t.Context(), s); err == nil {
					done()
				}
			}
			_ = g.checkText(t.Context(), []byte(text))
		}
		now := tree(t, dir)
		for path, is := range now {
			if is != want[path] {
				t.Errorf("checking %s\n%s is  %s\nand was %s", key, path, is, want[path])
			}
		}
		for path := range want {
			if _, ok := now[path]; !ok {
				t.Errorf("checking %s removed %s", key, path)
			}
		}
		if all, _ := os.ReadDir(filepath.Dir(aside)); len(all) > 0 {
			t.Errorf("checking %s beside no data folder created %v", key, all)
		}
		if !maps.Equal(now, want) {
			return // the tree is another one now
		}
	}
}

// TestARunTakesOnlyItsOwnLogs: a gateway does not start with a log that is something else, and
// leaves that as it is.
func TestARunTakesOnlyItsOwnLogs(t *testing.T) {
	file := used(t)
	dir := filepath.Dir(file)
	want := tree(t, dir)
	for _, kind := range []string{"sqlite", "jsonl", "squid", "dansguardian"} {
		for path := range want {
			info, err := os.Stat(path)
			name := filepath.Base(path)
			if err != nil || info.IsDir() || info.Size() == 0 || kind == "sqlite" && strings.HasPrefix(name, "events.db") || kind == "squid" && name == "access.log" {
				continue
			}
			s, err := configuration.Parse(file, []byte("events: {"+kind+": "+path+"}\n"))
			if err != nil {
				t.Fatal(err)
			}
			r, err := record.Open(s.Events, record.Parts{Data: string(s.Data), Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				t.Errorf("%s is opened as a log of the kind %s", path, kind)
				r.Close()
			} else if !strings.Contains(err.Error(), "name another file") {
				t.Errorf("%s as a log of the kind %s: %v, want what to do", path, kind, err)
			}
			if now := tree(t, dir); !maps.Equal(now, want) {
				t.Fatalf("opening %s as a log of the kind %s changed a file", path, kind)
			}
		}
	}
}
