package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// settings is Shuultuur's settings file for the benchmarks: the lists that e2guardian ships
// and enables, without lists of hosts. The proxy settings permit one client on this machine
// the load of the benchmarks.
const settings = `listen: {proxy: "PROXY", admin: "ADMIN"LISTENERS}
data: DIR
IDENTITY
INTERCEPT
proxy: {private: [127.0.0.0/8], connect-ports: [any], connections: 12000, per-client: 12000}
checks:
  phrase:
    weighted: [LISTS/weightedphraselist]
    banned: [LISTS/bannedphraselist]
    exception: [LISTS/exceptionphraselist]
    compat: COMPAT
    naughtynesslimit: LIMIT
SIGNATURE
policies:
  - name: everyone
    decrypt: DECRYPT
    learn: LEARN
    limits: REQUESTS
    rules:
      - {name: excepted words, action: allow, category: [exceptionphrase]}
      - {name: forbidden words, action: block, category: [bannedphrase]}
      - {name: words, action: block, category: [phrase], over: LIMIT}
OBEY
events: {sqlite: events.db}
state: STATE
`

// beginShuultuur starts the program with default settings.
func (r *peerRig) beginShuultuur(p *peer) error { return r.beginMode(p, "modern", "off") }

// beginLearn starts the program so that it remembers its verdict on a page, and does not
// inspect it again while the origin says that it is unchanged.
func (r *peerRig) beginLearn(p *peer) error { return r.beginMode(p, "modern", "10m") }

// beginBefore starts the program that $BEFORE names, such as one of the commit before, to
// compare the two by turns.
func (r *peerRig) beginBefore(p *peer) error {
	p.built = os.Getenv("BEFORE")
	if _, err := os.Stat(p.built); err != nil {
		return fmt.Errorf("%w: set BEFORE to an older program (%w)", errMissing, err)
	}
	return r.beginMode(p, "modern", "off")
}

// beginCompat starts the program in the mode that searches the bytes of a page as e2guardian
// 5.3 does, with the same scores: the same work, step by step.
func (r *peerRig) beginCompat(p *peer) error { return r.beginMode(p, "e2guardian-5.3", "off") }

// beginRules starts the program with public signature rules for HTTP in addition. None of them
// drops, so that all are tried on every page.
func (r *peerRig) beginRules(p *peer) error {
	data := os.Getenv("SHUULTUUR_DATA")
	rules := filepath.Join(data, "rules", "et-open-http.rules.gz")
	if _, err := os.Stat(rules); data == "" || err != nil {
		return fmt.Errorf("%w, no rules: set SHUULTUUR_DATA to a folder with rules/et-open-http.rules.gz", errMissing)
	}
	p.rules = rules
	return r.beginMode(p, "modern", "off")
}

// beginMode builds the program from this repository and starts it.
func (r *peerRig) beginMode(p *peer, compat, learn string) error {
	if _, err := os.Stat(filepath.Join(r.root, "cmd", "shuultuur")); err != nil {
		return fmt.Errorf("%w, nothing to build: %w", errMissing, err)
	}
	lists := filepath.Join(guardianFolder, "lists")
	if _, err := os.Stat(lists); err != nil {
		return fmt.Errorf("%w, no phrases to look for: %w", errMissing, err)
	}
	dir, err := r.folder(p.name)
	if err != nil {
		return err
	}
	program := p.built
	if p.about = program; program == "" {
		if program, err = r.build(dir); err != nil {
			return err
		}
		p.about = r.revision()
	}
	p.admin, err = freeAddr()
	if err != nil {
		return err
	}
	if p.proxy, err = freeAddr(); err != nil {
		return err
	}
	state, limits := cmp.Or(p.state, "{}"), cmp.Or(p.limits, "[]")
	intercept := ""
	if r.certs != nil {
		intercept = "intercept: {root: " + r.certs.root + ", trust: [" + r.certs.origin + "]}"
	}
	signature, obey := "", ""
	if p.rules != "" {
		signature, obey = "  signature: {rules: ["+p.rules+"]}", "      - {name: signatures, action: block, obey: true}"
	}
	if p.scanner != "" {
		signature += "\n  virus: {clamd: \"" + p.scanner + "\", skip: [text/html], remember: \"off\"}"
		obey += "\n      - {name: viruses, action: block, category: [virus, virus-error]}"
	}
	known, err := r.knownBy(dir)
	if err != nil {
		return err
	}
	p.proc, err = r.start(proxyCore, p.name, p.proxy, []string{program, "run", "-config", "FILE"},
		expand(settings, "IDENTITY", known.identity, "LISTENERS", known.listen, "PROXY", p.proxy, "ADMIN", p.admin, "SIGNATURE", signature, "OBEY", obey, "DIR", dir, "LISTS", lists, "LIMIT", limit, "COMPAT", compat, "LEARN", learn, "REQUESTS", limits, "STATE", state, "INTERCEPT", intercept, "DECRYPT", strconv.FormatBool(r.certs != nil)))
	switch {
	case err != nil:
		return err
	case known.portal != "":
		return signInAt(r.ctx, known.portal)
	case known.door != nil:
		p.proxy, err = known.door(r.ctx, p.proxy)
	}
	return err
}

// revision returns the measured commit.
func (r *rig) revision() string {
	git := exec.Command("git", "describe", "--always", "--dirty")
	git.Dir = r.root
	out, err := git.Output()
	if err != nil {
		return "revision unknown"
	}
	return strings.TrimSpace(string(out))
}
