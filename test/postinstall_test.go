package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"shuultuur/test/peer"
)

// A machineRoot is a folder with what the scripts of packages change, and with stand-ins for the
// commands of the system, which note how they are called.
type machineRoot struct {
	*shipped
	root string
}

const settingsOfPackage = `data: DATA
listen: {proxy: "PROXY", admin: "off"}
policies: [{name: all, rules: [{name: own, action: block, host: [bet.example]}]}]
`

func newRoot(t *testing.T) *machineRoot {
	root := t.TempDir()
	for _, dir := range []string{"etc/shuultuur", "etc/apparmor.d", "var/lib/shuultuur/data", "usr/bin", "run/systemd/system", "sys/kernel/security/apparmor", "fake"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range map[string]string{
		"su":                 `exec sh -c "$4"`,
		"systemctl":          `case $* in *is-active*) exit "${INACTIVE:-0}" ;; esac`,
		"deb-systemd-helper": "", "deb-systemd-invoke": "", "apparmor_parser": "", "chown": "", "adduser": "", "useradd": "", "getent": "",
	} {
		script = "#!/bin/sh\necho \"" + name + " $*\" >>" + filepath.Join(root, "calls") + "\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(root, "fake", name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := &machineRoot{root: root, shipped: &shipped{t: t, dir: filepath.Join(root, "var/lib/shuultuur"), program: filepath.Join(root, "usr/bin/shuultuur"),
		settings: filepath.Join(root, "etc/shuultuur/shuultuur.yaml"), proxy: "127.0.0.1:" + peer.Port(t)}}
	m.replace()
	m.set(settingsOfPackage)
	return m
}

// set writes the settings.
func (m *machineRoot) set(text string) {
	m.t.Helper()
	text = strings.NewReplacer("DATA", filepath.Join(m.dir, "data"), "PROXY", m.proxy).Replace(text)
	if err := os.WriteFile(m.settings, []byte(text), 0o640); err != nil {
		m.t.Fatal(err)
	}
}

// ofSystem matches the paths in scripts that are below the root here.
var ofSystem = regexp.MustCompile(`/(etc/shuultuur|etc/apparmor\.d|var/lib/shuultuur|usr/bin/shuultuur|run/systemd/system|sys/kernel/security)`)

// script runs a script of a package, and returns what it says and the commands that it ran.
func (m *machineRoot) script(name, arg string, env ...string) (said, calls string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join("../dist/scripts", name))
	if err != nil {
		m.t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(m.root, "calls"))
	cmd := exec.Command("sh", "-c", ofSystem.ReplaceAllString(string(text), m.root+"/$1"), name, arg)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(m.root, "fake")+":"+filepath.Dir(m.program)+":"+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Errorf("%s %s: %v, which leaves the package half installed\n%s", name, arg, err, out)
	}
	b, _ := os.ReadFile(filepath.Join(m.root, "calls")) // there may be none
	return string(out), string(b)
}

// stops matches the calls that end a running service.
var stops = regexp.MustCompile(`(?m)^(systemctl|deb-systemd-invoke) .*(stop|restart|--now)`)

func TestARefusedUpgradeLeavesTheOldProcessServing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ script, arg string }{{"postinstall.deb.sh", "configure"}, {"postinstall.sh", "2"}, {"postinstall.sh", "1.2.3"}} {
		t.Run(tt.script+" "+tt.arg, func(t *testing.T) {
			t.Parallel()
			m := newRoot(t)
			m.start(exec.Command(m.program, "run", "-config", m.settings))
			first := m.holder()
			same := func(why string) {
				t.Helper()
				if now := m.holder(); now != first || syscall.Kill(first, 0) != nil {
					t.Errorf("%s: process %d serves, before it was %d", why, now, first)
				}
				if status, _, err := get(through(m.proxy), "http://bet.example/"); err != nil || status != 403 {
					t.Errorf("%s: a blocked page is answered with %d, %v", why, status, err)
				}
			}
			m.replace()

			// Settings that the new program does not know.
			m.set(strings.Replace(settingsOfPackage, "policies:", "polices:", 1))
			said, calls := m.script(tt.script, tt.arg)
			if !strings.Contains(said, `"polices"`) || !strings.Contains(said, "what runs goes on") {
				t.Errorf("the reason is not told: %s", said)
			}
			if stops.MatchString(calls) {
				t.Errorf("the service is stopped:\n%s", calls)
			}
			if !strings.Contains(calls, "check -config "+m.settings+" shuultuur\n") {
				t.Errorf("the settings are not checked as the user of the service:\n%s", calls)
			}
			same("settings that are refused")

			// Data of a newer program.
			m.set(settingsOfPackage)
			format := filepath.Join(m.dir, "data", "format.json")
			good, err := os.ReadFile(format)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(format, []byte(`{"format": 99, "program": "9.9.9"}`), 0o644); err != nil {
				t.Fatal(err)
			}
			if said, calls = m.script(tt.script, tt.arg); !strings.Contains(said, "99") || stops.MatchString(calls) {
				t.Errorf("data of a newer program: %s\n%s", said, calls)
			}
			same("data that is refused")
			if err := os.WriteFile(format, good, 0o644); err != nil {
				t.Fatal(err)
			}

			// A program that is good takes over, and nothing is stopped either.
			if said, calls = m.script(tt.script, tt.arg); said != "" || stops.MatchString(calls) {
				t.Errorf("a good program: %s\n%s", said, calls)
			}
			if now := m.holder(); now == first {
				t.Error("the old process still serves")
			}
		})
	}
}

func TestAServiceThatDoesNotRunIsStartedAfterTheCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ script, arg, start string }{
		{"postinstall.deb.sh", "configure", "deb-systemd-invoke restart shuultuur.service"},
		{"postinstall.sh", "1", "systemctl enable --now shuultuur.service"},
	} {
		t.Run(tt.script, func(t *testing.T) {
			t.Parallel()
			m := newRoot(t)
			_, calls := m.script(tt.script, tt.arg, "INACTIVE=3")
			if !strings.Contains(calls, tt.start+"\n") {
				t.Errorf("the service is not started:\n%s", calls)
			}
			if load := strings.Index(calls, "apparmor_parser -r"); strings.HasSuffix(tt.script, "deb.sh") && (load < 0 || load > strings.Index(calls, tt.start)) {
				t.Errorf("the profile is not loaded before the start:\n%s", calls)
			}
			m.set("policies: nonsense\n")
			if said, calls := m.script(tt.script, tt.arg, "INACTIVE=3"); stops.MatchString(calls) || !strings.Contains(said, "policies") {
				t.Errorf("with settings that are refused: %s\n%s", said, calls)
			}
		})
	}
}

// TestAnUpgradeIsNotAnnouncedByAStop: what the old package does before its files are replaced.
func TestAnUpgradeIsNotAnnouncedByAStop(t *testing.T) {
	m := newRoot(t)
	for _, tt := range []struct {
		script, arg string
		stops       bool
	}{
		{"preremove.deb.sh", "upgrade", false},
		{"preremove.deb.sh", "failed-upgrade", false},
		{"preremove.deb.sh", "remove", true},
		{"preremove.sh", "1", false},
		{"preremove.sh", "0", true},
		{"postremove.deb.sh", "upgrade", false},
		{"postremove.sh", "1", false},
	} {
		if _, calls := m.script(tt.script, tt.arg); stops.MatchString(calls) != tt.stops {
			t.Errorf("%s %s stops the service: %v, want %v\n%s", tt.script, tt.arg, !tt.stops, tt.stops, calls)
		}
	}
}

// TestTheProfileConfinesTheServiceAlone: a profile with a path would be in force for what root
// types, too.
func TestTheProfileConfinesTheServiceAlone(t *testing.T) {
	const file = "../dist/apparmor/usr.bin.shuultuur"
	profile, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head := regexp.MustCompile(`(?m)^profile (\S+)(.*)\{$`).FindSubmatch(profile)
	if head == nil || strings.Contains(string(head[1])+string(head[2]), "/") {
		t.Fatalf("the profile is attached to a path: %q", head)
	}
	unit, err := os.ReadFile("../dist/systemd/shuultuur.service")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^AppArmorProfile=-`+string(head[1])+`$`).Match(unit) || strings.Index(string(unit), "AppArmorProfile") < strings.Index(string(unit), "[Service]") {
		t.Errorf("the unit does not use the profile %s, without needing it", head[1])
	}
	parser := peer.Program(t, "apparmor_parser")
	if out, err := exec.Command(parser, "--skip-kernel-load", "--skip-cache", file).CombinedOutput(); err != nil {
		t.Errorf("apparmor_parser: %v, %s", err, out)
	}
}

// TestTheUnitNeverGivesUp lets systemd read the unit: a key in the wrong section is ignored.
func TestTheUnitNeverGivesUp(t *testing.T) {
	unit, err := os.ReadFile("../dist/systemd/shuultuur.service")
	if err != nil {
		t.Fatal(err)
	}
	section, keys := "", map[string]string{}
	for line := range strings.Lines(string(unit)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		} else if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			keys[section+key] = value
		}
	}
	for key, want := range map[string]string{"[Unit]StartLimitIntervalSec": "0", "[Service]Restart": "always"} {
		if keys[key] != want {
			t.Errorf("%s is %q, want %q", key, keys[key], want)
		}
	}
	var first, most int
	if _, err := fmt.Sscan(keys["[Service]RestartSec"]+" "+keys["[Service]RestartMaxDelaySec"], &first, &most); err != nil || first < 1 || first > 5 || most < 30 || keys["[Service]RestartSteps"] == "" {
		t.Errorf("the pauses do not grow from a few seconds to a minute: %v, %q", err, keys)
	}

	analyze := peer.Program(t, "systemd-analyze")
	copied := filepath.Join(t.TempDir(), "shuultuur.service")
	text := strings.NewReplacer("/usr/bin/shuultuur", filepath.Join(bin, "shuultuur"), "Documentation=man:shuultuur(1)\n", "").Replace(string(unit))
	if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command(analyze, "verify", copied).CombinedOutput() // older ones do not know all keys
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "shuultuur.service") || regexp.MustCompile(`Unknown key (name )?'Restart(Steps|MaxDelaySec)' in section`).MatchString(line) {
			continue
		}
		t.Errorf("systemd-analyze: %s", line)
	}
}
