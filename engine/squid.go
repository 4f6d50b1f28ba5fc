package engine

import (
	"context"
	"io"
	"log/slog"
	"net/netip"

	"shuultuur/configuration"
	"shuultuur/filter"
	"shuultuur/helper"
)

// squidOf is the socket for Squid's helpers, nil for none.
func squidOf(s *configuration.Settings) any {
	if s.Listen.Squid == "" {
		return nil
	}
	return s.Listen.Squid
}

func newHelpers(_ context.Context, b *builder) (*helper.Server, error) {
	if b.trial() {
		return helper.New(string(b.Settings.Listen.Squid), b.Proxy.Inspector(), nil, b.log), nil
	}
	return helper.New(string(b.Settings.Listen.Squid), b.Proxy.Inspector(), b.host.Done, b.log), nil
}

// helperEngine is what Squid's helpers decide with.
func (e *Engine) helperEngine() *helper.Engine {
	return &helper.Engine{
		Decider: e.Policies.Engine, Accept: e.Policies.Accept, Balance: e.balance, Pages: e.Pages,
		Identify: func(ctx context.Context, addr netip.Addr) (filter.Client, error) { return e.Identify(ctx, addr) },
		Member: func(ctx context.Context, addr netip.Addr, user string) (filter.Client, error) {
			return e.Identity.Member(ctx, addr, user, "squid")
		},
		Verify:   e.Identity.Verify,
		HasGroup: e.Identity.HasGroup,
		Checks:   e.Checks.Checks,
	}
}

// AnswerSquid answers questions of Squid of a kind by the settings in file alone,
// until in ends. Nothing is recorded, and what others tell a running gateway is
// not known here.
func AnswerSquid(ctx context.Context, file, kind string, in io.Reader, out io.Writer, log *slog.Logger) error {
	s, err := configuration.Read(file)
	if err != nil {
		return err
	}
	e, err := Build(ctx, s, nil, nil, log)
	if err != nil {
		return err
	}
	defer e.Drop(nil, log)
	h := helper.New("", e.Proxy.Inspector(), nil, log)
	if err := h.Use(e.helperEngine()); err != nil {
		return err
	}
	if err := h.Listen(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	err = h.Answer(ctx, kind, in, out)
	stop()
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}
