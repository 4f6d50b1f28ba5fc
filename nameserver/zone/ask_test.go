package zone

import (
	"testing"

	"github.com/miekg/dns"

	"shuultuur/nameserver/wire"
	"shuultuur/nameserver/zone/zonetest"
)

func ask(t testing.TB, z wire.Responder, m *dns.Msg, limit int) *dns.Msg {
	t.Helper()
	return zonetest.Ask(t, z, m, limit)
}

func question(name string, typ uint16) *dns.Msg { return zonetest.Question(name, typ) }
