package zone

import (
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/nameserver"
	"shuultuur/test/zonetest"
)

func ask(t testing.TB, z nameserver.Responder, m *miekg.Msg, limit int) *miekg.Msg {
	t.Helper()
	return zonetest.Ask(t, z, m, limit)
}

func question(name string, typ uint16) *miekg.Msg { return zonetest.Question(name, typ) }
