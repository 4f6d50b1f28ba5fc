//go:build !small

package probe

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"

	"shuultuur/check"
	"shuultuur/check/virus"
	"shuultuur/engine/configuration"
	"shuultuur/lib/setting"
)

// clamd answers as a scanner that knows the test virus, at an address until it is killed.
func clamd(t *testing.T, at string) (address string, kill func()) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				if word, _ := r.ReadString(0); word == "zPING\x00" {
					_, _ = c.Write([]byte("PONG\x00"))
					return
				}
				_, _ = r.ReadString(0)
				body := make([]byte, 4+68+4)
				for n := 0; n < len(body); {
					m, err := r.Read(body[n:])
					if n += m; err != nil {
						return
					}
				}
				_, _ = c.Write([]byte("1: stream: Eicar-Test-Signature FOUND\x00"))
			}()
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), func() { l.Close() }
}

// TestAScannerIsKilledAndReturns: the answer says each time how it is.
func TestAScannerIsKilledAndReturns(t *testing.T) {
	at, kill := clamd(t, "127.0.0.1:0")
	s := &configuration.Settings{Checks: check.Config{Virus: &virus.Config{Clamd: setting.OneOrMore[string]{at}}}}
	ask := func() string {
		answers, err := Ask(context.Background(), s, "checks.virus", "")
		if err != nil {
			return err.Error()
		}
		return strings.Join(answers, " ")
	}
	if got := ask(); !strings.Contains(got, "Eicar-Test-Signature") {
		t.Errorf("a scanner says %q", got)
	}
	kill()
	if got := ask(); !strings.Contains(got, "does not answer") {
		t.Errorf("a killed scanner says %q", got)
	}
	_, kill = clamd(t, at)
	defer kill()
	if got := ask(); !strings.Contains(got, "Eicar-Test-Signature") {
		t.Errorf("a scanner that is back says %q", got)
	}
}

// TestNothingIsNamed: a part without servers says so.
func TestNothingIsNamed(t *testing.T) {
	for _, part := range []string{"mail", "alerts", "dns.forward", "checks.virus", "events", "state.redis", "identity.basic.ldap", "nonsense", ""} {
		if answers, err := Ask(context.Background(), &configuration.Settings{}, part, ""); err == nil {
			t.Errorf("%q answers %q", part, answers)
		}
	}
}
