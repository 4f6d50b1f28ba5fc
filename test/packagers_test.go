package test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/intercept"
	"shuultuur/test/peer"
)

// A packager is a package manager and what it fetches from its public registry.
type packager struct {
	program string
	script  string // fetches into the current folder, which is empty
	files   string // suffix of what must be the same
}

var packagers = []packager{
	{"pip", `pip download --quiet --isolated --no-deps --no-cache-dir --disable-pip-version-check --cert "$ROOTS" ${PROXY:+--proxy "$PROXY"} --index-url https://pypi.org/simple six==1.16.0 idna==3.7 Jinja2==3.1.4`, ""},
	{"npm", `npm pack --silent --registry https://registry.npmjs.org --cafile "$ROOTS" --cache "$HOME/npm" is-odd@3.0.1 express@4.19.2 typescript@5.4.5`, ".tgz"},
	{"go", `GOSUMDB=off GOFLAGS=-modcacherw GOTOOLCHAIN=local GOPROXY=https://proxy.golang.org GOMODCACHE="$PWD" GOENV=off SSL_CERT_FILE="$ROOTS" go mod download golang.org/x/text@v0.20.0 golang.org/x/net@v0.30.0`, ".zip"},
	{"cargo", `mkdir src && : >src/lib.rs && printf '[package]\nname="p"\nversion="0.1.0"\nedition="2021"\n[dependencies]\nserde="=1.0.200"\nregex="=1.10.4"\n' >Cargo.toml &&
CARGO_HOME="$PWD/home" CARGO_HTTP_CAINFO="$ROOTS" CARGO_HTTP_PROXY="$PROXY" cargo fetch --quiet`, ".crate"},
	{"apt-get", `apt-get download -q -o Debug::NoLocking=1 ${PROXY:+-o Acquire::http::Proxy="$PROXY" -o Acquire::https::Proxy="$PROXY"} -o Acquire::https::CaInfo="$ROOTS" hello sl`, ".deb"},
}

// TestPackageManagersGetTheSameFiles has package managers fetch from their registries, directly and through
// the gateway, which decrypts and judges everything by the words of e2guardian's lists.
func TestPackageManagersGetTheSameFiles(t *testing.T) {
	t.Parallel()
	peer.NotQuick(t, "package registries")
	h := newHouse(t, nil)
	dir := filepath.Dir(h.file)
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err == nil {
		err = root.Write(filepath.Join(dir, "root.pem"), false)
	}
	if err != nil {
		t.Fatal(err)
	}
	own, err := root.Export("pem", "")
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Skipf("this system keeps the certificates of public authorities elsewhere: %v", err)
	}
	h.write("roots.pem", string(public)+string(own))
	words := "{weighted: [weighted], compat: modern}"
	if lists := "/etc/e2guardian/lists/"; exec.Command("test", "-e", lists+"weightedphraselist").Run() == nil {
		words = fmt.Sprintf("{weighted: [%[1]sweightedphraselist], banned: [%[1]sbannedphraselist], exception: [%[1]sexceptionphraselist], compat: modern}", lists)
	}
	h.write("shuultuur.yaml", fmt.Sprintf(`
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
checks: {phrase: %s}
intercept: {root: root.pem}
cache: {memory: 64MiB}
policies:
  - {name: readers, decrypt: true, rules: [{name: bad words, action: block, category: [phrase], over: 100}]}
`, words))
	h.restart()
	for _, p := range packagers {
		t.Run(p.program, func(t *testing.T) {
			t.Parallel()
			peer.Program(t, p.program)
			fetch := func(proxy string) (map[string][32]byte, error) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				to := t.TempDir()
				run := exec.CommandContext(ctx, "sh", "-euc", p.script)
				run.Dir = to
				run.WaitDelay = time.Second
				for _, v := range os.Environ() {
					name, _, _ := strings.Cut(strings.ToLower(v), "=")
					if !strings.HasSuffix(name, "_proxy") && !strings.HasSuffix(name, "_ca_bundle") && !strings.HasPrefix(name, "pip_") && !strings.HasPrefix(name, "npm_config") && !strings.HasPrefix(name, "go") {
						run.Env = append(run.Env, v)
					}
				}
				run.Env = append(run.Env, "ROOTS="+filepath.Join(dir, "roots.pem"), "PROXY="+proxy)
				if proxy != "" {
					run.Env = append(run.Env, "http_proxy="+proxy, "https_proxy="+proxy, "HTTPS_PROXY="+proxy)
				}
				if p.program == "npm" {
					run.Env = append(run.Env, "HOME="+t.TempDir())
				}
				if out, err := run.CombinedOutput(); err != nil {
					return nil, fmt.Errorf("%w: %s", err, out)
				}
				files := map[string][32]byte{}
				return files, filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() || !strings.HasSuffix(path, p.files) {
						return err
					}
					b, err := os.ReadFile(path)
					files[d.Name()] = sha256.Sum256(b)
					return err
				})
			}
			direct, err := fetch("")
			if err != nil || len(direct) < 2 {
				t.Skipf("the registry cannot be reached without the gateway: %v", err)
			}
			for _, again := range []bool{false, true} { // then from the cache, where that may keep it
				got, err := fetch("http://" + h.g.ProxyAddr())
				if err != nil {
					t.Fatalf("again %v: %v", again, err)
				}
				for name, sum := range direct {
					if got[name] != sum {
						t.Errorf("again %v: %s differs, or is missing", again, name)
					}
				}
				if len(got) != len(direct) {
					t.Errorf("again %v: %d files, %d without the gateway", again, len(got), len(direct))
				}
			}
		})
	}
}
