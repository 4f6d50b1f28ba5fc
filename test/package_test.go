package test

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shuultuur/test/peer"
)

// packing is locked while a package is made, because tests that run in parallel share it.
var packing sync.Mutex

// packed builds the program as a release and makes a deb of it, once for each
// version.
func packed(t *testing.T, version string) string {
	t.Helper()
	peer.NotQuick(t, "nfpm")
	packing.Lock()
	defer packing.Unlock()
	dir := filepath.Join(bin, "deb-"+version)
	if debs, _ := filepath.Glob(filepath.Join(dir, "*.deb")); len(debs) == 1 {
		return debs[0]
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	nfpm := findNfpm(t)
	program := filepath.Join(dir, "shuultuur")
	// With the flags of a release, so that the results of test/cross.sh are used.
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.release="+version, "-o", program, "../cmd/shuultuur")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v, %s", err, out)
	}
	if err := os.WriteFile(program+".spdx.json", []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	arch, err := exec.Command("go", "env", "GOARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	pack := exec.Command("sh", "../dist/package.sh", "deb", strings.TrimSpace(string(arch)), version, program, program, dir)
	pack.Env = append(os.Environ(), "NFPM="+nfpm)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("packing: %v, %s", err, out)
	}
	debs, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(debs) != 1 {
		t.Fatalf("nfpm made %q, want one deb", debs)
	}
	return debs[0]
}

// findNfpm returns the command that packs.
func findNfpm(t *testing.T) string {
	t.Helper()
	nfpm := os.Getenv("NFPM")
	if nfpm == "" {
		nfpm = "go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4"
		if out, err := exec.Command("sh", "-c", nfpm+" --version").CombinedOutput(); err != nil {
			t.Skipf("nfpm cannot be run (set NFPM to the command): %v, %.300s", err, out)
		}
	}
	return nfpm
}

// TestPackagesOfOpenWrt: an ipk and an apk for each name of the processor. Both keep the settings and the data
// over a new image; the apk tells its scripts its name and lists its files, since the service is found by
// these, and after an upgrade the service is started anew if the new program serves with the settings.
func TestPackagesOfOpenWrt(t *testing.T) {
	t.Parallel()
	peer.NotQuick(t, "nfpm")
	out := t.TempDir()
	program := filepath.Join(t.TempDir(), "shuultuur")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	pack := exec.Command("sh", "dist/openwrt/package.sh", "1.2.3-rc.1", "arm64", program, out)
	pack.Dir, pack.Env = "..", append(os.Environ(), "NFPM="+findNfpm(t), "SOURCE_DATE_EPOCH=1700000000")
	if text, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("packing: %v, %s", err, text)
	}
	for _, cpu := range []string{"aarch64_generic", "aarch64_cortex-a53", "aarch64_cortex-a72", "aarch64_cortex-a76"} {
		if _, err := os.Stat(filepath.Join(out, "shuultuur_1.2.3~rc.1_"+cpu+".ipk")); err != nil {
			t.Error(err)
		}
		file := filepath.Join(out, "shuultuur_1.2.3_rc1_openwrt_"+cpu+".apk")
		for name, want := range map[string]string{
			".PKGINFO":                        "\narch = " + cpu + "\n",
			".post-install":                   "\npkgname=shuultuur\nexport pkgname\ndefault_postinst ",
			".post-upgrade":                   "shuultuur check /etc/shuultuur/shuultuur.yaml >/dev/null && /etc/init.d/shuultuur restart",
			".pre-deinstall":                  "\npkgname=shuultuur\nexport pkgname\ndefault_prerm ",
			"etc/init.d/shuultuur":            "-data /srv/shuultuur",
			"lib/apk/packages/shuultuur.list": "/etc/init.d/shuultuur\n/lib/upgrade/keep.d/shuultuur\n/usr/bin/shuultuur\n",
			"lib/upgrade/keep.d/shuultuur":    "/etc/shuultuur/\n/srv/shuultuur/\n",
			"usr/bin/shuultuur":               "#!/bin/sh",
		} {
			text, err := exec.Command("tar", "-xzOf", file, name).Output()
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s: %s: %v, %q; want %q", cpu, name, err, text, want)
			}
		}
	}
}

func TestTheDebIsCleanAndFollowsPolicy(t *testing.T) {
	t.Parallel()
	lintian := peer.Program(t, "lintian")
	out, err := exec.Command(lintian, "--allow-root", "--fail-on", "error,warning", packed(t, "1.0.0")).CombinedOutput()
	if err != nil {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}

// TestTheDebInAFreshRoot installs the deb in an empty root folder, starts the service, filters
// a page, then upgrades, removes and purges the package.
func TestTheDebInAFreshRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can make a root folder and work in it")
	}
	bootstrap := peer.Program(t, "mmdebstrap")
	before, after := packed(t, "1.0.0"), packed(t, "1.0.1")
	root := filepath.Join(t.TempDir(), "root")
	if out, err := exec.Command(bootstrap, "--variant=apt", "--include=adduser", "--mode=root", // mirrors may hang
		`--aptopt=Acquire::Check-Valid-Until "false"`, "stable", root).CombinedOutput(); err != nil {
		t.Skipf("no fresh root folder: the mirror of Debian cannot be reached, or mounts are not allowed here: %v, %.500s", err, out)
	}
	in := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("chroot", append([]string{root}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	put := func(deb string) {
		t.Helper()
		b, err := os.ReadFile(deb)
		if err == nil {
			err = os.WriteFile(filepath.Join(root, "shuultuur.deb"), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	start := time.Now()
	put(before)
	in("apt-get", "install", "-y", "/shuultuur.deb") // as README.md says
	s := &shipped{t: t, dir: filepath.Join(root, "var/lib/shuultuur"), proxy: "127.0.0.1:" + peer.Port(t)}
	settings := filepath.Join(root, "etc/shuultuur/shuultuur.yaml")
	text, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	// Other programs of this machine may use the usual ports.
	port := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	n := 0
	text = port.ReplaceAllFunc(text, func([]byte) []byte {
		if n++; n == 1 {
			return []byte(s.proxy)
		}
		return []byte("127.0.0.1:" + peer.Port(t))
	})
	if err := os.WriteFile(settings, text, 0o640); err != nil {
		t.Fatal(err)
	}
	in("shuultuur", "check", "/etc/shuultuur/shuultuur.yaml") // root starts it and must leave no file that the service cannot use
	cmd := exec.Command("chroot", root, "su", "-s", "/bin/sh", "-c", "exec shuultuur run -config /etc/shuultuur/shuultuur.yaml", "shuultuur")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }() // the exit status does not matter
	t.Cleanup(func() {
		if pid := s.holderIn("lock"); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	blocked := func() bool {
		status, _, err := get(through(s.proxy), "http://ads.doubleclick.net/")
		return err == nil && status == 403
	}
	s.wait("a filtered page", blocked)
	if took := time.Since(start); took > time.Minute {
		t.Errorf("from installing the package to a filtered page: %v, want at most a minute", took)
	} else {
		t.Logf("from installing the package to a filtered page: %v", took)
	}

	first := s.holderIn("lock")
	put(after)
	in("apt-get", "install", "-y", "/shuultuur.deb") // as README.md says
	if now := s.holderIn("lock"); now == first || !blocked() {
		t.Errorf("after the upgrade process %d serves, before it was %d; want another process, and blocked pages", now, first)
	}
	if v := in("shuultuur", "version"); !strings.Contains(v, "1.0.1") {
		t.Errorf("after the upgrade \"shuultuur version\" prints %s, want 1.0.1", v)
	}
	_ = syscall.Kill(s.holderIn("lock"), syscall.SIGTERM)
	in("dpkg", "-r", "shuultuur")
	for path, stays := range map[string]bool{"etc/shuultuur/shuultuur.yaml": true, "var/lib/shuultuur": true, "usr/bin/shuultuur": false} {
		if _, err := os.Stat(filepath.Join(root, path)); (err == nil) != stays {
			t.Errorf("after the removal %s exists: %v, want %v", path, err == nil, stays)
		}
	}
	in("dpkg", "-P", "shuultuur")
	left := in("sh", "-c", "find / -xdev -name '*shuultuur*' -not -path '/proc/*' -not -name shuultuur.deb -not -path '/var/cache/*' -not -path '/var/log/*'; getent passwd shuultuur || true")
	if strings.TrimSpace(left) != "" {
		t.Errorf("the purge leaves:\n%s", left)
	}
}

// holderIn returns the process that has the lock of the data folder.
func (s *shipped) holderIn(name string) (pid int) {
	b, _ := os.ReadFile(filepath.Join(s.dir, name))
	_, _ = fmt.Sscanf(string(b), `{"process":%d`, &pid) // 0 while it is written
	return pid
}

// TestTheServiceIsConfined lets systemd rate the service's rights.
func TestTheServiceIsConfined(t *testing.T) {
	analyze := peer.Program(t, "systemd-analyze")
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "../dist/systemd/shuultuur.service").CombinedOutput()
	if err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	var exposure float64
	line := regexp.MustCompile(`Overall exposure level for shuultuur.service: ([0-9.]+)`).FindSubmatch(out)
	if line == nil {
		t.Fatalf("systemd-analyze prints no exposure level: %s", out)
	}
	if _, err := fmt.Sscan(string(line[1]), &exposure); err != nil || exposure > 2.5 {
		t.Errorf("exposure level %s, want at most 2.5: %v\n%s", line[1], err, out)
	}
}

func TestShellScriptsAreClean(t *testing.T) {
	check := peer.Program(t, "shellcheck")
	var scripts []string
	for _, p := range []string{"../dist/*.sh", "../dist/*/*.sh", "*.sh", "../dist/openrc/shuultuur", "../dist/openwrt/shuultuur.init", "../dist/freebsd/port/files/shuultuur.in"} {
		found, _ := filepath.Glob(p)
		scripts = append(scripts, found...)
	}
	if len(scripts) < 8 {
		t.Fatalf("found only the scripts %q", scripts)
	}
	if out, err := exec.Command(check, append([]string{"--shell=sh"}, scripts...)...).CombinedOutput(); err != nil {
		t.Errorf("shellcheck: %v\n%s", err, out)
	}
}

// TestTheAlertRulesHold lets Prometheus itself read and evaluate the rules.
func TestTheAlertRulesHold(t *testing.T) {
	promtool := peer.Program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "../dist/monitoring"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// TestTheModulePathIsChangedInOnePlace: after the module path is changed there, go install
// accepts the module from a proxy, and nothing names the old path.
func TestTheModulePathIsChangedInOnePlace(t *testing.T) {
	peer.NotQuick(t, "a build of everything")
	const path, version = "filter.example/shuultuur", "v1.2.3"
	dir := t.TempDir()
	do := func(script string, env ...string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%.2000s", script, err, out)
		}
		return string(out)
	}
	source, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "-C", source, "rev-parse", "HEAD").CombinedOutput(); err != nil {
		t.Skipf("this folder is no Git repository: %s", out)
	}
	do("git -C " + source + " archive --format=tar --prefix=" + path + "@" + version + "/ HEAD | tar -xf -")
	do("sh " + path + "@" + version + "/dist/module.sh " + path)
	tree := "cd " + path + "@" + version
	for line := range strings.Lines(do(tree + " && go list -deps ./cmd/shuultuur")) {
		if strings.HasPrefix(line, "shuultuur/") {
			t.Errorf("this line still has the old path: %s", line)
		}
	}
	do("mkdir -p proxy/" + path + "/@v && cp " + path + "@" + version + "/go.mod proxy/" + path + "/@v/" + version + ".mod" +
		" && echo '{\"Version\":\"" + version + "\"}' >proxy/" + path + "/@v/" + version + ".info && echo " + version + " >proxy/" + path + "/@v/list")
	zipped(t, filepath.Join(dir, "proxy", path, "@v", version+".zip"), dir, path+"@"+version)
	got := do("go mod download -json "+path+"@latest && chmod -R u+w modules", "GOPROXY=file://"+dir+"/proxy", "GONOSUMDB=*", "GOFLAGS=-modcacherw", "GOMODCACHE="+dir+"/modules")
	if !strings.Contains(got, `"Version": "`+version+`"`) {
		t.Errorf("the go command says %s", got)
	}
	if out, err := exec.Command("sh", "../dist/module.sh", "shuultuur2").CombinedOutput(); err == nil {
		t.Errorf("the script accepts a path without a host: %s", out)
	}
}

// zipped writes the files of a folder below root into a zip, by their paths there. As the go
// command does, it leaves out what is below with a module of its own.
func zipped(t *testing.T, file, root, folder string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := zip.NewWriter(f)
	err = fs.WalkDir(os.DirFS(root), folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(root, name, "go.mod")); err == nil && name != folder {
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return err
		}
		to, err := w.Create(name)
		if err == nil {
			_, err = to.Write(text)
		}
		return err
	})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
}
