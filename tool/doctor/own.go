package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	certSoon = 14 * 24 * time.Hour
	listOld  = 30 * 24 * time.Hour
	maxPEM   = 1 << 20
)

func (p subject) settings() []Finding {
	if p.cfg.Settings == "" {
		return nil
	}
	f := Finding{About: "settings", Level: OK, Found: p.cfg.Settings + ": good"}
	if p.cfg.Mistakes != nil {
		f.Level, f.Wanted = Bad, "settings a gateway can start with"
		f.Found = strings.SplitN(p.cfg.Mistakes.Error(), "\n", 2)[0]
		f.Why = "A running gateway keeps its old settings; a restart fails."
		f.Mend = []string{"shuultuur check -config " + p.cfg.Settings}
	}
	return one(f)
}

func (p subject) certificate() []Finding {
	return p.certificateOf("certificate of listen.tls", p.cfg.Cert,
		"Browsers that use TLS to the proxy refuse it outside these dates and cannot open any page.", "settings: listen: {tls: {cert: FILE, key: FILE}}")
}

// certificateOf inspects the validity of the certificate in a file ("" for
// none) and of its chain.
func (p subject) certificateOf(about, file, why, setting string) []Finding {
	if file == "" {
		return nil
	}
	leaf, err := firstToEnd(file)
	if err != nil {
		return one(Finding{About: about, Level: Bad, Found: err.Error(), Wanted: "a certificate in PEM form",
			Why: "Without it the gateway does not start.", Mend: []string{setting}})
	}
	left := leaf.NotAfter.Sub(p.m.Now())
	f := Finding{About: about, Level: OK, Found: fmt.Sprintf("%q, good until %s", leaf.Subject.CommonName, leaf.NotAfter.UTC().Format(time.DateOnly))}
	switch {
	case left <= 0, leaf.NotBefore.After(p.m.Now()):
		f.Level = Bad
		f.Found = fmt.Sprintf("%q, from %s to %s", leaf.Subject.CommonName, leaf.NotBefore.UTC().Format(time.DateOnly), leaf.NotAfter.UTC().Format(time.DateOnly))
	case left < certSoon:
		f.Level = Low
		f.Found += fmt.Sprintf(", %d days", int(left/(24*time.Hour)))
	}
	if f.Level != OK {
		f.Wanted = fmt.Sprintf("%d days or more", int(certSoon/(24*time.Hour)))
		f.Why = why
		f.Mend = []string{"renew it and write it to " + file + "; a running gateway takes it by itself"}
	}
	return one(f)
}

// firstToEnd returns the certificate of a PEM file that expires first.
func firstToEnd(file string) (*x509.Certificate, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if st.Size() > maxPEM {
		return nil, fmt.Errorf("%s has %d bytes: too large for a certificate", file, st.Size())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var first *x509.Certificate
	for {
		var b *pem.Block
		if b, data = pem.Decode(data); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if first == nil || c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	if first == nil {
		return nil, fmt.Errorf("%s has no certificate in it", file)
	}
	return first, nil
}

// lists inspects the age of the lists' sources. One finding covers all fresh
// ones.
func (p subject) lists() []Finding {
	var found []Finding
	fresh := 0
	for _, l := range p.cfg.Lists {
		about := "list " + l.Name
		st, err := os.Stat(l.Path)
		if err != nil {
			found = append(found, Finding{About: about, Level: Bad, Found: err.Error(), Wanted: "its source",
				Why: "The gateway does not start without it.", Mend: []string{fmt.Sprintf("settings: lists: {%s: {path: FILE}}", l.Name)}})
			continue
		}
		age := p.m.Now().Sub(st.ModTime())
		if age <= listOld {
			fresh++
			continue
		}
		found = append(found, Finding{About: about, Level: Low, Found: fmt.Sprintf("%d days old", int(age/(24*time.Hour))),
			Wanted: fmt.Sprintf("%d days at most", int(listOld/(24*time.Hour))),
			Why:    "Hosts change owners and new ones appear every day; the job that fetched this list may have stopped.",
			Mend:   []string{"fetch it anew and write it to " + l.Path}})
	}
	if fresh > 0 {
		found = append(found, Finding{About: "lists", Level: OK, Found: fmt.Sprintf("%d fresh", fresh)})
	}
	return found
}
