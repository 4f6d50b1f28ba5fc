package test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"shuultuur/intercept"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/cert"
	"shuultuur/test/peer"
)

// apacheSettings are those of an origin that signs people in by SPNEGO, once for each connection, as IIS does.
const apacheSettings = `
ServerName localhost
ServerRoot DIR
PidFile DIR/apache.pid
ErrorLog DIR/apache.log
DefaultRuntimeDir DIR
Listen 127.0.0.1:PORT https
LoadModule mpm_event_module MODULES/mod_mpm_event.so
LoadModule authn_core_module MODULES/mod_authn_core.so
LoadModule authz_core_module MODULES/mod_authz_core.so
LoadModule authz_user_module MODULES/mod_authz_user.so
LoadModule auth_gssapi_module MODULES/mod_auth_gssapi.so
LoadModule headers_module MODULES/mod_headers.so
LoadModule ssl_module MODULES/mod_ssl.so
SSLEngine on
SSLCertificateFile DIR/cert.pem
SSLCertificateKeyFile DIR/key.pem
KeepAlive On
MaxKeepAliveRequests 0
DocumentRoot DIR/pages
<Location />
	AuthType GSSAPI
	AuthName school
	GssapiCredStore keytab:DIR/keytab
	GssapiConnectionBound On
	Require valid-user
	Header always set X-User "expr=%{REMOTE_USER}"
</Location>
`

func TestPeopleWhoSignInWithTicketsAtAnOriginAreNotMixedUp(t *testing.T) {
	t.Parallel()
	apache := peer.Program(t, "apache2")
	const modules = "/usr/lib/apache2/modules"
	if _, err := os.Stat(modules + "/mod_auth_gssapi.so"); err != nil {
		t.Skip("Apache's mod_auth_gssapi is not installed")
	}
	k := newKDC(t)
	k.run(t, "", "kadmin.local", "-q", "addprinc -pw secret bert")
	caches := map[string]string{}
	for _, name := range []string{"anna", "bert"} {
		caches[name] = "FILE:" + k.dir + "/" + name
		k.run(t, "secret\n", "kinit", "-c", caches[name], name)
	}

	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"keytab", "krb5.conf"} {
		b, err := os.ReadFile(filepath.Join(k.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		put(name, string(b))
	}
	cert.Files(t, dir, "localhost")
	if err := os.Mkdir(filepath.Join(dir, "pages"), 0o755); err != nil {
		t.Fatal(err)
	}
	put("pages/index.html", "<p>The register of the school.")
	for d := dir; d != filepath.Dir(os.TempDir()) && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil { // Apache's workers have a user of their own
			t.Fatal(err)
		}
	}
	port := peer.Port(t)
	conf := strings.NewReplacer("DIR", dir, "PORT", port, "MODULES", modules).Replace(apacheSettings)
	if os.Getuid() == 0 {
		conf += "User nobody\nGroup nogroup\n"
	}
	put("apache.conf", conf)
	cmd := peer.Command(t, apache, "-X", "-f", dir+"/apache.conf")
	cmd.Env = append(k.env, "KRB5_CONFIG="+dir+"/krb5.conf")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	waittest.Until(t, "Apache", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})

	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Write(filepath.Join(dir, "root.pem"), false); err != nil {
		t.Fatal(err)
	}
	export, err := root.Export("pem", "")
	if err != nil {
		t.Fatal(err)
	}
	put("client-root.pem", string(export))
	g := runGateway(t, dir, `
listen: {proxy: 127.0.0.1:0, admin: off}
data: data
proxy: {private: [127.0.0.0/8, "::1/128"], connect-ports: [any]}
intercept: {root: root.pem, trust: [cert.pem]}
policies: [{name: everyone, decrypt: true, rules: []}]
`)
	curl := func(who string, args ...string) string {
		all := append([]string{"-s", "--noproxy", "", "-x", "http://" + g.ProxyAddr(), "--cacert", dir + "/client-root.pem", "-o", "/dev/null", "-w", "%{http_code} %header{x-user}\n"}, args...)
		cmd := peer.Command(t, "curl", all...)
		cmd.Env = append(slices.Clip(k.env), "KRB5CCNAME="+caches[who])
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	url := "https://localhost:" + port + "/index.html"
	if got := curl("", url); !strings.HasPrefix(got, "401 ") {
		log, _ := os.ReadFile(dir + "/apache.log")
		t.Fatalf("without a ticket: %q, want 401; Apache says: %s", got, log)
	}
	var all sync.WaitGroup
	for who := range caches {
		for range 2 {
			all.Go(func() {
				for range 5 {
					want := strings.Repeat(fmt.Sprintf("200 %s@SCHOOL.EXAMPLE\n", who), 2)
					if got := curl(who, "--negotiate", "-u", ":", url, "-o", "/dev/null", url); got != want {
						t.Errorf("%s signed in twice: %q, want %q", who, got, want)
					}
					if got := curl("", url); !strings.HasPrefix(got, "401 ") {
						t.Errorf("a stranger after %s: %q, want 401", who, got)
					}
				}
			})
		}
	}
	all.Wait()
	if t.Failed() {
		log, _ := os.ReadFile(dir + "/apache.log")
		t.Logf("Apache says: %s", log)
	}
}
