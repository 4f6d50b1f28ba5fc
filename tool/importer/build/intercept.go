package build

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"shuultuur/check/icap"
	"shuultuur/check/virus"
	"shuultuur/intercept"
	"shuultuur/policy"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// Intercept makes all policies decrypt TLS, with the other program's root, or with a new one
// where that cannot be used.
func (w *Work) Intercept(at report.Place, cert, key string) *report.Note {
	file := filepath.Join(w.To, "root.pem")
	if w.Set.Cut == nil {
		w.Set.Cut = &Intercept{Root: "root.pem"}
	}
	why := "it names no certificate"
	if cert != "" {
		if key == "" {
			key = cert
		}
		err := rootOf(file, cert, key)
		if err == nil {
			w.Decrypt = true
			return report.Same("intercept: root, decrypt: true")
		}
		why = err.Error()
	}
	if _, err := os.Stat(file); err != nil {
		root, err := intercept.MakeRoot(intercept.RootConfig{})
		if err == nil {
			err = root.WriteApart(file, false)
		}
		if err != nil {
			w.Set.Cut = nil
			return report.ByHand("intercept", err.Error()+": make a root with \"shuultuur ca init\", name it under intercept: root, and write decrypt: true into the policies")
		}
	}
	w.Decrypt = true
	return report.Differs("intercept: root, decrypt: true", why+", so a new root is made, as \"shuultuur ca init\" does, which clients have to trust: \"shuultuur ca install\" says how")
}

// rootOf writes the root certificate of another program to our file, and its key to a file of its own.
func rootOf(file, cert, key string) error {
	a, err := input.Whole(cert)
	if err != nil {
		return err
	}
	b, err := input.Whole(key)
	if err != nil {
		return err
	}
	if !bytes.Contains(b, []byte("PRIVATE KEY")) {
		return fmt.Errorf("there is no key in %s", key)
	}
	if key != cert {
		b = append(append(b, '\n'), a...)
	}
	both, err := os.MkdirTemp(filepath.Dir(file), ".root-") // for its owner alone
	if err != nil {
		return err
	}
	defer os.RemoveAll(both)
	whole := filepath.Join(both, "root.pem")
	if err := os.WriteFile(whole, b, 0o600); err != nil {
		return err
	}
	root, err := intercept.ReadRoot(whole)
	if err != nil {
		return err
	}
	return root.WriteApart(file, true)
}

// UsualClamd is where clamd listens on most systems.
const UsualClamd = "/run/clamav/clamd.ctl"

// Clamd adds a scanner at an address, and a rule that blocks its findings.
func (w *Work) Clamd(address string) {
	if w.Set.Checks.Virus == nil {
		w.Set.Checks.Virus = &virus.Config{}
		w.First = append(w.First, policy.Rule{Name: "viruses", Action: "block", Category: []string{"virus"}})
	}
	w.Set.Checks.Virus.Clamd = append(w.Set.Checks.Virus.Clamd, address)
}

// AskByICAP adds ICAP servers as scanners, and rules that refuse their findings and, if strict,
// bodies that they cannot scan.
func AskByICAP(w *Work, cfg icap.Config, strict bool) {
	w.Set.Checks.ICAP = &cfg
	w.First = append(w.First, policy.Rule{Name: "scanner", Action: "block", Category: []string{"icap/virus", "icap/violation", "icap/blocked"}})
	if strict {
		w.First = append(w.First, policy.Rule{Name: "no scanner", Action: "block", Category: []string{"icap-error"}})
	}
}
