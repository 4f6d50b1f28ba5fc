package engine

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"shuultuur/engine/configuration"
	"shuultuur/lib/problem"
)

func TestACertificateThatEndsSoonIsSaid(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		life, left time.Duration
		want       string // "": nothing is said
	}{
		"a year, a month left":     {365 * day, 30 * day, ""},
		"a year, a week left":      {365 * day, 7 * day, "ends on 2026-03-08"},
		"a day, an hour left":      {day, time.Hour, "ends on"},
		"a day, half of it left":   {day, 12 * time.Hour, ""},
		"a year, ended a week ago": {365 * day, -7 * day, "ended on 2026-02-22, and browsers refuse it"},
	} {
		t.Run(name, func(t *testing.T) {
			leaf := &x509.Certificate{NotBefore: now.Add(c.left - c.life), NotAfter: now.Add(c.left)}
			s := &configuration.Settings{}
			s.Listen.TLS = &configuration.KeyPair{Cert: "cert.pem"}
			all := ending(s, &tls.Config{Certificates: []tls.Certificate{{Leaf: leaf}}}, nil, now)
			if (len(all) > 0) != (c.want != "") || len(all) > 0 && (all[0].Kind != problem.Ending || !strings.Contains(all[0].Text, c.want)) {
				t.Errorf("the problems are %q, want %q", all, c.want)
			}
		})
	}
}
