package engine

import (
	"context"
	"reflect"

	"shuultuur/engine/configuration"
	"shuultuur/icap"
)

// icapOf returns the settings of the ICAP server, nil if there are none and it has no address.
// Without an address they are only checked.
func icapOf(s *configuration.Settings) any {
	if len(s.Listen.ICAP)+len(s.Listen.ICAPS) == 0 && reflect.ValueOf(s.ICAP).IsZero() {
		return nil
	}
	return s.ICAP
}

func newICAP(_ context.Context, b *builder) (*icap.Server, error) {
	if b.trial() {
		return icap.New(b.Settings.ICAP, b.Proxy.Inspector(), nil, b.log)
	}
	return icap.New(b.Settings.ICAP, b.Proxy.Inspector(), b.host.Done, b.log)
}

// icapEngine returns the engine of the ICAP server. Its clients query the services again
// when the revision changes.
func (e *Engine) icapEngine() *icap.Engine {
	return &icap.Engine{
		Decider: e.Policies.Engine, Accept: e.Policies.Accept, Balance: e.balance, Pages: e.Pages,
		Identify: e.Identity.Identify, Named: e.Identity.SentClient, Tag: "shuultuur-" + e.Revision,
	}
}
