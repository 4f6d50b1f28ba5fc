//go:build !small

package kerberos

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/spnego"
)

// TestANegotiationGoesOn: a client that offers Kerberos, but not first or without a ticket yet, is
// told to go on with it, and its next token signs it in (RFC 4178, 4.2.2).
func TestANegotiationGoesOn(t *testing.T) {
	krb, ms := gssapi.OIDKRB5.OID(), gssapi.OIDMSLegacyKRB5.OID()
	ntlm, negoEx := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 2, 10}, asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 2, 30}
	for _, tt := range []struct {
		name  string
		mechs []asn1.ObjectIdentifier
		token []byte
		state asn1.Enumerated // -1: refused
		mech  asn1.ObjectIdentifier
	}{
		{"Kerberos without a token", []asn1.ObjectIdentifier{krb}, nil, 1, krb},
		{"Kerberos of Microsoft without a token", []asn1.ObjectIdentifier{ms, krb, ntlm}, nil, 1, ms},
		{"NTLM first, with its token", []asn1.ObjectIdentifier{ntlm, krb}, []byte("NTLMSSP\x00\x01\x00\x00\x00"), 3, krb},
		{"NTLM first, without a token", []asn1.ObjectIdentifier{ntlm, ms, krb}, nil, 3, krb},
		{"NegoEx first, with its token", []asn1.ObjectIdentifier{negoEx, ms}, []byte("NEGOEXTS\x00"), 3, ms},
		{"NTLM alone", []asn1.ObjectIdentifier{ntlm}, nil, -1, nil},
		{"NegoEx alone", []asn1.ObjectIdentifier{negoEx}, []byte("NEGOEXTS\x00"), -1, nil},
	} {
		a := acceptor(t, Config{Keytab: keytabFile(t, 2, 18)})
		init := spnego.SPNEGOToken{Init: true, NegTokenInit: spnego.NegTokenInit{MechTypes: tt.mechs, MechTokenBytes: tt.token}}
		b, err := init.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Accept(from, b)
		next, ok := errors.AsType[*Continue](err)
		if ok != (tt.state >= 0) {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if !ok {
			continue
		}
		var answer spnego.NegTokenResp
		if err := answer.Unmarshal(next.Answer); err != nil || answer.NegState != tt.state || !answer.SupportedMech.Equal(tt.mech) || len(answer.ResponseToken) > 0 {
			t.Errorf("%s: the answer is %+v, %v; want state %d for %v", tt.name, answer, err, tt.state, tt.mech)
		}
		for _, mutual := range []bool{false, true} {
			plain, _ := gss(t, ticket{mutual: mutual}.request(t))
			resp := spnego.NegTokenResp{NegState: 1, ResponseToken: plain}
			b, err := resp.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			l, err := a.Accept(from, b)
			if err != nil || l.User != "anna" {
				t.Fatalf("%s: the next token gives %+v, %v", tt.name, l, err)
			}
			var end spnego.NegTokenResp
			if err := end.Unmarshal(l.Answer); err != nil || end.NegState != 0 || len(end.SupportedMech) > 0 || mutual != (len(end.ResponseToken) > 0) {
				t.Errorf("%s, mutual %v: the end is %+v, %v", tt.name, mutual, end, err)
			}
			if _, err := a.Accept(from, b); !errors.Is(err, ErrReplay) {
				t.Errorf("%s: the same token again: %v, want ErrReplay", tt.name, err)
			}
		}
	}
	for _, junk := range [][]byte{{0xa1}, {0xa1, 0x02, 0x30, 0x00}, {0xa1, 0x84, 0xff}} {
		if _, err := acceptor(t, Config{Keytab: keytabFile(t, 2, 18)}).Accept(from, junk); err == nil {
			t.Errorf("% x was accepted", junk)
		}
	}
}

// TestReplaysOutliveARestart: also one in which the program was killed, a file whose end is
// damaged, and one that has tokens of no use any more.
func TestReplaysOutliveARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "used-tickets")
	cfg := Config{Keytab: keytabFile(t, 2, 18)}
	start := func() *Acceptor {
		a, err := New(cfg, NewReplays(file))
		if err != nil || a.SeenTokens().Problem() != nil {
			t.Fatal(err, a.SeenTokens().Problem())
		}
		return a
	}
	var used [][]byte
	for i := range 3 {
		a := start()
		for range 2 {
			token := ticket{}.token(t)
			if _, err := a.Accept(from, token); err != nil {
				t.Fatal(err)
			}
			used = append(used, token)
		}
		if i == 1 { // a write that was cut off
			f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.Write(make([]byte, 17))
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	a := start()
	for i, token := range used {
		if _, err := a.Accept(from, token); !errors.Is(err, ErrReplay) {
			t.Errorf("token %d after a restart: %v, want ErrReplay", i, err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Size() != 6*entrySize || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v; want %d bytes for its owner", info, err, 6*entrySize)
	}
	r, now := NewReplays(file), time.Now()
	if err := r.add([32]byte{1}, now.Add(3*time.Hour), 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != entrySize {
		t.Errorf("after three hours the file has %d bytes, %v; want those of one token", info.Size(), err)
	}
	if r := NewReplays(filepath.Join(file, "none")); r.Problem() == nil || r.add([32]byte{1}, now, time.Minute) != nil {
		t.Error("a file that cannot be written: no problem, or tokens are refused")
	}
}
