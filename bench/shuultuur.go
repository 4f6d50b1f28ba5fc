package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// settings is Shuultuur's settings file for the benchmarks: the lists that
// e2guardian ships and enables, no list of hosts, every page judged anew.
const settings = `listen: {proxy: "PROXY", admin: "ADMIN"}
data: DIR
proxy: {private: [127.0.0.0/8]}
checks:
  phrase:
    weighted: [LISTS/weightedphraselist]
    banned: [LISTS/bannedphraselist]
    exception: [LISTS/exceptionphraselist]
    compat: modern
policies:
  - name: everyone
    learn: false
    rules:
      - {name: words, action: block, category: [phrase], over: LIMIT}
events: {sqlite: events.db}
`

// beginShuultuur builds the program from this repository and starts it.
func (r *rig) beginShuultuur(p *peer) error {
	if _, err := os.Stat(filepath.Join(r.root, "cmd", "shuultuur")); err != nil {
		return fmt.Errorf("%w, nothing to build: %w", errMissing, err)
	}
	lists := filepath.Join(guardianFolder, "lists")
	if _, err := os.Stat(lists); err != nil {
		return fmt.Errorf("%w, no phrases to look for: %w", errMissing, err)
	}
	dir, err := r.folder("shuultuur")
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "bin")
	build := exec.CommandContext(r.ctx, "go", "build", "-o", program, "./cmd/shuultuur")
	build.Dir = r.root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build shuultuur: %w:\n%s", err, out)
	}
	p.about = r.revision()
	admin, err := freeAddr()
	if err != nil {
		return err
	}
	if p.proxy, err = freeAddr(); err != nil {
		return err
	}
	p.proc, err = r.start(proxyCore, "shuultuur", p.proxy, []string{program, "run", "-config", "FILE"},
		expand(settings, "PROXY", p.proxy, "ADMIN", admin, "DIR", dir, "LISTS", lists, "LIMIT", limit))
	return err
}

// revision is the commit that is measured.
func (r *rig) revision() string {
	git := exec.Command("git", "describe", "--always", "--dirty")
	git.Dir = r.root
	out, err := git.Output()
	if err != nil {
		return "revision unknown"
	}
	return strings.TrimSpace(string(out))
}
