package importer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"shuultuur/check/icap"
	"shuultuur/check/virus"
	"shuultuur/intercept"
	"shuultuur/policy"
	"shuultuur/setting"
)

// intercept makes all policies decrypt TLS, with the other program's root, or with a new one
// where that cannot be used.
func (w *work) intercept(at place, cert, key string) *Note {
	file := filepath.Join(w.to, "root.pem")
	if w.set.Cut == nil {
		w.set.Cut = &intercepted{Root: "root.pem"}
	}
	why := "it names no certificate"
	if cert != "" {
		if key == "" {
			key = cert
		}
		err := rootOf(file, cert, key)
		if err == nil {
			w.decrypt = true
			return carried("intercept: root, decrypt: true")
		}
		why = err.Error()
		os.Remove(file)
	}
	if _, err := os.Stat(file); err != nil {
		root, err := intercept.NewRoot(intercept.RootConfig{})
		if err == nil {
			err = root.Write(file, false)
		}
		if err != nil {
			w.set.Cut = nil
			return lostOurs("intercept", err.Error()+": make a root with \"shuultuur ca init\", name it under intercept: root, and write decrypt: true into the policies")
		}
	}
	w.decrypt = true
	return differs("intercept: root, decrypt: true", why+", so a new root is made, as \"shuultuur ca init\" does, which clients have to trust: \"shuultuur ca install\" says how")
}

// rootOf writes the root certificate of another program to our file.
func rootOf(file, cert, key string) error {
	a, err := readWhole(cert)
	if err != nil {
		return err
	}
	b, err := readWhole(key)
	if err != nil {
		return err
	}
	if !bytes.Contains(b, []byte("PRIVATE KEY")) {
		return fmt.Errorf("there is no key in %s", key)
	}
	if key != cert {
		b = append(append(b, '\n'), a...)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return err
	}
	_, err = intercept.ReadRoot(file)
	return err
}

// clamd adds a scanner at an address, and a rule that blocks its findings.
func (w *work) clamd(address string) {
	if w.set.Checks.Virus == nil {
		w.set.Checks.Virus = &virus.Config{}
		w.first = append(w.first, policy.Rule{Name: "viruses", Action: "block", Category: []string{"virus"}})
	}
	w.set.Checks.Virus.Clamd = append(w.set.Checks.Virus.Clamd, address)
}

// askByICAP adds ICAP servers as scanners, and rules that refuse their findings and, if strict,
// bodies that they cannot scan.
func askByICAP(w *work, cfg icap.Config, strict bool) {
	w.set.Checks.ICAP = &cfg
	w.first = append(w.first, policy.Rule{Name: "scanner", Action: "block", Category: []string{"icap/virus", "icap/violation", "icap/blocked"}})
	if strict {
		w.first = append(w.first, policy.Rule{Name: "no scanner", Action: "block", Category: []string{"icap-error"}})
	}
}

// addSharedRules adds the rules that all policies share.
func (w *work) addSharedRules() {
	for i := range w.set.Policies {
		p := &w.set.Policies[i]
		p.Decrypt = p.Decrypt || w.decrypt
		p.Rules = append(slices.Clone(w.first), p.Rules...)
	}
}

// file returns a path for our settings: relative if it is below their folder.
func (w *work) file(path string) setting.File {
	if rel, err := filepath.Rel(w.to, path); err == nil && filepath.IsLocal(rel) {
		return setting.File(rel)
	}
	return setting.File(path)
}
